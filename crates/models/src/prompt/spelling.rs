//! How tokens spell bytes: what a tokenizer's decoder does, token by token.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;
use tokenizers::Tokenizer as Library;

/// A decoder that works on one token at a time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spelling {
    /// Each character of a token stands for a byte; text is all bytes, read as UTF-8.
    ByteLevel,
    /// Tokens are text, after some replacements; `<0x0A>` is a byte where `byte_fallback` says so.
    Pieces {
        /// What is replaced by what.
        replace: Vec<(String, String)>,
        /// Whether `<0x..>` is a byte.
        byte_fallback: bool,
        /// A character that is cut off the beginning of the text, so many times.
        strip: Option<(char, usize)>,
        /// Whether the first token loses its replaced characters altogether.
        bare_first: bool,
    },
    /// Anything else: tokens can be decoded in company only.
    Joint,
}

/// One token's contribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text that is complete in itself.
    Text(String),
    /// Bytes, which may be a part of a character.
    Bytes(Vec<u8>),
}

impl Spelling {
    /// Reads the decoder of `library`.
    pub(crate) fn of(library: &Library) -> Spelling {
        let decoder = library.get_decoder().and_then(|decoder| serde_json::to_value(decoder).ok());
        decoder.as_ref().and_then(Self::read).unwrap_or(Spelling::Joint)
    }

    fn read(decoder: &Value) -> Option<Spelling> {
        match decoder["type"].as_str()? {
            "ByteLevel" => Some(Spelling::ByteLevel),
            "Metaspace" => Self::metaspace(decoder),
            "Sequence" => Self::sequence(decoder["decoders"].as_array()?),
            _ => None,
        }
    }

    fn metaspace(decoder: &Value) -> Option<Spelling> {
        Some(Spelling::Pieces {
            replace: vec![(decoder["replacement"].as_str()?.to_owned(), " ".to_owned())],
            byte_fallback: false,
            strip: None,
            bare_first: decoder["prepend_scheme"] != "never",
        })
    }

    /// Replacements, then byte fallback, then `Fuse` and a strip of the beginning: sentencepiece's order.
    fn sequence(decoders: &[Value]) -> Option<Spelling> {
        if let [only] = decoders {
            return Self::read(only);
        }
        let (mut replace, mut byte_fallback, mut strip, mut fused) =
            (Vec::new(), false, None, false);
        for decoder in decoders {
            match decoder["type"].as_str()? {
                "Replace" if !byte_fallback && !fused => replace.push((
                    decoder["pattern"]["String"].as_str()?.to_owned(),
                    decoder["content"].as_str()?.to_owned(),
                )),
                "ByteFallback" if !byte_fallback && !fused => byte_fallback = true,
                "Fuse" => fused = true,
                "Strip" if fused && strip.is_none() && decoder["stop"] == 0 => {
                    let content = decoder["content"].as_str()?.chars().next()?;
                    strip = Some((content, usize::try_from(decoder["start"].as_u64()?).ok()?));
                }
                _ => return None,
            }
        }
        Some(Spelling::Pieces { replace, byte_fallback, strip, bare_first: false })
    }

    /// What a token, by its vocabulary spelling, stands for; `None` when it cannot be said of one alone.
    pub(crate) fn piece(&self, token: &str, first: bool) -> Option<Piece> {
        match self {
            Spelling::ByteLevel => Some(Piece::Bytes(byte_level(token))),
            Spelling::Pieces { replace, byte_fallback, bare_first, .. } => {
                // The replacements run first, so a byte token that one of them touches is a byte no more.
                let text = replace.iter().fold(token.to_owned(), |text, (from, to)| {
                    text.replace(from, if first && *bare_first { "" } else { to })
                });
                Some(match fallback_byte(&text) {
                    Some(byte) if *byte_fallback => Piece::Bytes(vec![byte]),
                    _ => Piece::Text(text),
                })
            }
            Spelling::Joint => None,
        }
    }
}

/// The byte of `<0x0A>`.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// The bytes of a byte-level token; a token with a character outside the alphabet (an added one) is its own text.
fn byte_level(token: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = token.chars().map(|c| ALPHABET.get(&c).copied()).collect();
    bytes.unwrap_or_else(|| token.as_bytes().to_vec())
}

/// The characters that stand for bytes in byte-level spelling.
pub(crate) fn byte_level_characters() -> impl Iterator<Item = char> {
    ALPHABET.keys().copied()
}

/// Byte-level spelling: printable bytes stand for themselves, the others for the characters from U+0100 on.
static ALPHABET: LazyLock<HashMap<char, u8>> = LazyLock::new(|| {
    let mut next = 0x100;
    (0..=255u8)
        .map(|byte| match byte {
            b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => (char::from(byte), byte),
            _ => {
                next += 1;
                (char::from_u32(next - 1).expect("below the surrogates"), byte)
            }
        })
        .collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn byte_level_tokens_are_bytes() {
        let spelling = Spelling::read(&json!({"type": "ByteLevel"})).unwrap();
        assert_eq!(spelling.piece("Ġhi", false), Some(Piece::Bytes(b" hi".to_vec())));
        assert_eq!(spelling.piece("ðŁ", false), Some(Piece::Bytes(vec![0xF0, 0x9F])));
        assert_eq!(spelling.piece("<｜User｜>", false), Some(Piece::Bytes("<｜User｜>".into())));
        assert_eq!(ALPHABET.len(), 256);
    }

    #[test]
    fn sentencepiece_tokens_are_text_or_bytes() {
        let spelling = Spelling::read(&json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]}))
        .unwrap();
        assert_eq!(spelling.piece("▁hi", false), Some(Piece::Text(" hi".into())));
        assert_eq!(spelling.piece("<0xE5>", false), Some(Piece::Bytes(vec![0xE5])));
        assert_eq!(spelling.piece("<0xZZ>", false), Some(Piece::Text("<0xZZ>".into())));
        assert!(matches!(spelling, Spelling::Pieces { strip: Some((' ', 1)), .. }));
    }

    #[test]
    fn unknown_decoders_are_joint() {
        assert_eq!(Spelling::read(&json!({"type": "WordPiece"})), None);
    }
}
