//! `tokenmill synth`: a checkpoint with made-up weights.

use crate::{args::SynthArgs, error::Error, output::Output};

/// Writes it.
pub fn synth(_args: SynthArgs, _output: &Output) -> Result<(), Error> {
    Err(Error::Usage("not yet".into()))
}
