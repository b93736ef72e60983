//! What a completion reply shows, whole or streamed.

use std::{fmt, sync::Arc};

use tokenmill::{DecodeStream, Model, Output, Prompt, TokenId, TokenLogprob};

use super::chat::{check_finished, token_names};
use crate::{
    error::ApiError,
    state::ServedModel,
    wire::{
        CompletionRequest,
        logprobs::{CompletionLogprobs, Entry, TokenNames, prompt_logprobs},
        reply::{CompletionChoice, Ending},
    },
};

/// What a completion reply shows, whole or streamed.
#[derive(Clone, Debug)]
pub struct Form {
    model: Model,
    /// Choices for each prompt.
    pub n: usize,
    /// How tokens are named.
    names: TokenNames,
    /// Log-probabilities of this many rivals.
    pub logprobs: Option<u32>,
    /// The same of prompts, in a field of its own.
    prompt_logprobs: Option<u32>,
    /// Repeat the prompt: for each prompt its text where it came as text.
    echo: Option<Vec<Option<String>>>,
    /// For each prompt: whether token ids are shown.
    ids: Vec<bool>,
    /// Whether the prompt's ids are shown.
    pub prompt_ids: bool,
    /// Whether control tokens leave no text.
    skip_special: bool,
}

/// An echoed prompt; its choices share it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Echo {
    /// Its text.
    pub text: String,
    /// Its tokens' log-probabilities; empty where not asked for.
    pub logprobs: Arc<[Entry]>,
    /// The text's length in characters.
    pub chars: usize,
}

/// Where tokens begin in a text that grows by them, in characters.
pub struct Offsets {
    model: Model,
    decoder: Option<DecodeStream>,
    chars: usize,
}

impl Offsets {
    fn new(model: &Model, skip_special: bool, begin: usize) -> Offsets {
        let decoder = model.tokenizer().map(|known| DecodeStream::new(known, skip_special));
        Offsets { model: model.clone(), decoder, chars: begin }
    }

    /// Where this token begins; within a character, where the character does.
    fn of(&mut self, token: TokenId) -> usize {
        let Some(decoder) = &mut self.decoder else { return self.chars };
        let piece = decoder.push(token);
        let begin = self.chars;
        self.chars += piece.chars().count();
        let bytes = bytes_of(&self.model, token);
        let own = String::from_utf8_lossy(&bytes);
        // Before it may stand what was held back: bytes that turn out to be no character.
        if piece.ends_with(&*own) { self.chars - own.chars().count() } else { begin }
    }
}

impl fmt::Debug for Offsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offsets").field("chars", &self.chars).finish_non_exhaustive()
    }
}

fn bytes_of(model: &Model, token: TokenId) -> Vec<u8> {
    let bytes = model.tokenizer().and_then(|tokenizer| tokenizer.token_bytes(token));
    bytes.unwrap_or_default()
}

impl Form {
    /// What this request wants to see.
    pub fn of(request: &CompletionRequest, served: &ServedModel) -> Result<Form, ApiError> {
        let shared = &request.shared;
        let text_of = |prompt: &Prompt| match prompt {
            Prompt::Text(text) => Some(text.clone()),
            Prompt::Tokens(_) => None,
        };
        // Who asks in ids, or of a model that has no texts, is answered in ids as well.
        let shows_ids = |prompt: &Prompt| {
            let by_default = matches!(prompt, Prompt::Tokens(_)) || !served.model.has_tokenizer();
            shared.return_token_ids.unwrap_or(by_default)
        };
        Ok(Form {
            model: served.model.clone(),
            n: shared.options.n.unwrap_or(1) as usize,
            names: token_names(shared, served),
            logprobs: shared.options.logprobs,
            prompt_logprobs: shared.options.prompt_logprobs,
            echo: request.echo.then(|| request.prompts.iter().map(text_of).collect()),
            ids: request.prompts.iter().map(shows_ids).collect(),
            prompt_ids: shared.return_token_ids.unwrap_or(false),
            skip_special: served.model.resolve(&shared.options)?.skip_special_tokens,
        })
    }

    /// Entries of the reply for each token of a prompt, over all choices, and the field that asks for most of them.
    pub fn entries(&self) -> (usize, &'static str) {
        let with_rivals = |rivals: Option<u32>| rivals.map_or(0, |rivals| 1 + rivals as usize);
        let echoed = self.echo.as_ref().map_or(0, |_| with_rivals(self.logprobs));
        let listed = with_rivals(self.prompt_logprobs);
        // Plain text and plain ids once are no more than the request itself.
        let repeated = usize::from(self.echo.is_some()) + usize::from(self.prompt_ids);
        let field = match (echoed, listed) {
            (0, 0) => "n",
            (echoed, listed) if listed >= echoed => "prompt_logprobs",
            _ => "logprobs",
        };
        (self.n * (echoed + listed) + (self.n - 1) * repeated, field)
    }

    /// Whether token ids are shown for a prompt's choices.
    pub fn shows_ids(&self, prompt: usize) -> bool {
        self.ids.get(prompt).copied().unwrap_or(false)
    }

    /// What is repeated of a prompt; nothing where no echo was asked for.
    pub fn echo(
        &self,
        prompt: usize,
        tokens: &[TokenId],
        logprobs: Option<&[Option<TokenLogprob>]>,
    ) -> Result<Echo, ApiError> {
        let Some(texts) = &self.echo else { return Ok(Echo::default()) };
        let given = texts.get(prompt).and_then(Option::as_deref);
        let text = match given {
            Some(text) => text.to_owned(),
            None => self.text_of(tokens)?,
        };
        let mut echo = Echo { chars: text.chars().count(), text, logprobs: [].into() };
        if let (Some(rivals), Some(logprobs)) = (self.logprobs, logprobs) {
            let offsets = self.offsets_in(&echo, given.is_some(), tokens)?;
            let entry = |((token, logprob), offset): ((&TokenId, &Option<_>), usize)| match logprob
            {
                Some(logprob) => Entry::new(logprob, rivals, self.names, offset),
                None => self.first_entry(*token, offset),
            };
            echo.logprobs = tokens.iter().zip(logprobs).zip(offsets).map(entry).collect();
        }
        Ok(echo)
    }

    /// Where a prompt's tokens begin in its text. The control token that a tokenizer puts before a given text is no part of
    /// it, and a text that the tokenizer changes in reading may be shorter than that of its tokens.
    fn offsets_in(
        &self,
        echo: &Echo,
        given: bool,
        tokens: &[TokenId],
    ) -> Result<Vec<usize>, ApiError> {
        let whole = !given || self.text_of(tokens)? == echo.text;
        let framed = !whole && self.text_of(&tokens[1..])? == echo.text;
        let mut offsets = Offsets::new(&self.model, !whole && !framed, 0);
        let (frame, inside) = tokens.split_at(usize::from(framed));
        let inside = inside.iter().map(|token| offsets.of(*token).min(echo.chars));
        Ok(frame.iter().map(|_| 0).chain(inside).collect())
    }

    fn text_of(&self, tokens: &[TokenId]) -> Result<String, ApiError> {
        match self.model.has_tokenizer() {
            true => Ok(self.model.detokenize(tokens, false)?),
            false => Ok(String::new()),
        }
    }

    fn first_entry(&self, token: TokenId, offset: usize) -> Entry {
        let bytes = bytes_of(&self.model, token);
        let text = String::from_utf8_lossy(&bytes);
        Entry::first(token, &text, &bytes, self.names, offset)
    }

    /// Where the tokens of a choice begin, behind the echo's characters.
    pub fn offsets_behind(&self, chars: usize) -> Offsets {
        Offsets::new(&self.model, self.skip_special, chars)
    }

    /// Log-probabilities of generated tokens.
    pub fn logprobs_of(&self, tokens: &[TokenLogprob], offsets: &mut Offsets) -> Vec<Entry> {
        let rivals = self.logprobs.unwrap_or(0);
        let entry =
            |token: &TokenLogprob| Entry::new(token, rivals, self.names, offsets.of(token.token));
        tokens.iter().map(entry).collect()
    }

    /// The choices of a prompt.
    pub fn choices(
        &self,
        prompt: usize,
        output: Output,
        choices: &mut Vec<CompletionChoice>,
    ) -> Result<(), ApiError> {
        let echo = self.echo(prompt, &output.prompt, output.prompt_logprobs.as_deref())?;
        let prompt_logprobs = self
            .prompt_logprobs
            .and_then(|rivals| Some(prompt_logprobs(output.prompt_logprobs?, rivals, self.names)));
        for (index, choice) in output.choices.into_iter().enumerate() {
            check_finished(choice.finish_reason)?;
            let logprobs = self.logprobs.map(|_| CompletionLogprobs {
                echo: Arc::clone(&echo.logprobs),
                own: self.logprobs_of(&choice.logprobs, &mut self.offsets_behind(echo.chars)),
            });
            choices.push(CompletionChoice {
                index: prompt * self.n + index,
                text: [echo.text.as_str(), choice.text.as_deref().unwrap_or_default()].concat(),
                logprobs,
                ending: Ending {
                    finish_reason: Some(choice.finish_reason),
                    stop_reason: choice.stop_reason,
                },
                token_ids: self.shows_ids(prompt).then_some(choice.tokens),
                prompt_token_ids: self.prompt_ids.then(|| Arc::clone(&output.prompt)),
                prompt_logprobs: prompt_logprobs.clone(),
            });
        }
        Ok(())
    }
}
