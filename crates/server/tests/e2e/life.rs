//! Loading, cancelling, draining, ending.

use std::{sync::mpsc, time::Duration};

use serde_json::{Value, json};
use server::Ending;

use crate::house::{House, Plan};

fn long_stream() -> Value {
    json!({"prompt": [5, 6], "max_tokens": 1000, "ignore_eos": true, "stream": true})
}

#[test]
fn while_models_load_the_server_answers_and_says_so() {
    let (go_on, hold) = mpsc::channel();
    let mut plan = Plan::of(&["llama"]);
    plan.hold_loading = Some(hold);
    let house = plan.start();
    let loading = (503, "loading".to_owned(), "-".to_owned());
    assert_eq!(house.get("/health").error(), loading);
    assert_eq!(house.get("/v1/models").error(), loading);
    let reply = house.post("/v1/completions", &json!({"prompt": "a"}));
    assert_eq!(reply.error(), loading);
    assert!(reply.header("retry-after").is_some());
    go_on.send(()).unwrap();
    house.wait_until("ready", |house| house.get("/health").status == 200);
}

#[test]
fn a_client_that_leaves_frees_its_row() {
    let house = House::of("llama");
    let running = "vllm:num_requests_running{model_name=\"llama\"}";
    let aborted = "vllm:request_success_total{model_name=\"llama\",finished_reason=\"abort\"}";
    for (round, stream) in [true, false].into_iter().enumerate() {
        house.gate.close_after(3);
        let mut body = long_stream();
        body["stream"] = json!(stream);
        body["n"] = json!(3);
        let mut exchange = house.open_post("/v1/completions", &body);
        if stream {
            exchange.head();
            exchange.chunk();
        }
        house.wait_until("three run", |house| house.metric(running) == 3.0);
        drop(exchange);
        house.gate.open();
        house.wait_until("none runs", |house| house.metric(running) == 0.0);
        house.wait_until("cancelled", |house| house.metric(aborted) == 3.0 * (round as f64 + 1.0));
        house.wait_until("blocks are back", |house| {
            house.metric("vllm:kv_cache_usage_perc{model_name=\"llama\"}") == 0.0
        });
    }
    let made = house.metric("vllm:generation_tokens_total{model_name=\"llama\"}");
    assert!(made < 3000.0, "{made} tokens were made for nobody");
}

#[test]
fn a_client_that_leaves_while_its_prompt_is_read_frees_its_row() {
    let mut plan = Plan::of(&["llama"]);
    plan.model.max_step_tokens = Some(16);
    let house = plan.start();
    for stream in [true, false] {
        house.gate.close_after(2);
        let prompt: Vec<u32> = (0..400).map(|i| (i * 7 + u32::from(stream)) % 500).collect();
        let body =
            json!({"prompt": prompt, "max_tokens": 1000, "ignore_eos": true, "stream": stream});
        let exchange = house.open_post("/v1/completions", &body);
        house.gate.wait_until_held();
        drop(exchange);
        house.gate.open();
        house.wait_until("nothing is held", |house| {
            let seen = house.model("llama").metrics();
            seen.requests_cancelled == 2 - u64::from(stream)
                && (seen.running, seen.waiting, seen.kv_blocks_used) == (0, 0, 0)
        });
    }
}

#[test]
fn draining_finishes_what_runs_and_refuses_what_is_new() {
    let house = House::of("llama");
    house.gate.close_after(2);
    let mut body = long_stream();
    body["max_tokens"] = json!(20);
    let mut running = house.open_post("/v1/completions", &body);
    running.head();
    let mut text = running.chunk();
    house.signal();
    house.wait_until("draining", |house| house.get("/health").status == 503);
    assert_eq!(house.get("/health").error().1, "draining");
    let refused = house.post("/v1/completions", &json!({"prompt": [5]}));
    assert_eq!(refused.error().1, "draining");
    house.gate.open();
    loop {
        let chunk = running.chunk();
        if chunk.is_empty() {
            break;
        }
        text.extend(chunk);
    }
    let text = String::from_utf8(text).unwrap();
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    assert!(text.contains("\"finish_reason\":\"length\""));
    assert_eq!(house.ending(), Ending::Drained);
}

#[test]
fn an_idle_server_ends_at_the_first_signal() {
    let house = House::of("llama");
    house.signal();
    assert_eq!(house.ending(), Ending::Drained);
}

#[test]
fn a_second_signal_and_the_drain_timeout_cut_off_what_runs() {
    for second_signal in [true, false] {
        let mut plan = Plan::of(&["llama"]);
        if !second_signal {
            plan.server.drain_timeout = Duration::from_millis(20);
        }
        let house = plan.start();
        house.gate.close_after(2);
        let mut running = house.open_post("/v1/completions", &long_stream());
        running.head();
        running.chunk();
        house.signal();
        if second_signal {
            house.signal();
        }
        let gate = house.gate.clone();
        assert_eq!(house.ending(), Ending::CutOff);
        gate.open();
    }
}

#[test]
fn a_failed_load_ends_the_server_with_its_reason() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = server::ServerOptions { port: 0, ..Default::default() };
    let load = || Err(tokenmill::Error::NotFound("no such checkpoint".into()));
    let serving = server::serve(options, load, futures::stream::pending(), |_| {});
    let error = runtime.block_on(serving).unwrap_err();
    assert_eq!(error.to_string(), "no such checkpoint");
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let house = House::of("llama");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = server::ServerOptions { port: house.address.port(), ..Default::default() };
    let error = runtime.block_on(server::Server::bind(options)).unwrap_err();
    assert!(error.to_string().contains(&house.address.to_string()), "{error}");
}
