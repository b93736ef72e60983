//! Flags on how the next token is chosen, for the command line and for `/set`.

use clap::{Args, Parser};
use tokenmill::{GenerateOptions, TokenId};

/// How the next token is chosen. What is absent comes from the checkpoint's `generation_config.json`, then from the
/// built-in defaults. The library checks the values.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingFlags {
    /// Randomness, 0 or more; 0 always takes the likeliest token
    #[arg(long, value_name = "X")]
    pub temperature: Option<f32>,
    /// Draw from the smallest set of tokens with this probability
    #[arg(long, value_name = "P")]
    pub top_p: Option<f32>,
    /// Draw from this many likeliest tokens; 0: all
    #[arg(long, value_name = "K")]
    pub top_k: Option<u32>,
    /// Draw from tokens at least P times as likely as the likeliest
    #[arg(long, value_name = "P")]
    pub min_p: Option<f32>,
    /// Make tokens seen before less likely; 1: off
    #[arg(long, value_name = "X")]
    pub repetition_penalty: Option<f32>,
    /// Subtract X from a token's logit for each time it was generated
    #[arg(long, value_name = "X")]
    pub frequency_penalty: Option<f32>,
    /// Subtract X from the logit of every token that was generated
    #[arg(long, value_name = "X")]
    pub presence_penalty: Option<f32>,
    /// Same seed, same prompt: same answer
    #[arg(long, value_name = "SEED", value_parser = seed)]
    pub seed: Option<u64>,
    /// Most tokens of an answer
    #[arg(long, short = 'n', value_name = "TOKENS", value_parser = at_least_one)]
    pub max_tokens: Option<u32>,
    /// Tokens before which the answer does not end
    #[arg(long, value_name = "TOKENS")]
    pub min_tokens: Option<u32>,
    /// End the answer before this text (may be repeated)
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// End the answer at this token (may be repeated)
    #[arg(long, value_name = "ID")]
    pub stop_token_id: Vec<u32>,
    /// Go on past the end-of-text token
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub ignore_eos: Option<bool>,
}

/// `/set` reads its key and value as if they were a flag.
#[derive(Debug, Default, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Setter {
    #[command(flatten)]
    flags: SamplingFlags,
}

impl SamplingFlags {
    /// As the library takes them.
    pub fn options(&self) -> GenerateOptions {
        GenerateOptions {
            max_tokens: self.max_tokens,
            min_tokens: self.min_tokens,
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            seed: self.seed,
            stop: self.stop.clone(),
            stop_token_ids: self.stop_token_id.iter().copied().map(TokenId).collect(),
            ignore_eos: self.ignore_eos.unwrap_or(false),
            ..GenerateOptions::default()
        }
    }

    /// These flags with the `/set` entries laid over them.
    pub fn with(&self, entries: &[(String, String)]) -> Result<SamplingFlags, String> {
        let words =
            entries.iter().map(|(key, value)| format!("--{}={value}", key.replace('_', "-")));
        let mut setter = Setter { flags: self.clone() };
        setter.try_update_from(words).map_err(|error| first_line(&error))?;
        Ok(setter.flags)
    }

    /// Takes a flag back, so that the default holds; `false`: there is none of that name.
    pub fn clear(&mut self, key: &str) -> bool {
        match key {
            "temperature" => self.temperature = None,
            "top-p" => self.top_p = None,
            "top-k" => self.top_k = None,
            "min-p" => self.min_p = None,
            "repetition-penalty" => self.repetition_penalty = None,
            "frequency-penalty" => self.frequency_penalty = None,
            "presence-penalty" => self.presence_penalty = None,
            "seed" => self.seed = None,
            "max-tokens" => self.max_tokens = None,
            "min-tokens" => self.min_tokens = None,
            "ignore-eos" => self.ignore_eos = None,
            "stop" => self.stop.clear(),
            "stop-token-id" => self.stop_token_id.clear(),
            _ => return false,
        }
        true
    }

    /// Every setting that is not absent, as `/set` would write it.
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let optional = [
            ("temperature", self.temperature.map(|x| x.to_string())),
            ("top-p", self.top_p.map(|x| x.to_string())),
            ("top-k", self.top_k.map(|x| x.to_string())),
            ("min-p", self.min_p.map(|x| x.to_string())),
            ("repetition-penalty", self.repetition_penalty.map(|x| x.to_string())),
            ("frequency-penalty", self.frequency_penalty.map(|x| x.to_string())),
            ("presence-penalty", self.presence_penalty.map(|x| x.to_string())),
            ("seed", self.seed.map(|x| x.to_string())),
            ("max-tokens", self.max_tokens.map(|x| x.to_string())),
            ("min-tokens", self.min_tokens.map(|x| x.to_string())),
            ("ignore-eos", self.ignore_eos.map(|x| x.to_string())),
        ];
        let stops = self.stop.iter().map(|text| ("stop", format!("{text:?}")));
        let ids = self.stop_token_id.iter().map(|id| ("stop-token-id", id.to_string()));
        let optional = optional.into_iter().filter_map(|(key, value)| Some((key, value?)));
        optional.chain(stops).chain(ids).collect()
    }
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("wanted a whole number from 0 to {}", u64::MAX))
}

fn at_least_one(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "wanted a whole number of at least 1".to_owned())
}

/// The first line of a command-line error, without its label.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").replace("argument '--", "setting '")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn an_entry_is_laid_over_the_flags() {
        let flags = SamplingFlags { temperature: Some(0.5), seed: Some(3), ..Default::default() };
        let over = flags.with(&[entry("temperature", "0.9"), entry("top_k", "7")]).unwrap();
        assert_eq!((over.temperature, over.top_k, over.seed), (Some(0.9), Some(7), Some(3)));
        assert_eq!(flags.with(&[]).unwrap().temperature, Some(0.5));
        let stops = flags.with(&[entry("stop", "a b"), entry("stop", "--c")]).unwrap();
        assert_eq!(stops.stop, ["a b", "--c"]);
        assert_eq!(flags.with(&[entry("ignore-eos", "true")]).unwrap().ignore_eos, Some(true));
    }

    #[test]
    fn a_wrong_entry_is_told_in_one_line() {
        let flags = SamplingFlags::default();
        let error = flags.with(&[entry("temprature", "1")]).unwrap_err();
        assert!(error.contains("temprature") && !error.contains('\n'), "{error}");
        let error = flags.with(&[entry("top-k", "many")]).unwrap_err();
        assert!(error.contains("many") && error.contains("top-k"), "{error}");
    }

    #[test]
    fn every_setting_that_is_shown_can_be_taken_back() {
        let mut flags = SamplingFlags::default();
        for (key, value) in [
            ("temperature", "1"),
            ("top-p", "1"),
            ("top-k", "1"),
            ("min-p", "1"),
            ("repetition-penalty", "1"),
            ("frequency-penalty", "1"),
            ("presence-penalty", "1"),
            ("seed", "1"),
            ("max-tokens", "1"),
            ("min-tokens", "1"),
            ("ignore-eos", "true"),
            ("stop", "x"),
            ("stop-token-id", "1"),
        ] {
            flags = flags.with(&[entry(key, value)]).unwrap();
            assert_eq!(flags.shown().len(), 1, "{key}");
            assert!(flags.clear(key));
            assert_eq!(flags.shown(), [], "{key}");
        }
        assert!(!flags.clear("temprature"));
    }

    #[test]
    fn what_is_set_is_shown() {
        let flags =
            SamplingFlags { top_p: Some(0.9), stop: vec!["\n".into()], ..Default::default() };
        assert_eq!(flags.shown(), [("top-p", "0.9".to_owned()), ("stop", "\"\\n\"".to_owned())]);
    }
}
