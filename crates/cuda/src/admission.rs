//! Which decoders the kernels can run: everything that they lack for one, found before a byte is read.

use models::{
    contract::DecoderExecutionContract,
    format::dense,
    semantic::{AttentionSpec, DecoderSemantic, FeedForward, LayerSpec, Mixer, RoutedSpec},
    weights::{TensorStorage, WeightBinding},
};
use runtime::backend::MissingCapability;

use crate::{
    layout::ALIGNMENT,
    ops::{
        routing::{MOST_EXPERTS, MOST_GROUPS, MOST_VISITS},
        rows::LONGEST_ROW,
        sample::MOST_TOKENS,
    },
    weights::GATE_UP_GROUP,
};

/// Widest head that the attention kernels hold.
pub const MAX_HEAD_DIM: usize = 256;
/// Elements that a kernel reads at once: 16 bytes of bf16.
const VECTOR: usize = 8;

/// Everything the backend lacks; empty if it can run the decoder.
pub fn missing_capabilities(contract: &DecoderExecutionContract) -> Vec<MissingCapability> {
    let semantic = &contract.semantic;
    let layers = semantic.layers.iter().enumerate().flat_map(|(index, layer)| {
        missing_attention(index, layer).into_iter().chain(missing_feed_forward(
            index,
            layer,
            semantic.hidden_size,
        ))
    });
    let mut missing: Vec<MissingCapability> = Vec::new();
    for lack in contract
        .bindings
        .iter()
        .filter_map(missing_format)
        .chain(missing_width(semantic))
        .chain(missing_vocabulary(semantic))
        .chain(layers)
    {
        // Layers are mostly alike: what all of them lack is told of the first.
        let is_known = |known: &MissingCapability| {
            (&known.storage, &known.geometry, &known.requirement)
                == (&lack.storage, &lack.geometry, &lack.requirement)
        };
        if !missing.iter().any(is_known) {
            missing.push(lack);
        }
    }
    missing
}

fn missing_format(binding: &WeightBinding) -> Option<MissingCapability> {
    let TensorStorage::Dense { dtype, .. } = &binding.storage;
    (!dense::is_dense(*dtype)).then(|| MissingCapability {
        operation: format!("reading of {:?}", binding.role),
        storage: binding.storage.name(),
        geometry: format!("{:?}", binding.shape),
        requirement: "a weight stored as f32, f16 or bf16".to_owned(),
    })
}

fn missing_width(semantic: &DecoderSemantic) -> Option<MissingCapability> {
    let hidden = semantic.hidden_size;
    let fits = (1..=LONGEST_ROW).contains(&hidden) && hidden.is_multiple_of(VECTOR);
    (!fits).then(|| MissingCapability {
        operation: "projection".to_owned(),
        storage: "bf16".to_owned(),
        geometry: format!("hidden {hidden}"),
        requirement: format!("a width that is a multiple of {VECTOR}, up to {LONGEST_ROW}"),
    })
}

fn missing_vocabulary(semantic: &DecoderSemantic) -> Option<MissingCapability> {
    let vocab = semantic.vocab_size;
    (vocab > MOST_TOKENS).then(|| MissingCapability {
        operation: "sampling".to_owned(),
        storage: "f32".to_owned(),
        geometry: format!("vocabulary {vocab}"),
        requirement: format!("at most {MOST_TOKENS} tokens"),
    })
}

fn missing_attention(index: usize, layer: &LayerSpec) -> Vec<MissingCapability> {
    let Mixer::Attention(attention) = &layer.mixer;
    let AttentionSpec { heads, kv_heads, head_dim, .. } = *attention;
    let rotary_dim = attention.rope.as_ref().map_or(0, |rope| rope.rotary_dim);
    let mut requirements = Vec::new();
    if head_dim == 0 || head_dim > MAX_HEAD_DIM || !head_dim.is_multiple_of(VECTOR) {
        requirements
            .push(format!("a head width that is a multiple of {VECTOR}, up to {MAX_HEAD_DIM}"));
    }
    if kv_heads == 0 || heads == 0 || heads % kv_heads != 0 {
        requirements.push("query heads in whole groups for each key head".to_owned());
    }
    if rotary_dim > head_dim || !rotary_dim.is_multiple_of(2) {
        requirements.push("an even rotary width within the head".to_owned());
    }
    let missing = |requirement| MissingCapability {
        operation: format!("attention of layer {index}"),
        storage: "bf16".to_owned(),
        geometry: format!(
            "heads {heads}, kv heads {kv_heads}, head width {head_dim}, rotary width {rotary_dim}"
        ),
        requirement,
    };
    requirements.into_iter().map(missing).collect()
}

fn missing_feed_forward(index: usize, layer: &LayerSpec, hidden: usize) -> Vec<MissingCapability> {
    let routed = match &layer.feed_forward {
        FeedForward::Dense(mlp) => {
            let width = mlp.intermediate_size;
            return missing_mlp(format!("feed-forward of layer {index}"), width);
        }
        FeedForward::Routed(routed) => routed,
    };
    let RoutedSpec { experts, per_token, expert, router, shared } = *routed;
    let mut requirements = Vec::new();
    if experts > MOST_EXPERTS || per_token > MOST_VISITS {
        let most = format!("up to {MOST_EXPERTS} experts, of which a token visits {MOST_VISITS}");
        requirements.push(most);
    }
    if router.groups.is_some_and(|groups| groups.count > MOST_GROUPS) {
        requirements.push(format!("up to {MOST_GROUPS} groups of experts"));
    }
    // Experts lie one behind the other, where each begins at a multiple of what the arena is aligned to.
    if !(hidden * expert.intermediate_size * 2).is_multiple_of(ALIGNMENT as usize) {
        requirements.push(format!("matrices of a multiple of {} elements", ALIGNMENT / 2));
    }
    if expert.bias || shared.is_some_and(|shared| shared.mlp.bias) {
        requirements.push("experts without biases".to_owned());
    }
    if shared.is_some_and(|shared| shared.gated) {
        requirements.push("a shared expert that every token takes whole".to_owned());
    }
    let operation = format!("routed feed-forward of layer {index}");
    let missing = |requirement| MissingCapability {
        operation: operation.clone(),
        storage: "bf16".to_owned(),
        geometry: format!("{per_token} of {experts} experts"),
        requirement,
    };
    let widths = shared.map(|shared| shared.mlp.intermediate_size).into_iter();
    let widths = widths.chain([expert.intermediate_size]);
    let widths = widths.flat_map(|width| missing_mlp(operation.clone(), width));
    requirements.into_iter().map(missing).chain(widths).collect()
}

/// What is lacking for a gated feed-forward that is so wide.
fn missing_mlp(operation: String, width: usize) -> Vec<MissingCapability> {
    let fits = width > 0 && width.is_multiple_of(GATE_UP_GROUP);
    let missing = (!fits).then(|| MissingCapability {
        operation,
        storage: "bf16".to_owned(),
        geometry: format!("intermediate {width}"),
        requirement: format!("a width that is a multiple of {GATE_UP_GROUP}"),
    });
    missing.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use foundation::model::ModelManifest;
    use models::Checkpoint;
    use testkit::golden::fixture_directory;

    use super::*;

    fn contract(fixture: &str) -> DecoderExecutionContract {
        let manifest = ModelManifest::new(fixture, fixture_directory(fixture));
        Checkpoint::open(&manifest).unwrap().contract.unwrap()
    }

    #[test]
    fn every_fixture_is_admitted() {
        let fixtures = fixture_directory("llama").parent().unwrap().to_owned();
        let mut seen = 0;
        for entry in std::fs::read_dir(fixtures).unwrap() {
            let path = entry.unwrap().path();
            if path.join("config.json").is_file() {
                let name = path.file_name().unwrap().to_str().unwrap();
                assert_eq!(missing_capabilities(&contract(name)), [], "{name}");
                seen += 1;
            }
        }
        assert!(seen >= 10);
    }

    #[test]
    fn all_that_is_lacking_is_told_once() {
        let mut contract = contract("llama");
        contract.semantic.hidden_size = 130;
        contract.semantic.vocab_size = 5 << 20;
        for layer in &mut contract.semantic.layers {
            let Mixer::Attention(attention) = &mut layer.mixer;
            attention.head_dim = 264;
            attention.rope = None;
            let FeedForward::Dense(mlp) = &mut layer.feed_forward else { panic!("not dense") };
            mlp.intermediate_size = 100;
        }
        let missing = missing_capabilities(&contract);
        let lines: Vec<String> = missing.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "no projection for bf16 (hidden 130): a width that is a multiple of 8, up to 16384",
                "no sampling for f32 (vocabulary 5242880): at most 4194304 tokens",
                "no attention of layer 0 for bf16 (heads 4, kv heads 2, head width 264, rotary width 0): \
                 a head width that is a multiple of 8, up to 256",
                "no feed-forward of layer 0 for bf16 (intermediate 100): a width that is a multiple of 8",
            ]
        );
    }

    #[test]
    fn what_one_launch_cannot_hold_is_lacking_before_a_weight_is_read() {
        let mut contract = contract("llama");
        contract.semantic.hidden_size = LONGEST_ROW + 8;
        contract.semantic.vocab_size = MOST_TOKENS + 1;
        assert_eq!(missing_capabilities(&contract).len(), 2);
        contract.semantic.hidden_size = LONGEST_ROW;
        contract.semantic.vocab_size = MOST_TOKENS;
        assert_eq!(missing_capabilities(&contract), []);
    }
}
