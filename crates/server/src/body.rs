//! Taking in a request's body: bounded in bytes, in time, and in the memory that all of them hold.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderMap, header},
};
use http_body_util::BodyExt;
use serde_json::{Map, Value};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

use crate::{
    error::ApiError,
    state::ServerState,
    wire::{fields::Problem, json::parse_object},
};

/// Bodies above this size are parsed on a thread of their own kind, so that no other request waits.
const PARSE_INLINE_BYTES: usize = 64 << 10;
/// After a refusal, so much of the body is read and thrown away, so that a client that writes before it reads still
/// sees the reply; then the connection is cut.
const DISCARD_BYTES: u64 = 64 << 20;
/// And so long.
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// Memory is taken in units of this many bytes.
const UNIT_BYTES: usize = 1 << 20;
/// How long a body may wait for memory before its request is refused.
const MEMORY_WAIT: Duration = Duration::from_secs(5);
/// When a client that was refused for want of memory should come again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A request's body, which must be a JSON object.
#[derive(Debug)]
pub struct JsonObject {
    body: Held,
}

impl JsonObject {
    /// Length of the body, in bytes.
    pub fn bytes(&self) -> usize {
        self.body.bytes.len()
    }

    /// Parses the object and has it read, a large one on a thread of another kind, so that no other request waits.
    pub async fn read<T: Send + 'static>(
        self,
        state: &ServerState,
        read: impl FnOnce(Map<String, Value>) -> Result<T, Vec<Problem>> + Send + 'static,
    ) -> Result<T, ApiError> {
        // The memory is given back once the object is read.
        let Held { bytes, memory: _memory } = self.body;
        let large = bytes.len() > PARSE_INLINE_BYTES;
        let work = move || -> Result<T, ApiError> { Ok(read(parse_object(&bytes)?)?) };
        if !large {
            return work();
        }
        let _turn = state.turn(true).await?;
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| ApiError::internal("reading the body failed"))?
    }
}

impl FromRequest<Arc<ServerState>> for JsonObject {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<ServerState>) -> Result<Self, ApiError> {
        let (head, body) = request.into_parts();
        if let Err(error) = check_head(&head.headers, state.options.max_body.0) {
            // A client that waits for leave to send its body is not given it.
            if !head.headers.contains_key(header::EXPECT) {
                discard(body);
            }
            return Err(error);
        }
        Ok(JsonObject { body: receive(body, state).await? })
    }
}

/// Memory for large bodies. A body takes of it what has arrived, beyond a first unit that is free: a slow sender holds no
/// more than it has sent.
#[derive(Debug)]
pub struct BodyMemory {
    units: Arc<Semaphore>,
}

impl BodyMemory {
    /// Memory for so many bodies of the greatest length.
    pub fn new(bodies: usize, max_body: u64) -> BodyMemory {
        let units = usize::try_from(max_body).unwrap_or(usize::MAX).div_ceil(UNIT_BYTES);
        let units = units.saturating_mul(bodies).clamp(1, Semaphore::MAX_PERMITS);
        BodyMemory { units: Arc::new(Semaphore::new(units)) }
    }

    /// One unit more; `None` where none is free in time.
    async fn unit(&self, wait: Duration) -> Option<OwnedSemaphorePermit> {
        timeout(wait, Arc::clone(&self.units).acquire_owned()).await.ok()?.ok()
    }
}

/// Bytes that have arrived, with the memory that they hold.
#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    memory: Option<OwnedSemaphorePermit>,
}

impl Held {
    fn units(&self) -> usize {
        1 + self.memory.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Adds bytes, once there is memory for them.
    async fn add(
        &mut self,
        data: &[u8],
        memory: &BodyMemory,
        wait: Duration,
    ) -> Result<(), ApiError> {
        while self.bytes.len() + data.len() > self.units() * UNIT_BYTES {
            let unit = memory.unit(wait).await.ok_or_else(|| ApiError::bodies_busy(RETRY_AFTER))?;
            match &mut self.memory {
                Some(held) => held.merge(unit),
                None => self.memory = Some(unit),
            }
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

fn check_head(headers: &HeaderMap, limit: u64) -> Result<(), ApiError> {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = media.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    // Not a formality: a browser sends other types across origins without asking, JSON it must ask for.
    if !essence.eq_ignore_ascii_case("application/json") {
        let message =
            format!("content-type must be application/json, not {:?}", media.unwrap_or("absent"));
        return Err(ApiError::unsupported_media(message));
    }
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(ApiError::unsupported_media("compressed bodies are not taken"));
    }
    match content_length(headers) {
        Some(length) if length > limit => Err(ApiError::body_too_large(limit)),
        _ => Ok(()),
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn receive(mut body: Body, state: &ServerState) -> Result<Held, ApiError> {
    let limit = state.options.max_body.0;
    let allowed = state.options.body_timeout;
    let deadline = Instant::now() + allowed;
    let mut held = Held::default();
    loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => return Err(ApiError::body_timeout(allowed)),
            Ok(None) => return Ok(held),
            Ok(Some(Err(error))) => {
                return Err(ApiError::bad_request(format!("the body broke off: {error}")));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Some(data) = frame.data_ref() else { continue };
        let added = match held.bytes.len() as u64 + data.len() as u64 > limit {
            true => Err(ApiError::body_too_large(limit)),
            false => held.add(data, &state.body_memory, MEMORY_WAIT).await,
        };
        if let Err(error) = added {
            discard(body);
            return Err(error);
        }
    }
}

/// Reads a refused body to its end, within bounds, while the reply is already on its way.
fn discard(mut body: Body) {
    tokio::spawn(async move {
        let deadline = Instant::now() + DISCARD_TIME;
        let mut left = DISCARD_BYTES;
        while let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await {
            let length = frame.data_ref().map_or(0, |data| data.len() as u64);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_takes_memory_as_it_arrives_and_gives_it_back() {
        let memory = BodyMemory::new(1, 2 << 20);
        let unit = vec![b' '; UNIT_BYTES];
        let mut slow = Held::default();
        slow.add(&unit, &memory, Duration::ZERO).await.unwrap();
        assert_eq!(memory.units.available_permits(), 2, "the first unit is free");
        let mut large = Held::default();
        for _ in 0..3 {
            large.add(&unit, &memory, Duration::ZERO).await.unwrap();
        }
        assert_eq!(memory.units.available_permits(), 0);
        let refused = slow.add(b" ", &memory, Duration::ZERO).await.unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.code), (503, Some("busy")));
        assert!(refused.retry_after.is_some());
        drop(large);
        slow.add(b" ", &memory, Duration::ZERO).await.unwrap();
    }
}
