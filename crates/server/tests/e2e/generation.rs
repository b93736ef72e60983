//! What requests ask for and get.

use serde_json::{Value, json};

use crate::house::House;

fn completion(house: &House, more: Value) -> Value {
    let mut body = json!({"prompt": "room the request", "max_tokens": 16, "temperature": 0, "ignore_eos": true});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    house.ask("/v1/completions", body)
}

fn text(reply: &Value) -> &str {
    reply["choices"][0]["text"].as_str().unwrap()
}

#[test]
fn the_shape_of_whole_replies() {
    let house = House::of("llama");
    let body = json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "temperature": 0, "ignore_eos": true});
    let reply = house.ask("/v1/chat/completions", body);
    assert!(reply["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!(reply["object"], "chat.completion");
    assert_eq!(reply["model"], "llama");
    let choice = &reply["choices"][0];
    assert_eq!(choice["message"]["role"], "assistant");
    assert!(choice["message"]["content"].is_string());
    assert_eq!((&choice["finish_reason"], &choice["logprobs"]), (&json!("length"), &Value::Null));
    let usage = &reply["usage"];
    assert_eq!(usage["completion_tokens"], 4);
    let sum = usage["prompt_tokens"].as_u64().unwrap() + 4;
    assert_eq!(usage["total_tokens"], json!(sum));
    assert_eq!(reply.get("prompt_token_ids"), None);

    let reply = completion(&house, json!({}));
    assert_eq!(reply["object"], "text_completion");
    assert_eq!(reply["choices"][0].get("token_ids"), None);
    assert_eq!(reply["usage"]["completion_tokens"], 16);
}

#[test]
fn the_same_seed_gives_the_same_text_and_choices_differ() {
    let house = House::of("llama");
    let sample = |more: Value| {
        let mut body = json!({"temperature": 1.5, "n": 4});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = completion(&house, body);
        let choices = reply["choices"].as_array().unwrap();
        choices.iter().map(|choice| choice["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let first = sample(json!({"seed": 7}));
    assert_eq!(sample(json!({"seed": 7})), first);
    assert_ne!(sample(json!({"seed": 8})), first);
    assert!(first.iter().any(|text| *text != first[0]), "{first:?}");
    assert_ne!(sample(json!({})), sample(json!({})));
}

#[test]
fn stop_strings_cut_the_text_before_themselves() {
    let house = House::of("llama");
    let whole = completion(&house, json!({}));
    let chars: Vec<char> = text(&whole).chars().collect();
    let stop: String = chars[3..6].iter().collect();
    let at = text(&whole).find(&stop).unwrap();
    let cut = completion(&house, json!({"stop": [&stop]}));
    assert_eq!(text(&cut), &text(&whole)[..at]);
    let choice = &cut["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["stop_reason"]), (&json!("stop"), &json!(stop)));
    let kept = completion(&house, json!({"stop": stop, "include_stop_str_in_output": true}));
    assert_eq!(text(&kept), &text(&whole)[..at + stop.len()]);
    house.wait_until("idle", |house| {
        house.metric("vllm:num_requests_running{model_name=\"llama\"}") == 0.0
    });
}

#[test]
fn stop_tokens_bias_and_min_tokens() {
    let house = House::of("llama");
    let free = completion(&house, json!({"return_token_ids": true}));
    let ids: Vec<u64> = free["choices"][0]["token_ids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap())
        .collect();
    let third = ids[2];
    let first_at = ids.iter().position(|id| *id == third).unwrap();
    let stopped = completion(&house, json!({"stop_token_ids": [third]}));
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    assert_eq!(stopped["choices"][0]["stop_reason"], json!(third));
    assert_eq!(stopped["usage"]["completion_tokens"], json!(first_at + 1));
    let later = completion(&house, json!({"stop_token_ids": [third], "min_tokens": first_at + 3}));
    assert!(later["usage"]["completion_tokens"].as_u64().unwrap() > first_at as u64 + 1);
    // A stop string that is complete before that counts as little.
    let begin: String = text(&free).chars().take(2).collect();
    let stop = json!({"stop": [begin], "min_tokens": 16});
    assert_eq!(completion(&house, stop)["choices"][0]["finish_reason"], "length");
    let forced = completion(&house, json!({"logit_bias": {"42": 100}, "return_token_ids": true}));
    assert_eq!(forced["choices"][0]["token_ids"], json!(vec![42; 16]));
    let banned = completion(
        &house,
        json!({"logit_bias": {ids[0].to_string(): -100}, "return_token_ids": true}),
    );
    assert_ne!(banned["choices"][0]["token_ids"][0], json!(ids[0]));
}

#[test]
fn logprobs_of_chats_and_completions() {
    let house = House::of("llama");
    let body = json!({
        "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "temperature": 0, "ignore_eos": true,
        "logprobs": true, "top_logprobs": 2
    });
    let reply = house.ask("/v1/chat/completions", body);
    let content = reply["choices"][0]["logprobs"]["content"].as_array().unwrap().clone();
    assert_eq!(content.len(), 3);
    for token in &content {
        assert_eq!(token["top_logprobs"].as_array().unwrap().len(), 2);
        // Greedy: the token is the likeliest.
        assert_eq!(token["top_logprobs"][0]["token"], token["token"]);
        assert!(token["logprob"].as_f64().unwrap() <= 0.0);
        assert!(token["bytes"].is_array());
    }
    let reply = completion(
        &house,
        json!({"logprobs": 2, "max_tokens": 3, "return_tokens_as_token_ids": true}),
    );
    let logprobs = &reply["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"].as_array().unwrap().len(), 3);
    assert!(logprobs["tokens"][0].as_str().unwrap().starts_with("token_id:"));
    assert_eq!(logprobs["top_logprobs"][0].as_object().unwrap().len(), 2);
}

#[test]
fn echo_scores_a_prompt_without_generating() {
    let house = House::of("llama");
    let body = json!({"prompt": [5, 6, 7, 8], "echo": true, "max_tokens": 0, "logprobs": 1});
    let reply = house.ask("/v1/completions", body);
    let choice = &reply["choices"][0];
    let scores = choice["logprobs"]["token_logprobs"].as_array().unwrap();
    assert_eq!((scores.len(), &scores[0]), (4, &Value::Null));
    assert!(scores[1..].iter().all(|score| score.as_f64().unwrap() < 0.0));
    assert_eq!(reply["usage"]["completion_tokens"], 0);
    let text = house.ask("/detokenize", json!({"tokens": [5, 6, 7, 8]}))["prompt"].clone();
    assert_eq!(choice["text"], text);
    // The same numbers in the other form.
    let body = json!({"prompt": [5, 6, 7, 8], "max_tokens": 1, "prompt_logprobs": 0});
    let other = house.ask("/v1/completions", body);
    let listed = other["choices"][0]["prompt_logprobs"].as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]), (4, &Value::Null));
    assert_eq!(listed[2]["7"]["logprob"], scores[2]);
}

#[test]
fn offsets_of_an_echoed_text_are_places_in_it() {
    let house = House::of("llama");
    let reply = completion(&house, json!({"echo": true, "logprobs": 0, "max_tokens": 2}));
    let logprobs = &reply["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"][0], "<|begin_of_text|>");
    let tokens = logprobs["tokens"].as_array().unwrap()[1..].iter();
    let offsets = logprobs["text_offset"].as_array().unwrap()[1..].iter();
    let prompt_tokens = reply["usage"]["prompt_tokens"].as_u64().unwrap() as usize - 1;
    for (token, offset) in tokens.zip(offsets).take(prompt_tokens) {
        let rest = text(&reply).get(offset.as_u64().unwrap() as usize..).unwrap();
        assert!(rest.starts_with(token.as_str().unwrap()), "{token} at {offset}");
    }
}

#[test]
fn fragments_of_characters_keep_their_place_and_their_rivals() {
    let house = House::of("llama");
    let prompt = "naïve 日本 🎉 café";
    let body = json!({
        "prompt": prompt, "max_tokens": 12, "temperature": 1.5, "seed": 3, "ignore_eos": true, "echo": true,
        "logprobs": 20, "skip_special_tokens": false
    });
    let reply = house.ask("/v1/completions", body.clone());
    let logprobs = &reply["choices"][0]["logprobs"];
    let list = |name: &str| logprobs[name].as_array().unwrap().clone();
    let (tokens, scores, tops) = (list("tokens"), list("token_logprobs"), list("top_logprobs"));
    let chars: Vec<char> = text(&reply).chars().collect();
    let offsets: Vec<usize> =
        list("text_offset").iter().map(|offset| offset.as_u64().unwrap() as usize).collect();
    assert!(offsets.is_sorted(), "{offsets:?}");
    assert!(offsets.iter().all(|offset| *offset <= chars.len()));
    let fragments = tokens.iter().filter(|token| token.as_str().unwrap().starts_with("bytes:\\x"));
    assert!(fragments.count() >= 5, "the test needs fragments: {tokens:?}");
    for (index, token) in tokens.iter().enumerate().skip(1) {
        let token = token.as_str().unwrap();
        let top = tops[index].as_object().unwrap();
        assert_eq!(top[token], scores[index], "{token}");
        assert!(top.len() >= 20, "rivals are lost: {top:?}");
        if !token.starts_with("bytes:") {
            let rest: String = chars[offsets[index]..].iter().collect();
            assert!(rest.starts_with(token), "{token} at {}", offsets[index]);
        }
    }
    // The first token behind the prompt begins where the prompt ends.
    let prompt_tokens = reply["usage"]["prompt_tokens"].as_u64().unwrap() as usize;
    assert_eq!(offsets[prompt_tokens], prompt.chars().count());
    // A stream says the same in pieces.
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let chunks = house.post("/v1/completions", &streamed).text();
    let mut pieces = Vec::new();
    for payload in crate::client::payloads(&chunks).iter().filter(|payload| *payload != "[DONE]") {
        let chunk: Value = serde_json::from_str(payload).unwrap();
        let offsets = chunk["choices"][0]["logprobs"]["text_offset"].as_array().cloned();
        pieces.extend(offsets.unwrap_or_default());
    }
    assert_eq!(json!(pieces), logprobs["text_offset"]);
}

#[test]
fn a_prompt_of_exactly_the_limit_can_be_scored() {
    let house = House::of("llama");
    let limit = house.model("llama").info().max_sequence_tokens;
    let mut body = json!({"prompt": vec![7; limit], "echo": true, "max_tokens": 0, "logprobs": 0});
    let reply = house.ask("/v1/completions", body.clone());
    let scores = reply["choices"][0]["logprobs"]["token_logprobs"].as_array().unwrap();
    assert_eq!(scores.len(), limit);
    assert_eq!(reply["usage"]["completion_tokens"], 0);
    body["max_tokens"] = json!(1);
    assert_eq!(house.post("/v1/completions", &body).error().1, "context_length_exceeded");
}

#[test]
fn a_shared_beginning_is_found_in_the_cache_unless_salted_apart() {
    let house = House::of("llama");
    let prompt: Vec<u32> = (0..200).map(|i| i % 500).collect();
    let cached = |more: Value| {
        let mut body =
            json!({"prompt": prompt, "max_tokens": 4, "temperature": 0, "ignore_eos": true});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = house.ask("/v1/completions", body);
        let cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        (cached, reply["choices"][0]["token_ids"].clone())
    };
    let (cold, text) = cached(json!({}));
    let (warm, same) = cached(json!({}));
    assert_eq!(cold, 0);
    assert!(warm > 100, "{warm}");
    assert_eq!(text, same);
    assert_eq!(cached(json!({"cache_salt": "other"})), (0, text));
}
