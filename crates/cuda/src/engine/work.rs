//! Attention's work of a step: which rows decode, which runs prefill, and the lists that the kernels walk.

use std::ops::Range;

use runtime::batch::StepBatch;

use super::{
    layout::Layout,
    pack::{Block, PoolFull},
};
use crate::{
    driver::DeviceLimits,
    model::{decoder::AttentionKind, forward::AttentionWork},
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

/// Fills decode items for a kind of attention into `items` (words of the fixed part).
pub fn fill_items(
    batch: &StepBatch,
    kind: &AttentionKind,
    plan: &attention_decode::Plan,
    layout: &Layout,
    items: &Range<usize>,
    block: &mut Block<'_>,
) -> Result<(), WorkError> {
    let mut work = Vec::with_capacity(batch.runs.len());
    for (index, run) in batch.runs.iter().enumerate().filter(|(_, run)| run.rows.len() == 1) {
        work.push(attention_decode::SequenceWork {
            query_row: run.rows.start,
            queries: 1,
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
    // One kernel for every row is what makes a row's bits its own: a prompt's token and a decoded one alike.
    let decodes = |rows: usize| rows == 1 && !invariant;
    let decoding = batch.runs.iter().filter(|run| decodes(run.rows.len())).count();
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
    let runs: Vec<attention_prefill::Run> = batch
        .runs
        .iter()
        .enumerate()
        .filter(|(_, run)| !decodes(run.rows.len()))
        .map(|(index, run)| attention_prefill::Run {
            row: run.rows.start,
            rows: run.rows.len() as u32,
            cached: run.cached,
            sequence: index as u32,
        })
        .collect();
    if !runs.is_empty() {
        let plan = attention_prefill::Plan::new(&kind.prefill(), &runs, limits)?;
        let tiles = block.reserve(plan.tiles.len() * TILE_WORDS)?;
        block.array(&tiles).copy_from_slice(bytemuck::cast_slice(&plan.tiles));
        let shares = block.reserve(plan.shares.len())?;
        block.array(&shares).copy_from_slice(bytemuck::cast_slice(&plan.shares));
        work.prefill = Some((plan, tiles, shares));
    }
    Ok(work)
}

/// Words of one item of decode attention's list.
pub const ITEM_WORDS: usize = size_of::<attention_decode::Item>() / 4;
/// Words of one tile of prefill attention's list.
const TILE_WORDS: usize = size_of::<attention_prefill::Tile>() / 4;
