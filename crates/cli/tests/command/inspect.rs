//! `tokenmill inspect`.

use std::{fs, path::Path};

use serde_json::{Map, Value, json};

use crate::support::{Home, copy_of, fixture, llama, text};

/// The directory's configuration, changed.
fn change_config(model: &Path, change: impl Fn(&mut Map<String, Value>)) {
    change_json(&model.join("config.json"), change);
}

fn change_json(path: &Path, change: impl Fn(&mut Map<String, Value>)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(value.as_object_mut().unwrap());
    fs::write(path, value.to_string()).unwrap();
}

/// The tensors of the only weight file, renamed; gives their names.
fn rename_tensors(model: &Path, renames: &[(&str, &str)]) -> Vec<String> {
    let path = model.join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let (header, tensors) = bytes[8..].split_at(length);
    let header: Map<String, Value> = serde_json::from_slice(header).unwrap();
    let renamed = |name: String| {
        let new = renames.iter().find(|(old, _)| *old == name);
        new.map_or(name, |(_, new)| (*new).to_owned())
    };
    let header: Map<String, Value> =
        header.into_iter().map(|(name, tensor)| (renamed(name), tensor)).collect();
    let names = header.keys().filter(|name| *name != "__metadata__").cloned().collect();
    let header = Value::from(header).to_string().into_bytes();
    let length = (header.len() as u64).to_le_bytes();
    fs::write(&path, [&length[..], &header, tensors].concat()).unwrap();
    names
}

/// A Qwen 3 of which everything is damaged: a shard is gone, a tensor has another name, the configuration says more than
/// is known, the tokenizer is cut off, and there is a table that nobody reads.
fn damaged() -> tempfile::TempDir {
    let model = copy_of("qwen3");
    let path = |name: &str| model.path().join(name);
    let names = rename_tensors(
        model.path(),
        &[
            ("model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.upward.weight"),
            ("lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"),
        ],
    );
    let (here, gone) = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors");
    fs::rename(path("model.safetensors"), path(here)).unwrap();
    let mut map: Map<String, Value> = names.into_iter().map(|name| (name, here.into())).collect();
    map.insert("lm_head.weight".into(), gone.into());
    fs::write(path("model.safetensors.index.json"), json!({ "weight_map": map }).to_string())
        .unwrap();
    change_config(model.path(), |config| {
        config.insert("mystery".into(), 7.into());
    });
    let tokenizer = fs::read(path("tokenizer.json")).unwrap();
    fs::write(path("tokenizer.json"), &tokenizer[..tokenizer.len() / 2]).unwrap();
    model
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn all_problems_stand_side_by_side() {
    let home = Home::new();
    let model = damaged();
    let ran = home.run(&["inspect", text(model.path()), "--json"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let findings = texts(&report["findings"]);
    let wanted = [
        "model-00002-of-00002.safetensors: is named by model.safetensors.index.json, but is not there",
        "mystery: is 7; this key is not understood",
        "model.layers.1.mlp.up_proj.weight: is missing, wanted with the shape [256, 128]",
        "model.layers.1.mlp.upward.weight: with the shape [256, 128] has no place in this model",
        "tokenizer.json: ",
    ];
    for (finding, wanted) in findings.iter().zip(wanted) {
        assert!(finding.starts_with(wanted), "{findings:#?}");
    }
    // The tensor of the shard that is gone is not told again.
    assert_eq!(findings.len(), wanted.len(), "{findings:#?}");
    let unread: Vec<&Value> =
        report["unread"].as_array().unwrap().iter().map(|tensor| &tensor["name"]).collect();
    let table = "model.layers.0.self_attn.rotary_emb.inv_freq";
    assert_eq!(unread, [table, "model.layers.1.mlp.upward.weight"]);
    let model_report = &report["model"];
    assert_eq!(model_report["hidden_size"], 128);
    assert_eq!(model_report["layers"][0]["count"], 3);
    for unknown in ["parameters", "weight_bytes"] {
        assert_eq!(model_report[unknown], Value::Null, "{report}");
    }
    assert_eq!(report["backends"], json!([]));

    let table = home.run(&["inspect", text(model.path())]).stdout;
    for line in findings {
        assert_eq!(table.matches(line).count(), 1, "{line}\n{table}");
    }
    let lines: Vec<&str> = table.lines().skip(1).take(7).map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "  architecture  Qwen3ForCausalLM (qwen3), for generation",
            "  weights       mostly bf16",
            "  sizes         3 layers, hidden 128, vocabulary 512, up to 4096 tokens",
            "  layers        3 x attention of 4 heads on 2 of 64, all tokens, normed queries and keys; dense 256 (silu)",
            "  files         1 weight file, no tokenizer, no chat template, generation defaults",
            "  not read      tensors that this model has no use for",
            "    - model.layers.*.self_attn.rotary_emb.inv_freq, bf16 [512, 128], 128.0 KiB",
        ],
        "{table}"
    );
    assert!(table.contains("5 things are wrong with the checkpoint"), "{table}");
}

#[test]
fn what_a_wrong_configuration_still_says_is_told_and_no_more() {
    let home = Home::new();
    let model = copy_of("qwen3");
    change_config(model.path(), |config| {
        config.insert("hidden_act".into(), "loud".into());
        config.insert("num_hidden_layers".into(), (-3).into());
        config.remove("max_position_embeddings");
    });
    let ran = home.run(&["inspect", text(model.path()), "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let said = &report["model"];
    assert_eq!((&said["hidden_size"], &said["vocab_size"]), (&json!(128), &json!(512)));
    assert!(said["parameters"].as_u64() > Some(0), "{report}");
    for unknown in ["max_positions", "layer_count", "task"] {
        assert_eq!(said[unknown], Value::Null, "{unknown} in {report}");
    }
    assert_eq!(said["layers"], json!([]));
    assert_eq!(texts(&report["findings"]).len(), 2, "{report}");
    let table = home.run(&["inspect", text(model.path())]).stdout;
    assert!(table.contains("sizes         hidden 128, vocabulary 512\n"), "{table}");
    assert!(!table.contains("unknown") && !table.contains(" 0"), "{table}");
}

#[test]
fn weights_are_known_without_a_configuration() {
    let home = Home::new();
    for damage in ["gone", "no JSON", "no architecture that is known"] {
        let model = copy_of("qwen3");
        let config = model.path().join("config.json");
        match damage {
            "gone" => fs::remove_file(&config).unwrap(),
            "no JSON" => fs::write(&config, "{").unwrap(),
            _ => change_config(model.path(), |config| {
                config.insert("architectures".into(), json!(["NewForCausalLM"]));
            }),
        }
        let ran = home.run(&["inspect", text(model.path()), "--json"]);
        assert_eq!(ran.code, 3, "{ran:?}");
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(report["model"]["weight_bytes"].as_u64() > Some(0), "{damage}: {report}");
        assert_eq!(report["model"]["task"], Value::Null, "{damage}: {report}");
        assert_eq!(texts(&report["findings"]).len(), 1, "{damage}: {report}");
        assert_eq!(report["files"]["tokenizer"], true);
        let table = home.run(&["inspect", text(model.path())]).stdout;
        assert!(!table.contains("unknown") && !table.contains("for generation"), "{table}");
    }
}

#[test]
fn memory_is_told_with_and_without_the_cache() {
    let home = Home::new();
    let model = text(&fixture("qwen3")).to_owned();
    let arguments = ["inspect", &model, "--kv-memory", "1MiB", "--max-model-len", "64"];
    let report = home.run(&[&arguments[..], &["--json"]].concat()).json();
    let memory = &report["backends"][0]["memory"];
    let bytes = |name: &str| memory[name].as_u64().unwrap();
    assert!(bytes("kv") > 0 && bytes("kv") <= 1 << 20, "{memory}");
    assert_eq!(bytes("need_without_kv"), bytes("weights") + bytes("workspace"));
    assert_eq!(bytes("need"), bytes("need_without_kv") + bytes("kv"));
    let table = home.run(&arguments);
    assert!(table.done().contains(" without a key-value cache, "), "{table:?}");
}

#[test]
fn a_tokenizer_that_is_too_large_is_worth_a_note() {
    let home = Home::new();
    let model = copy_of("qwen3");
    change_json(&model.path().join("tokenizer.json"), |tokenizer| {
        let added = tokenizer["added_tokens"].as_array_mut().unwrap();
        let mut token = added[0].clone();
        token["id"] = 512.into();
        token["content"] = "<|beyond|>".into();
        added.push(token);
    });
    let report = home.run(&["inspect", text(model.path()), "--json"]).json();
    let notes = texts(&report["notes"]);
    assert!(notes.iter().any(|note| note.contains("the model's vocabulary has 512")), "{notes:?}");
}

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
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let findings = report["findings"].to_string();
    assert!(findings.contains("model-00002-of-00003.safetensors"), "{findings}");
    assert!(findings.contains("model-00003-of-00003.safetensors"), "{findings}");
    assert!(ran.stderr.contains("wrong with the checkpoint"), "{ran:?}");
    assert!(!ran.stderr.contains("no backend"), "{ran:?}");
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
