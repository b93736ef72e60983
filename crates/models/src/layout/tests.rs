use std::{fs, os::unix::fs::symlink};

use tempfile::TempDir;

use super::*;
use crate::error::Severity;

fn dir(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn findings(path: &Path) -> Vec<Finding> {
    match ModelLayout::inspect(path) {
        Err(Error::Findings(findings)) => findings,
        other => panic!("expected findings, got {other:?}"),
    }
}

const TWO_SHARDS: &str = r#"{"weight_map":{"a":"m-2.safetensors","b":"m-1.safetensors"}}"#;

#[test]
fn a_single_file_is_found_with_everything_beside_it() {
    let dir = dir(&[
        ("config.json", "{}"),
        ("model.safetensors", "12345"),
        ("tokenizer.json", "{}"),
        ("chat_template.jinja", ""),
    ]);
    let layout = ModelLayout::inspect(dir.path()).unwrap();
    assert_eq!(layout.weight_bytes(), Bytes(5));
    assert_eq!(layout.tokenizer, Some(dir.path().join("tokenizer.json")));
    assert_eq!(layout.chat_template, Some(dir.path().join("chat_template.jinja")));
    assert_eq!(layout.generation_config, None);
    assert_eq!(layout.findings, []);
}

#[test]
fn shards_come_in_the_order_of_their_names() {
    let dir = dir(&[
        ("config.json", "{}"),
        (INDEX, TWO_SHARDS),
        ("m-1.safetensors", "1"),
        ("m-2.safetensors", "22"),
    ]);
    let layout = ModelLayout::inspect(dir.path()).unwrap();
    let lengths: Vec<u64> = layout.weights.iter().map(|file| file.bytes).collect();
    assert_eq!(lengths, [1, 2]);
    assert_eq!(layout.index.unwrap().tensors["a"], 1);
}

#[test]
fn all_missing_shards_and_the_missing_config_are_named_at_once() {
    let dir = dir(&[(INDEX, TWO_SHARDS)]);
    symlink("../blobs/nothing", dir.path().join("m-2.safetensors")).unwrap();
    let findings = findings(dir.path());
    let text: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert_eq!(findings.len(), 3, "{text:#?}");
    assert!(text[0].contains("has no config.json"), "{text:#?}");
    assert!(text[1].starts_with("m-1.safetensors") && text[1].contains("is not there"));
    assert!(text[2].contains("/m-2.safetensors: is a link to nothing"), "{text:#?}");
}

#[test]
fn an_index_cannot_point_out_of_its_directory() {
    for name in ["../../etc/passwd.safetensors", "/m.safetensors", "a/b.safetensors", "m.bin", ""] {
        let index = serde_json::json!({"weight_map": {"a": name}}).to_string();
        let dir = dir(&[("config.json", "{}"), (INDEX, &index)]);
        let findings = findings(dir.path());
        assert_eq!(findings[0].subject, INDEX);
        assert!(findings[0].message.contains(&format!("{name:?}")), "{findings:?}");
    }
}

#[test]
fn weights_in_other_formats_are_named() {
    let dir = dir(&[("config.json", "{}"), ("pytorch_model.bin", ""), ("m-Q4_K_M.gguf", "")]);
    let text = findings(dir.path())[0].to_string();
    assert!(text.contains("only m-Q4_K_M.gguf, pytorch_model.bin"), "{text}");
}

#[test]
fn shards_without_an_index_are_named() {
    let dir = dir(&[("config.json", "{}"), ("model-00001-of-00002.safetensors", "")]);
    let text = findings(dir.path())[0].to_string();
    assert!(text.contains("has model-00001-of-00002.safetensors but neither"), "{text}");
}

#[test]
fn a_single_file_wins_over_an_index_and_that_is_said() {
    let dir =
        dir(&[("config.json", "{}"), ("model.safetensors", ""), (INDEX, "no JSON, never read")]);
    let layout = ModelLayout::inspect(dir.path()).unwrap();
    assert_eq!(layout.index, None);
    assert_eq!(layout.findings[0].severity, Severity::Warning);
}

#[test]
fn a_repeated_tensor_in_the_index_is_an_error() {
    let index = r#"{"weight_map":{"a":"1.safetensors","a":"2.safetensors"}}"#;
    let text = WeightIndex::parse(index.as_bytes()).unwrap_err().to_string();
    assert!(text.contains("\"a\" is there twice"), "{text}");
}

#[test]
fn a_hub_cache_is_entered_through_its_ref() {
    let dir = dir(&[
        ("models--org--name/refs/main", "0123abc\n"),
        ("models--org--name/blobs/cfg", "{}"),
        ("models--org--name/blobs/w", "123"),
        ("models--org--name/snapshots/0123abc/.keep", ""),
        ("models--org--name/snapshots/ffff/.keep", ""),
    ]);
    let repo = dir.path().join("models--org--name");
    let snapshot = repo.join("snapshots/0123abc");
    symlink("../../blobs/cfg", snapshot.join("config.json")).unwrap();
    symlink("../../blobs/w", snapshot.join("model.safetensors")).unwrap();
    for path in [&repo, &snapshot] {
        let layout = ModelLayout::inspect(path).unwrap();
        assert_eq!(layout.root, snapshot);
        assert_eq!(layout.weight_bytes(), Bytes(3));
    }
    fs::write(repo.join("refs/main"), "../../..").unwrap();
    assert!(findings(&repo)[0].message.contains("which is no revision"));
    fs::remove_file(repo.join("refs/main")).unwrap();
    assert!(findings(&repo)[0].message.contains("holds 2 snapshots"));
}

#[test]
fn made_up_weights_need_no_files() {
    let dir = dir(&[("config.json", "{}")]);
    assert_eq!(ModelLayout::inspect_without_weights(dir.path()).unwrap().weights, []);
    assert!(ModelLayout::inspect(dir.path()).is_err());
    let missing = dir.path().join("nowhere");
    assert!(findings(&missing)[0].message.contains("cannot be read"));
    assert!(findings(&dir.path().join("config.json"))[0].message.contains("not a directory"));
}
