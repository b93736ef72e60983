//! Work before the first token: templates and tokenizers, off the threads that serve connections.

use std::sync::Arc;

use tokenmill::Error;

use crate::{error::ApiError, state::ServerState};

/// Runs `work` where it may occupy a processor. No more of it runs at once than there are processors.
pub async fn prepare<T: Send + 'static>(
    state: &Arc<ServerState>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, ApiError> {
    let permit = state.preparing.acquire().await.map_err(|_| ApiError::draining())?;
    let done = tokio::task::spawn_blocking(work).await;
    drop(permit);
    done.map_err(|_| ApiError::internal("preparing the prompt failed"))?.map_err(ApiError::from)
}
