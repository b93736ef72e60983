//! What `generation_config.json` says about how to sample, and where to stop.

use std::path::Path;

use foundation::TokenId;
use serde_json::{Map, Value};

use crate::{
    error::{Error, Finding, Findings},
    prompt::read_object,
};

/// A checkpoint's own sampling defaults: the request beats them, they beat the built-in ones.
/// `None`: the file says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationDefaults {
    /// `Some(false)`: greedy, and `temperature` is 0 whatever the file says.
    pub do_sample: Option<bool>,
    /// Divides the logits; 0: greedy.
    pub temperature: Option<f32>,
    /// Keep the `k` likeliest; 0: all.
    pub top_k: Option<u32>,
    /// Keep the smallest set whose probability reaches `p`, in (0, 1].
    pub top_p: Option<f32>,
    /// Keep tokens at least `min_p` times as likely as the likeliest, in [0, 1].
    pub min_p: Option<f32>,
    /// Divides positive and multiplies negative logits of tokens seen before; above 0.
    pub repetition_penalty: Option<f32>,
    /// Tokens that end an answer, those of `config.json` where `generation_config.json` names none.
    pub eos_token_ids: Vec<TokenId>,
    /// The longest answer, tokens.
    pub max_new_tokens: Option<u32>,
    /// The longest prompt and answer together, tokens.
    pub max_length: Option<u32>,
    /// The shortest answer, tokens.
    pub min_new_tokens: Option<u32>,
    /// Tokens that are never drawn: `suppress_tokens`, and the `bad_words_ids` of one token.
    pub suppressed_token_ids: Vec<TokenId>,
    /// Strings that end an answer.
    pub stop_strings: Vec<String>,
    /// Warnings: what the file asks for and does not get, by name.
    pub findings: Vec<Finding>,
}

/// The file, in findings.
const FILE: &str = "generation_config.json";

/// Keys that change what is drawn and that are not honoured, each with its neutral value (`null` is one always).
const UNSUPPORTED: &[(&str, Neutral)] = &[
    ("typical_p", Neutral::Number(1.0)),
    ("top_h", Neutral::Null),
    ("epsilon_cutoff", Neutral::Number(0.0)),
    ("eta_cutoff", Neutral::Number(0.0)),
    ("encoder_repetition_penalty", Neutral::Number(1.0)),
    ("length_penalty", Neutral::Number(1.0)),
    ("no_repeat_ngram_size", Neutral::Number(0.0)),
    ("encoder_no_repeat_ngram_size", Neutral::Number(0.0)),
    ("num_beams", Neutral::Number(1.0)),
    ("num_beam_groups", Neutral::Number(1.0)),
    ("diversity_penalty", Neutral::Number(0.0)),
    ("penalty_alpha", Neutral::Number(0.0)),
    ("min_length", Neutral::Number(0.0)),
    ("num_return_sequences", Neutral::Number(1.0)),
    ("guidance_scale", Neutral::Number(1.0)),
    ("forced_bos_token_id", Neutral::Null),
    ("forced_eos_token_id", Neutral::Null),
    ("exponential_decay_length_penalty", Neutral::Null),
    ("begin_suppress_tokens", Neutral::Empty),
    ("sequence_bias", Neutral::Empty),
    ("constraints", Neutral::Empty),
    ("force_words_ids", Neutral::Empty),
    ("watermarking_config", Neutral::Null),
    ("dola_layers", Neutral::Null),
    ("max_time", Neutral::Null),
    ("token_healing", Neutral::False),
    ("renormalize_logits", Neutral::False),
    ("remove_invalid_values", Neutral::False),
];

/// A value that asks for nothing.
enum Neutral {
    Null,
    False,
    Empty,
    Number(f64),
}

impl Neutral {
    fn is(&self, value: &Value) -> bool {
        let neutral = match self {
            Neutral::Null => false,
            Neutral::False => value == &Value::Bool(false),
            Neutral::Empty => {
                value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(Map::is_empty)
            }
            Neutral::Number(number) => value.as_f64() == Some(*number),
        };
        neutral || value.is_null()
    }
}

impl GenerationDefaults {
    /// Reads `generation_config.json` of the directory `dir`, and the end-of-sequence tokens of its `config.json` where
    /// the former names none. A directory without either gives empty defaults.
    ///
    /// # Errors
    /// [`Error::Findings`] with all values that make no sense.
    pub fn from_dir(dir: &Path) -> Result<GenerationDefaults, Error> {
        let read = |name: &str| read_object(&dir.join(name));
        Self::from_objects(&read(FILE)?, &read("config.json")?)
    }

    fn from_objects(
        file: &Map<String, Value>,
        config: &Map<String, Value>,
    ) -> Result<GenerationDefaults, Error> {
        let mut reader = Reader { file, findings: Findings::default() };
        let do_sample = reader.value("do_sample", "true or false", Value::as_bool);
        let mut temperature = reader.number("temperature", "a number of at least 0", |n| n >= 0.0);
        if do_sample == Some(false) {
            temperature = Some(0.0);
        }
        let mut defaults = GenerationDefaults {
            do_sample,
            temperature,
            top_k: reader.count("top_k"),
            top_p: reader.number("top_p", "a number in (0, 1]", |n| n > 0.0 && n <= 1.0),
            min_p: reader.number("min_p", "a number in [0, 1]", |n| (0.0..=1.0).contains(&n)),
            repetition_penalty: reader
                .number("repetition_penalty", "a number above 0", |n| n > 0.0),
            eos_token_ids: reader.tokens("eos_token_id"),
            max_new_tokens: reader.count("max_new_tokens"),
            max_length: reader.count("max_length"),
            min_new_tokens: reader.count("min_new_tokens"),
            suppressed_token_ids: reader.tokens("suppress_tokens"),
            stop_strings: reader.strings("stop_strings"),
            findings: Vec::new(),
        };
        defaults.suppressed_token_ids.extend(reader.bad_words());
        reader.report_unsupported();
        if defaults.eos_token_ids.is_empty() {
            defaults.eos_token_ids = eos_of_config(config, &mut reader.findings);
        }
        defaults.findings = reader.findings.into_result()?;
        Ok(defaults)
    }

    /// Without the tokens that a vocabulary of `rows` does not have: the model can never draw them. Findings tell of each key.
    pub fn within(mut self, rows: usize) -> GenerationDefaults {
        let lists = [
            ("eos_token_id", &mut self.eos_token_ids),
            ("suppress_tokens", &mut self.suppressed_token_ids),
        ];
        for (name, tokens) in lists {
            let (known, beyond): (Vec<TokenId>, Vec<TokenId>) =
                tokens.iter().partition(|token| (token.0 as usize) < rows);
            if let [first, ..] = beyond[..] {
                let all = if beyond.len() > 1 { " and others" } else { "" };
                let message = format!(
                    "{name}: token {}{all} is beyond the vocabulary of {rows}, passed over",
                    first.0
                );
                self.findings.push(Finding::warning(FILE, message));
            }
            *tokens = known;
        }
        self
    }
}

/// Reads values of the file; what makes no sense becomes a finding.
struct Reader<'a> {
    file: &'a Map<String, Value>,
    findings: Findings,
}

impl Reader<'_> {
    fn value<T>(
        &mut self,
        name: &str,
        wanted: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.file.get(name).filter(|value| !value.is_null())?;
        let read = read(value);
        if read.is_none() {
            self.findings.push(nonsense(FILE, name, value, wanted));
        }
        read
    }

    fn number(&mut self, name: &str, wanted: &str, fits: impl Fn(f64) -> bool) -> Option<f32> {
        self.value(name, wanted, |value| {
            // As it is computed with: what is in range may round out of it.
            let number = value.as_f64()? as f32;
            Some(number).filter(|number| number.is_finite() && fits(f64::from(*number)))
        })
    }

    fn count(&mut self, name: &str) -> Option<u32> {
        self.value(name, "a whole number below 2^32", |value| u32::try_from(value.as_u64()?).ok())
    }

    fn tokens(&mut self, name: &str) -> Vec<TokenId> {
        self.value(name, "a token id or a list of them", token_ids).unwrap_or_default()
    }

    fn strings(&mut self, name: &str) -> Vec<String> {
        let read = |value: &Value| match value {
            Value::String(text) => Some(vec![text.clone()]),
            value => {
                value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
            }
        };
        self.value(name, "a string or a list of them", read).unwrap_or_default()
    }

    /// The bad words of one token; longer ones cannot be kept from being drawn, and are reported.
    fn bad_words(&mut self) -> Vec<TokenId> {
        let read =
            |value: &Value| value.as_array()?.iter().map(token_ids).collect::<Option<Vec<_>>>();
        let words =
            self.value("bad_words_ids", "a list of lists of token ids", read).unwrap_or_default();
        let (single, longer): (Vec<_>, Vec<_>) =
            words.into_iter().partition(|word| word.len() == 1);
        if !longer.is_empty() {
            let message =
                format!("bad_words_ids: {} words of several tokens are not honoured", longer.len());
            self.findings.push(Finding::warning(FILE, message));
        }
        single.into_iter().flatten().collect()
    }

    fn report_unsupported(&mut self) {
        for (name, neutral) in UNSUPPORTED {
            if let Some(value) = self.file.get(*name).filter(|value| !neutral.is(value)) {
                let message = format!("{name} is {}, which is not honoured", shown(value));
                self.findings.push(Finding::warning(FILE, message));
            }
        }
    }
}

/// `eos_token_id` of a model's configuration, or of its text part.
fn eos_of_config(config: &Map<String, Value>, findings: &mut Findings) -> Vec<TokenId> {
    let name = "eos_token_id";
    let text = config.get("text_config").and_then(Value::as_object);
    let values = [Some(config), text].into_iter().flatten().filter_map(|object| object.get(name));
    let Some(value) = values.into_iter().find(|value| !value.is_null()) else { return Vec::new() };
    token_ids(value).unwrap_or_else(|| {
        findings.push(nonsense("config.json", name, value, "a token id or a list of them"));
        Vec::new()
    })
}

fn token_ids(value: &Value) -> Option<Vec<TokenId>> {
    let id = |value: &Value| u32::try_from(value.as_u64()?).ok().map(TokenId);
    match value {
        Value::Array(list) => list.iter().map(id).collect(),
        single => Some(vec![id(single)?]),
    }
}

fn nonsense(file: &str, name: &str, value: &Value, wanted: &str) -> Finding {
    Finding::error(file, format!("{name} is {}, wanted {wanted}", shown(value)))
        .hint("mend the file")
}

/// A value for a message, cut short.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(60).collect();
    if short.len() < text.len() { short + "..." } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(file: Value, config: Value) -> Result<GenerationDefaults, Error> {
        let object = |value: Value| value.as_object().unwrap().clone();
        GenerationDefaults::from_objects(&object(file), &object(config))
    }

    #[test]
    fn a_usual_file() {
        let file = json!({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
            "eos_token_id": [5, 3], "repetition_penalty": 1.05, "max_new_tokens": 100, "typical_p": 1.0,
            "suppress_tokens": [1], "bad_words_ids": [[7], [8, 9]], "transformers_version": "4"});
        let defaults = read(file, json!({"eos_token_id": 1})).unwrap();
        assert_eq!(defaults.temperature, Some(0.6));
        assert_eq!((defaults.top_k, defaults.top_p), (Some(20), Some(0.95)));
        assert_eq!(defaults.eos_token_ids, [TokenId(5), TokenId(3)]);
        assert_eq!(defaults.suppressed_token_ids, [TokenId(1), TokenId(7)]);
        assert_eq!(defaults.findings.len(), 1);
        assert!(defaults.findings[0].message.contains("bad_words_ids"));
    }

    #[test]
    fn tokens_beyond_the_vocabulary_are_passed_over_and_told() {
        let file = json!({"eos_token_id": [5, 600, 700], "suppress_tokens": [1]});
        let defaults = read(file, json!({})).unwrap().within(512);
        assert_eq!(defaults.eos_token_ids, [TokenId(5)]);
        assert_eq!(defaults.suppressed_token_ids, [TokenId(1)]);
        let told: Vec<String> = defaults.findings.iter().map(Finding::to_string).collect();
        assert_eq!(
            told,
            [
                "generation_config.json: eos_token_id: token 600 and others is beyond the vocabulary of 512, passed over"
            ]
        );
    }

    #[test]
    fn without_sampling_it_is_greedy() {
        let defaults = read(json!({"do_sample": false, "temperature": 0.7}), json!({})).unwrap();
        assert_eq!(defaults.temperature, Some(0.0));
    }

    #[test]
    fn the_configuration_says_where_to_stop() {
        let eos = |config| read(json!({}), config).unwrap().eos_token_ids;
        assert_eq!(eos(json!({"eos_token_id": 2})), [TokenId(2)]);
        assert_eq!(
            eos(json!({"text_config": {"eos_token_id": [1, 106]}})),
            [TokenId(1), TokenId(106)]
        );
        assert!(eos(json!({"eos_token_id": null})).is_empty());
    }

    #[test]
    fn all_nonsense_is_reported_at_once() {
        let file = json!({"temperature": -1, "top_p": 1.5, "top_k": -3, "min_p": "x", "repetition_penalty": 0,
            "eos_token_id": [5_000_000_000u64], "max_new_tokens": 1e9, "num_beams": 4});
        let Err(Error::Findings(findings)) = read(file, json!({})) else { panic!("accepted") };
        for name in [
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "repetition_penalty",
            "eos_token_id",
            "max_new_tokens",
            "num_beams",
        ] {
            assert!(findings.iter().any(|finding| finding.message.contains(name)), "{name}");
        }
    }

    #[test]
    fn neutral_values_of_unsupported_keys_are_silent() {
        let file = json!({"num_beams": 1, "typical_p": 1.0, "length_penalty": 1, "sequence_bias": null,
            "token_healing": false, "begin_suppress_tokens": []});
        assert!(read(file, json!({})).unwrap().findings.is_empty());
    }

    #[test]
    fn a_directory_without_files_has_no_defaults() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            GenerationDefaults::from_dir(dir.path()).unwrap(),
            GenerationDefaults::default()
        );
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(GenerationDefaults::from_dir(dir.path()).is_err());
    }
}
