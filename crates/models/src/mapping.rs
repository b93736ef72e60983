//! Weight files mapped into memory: the one place of this crate with `unsafe`.
#![allow(unsafe_code)]

use std::{fs::File, io, path::Path};

use memmap2::Mmap;

/// A whole file, mapped read-only.
///
/// The pages are shared with the system's page cache and read when they are first touched.
#[derive(Debug)]
pub struct MappedFile {
    map: Mmap,
}

impl MappedFile {
    /// Maps the file at `path`.
    ///
    /// Whoever changes the file while it is mapped changes the weights; who truncates it ends the process with SIGBUS
    /// at the next touch. Downloads therefore write a new file and rename it, and never write into an old one.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Asked before it is opened: opening a FIFO would wait for a writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        // SAFETY: the mapping is private to this value and never handed out as mutable. That nobody changes the file
        // meanwhile cannot be checked: it is the documented duty of whoever owns the checkpoint directory.
        let map = unsafe { Mmap::map(&file)? };
        Ok(MappedFile { map })
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_what_is_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, b"weights").unwrap();
        assert_eq!(MappedFile::open(&path).unwrap().bytes(), b"weights");
        std::fs::write(&path, b"").unwrap();
        assert_eq!(MappedFile::open(&path).unwrap().bytes(), b"");
        assert!(MappedFile::open(dir.path()).is_err());
    }
}
