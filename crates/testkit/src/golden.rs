//! Reads the goldens beside the fixtures: token ids and float32 logits as the reference computed them.
//!
//! Panics on anything unexpected: a broken golden is a broken test.

use std::{collections::BTreeMap, fs, path::Path, path::PathBuf};

use foundation::TokenId;
use serde_json::Value;

/// What the reference gave for one fixture.
#[derive(Clone, Debug)]
pub struct Golden {
    /// Name of the fixture's directory.
    pub name: String,
    /// The prompts with their answers.
    pub prompts: Vec<GoldenPrompt>,
}

/// One prompt and what follows from it.
#[derive(Clone, Debug)]
pub struct GoldenPrompt {
    /// The prompt's tokens, `T` of them.
    pub input_ids: Vec<TokenId>,
    /// Raw logits of every prompt position, `[T, vocab]`, row-major.
    pub logits: Vec<f32>,
    /// Length of one row of `logits`.
    pub vocab_size: usize,
    /// The greedy continuation, end-of-sequence ignored.
    pub greedy_ids: Vec<TokenId>,
    /// Index of the highest logit after each prompt position.
    pub prompt_argmax: Vec<TokenId>,
    /// For each token of the continuation, how far its logit is above the next best.
    pub greedy_gap: Vec<f32>,
    /// What the reference's own bfloat16 does to this prompt.
    pub bf16: Bf16Noise,
}

/// How far the reference in bfloat16 is from itself in float32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bf16Noise {
    /// Largest error of a logit.
    pub max_abs: f32,
    /// Mean error of a logit.
    pub mean_abs: f32,
    /// Largest error of the difference between the two best logits.
    pub pair: f32,
}

/// How far logits are from their golden.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogitsDistance {
    /// Largest `|value - golden| / max(|golden|, 1)`; infinite if any value is not a number.
    pub relative: f32,
    /// Where it was found: index into the row-major logits.
    pub at: usize,
}

impl GoldenPrompt {
    /// Logits after prompt position `position`.
    pub fn row(&self, position: usize) -> &[f32] {
        &self.logits[position * self.vocab_size..(position + 1) * self.vocab_size]
    }
}

impl Golden {
    /// Reads the golden of `fixtures/<name>` in this repository.
    pub fn read(name: &str) -> Golden {
        let directory = fixture_directory(name);
        let text = fs::read_to_string(directory.join("golden.json")).expect("golden.json reads");
        let json: Value = serde_json::from_str(&text).expect("golden.json is JSON");
        let tensors = read_safetensors(&directory.join("golden.safetensors"));
        let prompts = json["prompts"].as_array().expect("prompts is a list");
        let read_prompt = |(index, prompt): (usize, &Value)| {
            let (shape, logits) = float_tensor(&tensors, &format!("p{index}.logits"));
            GoldenPrompt {
                input_ids: token_list(&prompt["input_ids"]),
                logits,
                vocab_size: shape[1],
                greedy_ids: token_list(&prompt["greedy_ids"]),
                prompt_argmax: token_list(&prompt["prompt_argmax"]),
                greedy_gap: number_list(&prompt["greedy_gap"]),
                bf16: Bf16Noise {
                    max_abs: number(&prompt["bf16_max_abs"]),
                    mean_abs: number(&prompt["bf16_mean_abs"]),
                    pair: number(&prompt["bf16_pair_noise"]),
                },
            }
        };
        Golden {
            name: name.to_owned(),
            prompts: prompts.iter().enumerate().map(read_prompt).collect(),
        }
    }
}

/// A test for each fixture that has a golden, which calls the given function with its name; and one that none is left out.
#[macro_export]
macro_rules! golden_tests {
    ($check:path) => {
        $crate::golden_tests! { $check:
            gemma2 "gemma2",
            gemma3 "gemma3",
            gemma3_hd256 "gemma3-hd256",
            glm4_moe "glm4-moe",
            granite "granite",
            llama "llama",
            llama_tied "llama-tied",
            mistral "mistral",
            mixtral "mixtral",
            olmo2 "olmo2",
            phi3_longrope "phi3-longrope",
            phi3_longrope_long "phi3-longrope-long",
            qwen2 "qwen2",
            qwen3 "qwen3",
            qwen3_moe "qwen3-moe",
            qwen3_tied "qwen3-tied",
        }
    };
    ($check:path: $($test:ident $fixture:literal,)*) => {
        $(#[test] fn $test() { $check($fixture); })*

        #[test]
        fn every_fixture_is_listed() {
            assert_eq!($crate::golden::fixture_names(), [$($fixture),*]);
        }
    };
}

/// `fixtures/<name>` in this repository: where it was built, or else where the test is run.
pub fn fixture_directory(name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let fixtures = if built.is_dir() { built } else { PathBuf::from("fixtures") };
    fixtures.join(name)
}

/// Names of the fixtures that carry a golden, sorted.
pub fn fixture_names() -> Vec<String> {
    let entries = fs::read_dir(fixture_directory("")).expect("fixtures lists");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("fixtures lists").path())
        .filter(|path| path.join("golden.json").is_file())
        .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// The largest relative distance between logits and their golden.
pub fn logits_distance(values: &[f32], golden: &[f32]) -> LogitsDistance {
    assert_eq!(values.len(), golden.len(), "as many logits as the golden has");
    let mut worst = LogitsDistance { relative: 0.0, at: 0 };
    for (at, (value, golden)) in values.iter().zip(golden).enumerate() {
        let relative = (value - golden).abs() / golden.abs().max(1.0);
        let relative = if relative.is_nan() { f32::INFINITY } else { relative };
        if relative > worst.relative {
            worst = LogitsDistance { relative, at };
        }
    }
    worst
}

/// Index of the highest value; the lowest index among equals.
pub fn argmax(logits: &[f32]) -> TokenId {
    let mut best = 0;
    for (index, value) in logits.iter().enumerate() {
        if *value > logits[best] {
            best = index;
        }
    }
    TokenId(best as u32)
}

fn number_list(value: &Value) -> Vec<f32> {
    value.as_array().expect("a list of numbers").iter().map(number).collect()
}

fn number(value: &Value) -> f32 {
    value.as_f64().expect("a number") as f32
}

fn token_list(value: &Value) -> Vec<TokenId> {
    let list = value.as_array().expect("a list of token ids");
    let token = |id: &Value| TokenId(id.as_u64().expect("a token id").try_into().expect("u32"));
    list.iter().map(token).collect()
}

/// One tensor of a golden file.
struct RawTensor {
    dtype: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

fn read_safetensors(path: &Path) -> BTreeMap<String, RawTensor> {
    let file = fs::read(path).expect("golden.safetensors reads");
    let (length, rest) = file.split_first_chunk::<8>().expect("a header length");
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header: BTreeMap<String, Value> = serde_json::from_slice(header).expect("a JSON header");
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    header
        .into_iter()
        .filter(|(name, _)| name != "__metadata__")
        .map(|(name, entry)| {
            let (begin, end) =
                (number(&entry["data_offsets"][0]), number(&entry["data_offsets"][1]));
            let tensor = RawTensor {
                dtype: entry["dtype"].as_str().expect("a dtype").to_owned(),
                shape: entry["shape"].as_array().expect("a shape").iter().map(number).collect(),
                bytes: data[begin..end].to_vec(),
            };
            (name, tensor)
        })
        .collect()
}

fn float_tensor(tensors: &BTreeMap<String, RawTensor>, name: &str) -> (Vec<usize>, Vec<f32>) {
    let tensor = tensors.get(name).unwrap_or_else(|| panic!("golden lacks {name}"));
    assert_eq!(tensor.dtype, "F32", "{name}");
    let (words, _) = tensor.bytes.as_chunks::<4>();
    (tensor.shape.clone(), words.iter().map(|word| f32::from_le_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_golden_agrees_with_itself() {
        let names = fixture_names();
        assert!(names.len() >= 10, "fixtures are missing: {names:?}");
        for name in names {
            for prompt in Golden::read(&name).prompts {
                assert_eq!(prompt.logits.len(), prompt.input_ids.len() * prompt.vocab_size);
                for (position, token) in prompt.prompt_argmax.iter().enumerate() {
                    assert_eq!(argmax(prompt.row(position)), *token, "{name} at {position}");
                }
                assert_eq!(prompt.greedy_ids[0], *prompt.prompt_argmax.last().unwrap());
            }
        }
    }

    #[test]
    fn a_wrong_value_has_a_distance() {
        assert_eq!(logits_distance(&[1.0, 10.0], &[1.0, 10.0]).relative, 0.0);
        assert_eq!(
            logits_distance(&[1.0, 11.0], &[1.0, 10.0]),
            LogitsDistance { relative: 0.1, at: 1 }
        );
        assert_eq!(logits_distance(&[f32::NAN], &[0.0]).relative, f32::INFINITY);
    }
}
