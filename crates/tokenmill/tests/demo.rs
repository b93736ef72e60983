//! The built-in model, by name: what transformers makes of the same files, and that it holds for conversations.
#![cfg(feature = "demo")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use serde::Deserialize;
use serde_json::{Map, Value};
use tempfile::TempDir;
use tokenmill::{
    Bytes, ChatMessage, ChatOptions, ChatRequest, FinishReason, GenerateOptions, GenerationEvent,
    Library, LibraryOptions, Model, ModelOptions, SessionOptions, Speculation, TokenId,
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
    load_with(ModelOptions::default())
}

fn load_with(options: ModelOptions) -> (TempDir, Model) {
    let place = tempfile::tempdir().unwrap();
    let built_in_dir = Some(place.path().to_owned());
    let library = Library::new(LibraryOptions { built_in_dir, ..Default::default() }).unwrap();
    let options = ModelOptions { kv_memory: Some(Bytes::mib(64)), ..options };
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

/// Guesses as soon as two tokens occurred before.
fn speculative() -> ModelOptions {
    ModelOptions {
        speculation: Some(Speculation::Ngram),
        prompt_lookup_min: Some(2),
        ..ModelOptions::default()
    }
}

#[test]
fn with_guesses_it_says_the_same_in_fewer_steps() {
    let (_place, plain) = load();
    let (_other_place, guessing) = load_with(speculative());
    let goldens = goldens();
    let story = goldens.cases.iter().find(|case| case.name == "story").unwrap();
    // A story that was told before, as far as its second sentence.
    let told = [&story.prompt_ids[..], &story.output_ids, &story.output_ids[..60]].concat();
    let prompts = goldens.cases.iter().map(|case| case.prompt_ids.clone()).chain([told]);
    for (at, prompt) in prompts.enumerate() {
        for temperature in [0.0, 0.7, 1.0] {
            let said = |model: &Model| {
                let options = GenerateOptions {
                    temperature: Some(temperature),
                    seed: Some(at as u64),
                    logprobs: Some(2),
                    ..greedy(60)
                };
                let output = model.generate(prompt.clone(), options).unwrap().output().unwrap();
                let choice = &output.choices[0];
                (choice.tokens.clone(), choice.text.clone(), format!("{:?}", choice.logprobs))
            };
            assert_eq!(said(&guessing), said(&plain), "prompt {at} at {temperature}");
        }
    }
    let (with, without) = (guessing.metrics(), plain.metrics());
    assert_eq!(without.drafts, 0);
    assert_eq!(with.generation_tokens, without.generation_tokens);
    assert!(with.accepted_tokens > 100, "{with:?}");
    assert!(with.steps + with.accepted_tokens / 2 < without.steps, "{with:?}");
}

#[test]
fn guesses_are_settled_as_the_model_is_loaded() {
    let (_place, model) = load_with(speculative());
    let told = |name: &str| {
        let setting = model.settings().iter().find(|setting| setting.name == name).unwrap();
        setting.value.clone()
    };
    assert_eq!((told("speculation"), told("prompt_lookup_min")), ("ngram".into(), "2".into()));
    assert_eq!(told("speculative_tokens"), "7");
    let place = tempfile::tempdir().unwrap();
    let built_in_dir = Some(place.path().to_owned());
    let library = Library::new(LibraryOptions { built_in_dir, ..Default::default() }).unwrap();
    let options = ModelOptions { prompt_lookup_max: Some(1), ..speculative() };
    let error = library.load("demo", options, &mut |_| true).err().unwrap().to_string();
    assert!(error.contains("prompt_lookup_min") && error.contains("prompt_lookup_max"), "{error}");
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
