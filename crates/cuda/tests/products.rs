//! Products that are timed while a model is loaded: what is found is kept and taken over by the next start, and nothing that lies in
//! its place can keep a model from serving.

use std::{
    fs,
    path::{Path, PathBuf},
};

use cuda::{
    backend::{CudaBackend, Modes},
    engine::products::Products,
};
use foundation::{
    Bytes, DType,
    model::{ModelManifest, WeightOrigin},
};
use runtime::backend::LoadOptions;

/// A geometry whose products are worth timing.
fn config() -> PathBuf {
    let local = "benches/configs/qwen3-0.6b";
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(local);
    if here.exists() { here } else { local.into() }
}

/// Loads it, keeping choices in `folder`; `false` where there is no GPU.
fn load(folder: &Path, invariant: bool) -> bool {
    let Some(gpu) = cuda::testing::gpu() else { return false };
    let config = config().display().to_string();
    let manifest = ModelManifest {
        weights: WeightOrigin::Synthetic { seed: 7, dtype: DType::BF16 },
        ..ModelManifest::new(config.as_str(), &config)
    };
    let options = LoadOptions {
        max_sequence_tokens: Some(2048),
        kv_memory: Some(Bytes::gib(1)),
        ..LoadOptions::default()
    };
    let products = Products::Timed { folder: Some(folder.to_owned()) };
    let backend = CudaBackend::new(gpu, Modes { graphs: false, invariant }).with_products(products);
    backend.load_runner(&manifest, &options, &mut |_| true).expect("the model loads");
    true
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder lists");
    entries.map(|entry| entry.expect("the folder lists").path()).collect()
}

#[test]
fn what_was_timed_is_kept_and_what_lies_in_its_place_is_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    if !load(folder.path(), true) {
        return;
    }
    assert!(files(folder.path()).is_empty(), "batch-invariant, nothing is chosen");

    load(folder.path(), false);
    let [file] = &files(folder.path())[..] else { panic!("{:?}", files(folder.path())) };
    let first = fs::read_to_string(file).unwrap();
    println!("{first}");
    assert!(first.starts_with("tokenmill matrix products 1\ndevice "), "{first}");
    assert!(first.lines().count() > 6, "several products are worth timing: {first}");

    load(folder.path(), false);
    let second = fs::read_to_string(file).unwrap();
    for line in first.lines() {
        assert!(second.lines().any(|other| other == line), "{line} is no longer in {second}");
    }

    for lie in ["", "tokenmill matrix products 9\n", &first.replace("device ", "device not ")] {
        fs::write(file, lie).unwrap();
        load(folder.path(), false);
        let written = fs::read_to_string(file).unwrap();
        assert_eq!(written.lines().nth(1), first.lines().nth(1), "{written}");
    }
    // Algorithms that the library never gave.
    let broken: String = first
        .lines()
        .map(|line| match line.split_once("algorithm ") {
            Some((head, _)) => format!("{head}algorithm 0 {}\n", ["ffffffffffffffff"; 8].join(" ")),
            None => format!("{line}\n"),
        })
        .collect();
    fs::write(file, broken).unwrap();
    load(folder.path(), false);
    assert!(!fs::read_to_string(file).unwrap().contains("ffffffffffffffff ffffffffffffffff"));
    assert!(load(&file.join("below"), false), "nothing can be kept below a file");
}
