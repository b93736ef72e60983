//! The chunks of a streamed completion.

use tokenmill::{TokenId, TokenLogprob};

use super::{
    completions::Form,
    stream::{ChoiceShape, Growth, Opening},
};
use crate::{
    error::ApiError,
    wire::{
        logprobs::CompletionLogprobs,
        reply::{CompletionChoice, Ending},
    },
};

/// Writes for each choice the echoed prompt where asked for, its text, and the reason it ended.
#[derive(Debug)]
pub struct CompletionShape {
    form: Form,
    /// For each choice of each prompt: characters of text so far, as log-probabilities count them.
    offsets: Vec<usize>,
}

impl CompletionShape {
    /// The shape of that many prompts.
    pub fn new(form: Form, prompts: usize) -> Self {
        CompletionShape { offsets: vec![0; prompts * form.n], form }
    }
}

impl ChoiceShape for CompletionShape {
    type Choice = CompletionChoice;

    fn on_prompt(
        &mut self,
        prompt: usize,
        tokens: &[TokenId],
        logprobs: Option<&[Option<TokenLogprob>]>,
    ) -> Result<Opening<CompletionChoice>, ApiError> {
        let echo = self.form.echo(prompt, tokens, logprobs)?;
        let mut opening = Opening { choices: Vec::new(), prompt_token_ids: None };
        if echo.text.is_empty() && !self.form.prompt_ids {
            return Ok(opening);
        }
        for index in prompt * self.form.n..(prompt + 1) * self.form.n {
            self.offsets[index] = echo.offset;
            opening.choices.push(CompletionChoice {
                logprobs: self.form.logprobs.map(|_| echo.logprobs.clone()),
                prompt_token_ids: self.form.prompt_ids.then(|| tokens.to_vec()),
                ..choice(index, echo.text.clone())
            });
        }
        Ok(opening)
    }

    fn on_delta(&mut self, index: usize, delta: Growth) -> Vec<CompletionChoice> {
        let shows_ids = self.form.shows_ids(index / self.form.n);
        let says_something = !delta.text.is_empty() || shows_ids || !delta.logprobs.is_empty();
        if !says_something {
            return Vec::new();
        }
        let mut entries = CompletionLogprobs::default();
        self.form.extend(&mut entries, &delta.logprobs, &mut self.offsets[index]);
        vec![CompletionChoice {
            logprobs: self.form.logprobs.map(|_| entries),
            token_ids: shows_ids.then_some(delta.tokens),
            ..choice(index, delta.text)
        }]
    }

    fn on_end(&mut self, index: usize, ending: Ending) -> Vec<CompletionChoice> {
        vec![CompletionChoice { ending, ..choice(index, String::new()) }]
    }
}

/// A choice that says `text` and nothing else.
fn choice(index: usize, text: String) -> CompletionChoice {
    CompletionChoice {
        index,
        text,
        logprobs: None,
        ending: Ending::default(),
        token_ids: None,
        prompt_token_ids: None,
        prompt_logprobs: None,
    }
}
