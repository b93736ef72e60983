//! Every field of every table, honoured or refused.

use serde_json::{Map, Value, json};
use tokenmill::{Prompt, TokenId};

use super::{
    ChatRequest, CompletionRequest, DetokenizeRequest, Limits, TokenizeRequest, chat, completion,
    fields::{Field, Problem, Rule},
    tokens,
};

type Read = fn(Map<String, Value>) -> Result<String, Vec<Problem>>;

/// A request type: its name, its tables, the least that makes a request, and its reader.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) tables: &'static [&'static [Field]],
    pub(super) least: fn() -> Value,
    pub(super) read: Read,
}

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "chat",
        tables: chat::TABLES,
        least: || json!({"messages": [{"role": "user", "content": "hi"}]}),
        read: |map| {
            ChatRequest::read(map, &Limits::default()).map(|request| format!("{request:?}"))
        },
    },
    Kind {
        name: "completion",
        tables: completion::TABLES,
        least: || json!({"prompt": "hi"}),
        read: |map| {
            CompletionRequest::read(map, &Limits::default()).map(|request| format!("{request:?}"))
        },
    },
    Kind {
        name: "tokenize text",
        tables: tokens::TEXT_TABLES,
        least: || json!({"prompt": "hi"}),
        read: |map| TokenizeRequest::read(map).map(|request| format!("{request:?}")),
    },
    Kind {
        name: "tokenize chat",
        tables: tokens::CHAT_TABLES,
        least: || json!({"messages": [{"role": "user", "content": "hi"}]}),
        read: |map| TokenizeRequest::read(map).map(|request| format!("{request:?}")),
    },
    Kind {
        name: "detokenize",
        tables: tokens::DETOKENIZE_TABLES,
        least: || json!({"tokens": [1]}),
        read: |map| DetokenizeRequest::read(map).map(|request| format!("{request:?}")),
    },
];

fn with(kind: &Kind, name: &str, value: Value) -> Result<String, Vec<Problem>> {
    let Value::Object(mut map) = (kind.least)() else { panic!("requests are objects") };
    map.insert(name.into(), value);
    // What these fields need beside them.
    let beside: &[(&str, Value)] = match name {
        "stream_options" => &[("stream", json!(true))],
        "top_logprobs" => &[("logprobs", json!(true))],
        "tool_choice" => &[("tools", json!([tool()]))],
        _ => &[],
    };
    for (name, value) in beside {
        map.insert((*name).into(), value.clone());
    }
    (kind.read)(map)
}

fn tool() -> Value {
    json!({"type": "function", "function": {"name": "f", "parameters": {}}})
}

/// A value that asks for something else than leaving the field out.
fn telling(field: &Field) -> Value {
    match (field.name, field.rule) {
        // One is what happens anyway.
        ("best_of", _) => json!(1),
        (_, Rule::Float(_, max) | Rule::FloatAbove(_, max)) => json!(max),
        (_, Rule::Integer(min, max)) => json!(7.clamp(min, max)),
        (_, Rule::Text) => json!("words"),
        ("stop", _) => json!(["a", "b"]),
        ("stop_token_ids" | "tokens", _) => json!([5, 6]),
        ("logit_bias", _) => json!({"5": -100}),
        ("stream_options", _) => json!({"include_usage": true}),
        ("messages", _) => json!([{"role": "system", "content": "be brief"}]),
        ("prompt", _) => json!([[1, 2], [3]]),
        ("chat_template_kwargs", _) => json!({"enable_thinking": false}),
        ("tools", _) => json!([tool()]),
        ("tool_choice", _) => json!("none"),
        ("response_format", _) => json!({"type": "json_object"}),
        ("guided_json", _) => json!({"type": "object"}),
        ("guided_choice", _) => json!(["a", "b"]),
        ("structured_outputs", _) => json!({"regex": "a"}),
        ("documents", _) => json!([{"title": "a", "text": "b"}]),
        (name, rule) => panic!("a value for {name} {rule:?}"),
    }
}

/// A value that must be refused.
fn wrong(field: &Field) -> Value {
    match field.rule {
        Rule::Float(_, max) | Rule::FloatAbove(_, max) => json!(max + 0.5),
        Rule::Integer(i64::MIN, _) => json!(0.5),
        Rule::Integer(min, _) => json!(min as f64 - 1.0),
        Rule::Boolean => json!("yes"),
        Rule::Text => json!(7),
        Rule::Only(_) => json!({"x": 1}),
        Rule::Shaped => json!(true),
    }
}

#[test]
fn every_honoured_field_changes_what_is_read() {
    for kind in KINDS {
        let Value::Object(map) = (kind.least)() else { panic!("requests are objects") };
        let plain = (kind.read)(map).unwrap();
        for field in kind.tables.iter().copied().flatten() {
            if matches!(field.rule, Rule::Only(_)) {
                continue;
            }
            let at = format!("{} {}", kind.name, field.name);
            // The same without the field, unless the field is one that every request must have.
            let without = with(kind, field.name, Value::Null).unwrap_or_else(|_| plain.clone());
            let changes = |value: Value| {
                let read = with(kind, field.name, value);
                read.unwrap_or_else(|problems| panic!("{at}: {problems:?}")) != without
            };
            let told = match field.rule {
                // One of the two is the default.
                Rule::Boolean => changes(json!(true)) || changes(json!(false)),
                _ => changes(telling(field)),
            };
            assert_eq!(told, field.name != "best_of", "{at} changes nothing");
        }
    }
}

#[test]
fn every_field_refuses_a_wrong_value_by_name() {
    for kind in KINDS {
        for field in kind.tables.iter().copied().flatten() {
            let at = format!("{} {}", kind.name, field.name);
            let problems = with(kind, field.name, wrong(field)).expect_err(&at);
            assert!(problems.iter().any(|p| p.param.starts_with(field.name)), "{at}: {problems:?}");
            assert!(problems.iter().all(|p| p.message.starts_with(&p.param)), "{at}: {problems:?}");
        }
    }
}

#[test]
fn null_and_neutral_values_are_the_same_as_nothing() {
    for kind in KINDS {
        let Value::Object(least) = (kind.least)() else { panic!("requests are objects") };
        let plain = (kind.read)(least.clone()).unwrap();
        for field in kind.tables.iter().copied().flatten() {
            let mut values = vec![Value::Null];
            if let Rule::Only(neutral) = field.rule {
                values.extend(neutral.iter().map(|text| serde_json::from_str(text).unwrap()));
            }
            for value in values {
                if least.contains_key(field.name) {
                    continue;
                }
                let mut map = least.clone();
                map.insert(field.name.into(), value);
                assert_eq!((kind.read)(map).as_ref(), Ok(&plain), "{} {}", kind.name, field.name);
            }
        }
    }
}

#[test]
fn no_table_names_a_field_twice_and_unknown_fields_are_named() {
    for kind in KINDS {
        let mut names: Vec<&str> = kind.tables.iter().copied().flatten().map(|f| f.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "{}", kind.name);
        let problems = with(kind, "temprature", json!(1)).unwrap_err();
        assert_eq!(problems[0].param, "temprature");
    }
}

fn chat(body: Value) -> Result<ChatRequest, Vec<Problem>> {
    let Value::Object(map) = body else { panic!("requests are objects") };
    ChatRequest::read(map, &Limits::default())
}

fn completion(body: Value) -> Result<CompletionRequest, Vec<Problem>> {
    let Value::Object(map) = body else { panic!("requests are objects") };
    CompletionRequest::read(map, &Limits { max_prompts: 3, max_choices: 4 })
}

fn messages(messages: Value) -> Result<ChatRequest, Vec<Problem>> {
    chat(json!({"messages": messages}))
}

#[test]
fn all_problems_are_reported_at_once() {
    let problems =
        chat(json!({"temperature": 9, "top_p": 0, "audio": {}, "tempo": 1})).unwrap_err();
    let params: Vec<&str> = problems.iter().map(|p| p.param.as_str()).collect();
    assert_eq!(params, ["temperature", "top_p", "audio", "tempo", "messages"]);
}

#[test]
fn messages_take_every_role_and_text_parts() {
    let request = messages(json!([
        {"role": "developer", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}], "name": "n"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "d"},
    ]))
    .unwrap();
    let seen = request.conversation.messages;
    assert_eq!(seen[1].content, Some(json!("b\nc")));
    assert_eq!(seen[1].extra["name"], "n");
    assert_eq!(seen[2].content, Some(Value::Null));
    assert_eq!(seen[2].extra["tool_calls"][0]["function"]["arguments"], json!({"x": 1}));
    assert_eq!(seen[3].extra["tool_call_id"], "1");
}

#[test]
fn bad_messages_are_named_by_their_path() {
    let image = json!([{"type": "image_url", "image_url": {"url": "x"}}]);
    for (bad, param) in [
        (json!("hi"), "messages"),
        (json!([]), "messages"),
        (json!(["hi"]), "messages[0]"),
        (json!([{"content": "x"}]), "messages[0].role"),
        (json!([{"role": "wizard", "content": "x"}]), "messages[0].role"),
        (json!([{"role": "user"}]), "messages[0].content"),
        (json!([{"role": "user", "content": 5}]), "messages[0].content"),
        (json!([{"role": "user", "content": image}]), "messages[0].content[0].type"),
        (json!([{"role": "user", "content": [{"type": "text"}]}]), "messages[0].content[0].text"),
        (json!([{"role": "user", "content": "x", "mood": 1}]), "messages[0].mood"),
        (
            json!([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]),
            "messages[0].tool_calls[0].function.arguments",
        ),
    ] {
        let problems = messages(bad.clone()).unwrap_err();
        assert_eq!(problems[0].param, param, "{bad}");
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let hi = json!([{"role": "user", "content": "hi"}]);
    for (more, param) in [
        (json!({"top_logprobs": 3}), "top_logprobs"),
        (json!({"stream_options": {"include_usage": true}}), "stream_options"),
        (json!({"stream": true, "stream_options": {"usage": true}}), "stream_options.usage"),
        (json!({"stream": true, "prompt_logprobs": 1}), "prompt_logprobs"),
        (json!({"max_tokens": 4, "max_completion_tokens": 5}), "max_completion_tokens"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": 4, "min_tokens": 5}), "min_tokens"),
        (
            json!({"continue_final_message": true, "add_generation_prompt": true}),
            "continue_final_message",
        ),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"tools": [{"name": "f"}]}), "tools[0]"),
        (json!({"n": 129}), "n"),
        (json!({"response_format": {"type": "structural_tag"}}), "response_format.type"),
        (json!({"stop": ["a", ""]}), "stop[1]"),
        (json!({"stop": 5}), "stop[0]"),
        (json!({"stop_token_ids": [-1]}), "stop_token_ids[0]"),
        (json!({"logit_bias": {"x": 1}}), "logit_bias[\"x\"]"),
        (json!({"logit_bias": {"7": 101}}), "logit_bias[\"7\"]"),
        (json!({"logit_bias": {"7": 1, "07": 2}}), "logit_bias[\"07\"]"),
        (json!({"request_id": "a\nb"}), "request_id"),
    ] {
        let mut body = more.clone();
        body["messages"] = hi.clone();
        let problems = chat(body).expect_err(&more.to_string());
        assert_eq!(problems[0].param, param, "{more}");
    }
}

#[test]
fn prompts_come_in_four_shapes() {
    let ids = |ids: &[u32]| Prompt::Tokens(ids.iter().copied().map(TokenId).collect());
    for (prompt, want) in [
        (json!("a"), vec![Prompt::Text("a".into())]),
        (json!(["a", "b"]), vec![Prompt::Text("a".into()), Prompt::Text("b".into())]),
        (json!([1, 2]), vec![ids(&[1, 2])]),
        (json!([[1, 2], [3]]), vec![ids(&[1, 2]), ids(&[3])]),
    ] {
        assert_eq!(completion(json!({"prompt": prompt})).unwrap().prompts, want);
    }
    for (prompt, param) in [
        (json!({}), "prompt"),
        (json!([]), "prompt"),
        (json!([[]]), "prompt[0]"),
        (json!([1, "a"]), "prompt[1]"),
        (json!(["a", true]), "prompt[1]"),
        (json!([[1, 4294967296u64]]), "prompt[0][1]"),
        (json!(["a", "b", "c", "d"]), "prompt"),
    ] {
        assert_eq!(completion(json!({"prompt": prompt})).unwrap_err()[0].param, param, "{prompt}");
    }
    assert_eq!(completion(json!({})).unwrap_err()[0].param, "prompt");
}

#[test]
fn completions_default_to_sixteen_tokens_and_echo_may_generate_none() {
    assert_eq!(completion(json!({"prompt": "a"})).unwrap().shared.options.max_tokens, Some(16));
    let echo = completion(json!({"prompt": "a", "echo": true, "max_tokens": 0})).unwrap();
    assert_eq!(echo.shared.options.max_tokens, Some(0));
    for body in [
        json!({"prompt": "a", "max_tokens": 0}),
        json!({"prompt": "a", "echo": true, "max_tokens": 0, "stream": true}),
    ] {
        assert_eq!(completion(body).unwrap_err()[0].param, "max_tokens");
    }
    assert_eq!(completion(json!({"prompt": "a", "best_of": 2})).unwrap_err()[0].param, "best_of");
    assert!(completion(json!({"prompt": "a", "n": 2, "best_of": 2})).is_ok());
    assert_eq!(completion(json!({"prompt": "a", "n": 5})).unwrap_err()[0].param, "n");
}

#[test]
fn tools_are_withheld_where_no_call_is_wanted() {
    let with_choice = |choice: Value| {
        let body = json!({"messages": [{"role": "user", "content": "hi"}], "tools": [tool()], "tool_choice": choice});
        chat(body).unwrap().conversation.options.tools
    };
    assert_eq!(with_choice(json!("auto")), Some(json!([tool()])));
    assert_eq!(with_choice(json!("none")), None);
}
