//! Decoders of odd shapes, weights made up: the GPU gives what the CPU gives, but for what bf16 does. Rows of prompts, rows that
//! decode, and both in one step.

#![allow(clippy::print_stdout)] // How near is worth a look, with --nocapture.

mod common;

use std::{fs, path::Path, sync::Arc};

use common::{Harness, small_options};
use cuda::{CudaBackend, backend::Modes, driver::Gpu};
use foundation::{
    DType, TokenId,
    model::{ModelManifest, WeightOrigin},
};
use serde_json::{Map, Value, json};
use testkit::{
    equality::{in_chunks, in_company},
    golden::fixture_directory,
};

/// Tokens of the prompt.
const LENGTH: usize = 70;
/// How far a logit may be off, in deviations of all logits of a case. A window that is off by one moves some by more than two.
const ALLOWED: f64 = 0.25;

/// A fixture, and what of its configuration is another.
struct Case {
    fixture: &'static str,
    changes: Value,
}

fn cases() -> Vec<Case> {
    let case = |fixture, changes| Case { fixture, changes };
    let mut cases: Vec<Case> =
        [8, 16, 24, 40, 48, 72, 80, 88, 96, 104, 112, 128, 136, 160, 200, 248, 256]
            .map(|dim| {
                case(
                    "llama",
                    json!({"head_dim": dim, "num_attention_heads": 2, "num_key_value_heads": 1}),
                )
            })
            .into();
    for (heads, kv_heads) in [(1, 1), (5, 5), (10, 5), (17, 1), (40, 5), (71, 1), (71, 71)] {
        let changes =
            json!({"head_dim": 16, "num_attention_heads": heads, "num_key_value_heads": kv_heads});
        cases.push(case("llama", changes));
    }
    for hidden in [8, 24, 72, 200, 1032] {
        cases.push(case("llama", json!({"hidden_size": hidden})));
    }
    for width in [8, 24, 72, 1000] {
        cases.push(case("llama", json!({"intermediate_size": width})));
    }
    for vocab in [2, 7, 9, 65, 4097] {
        let ends = json!({"vocab_size": vocab, "bos_token_id": 0, "eos_token_id": 1});
        cases.push(case("llama", ends.clone()));
        cases.push(case("llama-tied", ends));
    }
    for window in [1, 2, 7, 15, 16, 17, 33] {
        cases.push(case("mistral", json!({"sliding_window": window})));
        cases.push(case("gemma3", json!({"sliding_window": window})));
    }
    cases.extend([
        case(
            "llama",
            json!({"attention_bias": true, "mlp_bias": true, "head_dim": 72, "hidden_size": 72}),
        ),
        case("llama", json!({"num_hidden_layers": 1})),
        case("llama", json!({"rope_scaling": null, "rope_theta": 1e9})),
        case("llama", json!({"rope_scaling": {"rope_type": "linear", "factor": 8.0}})),
        case(
            "qwen3",
            json!({"head_dim": 72, "rope_scaling":
                {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}}),
        ),
        case("qwen3", json!({"head_dim": 200, "num_attention_heads": 6, "num_key_value_heads": 3})),
        case("olmo2", json!({"head_dim": 40, "hidden_size": 72})),
        case("gemma2", json!({"head_dim": 232, "attn_logit_softcapping": 0.1})),
        case("granite", json!({"hidden_size": 72, "head_dim": 72, "attention_multiplier": 0.01})),
        case("phi3-longrope", json!({"original_max_position_embeddings": 64})),
    ]);
    cases
}

impl Case {
    fn name(&self) -> String {
        format!("{} {}", self.fixture, self.changes)
    }

    /// Its made-up checkpoint, which is its configuration in `folder`.
    fn manifest(&self, folder: &Path) -> ModelManifest {
        let source = fixture_directory(self.fixture).join("config.json");
        let text = fs::read_to_string(source).expect("a fixture has a configuration");
        let mut config: Map<String, Value> = serde_json::from_str(&text).expect("it is JSON");
        config.extend(self.changes.as_object().expect("changes are by key").clone());
        let text = Value::Object(config).to_string();
        fs::write(folder.join("config.json"), text).expect("the folder takes files");
        let weights = WeightOrigin::Synthetic { seed: 7, dtype: DType::BF16 };
        ModelManifest { weights, ..ModelManifest::new(self.fixture, folder) }
    }

    /// Logits at every position of the prompt on the CPU.
    fn on_cpu(&self) -> Result<Vec<Vec<f32>>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let runner =
            cpu::backend::load_runner(&self.manifest(folder.path()), &small_options(), &mut |_| {
                true
            });
        let mut harness = Harness::new(Box::new(runner.map_err(|error| error.to_string())?));
        let tokens = prompt(&harness);
        Ok(in_chunks(&mut harness, &tokens, &[LENGTH]))
    }

    /// Logits on the GPU with their positions: by a chunk and token by token, and among others.
    fn on_gpu(&self, gpu: &Arc<Gpu>) -> Result<Vec<(usize, Vec<f32>)>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let backend = CudaBackend::new(Arc::clone(gpu), Modes::default());
        let manifest = self.manifest(folder.path());
        let runner = backend.load_runner(&manifest, &small_options(), &mut |_| true);
        let mut harness = Harness::new(Box::new(runner.map_err(|error| error.to_string())?));
        let tokens = prompt(&harness);
        let mut rows: Vec<_> =
            in_chunks(&mut harness, &tokens, &[50]).into_iter().enumerate().collect();
        rows.extend(in_company(&mut harness, &tokens));
        Ok(rows)
    }
}

fn prompt(harness: &Harness) -> Vec<TokenId> {
    let vocab = harness.spec().vocab_size;
    (0..LENGTH).map(|at| TokenId((at * at * 31 % 4099 % vocab) as u32)).collect()
}

/// How far `seen` is from `wanted` at the most, in standard deviations of all that is wanted.
fn apart(wanted: &[Vec<f32>], seen: &[(usize, Vec<f32>)]) -> f64 {
    let values: Vec<f64> = wanted.iter().flatten().map(|value| f64::from(*value)).collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
    let rows = seen.iter().map(|(position, row)| row.iter().zip(&wanted[*position]));
    let errors = rows.flatten().map(|(seen, wanted)| f64::from((seen - wanted).abs()));
    errors.map(|error| if error.is_nan() { f64::INFINITY } else { error }).fold(0.0, f64::max)
        / deviation
}

#[test]
fn decoders_of_odd_shapes_give_what_the_cpu_gives() {
    let Some(gpu) = cuda::testing::gpu() else { return };
    let mut findings = Vec::new();
    for case in cases() {
        let both = case.on_cpu().and_then(|wanted| Ok((wanted, case.on_gpu(&gpu)?)));
        let told = match both.map(|(wanted, seen)| apart(&wanted, &seen)) {
            Ok(worst) if worst <= ALLOWED => {
                println!("{worst:.3} deviations apart: {}", case.name());
                continue;
            }
            Ok(worst) => format!("{worst:.3} deviations apart"),
            Err(error) => error,
        };
        findings.push(format!("{}: {told}", case.name()));
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn every_case_is_one_that_both_backends_admit() {
    for case in cases() {
        let folder = tempfile::tempdir().expect("a folder");
        let manifest = case.manifest(folder.path());
        let needs = cuda::backend::needs(&manifest, &small_options());
        assert!(needs.is_ok(), "{}: {needs:?}", case.name());
        let logits = case.on_cpu().unwrap_or_else(|error| panic!("{}: {error}", case.name()));
        assert_eq!(logits.len(), LENGTH);
    }
}

#[test]
fn a_window_that_is_off_by_one_is_far_beyond_what_is_allowed() {
    let window = |window: usize| {
        let case = Case { fixture: "mistral", changes: json!({"sliding_window": window}) };
        case.on_cpu().unwrap_or_else(|error| panic!("{window}: {error}"))
    };
    let (wanted, wrong) = (window(16), window(17));
    assert!(apart(&wanted, &wrong.into_iter().enumerate().collect::<Vec<_>>()) > 4.0 * ALLOWED);
}
