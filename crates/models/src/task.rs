//! What a checkpoint is for.

use std::collections::BTreeSet;

use crate::{
    catalog::{TensorCatalog, TensorInfo},
    config::Config,
    error::{Error, Finding, Findings},
    family::{Family, TensorNames},
    layout::ModelLayout,
    semantic::DecoderSemantic,
    weights::PlannedWeight,
};

/// What a checkpoint is for, and the decoder it does it with.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskExecutionPlan {
    /// Tokens in, next tokens out.
    Generation {
        /// The decoder.
        decoder: DecoderPlan,
    },
    /// Text in, a vector out. Recognised; not executed yet.
    Embedding {
        /// What the configuration calls it.
        architecture: String,
    },
    /// A pair of texts in, a score out. Recognised; not executed yet.
    SequenceScoring {
        /// What the configuration calls it.
        architecture: String,
    },
}

/// A decoder as its family reads it from the configuration: not yet checked against the tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderPlan {
    /// Name of the family, for people.
    pub family: &'static str,
    /// What the layers mean.
    pub semantic: DecoderSemantic,
    /// Which tensors hold the weights.
    pub weights: Vec<PlannedWeight>,
    /// Name of the head's tensor, also where the head is tied and needs none.
    pub head: &'static str,
    /// Tensors that belong to other parts of the checkpoint.
    pub other_tensors: Vec<OtherTensors>,
}

/// Tensors of a checkpoint that are not read, on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherTensors {
    /// How their names begin.
    pub begin: String,
    /// Why they are not read, for people.
    pub why: &'static str,
}

/// Endings of architecture names that mean a score, and those that mean vectors.
const SCORING: &[&str] = &["ForSequenceClassification", "ForTokenClassification"];
const EMBEDDING: &[&str] = &["Model", "ForMaskedLM"];

impl TaskExecutionPlan {
    /// The task of the checkpoint at `layout` with configuration `config`. Keys in `ignored_keys` may stay unknown.
    ///
    /// `catalog` is `None` for made-up weights. What is wrong with the configuration joins `findings`.
    pub fn discover(
        layout: &ModelLayout,
        config: &Config,
        catalog: Option<&TensorCatalog>,
        ignored_keys: &[String],
        findings: &mut Findings,
    ) -> Option<Self> {
        let architecture = config.architecture().unwrap_or_default().to_owned();
        let ends_with = |endings: &[&str]| endings.iter().any(|end| architecture.ends_with(end));
        if ends_with(SCORING) {
            return Some(TaskExecutionPlan::SequenceScoring { architecture });
        }
        // A decoder that was trained to embed says so in a file of its own, not in its architecture.
        if ends_with(EMBEDDING) || layout.sentence_modules.is_some() {
            return Some(TaskExecutionPlan::Embedding { architecture });
        }
        let family = findings.absorb(Family::of(config))?;
        findings.extend(config.quantization_finding());
        let semantic = family.semantic(config, ignored_keys, findings)?;
        Some(TaskExecutionPlan::Generation { decoder: DecoderPlan::new(family, semantic, catalog) })
    }

    /// The decoder, for the tasks that have one.
    pub fn decoder(&self) -> Option<&DecoderPlan> {
        match self {
            TaskExecutionPlan::Generation { decoder } => Some(decoder),
            TaskExecutionPlan::Embedding { .. } | TaskExecutionPlan::SequenceScoring { .. } => None,
        }
    }

    /// Fails for the tasks that nothing executes yet.
    pub fn require_execution(&self) -> Result<(), Error> {
        let (task, architecture) = match self {
            TaskExecutionPlan::Generation { .. } => return Ok(()),
            TaskExecutionPlan::Embedding { architecture } => ("embedding", architecture),
            TaskExecutionPlan::SequenceScoring { architecture } => {
                ("sequence scoring", architecture)
            }
        };
        Err(Finding::error("architectures", format!("is {architecture}, a model for {task}"))
            .hint("only text generation is supported so far")
            .into())
    }
}

impl DecoderPlan {
    /// The plan of `family` for `semantic`, under the names that `catalog` uses.
    pub fn new(
        family: &'static Family,
        semantic: DecoderSemantic,
        catalog: Option<&TensorCatalog>,
    ) -> Self {
        let has_embedding = |names: &&TensorNames| {
            let embedding = format!("{}embed_tokens.weight", names.body);
            let may_have = |catalog: &TensorCatalog| {
                catalog.get(&embedding).is_some() || catalog.may_have_lost(&embedding)
            };
            catalog.is_some_and(may_have)
        };
        let names = family.names.iter().find(has_embedding).unwrap_or(&family.names[0]);
        DecoderPlan {
            family: family.name,
            weights: family.plan(&semantic, names),
            other_tensors: family.other_tensors(&semantic, names),
            semantic,
            head: names.head,
        }
    }

    /// The tensors of `catalog` that no weight of the plan is read from, in the order of their names.
    pub fn unread<'c>(&self, catalog: &'c TensorCatalog) -> Vec<&'c TensorInfo> {
        let read: BTreeSet<&str> =
            self.weights.iter().map(|weight| weight.source.tensor.as_str()).collect();
        catalog.iter().filter(|tensor| !read.contains(tensor.name.as_str())).collect()
    }
}
