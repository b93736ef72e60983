//! Log-probabilities in the three forms that the API knows.

use std::sync::Arc;

use serde::{Serialize, Serializer, ser::SerializeStruct};
use tokenmill::{TokenId, TokenLogprob, TopLogprob};

/// JSON has no infinity: what has no probability is reported as this.
const LEAST_LOGPROB: f64 = -9999.0;

/// How tokens are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenNames {
    /// By their text.
    #[default]
    Text,
    /// As `token_id:N`; also the only way without a tokenizer.
    Ids,
}

impl TokenNames {
    fn name(self, token: TokenId, text: &str) -> String {
        match self {
            TokenNames::Text => text.to_owned(),
            TokenNames::Ids => format!("token_id:{token}"),
        }
    }

    /// As [`name`](Self::name), but bytes that are no text of their own are spelled out: `bytes:\xe2\x82`. Where names are
    /// keys, all fragments of characters would else be one.
    fn name_or_bytes(self, token: TokenId, text: &str, bytes: &[u8]) -> String {
        if self == TokenNames::Ids || std::str::from_utf8(bytes).is_ok() {
            return self.name(token, text);
        }
        bytes.iter().fold("bytes:".to_owned(), |name, byte| name + &format!("\\x{byte:02x}"))
    }

    fn bytes(self, bytes: &[u8]) -> Option<Vec<u8>> {
        (self == TokenNames::Text).then(|| bytes.to_vec())
    }
}

/// Of a chat choice: one entry a token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatLogprobs {
    content: Vec<ChatTokenLogprob>,
    refusal: Option<()>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ChatTokenLogprob {
    token: String,
    logprob: f64,
    bytes: Option<Vec<u8>>,
    top_logprobs: Vec<ChatTopLogprob>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ChatTopLogprob {
    token: String,
    logprob: f64,
    bytes: Option<Vec<u8>>,
}

impl ChatLogprobs {
    /// The entries of these tokens.
    pub fn new(tokens: &[TokenLogprob], names: TokenNames) -> ChatLogprobs {
        let top = |top: &TopLogprob| ChatTopLogprob {
            token: names.name(top.token, &top.text),
            logprob: finite(top.logprob),
            bytes: names.bytes(&top.bytes),
        };
        let entry = |token: &TokenLogprob| ChatTokenLogprob {
            token: names.name(token.token, &token.text),
            logprob: finite(token.logprob),
            bytes: names.bytes(&token.bytes),
            top_logprobs: token.top.iter().map(top).collect(),
        };
        ChatLogprobs { content: tokens.iter().map(entry).collect(), refusal: None }
    }
}

/// Of a completion choice: parallel lists, those of the echoed prompt first. All choices share the prompt's part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompletionLogprobs {
    /// Of the echoed prompt.
    pub echo: Arc<[Entry]>,
    /// Of the choice's own tokens.
    pub own: Vec<Entry>,
}

/// What is known of one token.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where the token begins, in characters from the start of the choice's text; a fragment of a character begins where
    /// the character does.
    offset: usize,
    name: String,
    /// `None` where nothing predicts the token: it is the first of a prompt.
    logprob: Option<f64>,
    /// The likeliest tokens and the token itself, by name.
    top: Option<Names>,
}

/// Log-probabilities by name, in order.
#[derive(Clone, Debug, Default, PartialEq)]
struct Names(Vec<(String, f64)>);

impl Entry {
    /// Of a token that begins at `offset`, with at most so many `rivals`.
    pub fn new(token: &TokenLogprob, rivals: u32, names: TokenNames, offset: usize) -> Entry {
        let name = names.name_or_bytes(token.token, &token.text, &token.bytes);
        let logprob = finite(token.logprob);
        let mut top = Names::default();
        let mut told = false;
        for rival in token.top.iter().take(rivals as usize) {
            let own = rival.token == token.token;
            let rival_name = match own {
                true => name.clone(),
                false => names.name_or_bytes(rival.token, &rival.text, &rival.bytes),
            };
            // Two tokens may share a text. The name is the token's own, else that of the likelier one.
            let taken = !own && (rival_name == name || top.holds(&rival_name));
            let rival_name = if taken { TokenNames::Ids.name(rival.token, "") } else { rival_name };
            top.0.push((rival_name, finite(rival.logprob)));
            told |= own;
        }
        if !told {
            top.0.push((name.clone(), logprob));
        }
        Entry { offset, name, logprob: Some(logprob), top: Some(top) }
    }

    /// Of the first token of a prompt, which nothing predicts.
    pub fn first(
        token: TokenId,
        text: &str,
        bytes: &[u8],
        names: TokenNames,
        offset: usize,
    ) -> Entry {
        Entry { offset, name: names.name_or_bytes(token, text, bytes), logprob: None, top: None }
    }
}

impl Names {
    fn holds(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, logprob)| (name, logprob)))
    }
}

impl Serialize for CompletionLogprobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lists = serializer.serialize_struct("CompletionLogprobs", 4)?;
        lists.serialize_field("text_offset", &self.column(|entry| &entry.offset))?;
        lists.serialize_field("token_logprobs", &self.column(|entry| &entry.logprob))?;
        lists.serialize_field("tokens", &self.column(|entry| &entry.name))?;
        lists.serialize_field("top_logprobs", &self.column(|entry| &entry.top))?;
        lists.end()
    }
}

impl CompletionLogprobs {
    fn column<T>(&self, of: fn(&Entry) -> &T) -> Column<'_, T> {
        Column { lists: self, of }
    }
}

/// One of the parallel lists.
struct Column<'a, T> {
    lists: &'a CompletionLogprobs,
    of: fn(&Entry) -> &T,
}

impl<T: Serialize> Serialize for Column<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.lists.echo.iter().chain(&self.lists.own).map(self.of))
    }
}

/// Of a prompt: per token null or a map from token id to what is known of it. Written as it is sent, never built.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptLogprobs {
    tokens: Arc<[Option<TokenLogprob>]>,
    rivals: u32,
    names: TokenNames,
}

/// The form of these tokens, with at most so many `rivals` for each.
pub fn prompt_logprobs(
    tokens: impl Into<Arc<[Option<TokenLogprob>]>>,
    rivals: u32,
    names: TokenNames,
) -> PromptLogprobs {
    PromptLogprobs { tokens: tokens.into(), rivals, names }
}

impl Serialize for PromptLogprobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = |token| PromptEntry { token, rivals: self.rivals as usize, names: self.names };
        serializer.collect_seq(self.tokens.iter().map(|token| token.as_ref().map(entry)))
    }
}

/// The map of one token of a prompt.
struct PromptEntry<'a> {
    token: &'a TokenLogprob,
    rivals: usize,
    names: TokenNames,
}

#[derive(Serialize)]
struct Known {
    logprob: f64,
    rank: u32,
    decoded_token: String,
}

impl Serialize for PromptEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let known = |logprob: f32, rank: u32, token: TokenId, text: &str| Known {
            logprob: finite(logprob),
            rank,
            decoded_token: self.names.name(token, text),
        };
        let token = self.token;
        let own = known(token.logprob, token.rank, token.token, &token.text);
        let rivals = token.top.iter().take(self.rivals).enumerate();
        let rivals =
            rivals.filter(|(_, rival)| rival.token != token.token).map(|(place, rival)| {
                let rank = place as u32 + 1;
                (rival.token.0, known(rival.logprob, rank, rival.token, &rival.text))
            });
        serializer.collect_map(std::iter::once((token.token.0, own)).chain(rivals))
    }
}

/// The number with the fewest digits that is this one in single precision; so the three forms print alike.
fn finite(logprob: f32) -> f64 {
    let shortest: f64 = logprob.to_string().parse().unwrap_or(LEAST_LOGPROB);
    // `max` passes over NaN.
    shortest.max(LEAST_LOGPROB)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn token(id: u32, text: &str, logprob: f32, top: &[(u32, &str, f32)]) -> TokenLogprob {
        let top = top.iter().map(|(id, text, logprob)| TopLogprob {
            token: TokenId(*id),
            text: (*text).into(),
            bytes: text.as_bytes().to_vec(),
            logprob: *logprob,
        });
        TokenLogprob {
            token: TokenId(id),
            text: text.into(),
            bytes: text.as_bytes().to_vec(),
            logprob,
            rank: 3,
            top: top.collect(),
        }
    }

    #[test]
    fn chat_form() {
        let tokens = [token(5, "é", f32::NEG_INFINITY, &[(1, "a", -0.5)])];
        let form = serde_json::to_value(ChatLogprobs::new(&tokens, TokenNames::Text)).unwrap();
        let want = json!({"content": [{
            "token": "é", "logprob": -9999.0, "bytes": [195, 169],
            "top_logprobs": [{"token": "a", "logprob": -0.5, "bytes": [97]}]
        }], "refusal": null});
        assert_eq!(form, want);
        let ids = serde_json::to_value(ChatLogprobs::new(&tokens, TokenNames::Ids)).unwrap();
        assert_eq!(ids["content"][0]["token"], "token_id:5");
        assert_eq!(ids["content"][0]["bytes"], Value::Null);
    }

    /// A token and rivals of which each has bytes.
    fn raw(own: (u32, &[u8], f32), top: &[(u32, &[u8], f32)]) -> TokenLogprob {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let top = top.iter().map(|(id, bytes, logprob)| TopLogprob {
            token: TokenId(*id),
            text: text(bytes),
            bytes: bytes.to_vec(),
            logprob: *logprob,
        });
        let (id, bytes, logprob) = own;
        TokenLogprob {
            token: TokenId(id),
            text: text(bytes),
            bytes: bytes.to_vec(),
            logprob,
            rank: 3,
            top: top.collect(),
        }
    }

    fn top_of(token: &TokenLogprob) -> Value {
        let entry = Entry::new(token, 20, TokenNames::Text, 0);
        let lists = CompletionLogprobs { echo: [].into(), own: vec![entry] };
        let lists = serde_json::to_value(lists).unwrap();
        let name = lists["tokens"][0].as_str().unwrap();
        assert_eq!(lists["top_logprobs"][0][name], lists["token_logprobs"][0], "{lists}");
        lists["top_logprobs"][0].clone()
    }

    #[test]
    fn completion_form_has_the_lists_of_prompt_and_choice() {
        let names = TokenNames::Text;
        let lists = CompletionLogprobs {
            echo: [Entry::first(TokenId(9), "né", "né".as_bytes(), names, 0)].into(),
            own: vec![Entry::new(
                &token(5, "x", -2.0, &[(1, "a", -0.5), (2, "b", -1.0)]),
                1,
                names,
                2,
            )],
        };
        let want = json!({
            "text_offset": [0, 2], "token_logprobs": [null, -2.0], "tokens": ["né", "x"],
            "top_logprobs": [null, {"a": -0.5, "x": -2.0}]
        });
        assert_eq!(serde_json::to_value(lists).unwrap(), want);
    }

    #[test]
    fn no_rival_is_lost_where_tokens_share_a_text() {
        let equal = raw((5, b"x", -2.0), &[(1, b"a", -0.5), (2, b"a", -1.0), (3, b"x", -1.5)]);
        assert_eq!(
            top_of(&equal),
            json!({"a": -0.5, "token_id:2": -1.0, "token_id:3": -1.5, "x": -2.0})
        );
        let own_is_less_likely = raw((2, b"a", -1.0), &[(1, b"a", -0.5), (2, b"a", -1.0)]);
        assert_eq!(top_of(&own_is_less_likely), json!({"token_id:1": -0.5, "a": -1.0}));
    }

    #[test]
    fn fragments_of_characters_are_spelled_in_bytes() {
        let top: [(u32, &[u8], f32); 3] =
            [(1, b"\xe2\x82", -0.5), (2, b"\xac", -1.0), (3, "€".as_bytes(), -1.5)];
        assert_eq!(
            top_of(&raw((9, b"\xff", -4.0), &top)),
            json!({"bytes:\\xe2\\x82": -0.5, "bytes:\\xac": -1.0, "€": -1.5, "bytes:\\xff": -4.0})
        );
    }

    #[test]
    fn numbers_are_short_and_finite() {
        assert_eq!(finite(-13.940894).to_string(), "-13.940894");
        for odd in [f32::NAN, f32::NEG_INFINITY, -1e9] {
            assert_eq!(finite(odd), LEAST_LOGPROB);
        }
    }

    #[test]
    fn prompt_form() {
        let tokens = [None, Some(token(5, "x", -2.0, &[(1, "a", -0.5)]))];
        let want = json!([null, {
            "5": {"logprob": -2.0, "rank": 3, "decoded_token": "x"},
            "1": {"logprob": -0.5, "rank": 1, "decoded_token": "a"}
        }]);
        let form = |rivals| prompt_logprobs(tokens.to_vec(), rivals, TokenNames::Text);
        assert_eq!(serde_json::to_value(form(1)).unwrap(), want);
        assert_eq!(serde_json::to_value(form(0)).unwrap()[1].as_object().unwrap().len(), 1);
    }
}
