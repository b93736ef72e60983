//! A device that fails, an engine that stands still.

use std::time::Duration;

use serde_json::{Value, json};
use server::Ending;
use testkit::{Fault, FaultKind};

use crate::{
    client::{Exchange, payloads},
    house::{House, Plan},
};

fn completion(more: Value) -> Value {
    with(json!({"prompt": [5, 6], "max_tokens": 100, "ignore_eos": true}), more)
}

fn chat(more: Value) -> Value {
    let messages = json!([{"role": "user", "content": "hi"}]);
    with(json!({"messages": messages, "max_tokens": 100, "ignore_eos": true}), more)
}

fn with(mut body: Value, more: Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Three requests beside the one that runs, four choices, none of which has begun.
fn more_requests(house: &House) -> (Exchange, Exchange, Exchange) {
    house.gate.wait_until_held();
    let stream = house.open_post("/v1/chat/completions", &chat(json!({"stream": true})));
    let whole = house.open_post("/v1/completions", &completion(json!({})));
    let several = house.open_post("/v1/chat/completions", &chat(json!({"n": 2})));
    house.wait_until("four wait", |house| house.model("llama").health().queued == 4);
    (stream, whole, several)
}

/// A stream that failed: at its end one error, and no `[DONE]`.
fn assert_broken_stream(exchange: Exchange) {
    let reply = exchange.finish();
    assert_eq!(reply.status, 200);
    let payloads = payloads(&reply.text());
    let parsed: Vec<Value> =
        payloads.iter().map(|payload| serde_json::from_str(payload).unwrap()).collect();
    let errors = parsed.iter().filter(|chunk| chunk.get("error").is_some()).count();
    assert_eq!(errors, 1, "{payloads:?}");
    assert!(parsed.len() > 1, "nothing came before the fault: {payloads:?}");
    let error = &parsed[parsed.len() - 1]["error"];
    assert_eq!(error["type"], "server_error");
    assert_eq!(error["code"], "broke_off");
    assert!(error["message"].as_str().unwrap().starts_with("the generation broke off: "));
}

#[test]
fn a_fault_in_the_middle_ends_every_request_once_and_the_server_says_so() {
    for kind in [FaultKind::Submit, FaultKind::Wait, FaultKind::Panic] {
        let house = Plan::fake("llama", Some(Fault { step: 4, kind })).start();
        house.gate.close_after(1);
        let running = house.open_post("/v1/completions", &completion(json!({"stream": true})));
        let (stream, whole, several) = more_requests(&house);
        house.gate.open();
        assert_broken_stream(running);
        assert_broken_stream(stream);
        for exchange in [whole, several] {
            let reply = exchange.finish();
            assert_eq!(reply.error(), (500, "broke_off".into(), "-".into()), "{kind:?}");
            assert_eq!(reply.json()["error"]["type"], "server_error");
        }
        let health = house.get("/health");
        assert_eq!(health.error(), (503, "unhealthy".into(), "-".into()), "{kind:?}");
        assert!(health.text().contains("injected"), "{}", health.text());
        for more in [json!({}), json!({"stream": true})] {
            let refused = house.post("/v1/completions", &completion(more));
            assert_eq!(refused.error(), (503, "unhealthy".into(), "-".into()), "{kind:?}");
        }
    }
}

#[test]
fn a_server_that_lost_its_model_ends_and_says_why() {
    for kind in [FaultKind::Submit, FaultKind::Wait, FaultKind::Panic] {
        let mut plan = Plan::fake("llama", Some(Fault { step: 4, kind }));
        plan.server.fault_linger = Duration::ZERO;
        let house = plan.start();
        let broken = house.post("/v1/completions", &completion(json!({})));
        assert_eq!(broken.error(), (500, "broke_off".into(), "-".into()), "{kind:?}");
        let Ending::Lost(why) = house.ending() else { panic!("{kind:?}: it was lost") };
        assert!(why.starts_with("llama: ") && why.contains("injected"), "{why}");
    }
}

#[test]
fn a_row_that_fails_takes_no_other_request_with_it() {
    let house = Plan::fake("llama", Some(Fault { step: 1, kind: FaultKind::Row })).start();
    let broken = house.post("/v1/completions", &completion(json!({})));
    assert_eq!(broken.error(), (500, "no_numbers".into(), "-".into()));
    assert!(broken.text().contains("no usable numbers for this prompt"), "{}", broken.text());
    assert_eq!(house.get("/health").status, 200);
    assert_eq!(house.post("/v1/completions", &completion(json!({}))).status, 200);
    assert_eq!(house.get("/health").status, 200);
}

#[test]
fn an_engine_that_stands_still_with_work_is_unhealthy_until_it_goes_on() {
    let mut plan = Plan::fake("llama", None);
    plan.model.stall_after = Some(Duration::ZERO);
    let house = plan.start();
    assert_eq!(house.get("/health").status, 200, "an idle engine is no stalled one");
    house.gate.close_after(0);
    let waiting = house.open_post("/v1/completions", &completion(json!({"max_tokens": 2})));
    house.gate.wait_until_held();
    house.wait_until("unhealthy", |house| house.get("/health").status == 503);
    let health = house.get("/health");
    assert_eq!(health.error(), (503, "unhealthy".into(), "-".into()));
    assert!(health.text().contains("llama: no step has ended for"), "{}", health.text());
    house.gate.open();
    assert_eq!(waiting.finish().status, 200);
    house.wait_until("healthy again", |house| house.get("/health").status == 200);
}
