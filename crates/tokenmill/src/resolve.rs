//! From what a request says, what the checkpoint says and what is built in, to what holds. Pure.

use foundation::TokenId;
use models::generation::GenerationDefaults;
use runtime::sampling::{SamplingLogits, SamplingParams};

use crate::{
    error::{Error, Result},
    options::GenerateOptions,
    settings::{Origin, Setting},
};

/// Most choices of one request.
pub const MAX_CHOICES: u32 = 128;
/// Most likeliest tokens reported at one position.
pub const MAX_LOGPROBS: u32 = 256;
/// Most stop strings of one request.
pub const MAX_STOP_STRINGS: usize = 64;
/// Longest stop string, in bytes.
pub const MAX_STOP_BYTES: usize = 1024;

/// What holds for one generation, and where each value came from.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedOptions {
    /// How tokens are chosen. The seed is that of the first choice, and 0 where the request gave none.
    pub sampling: SamplingParams,
    /// Most tokens to generate, where the request or the checkpoint says; otherwise what the context holds.
    pub max_tokens: Option<u32>,
    /// Tokens before which nothing ends the text.
    pub min_tokens: u32,
    /// Tokens that end the text because the checkpoint says so; empty under `ignore_eos`.
    pub eos_tokens: Vec<TokenId>,
    /// What is reported beside each token.
    pub logprobs: SamplingLogits,
    /// Independent continuations.
    pub n: u32,
    /// Leave control tokens out of the text.
    pub skip_special_tokens: bool,
    /// Begin a text prompt with the tokenizer's own control tokens.
    pub add_special_tokens: bool,
    /// Every value with its origin.
    pub settings: Vec<Setting>,
}

/// Resolves a request against the checkpoint's defaults: the request beats `generation_config.json`, which beats the
/// built-in values.
///
/// # Errors
/// [`Error::InvalidRequest`] for values that may not be; every finding is in it.
pub fn resolve(
    options: &GenerateOptions,
    defaults: &GenerationDefaults,
    vocab_size: usize,
) -> Result<ResolvedOptions> {
    options.validate(vocab_size)?;
    let mut chosen = Chosen::default();
    let max_tokens = chosen.pick_or_none("max_tokens", options.max_tokens, defaults.max_new_tokens);
    let sampling = sampling_params(options, defaults, &mut chosen);
    Ok(ResolvedOptions {
        sampling,
        max_tokens,
        min_tokens: chosen.pick("min_tokens", options.min_tokens, None, 0),
        eos_tokens: if options.ignore_eos { Vec::new() } else { defaults.eos_token_ids.clone() },
        logprobs: options.logprobs.map_or(SamplingLogits::None, SamplingLogits::Top),
        n: chosen.pick("n", options.n, None, 1),
        skip_special_tokens: options.skip_special_tokens.unwrap_or(true),
        add_special_tokens: options.add_special_tokens.unwrap_or(true),
        settings: chosen.settings,
    })
}

fn sampling_params(
    options: &GenerateOptions,
    defaults: &GenerationDefaults,
    chosen: &mut Chosen,
) -> SamplingParams {
    let penalty = (options.repetition_penalty, defaults.repetition_penalty);
    SamplingParams {
        temperature: chosen.pick("temperature", options.temperature, defaults.temperature, 1.0),
        top_k: chosen.pick("top_k", options.top_k, defaults.top_k, 0),
        top_p: chosen.pick("top_p", options.top_p, defaults.top_p, 1.0),
        min_p: chosen.pick("min_p", options.min_p, defaults.min_p, 0.0),
        repetition_penalty: chosen.pick("repetition_penalty", penalty.0, penalty.1, 1.0),
        frequency_penalty: chosen.pick("frequency_penalty", options.frequency_penalty, None, 0.0),
        presence_penalty: chosen.pick("presence_penalty", options.presence_penalty, None, 0.0),
        logit_bias: options.logit_bias.clone(),
        banned: defaults.suppressed_token_ids.clone(),
        seed: options.seed.unwrap_or(0),
    }
}

/// The choices made so far.
#[derive(Default)]
struct Chosen {
    settings: Vec<Setting>,
}

impl Chosen {
    fn pick<T: Copy + ToString>(
        &mut self,
        name: &'static str,
        request: Option<T>,
        checkpoint: Option<T>,
        built_in: T,
    ) -> T {
        match self.pick_or_none(name, request, checkpoint) {
            Some(value) => value,
            None => {
                self.record(name, built_in.to_string(), Origin::Default, "built in");
                built_in
            }
        }
    }

    fn pick_or_none<T: Copy + ToString>(
        &mut self,
        name: &'static str,
        request: Option<T>,
        checkpoint: Option<T>,
    ) -> Option<T> {
        if let Some(value) = request {
            self.record(name, value.to_string(), Origin::Given, "the request says so");
        } else if let Some(value) = checkpoint {
            self.record(name, value.to_string(), Origin::Checkpoint, "generation_config.json");
        }
        request.or(checkpoint)
    }

    fn record(&mut self, name: &'static str, value: String, origin: Origin, why: &str) {
        self.settings.push(Setting { name, value, origin, why: why.to_owned() });
    }
}

impl GenerateOptions {
    /// Checks every value against its allowed range, for a model of `vocab_size` tokens.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`]: it names every field that is wrong, the value seen and the values allowed.
    pub fn validate(&self, vocab_size: usize) -> Result<()> {
        let mut findings = Findings::default();
        self.check_sampling(&mut findings);
        self.check_counts(&mut findings);
        self.check_stops(&mut findings, vocab_size);
        for (index, &(token, bias)) in self.logit_bias.iter().enumerate() {
            findings.token(|| format!("logit_bias[{index}]"), token, vocab_size);
            findings.require(
                bias.is_finite(),
                || format!("logit_bias[{index}]"),
                || format!("{bias} is not a finite number"),
            );
        }
        Error::findings(findings.0).map_or(Ok(()), Err)
    }

    fn check_sampling(&self, findings: &mut Findings) {
        findings.range("temperature", self.temperature, "0 or more", |t| t >= 0.0);
        findings.range("top_p", self.top_p, "above 0 and at most 1", |p| p > 0.0 && p <= 1.0);
        findings.range("min_p", self.min_p, "from 0 to 1", |p| (0.0..=1.0).contains(&p));
        findings.range("repetition_penalty", self.repetition_penalty, "above 0", |p| p > 0.0);
        let from_minus_2_to_2 = |p: f32| (-2.0..=2.0).contains(&p);
        let penalties = [
            ("frequency_penalty", self.frequency_penalty),
            ("presence_penalty", self.presence_penalty),
        ];
        for (name, penalty) in penalties {
            findings.range(name, penalty, "from -2 to 2", from_minus_2_to_2);
        }
    }

    fn check_counts(&self, findings: &mut Findings) {
        let n = self.n.unwrap_or(1);
        findings.require(
            (1..=MAX_CHOICES).contains(&n),
            || "n".into(),
            || format!("{n} is not from 1 to {MAX_CHOICES}"),
        );
        if let (Some(min), Some(max)) = (self.min_tokens, self.max_tokens) {
            findings.require(
                min <= max,
                || "min_tokens".into(),
                || format!("{min} is more than max_tokens, {max}"),
            );
        }
        let tops = [("logprobs", self.logprobs), ("prompt_logprobs", self.prompt_logprobs)];
        for (name, top) in tops {
            let top = top.unwrap_or(0);
            findings.require(
                top <= MAX_LOGPROBS,
                || name.into(),
                || format!("{top} is more than {MAX_LOGPROBS}"),
            );
        }
    }

    fn check_stops(&self, findings: &mut Findings, vocab_size: usize) {
        let count = self.stop.len();
        findings.require(
            count <= MAX_STOP_STRINGS,
            || "stop".into(),
            || format!("{count} strings are more than {MAX_STOP_STRINGS}"),
        );
        for (index, stop) in self.stop.iter().enumerate() {
            let bytes = stop.len();
            findings.require(
                (1..=MAX_STOP_BYTES).contains(&bytes),
                || format!("stop[{index}]"),
                || format!("{bytes} bytes are not from 1 to {MAX_STOP_BYTES}"),
            );
        }
        for (index, &token) in self.stop_token_ids.iter().enumerate() {
            findings.token(|| format!("stop_token_ids[{index}]"), token, vocab_size);
        }
    }
}

/// Everything wrong with a request: fields, and what is wrong with them.
#[derive(Default)]
struct Findings(Vec<(String, String)>);

impl Findings {
    fn require(
        &mut self,
        holds: bool,
        field: impl FnOnce() -> String,
        problem: impl FnOnce() -> String,
    ) {
        if !holds {
            self.0.push((field(), problem()));
        }
    }

    fn range(
        &mut self,
        field: &str,
        value: Option<f32>,
        allowed: &str,
        holds: impl Fn(f32) -> bool,
    ) {
        let Some(value) = value else { return };
        self.require(
            value.is_finite() && holds(value),
            || field.into(),
            || format!("{value} is not {allowed}"),
        );
    }

    fn token(&mut self, field: impl FnOnce() -> String, token: TokenId, vocab_size: usize) {
        self.require((token.0 as usize) < vocab_size, field, || beyond(token, vocab_size));
    }
}

/// What is wrong with an id that names no token.
pub(crate) fn beyond(token: TokenId, vocab_size: usize) -> String {
    format!("token id {token} is not below {vocab_size}, the size of the vocabulary")
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCAB: usize = 10;

    fn defaults() -> GenerationDefaults {
        GenerationDefaults {
            temperature: Some(0.6),
            top_k: Some(20),
            eos_token_ids: vec![TokenId(3)],
            max_new_tokens: Some(7),
            ..GenerationDefaults::default()
        }
    }

    fn origin(resolved: &ResolvedOptions, name: &str) -> Origin {
        resolved.settings.iter().find(|setting| setting.name == name).unwrap().origin
    }

    #[test]
    fn a_temperature_has_no_upper_bound_but_must_be_finite() {
        for (temperature, fine) in
            [(0.0, true), (2.5, true), (f32::MAX, true), (f32::INFINITY, false), (-0.1, false)]
        {
            let options =
                GenerateOptions { temperature: Some(temperature), ..GenerateOptions::default() };
            assert_eq!(options.validate(10).is_ok(), fine, "{temperature}");
        }
    }

    #[test]
    fn the_request_beats_the_checkpoint_beats_the_built_in() {
        let options = GenerateOptions { temperature: Some(0.0), ..GenerateOptions::default() };
        let resolved = resolve(&options, &defaults(), VOCAB).unwrap();
        assert_eq!((resolved.sampling.temperature, resolved.sampling.top_k), (0.0, 20));
        assert_eq!((resolved.sampling.top_p, resolved.max_tokens), (1.0, Some(7)));
        assert_eq!(origin(&resolved, "temperature"), Origin::Given);
        assert_eq!(origin(&resolved, "top_k"), Origin::Checkpoint);
        assert_eq!(origin(&resolved, "top_p"), Origin::Default);
        assert_eq!(resolved.eos_tokens, [TokenId(3)]);
    }

    #[test]
    fn ignoring_the_end_leaves_no_end_tokens() {
        let options = GenerateOptions { ignore_eos: true, ..GenerateOptions::default() };
        assert_eq!(resolve(&options, &defaults(), VOCAB).unwrap().eos_tokens, []);
    }

    #[test]
    fn every_wrong_value_is_named_with_its_range() {
        let options = GenerateOptions {
            temperature: Some(-1.0),
            top_p: Some(0.0),
            min_p: Some(f32::NAN),
            n: Some(0),
            stop: vec![String::new()],
            stop_token_ids: vec![TokenId(10)],
            logit_bias: vec![(TokenId(1), f32::INFINITY)],
            max_tokens: Some(1),
            min_tokens: Some(2),
            ..GenerateOptions::default()
        };
        let error = options.validate(VOCAB).unwrap_err().to_string();
        for part in [
            "temperature: -1 is not 0 or more",
            "top_p: 0 is not above 0 and at most 1",
            "min_p: NaN is not from 0 to 1",
            "n: 0 is not from 1 to 128",
            "stop[0]: 0 bytes",
            "stop_token_ids[0]: token id 10 is not below 10",
            "logit_bias[0]: inf",
            "min_tokens: 2 is more than max_tokens, 1",
        ] {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
        assert!(GenerateOptions::default().validate(VOCAB).is_ok());
    }
}
