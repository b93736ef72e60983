//! The chunks of a streamed completion.

use tokenmill::{GenerationEvent, TokenId, TokenLogprob};

use super::{chat::check_finished, completions::Form, tally::Tally};
use crate::{
    error::ApiError,
    sse::ChunkWriter,
    wire::{
        StreamOptions,
        logprobs::CompletionLogprobs,
        reply::{CompletionChoice, Ending, Head, Reply},
    },
};

/// Writes chunks: for each choice the echoed prompt where asked for, its text, the reason it ended; at last, where asked
/// for, one with the usage.
#[derive(Debug)]
pub struct CompletionWriter {
    head: Head,
    stream: StreamOptions,
    form: Form,
    /// For each choice of each prompt: characters of text so far, as log-probabilities count them.
    offsets: Vec<usize>,
    tally: Tally,
}

type Chunk = Reply<CompletionChoice>;

impl CompletionWriter {
    /// A writer for that many prompts.
    pub fn new(head: Head, stream: StreamOptions, prompts: usize, form: Form) -> Self {
        let choices = prompts * form.n;
        let tally = Tally::new(choices);
        CompletionWriter { head, stream, form, offsets: vec![0; choices], tally }
    }

    fn chunk(&self, index: usize, text: String) -> Chunk {
        let choice = CompletionChoice {
            index,
            text,
            logprobs: None,
            ending: Ending::default(),
            token_ids: None,
            prompt_token_ids: None,
            prompt_logprobs: None,
        };
        let mut chunk = Reply::new(self.head.clone(), vec![choice]);
        chunk.usage = self.tally.in_chunk(self.stream);
        chunk
    }

    fn on_prompt(
        &mut self,
        prompt: usize,
        tokens: &[TokenId],
        cached: usize,
        logprobs: Option<&[Option<TokenLogprob>]>,
    ) -> Result<Vec<Chunk>, ApiError> {
        self.tally.prompt(tokens.len(), cached);
        let echo = self.form.echo(prompt, tokens, logprobs)?;
        if echo.text.is_empty() && !self.form.prompt_ids {
            return Ok(Vec::new());
        }
        let mut chunks = Vec::with_capacity(self.form.n);
        for index in prompt * self.form.n..(prompt + 1) * self.form.n {
            self.offsets[index] = echo.offset;
            let mut chunk = self.chunk(index, echo.text.clone());
            let choice = &mut chunk.choices[0];
            choice.logprobs = self.form.logprobs.map(|_| echo.logprobs.clone());
            choice.prompt_token_ids = self.form.prompt_ids.then(|| tokens.to_vec());
            chunks.push(chunk);
        }
        Ok(chunks)
    }

    fn on_delta(
        &mut self,
        prompt: usize,
        index: usize,
        text: String,
        tokens: Vec<TokenId>,
        logprobs: &[TokenLogprob],
    ) -> Option<Chunk> {
        self.tally.grow(index, tokens.len());
        let shows_ids = self.form.shows_ids(prompt);
        let says_something = !text.is_empty() || shows_ids || !logprobs.is_empty();
        if !says_something {
            return None;
        }
        let mut entries = CompletionLogprobs::default();
        self.form.extend(&mut entries, logprobs, &mut self.offsets[index]);
        let mut chunk = self.chunk(index, text);
        chunk.choices[0].logprobs = self.form.logprobs.map(|_| entries);
        chunk.choices[0].token_ids = shows_ids.then_some(tokens);
        Some(chunk)
    }
}

impl ChunkWriter for CompletionWriter {
    type Chunk = Chunk;

    fn on_event(&mut self, prompt: usize, event: GenerationEvent) -> Result<Vec<Chunk>, ApiError> {
        let of_prompt = |choice| prompt * self.form.n + choice;
        match event {
            GenerationEvent::Prompt { tokens, cached_tokens, logprobs } => {
                self.on_prompt(prompt, &tokens, cached_tokens, logprobs.as_deref())
            }
            GenerationEvent::Delta { choice, text, tokens, logprobs } => {
                let index = of_prompt(choice);
                Ok(self.on_delta(prompt, index, text, tokens, &logprobs).into_iter().collect())
            }
            GenerationEvent::Finished { choice, reason, stop_reason, usage } => {
                check_finished(reason)?;
                let index = of_prompt(choice);
                self.tally.finish(index, usage);
                let mut chunk = self.chunk(index, String::new());
                chunk.choices[0].ending = Ending { finish_reason: Some(reason), stop_reason };
                Ok(vec![chunk])
            }
        }
    }

    fn on_end(&mut self) -> Result<Option<Chunk>, ApiError> {
        if !self.tally.is_complete() {
            return Err(ApiError::internal("the generation broke off"));
        }
        Ok(self.stream.include_usage.then(|| {
            let mut chunk = Reply::new(self.head.clone(), Vec::new());
            chunk.usage = Some(Some(self.tally.usage()));
            chunk
        }))
    }
}
