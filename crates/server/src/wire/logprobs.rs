//! Log-probabilities in the three forms that the API knows.

use serde::Serialize;
use serde_json::{Map, Value, json};
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

/// Of a completion choice: parallel lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CompletionLogprobs {
    /// Where each token's text begins, in characters from the start of the choice's text.
    text_offset: Vec<usize>,
    token_logprobs: Vec<Option<f64>>,
    tokens: Vec<String>,
    /// The likeliest tokens and the token itself; null where a prompt's first token has none.
    top_logprobs: Vec<Option<Map<String, Value>>>,
}

impl CompletionLogprobs {
    /// Adds a token whose text begins at `offset` and moves `offset` behind it.
    pub fn push(&mut self, token: &TokenLogprob, names: TokenNames, offset: &mut usize) {
        let mut top = Map::new();
        for rival in &token.top {
            // Two tokens may share a text; the likelier one, which comes first, keeps it.
            top.entry(names.name(rival.token, &rival.text))
                .or_insert_with(|| json!(finite(rival.logprob)));
        }
        let name = names.name(token.token, &token.text);
        top.entry(name.clone()).or_insert_with(|| json!(finite(token.logprob)));
        self.text_offset.push(*offset);
        *offset += token.text.chars().count();
        self.tokens.push(name);
        self.token_logprobs.push(Some(finite(token.logprob)));
        self.top_logprobs.push(Some(top));
    }

    /// Adds the first token of a prompt, which nothing predicts.
    pub fn push_first(
        &mut self,
        token: TokenId,
        text: &str,
        names: TokenNames,
        offset: &mut usize,
    ) {
        self.text_offset.push(*offset);
        *offset += text.chars().count();
        self.tokens.push(names.name(token, text));
        self.token_logprobs.push(None);
        self.top_logprobs.push(None);
    }
}

/// Of a prompt: per token null or a map from token id to what is known of it.
pub fn prompt_logprobs(tokens: &[Option<TokenLogprob>], names: TokenNames) -> Value {
    let entry = |token: &TokenLogprob| {
        let mut map = Map::new();
        let known = |logprob: f32, rank: u32, token: TokenId, text: &str| json!({"logprob": finite(logprob), "rank": rank, "decoded_token": names.name(token, text)});
        let own = known(token.logprob, token.rank, token.token, &token.text);
        map.insert(token.token.to_string(), own);
        for (place, top) in token.top.iter().enumerate() {
            map.entry(top.token.to_string())
                .or_insert_with(|| known(top.logprob, place as u32 + 1, top.token, &top.text));
        }
        Value::Object(map)
    };
    tokens.iter().map(|token| token.as_ref().map_or(Value::Null, entry)).collect()
}

/// The number with the fewest digits that is this one in single precision; so the three forms print alike.
fn finite(logprob: f32) -> f64 {
    let shortest: f64 = logprob.to_string().parse().unwrap_or(LEAST_LOGPROB);
    // `max` passes over NaN.
    shortest.max(LEAST_LOGPROB)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn completion_form_counts_characters_and_keeps_the_likelier_of_equal_texts() {
        let mut form = CompletionLogprobs::default();
        let mut offset = 0;
        form.push_first(TokenId(9), "né", TokenNames::Text, &mut offset);
        form.push(
            &token(5, "x", -2.0, &[(1, "a", -0.5), (2, "a", -1.0)]),
            TokenNames::Text,
            &mut offset,
        );
        let want = json!({
            "text_offset": [0, 2], "token_logprobs": [null, -2.0], "tokens": ["né", "x"],
            "top_logprobs": [null, {"a": -0.5, "x": -2.0}]
        });
        assert_eq!(serde_json::to_value(form).unwrap(), want);
        assert_eq!(offset, 3);
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
        assert_eq!(prompt_logprobs(&tokens, TokenNames::Text), want);
    }
}
