//! Proves that the bytes that came are those that were promised. The hub names a large file by its sha256 and a small one
//! by the sha1 that git gives it.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::client::Identity;

const CHUNK: usize = 1 << 20;

/// A checksum that grows with its file.
pub(super) enum Checksum {
    /// Of the contents.
    Sha256(Sha256),
    /// Of a header with the size, and the contents.
    Git(Sha1),
    /// The name is no known checksum (a hub that is only a file server): the size alone is checked.
    None,
}

impl Checksum {
    /// For a file that has no bytes yet.
    pub fn new(identity: &Identity) -> Self {
        let hex = identity.etag.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match identity.etag.len() {
            64 if hex => Checksum::Sha256(Sha256::new()),
            40 if hex => {
                let header = format!("blob {}\0", identity.bytes);
                Checksum::Git(Sha1::new_with_prefix(header.as_bytes()))
            }
            _ => Checksum::None,
        }
    }

    /// The next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Checksum::Sha256(digest) => digest.update(bytes),
            Checksum::Git(digest) => digest.update(bytes),
            Checksum::None => {}
        }
    }

    /// All bytes of `file`, from its beginning.
    pub fn read_all(&mut self, file: &mut File) -> io::Result<()> {
        file.seek(SeekFrom::Start(0))?;
        let mut chunk = vec![0; CHUNK];
        loop {
            match file.read(&mut chunk)? {
                0 => return Ok(()),
                read => self.update(&chunk[..read]),
            }
        }
    }

    /// What differs, and the checksum seen; `None`: nothing.
    pub fn mismatch(&self, identity: &Identity) -> Option<(&'static str, String)> {
        let (what, seen) = match self {
            Checksum::Sha256(digest) => ("sha256", hex(&digest.clone().finalize())),
            Checksum::Git(digest) => ("git sha1", hex(&digest.clone().finalize())),
            Checksum::None => return None,
        };
        (seen != identity.etag).then_some((what, seen))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_both_names_of_hello() {
        let names = [
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
            "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0",
        ];
        for name in names {
            let identity = Identity { etag: name.to_owned(), bytes: 5 };
            let mut checksum = Checksum::new(&identity);
            checksum.update(b"hel");
            assert!(checksum.mismatch(&identity).is_some());
            checksum.update(b"lo");
            assert_eq!(checksum.mismatch(&identity), None);
        }
    }
}
