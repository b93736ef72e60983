//! The seam between the runtime and whatever computes: a backend admits and loads models, a runner runs steps.

use std::fmt;

use foundation::{Bytes, DType, model::ModelManifest};
use serde::Serialize;

use crate::{
    batch::{Copied, CopyId, CopyWay, HostCopy, StepBatch, StepId, StepOutput},
    progress::ProgressEvent,
};

/// A kind of hardware that can run models.
pub trait Backend: Send + Sync {
    /// Short name: `cpu`, `cuda`.
    fn name(&self) -> &'static str;

    /// What it computes on; `None`: this machine's processor.
    fn device(&self) -> Option<DeviceInfo> {
        None
    }

    /// Decides, without reading weights, whether the backend can run the model and what that takes.
    fn admit(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
    ) -> Result<MemoryPlan, LoadError>;

    /// Loads the model and makes it ready to run. A failed load gives every byte back.
    ///
    /// `progress` returns `false` to cancel; the load then ends with [`LoadError::Cancelled`].
    fn load(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
        progress: &mut dyn FnMut(ProgressEvent) -> bool,
    ) -> Result<Box<dyn StepRunner>, LoadError>;
}

/// A device beside this machine's processor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceInfo {
    /// As its driver calls it: `NVIDIA H200`.
    pub name: String,
    /// The driver, for people: `CUDA 13.0`.
    pub driver: String,
    /// Bytes of its own memory that it can read in a second at the most; `None` where that is not known.
    pub read_bytes_per_s: Option<f64>,
}

/// A loaded decoder that runs steps. Owned by one engine thread.
pub trait StepRunner: Send {
    /// What the runner is; constant over its life.
    fn spec(&self) -> &RunnerSpec;

    /// Queues a step behind those already submitted. Returns before it is computed where the backend can.
    /// At most [`RunnerSpec::max_in_flight`] steps may be waiting.
    fn submit(&mut self, batch: StepBatch) -> Result<StepId, StepError>;

    /// Waits for the oldest submitted step.
    fn wait(&mut self) -> Result<StepOutput, StepError>;

    /// Queues copies of blocks to or from the host, where there is a [`RunnerSpec::host`]. They begin when every step
    /// submitted before has ended, and then run beside later steps, which must leave the blocks that are written alone until
    /// the copies are told of as made. A block that goes out may be overwritten meanwhile: what its slot holds is nothing then.
    /// Batches of one way are made in order; those of the other may overtake them.
    fn copy(&mut self, _way: CopyWay, copies: &[HostCopy]) -> Result<CopyId, StepError> {
        Err(StepError::Invalid(format!(
            "{} copies to or from a host tier, and none is there",
            copies.len()
        )))
    }

    /// A batch of copies that has been made and not been told of yet. Waits for nothing.
    fn copied(&mut self) -> Result<Option<Copied>, StepError> {
        Ok(None)
    }
}

/// What a runner can do.
#[derive(Clone, Debug, PartialEq)]
pub struct RunnerSpec {
    /// Length of a logits row.
    pub vocab_size: usize,
    /// Length of a hidden-state row.
    pub hidden_size: usize,
    /// Longest sequence, prompt and output together, in tokens.
    pub max_sequence_tokens: usize,
    /// Most token rows in one step.
    pub max_step_tokens: usize,
    /// Most sequences in one step; also the number of slots.
    pub max_step_sequences: usize,
    /// Tokens in one block of every KV group.
    pub block_size: usize,
    /// The KV groups, in the order in which block tables are given.
    pub kv_groups: Vec<KvGroupSpec>,
    /// Sequence lengths beyond which all cached positions mean something else, ascending. When a sequence grows past
    /// one, its cache is dropped and computed anew under the next regime.
    pub regime_thresholds: Vec<usize>,
    /// Prefill chunks and decode rows may share a step.
    pub mixes_prefill_and_decode: bool,
    /// Steps that may be submitted and not yet waited for (1: no run-ahead).
    pub max_in_flight: usize,
    /// All that a run leaves behind is KV, so that rows computed behind a wrong guess are forgotten by computing their places
    /// again. Not so where a model keeps a state that every row changes.
    pub rewinds: bool,
    /// Mixed into prefix keys: caches of different precision never meet.
    pub kv_dtype: DType,
    /// Host memory for blocks that leave the device; `None`: they are gone.
    pub host: Option<HostTier>,
}

/// Host memory for KV blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTier {
    /// Slots of each KV group; 0: its blocks do not go there.
    pub slots: Vec<usize>,
    /// What a block of each KV group takes, all layers together.
    pub block_bytes: Vec<u64>,
}

/// One KV group: its layers' caches grow alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvGroupSpec {
    /// `None`: every token is read; `Some(w)`: a token sees itself and the `w - 1` before it.
    pub window: Option<usize>,
    /// Blocks in the group's arena.
    pub blocks: usize,
}

/// How a model is to be loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadOptions {
    /// Longest sequence to serve; `None`: the checkpoint's own limit, or what fits.
    pub max_sequence_tokens: Option<usize>,
    /// Most sequences in one step.
    pub max_step_sequences: usize,
    /// Most token rows in one step.
    pub max_step_tokens: usize,
    /// Memory for KV blocks; `None`: the backend decides from what is left.
    pub kv_memory: Option<Bytes>,
    /// Memory on the host for KV blocks that leave the device; `None`: they are gone.
    pub kv_offload_memory: Option<Bytes>,
    /// Part of the device's memory that the model may take, above 0 up to 1; `None`: the backend's own share.
    pub memory_fraction: Option<f32>,
    /// Element type of the KV cache; `None`: the backend's own.
    pub kv_dtype: Option<DType>,
    /// Most guesses that a run may have behind its last token: a backend may make itself ready for such steps. More are no
    /// error.
    pub draft_tokens: usize,
    /// A row's result must not depend on the rows beside it, to the bit, whatever that costs. (On a backend where it never
    /// does, this changes nothing.)
    pub batch_invariant: bool,
    /// Threads for a backend's work on the host: computing, or reading weights; `None`: all cores.
    pub threads: Option<usize>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            max_sequence_tokens: None,
            max_step_sequences: 64,
            max_step_tokens: 2048,
            kv_memory: None,
            kv_offload_memory: None,
            memory_fraction: None,
            kv_dtype: None,
            draft_tokens: 0,
            batch_invariant: false,
            threads: None,
        }
    }
}

/// What a model takes on a backend.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryPlan {
    /// Weights as the backend keeps them; `mapped` of them are shared with the page cache.
    pub weights: Bytes,
    /// Of the weights, how much is mapped from the file and not copied.
    pub mapped: Bytes,
    /// Activations and scratch.
    pub workspace: Bytes,
    /// KV blocks.
    pub kv: Bytes,
    /// Bytes of KV that one token takes, all groups together.
    pub kv_per_token: Bytes,
    /// Blocks in each KV group.
    pub kv_blocks: Vec<usize>,
    /// Of the host's memory, what is taken for KV blocks that leave the device; not part of `available`.
    pub host_kv: Bytes,
    /// Blocks in each KV group that it holds; 0: none go there.
    pub host_blocks: Vec<usize>,
    /// Tokens in one block.
    pub block_size: usize,
    /// Longest sequence that will be served.
    pub max_sequence_tokens: usize,
    /// Memory the device has for all of this.
    pub available: Bytes,
}

/// An operation that a backend lacks for a model. Found before a byte is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingCapability {
    /// What was to be done: `projection`, `attention`, ...
    pub operation: String,
    /// How its weights are stored.
    pub storage: String,
    /// The sizes in question.
    pub geometry: String,
    /// What the backend would need.
    pub requirement: String,
}

impl fmt::Display for MissingCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no {} for {} ({}): {}",
            self.operation, self.storage, self.geometry, self.requirement
        )
    }
}

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The checkpoint is broken or not understood; the text lists every finding.
    #[error("{0}")]
    Checkpoint(String),
    /// The backend lacks operations.
    #[error("{}", list_missing(.0))]
    MissingCapability(Vec<MissingCapability>),
    /// It does not fit.
    #[error("not enough memory for {what}: {needed} needed, {available} available; {hint}")]
    OutOfMemory {
        /// What did not fit.
        what: String,
        /// Bytes needed.
        needed: Bytes,
        /// Bytes there are.
        available: Bytes,
        /// What the operator can do.
        hint: String,
    },
    /// An option has no meaning here.
    #[error("{0}")]
    Option(String),
    /// Reading failed.
    #[error("reading weights: {0}")]
    Io(#[from] std::io::Error),
    /// The device or its driver failed.
    #[error("{0}")]
    Device(String),
    /// The progress callback said stop.
    #[error("loading was cancelled")]
    Cancelled,
}

fn list_missing(missing: &[MissingCapability]) -> String {
    let lines: Vec<String> = missing.iter().map(MissingCapability::to_string).collect();
    lines.join("\n")
}

/// Why a step failed. Every session of the step has lost its state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The device is in an unknown state: every request fails once, the model reports unhealthy.
    #[error("device fault: {0}")]
    Fault(String),
    /// The batch broke a rule of the seam; a defect of the caller.
    #[error("invalid step: {0}")]
    Invalid(String),
}
