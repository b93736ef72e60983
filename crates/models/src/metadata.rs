//! The numbers and names by which people know a model.

use foundation::{Bytes, DType};

use crate::{
    catalog::TensorCatalog,
    config::Config,
    contract::DecoderExecutionContract,
    semantic::DecoderSemantic,
    task::{DecoderPlan, TaskExecutionPlan},
};

/// What a model is, in a few lines.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelMetadata {
    /// The first entry of `architectures`; empty if there is none.
    pub architecture: String,
    /// `model_type`; empty if there is none.
    pub model_type: String,
    /// The family that reads it.
    pub family: Option<&'static str>,
    /// What it is for: `generation`, `embedding`, `sequence scoring`.
    pub task: Option<&'static str>,
    /// The element type of most weights.
    pub dtype: Option<DType>,
    /// Elements of all tensors (of the bound weights, where they are made up); `None` where a file could not be read.
    pub parameters: Option<u64>,
    /// Bytes of the same.
    pub weight_bytes: Option<Bytes>,
    /// The longest sequence the checkpoint was made for, in tokens.
    pub max_positions: Option<usize>,
    /// Rows of the embedding.
    pub vocab_size: Option<usize>,
    /// Width of the residual stream.
    pub hidden_size: Option<usize>,
    /// Number of layers.
    pub layers: Option<usize>,
}

impl ModelMetadata {
    /// From whatever is known of a checkpoint.
    pub fn new(
        config: Option<&Config>,
        catalog: Option<&TensorCatalog>,
        task: Option<&TaskExecutionPlan>,
        contract: Option<&DecoderExecutionContract>,
    ) -> Self {
        let name = |name: Option<&str>| name.unwrap_or_default().to_owned();
        let decoder = task.and_then(TaskExecutionPlan::decoder);
        let semantic = decoder.map(|decoder: &DecoderPlan| &decoder.semantic);
        let catalog = catalog.filter(|catalog| !catalog.is_empty());
        let numbers = match (catalog, contract) {
            (Some(catalog), _) => catalog.is_whole().then(|| (catalog.elements(), catalog.bytes())),
            (None, contract) => {
                contract.map(|contract| (contract.parameters(), contract.weight_bytes()))
            }
        };
        // Where the configuration as a whole says nothing, because something of it is wrong, single numbers still do.
        let number = |known: fn(&DecoderSemantic) -> usize, key| {
            semantic.map(known).or_else(|| config?.count(key))
        };
        ModelMetadata {
            architecture: name(config.and_then(Config::architecture)),
            model_type: name(config.and_then(Config::model_type)),
            family: decoder.map(|decoder| decoder.family),
            task: task.map(|task| match task {
                TaskExecutionPlan::Generation { .. } => "generation",
                TaskExecutionPlan::Embedding { .. } => "embedding",
                TaskExecutionPlan::SequenceScoring { .. } => "sequence scoring",
            }),
            dtype: catalog.and_then(most_common_dtype).or_else(|| config?.dtype()),
            parameters: numbers.map(|(parameters, _)| parameters),
            weight_bytes: numbers.map(|(_, bytes)| bytes),
            max_positions: number(|semantic| semantic.max_positions, "max_position_embeddings"),
            vocab_size: number(|semantic| semantic.vocab_size, "vocab_size"),
            hidden_size: number(|semantic| semantic.hidden_size, "hidden_size"),
            layers: number(|semantic| semantic.layers.len(), "num_hidden_layers"),
        }
    }
}

/// The type that most elements have.
fn most_common_dtype(catalog: &TensorCatalog) -> Option<DType> {
    let mut counts = std::collections::BTreeMap::new();
    for tensor in catalog.iter() {
        *counts.entry(tensor.dtype).or_insert(0) +=
            tensor.region.bytes / tensor.dtype.size() as u64;
    }
    counts.into_iter().max_by_key(|(_, elements)| *elements).map(|(dtype, _)| dtype)
}
