//! What every token spells: the vocabulary, for those who decide which tokens may come.

use foundation::TokenId;

use super::{
    Tokenizer,
    spelling::{Piece, Spelling},
};

/// What a token spells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spelled {
    /// Its bytes in the middle of a text; empty for special tokens and for ids without an entry.
    pub bytes: Vec<u8>,
    /// At the beginning of a text it gives something else: the decoder strips a space, say.
    pub differs_at_start: bool,
}

impl Tokenizer {
    /// What each token spells, by id; `None` where tokens can be decoded in company only.
    pub fn spelled(&self) -> Option<Vec<Spelled>> {
        let spelling = self.spelling();
        let ids = (0..self.vocab_size() as u32).map(TokenId);
        ids.map(|id| match self.token_text(id) {
            Some(text) if !self.is_special(id) => spelled(spelling, &text),
            _ => Some(Spelled::default()),
        })
        .collect()
    }
}

fn spelled(spelling: &Spelling, text: &str) -> Option<Spelled> {
    let middle = bytes(spelling.piece(text, false)?);
    let start = bytes(spelling.piece(text, true)?);
    let strips = |first: &u8| match spelling {
        Spelling::Pieces { strip: Some((stripped, _)), .. } => {
            stripped.to_string().as_bytes().first() == Some(first)
        }
        _ => false,
    };
    let differs_at_start = middle != start || middle.first().is_some_and(strips);
    Some(Spelled { bytes: middle, differs_at_start })
}

fn bytes(piece: Piece) -> Vec<u8> {
    match piece {
        Piece::Bytes(bytes) => bytes,
        Piece::Text(text) => text.into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripped_space_is_told() {
        let spelling = Spelling::Pieces {
            replace: vec![("▁".into(), " ".into())],
            byte_fallback: true,
            strip: Some((' ', 1)),
            bare_first: false,
        };
        let word = spelled(&spelling, "▁hi").unwrap();
        assert_eq!((word.bytes.as_slice(), word.differs_at_start), (b" hi".as_slice(), true));
        assert!(!spelled(&spelling, "hi").unwrap().differs_at_start);
        assert_eq!(spelled(&spelling, "<0x0A>").unwrap().bytes, b"\n");
        assert_eq!(spelled(&Spelling::Joint, "hi"), None);
    }
}
