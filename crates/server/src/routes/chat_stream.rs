//! The chunks of a streamed chat.

use tokenmill::{TokenId, TokenLogprob, ToolCallDelta as CallPart};

use super::stream::{ChoiceShape, Growth, Opening};
use crate::{
    error::ApiError,
    wire::{
        logprobs::{ChatLogprobs, TokenNames},
        reply::{CalledFunctionDelta, ChatChunkChoice, Delta, Ending, ToolCallDelta},
    },
};

/// Writes for each choice one chunk with the role, those with text, and one with the reason it ended.
#[derive(Debug)]
pub struct ChatShape {
    /// Answers to the one prompt.
    pub choices: usize,
    /// How log-probabilities name tokens.
    pub names: TokenNames,
    /// Whether the reasoning is told.
    pub reasoning: bool,
    /// Whether log-probabilities were asked for.
    pub logprobs: bool,
    /// Whether token ids were asked for.
    pub ids: bool,
}

impl ChoiceShape for ChatShape {
    type Choice = ChatChunkChoice;

    fn on_prompt(
        &mut self,
        _prompt: usize,
        tokens: &[TokenId],
        _logprobs: Option<&[Option<TokenLogprob>]>,
    ) -> Result<Opening<ChatChunkChoice>, ApiError> {
        let role = |index| {
            let (role, content) = (Some("assistant"), Some(String::new()));
            choice(index, Delta { role, content, ..Delta::default() })
        };
        Ok(Opening {
            choices: (0..self.choices).map(role).collect(),
            prompt_token_ids: self.ids.then(|| tokens.to_vec()),
        })
    }

    fn on_delta(&mut self, index: usize, delta: Growth) -> Vec<ChatChunkChoice> {
        let Growth { text, reasoning, calls, tokens, logprobs } = delta;
        let reasoning = Some(reasoning).filter(|text| self.reasoning && !text.is_empty());
        let mut deltas: Vec<Delta> = calls.into_iter().filter_map(call_delta).collect();
        let says_something = !text.is_empty() || reasoning.is_some();
        // A token whose text is still held back makes a chunk only where more than text was asked for.
        let tells_tokens = self.ids || (self.logprobs && !logprobs.is_empty());
        if says_something || (deltas.is_empty() && tells_tokens) {
            let content = Some(text).filter(|text| !text.is_empty() || reasoning.is_none());
            deltas.insert(0, Delta { content, reasoning_content: reasoning, ..Delta::default() });
        }
        let mut choices: Vec<_> = deltas.into_iter().map(|delta| choice(index, delta)).collect();
        if let Some(first) = choices.first_mut() {
            first.logprobs = self.logprobs.then(|| ChatLogprobs::new(&logprobs, self.names));
            first.token_ids = self.ids.then_some(tokens);
        }
        choices
    }

    fn on_end(&mut self, index: usize, ending: Ending) -> Vec<ChatChunkChoice> {
        vec![ChatChunkChoice { ending, ..choice(index, Delta::default()) }]
    }
}

/// What a client hears of a call. That one is complete follows from what comes next; that one is none after all cannot be
/// said in this protocol: its text comes as content, and the choice does not end with `tool_calls` on its account.
fn call_delta(part: CallPart) -> Option<Delta> {
    let call = match part {
        CallPart::Start { index, id, name } => ToolCallDelta {
            index,
            id: Some(id),
            kind: Some("function"),
            function: CalledFunctionDelta { name: Some(name), arguments: String::new() },
        },
        CallPart::Arguments { index, text } => ToolCallDelta {
            index,
            function: CalledFunctionDelta { name: None, arguments: text },
            ..ToolCallDelta::default()
        },
        CallPart::End { .. } | CallPart::Withdrawn { .. } => return None,
    };
    Some(Delta { tool_calls: vec![call], ..Delta::default() })
}

/// A choice that says `delta` and nothing else.
fn choice(index: usize, delta: Delta) -> ChatChunkChoice {
    ChatChunkChoice { index, delta, logprobs: None, ending: Ending::default(), token_ids: None }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokenmill::{FinishReason, GenerationEvent, Usage};

    use super::*;
    use crate::{
        routes::stream::Chunks,
        sse::ChunkWriter,
        wire::{StreamOptions, reply::Head},
    };

    fn chunks(writer: &mut Chunks<ChatShape>, event: GenerationEvent) -> Vec<Value> {
        let chunks = writer.on_event(0, event).unwrap();
        chunks.iter().map(|chunk| serde_json::to_value(chunk).unwrap()).collect()
    }

    fn writer(stream: StreamOptions, choices: usize) -> Chunks<ChatShape> {
        let head = Head {
            id: "chatcmpl-1".into(),
            object: "chat.completion.chunk",
            created: 7,
            model: "m".into(),
        };
        let shape = ChatShape {
            choices,
            names: TokenNames::Text,
            reasoning: true,
            logprobs: false,
            ids: false,
        };
        Chunks::new(head, stream, 1, choices, shape)
    }

    fn prompt() -> GenerationEvent {
        let tokens = [TokenId(1), TokenId(2)].into();
        GenerationEvent::Prompt { tokens, cached_tokens: 1, logprobs: None }
    }

    fn delta(text: &str) -> GenerationEvent {
        GenerationEvent::Delta {
            choice: 0,
            text: text.into(),
            reasoning: String::new(),
            calls: vec![],
            tokens: vec![TokenId(3)],
            logprobs: vec![],
        }
    }

    fn says(reasoning: &str, calls: Vec<CallPart>) -> GenerationEvent {
        let GenerationEvent::Delta { choice, text, tokens, logprobs, .. } = delta("") else {
            unreachable!("it is one")
        };
        let reasoning = reasoning.into();
        GenerationEvent::Delta { choice, text, reasoning, calls, tokens, logprobs }
    }

    #[test]
    fn calls_come_as_openai_streams_them() {
        let mut writer = writer(StreamOptions::default(), 1);
        let mut deltas = |event| -> Vec<Value> {
            let chunks = chunks(&mut writer, event);
            chunks.iter().map(|chunk| chunk["choices"][0]["delta"].clone()).collect()
        };
        assert_eq!(deltas(says("hm", vec![])), [json!({"reasoning_content": "hm"})]);
        let start = CallPart::Start { index: 0, id: "call_1".into(), name: "f".into() };
        let arguments = |text: &str| CallPart::Arguments { index: 0, text: text.into() };
        let first = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
            "function": {"name": "f", "arguments": ""}}]});
        let more =
            |text: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]});
        assert_eq!(deltas(says("", vec![start, arguments("{\"a\"")])), [first, more("{\"a\"")]);
        assert_eq!(deltas(says("", vec![arguments(":1}")])), [more(":1}")]);
        assert_eq!(deltas(says("", vec![CallPart::End { index: 0 }])), [Value::Null; 0]);
        assert_eq!(deltas(says("", vec![CallPart::Withdrawn { index: 0 }])), [Value::Null; 0]);
    }

    #[test]
    fn reasoning_that_nobody_wants_is_not_told() {
        let mut writer = writer(StreamOptions::default(), 1);
        writer.shape_mut().reasoning = false;
        assert_eq!(chunks(&mut writer, says("hm", vec![])), [Value::Null; 0]);
    }

    fn finished(choice: usize) -> GenerationEvent {
        let usage = Usage { prompt_tokens: 2, completion_tokens: 1, cached_tokens: 1 };
        GenerationEvent::Finished { choice, reason: FinishReason::Stop, stop_reason: None, usage }
    }

    #[test]
    fn role_text_reason_usage() {
        let mut writer = writer(StreamOptions { include_usage: true, continuous_usage: false }, 1);
        let head = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m"});
        let want = |choices: Value, usage: Value| {
            let mut chunk = head.clone();
            chunk["choices"] = choices;
            chunk["usage"] = usage;
            chunk
        };
        let choice = |delta: Value, reason: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason, "stop_reason": null}]);
        let role = choice(json!({"role": "assistant", "content": ""}), Value::Null);
        assert_eq!(chunks(&mut writer, prompt()), [want(role, Value::Null)]);
        let text = choice(json!({"content": "hi"}), Value::Null);
        assert_eq!(chunks(&mut writer, delta("hi")), [want(text, Value::Null)]);
        assert_eq!(chunks(&mut writer, delta("")), [Value::Null; 0]);
        let end = choice(json!({}), json!("stop"));
        assert_eq!(chunks(&mut writer, finished(0)), [want(end, Value::Null)]);
        let usage = serde_json::to_value(writer.on_end().unwrap().unwrap()).unwrap();
        let counts = json!({"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 1}});
        assert_eq!(usage, want(json!([]), counts));
    }

    #[test]
    fn without_usage_there_is_no_such_key_and_no_last_chunk() {
        let mut writer = writer(StreamOptions::default(), 2);
        let first = chunks(&mut writer, prompt());
        assert_eq!(first.len(), 2);
        assert!(first.iter().all(|chunk| chunk.get("usage").is_none()));
        chunks(&mut writer, finished(1));
        assert!(writer.on_end().is_err(), "choice 0 has not ended");
        chunks(&mut writer, finished(0));
        assert_eq!(writer.on_end().unwrap(), None);
    }
}
