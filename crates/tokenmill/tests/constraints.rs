//! Texts that must be something: on the built-in model, on a fixture, and where a model reasons first.
#![cfg(feature = "demo")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use serde_json::{Value, json};
use testkit::{Script, ScriptedBackend, golden::fixture_directory};
use tokenmill::{
    Bytes, ChatMessage, ChatOptions, Constraint, Error, FinishReason, GenerateOptions, Library,
    LibraryOptions, Model, ModelOptions, TokenId,
};

fn demo() -> (tempfile::TempDir, Model) {
    let place = tempfile::tempdir().unwrap();
    let built_in_dir = Some(place.path().to_owned());
    let library = Library::new(LibraryOptions { built_in_dir, ..Default::default() }).unwrap();
    let options = ModelOptions { kv_memory: Some(Bytes::mib(64)), ..ModelOptions::default() };
    let model = library.load("demo", options, &mut |_| true).unwrap();
    (place, model)
}

fn fixture(name: &str) -> (Model, Script) {
    let script = Script::default();
    let backend = ScriptedBackend::new(Arc::new(cpu::CpuBackend::new()), script.clone());
    let library =
        Library::with_backends(LibraryOptions::default(), vec![Arc::new(backend)]).unwrap();
    let directory = fixture_directory(name);
    let model = library.load(directory.to_str().unwrap(), ModelOptions::default(), &mut |_| true);
    (model.unwrap(), script)
}

fn constrained(constraint: Constraint) -> GenerateOptions {
    GenerateOptions {
        constraint: Some(constraint),
        max_tokens: Some(400),
        seed: Some(3),
        ..GenerateOptions::default()
    }
}

fn chat(model: &Model, options: GenerateOptions) -> tokenmill::Result<tokenmill::Output> {
    let messages = vec![ChatMessage::user("Tell me about a fox.")];
    model.chat(messages, ChatOptions::default(), options)?.output()
}

/// What must hold of a value.
type Holds = fn(&Value) -> bool;

/// Small schemas, and what they promise.
fn schemas() -> Vec<(Value, Holds)> {
    vec![
        (
            json!({
                "type": "object", "additionalProperties": false, "required": ["name", "age"],
                "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
            }),
            |value| value["name"].is_string() && value["age"].as_u64().is_some_and(|age| age < 100),
        ),
        (
            json!({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3}),
            |value| value.as_array().is_some_and(|items| (2..=3).contains(&items.len())),
        ),
        (json!({"enum": ["red", "green", 7, null]}), |value| {
            [json!("red"), json!("green"), json!(7), json!(null)].contains(value)
        }),
    ]
}

fn keeps_to(model: &Model, temperature: f32) {
    for (schema, holds) in schemas() {
        let options = GenerateOptions {
            temperature: Some(temperature),
            n: Some(3),
            ..constrained(Constraint::JsonSchema(schema.clone()))
        };
        let output = model.generate("The answer is", options).unwrap().output().unwrap();
        for choice in output.choices {
            let text = choice.text.unwrap();
            assert_eq!(choice.finish_reason, FinishReason::Stop, "{schema}: {text:?}");
            let value: Value = serde_json::from_str(&text).expect(&text);
            assert!(holds(&value), "{schema}: {text}");
        }
    }
}

#[test]
fn the_built_in_model_keeps_to_schemas() {
    let (_place, model) = demo();
    keeps_to(&model, 0.0);
    keeps_to(&model, 1.5);
    let options = GenerateOptions {
        temperature: Some(0.0),
        ..constrained(Constraint::Choice(vec!["fox".into(), "a hen".into()]))
    };
    let text = chat(&model, options).unwrap().choices[0].text.clone().unwrap();
    assert!(["fox", "a hen"].contains(&text.as_str()), "{text}");
}

#[test]
fn fixtures_keep_to_schemas() {
    for name in ["llama", "qwen3", "gemma3"] {
        let (model, _) = fixture(name);
        keeps_to(&model, 0.0);
        keeps_to(&model, 2.0);
    }
}

#[test]
fn a_limit_cuts_a_constrained_text_as_any_other() {
    let (model, _) = fixture("llama");
    let options = GenerateOptions {
        max_tokens: Some(3),
        temperature: Some(0.0),
        ..constrained(Constraint::Regex("[a-z]{200}".into()))
    };
    let output = model.generate("green was watch", options).unwrap().output().unwrap();
    assert_eq!(output.choices[0].finish_reason, FinishReason::Length);
    assert_eq!(output.usage.completion_tokens, 3);
}

#[test]
fn what_cannot_be_honoured_is_refused() {
    let (model, _) = fixture("qwen3");
    let field = |options: GenerateOptions| match model.generate("a", options) {
        Err(Error::InvalidRequest { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(constrained(Constraint::Regex("(".into()))), "constraint");
    let regex = || constrained(Constraint::Regex("a+".into()));
    assert_eq!(field(GenerateOptions { ignore_eos: true, ..regex() }), "ignore_eos");
    assert_eq!(field(GenerateOptions { min_tokens: Some(2), ..regex() }), "min_tokens");
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {}}});
    let tools = ChatOptions { tools: Some(json!([tool])), ..ChatOptions::default() };
    match model.chat(vec![ChatMessage::user("hi")], tools, regex()) {
        Err(Error::InvalidRequest { field, .. }) => assert_eq!(field, "tools"),
        other => panic!("{other:?}"),
    }
}

/// A model that pays no heed to masks is stopped at the first token outside.
#[test]
fn a_token_outside_the_constraint_ends_in_an_error() {
    let (model, script) = fixture("qwen3");
    let tokens = model.tokenizer().unwrap().encode("no JSON", false).unwrap();
    script.say(tokens);
    let result = model.generate("a", constrained(Constraint::JsonObject)).unwrap().output();
    assert!(matches!(result, Err(Error::ConstraintLost(_))), "{result:?}");
}

#[test]
fn behind_an_open_thought_the_constraint_begins_with_its_end() {
    let (model, script) = fixture("qwen3");
    let say = |text: &str| {
        let mut tokens = model.tokenizer().unwrap().encode_trusted(text, false).unwrap();
        tokens.push(TokenId(503));
        script.say(tokens);
    };
    let continued = || {
        let messages = vec![ChatMessage::user("hi"), ChatMessage::assistant("<think>\nHm")];
        let options = ChatOptions { continue_final_message: true, ..ChatOptions::default() };
        model.chat(messages, options, constrained(Constraint::JsonObject)).unwrap().output()
    };
    say(", so it is.</think>{\"a\":1}");
    let choice = continued().unwrap().choices.remove(0);
    assert_eq!(choice.text.as_deref(), Some("{\"a\":1}"));
    assert!(choice.reasoning.unwrap().contains("so it is."));
    say(", so it is.</think>Hello");
    let result = continued();
    assert!(matches!(result, Err(Error::ConstraintLost(_))), "{result:?}");
}
