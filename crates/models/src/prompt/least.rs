//! How many tokens a text has at least, told without tokenizing it.
//!
//! No token covers more than the longest entry of the vocabulary, so `n` bytes are at least `n / longest` tokens, as
//! long as every byte ends up in a token. Whether that is so is read off the tokenizer's parts: each must be one that is
//! known to lose nothing. Where one is not, there is no bound.

use std::collections::HashMap;

use serde_json::Value;
use tokenizers::{
    AddedToken, Model, NormalizedString, Normalizer, Tokenizer as Library, models::ModelWrapper,
};
use unicode_normalization_alignments::UnicodeNormalization;

use super::spelling::byte_level_characters;

/// What bounds the number of a text's tokens from below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeastTokens {
    /// Most bytes that one token covers.
    longest: usize,
    /// The text is brought to normal form C first, which may shorten it.
    composes: bool,
    /// Some token swallows white space beside it, however much there is.
    swallows_spaces: bool,
}

impl LeastTokens {
    /// Reads the parts of `library`; `None` where one of them may lose text.
    pub(crate) fn of(library: &Library) -> Option<LeastTokens> {
        let normalizer = part(library.get_normalizer())?;
        let composes = composes(&normalizer)?;
        let pre_tokenizer = part(library.get_pre_tokenizer())?;
        if !keeps_everything(&pre_tokenizer) {
            return None;
        }
        let byte_level = spells_bytes(&pre_tokenizer);
        let vocab = library.get_model().get_vocab();
        if !spells_everything(library.get_model(), &vocab, byte_level) {
            return None;
        }
        let length = |entry: &String| if byte_level { entry.chars().count() } else { entry.len() };
        let added = library.get_added_tokens_decoder();
        let mut longest = vocab.keys().map(length).max()?;
        for token in added.values() {
            longest = longest.max(covered(library, token)?);
        }
        let swallows_spaces = added.values().any(|token| token.lstrip || token.rstrip);
        (longest > 0).then_some(LeastTokens { longest, composes, swallows_spaces })
    }

    /// A number of tokens above `limit` that `text` surely has; `None` where tokenizing alone can tell.
    pub(crate) fn above(&self, text: &str, limit: usize) -> Option<usize> {
        if text.len() / self.longest <= limit {
            return None;
        }
        let least = self.lasting_bytes(text).div_ceil(self.longest);
        (least > limit).then_some(least)
    }

    /// Bytes that a token must cover.
    fn lasting_bytes(&self, text: &str) -> usize {
        let bytes = |c: char| match self.swallows_spaces && c.is_whitespace() {
            true => 0,
            false => c.len_utf8(),
        };
        match (self.composes && !text.is_ascii(), self.swallows_spaces) {
            (true, _) => text.nfc().map(|(c, _)| bytes(c)).sum(),
            (false, true) => text.chars().map(bytes).sum(),
            (false, false) => text.len(),
        }
    }
}

/// A part of the tokenizer as its file describes it; null where there is none.
fn part(part: Option<&impl serde::Serialize>) -> Option<Value> {
    part.map_or(Some(Value::Null), |part| serde_json::to_value(part).ok())
}

/// Whether the normaliser brings texts to normal form C, and otherwise leaves them at least as long as they are;
/// `None` for all others.
fn composes(normalizer: &Value) -> Option<bool> {
    if normalizer.is_null() {
        return Some(false);
    }
    match normalizer["type"].as_str()? {
        "NFC" => Some(true),
        "Prepend" => Some(false),
        "Replace" => {
            let from = normalizer["pattern"]["String"].as_str()?;
            let to = normalizer["content"].as_str()?;
            (!from.is_empty() && to.len() >= from.len()).then_some(false)
        }
        "Sequence" => {
            let mut steps = normalizer["normalizers"].as_array()?.iter();
            let first = steps.next().map_or(Some(false), composes)?;
            // What a later step would compose is no longer the text that was given.
            steps.all(|step| composes(step) == Some(false)).then_some(first)
        }
        _ => None,
    }
}

/// Whether the pre-tokenizer only cuts texts and respells them at no smaller length.
fn keeps_everything(pre_tokenizer: &Value) -> bool {
    if pre_tokenizer.is_null() {
        return true;
    }
    match pre_tokenizer["type"].as_str() {
        Some("ByteLevel" | "Metaspace" | "Digits") => true,
        Some("Split") => pre_tokenizer["behavior"].as_str().is_some_and(|kept| kept != "Removed"),
        Some("Sequence") => steps(pre_tokenizer).iter().all(keeps_everything),
        _ => false,
    }
}

/// Whether the pre-tokenizer turns bytes into the characters that stand for them.
fn spells_bytes(pre_tokenizer: &Value) -> bool {
    pre_tokenizer["type"] == "ByteLevel" || steps(pre_tokenizer).iter().any(spells_bytes)
}

fn steps(pre_tokenizer: &Value) -> &[Value] {
    pre_tokenizer["pretokenizers"].as_array().map_or(&[], Vec::as_slice)
}

/// Whether the model has a token for every byte there is: then nothing is left out, or runs together as unknown.
fn spells_everything(model: &ModelWrapper, vocab: &HashMap<String, u32>, byte_level: bool) -> bool {
    let ModelWrapper::BPE(bpe) = model else { return false };
    if bpe.continuing_subword_prefix.is_some() || bpe.end_of_word_suffix.is_some() {
        return false;
    }
    let knows = |entry: String| vocab.contains_key(&entry);
    match byte_level {
        true => byte_level_characters().all(|c| knows(c.to_string())),
        false => bpe.byte_fallback && (0..=255u8).all(|byte| knows(format!("<{byte:#04X}>"))),
    }
}

/// Most bytes that an added token covers, the white space that it swallows aside: those of its spelling, or of what the
/// normaliser makes of it, which is what it is compared with.
fn covered(library: &Library, token: &AddedToken) -> Option<usize> {
    let mut text = NormalizedString::from(token.content.as_str());
    if let Some(normalizer) = library.get_normalizer().filter(|_| token.normalized) {
        normalizer.normalize(&mut text).ok()?;
    }
    Some(token.content.len().max(text.get().len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A tokenizer of all bytes and `ab`, with other parts in place of some.
    fn library(changes: Value) -> Library {
        let mut vocab: serde_json::Map<String, Value> =
            byte_level_characters().enumerate().map(|(id, c)| (c.to_string(), json!(id))).collect();
        vocab.insert("ab".into(), json!(256));
        let mut file = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": null, "post_processor": null, "decoder": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "vocab": vocab, "merges": [["a", "b"]]},
        });
        for (name, value) in changes.as_object().unwrap() {
            file[name] = value.clone();
        }
        Library::from_bytes(file.to_string()).unwrap()
    }

    #[test]
    fn the_longest_entry_bounds_the_number_of_tokens() {
        let least = LeastTokens::of(&library(json!({}))).unwrap();
        assert_eq!(least, LeastTokens { longest: 2, composes: false, swallows_spaces: false });
        assert_eq!(least.above("ababa", 1), Some(3));
        assert_eq!(least.above("ababa", 2), None, "the cheap look does not tell");
        assert_eq!(least.above("ababab", 2), Some(3));
        assert_eq!(least.above("", 0), None);
    }

    #[test]
    fn composing_is_taken_into_account() {
        let composing = library(json!({"normalizer": {"type": "NFC"}}));
        let least = LeastTokens::of(&composing).unwrap();
        // Three bytes each that become two.
        let text = "e\u{301}".repeat(4);
        assert_eq!(least.above(&text, 3), Some(4));
        assert_eq!(least.above(&text, 4), None);
    }

    #[test]
    fn white_space_beside_a_greedy_token_does_not_count() {
        let added = json!([{"id": 257, "content": "<x>", "single_word": false, "lstrip": true,
            "rstrip": false, "normalized": false, "special": false}]);
        let least = LeastTokens::of(&library(json!({"added_tokens": added}))).unwrap();
        assert_eq!(least.longest, 3);
        assert_eq!(least.above(&format!("{}<x>", " ".repeat(300)), 1), None);
        assert_eq!(least.above(&"x".repeat(300), 1), Some(100));
    }

    #[test]
    fn parts_that_may_lose_text_leave_no_bound() {
        let grows = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let nfc = json!({"type": "NFC"});
        let fine = json!({"type": "Sequence", "normalizers": [nfc, grows]});
        assert!(LeastTokens::of(&library(json!({"normalizer": fine}))).is_some());
        for normalizer in [
            json!({"type": "NFKC"}),
            json!({"type": "Lowercase"}),
            json!({"type": "Strip", "strip_left": true, "strip_right": true}),
            json!({"type": "Replace", "pattern": {"String": "ab"}, "content": ""}),
            json!({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "aaa"}),
            json!({"type": "Sequence", "normalizers": [grows, nfc]}),
        ] {
            let library = library(json!({"normalizer": normalizer}));
            assert_eq!(LeastTokens::of(&library), None, "{normalizer}");
        }
        let removed = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": false});
        for pre_tokenizer in [
            json!({"type": "Whitespace"}),
            json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}]}),
            removed,
            Value::Null,
        ] {
            let library = library(json!({"pre_tokenizer": pre_tokenizer}));
            assert_eq!(LeastTokens::of(&library), None, "{pre_tokenizer}");
        }
        let gaps =
            json!({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]});
        assert_eq!(LeastTokens::of(&library(json!({"model": gaps}))), None);
    }
}
