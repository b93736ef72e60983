//! The chunks of a streamed chat.

use tokenmill::{TokenId, TokenLogprob};

use super::stream::{ChoiceShape, Growth, Opening};
use crate::{
    error::ApiError,
    wire::{
        logprobs::{ChatLogprobs, TokenNames},
        reply::{ChatChunkChoice, Delta, Ending},
    },
};

/// Writes for each choice one chunk with the role, those with text, and one with the reason it ended.
#[derive(Debug)]
pub struct ChatShape {
    /// Answers to the one prompt.
    pub choices: usize,
    /// How log-probabilities name tokens.
    pub names: TokenNames,
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
        let role =
            |index| choice(index, Delta { role: Some("assistant"), content: Some(String::new()) });
        Ok(Opening {
            choices: (0..self.choices).map(role).collect(),
            prompt_token_ids: self.ids.then(|| tokens.to_vec()),
        })
    }

    fn on_delta(&mut self, index: usize, delta: Growth) -> Vec<ChatChunkChoice> {
        // A token whose text is still held back makes a chunk only where more than text was asked for.
        let says_something =
            !delta.text.is_empty() || self.ids || (self.logprobs && !delta.logprobs.is_empty());
        if !says_something {
            return Vec::new();
        }
        vec![ChatChunkChoice {
            logprobs: self.logprobs.then(|| ChatLogprobs::new(&delta.logprobs, self.names)),
            token_ids: self.ids.then_some(delta.tokens),
            ..choice(index, Delta { role: None, content: Some(delta.text) })
        }]
    }

    fn on_end(&mut self, index: usize, ending: Ending) -> Vec<ChatChunkChoice> {
        vec![ChatChunkChoice { ending, ..choice(index, Delta::default()) }]
    }
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
        let shape = ChatShape { choices, names: TokenNames::Text, logprobs: false, ids: false };
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
            tokens: vec![TokenId(3)],
            logprobs: vec![],
        }
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
