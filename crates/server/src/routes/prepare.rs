//! Work before the first token: templates and tokenizers, off the threads that serve connections.

use std::sync::Arc;

use tokenmill::Error;

use crate::{error::ApiError, state::ServerState};

/// Bodies above this size, and those with constraints, are prepared one for each processor at a time.
const LARGE_BYTES: usize = 64 << 10;

/// What work before the first token works on.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The size of the body.
    pub bytes: usize,
    /// It holds a constraint to compile: little text may be much work.
    pub constrained: bool,
}

impl Load {
    /// A body without a constraint.
    pub fn plain(bytes: usize) -> Self {
        Load { bytes, constrained: false }
    }

    fn is_large(self) -> bool {
        self.bytes > LARGE_BYTES || self.constrained
    }
}

/// Runs `work` where it may occupy a processor.
pub async fn prepare<T: Send + 'static>(
    state: &Arc<ServerState>,
    load: Load,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, ApiError> {
    let _turn = state.turn(load.is_large()).await?;
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ApiError::internal("preparing the prompt failed"))?.map_err(ApiError::from)
}
