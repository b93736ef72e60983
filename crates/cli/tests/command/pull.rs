//! `tokenmill pull`, against a hub on this machine.

use std::{fs, path::PathBuf};

use testkit::hub::{File, MockHub, sha256};

use crate::support::{Home, Ran, fixture, ran, signal};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const WEIGHTS: &str = "model.safetensors";

/// A hub that holds a fixture.
fn hub() -> MockHub {
    let read = |name: &str| fs::read(fixture("qwen3").join(name)).unwrap();
    let small = ["config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];
    let mut files: Vec<File> = small.iter().map(|name| File::small(name, &read(name))).collect();
    files.push(File::large(WEIGHTS, read(WEIGHTS)));
    files.push(File::small("README.md", b"# not needed"));
    MockHub::start(COMMIT, files)
}

fn weights() -> Vec<u8> {
    fs::read(fixture("qwen3").join(WEIGHTS)).unwrap()
}

/// `tokenmill pull org/name` from `hub`.
fn pull(home: &Home, hub: &MockHub, arguments: &[&str], token: Option<&str>) -> Ran {
    let arguments = [&["pull", "org/name"][..], arguments].concat();
    let mut command = home.command(&arguments);
    command.env("HF_ENDPOINT", hub.url()).envs(token.map(|token| ("HF_TOKEN", token)));
    ran(command.output().unwrap())
}

/// Nothing that fails is tried again, and nothing is told but the failure.
const ONCE: [&str; 2] = ["--retries=0", "-q"];

fn repository(home: &Home) -> PathBuf {
    home.path().join(".cache/huggingface/hub/models--org--name")
}

#[test]
fn a_pulled_model_is_listed_and_runs_and_is_not_loaded_twice() {
    let (home, hub) = (Home::new(), hub());
    let first = pull(&home, &hub, &["--json"], None).json();
    assert_eq!(first["commit"], COMMIT);
    assert_eq!(first["cached_bytes"], 0);
    assert!(first["downloaded_bytes"].as_u64() > Some(weights().len() as u64));
    let snapshot = repository(&home).join("snapshots").join(COMMIT);
    assert_eq!(first["path"], snapshot.to_str().unwrap());
    assert!(!snapshot.join("README.md").exists());
    assert_eq!(home.run(&["list", "--json"]).json()[0]["name"], "org/name");
    home.run(&["run", "org/name", "-p", "hi", "-n3", "--ignore-eos", "--seed=1"]).done();

    let again = pull(&home, &hub, &[], None);
    assert_eq!(again.done().trim_end(), snapshot.to_str().unwrap(), "the path, for scripts");
    assert!(again.stderr.contains("0 B downloaded"), "{again:?}");
    assert_eq!(hub.count("GET", WEIGHTS), 1);
    assert_eq!(pull(&home, &hub, &["-q"], None).stderr, "");
}

#[test]
fn a_pull_that_broke_off_goes_on_where_it_stopped() {
    let (home, hub) = (Home::new(), hub());
    hub.cut(WEIGHTS, 100_000);
    pull(&home, &hub, &ONCE, None)
        .failed(1, &["org/name", WEIGHTS, "a new pull goes on from there"]);
    let partial = repository(&home).join(format!("blobs/{}.incomplete", sha256(&weights())));
    assert_eq!(fs::metadata(&partial).unwrap().len(), 100_000);
    let report = pull(&home, &hub, &["--json"], None).json();
    assert_eq!(report["downloaded_bytes"].as_u64(), Some(weights().len() as u64 - 100_000));
    let ranges: Vec<_> = hub.seen().into_iter().filter_map(|seen| seen.range).collect();
    assert_eq!(ranges, ["bytes=100000-"]);
    let snapshot = repository(&home).join("snapshots").join(COMMIT);
    assert!(fs::read(snapshot.join(WEIGHTS)).unwrap() == weights());
}

#[test]
fn a_transfer_that_breaks_is_tried_again_unless_told_otherwise() {
    let (home, hub) = (Home::new(), hub());
    hub.cut(WEIGHTS, 100_000);
    let report = pull(&home, &hub, &["--retries", "1", "--json"], None).json();
    assert!(report["downloaded_bytes"].as_u64() > Some(weights().len() as u64), "{report}");
    assert_eq!(hub.count("GET", WEIGHTS), 2);
}

#[test]
fn bytes_that_are_not_those_promised_are_not_kept() {
    let (home, hub) = (Home::new(), hub());
    hub.corrupt(WEIGHTS);
    pull(&home, &hub, &ONCE, None).failed(1, &[WEIGHTS, "sha256", &sha256(&weights()), "removed"]);
    let left: Vec<_> = fs::read_dir(repository(&home).join("blobs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(&sha256(&weights())) && !name.ends_with(".lock"))
        .collect();
    assert_eq!(left, [""; 0]);
    home.run(&["run", "org/name", "-p", "hi"]).failed(3, &["org/name"]);
}

#[test]
fn a_hub_that_wants_a_token_is_told_with_the_way_to_give_one() {
    let (home, hub) = (Home::new(), hub());
    for (status, words) in [(401, "gated or private"), (403, "refuses")] {
        hub.answer_everything(status);
        let ran = pull(&home, &hub, &ONCE, None);
        ran.failed(1, &["org/name", &status.to_string(), words, "HF_TOKEN"]);
        let ran = pull(&home, &hub, &ONCE, Some("hf_secret"));
        ran.failed(1, &["org/name", "token"]);
        assert!(!ran.stderr.contains("hf_secret"), "{ran:?}");
    }
    let sent = hub.seen().into_iter().filter_map(|seen| seen.authorization);
    assert!(sent.count() >= 2);
}

#[test]
fn what_the_hub_does_not_have_is_a_model_that_was_not_found() {
    let (home, hub) = (Home::new(), hub());
    hub.answer_everything(404);
    pull(&home, &hub, &ONCE, None).failed(3, &["org/name", "not found (404)", "check the name"]);
    assert!(!repository(&home).join("refs/main").exists());
}

#[test]
fn an_interrupt_is_heard_while_the_hub_says_nothing() {
    let home = Home::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = home.command(&["pull", "org/name"]);
    let url = format!("http://{}", silent.local_addr().unwrap());
    let mut child = command.env("HF_ENDPOINT", url).spawn().unwrap();
    // The request has come, so the program listens for signals, and it gets no answer.
    let _held = silent.accept().unwrap();
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
