//! Texts that must be something.

use serde_json::{Value, json};

use crate::{client::payloads, house::House};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

fn with(mut body: Value, more: Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn chat(more: Value) -> Value {
    let body = json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 400, "temperature": 0});
    with(body, more)
}

fn completion(more: Value) -> Value {
    with(
        json!({"prompt": "room the request", "max_tokens": 400, "temperature": 1.5, "seed": 4}),
        more,
    )
}

fn schema() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["n", "s"],
        "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 50}, "s": {"enum": ["up", "down"]}},
    })
}

fn check(text: &str) {
    let value: Value = serde_json::from_str(text).expect(text);
    assert!((1..=50).contains(&value["n"].as_i64().unwrap()), "{text}");
    assert!(["up", "down"].contains(&value["s"].as_str().unwrap()), "{text}");
    assert_eq!(value.as_object().unwrap().len(), 2, "{text}");
}

#[test]
fn a_schema_is_kept_whole_and_streamed() {
    let house = House::of("qwen3");
    let format = json!({"type": "json_schema", "json_schema": {"name": "place", "strict": true, "schema": schema()}});
    let reply = house.ask(
        CHAT,
        chat(json!({"response_format": format, "n": 2, "logprobs": true, "top_logprobs": 2})),
    );
    for choice in reply["choices"].as_array().unwrap() {
        check(choice["message"]["content"].as_str().unwrap());
        assert_eq!(choice["finish_reason"], "stop");
        assert!(choice["logprobs"]["content"].as_array().unwrap().len() > 3);
    }
    let body = chat(json!({"response_format": format, "stream": true}));
    let text = house.post(CHAT, &body).text();
    let mut payloads = payloads(&text);
    assert_eq!(payloads.pop().as_deref(), Some("[DONE]"), "{text}");
    let chunks = payloads.iter().map(|payload| serde_json::from_str::<Value>(payload).unwrap());
    let joined: String = chunks
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    check(&joined);
}

#[test]
fn the_other_ways_to_say_it() {
    let house = House::of("llama");
    let text = |more: Value| {
        let reply = house.ask(COMPLETIONS, completion(more));
        assert_eq!(reply["choices"][0]["finish_reason"], "stop", "{reply}");
        reply["choices"][0]["text"].as_str().unwrap().to_owned()
    };
    check(&text(json!({"guided_json": schema()})));
    check(&text(json!({"guided_json": schema().to_string()})));
    check(&text(json!({"structured_outputs": {"json": schema()}})));
    let digits = text(json!({"guided_regex": "[0-9]{3}-[0-9]"}));
    assert!(digits.len() == 5 && digits.as_bytes()[3] == b'-', "{digits}");
    assert!(["yes", "no"].contains(&text(json!({"guided_choice": ["yes", "no"]})).as_str()));
    let nested = text(json!({"guided_grammar": "start: \"(\" start \")\" | \"x\" | \"y\""}));
    assert!(nested.contains('x') || nested.contains('y'), "{nested}");
    let cut = text(json!({"guided_regex": "ab,cd", "stop": ","}));
    assert_eq!(cut, "ab");
}

#[test]
fn what_is_wrong_with_a_constraint_is_a_400_that_names_the_field() {
    let house = House::of("qwen3");
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {}}});
    let bad =
        json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "strange"}}});
    for (more, param) in [
        (json!({"response_format": bad}), "response_format.json_schema.schema"),
        (json!({"guided_regex": "("}), "guided_regex"),
        (json!({"guided_grammar": "start: nowhere"}), "guided_grammar"),
        (json!({"guided_json": {"properties": {"a": {"type": 3}}}}), "guided_json"),
        (json!({"guided_choice": [""]}), "guided_choice"),
        (json!({"structured_outputs": {"regex": "["}}), "structured_outputs.regex"),
        (json!({"guided_regex": "a", "guided_choice": ["b"]}), "guided_choice"),
        (json!({"guided_regex": "a", "ignore_eos": true}), "ignore_eos"),
        (json!({"guided_regex": "a", "min_tokens": 5}), "min_tokens"),
        (json!({"guided_regex": "a", "tools": [tool]}), "tools"),
    ] {
        let reply = house.post(CHAT, &chat(more.clone()));
        assert_eq!(reply.status, 400, "{more}");
        let error: Value = serde_json::from_str(&reply.text()).unwrap();
        assert_eq!(error["error"]["param"], param, "{more}: {error}");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.len() < 500, "{message}");
    }
}
