//! Reasoning and calls of tools through the library, said by a model with a script.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{fs, path::Path, sync::Arc};

use serde_json::{Value, json};
use testkit::{Script, ScriptedBackend, golden::fixture_directory};
use tokenmill::{
    ChatMessage, ChatOptions, Choice, Error, FinishReason, GenerateOptions, GenerationEvent,
    Library, LibraryOptions, Model, ModelOptions, SessionOptions, TokenId, ToolCallDelta,
};

const CALL: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b\"}}\n</tool_call>";

struct Actor {
    model: Model,
    script: Script,
}

impl Actor {
    fn load(directory: &Path, options: ModelOptions) -> tokenmill::Result<Actor> {
        let script = Script::default();
        let backend = ScriptedBackend::new(Arc::new(cpu::CpuBackend::new()), script.clone());
        let library = Library::with_backends(LibraryOptions::default(), vec![Arc::new(backend)])?;
        let model = library.load(directory.to_str().unwrap(), options, &mut |_| true)?;
        Ok(Actor { model, script })
    }

    fn qwen3() -> Actor {
        Actor::load(&fixture_directory("qwen3"), ModelOptions::default()).unwrap()
    }

    fn say(&self, text: &str) {
        let mut tokens = self.model.tokenizer().unwrap().encode_trusted(text, false).unwrap();
        tokens.push(TokenId(503));
        self.script.say(tokens);
    }

    fn answer(&self, text: &str, chat: ChatOptions) -> Choice {
        self.say(text);
        let messages = vec![ChatMessage::user("hi")];
        let generation = self.model.chat(messages, chat, GenerateOptions::default()).unwrap();
        generation.output().unwrap().choices.remove(0)
    }
}

fn with_tools() -> ChatOptions {
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {}}});
    ChatOptions { tools: Some(json!([tool])), ..ChatOptions::default() }
}

#[test]
fn a_chat_tells_reasoning_content_and_calls_apart() {
    let actor = Actor::qwen3();
    let text = format!("<think>\nhm\n</think>\n\nWell.\n{CALL}");
    let choice = actor.answer(&text, with_tools());
    assert_eq!(choice.reasoning.as_deref(), Some("hm"));
    assert_eq!(choice.text.as_deref(), Some("Well."));
    assert_eq!(choice.calls.len(), 1);
    assert_eq!(choice.calls[0].name, "f");
    assert_eq!(choice.calls[0].arguments, "{\"a\": \"b\"}");
    assert_eq!(choice.finish_reason, FinishReason::ToolCalls);
    let again = actor.answer(&text, with_tools());
    assert_ne!(again.calls[0].id, choice.calls[0].id, "ids differ between answers");
    // Without tools what looks like a call is content.
    let choice = actor.answer(&text, ChatOptions::default());
    assert_eq!(choice.text, Some(format!("Well.\n{CALL}")));
    assert_eq!(choice.finish_reason, FinishReason::Stop);
    // Raw generation tells nothing apart.
    actor.say(&text);
    let raw = actor.model.generate("hi", GenerateOptions::default()).unwrap();
    assert_eq!(raw.text().unwrap(), text);
}

/// Many tokenizers mark the marks special: then they are no text, but the parser has to see them.
#[test]
fn special_marks_are_read_and_do_not_leak() {
    let directory = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture_directory("qwen3")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
    }
    let file = directory.path().join("tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for token in tokenizer["added_tokens"].as_array_mut().unwrap() {
        token["special"] = json!(true);
    }
    fs::write(&file, tokenizer.to_string()).unwrap();
    let actor = Actor::load(directory.path(), ModelOptions::default()).unwrap();
    let text = format!("<think>\nhm\n</think>\n\nWell.<|im_start|>\n{CALL}");
    let choice = actor.answer(&text, with_tools());
    assert_eq!(choice.reasoning.as_deref(), Some("hm"));
    assert_eq!(choice.text.as_deref(), Some("Well."), "other special tokens stay out");
    assert_eq!(choice.calls.len(), 1);
}

#[test]
fn a_call_that_breaks_is_withdrawn_and_comes_back_as_text() {
    let actor = Actor::qwen3();
    let broken = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": oh";
    actor.say(broken);
    let messages = vec![ChatMessage::user("hi")];
    let generation = actor.model.chat(messages, with_tools(), GenerateOptions::default()).unwrap();
    let (mut text, mut parts) = (String::new(), Vec::new());
    for event in generation {
        if let GenerationEvent::Delta { text: piece, calls, .. } = event.unwrap() {
            text.push_str(&piece);
            parts.extend(calls);
        }
    }
    assert_eq!(text, broken);
    assert!(matches!(parts.first(), Some(ToolCallDelta::Start { index: 0, .. })), "{parts:?}");
    assert_eq!(parts.last(), Some(&ToolCallDelta::Withdrawn { index: 0 }));
    let choice = actor.answer(broken, with_tools());
    assert_eq!((choice.calls, choice.text), (vec![], Some(broken.to_owned())));
    assert_eq!(choice.finish_reason, FinishReason::Stop);
}

#[test]
fn one_call_ends_the_answer_where_only_one_is_wanted() {
    let actor = Actor::qwen3();
    let chat = ChatOptions { parallel_tool_calls: Some(false), ..with_tools() };
    let choice = actor.answer(&format!("{CALL}\n{CALL} more"), chat);
    assert_eq!((choice.calls.len(), choice.text.as_deref()), (1, Some("")));
    assert_eq!(choice.finish_reason, FinishReason::ToolCalls);
}

#[test]
fn a_template_may_open_the_reasoning() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("template.jinja");
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}{# </think> #}";
    fs::write(&file, template).unwrap();
    let options = ModelOptions { chat_template: Some(file), ..ModelOptions::default() };
    let actor = Actor::load(&fixture_directory("qwen3"), options).unwrap();
    let choice = actor.answer("hm\n</think>\n\nWell.", ChatOptions::default());
    assert_eq!(choice.reasoning.as_deref(), Some("hm"));
    assert_eq!(choice.text.as_deref(), Some("Well."));
    assert!(!actor.model.template_reads("tools"));
}

#[test]
fn parsers_are_chosen_by_name_and_tools_need_one() {
    let load = |name: &str, calls: Option<&str>, reasoning: Option<&str>| {
        let options = ModelOptions {
            tool_call_parser: calls.map(str::to_owned),
            reasoning_parser: reasoning.map(str::to_owned),
            ..ModelOptions::default()
        };
        Actor::load(&fixture_directory(name), options)
    };
    let actor = load("qwen3", Some("llama3_json"), Some("none")).unwrap();
    let choice = actor.answer("{\"name\": \"f\", \"parameters\": {}}", with_tools());
    assert_eq!((choice.calls.len(), choice.reasoning), (1, None));
    let settings = actor.model.settings();
    let setting = |name| settings.iter().find(|setting| setting.name == name).unwrap();
    assert_eq!(setting("tool_call_parser").value, "llama3_json");
    assert_eq!(setting("reasoning_parser").value, "none");
    let off = load("qwen3", Some("none"), None).unwrap();
    assert_eq!(off.answer(CALL, with_tools()).text.as_deref(), Some(CALL));
    match load("qwen3", Some("hermess"), None).map(|_| ()) {
        Err(Error::InvalidOption { option: "tool_call_parser", message }) => {
            assert!(message.contains("hermess") && message.contains("hermes, "), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let actor = load("llama", None, None).unwrap();
    let refused =
        actor.model.chat(vec![ChatMessage::user("hi")], with_tools(), GenerateOptions::default());
    assert!(matches!(refused, Err(Error::InvalidRequest { field, .. }) if field == "tools"));
}

#[test]
fn a_session_remembers_reasoning_and_calls_beside_the_content() {
    let actor = Actor::qwen3();
    let options = SessionOptions { chat: with_tools(), ..SessionOptions::default() };
    let mut session = actor.model.session(options);
    actor.say(&format!("<think>\nhm\n</think>\n\nWell.\n{CALL}"));
    assert_eq!(session.ask("hi").unwrap().text().unwrap(), "Well.");
    let answer = serde_json::to_value(&session.history()[1]).unwrap();
    assert_eq!(answer["content"], "Well.");
    assert_eq!(answer["reasoning_content"], "hm");
    assert_eq!(answer["tool_calls"][0]["function"]["arguments"], json!({"a": "b"}));
    // The next prompt has the call as the model wrote it.
    let request =
        tokenmill::ChatRequest { messages: session.history().to_vec(), options: with_tools() };
    let prompt = actor.model.render_chat(&request).unwrap();
    let text = actor.model.detokenize(&prompt, false).unwrap();
    assert!(text.contains(CALL), "{text}");
}
