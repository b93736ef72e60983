//! Input of bounded length: a device or a pipe may never end.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use tokenmill::Bytes;

/// Longest text on standard input.
pub const MAX_STDIN: u64 = 64 << 20;
/// Longest settings file.
pub const MAX_SETTINGS: u64 = 1 << 20;

/// Everything `input` has, as UTF-8 text.
///
/// # Errors
/// It cannot be read, has more than `limit` bytes, or is no UTF-8.
pub fn read(input: impl Read, limit: u64) -> io::Result<String> {
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut bytes = Vec::new();
    input.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(wrong(format!("more than {}, the most that is read", Bytes(limit))));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        wrong(format!("not UTF-8: the byte at {at} begins no character"))
    })
}

/// A file in the same way.
pub fn read_file(path: impl AsRef<Path>, limit: u64) -> io::Result<String> {
    read(File::open(path)?, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_or_no_text_is_refused() {
        assert_eq!(read(&b"ab"[..], 2).unwrap(), "ab");
        assert!(read(io::repeat(b'a'), 2).unwrap_err().to_string().contains("more than 2 B"));
        assert!(read(&b"a\xff"[..], 9).unwrap_err().to_string().contains("byte at 1"));
    }
}
