//! Every way to ask wrongly, and what comes back.

use serde_json::json;

use crate::{client::request, house::House};

#[test]
fn bad_bodies() {
    let house = House::of("llama");
    let deep = format!("{{\"prompt\": {}{}}}", "[".repeat(9000), "]".repeat(9000));
    for (body, part) in [
        (&b"{\"prompt\": \"\xff\xfe\"}"[..], "not valid UTF-8: bad byte at offset 12"),
        (b"", "not valid JSON"),
        (b"{\"prompt\": ", "not valid JSON"),
        (b"[1]", "must be a JSON object"),
        (b"{\"prompt\": \"a\", \"prompt\": \"b\"}", "given twice"),
        (b"{\"prompt\": \"\\ud800\"}", "not valid JSON"),
        (deep.as_bytes(), "recursion"),
    ] {
        for path in ["/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"] {
            let reply = house.post_bytes(path, body);
            assert_eq!(reply.status, 400, "{path} {part}");
            assert!(reply.text().contains(part), "{path} {part}: {}", reply.text());
        }
    }
    assert_eq!(house.get("/health").status, 200);
}

#[test]
fn wrong_media_types_routes_and_methods() {
    let house = House::of("llama");
    for headers in [
        &[][..],
        &[("Content-Type", "text/plain")],
        &[("Content-Type", "application/json"), ("Content-Encoding", "gzip")],
    ] {
        let reply = house.send("POST", "/v1/completions", headers, b"{\"prompt\": \"a\"}");
        assert_eq!(reply.error(), (415, "unsupported_media_type".into(), "-".into()));
    }
    let fine = [("Content-Type", "Application/JSON; charset=utf-8")];
    let body = br#"{"prompt": [5], "max_tokens": 1}"#;
    assert_eq!(house.send("POST", "/v1/completions", &fine, body).status, 200);
    assert_eq!(house.get("/v2/models").error(), (404, "not_found".into(), "-".into()));
    let reply = house.get("/v1/completions");
    assert_eq!(reply.error(), (405, "method_not_allowed".into(), "-".into()));
    assert_eq!(reply.header("allow"), Some("POST"));
}

#[test]
fn fields_at_fault_are_named_all_at_once() {
    let house = House::of("llama");
    let body = json!({"prompt": "a", "temperature": 3, "top_p": 0, "wings": 2, "suffix": "x"});
    let reply = house.post("/v1/completions", &body);
    assert_eq!(reply.error(), (400, "-".into(), "temperature".into()));
    for part in ["temperature must be from 0 to 2, not 3", "top_p", "wings", "suffix"] {
        assert!(reply.text().contains(part), "{part}: {}", reply.text());
    }
}

#[test]
fn what_a_request_says_comes_back_cut() {
    let house = House::of("llama");
    let long = "x".repeat(1 << 20);
    let user = json!([{"role": "user", "content": "hi"}]);
    let zeros = vec![0; 100_000];
    let keys: serde_json::Map<_, _> =
        (0..1000).map(|i| (format!("{i}{}", "y".repeat(1000)), json!(0))).collect();
    let mut nested = json!({"messages": user});
    nested[&long] = json!(1);
    for (path, body) in [
        ("/v1/chat/completions", json!({"messages": user, "tools": zeros})),
        ("/v1/chat/completions", json!({"messages": user, "documents": zeros})),
        ("/v1/chat/completions", json!({"messages": user, "tool_choice": long})),
        ("/v1/chat/completions", json!({"messages": user, "model": long})),
        ("/v1/chat/completions", json!({"messages": user, "logit_bias": keys})),
        ("/v1/chat/completions", json!({"messages": user, "stop": vec![0; 64]})),
        ("/v1/chat/completions", json!({"messages": [{"role": long, "content": "hi"}]})),
        ("/v1/chat/completions", json!({"messages": [{"role": "user", "content": zeros}]})),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": [{"type": long}]}]}),
        ),
        ("/v1/chat/completions", json!({"messages": vec![0; 16_000]})),
        ("/v1/chat/completions", nested),
        ("/v1/completions", json!({"prompt": vec![json!({}); 1000]})),
        ("/v1/completions", json!({"prompt": "a", "suffix": long})),
        ("/tokenize", json!({"prompt": "a", "model": long})),
        ("/detokenize", json!({"tokens": [long]})),
    ] {
        let reply = house.post(path, &body);
        assert!(reply.status == 400 || reply.status == 404, "{path} {}", reply.status);
        reply.error();
        assert!(reply.body.len() < 16_000, "{path}: {} bytes", reply.body.len());
    }
    let twice = format!("{{\"{long}\": 1, \"{long}\": 1}}");
    assert!(house.post_bytes("/tokenize", twice.as_bytes()).body.len() < 1000);
    assert!(house.get(&format!("/{}", "z".repeat(30_000))).body.len() < 1000);
}

#[test]
fn tokens_outside_the_vocabulary_are_named() {
    let house = House::of("llama");
    for (body, param) in [
        (json!({"prompt": [5, 512]}), "prompt[1]"),
        (json!({"prompt": [5], "stop_token_ids": [600]}), "stop_token_ids[0]"),
        (json!({"prompt": [5], "logit_bias": {"600": 1}}), "logit_bias[0]"),
    ] {
        assert_eq!(house.post("/v1/completions", &body).error(), (400, "-".into(), param.into()));
    }
    let batch = house.post("/v1/completions", &json!({"prompt": [[5], [6, 512]]}));
    assert_eq!(batch.error(), (400, "-".into(), "prompt[1][1]".into()));
    // An empty prompt of a tokenizer that begins with nothing is no prompt.
    let empty = house.post("/v1/completions", &json!({"prompt": "", "add_special_tokens": false}));
    assert_eq!(empty.status, 400);
}

#[test]
fn over_long_prompts_say_so() {
    let house = House::of("llama");
    let long = "context_length_exceeded".to_owned();
    let ids = vec![5; 200_000];
    for body in [
        json!({"prompt": ids}),
        json!({"prompt": "the request ".repeat(60_000)}),
        json!({"prompt": ids, "stream": true}),
        json!({"prompt": [5, 6, 7], "max_tokens": 4096}),
    ] {
        let (status, code, _) = house.post("/v1/completions", &body).error();
        assert_eq!((status, code), (400, long.clone()));
    }
    // A text that is too long however it is tokenized is not tokenized at all.
    let endless =
        house.post("/v1/completions", &json!({"prompt": "the request ".repeat(2_000_000)}));
    assert!(endless.text().contains("at least"), "{}", endless.text());
    let chat = json!({"messages": [{"role": "user", "content": "the request ".repeat(60_000)}]});
    assert_eq!(house.post("/v1/chat/completions", &chat).error().1, long);
}

/// A copy of a fixture whose chat template is left out, in a directory that goes when dropped.
fn without_template(fixture: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(testkit::golden::fixture_directory(fixture)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if name != "chat_template.jinja" {
            std::fs::copy(&path, copy.path().join(name)).unwrap();
        }
    }
    let config = copy.path().join("tokenizer_config.json");
    let mut json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    json.as_object_mut().unwrap().remove("chat_template");
    std::fs::write(config, json.to_string()).unwrap();
    copy
}

#[test]
fn a_checkpoint_without_a_template_refuses_chats_and_names_the_way_out() {
    let copy = without_template("llama-tied");
    let house = House::of(copy.path().to_string_lossy().into_owned().leak());
    let chat = json!({"messages": [{"role": "user", "content": "hi"}]});
    let reply = house.post("/v1/chat/completions", &chat);
    assert_eq!(reply.error(), (400, "no_chat_template".into(), "messages".into()));
    assert!(reply.text().contains("--chat-template"));
    assert_eq!(
        house.post("/v1/completions", &json!({"prompt": "hi", "max_tokens": 1})).status,
        200
    );
}

#[test]
fn a_checkpoint_without_a_tokenizer_takes_and_gives_token_ids() {
    let copy = without_template("llama-tied");
    std::fs::remove_file(copy.path().join("tokenizer.json")).unwrap();
    let house = House::of(copy.path().to_string_lossy().into_owned().leak());
    let golden = &testkit::golden::Golden::read("llama-tied").prompts[0];
    let body = json!({
        "prompt": golden.input_ids, "max_tokens": 24, "temperature": 0, "ignore_eos": true, "logprobs": 1,
        "return_token_ids": null
    });
    let reply = house.ask("/v1/completions", body);
    assert_eq!(reply["choices"][0]["token_ids"], json!(golden.greedy_ids));
    assert_eq!(reply["choices"][0]["text"], "");
    let name = format!("token_id:{}", golden.greedy_ids[0]);
    assert_eq!(reply["choices"][0]["logprobs"]["tokens"][0], json!(name));
    for (path, body) in [
        ("/v1/completions", json!({"prompt": "hi"})),
        ("/v1/completions", json!({"prompt": [5], "stop": ["x"]})),
        ("/tokenize", json!({"prompt": "hi"})),
        ("/detokenize", json!({"tokens": [5]})),
    ] {
        assert_eq!(house.post(path, &body).error().0, 400, "{path} {body}");
    }
}

#[test]
fn garbage_instead_of_http_hurts_nobody() {
    let house = House::of("llama");
    for bytes in [
        &b"\x16\x03\x01\x02\x00"[..],
        b"GET\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ] {
        let mut exchange = crate::client::Exchange::open(house.address, bytes);
        let _ = exchange.send(b"\r\n\r\n");
    }
    let huge_head = request("GET", "/health", &[("X-Long", &"x".repeat(200_000))], b"");
    let (status, _) = crate::client::Exchange::open(house.address, &huge_head).head();
    assert_eq!(status, 431);
    assert_eq!(house.get("/health").status, 200);
}
