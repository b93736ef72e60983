//! From events to the whole.

use std::sync::Arc;

use foundation::TokenId;

use super::event::{Choice, FinishReason, GenerationEvent, Output, Usage};

/// Gathers events until all choices are finished.
pub(super) struct OutputBuilder {
    output: Output,
}

impl OutputBuilder {
    pub fn new(prompt: Arc<[TokenId]>, choices: usize, has_text: bool) -> Self {
        let choice = Choice {
            text: has_text.then(String::new),
            tokens: Vec::new(),
            logprobs: Vec::new(),
            finish_reason: FinishReason::Cancelled,
            stop_reason: None,
        };
        let usage = Usage { prompt_tokens: prompt.len(), ..Usage::default() };
        let choices = vec![choice; choices];
        OutputBuilder { output: Output { prompt, prompt_logprobs: None, choices, usage } }
    }

    pub fn take(&mut self, event: GenerationEvent) {
        let output = &mut self.output;
        match event {
            GenerationEvent::Prompt { cached_tokens, logprobs, .. } => {
                output.usage.cached_tokens = cached_tokens;
                output.prompt_logprobs = logprobs;
            }
            GenerationEvent::Delta { choice, text, tokens, logprobs } => {
                let choice = &mut output.choices[choice];
                if let Some(whole) = &mut choice.text {
                    whole.push_str(&text);
                }
                choice.tokens.extend(tokens);
                choice.logprobs.extend(logprobs);
            }
            GenerationEvent::Finished { choice, reason, stop_reason, usage } => {
                let choice = &mut output.choices[choice];
                choice.finish_reason = reason;
                choice.stop_reason = stop_reason;
                output.usage.completion_tokens += usage.completion_tokens;
            }
        }
    }

    pub fn finish(self) -> Output {
        self.output
    }
}
