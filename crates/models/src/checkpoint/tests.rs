use std::path::{Path, PathBuf};

use foundation::Bytes;

use super::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

#[test]
fn every_fixture_opens_without_a_finding() {
    let mut names: Vec<String> = std::fs::read_dir(fixture(""))
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(names.len() >= 13, "{names:?}");
    for name in names {
        let manifest = ModelManifest::new(name.as_str(), fixture(&name));
        let checkpoint =
            Checkpoint::open(&manifest).unwrap_or_else(|error| panic!("{name}:\n{error}"));
        assert_eq!(checkpoint.findings, [], "{name}");
        let contract = checkpoint.contract.unwrap();
        assert_eq!(contract.weight_bytes(), checkpoint.catalog.bytes(), "{name}");
    }
}

#[test]
fn a_sharded_checkpoint_is_known_by_its_numbers() {
    let checkpoint = Checkpoint::open(&ModelManifest::new("llama", fixture("llama"))).unwrap();
    let metadata = checkpoint.metadata;
    assert_eq!(metadata.family, Some("llama"));
    // As the index of the fixture says.
    assert_eq!(metadata.parameters, Some(574_336));
    assert_eq!(metadata.weight_bytes, Some(Bytes(1_148_672)));
    assert_eq!(metadata.dtype, Some(foundation::DType::BF16));
    assert_eq!(checkpoint.layout.weights.len(), 3);
}
