use std::path::{Path, PathBuf};

use foundation::model::ModelManifest;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{
    Checkpoint, Error, Finding, error::Severity, format::dense, mapping::MappedFile,
    weights::LayerWeight,
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// A copy of a single-file fixture: its configuration and its tensors changed by `change`, all of them zero.
fn changed(name: &str, change: impl Fn(&mut Value, &mut Value)) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let text = std::fs::read(fixture(name).join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&text).unwrap();
    let manifest = ModelManifest::new(name, fixture(name));
    let catalog = Checkpoint::open(&manifest).unwrap().catalog;
    let tensors = catalog.iter().map(|tensor| {
        (tensor.name.clone(), json!({"dtype": tensor.dtype.name(), "shape": tensor.shape}))
    });
    let mut tensors = Value::Object(tensors.collect());
    change(&mut config, &mut tensors);
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    std::fs::write(dir.path().join("model.safetensors"), zeros(tensors)).unwrap();
    dir
}

fn zeros(mut tensors: Value) -> Vec<u8> {
    let mut end = 0;
    for (_, tensor) in tensors.as_object_mut().unwrap() {
        let begin = end;
        let dtype: DType = tensor["dtype"].as_str().unwrap().parse().unwrap();
        let shape = tensor["shape"].as_array().unwrap();
        end +=
            shape.iter().map(|size| size.as_u64().unwrap()).product::<u64>() * dtype.size() as u64;
        tensor["data_offsets"] = json!([begin, end]);
    }
    let header = tensors.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + end as usize, 0);
    bytes
}

fn tensor(shape: &[usize]) -> Value {
    json!({"dtype": "BF16", "shape": shape})
}

fn refusal(dir: &TempDir) -> Vec<String> {
    match Checkpoint::open(&ModelManifest::new("x", dir.path())) {
        Err(Error::Findings(findings)) => findings.iter().map(Finding::to_string).collect(),
        other => panic!("expected findings, got {other:?}"),
    }
}

#[test]
fn every_kind_of_misfit_is_told_at_once() {
    let dir = changed("llama-tied", |_, tensors| {
        let tensors = tensors.as_object_mut().unwrap();
        tensors.remove("model.norm.weight");
        tensors.insert("model.layers.0.mlp.up_proj.weight".into(), tensor(&[255, 128]));
        tensors["model.layers.1.self_attn.q_proj.weight"]["dtype"] = json!("I8");
        tensors.insert("model.layers.1.self_attn.q_proj.bias".into(), tensor(&[128]));
        tensors.insert("model.layers.1.self_attn.k_scale".into(), tensor(&[1]));
        tensors.insert("model.layers.0.self_attn.rotary_emb.inv_freq".into(), tensor(&[16]));
    });
    assert_eq!(
        refusal(&dir),
        [
            "model.norm.weight: is missing, wanted with the shape [128]",
            "model.layers.0.mlp.up_proj.weight: has the shape [255, 128], wanted [256, 128]",
            "model.layers.1.self_attn.q_proj.weight: is stored as I8, wanted bf16, f16, f32",
            "model.layers.1.self_attn.k_scale: with the shape [1] has no place in this model \
             (scales of quantized weights or of a quantized cache are not applied)",
            "model.layers.1.self_attn.q_proj.bias: with the shape [128] has no place in this model \
             (the configuration says that there is no bias)",
        ]
    );
}

#[test]
fn a_checkpoint_of_another_depth_is_told_in_a_few_lines() {
    let dir = changed("llama-tied", |config, _| config["num_hidden_layers"] = json!(40));
    let text = refusal(&dir);
    assert_eq!(text.len(), 13, "{text:#?}");
    // 38 layers of 9 tensors, of which 12 were told.
    assert_eq!(text[12], "tensors: and 330 more are missing");
}

#[test]
fn a_head_beside_a_tied_one_is_a_note() {
    let dir = changed("llama-tied", |_, tensors| tensors["lm_head.weight"] = tensor(&[512, 128]));
    let checkpoint = Checkpoint::open(&ModelManifest::new("x", dir.path())).unwrap();
    assert_eq!(checkpoint.findings.len(), 1);
    assert_eq!(checkpoint.findings[0].severity, Severity::Note);
    assert_eq!(checkpoint.findings[0].subject, "lm_head.weight");
    assert_eq!(checkpoint.contract.unwrap().binding(WeightRole::Head), None);
}

#[test]
fn a_missing_head_names_the_key_that_would_explain_it() {
    let dir = changed("llama-tied", |config, _| config["tie_word_embeddings"] = json!(false));
    let text = refusal(&dir);
    assert!(
        text[0].starts_with("lm_head.weight: is missing") && text[0].contains("lacks tie_word")
    );
}

#[test]
fn a_fused_tensor_must_hold_exactly_its_parts() {
    let name = "model.layers.0.self_attn.qkv_proj.weight";
    let dir = changed("phi3-longrope", |_, tensors| tensors[name] = tensor(&[257, 128]));
    assert_eq!(refusal(&dir), [format!("{name}: has the shape [257, 128], wanted [256, 128]")]);
}

#[test]
fn quantised_weights_are_named_once_and_not_for_every_tensor() {
    let dir = changed("llama-tied", |config, tensors| {
        config["quantization_config"] = json!({"quant_method": "gptq", "bits": 4});
        config["depth_scale"] = json!(2);
        tensors.as_object_mut().unwrap().remove("model.norm.weight");
    });
    let text = refusal(&dir);
    assert!(text[0].contains("asks for gptq weights; supported are bf16, f16, f32"), "{text:#?}");
    assert!(text[1].starts_with("depth_scale"), "{text:#?}");
    assert_eq!(text.len(), 2, "{text:#?}");
}

#[test]
fn row_ranges_of_a_fused_tensor_are_bound_to_their_bytes() {
    let manifest = ModelManifest::new("phi3", fixture("phi3-longrope"));
    let checkpoint = Checkpoint::open(&manifest).unwrap();
    let contract = checkpoint.contract.unwrap();
    let whole = checkpoint.catalog.get("model.layers.2.self_attn.qkv_proj.weight").unwrap();
    let key = contract.binding(WeightRole::Layer(2, LayerWeight::Key)).unwrap();
    let TensorStorage::Dense { origin: TensorOrigin::File(region), .. } = &key.storage else {
        panic!("not in a file")
    };
    // Rows 128..192 of 128 columns of two bytes.
    assert_eq!(region.offset - whole.region.offset, 128 * 128 * 2);
    assert_eq!(region.bytes, 64 * 128 * 2);
    assert_eq!(key.shape, [64, 128]);
}

#[test]
fn bound_bytes_are_numbers_of_a_trained_size() {
    let checkpoint = Checkpoint::open(&ModelManifest::new("llama", fixture("llama"))).unwrap();
    for binding in &checkpoint.contract.unwrap().bindings {
        let TensorStorage::Dense { dtype, origin: TensorOrigin::File(region) } = &binding.storage
        else {
            panic!("not in a file")
        };
        let map = MappedFile::open(&checkpoint.layout.weights[region.file].path).unwrap();
        let start = region.offset as usize;
        let bytes = &map.bytes()[start..start + region.bytes as usize];
        let mut values = vec![0.0; binding.shape.iter().product()];
        dense::dequantize(*dtype, bytes, &mut values);
        let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        assert!((0.01..10.0).contains(&largest), "{:?}: {largest}", binding.role);
    }
}

#[test]
fn roles_are_unique() {
    for name in ["gemma3", "olmo2", "qwen2"] {
        let checkpoint = Checkpoint::open(&ModelManifest::new(name, fixture(name))).unwrap();
        let contract = checkpoint.contract.unwrap();
        assert_eq!(contract.by_role().len(), contract.bindings.len(), "{name}");
    }
}

/// With a head of its own the embedding table is read a row a token; where it is the head it is read whole.
#[test]
fn a_step_reads_the_embedding_only_where_it_is_the_head() {
    let contract = |name: &str| {
        let manifest = ModelManifest::new(name, fixture(name));
        Checkpoint::open(&manifest).unwrap().contract.unwrap()
    };
    let untied = contract("llama");
    let embedding = untied.binding(WeightRole::TokenEmbedding).unwrap().stored_bytes();
    assert!(embedding > Bytes(0));
    assert_eq!(untied.step_bytes(), Bytes(untied.weight_bytes().0 - embedding.0));
    let tied = contract("llama-tied");
    assert_eq!(tied.step_bytes(), tied.weight_bytes());
    assert_eq!((tied.expert_bytes(), tied.expert_share()), (Bytes(0), 0.0));
    // Three layers of eight experts, three matrices of 64 x 128 in bf16 each.
    let routed = contract("qwen3-moe");
    assert_eq!(routed.expert_bytes(), Bytes(3 * 8 * 3 * 64 * 128 * 2));
    assert_eq!(routed.expert_share(), 0.25);
    let embedding = routed.binding(WeightRole::TokenEmbedding).unwrap().stored_bytes();
    let all = routed.step_bytes().0 + routed.expert_bytes().0 + embedding.0;
    assert_eq!(Bytes(all), routed.weight_bytes());
}
