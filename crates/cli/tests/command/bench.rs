//! `tokenmill bench` and `tokenmill synth`.

use std::fs;

use serde_json::{Value, json};

use crate::{
    support::{Home, Ran, fixture, llama, text},
    tls,
};

const TINY: [&str; 6] = ["--prompt-len", "24", "--output-len", "5", "--seed", "3"];

fn results(ran: &Ran) -> Value {
    let report = ran.json();
    for field in ["bench", "version", "commit", "model", "processor", "shape", "results"] {
        assert!(!report[field].is_null(), "no {field} in {report}");
    }
    report["results"].clone()
}

#[test]
fn latency_counts_every_token() {
    let home = Home::new();
    let model = llama();
    let mut arguments = vec!["bench", "latency", &model, "--json", "-b3", "--iterations=2"];
    arguments.extend(["--warmup=1", "--device=cpu"]);
    let ran = home.run(&[&arguments[..], &TINY].concat());
    let results = results(&ran);
    assert_eq!(results["requests"], 6);
    assert_eq!(results["prompt_tokens"], 6 * 24);
    assert_eq!(results["output_tokens"], 6 * 5);
    assert!(results["time_to_first_token"]["p50_ms"].as_f64() > Some(0.0));
    assert!(results["time_per_output_token"]["p90_ms"].as_f64() > Some(0.0));
    assert!(results["prefill_tokens_per_s"].as_f64() > Some(0.0));
    assert!(results["host"]["cores_busy"].as_f64() > Some(0.0));
    let report = ran.json();
    assert_eq!(report["info"]["device"], "cpu");
    // The fixture's head is a matrix of its own: of the embedding a step reads single rows.
    let (step, all) = (&report["floor"]["step_bytes"], &report["info"]["weight_bytes"]);
    assert!(step.as_u64() > Some(0) && step.as_u64() < all.as_u64(), "{report}");
}

#[test]
fn throughput_runs_on_made_up_weights() {
    let home = Home::new();
    let dir = tempfile::tempdir().unwrap();
    fs::copy(fixture("qwen3").join("config.json"), dir.path().join("config.json")).unwrap();
    let arguments = ["bench", "throughput", "--synthetic", text(dir.path()), "--json", "-r9"];
    let ran = home.run(&[&arguments[..], &TINY].concat());
    let results = results(&ran);
    assert_eq!(results["output_tokens"], 9 * 5);
    assert!(results["host"]["processor_s"].as_f64() > Some(0.0), "{results}");
    let rate = |of: &str| results[format!("{of}_tokens_per_s")].as_f64().unwrap();
    assert!((rate("total") / (rate("prompt") + rate("output")) - 1.0).abs() < 1e-9, "{results}");
    assert_eq!(ran.json()["synthetic"], true);
}

#[test]
fn tokens_are_drawn_as_the_command_line_says() {
    let home = Home::new();
    let model = llama();
    for bench in [["throughput", "-r2"], ["latency", "-b2"]] {
        let arguments = [&["bench"][..], &bench, &[&model, "--json"], &TINY].concat();
        let sampling = |more: &[&str]| {
            let ran = home.run(&[&arguments[..], more].concat());
            ran.json()["shape"]["sampling"].clone()
        };
        assert_eq!(sampling(&[]), json!({ "temperature": 0 }));
        let drawn = sampling(&["--temperature=0.8", "--top-p=0.9", "--top-k=7"]);
        assert_eq!(drawn, json!({ "temperature": 0.8, "top_p": 0.9, "top_k": 7, "min_p": 0.0 }));
        let wrong = home.run(&[&arguments[..], &["--temperature=0.5", "--top-p=2"]].concat());
        wrong.failed(2, &["top_p"]);
    }
}

#[test]
fn serve_measures_its_own_server_over_http() {
    let home = Home::new();
    let model = llama();
    for pace in [["--concurrency", "3"], ["--rate", "200"]] {
        let arguments = ["bench", "serve", &model, "--json", "-r7"];
        let ran = home.run(&[&arguments[..], &TINY, &pace].concat());
        let results = &results(&ran)[0];
        assert_eq!((&results["failed"], &results["requests"]), (&0.into(), &7.into()), "{results}");
        assert_eq!(results["prompt_tokens"], 7 * 24);
        assert_eq!(results["output_tokens"], 7 * 5);
    }
}

#[test]
fn a_server_behind_tls_is_measured_where_its_authority_is_trusted() {
    let home = Home::new();
    let url = format!("https://localhost:{}", tls::serve());
    let shape = ["bench", "serve", "--json", "-r3", "-p4", "-o2", "--url", &url];
    let report = home.run(&[&shape[..], &["--tls-ca", &tls::authority()]].concat()).json();
    assert_eq!(report["results"][0]["failed"], 0, "{report}");
    assert_eq!(report["results"][0]["output_tokens"], 6, "{report}");
    home.run(&shape).failed(1, &[&url, "UnknownIssuer", "--tls-ca"]);
    let wrong = ["--tls-ca", &fixture("llama").join("config.json").display().to_string()];
    home.run(&[&shape[..], &wrong].concat()).failed(2, &["--tls-ca", "no certificate"]);
}

#[test]
fn load_tells_every_phase() {
    let home = Home::new();
    let loads = results(&home.run(&["bench", "load", &llama(), "--json", "--iterations=2"]));
    let loads = loads.as_array().unwrap();
    assert_eq!(loads.len(), 2);
    assert!(loads[0]["phases"].as_array().map(Vec::len) > Some(1), "{loads:?}");
}

#[test]
fn tables_are_for_people() {
    let home = Home::new();
    let model = llama();
    let ran = home.run(&[&["bench", "latency", &model, "--iterations=1"][..], &TINY].concat());
    for word in ["latency of", "TTFT", "TPOT", "p50", "p90", "floor", "in all", "cores busy"] {
        assert!(ran.done().contains(word), "no {word} in {ran:?}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let home = Home::new();
    home.run(&["bench", "latency"]).failed(2, &["MODEL", "--synthetic"]);
    home.run(&["bench", "latency", &llama(), "-b0"]).failed(2, &["--batch"]);
    let few = ["bench", "latency", &llama(), "-b9", "--max-num-seqs=4"];
    home.run(&few).failed(2, &["max-num-seqs is 4", "9"]);
    home.run(&["bench", "serve", "--url", "ftp://example.com"]).failed(2, &["https://"]);
    home.run(&["bench", "serve", "--url", "http://127.0.0.1:1"]).failed(1, &["127.0.0.1:1"]);
}

#[test]
fn a_written_checkpoint_runs_and_its_seed_decides_the_weights() {
    let home = Home::new();
    let out = tempfile::tempdir().unwrap();
    let write = |name: &str, seed: &str| {
        let path = out.path().join(name);
        home.run(&["synth", &llama(), text(&path), "--seed", seed]).done();
        path
    };
    let (one, same, other) = (write("one", "1"), write("same", "1"), write("other", "2"));
    let weights = |path: &std::path::Path| {
        let mut files: Vec<_> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "safetensors"));
        files.sort();
        files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>()
    };
    assert!(!weights(&one).is_empty());
    assert_eq!(weights(&one), weights(&same));
    assert_ne!(weights(&one), weights(&other));
    let inspected = home.run(&["inspect", text(&one), "--json"]).json();
    assert_eq!(inspected["findings"].as_array().map(Vec::len), Some(0));
    home.run(&["bench", "throughput", text(&one), "-r2", "-p8", "-o2"]).done();
    let again = home.run(&["synth", &llama(), text(&one)]);
    assert_ne!(again.code, 0, "a directory that is not empty is not written over");
}
