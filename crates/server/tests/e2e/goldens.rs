//! Every fixture's greedy continuation, through a socket.

use serde_json::{Value, json};
use testkit::golden::{Golden, fixture_names};

use crate::house::{House, Plan};

#[test]
fn every_fixture_continues_its_golden_prompts_through_the_server() {
    let names = fixture_names();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let name: &'static str = name.leak();
        let house = House::of(name);
        for (index, prompt) in Golden::read(name).prompts.iter().enumerate() {
            let ids: Vec<u32> = prompt.input_ids.iter().map(|token| token.0).collect();
            let want = json!(prompt.greedy_ids);
            let seen = house.continue_greedily(name, &ids, prompt.greedy_ids.len() as u32);
            assert_eq!(seen, want, "{name}, prompt {index}");
        }
    }
}

#[test]
fn one_request_of_all_prompts_gives_what_each_gives_alone() {
    let golden = Golden::read("llama");
    let house = Plan::of(&["llama"]).start();
    let prompts: Vec<Value> = golden.prompts.iter().map(|prompt| json!(prompt.input_ids)).collect();
    let body =
        json!({"prompt": prompts, "max_tokens": 24, "temperature": 0, "ignore_eos": true, "n": 2});
    let reply = house.ask("/v1/completions", body);
    let choices = reply["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 2 * golden.prompts.len());
    for (index, choice) in choices.iter().enumerate() {
        assert_eq!(choice["index"], json!(index));
        assert_eq!(choice["token_ids"], json!(golden.prompts[index / 2].greedy_ids));
    }
    let prompt_tokens: usize = golden.prompts.iter().map(|prompt| prompt.input_ids.len()).sum();
    assert_eq!(reply["usage"]["prompt_tokens"], json!(prompt_tokens));
    assert_eq!(reply["usage"]["completion_tokens"], json!(24 * choices.len()));
}
