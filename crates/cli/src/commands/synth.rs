//! `tokenmill synth`: a checkpoint with made-up weights.

use std::{fs, io, path::Path};

use tokenmill::{options::SyntheticWeights, synth::write_checkpoint};

use crate::{
    args::SynthArgs, error::Error, interrupt::Interrupts, output::Output, progress::Progress,
};

/// Writes it, and says where.
pub fn synth(args: SynthArgs, output: &Output) -> Result<(), Error> {
    refuse_occupied(&args.out)?;
    let interrupts = Interrupts::listen()?.and_termination()?;
    let mut progress = Progress::new(output, &interrupts);
    let weights = SyntheticWeights { seed: args.seed, dtype: args.dtype };
    write_checkpoint(&args.config, &args.out, weights, &mut |done, total| {
        progress.writing(done, total)
    })?;
    progress.clear();
    output.line(args.out.display())
}

/// Nothing is written over: the directory is new, or empty.
fn refuse_occupied(path: &Path) -> Result<(), Error> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries.count(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(Error::file(path, error)),
    };
    if entries > 0 {
        return Err(Error::Usage(format!("{} is not empty: name a new directory", path.display())));
    }
    Ok(())
}
