//! Server-sent events: generations in, bytes out.
//!
//! Every event is `data: JSON` and an empty line; the last one is `data: [DONE]`. A failure in the middle is sent as an
//! event that holds an error body, and ends the stream without `[DONE]`: what came before is not whole. When the client
//! goes, the response body is dropped, with it the generations, and their rows leave at the next step.

use std::{collections::VecDeque, convert::Infallible, pin::Pin, time::Duration};

use axum::{
    http::{HeaderName, HeaderValue},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures::{Stream, StreamExt, stream};
use serde::Serialize;
use tokenmill::{Error, Generation, GenerationEvent};

use crate::error::{ApiError, Failure};

/// Silence after which a comment is sent, so that no proxy takes the connection for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Turns what happens into chunks.
pub trait ChunkWriter: Send + 'static {
    /// One event's JSON.
    type Chunk: Serialize;

    /// The chunks that an event of prompt number `prompt` gives.
    fn on_event(
        &mut self,
        prompt: usize,
        event: GenerationEvent,
    ) -> Result<Vec<Self::Chunk>, ApiError>;

    /// The chunk after the last event, if one is due.
    fn on_end(&mut self) -> Result<Option<Self::Chunk>, ApiError>;
}

/// A reply that streams these generations.
pub fn respond<W: ChunkWriter>(generations: Vec<Generation>, writer: W) -> Response {
    let events = generations.into_iter().enumerate().map(|(prompt, generation)| {
        let number = move |event: Result<_, Error>| (prompt, event.map_err(ApiError::from));
        StreamExt::map(generation, number).boxed()
    });
    let lines = lines(stream::select_all(events), writer);
    let events = lines.map(|line| Ok::<_, Infallible>(Event::default().data(line)));
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("keep-alive");
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    response.headers_mut().insert(
        // Proxies that would collect the reply before passing it on are told not to.
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

/// An event of one of the prompts.
type Numbered = (usize, Result<GenerationEvent, ApiError>);

struct Pump<W> {
    /// The request's, whose id then stands beside what is logged.
    span: tracing::Span,
    events: Pin<Box<dyn Stream<Item = Numbered> + Send>>,
    writer: W,
    ready: VecDeque<String>,
    ended: bool,
}

/// What stands behind each `data:`.
fn lines<W: ChunkWriter>(
    events: impl Stream<Item = Numbered> + Send + 'static,
    writer: W,
) -> impl Stream<Item = String> + Send {
    let pump = Pump {
        span: tracing::Span::current(),
        events: events.boxed(),
        writer,
        ready: VecDeque::new(),
        ended: false,
    };
    stream::unfold(pump, |mut pump| async move {
        loop {
            if let Some(line) = pump.ready.pop_front() {
                return Some((line, pump));
            }
            if pump.ended {
                return None;
            }
            let event = pump.events.next().await;
            pump = pump.take_anywhere(event).await?;
        }
    })
}

impl<W: ChunkWriter> Pump<W> {
    /// Takes an event; one that carries a prompt's log-probabilities, which may be many, on a thread that may be occupied.
    async fn take_anywhere(mut self, event: Option<Numbered>) -> Option<Self> {
        let large =
            matches!(&event, Some((_, Ok(GenerationEvent::Prompt { logprobs: Some(_), .. }))));
        let work = move || {
            self.take(event);
            self
        };
        if large { tokio::task::spawn_blocking(work).await.ok() } else { Some(work()) }
    }

    fn take(&mut self, event: Option<Numbered>) {
        let chunks = match event {
            Some((prompt, event)) => {
                event.and_then(|event| self.writer.on_event(prompt, event)).map(|c| (c, false))
            }
            None => self.writer.on_end().map(|chunk| (chunk.into_iter().collect(), true)),
        };
        match chunks {
            Ok((chunks, last)) => {
                self.ready.extend(chunks.iter().map(json));
                if last {
                    self.ready.push_back("[DONE]".to_owned());
                    self.ended = true;
                }
            }
            Err(error) => {
                let (status, Failure { code, message }) = (error.status.as_u16(), error.failure());
                self.span.in_scope(|| match status {
                    500 => tracing::error!(status, code, message, "a stream failed"),
                    _ => tracing::warn!(status, code, message, "a stream failed"),
                });
                self.ready.push_back(json(&error.body()));
                self.ended = true;
            }
        }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("replies have string keys and finite numbers")
}

#[cfg(test)]
mod tests {
    use tokenmill::{FinishReason, Usage};

    use super::*;

    /// Writes the text of deltas; fails on prompt 7.
    struct Plain;

    impl ChunkWriter for Plain {
        type Chunk = String;

        fn on_event(
            &mut self,
            prompt: usize,
            event: GenerationEvent,
        ) -> Result<Vec<String>, ApiError> {
            match event {
                _ if prompt == 7 => Err(ApiError::internal("seven")),
                GenerationEvent::Delta { text, .. } => Ok(vec![text]),
                _ => Ok(Vec::new()),
            }
        }

        fn on_end(&mut self) -> Result<Option<String>, ApiError> {
            Ok(Some("usage".into()))
        }
    }

    fn delta(prompt: usize, text: &str) -> Numbered {
        let event = GenerationEvent::Delta {
            reasoning: String::new(),
            calls: vec![],
            choice: 0,
            text: text.into(),
            tokens: vec![],
            logprobs: vec![],
        };
        (prompt, Ok(event))
    }

    async fn run(events: Vec<Numbered>) -> Vec<String> {
        lines(stream::iter(events), Plain).collect().await
    }

    #[tokio::test]
    async fn a_whole_stream_ends_with_done() {
        let usage = Usage::default();
        let end = GenerationEvent::Finished {
            choice: 0,
            reason: FinishReason::Stop,
            stop_reason: None,
            usage,
        };
        let lines = run(vec![delta(0, "a"), delta(1, "b"), (0, Ok(end))]).await;
        assert_eq!(lines, ["\"a\"", "\"b\"", "\"usage\"", "[DONE]"]);
    }

    #[tokio::test]
    async fn a_failure_is_sent_and_ends_the_stream_without_done() {
        for failure in [(0, Err(ApiError::internal("seven"))), delta(7, "x")] {
            let lines = run(vec![delta(0, "a"), failure, delta(0, "b")]).await;
            assert_eq!(lines.len(), 2);
            assert!(lines[1].starts_with("{\"error\":{\"message\":\"seven\""), "{}", lines[1]);
        }
    }
}
