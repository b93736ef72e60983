//! What lies in a checkpoint's directory may be no file at all.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use foundation::model::ModelManifest;
use models::{
    Checkpoint, Findings, ModelLayout, Severity,
    generation::GenerationDefaults,
    mapping::MappedFile,
    prompt::{ChatTemplate, Tokenizer},
};
use tempfile::TempDir;

use crate::fixture;

/// A copy of a fixture that opens.
fn copy(name: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    assert!(Checkpoint::open(&ModelManifest::new(name, dir.path())).is_ok());
    dir
}

/// Something that is no regular file, put where `path` is.
type Trap = fn(&Path);
const TRAPS: &[(&str, Trap)] = &[
    ("is not a regular file", |path| fs::create_dir(path).unwrap()),
    ("is not a regular file", |path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }),
    // An endless file.
    ("is not a regular file", |path| symlink("/dev/zero", path).unwrap()),
    ("Too many levels of symbolic links", |path| symlink(path.file_name().unwrap(), path).unwrap()),
    ("is a link to nothing", |path| symlink("../blobs/gone", path).unwrap()),
];

/// Puts each trap in the place of `file`; `read` must refuse every one, and name the file.
fn assert_refuses(checkpoint: &str, file: &str, read: impl Fn(&Path) -> Result<(), String>) {
    let dir = copy(checkpoint);
    let path = dir.path().join(file);
    for (wanted, set) in TRAPS {
        fs::remove_file(&path).ok();
        set(&path);
        let text = read(dir.path()).expect_err("it is no file");
        assert!(text.contains(wanted) && text.contains(file), "{file}: {text}, wanted {wanted}");
        fs::remove_dir(&path).or_else(|_| fs::remove_file(&path)).unwrap();
    }
}

fn open(dir: &Path) -> Result<(), String> {
    Checkpoint::open(&ModelManifest::new("m", dir)).map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn weights_and_configuration_that_are_no_files_are_refused() {
    assert_refuses("qwen2", "config.json", open);
    assert_refuses("qwen2", "model.safetensors", open);
    assert_refuses("llama", "model.safetensors.index.json", open);
    assert_refuses("llama", "model-00002-of-00003.safetensors", open);
}

#[test]
fn a_mapped_file_that_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (index, (_, set)) in TRAPS.iter().enumerate() {
        let path = dir.path().join(index.to_string());
        set(&path);
        assert!(MappedFile::open(&path).is_err());
    }
}

#[test]
fn files_of_text_that_are_none_are_refused_not_passed_over() {
    let tokenizer = |dir: &Path| Tokenizer::from_dir(dir).map(drop).map_err(|e| e.to_string());
    for file in ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"] {
        assert_refuses("qwen2", file, tokenizer);
    }
    let template = |dir: &Path| {
        let tokenizer = Tokenizer::from_dir(dir).unwrap().unwrap();
        ChatTemplate::from_dir(dir, &tokenizer).map(drop).map_err(|error| error.to_string())
    };
    assert_refuses("qwen2", "chat_template.jinja", template);
    assert_refuses("qwen2", "generation_config.json", |dir| {
        GenerationDefaults::from_dir(dir).map(drop).map_err(|error| error.to_string())
    });
    let dir = copy("qwen2");
    fs::write(dir.path().join("additional_chat_templates"), "a file").unwrap();
    let error = template(dir.path()).unwrap_err();
    assert!(error.contains("additional_chat_templates"), "{error}");
}

#[test]
fn a_directory_that_is_a_loop_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("loop");
    symlink("loop", &path).unwrap();
    let error = ModelLayout::inspect(&path).unwrap_err().to_string();
    assert!(error.contains("Too many levels of symbolic links"), "{error}");
}

#[test]
fn json_that_says_a_thing_twice_or_no_number_is_refused_with_its_key() {
    for (from, to, wanted) in [
        (
            "\"rope_theta\"",
            "\"rope_theta\": 5, \"rope_theta\"",
            "the key \"rope_theta\" is there twice",
        ),
        ("\"rope_theta\":", "\"rope_theta\": 1e999, \"x\":", "rope_theta: number out of range"),
        ("\"rope_theta\":", "\"rope_theta\": NaN, \"x\":", "rope_theta: expected value"),
        ("\"rope_theta\":", "\"rope_theta\": -Infinity, \"x\":", "rope_theta: invalid number"),
    ] {
        let dir = copy("qwen2");
        let path = dir.path().join("config.json");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let error = open(dir.path()).unwrap_err();
        assert!(
            error.contains("config.json: is not valid JSON") && error.contains(wanted),
            "{error}"
        );
    }
}

#[test]
fn sampling_defaults_that_no_sampler_takes_are_refused_all_at_once() {
    let dir = copy("qwen2");
    let file = r#"{"temperature": -0.5, "top_p": 1.5, "top_k": -1, "min_p": 2, "repetition_penalty": 0,
        "eos_token_id": [1, -1], "suppress_tokens": "x", "max_new_tokens": 1e10, "stop_strings": 5, "do_sample": "yes"}"#;
    fs::write(dir.path().join("generation_config.json"), file).unwrap();
    let error = GenerationDefaults::from_dir(dir.path()).unwrap_err().to_string();
    for line in [
        "temperature is -0.5, wanted a number of at least 0",
        "top_p is 1.5, wanted a number in (0, 1]",
        "top_k is -1, wanted a whole number below 2^32",
        "min_p is 2, wanted a number in [0, 1]",
        "repetition_penalty is 0, wanted a number above 0",
        "eos_token_id is [1,-1], wanted a token id or a list of them",
        "suppress_tokens is \"x\", wanted a token id or a list of them",
        "max_new_tokens is 10000000000.0, wanted a whole number below 2^32",
        "stop_strings is 5, wanted a string or a list of them",
        "do_sample is \"yes\", wanted true or false",
    ] {
        assert!(error.contains(line), "{line} is not in\n{error}");
    }
}

/// Findings of a survey are told beside each other, whichever file they are in.
#[test]
fn a_broken_shard_and_a_broken_configuration_are_told_together() {
    let dir = copy("llama");
    fs::write(dir.path().join("config.json"), "{\"a\": 1, \"a\": 2}").unwrap();
    fs::write(dir.path().join("model-00001-of-00003.safetensors"), "short").unwrap();
    let survey = models::Survey::of(&ModelManifest::new("m", dir.path()));
    let findings: Findings = survey.findings;
    let errors = findings.into_iter().filter(|finding| finding.severity == Severity::Error);
    let texts: Vec<String> = errors.map(|finding| finding.to_string()).collect();
    assert!(texts.iter().any(|text| text.contains("\"a\" is there twice")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("is 5 bytes long")), "{texts:?}");
}
