//! Calls of tools and reasoning, said by a model with a script.

use serde_json::{Value, json};

use crate::{client::payloads, house::House};

const CHAT: &str = "/v1/chat/completions";
const ANSWER: &str = "<think>\nWhere is it?\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Brno\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>";

/// A house whose model says `text`, then ends.
fn house_that_says(text: &str) -> House {
    let house = House::of("qwen3");
    say(&house, text);
    house
}

fn say(house: &House, text: &str) {
    let body = json!({"prompt": text, "add_special_tokens": false});
    let tokens = house.ask("/tokenize", body)["tokens"].clone();
    let mut tokens: Vec<u32> = serde_json::from_value(tokens).unwrap();
    tokens.push(503);
    house.script.say(tokens.into_iter().map(tokenmill::TokenId).collect::<Vec<_>>());
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
}

fn body(more: Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "What is it like in Brno?"}],
        "tools": [tool("weather"), tool("clock")],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The deltas of the only choice, and how it ended.
fn stream(house: &House, more: Value) -> (Vec<Value>, Value) {
    let mut body = body(more);
    body["stream"] = json!(true);
    let text = house.post(CHAT, &body).text();
    let mut payloads = payloads(&text);
    assert_eq!(payloads.pop().as_deref(), Some("[DONE]"), "{text}");
    let chunks: Vec<Value> = payloads.iter().map(|p| serde_json::from_str(p).unwrap()).collect();
    let ending = chunks.last().unwrap()["choices"][0]["finish_reason"].clone();
    (chunks.iter().map(|chunk| chunk["choices"][0]["delta"].clone()).collect(), ending)
}

/// What a client makes of deltas: the message.
fn gathered(deltas: &[Value]) -> Value {
    let joined =
        |key: &str| -> String { deltas.iter().filter_map(|delta| delta[key].as_str()).collect() };
    let mut calls: Vec<Value> = Vec::new();
    for part in deltas.iter().filter_map(|delta| delta["tool_calls"].as_array()).flatten() {
        let index = part["index"].as_u64().unwrap() as usize;
        if index == calls.len() {
            assert_eq!(part["type"], "function");
            let (id, name) = (&part["id"], &part["function"]["name"]);
            assert!(id.is_string() && name.is_string(), "{part}");
            calls.push(json!({"id": id, "name": name, "arguments": ""}));
        } else {
            assert!(part.get("id").is_none() && part["function"].get("name").is_none(), "{part}");
        }
        let call = &mut calls[index]["arguments"];
        *call = json!(format!(
            "{}{}",
            call.as_str().unwrap(),
            part["function"]["arguments"].as_str().unwrap()
        ));
    }
    json!({"content": joined("content"), "reasoning_content": joined("reasoning_content"), "tool_calls": calls})
}

#[test]
fn a_reply_tells_reasoning_content_and_calls_apart() {
    let house = house_that_says(ANSWER);
    let reply = house.ask(CHAT, body(json!({})));
    let choice = &reply["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    let message = &choice["message"];
    assert_eq!(message["reasoning_content"], "Where is it?");
    assert_eq!(message["content"], "I look.");
    let calls = message["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0]["type"], "function");
    assert_eq!(
        calls[0]["function"],
        json!({"name": "weather", "arguments": "{\"city\": \"Brno\"}"})
    );
    assert_eq!(calls[1]["function"], json!({"name": "clock", "arguments": "{}"}));
    assert!(calls[0]["id"].as_str().unwrap().starts_with("call_"));
    assert_ne!(calls[0]["id"], calls[1]["id"]);

    // The answer and the tools' results go back as they came.
    let history = json!([
        {"role": "user", "content": "What is it like in Brno?"}, message,
        {"role": "tool", "tool_call_id": calls[0]["id"], "content": "rain"},
        {"role": "tool", "tool_call_id": calls[1]["id"], "content": "noon"},
    ]);
    say(&house, "It rains.");
    let reply = house.ask(CHAT, body(json!({"messages": history})));
    assert_eq!(reply["choices"][0]["message"]["content"], "It rains.");
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    assert!(reply["choices"][0]["message"].get("tool_calls").is_none());
}

#[test]
fn a_stream_says_the_same() {
    let house = house_that_says(ANSWER);
    let (deltas, ending) = stream(&house, json!({}));
    assert_eq!(ending, "tool_calls");
    let message = gathered(&deltas);
    assert_eq!(message["reasoning_content"], "Where is it?");
    assert_eq!(message["content"], "I look.");
    assert_eq!(message["tool_calls"][0]["name"], "weather");
    assert_eq!(message["tool_calls"][0]["arguments"], "{\"city\": \"Brno\"}");
    assert_eq!(message["tool_calls"][1]["name"], "clock");
    let parts = deltas.iter().filter(|delta| delta["tool_calls"][0]["index"] == 0);
    assert!(parts.count() > 3, "arguments come as they are made: {deltas:?}");
}

#[test]
fn a_call_alone_has_no_content() {
    let house =
        house_that_says("<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>");
    let reply = house.ask(CHAT, body(json!({})));
    assert_eq!(reply["choices"][0]["message"]["content"], Value::Null);
}

#[test]
fn a_call_that_breaks_off_is_content() {
    let house = house_that_says(ANSWER);
    // The end comes within the first call.
    let more = json!({"max_tokens": 40});
    let reply = house.ask(CHAT, body(more.clone()));
    let choice = &reply["choices"][0];
    assert_eq!(choice["finish_reason"], "length");
    assert!(choice["message"].get("tool_calls").is_none(), "{choice}");
    let content = choice["message"]["content"].as_str().unwrap();
    assert!(content.starts_with("I look.\n<tool_call>\n{\"name\""), "{content}");
    let (deltas, ending) = stream(&house, more);
    assert_eq!((gathered(&deltas)["content"].as_str(), &ending), (Some(content), &json!("length")));
}

#[test]
fn the_answer_ends_with_its_first_call_where_only_one_is_wanted() {
    let house = house_that_says(ANSWER);
    let reply = house.ask(CHAT, body(json!({"parallel_tool_calls": false})));
    let choice = &reply["choices"][0];
    assert_eq!(choice["message"]["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(choice["finish_reason"], "tool_calls");
    let all = house.ask(CHAT, body(json!({"parallel_tool_calls": true})));
    assert_eq!(all["choices"][0]["message"]["tool_calls"].as_array().unwrap().len(), 2);
    let tokens = |reply: &Value| reply["usage"]["completion_tokens"].as_u64();
    assert!(tokens(&reply) < tokens(&all), "nothing is made past the call");
}

#[test]
fn without_tools_or_with_choice_none_calls_are_content() {
    let house = house_that_says(ANSWER);
    for more in [json!({"tools": null}), json!({"tools": []}), json!({"tool_choice": "none"})] {
        let reply = house.ask(CHAT, body(more.clone()));
        let message = &reply["choices"][0]["message"];
        assert!(message.get("tool_calls").is_none(), "{more}");
        assert_eq!(message["reasoning_content"], "Where is it?");
        assert!(message["content"].as_str().unwrap().contains("<tool_call>"), "{more}");
    }
}

#[test]
fn reasoning_can_be_left_out() {
    let house = house_that_says(ANSWER);
    let more = json!({"include_reasoning": false});
    let reply = house.ask(CHAT, body(more.clone()));
    let message = &reply["choices"][0]["message"];
    assert!(message.get("reasoning_content").is_none(), "{message}");
    assert_eq!(message["content"], "I look.");
    let (deltas, _) = stream(&house, more);
    assert_eq!(gathered(&deltas)["reasoning_content"], "");
}

#[test]
fn arguments_of_the_template_reach_it() {
    let house = House::of("qwen3");
    let count = |more: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        house.ask("/tokenize", body)["count"].as_u64().unwrap()
    };
    let off = count(json!({"chat_template_kwargs": {"enable_thinking": false}}));
    assert!(off > count(json!({"chat_template_kwargs": {"enable_thinking": true}})));
}

#[test]
fn what_cannot_be_honoured_is_refused_by_name() {
    let house = House::of("qwen3");
    for choice in [json!("required"), json!({"type": "function", "function": {"name": "clock"}})] {
        let reply = house.post(CHAT, &body(json!({"tool_choice": choice})));
        assert_eq!((reply.status, reply.error().2), (400, "tool_choice".into()));
        assert!(reply.text().contains("constrained decoding"), "{}", reply.text());
    }
    // This one's template knows no tools.
    let house = House::of("llama");
    let reply = house.post(CHAT, &body(json!({})));
    assert_eq!((reply.status, reply.error().2), (400, "tools".into()));
    assert!(reply.text().contains("does not mention tools"), "{}", reply.text());
    assert_eq!(house.post("/tokenize", &body(json!({}))).status, 400);
    let none = json!({"tool_choice": "none", "max_tokens": 1});
    assert_eq!(house.post(CHAT, &body(none)).status, 200);
}
