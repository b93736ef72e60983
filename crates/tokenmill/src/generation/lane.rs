//! One choice of a generation: its ticket, its text, its end.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use foundation::TokenId;
use models::prompt::Tokenizer;
use runtime::{
    batch::TokenLogprobs,
    engine::{Canceller, EngineEvent, FinishReason as EngineReason, Ticket},
};

use super::{
    event::{FinishReason, GenerationEvent, StopReason, TokenLogprob, TopLogprob, Usage},
    text::{Piece, TextEnd, TextRules, TextStream},
};
use crate::error::Error;

/// What all choices of a generation have in common.
#[derive(Clone)]
pub(crate) struct LaneRules {
    /// Absent where the checkpoint has none: then there is no text.
    pub tokenizer: Option<Tokenizer>,
    /// What becomes of the text.
    pub text: TextRules,
    /// Stop tokens that the request named; they are reported as such.
    pub stop_token_ids: Vec<TokenId>,
    /// The checkpoint's end tokens, where they end a choice.
    pub eos_token_ids: Vec<TokenId>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// The prompt's log-probabilities were asked for.
    pub prompt_logprobs: bool,
    /// Most time that the request may take.
    pub time_limit: Option<Duration>,
}

/// One choice. Its ticket is dropped, and with it what is left of the request, as soon as the end is known.
pub(crate) struct Lane {
    choice: usize,
    ticket: Option<Ticket>,
    rules: Arc<LaneRules>,
    text: Option<TextStream>,
    usage: Usage,
    started: bool,
    prompt_logprobs: Option<Vec<Option<TokenLogprob>>>,
}

impl Lane {
    pub fn new(choice: usize, ticket: Ticket, rules: &Arc<LaneRules>) -> Self {
        let text =
            rules.tokenizer.as_ref().map(|tokenizer| TextStream::new(tokenizer, &rules.text));
        let usage = Usage { prompt_tokens: rules.prompt_tokens, ..Usage::default() };
        Lane {
            choice,
            ticket: Some(ticket),
            rules: Arc::clone(rules),
            text,
            usage,
            started: false,
            prompt_logprobs: None,
        }
    }

    pub fn canceller(&self) -> Option<Canceller> {
        self.ticket.as_ref().map(Ticket::canceller)
    }

    pub fn is_done(&self) -> bool {
        self.ticket.is_none()
    }

    pub fn has_text(&self) -> bool {
        self.text.is_some()
    }

    /// Ends without a word, because another choice has failed.
    pub fn abandon(&mut self) {
        self.ticket = None;
    }

    /// Whether [`prompt_event`](Self::prompt_event) has all that it tells.
    pub fn knows_prompt(&self) -> bool {
        self.started && (!self.rules.prompt_logprobs || self.prompt_logprobs.is_some())
    }

    pub fn prompt_event(&mut self, prompt: &Arc<[TokenId]>) -> GenerationEvent {
        GenerationEvent::Prompt {
            tokens: Arc::clone(prompt),
            cached_tokens: self.usage.cached_tokens,
            logprobs: self.prompt_logprobs.take(),
        }
    }

    /// The engine's next word. Ready with `None` only where the engine broke its promise of a last event.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<EngineEvent>> {
        match &mut self.ticket {
            Some(ticket) => ticket.poll_next(context),
            None => Poll::Pending,
        }
    }

    /// Turns the engine's word into events.
    pub fn take(
        &mut self,
        event: Option<EngineEvent>,
        cancelled: bool,
        events: &mut Vec<GenerationEvent>,
    ) -> Result<(), Error> {
        match event {
            Some(EngineEvent::Started { cached_tokens }) => {
                self.started = true;
                self.usage.cached_tokens = cached_tokens as usize;
            }
            Some(EngineEvent::PromptLogprobs(rows)) => {
                let rows = rows.into_iter().map(|row| row.map(|row| self.spell(row)));
                self.prompt_logprobs = Some(rows.collect());
            }
            // What the engine had made before it heard of the cancellation is not shown: the caller has left.
            Some(EngineEvent::Token { .. }) if cancelled => {}
            Some(EngineEvent::Token { token, logprobs }) => self.grow(token, logprobs, events),
            Some(EngineEvent::Finished { reason, .. }) => return self.end(reason, events),
            None => {
                self.ticket = None;
                return Err(Error::Internal("a request ended without a last event".into()));
            }
        }
        Ok(())
    }

    /// A token came. A stop token is told among the tokens and leaves no text, unless it was asked for.
    fn grow(
        &mut self,
        token: TokenId,
        logprobs: Option<TokenLogprobs>,
        events: &mut Vec<GenerationEvent>,
    ) {
        self.usage.completion_tokens += 1;
        let shown = !self.ends_with(token) || self.rules.text.include_stop;
        let text = self.text.as_mut().filter(|_| shown);
        let piece = text.map(|text| text.push(token)).unwrap_or_default();
        let logprobs = logprobs.map(|row| self.spell(row)).into_iter().collect();
        let end = piece.end;
        events.push(self.delta(piece, vec![token], logprobs));
        if let Some(end) = end {
            self.finish_at(end, events);
        }
    }

    fn ends_with(&self, token: TokenId) -> bool {
        self.rules.stop_token_ids.contains(&token) || self.rules.eos_token_ids.contains(&token)
    }

    fn end(
        &mut self,
        reason: EngineReason,
        events: &mut Vec<GenerationEvent>,
    ) -> Result<(), Error> {
        self.ticket = None;
        let (reason, stop_reason) = match reason {
            EngineReason::NoNumbers(text) => return Err(Error::NoNumbers(text)),
            EngineReason::ConstraintLost(text) => return Err(Error::ConstraintLost(text)),
            EngineReason::TimedOut => {
                let limit = self.rules.time_limit.unwrap_or_default();
                return Err(Error::TimedOut(limit));
            }
            EngineReason::Failed(text) => return Err(Error::BrokeOff(text)),
            EngineReason::Length => (FinishReason::Length, None),
            EngineReason::StopText => (FinishReason::Stop, None),
            EngineReason::Cancelled => (FinishReason::Cancelled, None),
            EngineReason::Stop { token } => {
                let named = self.rules.stop_token_ids.contains(&token);
                (FinishReason::Stop, named.then_some(StopReason::Token(token)))
            }
        };
        let rest = self.text.as_mut().map(TextStream::finish).unwrap_or_default();
        let end = rest.end;
        if rest != (Piece { end, ..Piece::default() }) {
            events.push(self.delta(rest, Vec::new(), Vec::new()));
        }
        match end {
            Some(end) => self.finish_at(end, events),
            None => events.push(self.finished(reason, stop_reason)),
        }
        Ok(())
    }

    fn delta(
        &self,
        piece: Piece,
        tokens: Vec<TokenId>,
        logprobs: Vec<TokenLogprob>,
    ) -> GenerationEvent {
        let Piece { text, reasoning, calls, end: _ } = piece;
        GenerationEvent::Delta { choice: self.choice, text, reasoning, calls, tokens, logprobs }
    }

    fn finish_at(&mut self, end: TextEnd, events: &mut Vec<GenerationEvent>) {
        if let Some(ticket) = self.ticket.take() {
            ticket.stop();
        }
        let stop_reason = match end {
            TextEnd::StopString(stop) => Some(StopReason::Text(self.rules.text.stop[stop].clone())),
            TextEnd::FirstCall => None,
        };
        events.push(self.finished(FinishReason::Stop, stop_reason));
    }

    fn finished(&self, reason: FinishReason, stop_reason: Option<StopReason>) -> GenerationEvent {
        let calls = self.text.as_ref().is_some_and(TextStream::has_calls);
        let reason = match reason {
            FinishReason::Stop if calls => FinishReason::ToolCalls,
            reason => reason,
        };
        GenerationEvent::Finished { choice: self.choice, reason, stop_reason, usage: self.usage }
    }

    fn spell(&self, row: TokenLogprobs) -> TokenLogprob {
        let (bytes, text) = self.spell_token(row.token);
        let top = row.top.into_iter().map(|(token, logprob)| {
            let (bytes, text) = self.spell_token(token);
            TopLogprob { token, text, bytes, logprob }
        });
        TokenLogprob {
            token: row.token,
            text,
            bytes,
            logprob: row.logprob,
            rank: row.rank,
            top: top.collect(),
        }
    }

    fn spell_token(&self, token: TokenId) -> (Vec<u8>, String) {
        let tokenizer = self.rules.tokenizer.as_ref();
        let bytes =
            tokenizer.and_then(|tokenizer| tokenizer.token_bytes(token)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (bytes, text)
    }
}
