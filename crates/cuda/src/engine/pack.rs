//! From a step batch to the words of a step block. Pure: no device, no allocation beyond the caller's block.

use std::ops::Range;

use foundation::BlockId;
use models::semantic::RopeSpec;
use runtime::batch::{BlockTable, Positions, StepBatch, TokenInput};

use super::layout::{Count, Layout};

/// Tokens in a block of every KV group.
pub const BLOCK_SIZE: usize = 16;
/// A row whose key and value go nowhere.
const NOWHERE: i32 = -1;

/// A step block under construction: the fixed part, and the pool behind it as far as it is filled.
#[derive(Debug)]
pub struct Block<'a> {
    words: &'a mut [u32],
    /// Where the pool begins.
    pool: usize,
    /// Words used, pool included.
    used: usize,
}

/// A step has more lists than its pool has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a step's tables and lists take {needed} words, there is room for {room}")]
pub struct PoolFull {
    /// Words needed, at the least.
    pub needed: usize,
    /// Words there are.
    pub room: usize,
}

impl<'a> Block<'a> {
    /// A block in `words`, which must hold at least the fixed part of `layout`.
    pub fn new(words: &'a mut [u32], layout: &Layout) -> Block<'a> {
        assert!(words.len() >= layout.pool, "{} words for {}", words.len(), layout.pool);
        Block { words, pool: layout.pool, used: layout.pool }
    }

    /// Words that must reach the device.
    pub fn used(&self) -> usize {
        self.used
    }

    /// An array of the fixed part.
    pub fn array(&mut self, range: &Range<usize>) -> &mut [u32] {
        &mut self.words[range.clone()]
    }

    /// Takes `words` words of the pool, aligned to 64 bytes; where they lie in the whole block.
    pub fn reserve(&mut self, words: usize) -> Result<Range<usize>, PoolFull> {
        let start = self.used.next_multiple_of(16);
        let end = start + words;
        if end > self.words.len() {
            return Err(PoolFull { needed: end, room: self.words.len() });
        }
        self.used = end;
        Ok(start..end)
    }

    /// Appends to the pool; where it begins there.
    pub fn push(&mut self, values: impl ExactSizeIterator<Item = u32>) -> Result<u32, PoolFull> {
        let end = self.used + values.len();
        let room = self.words.len();
        let target = self.words.get_mut(self.used..end).ok_or(PoolFull { needed: end, room })?;
        target.iter_mut().zip(values).for_each(|(word, value)| *word = value);
        let start = self.used - self.pool;
        self.used = end;
        Ok(start as u32)
    }
}

/// The rotary embeddings of a model and the sequence lengths at which one of them changes.
#[derive(Clone, Debug, Default)]
pub struct Regimes {
    thresholds: Vec<usize>,
    /// For each rotary embedding, its own threshold.
    own: Vec<Option<usize>>,
}

impl Regimes {
    /// Those of `ropes`, in a model that has all of `thresholds`.
    pub fn new(thresholds: Vec<usize>, ropes: &[RopeSpec]) -> Regimes {
        Regimes { thresholds, own: ropes.iter().map(RopeSpec::regime_threshold).collect() }
    }

    /// The frequency table of rotary embedding `rope` in regime `regime` of the model.
    pub fn table(&self, rope: usize, regime: u32) -> u32 {
        let passed = self.thresholds.iter().take(regime as usize);
        u32::from(passed.map(|threshold| Some(*threshold)).any(|passed| passed == self.own[rope]))
    }
}

/// Fills everything but sampling parameters and work lists.
pub fn pack(
    batch: &StepBatch,
    layout: &Layout,
    regimes: &Regimes,
    block: &mut Block<'_>,
) -> Result<(), PoolFull> {
    let counts = block.array(&layout.counts);
    counts.fill(0);
    counts[Count::Rows as usize] = batch.tokens.len() as u32;
    counts[Count::Sequences as usize] = batch.runs.len() as u32;
    counts[Count::Outputs as usize] = batch.outputs.len() as u32;
    pack_rows(batch, layout, regimes, block);
    pack_sequences(batch, layout, block);
    for group in 0..layout.slots.len() {
        pack_slots(batch, group, block.array(&layout.slots[group]));
        pack_tables(batch, group, layout, block)?;
    }
    let rows = batch.outputs.iter().map(|output| output.row);
    fill(block.array(&layout.output_rows), rows, NOWHERE as u32);
    Ok(())
}

fn pack_rows(batch: &StepBatch, layout: &Layout, regimes: &Regimes, block: &mut Block<'_>) {
    let tokens = batch.tokens.iter().map(|token| match *token {
        TokenInput::Known(token) => token.0,
        TokenInput::Sampled { output } => (-1 - output as i32) as u32,
    });
    fill(block.array(&layout.tokens), tokens, 0);
    if let Positions::Text(positions) = &batch.positions {
        fill(block.array(&layout.positions), positions.iter().copied(), 0);
    }
    for (rope, range) in layout.regimes.iter().enumerate() {
        let by_row = batch.runs.iter().flat_map(|run| {
            let table = regimes.table(rope, run.regime);
            run.rows.clone().map(move |_| table)
        });
        fill(block.array(range), by_row, 0);
    }
}

fn pack_sequences(batch: &StepBatch, layout: &Layout, block: &mut Block<'_>) {
    fill(block.array(&layout.first_rows), batch.runs.iter().map(|run| run.rows.start), 0);
    fill(block.array(&layout.cached), batch.runs.iter().map(|run| run.cached), 0);
    let lengths = batch.runs.iter().map(|run| run.cached + run.rows.len() as u32);
    fill(block.array(&layout.lengths), lengths, 0);
}

fn pack_slots(batch: &StepBatch, group: usize, slots: &mut [u32]) {
    let by_row = batch.runs.iter().flat_map(|run| {
        let table = &run.tables[group];
        (run.cached..run.cached + run.rows.len() as u32).map(move |token| slot(table, token))
    });
    fill(slots, by_row, NOWHERE as u32);
}

/// Where token `token` of a sequence lies in the arena, in tokens.
fn slot(table: &BlockTable, token: u32) -> u32 {
    let BlockId(block) = table.blocks[token as usize / BLOCK_SIZE - table.first as usize];
    block * BLOCK_SIZE as u32 + token % BLOCK_SIZE as u32
}

fn pack_tables(
    batch: &StepBatch,
    group: usize,
    layout: &Layout,
    block: &mut Block<'_>,
) -> Result<(), PoolFull> {
    for (index, run) in batch.runs.iter().enumerate() {
        let start = block.push(run.tables[group].blocks.iter().map(|block| block.0))?;
        block.array(&layout.table_starts[group])[index] = start;
    }
    fill(
        block.array(&layout.table_firsts[group]),
        batch.runs.iter().map(|run| run.tables[group].first),
        0,
    );
    Ok(())
}

fn fill(target: &mut [u32], values: impl Iterator<Item = u32>, rest: u32) {
    let mut values = values;
    for word in target {
        *word = values.next().unwrap_or(rest);
    }
}

#[cfg(test)]
mod tests {
    use foundation::{SlotId, TokenId};
    use models::semantic::RopeScaling;
    use runtime::batch::{OutputKind, OutputRow, SequenceRun, StepId};

    use super::*;
    use crate::engine::layout::{Room, Shape};

    fn run(rows: Range<u32>, cached: u32, first: u32, blocks: &[u32]) -> SequenceRun {
        SequenceRun {
            rows,
            cached,
            tables: vec![BlockTable {
                first,
                blocks: blocks.iter().copied().map(BlockId).collect(),
            }],
            slot: SlotId(0),
            adapter: None,
            regime: 0,
            rewind: 0,
        }
    }

    fn layout() -> Layout {
        let shape = Shape { groups: 1, ropes: 1, sampling_words: 2, kinds: 1, item_words: 12 };
        Layout::new(shape, Room { rows: 6, sequences: 3, outputs: 3 })
    }

    fn batch() -> StepBatch {
        StepBatch {
            step: StepId(1),
            tokens: vec![
                TokenInput::Known(TokenId(7)),
                TokenInput::Known(TokenId(8)),
                TokenInput::Sampled { output: 2 },
            ],
            positions: Positions::Text(vec![15, 16, 99]),
            runs: vec![run(0..2, 15, 0, &[4, 9]), run(2..3, 99, 5, &[1, 3])],
            outputs: vec![OutputRow { row: 1, kind: OutputKind::Logits }],
            ..StepBatch::default()
        }
    }

    #[test]
    fn rows_slots_tables_and_padding_go_where_the_layout_says() {
        let layout = layout();
        let mut words = vec![0xdead_beef; layout.pool + 4];
        let regimes = Regimes::new(vec![], &[rope(RopeScaling::None)]);
        let mut block = Block::new(&mut words, &layout);
        pack(&batch(), &layout, &regimes, &mut block).unwrap();
        assert_eq!(block.used(), layout.pool + 4);
        let signed = |words: &[u32]| words.iter().map(|word| *word as i32).collect::<Vec<i32>>();
        assert_eq!(signed(block.array(&layout.tokens)), [7, 8, -3, 0, 0, 0]);
        assert_eq!(
            signed(block.array(&layout.slots[0])),
            [4 * 16 + 15, 9 * 16, 3 * 16 + 3, -1, -1, -1]
        );
        assert_eq!(block.array(&layout.lengths), [17, 100, 0]);
        assert_eq!(block.array(&layout.table_starts[0])[..2], [0, 2]);
        assert_eq!(block.array(&layout.table_firsts[0]), [0, 5, 0]);
        assert_eq!(signed(block.array(&layout.output_rows)), [1, -1, -1]);
        assert_eq!(block.array(&layout.counts)[..3], [3, 2, 1]);
        assert_eq!(words[layout.pool..], [4, 9, 1, 3]);
    }

    #[test]
    fn a_full_pool_is_an_error_with_numbers() {
        let layout = layout();
        let mut words = vec![0; layout.pool + 3];
        let regimes = Regimes::new(vec![], &[rope(RopeScaling::None)]);
        let mut block = Block::new(&mut words, &layout);
        let error = pack(&batch(), &layout, &regimes, &mut block).unwrap_err();
        assert_eq!(error, PoolFull { needed: layout.pool + 4, room: layout.pool + 3 });
    }

    fn rope(scaling: RopeScaling) -> RopeSpec {
        RopeSpec { theta: 10_000.0, rotary_dim: 8, scaling }
    }

    #[test]
    fn only_a_rope_with_that_threshold_changes_its_table() {
        let long = |original_max| RopeScaling::LongRope {
            short: vec![1.0; 4],
            long: vec![2.0; 4],
            original_max,
            attention_factor: 1.0,
        };
        let ropes = [rope(RopeScaling::None), rope(long(64)), rope(long(32))];
        let regimes = Regimes::new(vec![32, 64], &ropes);
        let tables = |regime| (0..3).map(|rope| regimes.table(rope, regime)).collect::<Vec<u32>>();
        assert_eq!(tables(0), [0, 0, 0]);
        assert_eq!(tables(1), [0, 0, 1]);
        assert_eq!(tables(2), [0, 1, 1]);
    }
}
