//! `tokenmill list`, `rm` and models by name.

use crate::support::Home;

#[test]
fn an_empty_cache_is_told_and_a_model_is_listed() {
    let empty = Home::new();
    assert_eq!(empty.run(&["list", "--json"]).json(), serde_json::json!([]));
    assert_eq!(empty.run(&["list"]).done(), "");
    let ways = ["directory", "tokenmill pull ORG/NAME", "tokenmill list", "cache is empty"];
    empty.run(&["run"]).failed(2, &ways);
    empty.run(&["run", "-p", "hi"]).failed(2, &ways);
    let home = Home::new().with_local_model();
    let listed = home.run(&["list", "--json"]).json();
    assert_eq!(listed[0]["name"], "org/tiny");
    assert_eq!(listed[0]["architecture"], "LlamaForCausalLM");
    assert!(listed[0]["bytes"].as_u64() > Some(1_000_000));
    assert!(home.run(&["list"]).done().contains("org/tiny"));
    home.run(&["run"]).failed(2, &["org/tiny"]);
}

#[test]
fn a_model_in_the_cache_runs_by_name() {
    let home = Home::new().with_local_model();
    let ran = home.run(&["run", "org/tiny", "-p", "hi", "-n3", "--ignore-eos", "--seed=1"]);
    assert!(!ran.done().is_empty());
}

#[test]
fn removing_asks_and_then_removes() {
    let home = Home::new().with_local_model();
    home.run(&["rm", "org/tiny"]).failed(2, &["org/tiny", "--yes"]);
    home.run(&["rm", "org/other", "--yes"]).failed(3, &["org/other"]);
    assert_eq!(home.run(&["list", "--json"]).json().as_array().map(Vec::len), Some(1));
    let removed = home.run(&["rm", "org/tiny", "--yes"]);
    removed.done();
    assert!(removed.stderr.contains("freed"), "{removed:?}");
    assert_eq!(home.run(&["list", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn a_pull_of_what_is_no_name_is_wrong_usage() {
    Home::new().run(&["pull", "not a name"]).failed(2, &["not a name", "ORG/NAME"]);
}

#[test]
fn a_hub_that_is_not_there_is_a_failure() {
    let home = Home::new();
    let mut command = home.command(&["pull", "org/tiny", "--retries", "0"]);
    let output = command.env("HF_ENDPOINT", "http://127.0.0.1:1").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("org/tiny") && log.contains("127.0.0.1:1"), "{log}");
}

#[test]
fn what_a_broken_pull_left_is_listed_and_can_be_removed() {
    let home = Home::new().with_local_model();
    let cache = home.path().join(".cache/huggingface/hub");
    let blobs = cache.join("models--org--half/blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::write(blobs.join("abc.incomplete"), "1234").unwrap();
    // A link that leads back up must not be followed.
    let snapshot = cache.join("models--org--tiny/snapshots/0123abcd");
    std::os::unix::fs::symlink(&cache, snapshot.join("up")).unwrap();
    let listed = home.run(&["list", "--json"]).json();
    assert_eq!(listed[0]["name"], "org/half");
    assert_eq!((&listed[0]["incomplete"], &listed[0]["bytes"]), (&true.into(), &4.into()));
    assert_eq!(listed[1]["incomplete"], false);
    assert!(home.run(&["list"]).done().contains("incomplete"));
    home.run(&["rm", "org/half", "--yes"]).done();
    assert_eq!(home.run(&["list", "--json"]).json().as_array().map(Vec::len), Some(1));
}

#[test]
fn a_name_that_is_nowhere_is_told_as_both_that_it_could_be() {
    let home = Home::new().with_local_model();
    home.run(&["run", "org/tinny", "-p", "hi"])
        .failed(3, &["not in the cache", "no such directory", "did you mean org/tiny?"]);
}

#[test]
fn a_configuration_alone_cannot_be_loaded_and_the_ways_are_told() {
    let home = Home::new();
    let dir = tempfile::tempdir().unwrap();
    let from = crate::support::fixture("llama").join("config.json");
    std::fs::copy(from, dir.path().join("config.json")).unwrap();
    let path = crate::support::text(dir.path());
    let ran = home.run(&["run", path, "-p", "hi"]);
    ran.failed(3, &["tokenmill synth", "--synthetic", path]);
    assert!(!ran.stderr.contains("inspect MODEL"), "{ran:#?}");
}
