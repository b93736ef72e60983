//! Writes checkpoints with made-up weights, for benches.

use std::path::Path;

use foundation::Bytes;
use runtime::backend::LoadError;

use crate::{
    error::{Error, Result},
    options::SyntheticWeights,
};

/// Writes the checkpoint that the configuration in `config_dir` describes into `out_dir`: sharded safetensors with an
/// index, and the small files beside the configuration. The weights equal those of
/// [`ModelOptions::synthetic`](crate::ModelOptions::synthetic).
///
/// `progress` is told bytes done and bytes in all; it returns `false` to cancel, and then no weights stay behind.
pub fn write_checkpoint(
    config_dir: &Path,
    out_dir: &Path,
    weights: SyntheticWeights,
    progress: &mut dyn FnMut(Bytes, Bytes) -> bool,
) -> Result<()> {
    let mut cancelled = false;
    let SyntheticWeights { seed, dtype } = weights;
    let written = models::synthetic::write_checkpoint(
        config_dir,
        out_dir,
        seed,
        dtype,
        &mut |done, total| {
            cancelled = !progress(done, total);
            !cancelled
        },
    );
    match written {
        Ok(()) if cancelled => Err(Error::Cancelled),
        Ok(()) => Ok(()),
        Err(models::Error::Io { path, source }) => Err(Error::File { path, source }),
        Err(error) => Err(Error::Load {
            path: config_dir.to_owned(),
            source: LoadError::Checkpoint(error.to_string()),
        }),
    }
}
