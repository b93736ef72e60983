//! Attention's work of a step: which rows decode, which runs prefill, and the lists that the kernels walk.

use std::ops::Range;

use runtime::batch::{SequenceRun, StepBatch};

use super::{
    layout::Layout,
    pack::{Block, PoolFull},
};
use crate::{
    driver::DeviceLimits,
    model::{
        decoder::AttentionKind,
        forward::{AttentionWork, Picked},
    },
    ops::{Unsupported, attention_decode, attention_prefill},
};

/// Why a step's work could not be laid out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkError {
    /// Too many lists.
    #[error(transparent)]
    Pool(#[from] PoolFull),
    /// No kernel does it.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A sequence is longer than the plan was made for.
    #[error("decode attention's list of work has no room for this step")]
    Items,
}

/// Fills decode items for a kind of attention into `items` (words of the fixed part): of every run that is not too long for the
/// plan.
pub fn fill_items(
    batch: &StepBatch,
    kind: &AttentionKind,
    plan: &attention_decode::Plan,
    layout: &Layout,
    items: &Range<usize>,
    block: &mut Block<'_>,
) -> Result<(), WorkError> {
    let mut work = Vec::with_capacity(batch.runs.len());
    let runs = batch.runs.iter().enumerate();
    for (index, run) in runs.filter(|(_, run)| run.rows.len() <= plan.queries()) {
        work.push(attention_decode::SequenceWork {
            query_row: run.rows.start,
            queries: run.rows.len() as u32,
            position: run.cached,
            table_at: block.array(&layout.table_starts[kind.group])[index],
            table_first: run.tables[kind.group].first,
        });
    }
    let items: &mut [attention_decode::Item] = bytemuck::cast_slice_mut(block.array(items));
    plan.cutting().fill(&work, items).map(|_| ()).ok_or(WorkError::Items)
}

/// A mixed step's work for one kind of attention; lists go to the pool.
pub fn mixed(
    batch: &StepBatch,
    kind: &AttentionKind,
    layout: &Layout,
    max_blocks: usize,
    invariant: bool,
    limits: &DeviceLimits,
    block: &mut Block<'_>,
) -> Result<AttentionWork, WorkError> {
    let decoding = batch.runs.iter().filter(|run| decodes(run, invariant)).count();
    let mut work = AttentionWork::default();
    if decoding > 0 {
        let plan = attention_decode::Plan::new(
            &kind.decode(decoding, max_blocks, invariant, false),
            limits,
        )?;
        let items = block.reserve(plan.items() * ITEM_WORDS)?;
        fill_items(batch, kind, &plan, layout, &items, block)?;
        work.decode = Some((plan, items));
    }
    let prompts = batch.runs.iter().enumerate().filter(|(_, run)| !decodes(run, invariant));
    let runs: Vec<_> = prompts.map(|(index, run)| part(index, run, run.rows.clone())).collect();
    work.prefill = prefill(&runs, kind, invariant, limits, block)?;
    Ok(work)
}

/// The rows with an output, where they are at most half of all: the last layer, whose attention is of `kind` and has `work` to do
/// for all rows, is computed for these alone. The block's outputs are rows of theirs from here on.
pub fn picked(
    batch: &StepBatch,
    kind: &AttentionKind,
    work: &AttentionWork,
    layout: &Layout,
    invariant: bool,
    limits: &DeviceLimits,
    block: &mut Block<'_>,
) -> Result<Option<Picked>, WorkError> {
    let count = batch.outputs.len();
    if count * 2 > batch.tokens.len() {
        return Ok(None);
    }
    let rows = block.reserve(count)?;
    block.array(&rows).iter_mut().zip(&batch.outputs).for_each(|(word, output)| *word = output.row);
    block.array(&layout.output_rows).iter_mut().zip(0..).for_each(|(word, at)| *word = at);
    let prompts = batch.runs.iter().enumerate().filter(|(_, run)| !decodes(run, invariant));
    let runs: Vec<_> =
        prompts.filter_map(|(index, run)| Some(part(index, run, wanted(batch, run)?))).collect();
    let prefill = prefill(&runs, kind, invariant, limits, block)?;
    Ok(Some(Picked { rows, work: AttentionWork { decode: work.decode.clone(), prefill } }))
}

/// Whether decode attention takes the run. One kernel for every row is what makes a row's bits its own: a prompt's token and a
/// decoded one alike.
fn decodes(run: &SequenceRun, invariant: bool) -> bool {
    run.rows.len() == 1 && !invariant
}

/// The run's rows from the first with an output to the last.
fn wanted(batch: &StepBatch, run: &SequenceRun) -> Option<Range<u32>> {
    let rows = batch.outputs.iter().map(|output| output.row).filter(|row| run.rows.contains(row));
    let (first, last) = rows.fold(None, |seen: Option<(u32, u32)>, row| {
        let (first, last) = seen.unwrap_or((row, row));
        Some((first.min(row), last.max(row)))
    })?;
    Some(first..last + 1)
}

/// Some rows of a run, as prefill attention sees them: those before are in the cache by then.
fn part(index: usize, run: &SequenceRun, rows: Range<u32>) -> attention_prefill::Run {
    attention_prefill::Run {
        row: rows.start,
        rows: rows.len() as u32,
        cached: run.cached + (rows.start - run.rows.start),
        sequence: index as u32,
    }
}

/// Prefill attention's lists for `runs`, in the pool.
fn prefill(
    runs: &[attention_prefill::Run],
    kind: &AttentionKind,
    invariant: bool,
    limits: &DeviceLimits,
    block: &mut Block<'_>,
) -> Result<Option<PrefillWork>, WorkError> {
    if runs.is_empty() {
        return Ok(None);
    }
    let plan = attention_prefill::Plan::new(&kind.prefill(), runs, limits, !invariant)?;
    let tiles = block.reserve(plan.tiles.len() * TILE_WORDS)?;
    block.array(&tiles).copy_from_slice(bytemuck::cast_slice(&plan.tiles));
    let shares = block.reserve(plan.shares.len())?;
    block.array(&shares).copy_from_slice(bytemuck::cast_slice(&plan.shares));
    Ok(Some((plan, tiles, shares)))
}

/// A plan, and where its tiles and shares lie in the step block (words).
type PrefillWork = (attention_prefill::Plan, Range<usize>, Range<usize>);

/// Words of one item of decode attention's list.
pub const ITEM_WORDS: usize = size_of::<attention_decode::Item>() / 4;
/// Words of one tile of prefill attention's list.
pub const TILE_WORDS: usize = size_of::<attention_prefill::Tile>() / 4;

#[cfg(test)]
mod tests {
    use foundation::{BlockId, SlotId, TokenId};
    use runtime::batch::{BlockTable, OutputKind, OutputRow, Positions, StepId, TokenInput};

    use super::*;
    use crate::{
        engine::layout::{Room, Shape},
        ops::heads::{CacheType, Heads},
    };

    fn kind() -> AttentionKind {
        AttentionKind {
            heads: Heads { heads: 2, kv_heads: 1, head_dim: 64, cache: CacheType::Bf16 },
            window: None,
            scale: 1.0,
            softcap: None,
            group: 0,
            preparation: None,
        }
    }

    fn run(rows: Range<u32>, cached: u32) -> SequenceRun {
        let blocks = (cached as usize + rows.len()).div_ceil(16) as u32;
        SequenceRun {
            rows,
            cached,
            tables: vec![BlockTable { first: 0, blocks: (0..blocks).map(BlockId).collect() }],
            slot: SlotId(0),
            adapter: None,
            regime: 0,
            rewind: 0,
        }
    }

    /// Two prompts, 20 rows behind 5 and 9 behind none, and a decoded row between them.
    fn batch(outputs: &[u32]) -> StepBatch {
        let output = |row: &u32| OutputRow { row: *row, kind: OutputKind::Logits };
        StepBatch {
            step: StepId(1),
            tokens: vec![TokenInput::Known(TokenId(1)); 30],
            positions: Positions::Text(vec![0; 30]),
            runs: vec![run(0..20, 5), run(20..21, 40), run(21..30, 0)],
            outputs: outputs.iter().map(output).collect(),
            ..StepBatch::default()
        }
    }

    /// What is picked: rows, outputs in terms of them, tiles of attention as (first row, rows, position).
    fn pick(batch: &StepBatch, invariant: bool) -> Option<(Vec<u32>, Vec<u32>, AttentionWork)> {
        let shape = Shape { groups: 1, ropes: 0, sampling_words: 1, kinds: 1, item_words: 0 };
        let room = Room { rows: 30, sequences: 3, outputs: batch.outputs.len() };
        let layout = Layout::new(shape, room);
        let mut words = vec![7; layout.pool + 100_000];
        let mut block = Block::new(&mut words, &layout);
        let limits = DeviceLimits::h200();
        let all = mixed(batch, &kind(), &layout, 4, invariant, &limits, &mut block).unwrap();
        let picked =
            picked(batch, &kind(), &all, &layout, invariant, &limits, &mut block).unwrap()?;
        assert_eq!(picked.work.decode, all.decode, "decoded rows are as they were");
        let (rows, outputs) =
            (block.array(&picked.rows).to_vec(), block.array(&layout.output_rows).to_vec());
        Some((rows, outputs, picked.work))
    }

    #[test]
    fn few_outputs_are_picked_with_the_stretches_of_attention_that_they_need() {
        let batch = batch(&[29, 20, 3, 8]);
        let (rows, outputs, work) = pick(&batch, false).unwrap();
        assert_eq!(rows, [29, 20, 3, 8]);
        assert_eq!(outputs, [0, 1, 2, 3]);
        assert!(work.decode.is_some());
        let runs = [part(0, &batch.runs[0], 3..9), part(2, &batch.runs[2], 29..30)];
        assert_eq!((runs[0].row, runs[0].rows, runs[0].cached), (3, 6, 8));
        assert_eq!((runs[1].row, runs[1].rows, runs[1].cached, runs[1].sequence), (29, 1, 8, 2));
        let limits = DeviceLimits::h200();
        let wanted = attention_prefill::Plan::new(&kind().prefill(), &runs, &limits, true);
        assert_eq!(work.prefill.unwrap().0, wanted.unwrap());
        // Batch-invariant, the decoded row goes the way of prompts.
        let (_, _, work) = pick(&batch, true).unwrap();
        assert_eq!(work.prefill.unwrap().0.rows, 30);
    }

    #[test]
    fn many_outputs_are_not_picked_and_none_need_nothing() {
        let most: Vec<u32> = (0..16).collect();
        assert!(pick(&batch(&most), false).is_none());
        assert!(pick(&batch(&most[..15]), false).is_some());
        let (rows, outputs, work) = pick(&batch(&[]), false).unwrap();
        assert_eq!((rows.len(), outputs.len()), (0, 0));
        assert!(work.prefill.is_none());
    }
}
