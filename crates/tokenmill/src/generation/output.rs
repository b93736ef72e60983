//! From events to the whole.

use std::sync::Arc;

use foundation::TokenId;

use super::event::{Choice, FinishReason, GenerationEvent, Output, ToolCall, ToolCallDelta, Usage};

/// Gathers events until all choices are finished.
pub(super) struct OutputBuilder {
    output: Output,
    /// For each choice, its calls by index; not all of them need be complete.
    calls: Vec<ToolCalls>,
}

/// The calls of one answer, gathered from their parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolCalls(Vec<(usize, ToolCall)>);

impl ToolCalls {
    /// Takes the next part.
    pub fn take(&mut self, delta: ToolCallDelta) {
        match delta {
            ToolCallDelta::Start { index, id, name } => {
                self.0.push((index, ToolCall { id, name, arguments: String::new() }));
            }
            ToolCallDelta::Arguments { index, text } => {
                if let Some((_, call)) = self.0.iter_mut().find(|(known, _)| *known == index) {
                    call.arguments.push_str(&text);
                }
            }
            ToolCallDelta::End { .. } => {}
            ToolCallDelta::Withdrawn { index } => self.0.retain(|(known, _)| *known != index),
        }
    }

    /// The calls in order.
    pub fn finish(self) -> Vec<ToolCall> {
        self.0.into_iter().map(|(_, call)| call).collect()
    }
}

impl OutputBuilder {
    pub fn new(prompt: Arc<[TokenId]>, choices: usize, has_text: bool) -> Self {
        let choice = Choice {
            text: has_text.then(String::new),
            reasoning: None,
            calls: Vec::new(),
            tokens: Vec::new(),
            logprobs: Vec::new(),
            finish_reason: FinishReason::Cancelled,
            stop_reason: None,
        };
        let usage = Usage { prompt_tokens: prompt.len(), ..Usage::default() };
        let calls = vec![ToolCalls::default(); choices];
        let choices = vec![choice; choices];
        OutputBuilder { output: Output { prompt, prompt_logprobs: None, choices, usage }, calls }
    }

    pub fn take(&mut self, event: GenerationEvent) {
        let output = &mut self.output;
        match event {
            GenerationEvent::Prompt { cached_tokens, logprobs, .. } => {
                output.usage.cached_tokens = cached_tokens;
                output.prompt_logprobs = logprobs;
            }
            GenerationEvent::Delta { choice, text, reasoning, calls, tokens, logprobs } => {
                calls.into_iter().for_each(|delta| self.calls[choice].take(delta));
                let choice = &mut output.choices[choice];
                if let Some(whole) = &mut choice.text {
                    whole.push_str(&text);
                }
                if !reasoning.is_empty() {
                    choice.reasoning.get_or_insert_default().push_str(&reasoning);
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

    pub fn finish(mut self) -> Output {
        for (choice, calls) in self.output.choices.iter_mut().zip(self.calls) {
            choice.calls = calls.finish();
        }
        self.output
    }
}
