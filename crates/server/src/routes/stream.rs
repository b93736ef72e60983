//! What the streams of all routes have in common: the frame of a chunk, the count of tokens, the last word.

use serde::Serialize;
use tokenmill::{GenerationEvent, TokenId, TokenLogprob, ToolCallDelta};

use super::{chat::check_finished, tally::Tally};
use crate::{
    error::ApiError,
    sse::ChunkWriter,
    wire::{
        StreamOptions,
        reply::{Ending, Head, Reply},
    },
};

/// A route's part in its streams: what a choice looks like. Each choice returned becomes a chunk of its own. `index`
/// counts the choices of all prompts.
pub trait ChoiceShape: Send + 'static {
    /// What stands in a chunk's `choices`.
    type Choice: Serialize;

    /// A prompt has been taken in: what opens its choices.
    fn on_prompt(
        &mut self,
        prompt: usize,
        tokens: &[TokenId],
        logprobs: Option<&[Option<TokenLogprob>]>,
    ) -> Result<Opening<Self::Choice>, ApiError>;

    /// A choice has grown.
    fn on_delta(&mut self, index: usize, delta: Growth) -> Vec<Self::Choice>;

    /// A choice has ended.
    fn on_end(&mut self, index: usize, ending: Ending) -> Vec<Self::Choice>;
}

/// What opens a prompt's choices.
#[derive(Debug)]
pub struct Opening<C> {
    /// One a chunk; maybe none.
    pub choices: Vec<C>,
    /// Told beside the first of them.
    pub prompt_token_ids: Option<Vec<TokenId>>,
}

/// What is new of a choice.
#[derive(Debug)]
pub struct Growth {
    /// New text; empty while it is held back.
    pub text: String,
    /// New reasoning.
    pub reasoning: String,
    /// What is new of calls.
    pub calls: Vec<ToolCallDelta>,
    /// New tokens.
    pub tokens: Vec<TokenId>,
    /// Their log-probabilities, where asked for.
    pub logprobs: Vec<TokenLogprob>,
}

/// Writes the chunks of a stream: those of its shape, and where asked for one with the usage after all others.
#[derive(Debug)]
pub struct Chunks<S> {
    head: Head,
    options: StreamOptions,
    /// Choices of each prompt.
    n: usize,
    tally: Tally,
    shape: S,
}

impl<S: ChoiceShape> Chunks<S> {
    /// The chunks of that many prompts with `n` choices each.
    pub fn new(head: Head, options: StreamOptions, prompts: usize, n: usize, shape: S) -> Self {
        Chunks { head, options, n, tally: Tally::new(prompts * n), shape }
    }

    #[cfg(test)]
    pub(super) fn shape_mut(&mut self) -> &mut S {
        &mut self.shape
    }

    /// Puts each choice into a chunk of its own.
    fn frame(&self, choices: Vec<S::Choice>) -> Vec<Reply<S::Choice>> {
        let usage = self.tally.in_chunk(self.options);
        let frame = |choice| Reply { usage, ..Reply::new(self.head.clone(), vec![choice]) };
        choices.into_iter().map(frame).collect()
    }
}

impl<S: ChoiceShape> ChunkWriter for Chunks<S> {
    type Chunk = Reply<S::Choice>;

    fn on_event(
        &mut self,
        prompt: usize,
        event: GenerationEvent,
    ) -> Result<Vec<Self::Chunk>, ApiError> {
        let of_all = |choice| prompt * self.n + choice;
        match event {
            GenerationEvent::Prompt { tokens, cached_tokens, logprobs } => {
                self.tally.prompt(tokens.len(), cached_tokens);
                let opening = self.shape.on_prompt(prompt, &tokens, logprobs.as_deref())?;
                let mut chunks = self.frame(opening.choices);
                if let Some(first) = chunks.first_mut() {
                    first.prompt_token_ids = opening.prompt_token_ids;
                }
                Ok(chunks)
            }
            GenerationEvent::Delta { choice, text, reasoning, calls, tokens, logprobs } => {
                let index = of_all(choice);
                self.tally.grow(index, tokens.len());
                let growth = Growth { text, reasoning, calls, tokens, logprobs };
                let choices = self.shape.on_delta(index, growth);
                Ok(self.frame(choices))
            }
            GenerationEvent::Finished { choice, reason, stop_reason, usage } => {
                check_finished(reason)?;
                let index = of_all(choice);
                self.tally.finish(index, usage);
                let ending = Ending { finish_reason: Some(reason), stop_reason };
                let choices = self.shape.on_end(index, ending);
                Ok(self.frame(choices))
            }
        }
    }

    fn on_end(&mut self) -> Result<Option<Self::Chunk>, ApiError> {
        if !self.tally.is_complete() {
            return Err(ApiError::broke_off("the generation broke off"));
        }
        Ok(self.options.include_usage.then(|| {
            let usage = Some(Some(self.tally.usage()));
            Reply { usage, ..Reply::new(self.head.clone(), Vec::new()) }
        }))
    }
}
