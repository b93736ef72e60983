//! Too much of anything.

use foundation::Bytes;
use serde_json::json;

use crate::{
    client::Exchange,
    house::{House, Plan},
};

const GIB: usize = 1 << 30;

fn head(length: &str) -> Vec<u8> {
    format!(
        "POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
    )
    .into_bytes()
}

#[test]
fn a_gigabyte_that_is_announced_is_refused_before_it_is_sent() {
    let house = House::of("llama");
    let exchange = Exchange::open(house.address, &head(&format!("Content-Length: {GIB}")));
    let reply = exchange.finish();
    assert_eq!(reply.error(), (413, "request_too_large".into(), "-".into()));
}

#[test]
fn a_gigabyte_in_chunks_is_refused_where_it_passes_the_limit() {
    let house = House::of("llama");
    let mut exchange = Exchange::open(house.address, &head("Transfer-Encoding: chunked"));
    let block = [b"100000\r\n".to_vec(), vec![b' '; 1 << 20], b"\r\n".to_vec()].concat();
    // The server hangs up long before the end; how many blocks fit into buffers on the way is not ours to say.
    let sent = (0..1024).take_while(|_| exchange.send(&block).is_ok()).count();
    assert!(sent < 512, "{sent} MiB were taken");
    assert_eq!(house.get("/health").status, 200);
    // One that stops writing soon enough reads the reply.
    let mut exchange = Exchange::open(house.address, &head("Transfer-Encoding: chunked"));
    for _ in 0..33 {
        exchange.send(&block).unwrap();
    }
    assert_eq!(exchange.finish().status, 413);
}

#[test]
fn the_limit_on_bodies_is_the_operators() {
    let mut plan = Plan::of(&["llama"]);
    plan.server.max_body = Bytes(100);
    let house = plan.start();
    let body = |length: usize| {
        let mut body = br#"{"prompt": [5], "max_tokens": 1}"#.to_vec();
        body.resize(length, b' ');
        body
    };
    assert_eq!(house.post_bytes("/v1/completions", &body(100)).status, 200);
    assert_eq!(house.post_bytes("/v1/completions", &body(101)).status, 413);
}

#[test]
fn prompts_and_choices_are_bounded() {
    let mut plan = Plan::of(&["llama"]);
    plan.server.limits = server::wire::Limits { max_prompts: 2, max_choices: 3 };
    let house = plan.start();
    let ask = |body| house.post("/v1/completions", &body).error();
    assert_eq!(ask(json!({"prompt": ["a", "b", "c"]})), (400, "-".into(), "prompt".into()));
    assert_eq!(ask(json!({"prompt": "a", "n": 4})), (400, "-".into(), "n".into()));
}

#[test]
fn a_small_request_cannot_ask_for_gigabytes() {
    let house = House::of("llama");
    let prompt = vec![7; 1000];
    for (more, field) in [
        (json!({"n": 128, "echo": true, "logprobs": 20}), "logprobs"),
        (json!({"n": 128, "prompt_logprobs": 20}), "prompt_logprobs"),
        (json!({"n": 128, "echo": true, "logprobs": 20, "stream": true}), "logprobs"),
    ] {
        let mut body = json!({"prompt": [prompt, prompt], "max_tokens": 1});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = house.post("/v1/completions", &body);
        assert_eq!(refused.error(), (400, "-".into(), field.into()));
        // 21 entries a choice, and the text once more in each choice behind the first.
        let each = 128 * 21 + if field == "logprobs" { 127 } else { 0 };
        let (all, each) = (format!("{} entries", 2000 * each), format!("2000 tokens x {each}"));
        for part in [all.as_str(), &each, "at most 1048576"] {
            assert!(refused.text().contains(part), "{part}: {}", refused.text());
        }
    }
    house.wait_until("idle", |house| house.model("llama").health().running == 0);
    let text = "the request ".repeat(1000);
    let body = json!({"messages": [{"role": "user", "content": text}], "prompt_logprobs": 20, "max_tokens": 1});
    assert_eq!(house.post("/v1/chat/completions", &body).status, 200, "far from the limit");
}

#[test]
fn choices_share_what_is_told_of_the_prompt() {
    let house = House::of("llama");
    let body = json!({
        "prompt": [5, 6, 7, 8], "n": 3, "echo": true, "logprobs": 2, "prompt_logprobs": 1, "max_tokens": 2,
        "return_token_ids": true, "temperature": 0, "ignore_eos": true
    });
    let reply = house.ask("/v1/completions", body);
    let choices = reply["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 3);
    for choice in choices {
        assert_eq!(choice["prompt_token_ids"], json!([5, 6, 7, 8]));
        assert_eq!(choice["prompt_logprobs"], choices[0]["prompt_logprobs"]);
        assert_eq!(choice["logprobs"], choices[0]["logprobs"]);
        assert_eq!(choice["logprobs"]["tokens"].as_array().unwrap().len(), 6);
        // Each token, and no more than one rival beside it.
        let listed = choice["prompt_logprobs"][1].as_object().unwrap();
        assert!((1..=2).contains(&listed.len()), "{listed:?}");
    }
}

#[test]
fn slow_senders_are_in_nobodys_way() {
    let house = House::of("llama");
    let slow: Vec<Exchange> = (0..24)
        .map(|_| Exchange::open(house.address, &head("Transfer-Encoding: chunked")))
        .collect();
    let mut body = br#"{"prompt": [5], "max_tokens": 1}"#.to_vec();
    body.resize(3 << 20, b' ');
    assert_eq!(house.post_bytes("/v1/completions", &body).status, 200);
    let mut chunked = head("Transfer-Encoding: chunked");
    chunked.extend(b"20\r\n{\"prompt\": [5], \"max_tokens\": 1}\r\n0\r\n\r\n");
    assert_eq!(Exchange::open(house.address, &chunked).finish().status, 200);
    drop(slow);
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let mut plan = Plan::of(&["llama"]);
    plan.model.max_step_sequences = Some(1);
    plan.model.max_queue = Some(1);
    let house = plan.start();
    let body = json!({"prompt": [5, 6], "max_tokens": 8, "ignore_eos": true, "stream": true});
    house.gate.close_after(1);
    let mut running = house.open_post("/v1/completions", &body);
    running.head();
    running.chunk();
    // One of the next two finds the only place in the queue; the other is refused while the engine stands still.
    let (answered, answers) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let exchange = house.open_post("/v1/completions", &body);
            let answered = answered.clone();
            scope.spawn(move || answered.send(exchange.finish()).unwrap());
        }
        let refused = answers.recv().unwrap();
        house.gate.open();
        assert_eq!(refused.error(), (429, "queue_full".into(), "-".into()));
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        assert!(answers.recv().unwrap().text().ends_with("data: [DONE]\n\n"));
    });
    drop(running);
    assert_eq!(house.post("/v1/completions", &body).status, 200);
}

#[test]
fn a_request_is_taken_in_whole_or_not_at_all() {
    let mut plan = Plan::of(&["llama"]);
    plan.model.max_queue = Some(4);
    let house = plan.start();
    let ask = |prompts: usize, n: usize| {
        let prompts = vec![json!([5, 6]); prompts];
        house.post("/v1/completions", &json!({"prompt": prompts, "n": n, "max_tokens": 1}))
    };
    // More than could ever wait: coming again would not help.
    let refused = ask(5, 1);
    assert_eq!(refused.error(), (400, "-".into(), "n".into()));
    assert!(refused.text().contains("5 sequences") && refused.text().contains("at most 4"));
    assert_eq!(ask(3, 2).error(), (400, "-".into(), "n".into()));
    for _ in 0..8 {
        assert_eq!(ask(2, 2).status, 200, "what was refused holds no places");
    }
}

#[test]
fn bodies_and_heads_that_never_come_are_given_up() {
    let mut plan = Plan::of(&["llama"]);
    plan.server.body_timeout = std::time::Duration::from_millis(50);
    plan.server.header_timeout = std::time::Duration::from_millis(50);
    let house = plan.start();
    let slow = Exchange::open(house.address, &head("Content-Length: 10"));
    assert_eq!(slow.finish().error(), (408, "timeout".into(), "-".into()));
    let mut silent = Exchange::open(house.address, b"GET /health HT");
    // hyper answers 408 or hangs up; either way the connection does not stay.
    let mut rest = Vec::new();
    silent.read_to_end(&mut rest);
    assert!(!rest.starts_with(b"HTTP/1.1 200"));
}

#[test]
fn connections_beyond_the_limit_wait_their_turn() {
    let mut plan = Plan::of(&["llama"]);
    plan.server.max_connections = 2;
    let house = plan.start();
    house.gate.close_after(1);
    let body = json!({"prompt": [5, 6], "max_tokens": 8, "ignore_eos": true, "stream": true});
    let mut streams: Vec<Exchange> =
        (0..2).map(|_| house.open_post("/v1/completions", &body)).collect();
    streams[0].head();
    let third = house.open("GET", "/health", &[], b"");
    house.gate.open();
    for stream in streams {
        drop(stream);
    }
    assert_eq!(third.finish().status, 200);
}

#[test]
fn an_answer_that_takes_too_long_is_a_timeout_that_nobody_sends_again() {
    let house = House::of("llama");
    let body = |timeout: f64| json!({"prompt": [5], "max_tokens": 60, "ignore_eos": true, "timeout": timeout});
    let reply = house.post("/v1/completions", &body(1e-6));
    assert_eq!(reply.error(), (504, "timed_out".into(), "-".into()));
    assert_eq!(reply.header("x-should-retry"), Some("false"));
    let stream = json!({"prompt": [5], "max_tokens": 60, "timeout": 1e-6, "stream": true});
    let reply = house.post("/v1/completions", &stream);
    assert!(reply.text().contains("timed_out"), "{}", reply.text());
    assert_eq!(house.post("/v1/completions", &body(600.0)).status, 200);
    assert_eq!(house.post("/v1/completions", &body(0.0)).status, 400);
}
