//! The families of decoders: what a configuration means and which tensors hold its weights.
//!
//! A family is one file and one line in [`FAMILIES`]. Below this line nothing knows a family's name.
//!
//! A file states where its family differs from the common decoder (`family/decoder.rs`). A kind of layer that no family
//! had before is first a word of [`crate::semantic`], then a variant of the mixers or feed-forwards there, read in a file
//! beside `family/attention.rs` and `family/feed_forward.rs` and named in `family/plan.rs`; then a family can state it.

mod attention;
mod decoder;
mod feed_forward;
mod gemma2;
mod gemma3;
mod glm4_moe;
mod granite;
mod llama;
mod mistral;
mod mixtral;
mod olmo2;
mod phi3;
mod plan;
mod qwen2;
mod qwen3;
mod qwen3_moe;
mod routed;

use serde_json::Value;

use self::decoder::Decoder;
use crate::{
    config::{Config, Keys},
    error::{Error, Finding, Findings},
    semantic::DecoderSemantic,
    task::OtherTensors,
    weights::PlannedWeight,
};

/// Every family.
pub const FAMILIES: &[Family] = &[
    gemma2::FAMILY,
    gemma3::FAMILY,
    gemma3::MULTIMODAL,
    glm4_moe::FAMILY,
    granite::FAMILY,
    llama::FAMILY,
    mistral::FAMILY,
    mixtral::FAMILY,
    olmo2::FAMILY,
    phi3::FAMILY,
    qwen2::FAMILY,
    qwen3::FAMILY,
    qwen3_moe::FAMILY,
];

/// A family of decoders.
#[derive(Debug)]
pub struct Family {
    /// Short name, for people.
    pub name: &'static str,
    /// Entries of `architectures` that mean this family with a language-model head.
    pub architectures: &'static [&'static str],
    /// The `model_type` that must stand beside them.
    pub model_type: &'static str,
    /// How its configurations are read.
    decoder: Decoder,
    /// How tensors may be named; a checkpoint uses one of these.
    pub names: &'static [TensorNames],
    /// For a wrapper around a text model: where that one is described, and what lies around it.
    pub wrapper: Option<Wrapper>,
}

/// Names of the tensors outside of the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorNames {
    /// In front of `embed_tokens.weight`, `layers.0...`, `norm.weight`.
    pub body: &'static str,
    /// The head.
    pub head: &'static str,
}

/// What a text model is wrapped in.
#[derive(Clone, Copy, Debug)]
pub struct Wrapper {
    /// Key of the text model's configuration.
    pub text_config: &'static str,
    /// Keys of the wrapper that concern other parts.
    pub other_keys: &'static [&'static str],
    /// Beginnings of the names of tensors that belong to other parts.
    pub other_tensors: &'static [&'static str],
}

impl Family {
    /// Llama's decoder under the names that almost every checkpoint uses; who it is for is still to be said.
    const PLAIN: Family = Family {
        name: "",
        architectures: &[],
        model_type: "",
        decoder: Decoder::LLAMA,
        names: &[TensorNames { body: "model.", head: "lm_head.weight" }],
        wrapper: None,
    };

    /// The family of `config`: by its architecture, or by its model type where it names none.
    pub fn of(config: &Config) -> Result<&'static Family, Error> {
        check_names(config)?;
        let model_type = config.model_type();
        let found = match config.architecture() {
            Some(name) => FAMILIES.iter().find(|family| family.architectures.contains(&name)),
            None => FAMILIES.iter().find(|family| Some(family.model_type) == model_type),
        };
        let family = found.ok_or_else(|| unknown(config))?;
        match model_type {
            Some(name) if name != family.model_type => {
                let architecture = config.architecture().unwrap_or_default();
                let message =
                    format!("is {name:?}, but {architecture} goes with {:?}", family.model_type);
                Err(Finding::error("model_type", message).into())
            }
            _ => Ok(family),
        }
    }

    /// The meaning of `config`; every key that is wrong or not understood is a finding. A wrong key leaves no meaning, one
    /// that is merely not understood does: then the tensors can still be held against it.
    pub fn semantic(
        &self,
        config: &Config,
        ignored_keys: &[String],
        findings: &mut Findings,
    ) -> Option<DecoderSemantic> {
        let mut keys = Keys::new(config.root(), ignored_keys);
        let semantic = match self.wrapper {
            None => Some(self.decoder.read(&mut keys)),
            Some(wrapper) => self.read_wrapped(&wrapper, &mut keys),
        };
        let semantic = semantic.filter(|_| !keys.has_errors());
        findings.extend(keys.finish());
        semantic
    }

    /// Which tensors hold the weights of `semantic`, under these names.
    pub fn plan(&self, semantic: &DecoderSemantic, names: &TensorNames) -> Vec<PlannedWeight> {
        plan::plan(semantic, names, &self.decoder.names)
    }

    /// Tensors that belong to other parts: what a text model is wrapped in, layers that guess further tokens.
    pub fn other_tensors(
        &self,
        semantic: &DecoderSemantic,
        names: &TensorNames,
    ) -> Vec<OtherTensors> {
        let around = self.wrapper.map_or(&[][..], |wrapper| wrapper.other_tensors);
        let around = around.iter().map(|begin| OtherTensors {
            begin: (*begin).to_owned(),
            why: "the checkpoint serves text alone",
        });
        let layers = semantic.layers.len();
        let drafts = (layers..layers + semantic.draft_layers).map(|layer| OtherTensors {
            begin: format!("{}layers.{layer}.", names.body),
            why: "layers that guess further tokens are not computed",
        });
        around.chain(drafts).collect()
    }

    fn read_wrapped(&self, wrapper: &Wrapper, keys: &mut Keys<'_>) -> Option<DecoderSemantic> {
        keys.inert(wrapper.other_keys);
        let Some(mut text) = keys.object(wrapper.text_config) else {
            keys.error(wrapper.text_config, "is missing");
            return None;
        };
        let mut semantic = self.decoder.read(&mut text);
        keys.close(text);
        // The wrapper's own word on the head stands above the text model's.
        semantic.head.tied = keys.flag("tie_word_embeddings", semantic.head.tied);
        Some(semantic)
    }
}

/// What names the family has to be what it is read as: a name that is passed over would let another decide.
fn check_names(config: &Config) -> Result<(), Error> {
    let mut findings = Findings::default();
    let mut expect = |key: &str, wanted: &str, fits: fn(&Value) -> bool| {
        let value = config.root().get(key).filter(|value| !value.is_null());
        if let Some(value) = value.filter(|value| !fits(value)) {
            findings.push(Finding::error(key, format!("is {value}, wanted {wanted}")));
        }
    };
    expect("architectures", "a list of names", |value| {
        value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
    });
    expect("model_type", "a name", Value::is_string);
    findings.into_result().map(|_| ())
}

/// The finding that no family is known for `config`.
fn unknown(config: &Config) -> Finding {
    let known: Vec<&str> =
        FAMILIES.iter().flat_map(|family| family.architectures).copied().collect();
    let known = known.join(", ");
    match (config.architecture(), config.model_type()) {
        (Some(name), _) => {
            Finding::error("architectures", format!("is {name}, which is not supported"))
                .hint(format!("supported are {known}"))
        }
        (None, Some(name)) => {
            Finding::error("model_type", format!("is {name:?}, which is not supported"))
                .hint(format!("supported are {known}"))
        }
        (None, None) => Finding::error("config.json", "names neither architectures nor model_type"),
    }
}

#[cfg(test)]
mod tests;
