//! The small model that comes with tokenmill: a checkpoint directory like any other, carried in the binary.
//!
//! Knows: its own files, and how to put them into a directory.
//! Does not know: how a checkpoint is read, or where directories should be.
//!
//! `tools/demo-model` holds the recipe that made it.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

/// What the model is called, wherever a model is named.
pub const NAME: &str = "demo";

/// A file of the checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its name in the checkpoint directory.
    pub name: &'static str,
    /// What is in it.
    pub bytes: &'static [u8],
}

macro_rules! parts {
    ($($name:literal),+ $(,)?) => {
        &[$(Part { name: $name, bytes: include_bytes!(concat!("../model/", $name)) }),+]
    };
}

/// The files of the checkpoint. The configuration comes last: a directory that was left half written is not taken for
/// a checkpoint.
pub static PARTS: &[Part] = parts![
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "config.json",
];

/// Bytes of all files.
pub fn bytes() -> u64 {
    PARTS.iter().map(|part| part.bytes.len() as u64).sum()
}

/// Puts the checkpoint into a directory below `root` that is named after this edition, and gives its path. Files that
/// are there already and hold the right bytes stay; others are replaced in one move, so that processes may do this at
/// the same time.
///
/// # Errors
/// A directory or file that cannot be made.
pub fn place(root: &Path) -> io::Result<PathBuf> {
    let directory = root.join(concat!("demo-", env!("DEMO_EDITION")));
    fs::create_dir_all(&directory)?;
    for part in PARTS {
        let path = directory.join(part.name);
        if !holds(&path, part.bytes) {
            write(&path, part.bytes)?;
        }
    }
    Ok(directory)
}

/// Whether the file at `path` holds exactly these bytes.
fn holds(path: &Path, wanted: &[u8]) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    let length = file.metadata().map(|metadata| metadata.len());
    if length.ok() != Some(wanted.len() as u64) {
        return false;
    }
    let mut chunk = vec![0; 1 << 16];
    wanted.chunks(chunk.len()).all(|wanted| {
        let seen = &mut chunk[..wanted.len()];
        file.read_exact(seen).is_ok() && seen == wanted
    })
}

/// Writes beside the place and renames: whoever has the old file open or mapped keeps it whole.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().expect("a file below the directory that was just made");
    let mut beside = NamedTempFile::new_in(directory)?;
    beside.write_all(bytes)?;
    beside.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn every_file_of_the_model_is_carried_and_placed() {
        let root = tempfile::tempdir().unwrap();
        let directory = place(root.path()).unwrap();
        assert_eq!(
            names(&directory),
            names(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/model")))
        );
        for part in PARTS {
            assert!(holds(&directory.join(part.name), part.bytes), "{}", part.name);
        }
    }

    #[test]
    fn a_damaged_or_missing_file_is_mended_and_a_whole_one_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let directory = place(root.path()).unwrap();
        let (weights, config) =
            (directory.join("model.safetensors"), directory.join("config.json"));
        let tokenizer = directory.join("tokenizer.json");
        let mut damaged = fs::read(&weights).unwrap();
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&weights, damaged).unwrap();
        fs::remove_file(&config).unwrap();
        let before = fs::metadata(&tokenizer).unwrap().modified().unwrap();

        assert_eq!(place(root.path()).unwrap(), directory);
        assert!(PARTS.iter().all(|part| holds(&directory.join(part.name), part.bytes)));
        assert_eq!(fs::metadata(&tokenizer).unwrap().modified().unwrap(), before);
        assert_eq!(names(&directory).len(), PARTS.len(), "nothing is left beside the files");
    }

    #[test]
    fn many_may_place_it_at_once() {
        let root = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| place(root.path()).unwrap());
            }
        });
        let directory = place(root.path()).unwrap();
        assert_eq!(names(&directory).len(), PARTS.len());
    }

    #[test]
    fn it_is_small_enough_to_carry() {
        assert!(bytes() <= 11 << 20, "{} bytes", bytes());
    }
}
