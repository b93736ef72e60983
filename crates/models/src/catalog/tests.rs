use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A safetensors file with these BF16 tensors, all zero.
fn file(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (name, shape) in tensors {
        let begin = end;
        end += shape.iter().product::<usize>() * 2;
        let entry = json!({"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]});
        header.insert((*name).to_owned(), entry);
    }
    let header = Value::Object(header).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + end, 0);
    bytes
}

fn sharded(index: &Value, files: &[(&str, Vec<u8>)]) -> (TempDir, ModelLayout) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), "{}").unwrap();
    let index = json!({"weight_map": index}).to_string();
    fs::write(dir.path().join("model.safetensors.index.json"), index).unwrap();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    let layout = ModelLayout::inspect(dir.path()).unwrap();
    (dir, layout)
}

fn refusal(layout: &ModelLayout) -> Vec<String> {
    let findings = TensorCatalog::from_layout(layout).unwrap_err().into_findings();
    findings.iter().map(Finding::to_string).collect()
}

#[test]
fn tensors_of_all_shards_are_found_by_name() {
    let index = json!({"a": "1.safetensors", "b": "2.safetensors"});
    let files =
        [("1.safetensors", file(&[("a", &[2, 3])])), ("2.safetensors", file(&[("b", &[5])]))];
    let (_dir, layout) = sharded(&index, &files);
    let catalog = TensorCatalog::from_layout(&layout).unwrap();
    assert_eq!((catalog.len(), catalog.elements(), catalog.bytes()), (2, 11, Bytes(22)));
    let b = catalog.get("b").unwrap();
    assert_eq!((b.region.file, b.region.bytes, b.dtype), (1, 10, DType::BF16));
    assert_eq!(b.region.offset + b.region.bytes, layout.weights[1].bytes);
}

#[test]
fn index_and_shards_must_tell_the_same_story() {
    let index = json!({"a": "1.safetensors", "gone": "1.safetensors", "moved": "1.safetensors"});
    let mut index_two = index.clone();
    index_two["b"] = json!("2.safetensors");
    let files = [
        ("1.safetensors", file(&[("a", &[1]), ("new", &[1])])),
        ("2.safetensors", file(&[("b", &[1]), ("moved", &[1])])),
    ];
    let (_dir, layout) = sharded(&index_two, &files);
    assert_eq!(
        refusal(&layout),
        [
            "gone: is not in 1.safetensors, where the index says it is",
            "moved: lies in 2.safetensors, but the index says 1.safetensors",
            "new: lies in 1.safetensors, but the index does not know it \
             (index and shards are of different checkpoints)",
        ]
    );
}

#[test]
fn a_tensor_in_two_shards_is_an_error() {
    let index = json!({"a": "1.safetensors", "b": "2.safetensors"});
    let files = [
        ("1.safetensors", file(&[("a", &[1])])),
        ("2.safetensors", file(&[("a", &[1]), ("b", &[1])])),
    ];
    let (_dir, layout) = sharded(&index, &files);
    assert_eq!(refusal(&layout)[0], "a: lies in two files, 1.safetensors and 2.safetensors");
}

#[test]
fn every_broken_shard_is_named_and_its_tensors_are_not_listed_as_missing() {
    let index = json!({"a": "1.safetensors", "b": "2.safetensors", "c": "3.safetensors"});
    let mut cut = file(&[("b", &[100])]);
    cut.truncate(cut.len() - 1);
    let files = [
        ("1.safetensors", b"version of a large file, its hash and its size\n".to_vec()),
        ("2.safetensors", cut),
        ("3.safetensors", Vec::new()),
    ];
    let (_dir, layout) = sharded(&index, &files);
    let text = refusal(&layout);
    assert_eq!(text.len(), 3, "{text:#?}");
    assert!(text[0].starts_with("1.safetensors") && text[0].contains("git lfs pull"));
    assert!(text[1].starts_with("2.safetensors: b") && text[1].contains("only 199 bytes"));
    assert!(text[2].starts_with("3.safetensors") && text[2].contains("is 0 bytes long"));
}
