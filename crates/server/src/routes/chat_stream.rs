//! The chunks of a streamed chat.

use tokenmill::{GenerationEvent, TokenId, TokenLogprob};

use super::{chat::check_finished, tally::Tally};
use crate::{
    error::ApiError,
    sse::ChunkWriter,
    wire::{
        StreamOptions,
        logprobs::{ChatLogprobs, TokenNames},
        reply::{ChatChunkChoice, Delta, Ending, Head, Reply},
    },
};

/// Writes chunks: for each choice one with the role, those with text, one with the reason it ended; at last, where
/// asked for, one with the usage.
#[derive(Debug)]
pub struct ChatWriter {
    head: Head,
    stream: StreamOptions,
    choices: usize,
    names: TokenNames,
    logprobs: bool,
    ids: bool,
    tally: Tally,
}

type Chunk = Reply<ChatChunkChoice>;

impl ChatWriter {
    /// A writer of that many choices.
    pub fn new(head: Head, stream: StreamOptions, choices: usize, names: TokenNames) -> Self {
        let tally = Tally::new(choices);
        ChatWriter { head, stream, choices, names, logprobs: false, ids: false, tally }
    }

    /// Also writes log-probabilities, and token ids.
    pub fn with(self, logprobs: bool, ids: bool) -> Self {
        ChatWriter { logprobs, ids, ..self }
    }

    fn chunk(&self, index: usize, delta: Delta) -> Chunk {
        let choice = ChatChunkChoice {
            index,
            delta,
            logprobs: None,
            ending: Ending::default(),
            token_ids: None,
        };
        let mut chunk = Reply::new(self.head.clone(), vec![choice]);
        chunk.usage = self.tally.in_chunk(self.stream);
        chunk
    }

    fn on_prompt(&mut self, tokens: &[TokenId], cached: usize) -> Vec<Chunk> {
        self.tally.prompt(tokens.len(), cached);
        let first = |index| {
            let delta = Delta { role: Some("assistant"), content: Some(String::new()) };
            let mut chunk = self.chunk(index, delta);
            chunk.prompt_token_ids = (self.ids && index == 0).then(|| tokens.to_vec());
            chunk
        };
        (0..self.choices).map(first).collect()
    }

    fn on_delta(
        &mut self,
        index: usize,
        text: String,
        tokens: Vec<TokenId>,
        logprobs: &[TokenLogprob],
    ) -> Option<Chunk> {
        self.tally.grow(index, tokens.len());
        // A token whose text is still held back makes a chunk only where more than text was asked for.
        let says_something =
            !text.is_empty() || self.ids || (self.logprobs && !logprobs.is_empty());
        says_something.then(|| {
            let mut chunk = self.chunk(index, Delta { role: None, content: Some(text) });
            let choice = &mut chunk.choices[0];
            choice.logprobs = self.logprobs.then(|| ChatLogprobs::new(logprobs, self.names));
            choice.token_ids = self.ids.then_some(tokens);
            chunk
        })
    }
}

impl ChunkWriter for ChatWriter {
    type Chunk = Chunk;

    fn on_event(&mut self, _prompt: usize, event: GenerationEvent) -> Result<Vec<Chunk>, ApiError> {
        match event {
            GenerationEvent::Prompt { tokens, cached_tokens, .. } => {
                Ok(self.on_prompt(&tokens, cached_tokens))
            }
            GenerationEvent::Delta { choice, text, tokens, logprobs } => {
                Ok(self.on_delta(choice, text, tokens, &logprobs).into_iter().collect())
            }
            GenerationEvent::Finished { choice, reason, stop_reason, usage } => {
                check_finished(reason)?;
                self.tally.finish(choice, usage);
                let mut chunk = self.chunk(choice, Delta::default());
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokenmill::{FinishReason, Usage};

    use super::*;

    fn chunks(writer: &mut ChatWriter, event: GenerationEvent) -> Vec<Value> {
        let chunks = writer.on_event(0, event).unwrap();
        chunks.iter().map(|chunk| serde_json::to_value(chunk).unwrap()).collect()
    }

    fn writer(stream: StreamOptions, choices: usize) -> ChatWriter {
        let head = Head {
            id: "chatcmpl-1".into(),
            object: "chat.completion.chunk",
            created: 7,
            model: "m".into(),
        };
        ChatWriter::new(head, stream, choices, TokenNames::Text)
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
