//! The built-in model, by name: what transformers makes of the same files, and that it holds for conversations.
#![cfg(feature = "demo")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use serde::Deserialize;
use serde_json::{Map, Value};
use tempfile::TempDir;
use tokenmill::{
    Bytes, ChatMessage, ChatOptions, ChatRequest, FinishReason, GenerateOptions, GenerationEvent,
    Library, LibraryOptions, Model, ModelOptions, SessionOptions, TokenId,
};

/// What transformers makes of the model, greedily: float32 arithmetic on its bf16 weights.
#[derive(Deserialize)]
struct Goldens {
    max_tokens: u32,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    /// Absent: `prompt` is continued as it is.
    #[serde(default)]
    messages: Vec<ChatMessage>,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    tools: Option<Value>,
    #[serde(default)]
    chat_template_kwargs: Map<String, Value>,
    prompt_ids: Vec<TokenId>,
    output_ids: Vec<TokenId>,
    output_text: String,
    finish_reason: String,
}

fn goldens() -> Goldens {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../demo/goldens.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn load() -> (TempDir, Model) {
    let place = tempfile::tempdir().unwrap();
    let built_in_dir = Some(place.path().to_owned());
    let library = Library::new(LibraryOptions { built_in_dir, ..Default::default() }).unwrap();
    let options = ModelOptions { kv_memory: Some(Bytes::mib(64)), ..ModelOptions::default() };
    let model = library.load("demo", options, &mut |_| true).unwrap();
    (place, model)
}

fn greedy(max_tokens: u32) -> GenerateOptions {
    GenerateOptions {
        temperature: Some(0.0),
        max_tokens: Some(max_tokens),
        ..GenerateOptions::default()
    }
}

#[test]
fn it_answers_as_it_does_in_transformers() {
    let (_place, model) = load();
    assert_eq!(model.id().0, "demo");
    let goldens = goldens();
    assert!(goldens.cases.len() >= 14);
    for case in goldens.cases {
        let prompt = match case.messages.is_empty() {
            true => model.tokenize(&case.prompt, true).unwrap(),
            false => {
                let options = ChatOptions {
                    tools: case.tools.clone(),
                    template_kwargs: case.chat_template_kwargs.clone(),
                    ..ChatOptions::default()
                };
                let messages = case.messages.clone();
                model.render_chat(&ChatRequest { messages, options }).unwrap()
            }
        };
        assert_eq!(prompt, case.prompt_ids, "{}", case.name);
        let generation = model.generate(prompt, greedy(goldens.max_tokens)).unwrap();
        let choice = generation.output().unwrap().choices.remove(0);
        assert_eq!(choice.tokens, case.output_ids, "{}", case.name);
        assert_eq!(choice.text.as_deref(), Some(case.output_text.as_str()), "{}", case.name);
        let reason = match choice.finish_reason {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            other => panic!("{}: {other:?}", case.name),
        };
        assert_eq!(reason, case.finish_reason, "{}", case.name);
    }
}

#[test]
fn a_conversation_goes_on_over_many_blocks_and_finds_its_beginning_cached() {
    let (_place, model) = load();
    let mut session =
        model.session(SessionOptions { generate: greedy(40), ..SessionOptions::default() });
    let mut cached = 0;
    for turn in 0..12 {
        let question = format!("What is {} + {}?", turn + 1, turn + 2);
        let mut text = String::new();
        for event in session.ask(question.as_str()).unwrap() {
            match event.unwrap() {
                GenerationEvent::Prompt { cached_tokens, .. } => cached = cached_tokens,
                GenerationEvent::Delta { text: piece, .. } => text.push_str(&piece),
                _ => {}
            }
        }
        assert!(text.contains(&(2 * turn + 3).to_string()), "{question} {text}");
    }
    assert!(cached > 4 * model.runner().block_size, "{cached}");
}
