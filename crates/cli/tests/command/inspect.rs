//! `tokenmill inspect`.

use std::fs;

use crate::support::{Home, copy_of, fixture, llama, text};

#[test]
fn the_report_says_what_it_is_and_who_can_run_it() {
    let home = Home::new();
    let report = home.run(&["inspect", &llama(), "--json"]).json();
    assert_eq!(report["model"]["architecture"], "LlamaForCausalLM");
    assert_eq!(report["model"]["task"], "generation");
    assert_eq!(report["files"]["weights"], 3);
    assert_eq!(report["files"]["chat_template"], true);
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(0));
    let cpu =
        report["backends"].as_array().unwrap().iter().find(|one| one["backend"] == "cpu").unwrap();
    assert_eq!(cpu["admitted"], true);
    assert!(cpu["memory"]["weights"].as_u64() > Some(0));

    let table = home.run(&["inspect", &llama()]);
    assert!(
        table.done().contains("LlamaForCausalLM") && table.stdout.contains("can run it"),
        "{table:?}"
    );
    assert!(!table.stdout.contains('\u{1b}'), "no colours in a pipe: {table:?}");
}

#[test]
fn everything_wrong_is_told_at_once() {
    let home = Home::new();
    let model = copy_of("llama");
    let path = |name: &str| model.path().join(name);
    for name in ["model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"] {
        let bytes = fs::read(path(name)).unwrap();
        fs::write(path(name), &bytes[..bytes.len() - 10]).unwrap();
    }
    let ran = home.run(&["inspect", text(model.path()), "--json"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let findings = report["findings"].to_string();
    assert!(findings.contains("model-00002-of-00003.safetensors"), "{findings}");
    assert!(findings.contains("model-00003-of-00003.safetensors"), "{findings}");
    assert!(ran.stderr.contains("no backend"), "{ran:?}");
    let table = home.run(&["inspect", text(model.path())]);
    assert_eq!(table.code, 3);
    assert!(table.stdout.contains("model-00002"), "{table:?}");
}

#[test]
fn a_configuration_alone_is_inspected_as_synthetic() {
    let home = Home::new();
    let dir = tempfile::tempdir().unwrap();
    fs::copy(fixture("qwen3").join("config.json"), dir.path().join("config.json")).unwrap();
    let path = text(dir.path());
    assert_eq!(home.run(&["inspect", path]).code, 3);
    let report = home.run(&["inspect", path, "--synthetic", "--json"]).json();
    assert_eq!(report["model"]["architecture"], "Qwen3ForCausalLM");
    home.run(&["inspect", path, "--synthetic-seed", "3"]).failed(2, &["--synthetic"]);
}

#[test]
fn what_is_not_there_is_an_error() {
    Home::new().run(&["inspect", "/no/such/model"]).failed(3, &["/no/such/model"]);
}
