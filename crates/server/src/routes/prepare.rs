//! Work before the first token: templates and tokenizers, off the threads that serve connections.

use std::sync::Arc;

use tokenmill::Error;

use crate::{error::ApiError, state::ServerState};

/// Bodies above this size are prepared one for each processor at a time.
const LARGE_BYTES: usize = 64 << 10;

/// Runs `work` where it may occupy a processor. `bytes` is the size of the body that it works on.
pub async fn prepare<T: Send + 'static>(
    state: &Arc<ServerState>,
    bytes: usize,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, ApiError> {
    let _turn = state.turn(bytes > LARGE_BYTES).await?;
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ApiError::internal("preparing the prompt failed"))?.map_err(ApiError::from)
}
