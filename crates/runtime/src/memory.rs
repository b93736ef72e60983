//! The memory plan, which every backend makes alike: weights and workspace, then KV blocks from what is left. Pure, and
//! made before a byte is read.

use foundation::Bytes;

pub use self::host::available as host_available;
use crate::backend::{LoadError, LoadOptions, MemoryPlan};

mod host;

/// What a model needs on a device, however much the device has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNeeds {
    /// Weights as the backend keeps them.
    pub weights: Bytes,
    /// Of the weights, how much is mapped from the file and not copied.
    pub mapped: Bytes,
    /// Activations and scratch.
    pub workspace: Bytes,
    /// The KV groups, in the order in which block tables are given.
    pub kv_groups: Vec<KvGroupNeeds>,
    /// Tokens in one block.
    pub block_size: usize,
    /// Longest sequence that the checkpoint was made for, in tokens.
    pub max_positions: usize,
    /// Longest sequence that the manifest asks for, where the options ask for none.
    pub context_len: Option<u32>,
}

/// What one KV group needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvGroupNeeds {
    /// Tokens that are ever read back, itself included; `None`: all.
    pub window: Option<usize>,
    /// Keys and values of one token, all layers of the group together.
    pub bytes_per_token: u64,
}

/// What a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// For weights, workspace and KV blocks together.
    pub available: Bytes,
    /// For KV blocks, unless the options say how much; never more than weights and workspace leave.
    pub kv: Bytes,
}

impl MemoryNeeds {
    /// Divides `budget` up.
    ///
    /// # Errors
    /// [`LoadError::OutOfMemory`] with the numbers, or [`LoadError::Option`] for an option that cannot be.
    pub fn plan(
        &self,
        options: &LoadOptions,
        budget: MemoryBudget,
    ) -> Result<MemoryPlan, LoadError> {
        check_options(options)?;
        let MemoryBudget { available, .. } = budget;
        let fixed = Bytes(self.weights.0.saturating_add(self.workspace.0));
        let left = available.0.saturating_sub(fixed.0);
        if left == 0 {
            return Err(self.does_not_fit("weights and workspace", fixed, available));
        }
        let kv = KvNeeds::of(self, options);
        let allowed = options.kv_memory.unwrap_or(Bytes(budget.kv.0.min(left)));
        let length = self.length(&kv, options, allowed)?;
        let blocks = kv.most_blocks(length, allowed.0);
        let kv_bytes = Bytes(kv.bytes(length, blocks));
        if kv_bytes.0 > left {
            return Err(LoadError::OutOfMemory {
                what: format!(
                    "weights ({}), workspace ({}) and KV blocks ({kv_bytes})",
                    self.weights, self.workspace
                ),
                needed: Bytes(fixed.0.saturating_add(kv_bytes.0)),
                available,
                hint: "give the KV cache less memory".to_owned(),
            });
        }
        let kv_blocks = kv.group_blocks(length, blocks);
        let host_memory = options.kv_offload_memory.unwrap_or_default();
        let host_blocks = self.host_blocks(&kv_blocks, host_memory);
        Ok(MemoryPlan {
            weights: self.weights,
            mapped: self.mapped,
            workspace: self.workspace,
            kv: kv_bytes,
            kv_per_token: Bytes(self.kv_groups.iter().map(|group| group.bytes_per_token).sum()),
            kv_blocks,
            host_kv: self.kv_bytes(&host_blocks),
            host_blocks,
            block_size: self.block_size,
            max_sequence_tokens: length,
            available,
        })
    }

    /// Blocks of each group that `memory` holds on the host, in the proportion in which they are on the device.
    fn host_blocks(&self, kv_blocks: &[usize], memory: Bytes) -> Vec<usize> {
        let whole = u128::from(self.kv_bytes(kv_blocks).0).max(1);
        let share = |blocks: &usize| (*blocks as u128 * u128::from(memory.0) / whole) as usize;
        kv_blocks.iter().map(share).collect()
    }

    /// What a block of each group takes, all its layers together.
    pub fn block_bytes(&self) -> Vec<u64> {
        let bytes = |group: &KvGroupNeeds| group.bytes_per_token * self.block_size as u64;
        self.kv_groups.iter().map(bytes).collect()
    }

    fn kv_bytes(&self, blocks: &[usize]) -> Bytes {
        let groups = self.block_bytes().into_iter().zip(blocks);
        Bytes(groups.map(|(bytes, blocks)| bytes * *blocks as u64).sum())
    }

    fn does_not_fit(&self, what: &str, needed: Bytes, available: Bytes) -> LoadError {
        LoadError::OutOfMemory {
            what: what.to_owned(),
            needed,
            available,
            hint: "use a smaller model, or fewer tokens a step".to_owned(),
        }
    }

    /// The sequence length to serve: as asked, or else the checkpoint's, cut to what `allowed` holds.
    fn length(
        &self,
        kv: &KvNeeds<'_>,
        options: &LoadOptions,
        allowed: Bytes,
    ) -> Result<usize, LoadError> {
        let size = self.block_size;
        let one_sequence = |length: usize| kv.bytes(length, length.div_ceil(size));
        let refuse = |length: usize| LoadError::OutOfMemory {
            what: format!("the KV blocks of one sequence of {length} tokens"),
            needed: Bytes(one_sequence(length)),
            available: allowed,
            hint: "ask for a shorter sequence, or give the KV cache more memory".to_owned(),
        };
        let asked = self.asked_length(options)?;
        let wanted = asked.unwrap_or(self.max_positions);
        if one_sequence(wanted) <= allowed.0 {
            return Ok(wanted);
        }
        if asked.is_some() {
            return Err(refuse(wanted));
        }
        let fits = |blocks: usize| one_sequence(blocks * size) <= allowed.0;
        match greatest(self.max_positions / size, fits) {
            0 => Err(refuse(size)),
            blocks => Ok(blocks * size),
        }
    }

    /// The sequence length that the user asked for, if any.
    fn asked_length(&self, options: &LoadOptions) -> Result<Option<usize>, LoadError> {
        let asked = options.max_sequence_tokens.or(self.context_len.map(|length| length as usize));
        match asked {
            Some(length) if length > self.max_positions => Err(LoadError::Option(format!(
                "a sequence length of {length} was asked for, but the checkpoint was made for {}",
                self.max_positions
            ))),
            Some(0) => Err(LoadError::Option("a sequence length of 0 was asked for".to_owned())),
            asked => Ok(asked),
        }
    }
}

/// Refuses what no backend can make sense of.
fn check_options(options: &LoadOptions) -> Result<(), LoadError> {
    let zero = [
        (options.max_sequence_tokens == Some(0), "max_sequence_tokens"),
        (options.max_step_sequences == 0, "max_step_sequences"),
        (options.max_step_tokens == 0, "max_step_tokens"),
        (options.threads == Some(0), "threads"),
    ];
    let wrong: Vec<&str> = zero.iter().filter(|(wrong, _)| *wrong).map(|(_, name)| *name).collect();
    if !wrong.is_empty() {
        let wrong = wrong.join(", ");
        return Err(LoadError::Option(format!("{wrong} is 0; at least 1 is needed")));
    }
    match options.memory_fraction {
        Some(part) if !(part > 0.0 && part <= 1.0) => Err(LoadError::Option(format!(
            "memory_fraction is {part}; a number above 0, up to 1, is needed"
        ))),
        _ => Ok(()),
    }
}

/// The greatest number up to `most` for which `holds`, given that it holds up to some number and not beyond.
fn greatest(most: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// The KV groups under these options.
struct KvNeeds<'a> {
    needs: &'a MemoryNeeds,
    sequences: usize,
    step_tokens: usize,
}

impl<'a> KvNeeds<'a> {
    fn of(needs: &'a MemoryNeeds, options: &LoadOptions) -> Self {
        let (sequences, step_tokens) = (options.max_step_sequences, options.max_step_tokens);
        KvNeeds { needs, sequences, step_tokens }
    }

    /// Tokens of one sequence of `length` that `group` holds at a time: at most a window and a step's chunk.
    fn held(&self, group: &KvGroupNeeds, length: usize) -> usize {
        // Two more blocks: window and chunk both begin and end within one.
        let room = self.step_tokens.saturating_add(2 * self.needs.block_size);
        group.window.map_or(length, |window| window.saturating_add(room).min(length))
    }

    /// Blocks of each group when an unbounded group has `blocks`: a bounded group needs as many while sequences are
    /// short, and never more than all sequences can hold at once.
    fn group_blocks(&self, length: usize, blocks: usize) -> Vec<usize> {
        let bound = |group: &KvGroupNeeds| {
            let tokens = self.held(group, length);
            tokens.div_ceil(self.needs.block_size).saturating_mul(self.sequences)
        };
        self.needs.kv_groups.iter().map(|group| blocks.min(bound(group))).collect()
    }

    fn bytes(&self, length: usize, blocks: usize) -> u64 {
        let counts = self.group_blocks(length, blocks);
        let group_bytes = |(group, count): (&KvGroupNeeds, usize)| {
            (count as u64).saturating_mul(group.bytes_per_token * self.needs.block_size as u64)
        };
        self.needs.kv_groups.iter().zip(counts).map(group_bytes).fold(0, u64::saturating_add)
    }

    /// The most blocks that fit the budget, and no more than all sequences need.
    fn most_blocks(&self, length: usize, budget: u64) -> usize {
        let most = length.div_ceil(self.needs.block_size).saturating_mul(self.sequences);
        greatest(most, |blocks| self.bytes(length, blocks) <= budget)
    }
}

#[cfg(test)]
mod tests;
