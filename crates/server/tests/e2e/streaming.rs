//! The bytes of streams.

use serde_json::{Value, json};

use crate::{client::payloads, house::House};

fn chat(more: Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "room the request"}],
        "temperature": 0, "max_tokens": 6, "ignore_eos": true, "stream": true, "request_id": "x"
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn the_bytes_of_a_chat_stream() {
    let house = House::of("llama");
    let body = chat(json!({"stream_options": {"include_usage": true}}));
    let reply = house.post("/v1/chat/completions", &body);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert_eq!(reply.header("cache-control"), Some("no-cache"));
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    let text = reply.text();
    // The first event, byte for byte; only the time is the server's own.
    let first: Value = serde_json::from_str(&payloads(&text)[0]).unwrap();
    let created = &first["created"];
    let want = format!(
        "data: {{\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\",\"created\":{created},\"model\":\"llama\",\
         \"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"logprobs\":null,\
         \"finish_reason\":null,\"stop_reason\":null}}],\"usage\":null}}\n\ndata: "
    );
    assert!(text.starts_with(&want), "{text}\nbut wanted {want}");
    assert!(text.ends_with("}\n\ndata: [DONE]\n\n"), "{text}");
    assert!(!text.contains('\r'));
    let chunks = chunks(&text);
    let (usage, chunks) = chunks.split_last().unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], 6);
    assert!(chunks.iter().all(|chunk| chunk["usage"].is_null()));
    let end = chunks.last().unwrap();
    assert_eq!(end["choices"][0]["finish_reason"], "length");
    assert_eq!(end["choices"][0]["delta"], json!({}));
}

fn chunks(text: &str) -> Vec<Value> {
    let mut payloads = payloads(text);
    assert_eq!(payloads.pop().as_deref(), Some("[DONE]"));
    payloads.iter().map(|payload| serde_json::from_str(payload).unwrap()).collect()
}

#[test]
fn a_stream_says_what_the_whole_reply_says() {
    let house = House::of("llama");
    let more = json!({"n": 3, "seed": 11, "temperature": 1, "max_tokens": 12, "logprobs": true, "top_logprobs": 2, "return_token_ids": true});
    let streamed = house.post("/v1/chat/completions", &chat(more.clone())).text();
    let mut body = chat(more);
    body.as_object_mut().unwrap().remove("stream");
    let whole = house.ask("/v1/chat/completions", body);
    for index in 0..3 {
        let (mut text, mut ids, mut logprobs) = (String::new(), Vec::new(), Vec::new());
        let mut roles = 0;
        let mut reason = Value::Null;
        for chunk in chunks(&streamed) {
            let choice = &chunk["choices"][0];
            if choice["index"] != json!(index) {
                continue;
            }
            text += choice["delta"]["content"].as_str().unwrap_or_default();
            roles += usize::from(choice["delta"]["role"] == "assistant");
            ids.extend(choice["token_ids"].as_array().cloned().unwrap_or_default());
            logprobs.extend(choice["logprobs"]["content"].as_array().cloned().unwrap_or_default());
            if !choice["finish_reason"].is_null() {
                reason = choice["finish_reason"].clone();
            }
        }
        let choice = &whole["choices"][index];
        assert_eq!(roles, 1);
        assert_eq!(json!(text), choice["message"]["content"]);
        assert_eq!(json!(ids), choice["token_ids"]);
        assert_eq!(json!(logprobs), choice["logprobs"]["content"]);
        assert_eq!(reason, choice["finish_reason"]);
    }
}

#[test]
fn streamed_completions_of_several_prompts_with_echo() {
    let house = House::of("llama");
    let body = json!({
        "prompt": ["room the", [5, 6, 7]], "n": 2, "echo": true, "max_tokens": 5, "seed": 3, "logprobs": 1,
        "ignore_eos": true, "stream": true,
        "stream_options": {"include_usage": true, "continuous_usage_stats": true}
    });
    let streamed = chunks(&house.post("/v1/completions", &body).text());
    let mut whole = body.clone();
    for name in ["stream", "stream_options"] {
        whole.as_object_mut().unwrap().remove(name);
    }
    let whole = house.ask("/v1/completions", whole);
    assert_eq!(whole["choices"].as_array().unwrap().len(), 4);
    for index in 0..4 {
        let own = || streamed.iter().filter(|c| c["choices"][0]["index"] == json!(index));
        let text: String = own().filter_map(|c| c["choices"][0]["text"].as_str()).collect();
        assert_eq!(json!(text), whole["choices"][index]["text"]);
        for list in ["tokens", "text_offset", "token_logprobs"] {
            let joined: Vec<Value> = own()
                .filter_map(|c| c["choices"][0]["logprobs"][list].as_array())
                .flatten()
                .cloned()
                .collect();
            assert_eq!(
                json!(joined),
                whole["choices"][index]["logprobs"][list],
                "{list} of {index}"
            );
        }
    }
    assert!(streamed.iter().all(|chunk| chunk["usage"]["prompt_tokens"].is_u64()));
    let usage = &streamed.last().unwrap()["usage"];
    assert_eq!(usage["completion_tokens"], 20);
    assert_eq!(usage["prompt_tokens"], whole["usage"]["prompt_tokens"]);
}

#[test]
fn without_options_no_usage_is_sent() {
    let house = House::of("llama");
    let text = house.post("/v1/chat/completions", &chat(json!({}))).text();
    assert!(!text.contains("\"usage\""));
}
