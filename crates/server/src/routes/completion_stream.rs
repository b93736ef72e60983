//! The chunks of a streamed completion.

use std::sync::Arc;

use tokenmill::{TokenId, TokenLogprob};

use super::{
    completion_form::{Form, Offsets},
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
    /// For each choice of each prompt: where its tokens begin; empty where no log-probabilities are asked for.
    offsets: Vec<Offsets>,
}

impl CompletionShape {
    /// The shape of that many prompts.
    pub fn new(form: Form, prompts: usize) -> Self {
        let choices = form.logprobs.map_or(0, |_| prompts * form.n);
        let offsets = (0..choices).map(|_| form.offsets_behind(0)).collect();
        CompletionShape { offsets, form }
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
        let ids: Option<Arc<[TokenId]>> = self.form.prompt_ids.then(|| tokens.into());
        for index in prompt * self.form.n..(prompt + 1) * self.form.n {
            if let Some(offsets) = self.offsets.get_mut(index) {
                *offsets = self.form.offsets_behind(echo.chars);
            }
            let logprobs = self
                .form
                .logprobs
                .map(|_| CompletionLogprobs { echo: Arc::clone(&echo.logprobs), own: Vec::new() });
            opening.choices.push(CompletionChoice {
                logprobs,
                prompt_token_ids: ids.clone(),
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
        let form = &self.form;
        let logprobs = self.offsets.get_mut(index).map(|offsets| CompletionLogprobs {
            echo: [].into(),
            own: form.logprobs_of(&delta.logprobs, offsets),
        });
        vec![CompletionChoice {
            logprobs,
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
