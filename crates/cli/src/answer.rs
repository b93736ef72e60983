//! One answer as it streams by: where its text goes, and what it took.

use std::time::{Duration, Instant};

use serde::Serialize;
use tokenmill::{
    CancellationToken, FinishReason, GenerationEvent, Model, Origin, ToolCallDelta, Usage,
};

use crate::{error::Error, interrupt::Interrupts, output::Output};

/// An answer that came to its end.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Its text.
    pub text: String,
    /// The reasoning before it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Tokens taken and made.
    pub usage: Usage,
    /// How long it took.
    #[serde(flatten)]
    pub speed: Speed,
}

impl Answer {
    /// What cut it: the limit of tokens, or the context.
    pub fn cut(&self, limit: Option<u32>) -> String {
        let tokens = self.usage.completion_tokens;
        match limit.filter(|limit| tokens >= *limit as usize) {
            Some(limit) => format!(
                "cut after {limit} tokens: --max-tokens (in a chat /set max-tokens) says how many"
            ),
            None => format!("cut after {tokens} tokens: the model's context is full"),
        }
    }
}

/// A refusal with what helps `model`: the context can be made longer only where it is shorter than the model allows.
pub fn refused(error: tokenmill::Error, model: &Model) -> Error {
    let tokenmill::Error::ContextLengthExceeded { .. } = error else { return error.into() };
    let length = model.settings().iter().find(|setting| setting.name == "max_sequence_tokens");
    let hint = match length.map(|setting| setting.origin) {
        Some(Origin::Given) => "shorten the prompt or raise --max-model-len",
        Some(Origin::Derived) => {
            "shorten the prompt or give the cache more memory with --kv-memory"
        }
        _ => "shorten the prompt: the model was made for no more",
    };
    Error::Hinted { source: error, hint: hint.into() }
}

/// How fast an answer came.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Speed {
    /// From the request to the first token, seconds; absent where there was none.
    pub first_token_s: Option<f64>,
    /// From the request to the end, seconds.
    pub total_s: f64,
    /// Tokens after the first, a second; absent where there were none.
    pub tokens_per_s: Option<f64>,
}

/// How the events of an answer are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// The text, as it comes; on a terminal the reasoning before it.
    Text,
    /// Every event as a JSON line.
    Json,
}

/// An event, as `--json` prints it.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    Prompt {
        tokens: usize,
        cached_tokens: usize,
    },
    Delta {
        text: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        reasoning: &'a str,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        calls: &'a [ToolCallDelta],
        tokens: &'a [tokenmill::TokenId],
    },
    Answer(&'a Answer),
}

/// Shows `events` until their end. Ctrl-C cancels through `cancel`; the answer then ends as cancelled.
pub fn stream(
    events: impl IntoIterator<Item = tokenmill::Result<GenerationEvent>>,
    cancel: CancellationToken,
    show: Show,
    output: &Output,
    interrupts: &Interrupts,
) -> Result<Answer, Error> {
    let _cancel_on_interrupt = interrupts.during(move || cancel.cancel());
    let mut clock = Clock::start();
    let (mut text, mut reasoning) = (String::new(), String::new());
    for event in events {
        match event? {
            GenerationEvent::Prompt { tokens, cached_tokens, .. } => {
                if show == Show::Json {
                    output.json_line(&Line::Prompt { tokens: tokens.len(), cached_tokens })?;
                }
            }
            GenerationEvent::Delta { text: piece, reasoning: thought, calls, tokens, .. } => {
                clock.tick(tokens.len());
                let delta = Line::Delta {
                    text: &piece,
                    reasoning: &thought,
                    calls: &calls,
                    tokens: &tokens,
                };
                reasoning.push_str(&thought);
                match show {
                    Show::Json => output.json_line(&delta)?,
                    Show::Text => {
                        output.reasoning(&thought)?;
                        let begins = text.is_empty() && !piece.is_empty();
                        if begins && !reasoning.is_empty() {
                            output.reasoning("\n\n")?;
                        }
                        output.answer(&piece)?;
                    }
                }
                text.push_str(&piece);
            }
            GenerationEvent::Finished { reason, usage, .. } => {
                let speed = clock.stop();
                let answer = Answer { text, reasoning, finish_reason: reason, usage, speed };
                finish(&answer, show, output)?;
                tracing::debug!(
                    prompt_tokens = answer.usage.prompt_tokens,
                    cached_tokens = answer.usage.cached_tokens,
                    completion_tokens = answer.usage.completion_tokens,
                    first_token_s = answer.speed.first_token_s,
                    total_s = answer.speed.total_s,
                    "answered"
                );
                return Ok(answer);
            }
        }
    }
    Err(tokenmill::Error::Internal("an answer ended without saying why".into()).into())
}

fn finish(answer: &Answer, show: Show, output: &Output) -> Result<(), Error> {
    match show {
        Show::Json => output.json_line(&Line::Answer(answer)),
        Show::Text if answer.text.ends_with('\n') => Ok(()),
        Show::Text if answer.text.is_empty() && !answer.reasoning.is_empty() => {
            output.reasoning("\n")?;
            output.note("the answer ended within its reasoning");
            Ok(())
        }
        Show::Text => output.answer("\n"),
    }
}

/// Notes when tokens came.
struct Clock {
    start: Instant,
    first: Option<Instant>,
    last: Instant,
    tokens: usize,
}

impl Clock {
    fn start() -> Self {
        let start = Instant::now();
        Clock { start, first: None, last: start, tokens: 0 }
    }

    fn tick(&mut self, tokens: usize) {
        if tokens > 0 {
            self.last = Instant::now();
            self.first.get_or_insert(self.last);
            self.tokens += tokens;
        }
    }

    fn stop(&self) -> Speed {
        let since = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64();
        let decoding = self.first.map_or(0.0, |first| since(first, self.last));
        let further = self.tokens.saturating_sub(1);
        Speed {
            first_token_s: self.first.map(|first| since(self.start, first)),
            total_s: Duration::as_secs_f64(&self.start.elapsed()),
            tokens_per_s: (further > 0 && decoding > 0.0).then(|| further as f64 / decoding),
        }
    }
}
