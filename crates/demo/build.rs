//! Names this edition of the model by what is in its files, so that two builds never share a directory by mistake.

use std::{
    fs,
    hash::{DefaultHasher, Hasher},
    path::PathBuf,
};

fn main() {
    println!("cargo:rerun-if-changed=model");
    let mut paths: Vec<PathBuf> = fs::read_dir("model")
        .expect("model/")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let mut hasher = DefaultHasher::new();
    for path in paths {
        hasher.write(path.as_os_str().as_encoded_bytes());
        hasher.write(&fs::read(&path).expect("a file of the model"));
    }
    println!("cargo:rustc-env=DEMO_EDITION={:016x}", hasher.finish());
}
