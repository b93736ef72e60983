//! Which block of the grid takes which stretch of which sequence: decided on the host, once a step and KV group.

use super::super::heads::BLOCK_TOKENS;

/// Blocks of the cache in an item where splits must not depend on the rest of the batch.
const INVARIANT_BLOCKS: usize = 32;

/// What an item costs beside its blocks, in blocks: starting, merging.
const ITEM_COST: usize = 4;

/// Stretches of one sequence, at most: the kernel's field has 11 bits.
const MAX_SPLITS: usize = 2047;

/// Rounds over a multiprocessor's warps that a sequence may take in a cluster of its own while other multiprocessors idle:
/// merging through device memory costs about as much.
const CLUSTER_ROUNDS: usize = 4;

/// One sequence of a step: consecutive query tokens, and where its block table lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceWork {
    /// Row of its first query token.
    pub query_row: u32,
    /// Query tokens, 1 for plain decoding.
    pub queries: u32,
    /// Index in the sequence of the first query token: the tokens before it are in the cache.
    pub position: u32,
    /// Where in the flat table the sequence's entries begin.
    pub table_at: u32,
    /// Logical block of the table's first entry.
    pub table_first: u32,
}

/// A stretch of one sequence's blocks, as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Item {
    query_row: u32,
    counts: u32,
    position: i32,
    first_block: u32,
    /// 0: no work.
    blocks: u32,
    table_at: u32,
    partial: u32,
    next: u32,
}

/// How sequences are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutting {
    /// Blocks of the grid along x: lists of items.
    pub columns: usize,
    /// Tokens that a token sees, itself included.
    pub window: Option<usize>,
    /// Splits depend on the sequence alone.
    pub invariant: bool,
    /// Columns that merge in shared memory, a power of two; they begin at multiples of it. 1: none do.
    pub cluster: usize,
    /// Blocks of the cache that the warps of a block take at a time: an item has as many, while its sequence has them.
    pub round: usize,
}

/// A sequence's visible blocks.
#[derive(Clone, Copy, Debug)]
struct Span {
    index: usize,
    first: usize,
    blocks: usize,
}

/// One piece of a span, before it is written as an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    index: usize,
    first: usize,
    blocks: usize,
    split: usize,
    splits: usize,
    /// The splits are the first columns of one cluster.
    together: bool,
}

impl Cutting {
    /// Items that a step of `sequences` needs room for, whatever their lengths.
    pub fn capacity(&self, sequences: usize, max_blocks: usize) -> usize {
        let pieces = match self.invariant {
            true => sequences * max_blocks.div_ceil(INVARIANT_BLOCKS).max(1),
            false => sequences,
        };
        2 * self.columns + pieces
    }

    /// Fills `items`: the first `columns` are the heads of the grid's lists, further ones hang on them by `next`. Gives how many
    /// slots of partial results the items use, or `None` where `items` is too short or a sequence too long.
    pub fn fill(&self, work: &[SequenceWork], items: &mut [Item]) -> Option<usize> {
        items.fill(Item::default());
        let spans: Vec<Span> =
            work.iter().enumerate().map(|(i, work)| self.span(i, work)).collect();
        let lists = self.lists(&spans);
        let slots = slots(&lists, work.len());
        let mut free = self.columns;
        for (column, list) in lists.iter().enumerate() {
            let mut at = column;
            for (place, piece) in list.iter().enumerate() {
                if place > 0 {
                    items.get_mut(at)?.next = u32::try_from(free).ok()?;
                    at = free;
                    free += 1;
                }
                if piece.splits > MAX_SPLITS {
                    return None;
                }
                *items.get_mut(at)? = item(&work[piece.index], piece, slots[piece.index]);
            }
        }
        Some(slots.last().copied().unwrap_or(0))
    }

    fn span(&self, index: usize, work: &SequenceWork) -> Span {
        let position = work.position as usize;
        let token = self.window.map_or(0, |window| (position + 1).saturating_sub(window));
        let first = token / BLOCK_TOKENS;
        let end = (position + work.queries as usize).div_ceil(BLOCK_TOKENS);
        Span { index, first, blocks: end - first }
    }

    /// A list of pieces for each column.
    fn lists(&self, spans: &[Span]) -> Vec<Vec<Piece>> {
        if self.invariant {
            let pieces = spans.iter().flat_map(|span| {
                let splits = span.blocks.div_ceil(INVARIANT_BLOCKS);
                (0..splits).map(move |split| {
                    let from = split * INVARIANT_BLOCKS;
                    let blocks = INVARIANT_BLOCKS.min(span.blocks - from);
                    let (index, first) = (span.index, span.first + from);
                    Piece { index, first, blocks, split, splits, together: false }
                })
            });
            return self.spread(pieces.collect());
        }
        if let Some(lists) = self.clusters(spans) {
            return lists;
        }
        match self.even_size(spans) {
            Some(size) => {
                let pieces =
                    spans.iter().flat_map(|span| cut_evenly(span, span.blocks.div_ceil(size)));
                pieces.map(|piece| vec![piece]).collect()
            }
            None => self.stream(spans),
        }
    }

    /// A cluster for each sequence, where there are enough and not much would be left idle.
    fn clusters(&self, spans: &[Span]) -> Option<Vec<Vec<Piece>>> {
        if self.cluster < 2 || spans.len() * self.cluster > self.columns {
            return None;
        }
        let splits =
            |span: &Span| span.blocks.div_ceil(self.round).next_power_of_two().min(self.cluster);
        let longest = spans.iter().map(|span| span.blocks.div_ceil(splits(span))).max()?;
        let total: usize = spans.iter().map(|span| span.blocks).sum();
        let balanced = longest * self.columns <= total + total / 4;
        if longest > CLUSTER_ROUNDS * self.round && !balanced {
            return None;
        }
        let mut lists = vec![Vec::new(); self.columns];
        for (place, span) in spans.iter().enumerate() {
            for piece in cut_evenly(span, splits(span)) {
                let together = piece.splits > 1;
                lists[place * self.cluster + piece.split].push(Piece { together, ..piece });
            }
        }
        Some(lists)
    }

    /// The size of piece at which every column has at most one piece, where that is about as balanced as can be.
    fn even_size(&self, spans: &[Span]) -> Option<usize> {
        let pieces =
            |size: usize| spans.iter().map(|span| span.blocks.div_ceil(size)).sum::<usize>();
        let total: usize = spans.iter().map(|span| span.blocks).sum();
        let longest = spans.iter().map(|span| span.blocks).max()?;
        if spans.len() > self.columns {
            return None;
        }
        let (mut low, mut high) = (self.round, longest.max(self.round));
        while low < high {
            let size = (low + high) / 2;
            match pieces(size) <= self.columns {
                true => high = size,
                false => low = size + 1,
            }
        }
        let best = total.div_ceil(self.columns).max(self.round);
        (low <= best + best / 4 + ITEM_COST).then_some(low)
    }

    /// Columns of equal cost, filled one after the other; a sequence is cut where a column is full.
    fn stream(&self, spans: &[Span]) -> Vec<Vec<Piece>> {
        let cost: usize = spans.iter().map(|span| span.blocks + ITEM_COST).sum();
        let room = (cost + self.columns * ITEM_COST).div_ceil(self.columns);
        let mut lists: Vec<Vec<Piece>> = vec![Vec::new(); self.columns];
        let (mut column, mut left) = (0, room);
        for span in spans {
            let mut from = 0;
            while from < span.blocks {
                let rest = span.blocks - from;
                if left < ITEM_COST + self.round.min(rest) && column + 1 < self.columns {
                    (column, left) = (column + 1, room);
                }
                let fits = match column + 1 == self.columns {
                    true => rest,
                    false => rest.min(left.saturating_sub(ITEM_COST).max(1)),
                };
                // A sliver costs more than it balances.
                let blocks = if rest - fits < self.round { rest } else { fits };
                let first = span.first + from;
                let piece = Piece {
                    index: span.index,
                    first,
                    blocks,
                    split: 0,
                    splits: 0,
                    together: false,
                };
                lists[column].push(piece);
                left = left.saturating_sub(blocks + ITEM_COST);
                from += blocks;
            }
        }
        number_splits(&mut lists, spans.len());
        lists
    }

    /// Whole pieces over the columns, the next always to the column with the least so far.
    fn spread(&self, mut pieces: Vec<Piece>) -> Vec<Vec<Piece>> {
        pieces.sort_by_key(|piece| std::cmp::Reverse(piece.blocks));
        let mut lists: Vec<Vec<Piece>> = vec![Vec::new(); self.columns];
        let mut loads: std::collections::BinaryHeap<std::cmp::Reverse<(usize, usize)>> =
            (0..self.columns).map(|column| std::cmp::Reverse((0, column))).collect();
        for piece in pieces {
            let Some(std::cmp::Reverse((load, column))) = loads.pop() else { break };
            lists[column].push(piece);
            loads.push(std::cmp::Reverse((load + piece.blocks + ITEM_COST, column)));
        }
        lists
    }
}

fn cut_evenly(span: &Span, splits: usize) -> impl Iterator<Item = Piece> {
    let Span { index, first, blocks } = *span;
    (0..splits).map(move |split| {
        let (from, to) = (split * blocks / splits, (split + 1) * blocks / splits);
        Piece { index, first: first + from, blocks: to - from, split, splits, together: false }
    })
}

/// Pieces of a sequence are numbered in the order of its blocks.
fn number_splits(lists: &mut [Vec<Piece>], sequences: usize) {
    let mut counts = vec![0; sequences];
    for piece in lists.iter_mut().flatten() {
        piece.split = counts[piece.index];
        counts[piece.index] += 1;
    }
    lists.iter_mut().flatten().for_each(|piece| piece.splits = counts[piece.index]);
}

/// Where each sequence's partial results begin, and at the end how many there are. Sequences in one piece have none.
fn slots(lists: &[Vec<Piece>], sequences: usize) -> Vec<usize> {
    let mut splits = vec![0; sequences];
    for piece in lists.iter().flatten().filter(|piece| piece.splits > 1) {
        splits[piece.index] = piece.splits;
    }
    let mut at = 0;
    let mut slots = Vec::with_capacity(sequences + 1);
    for splits in splits {
        slots.push(at);
        at += splits;
    }
    slots.push(at);
    slots
}

fn item(work: &SequenceWork, piece: &Piece, slot: usize) -> Item {
    Item {
        query_row: work.query_row,
        counts: work.queries
            | ((piece.split as u32) << 8)
            | ((piece.splits as u32) << 20)
            | (u32::from(piece.together) << 31),
        position: work.position as i32,
        first_block: piece.first as u32,
        blocks: piece.blocks as u32,
        table_at: work.table_at + piece.first as u32 - work.table_first,
        partial: slot as u32,
        next: 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn work(position: u32, queries: u32, window: Option<usize>) -> SequenceWork {
        let seen = window.map_or(0, |window| (position as usize + 1).saturating_sub(window));
        SequenceWork {
            query_row: 0,
            queries,
            position,
            table_at: 0,
            table_first: (seen / BLOCK_TOKENS) as u32,
        }
    }

    /// Every item, column by column, as (sequence's table_at, first block, blocks, split, splits, slot).
    fn walk(cutting: &Cutting, items: &[Item]) -> Vec<Vec<Item>> {
        let list = |mut at: usize| {
            let mut list = Vec::new();
            while items[at].blocks > 0 {
                list.push(items[at]);
                match items[at].next {
                    0 => break,
                    next => at = next as usize,
                }
            }
            list
        };
        (0..cutting.columns).map(list).collect()
    }

    fn fill(cutting: &Cutting, work: &[SequenceWork]) -> (Vec<Vec<Item>>, usize) {
        let blocks = work.iter().map(|work| work.position / 16 + 2).max().unwrap_or(0);
        let capacity = cutting.capacity(work.len(), blocks as usize);
        let mut items = vec![Item { blocks: 9, ..Item::default() }; capacity];
        let slots = cutting.fill(work, &mut items).expect("room for all");
        assert!(slots <= capacity);
        (walk(cutting, &items), slots)
    }

    /// Each sequence's blocks are covered once, by splits numbered in order, with slots of their own.
    fn check(cutting: &Cutting, works: &[SequenceWork]) {
        let (lists, slots) = fill(cutting, works);
        let mut used = vec![false; slots];
        for (row, work) in works.iter().enumerate() {
            let mut mine: Vec<&Item> =
                lists.iter().flatten().filter(|item| item.query_row == row as u32).collect();
            mine.sort_by_key(|item| item.first_block);
            let span = cutting.span(row, work);
            let mut next = span.first as u32;
            for (split, item) in mine.iter().enumerate() {
                assert_eq!(item.first_block, next);
                assert_eq!(item.table_at, work.table_at + item.first_block - work.table_first);
                assert_eq!((item.counts >> 8) & 0xfff, split as u32);
                assert_eq!((item.counts >> 20) & 0x7ff, mine.len() as u32);
                assert_eq!(item.counts & 0xff, work.queries);
                next += item.blocks;
                if mine.len() > 1 {
                    let slot = item.partial as usize + split;
                    assert!(!std::mem::replace(&mut used[slot], true), "slot {slot} twice");
                }
            }
            assert_eq!(next as usize, span.first + span.blocks);
        }
        assert!(used.iter().all(|used| *used));
    }

    #[test]
    fn a_short_sequence_is_cut_for_many_columns() {
        let cutting = Cutting { columns: 33, window: None, invariant: false, cluster: 1, round: 4 };
        let (lists, slots) = fill(&cutting, &[work(399, 1, None)]);
        assert_eq!(slots, 7);
        assert!(lists[..7].iter().all(|list| list.len() == 1));
        assert!(lists[7..].iter().all(Vec::is_empty));
    }

    #[test]
    fn few_sequences_have_clusters_of_their_own() {
        let cutting = Cutting { columns: 32, window: None, invariant: false, cluster: 8, round: 4 };
        let works = [work(399, 1, None), work(15, 1, None), work(130, 1, None)];
        let (lists, _) = fill(&cutting, &works);
        let filled: Vec<usize> = (0..32).filter(|column| !lists[*column].is_empty()).collect();
        assert_eq!(filled, [0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 18, 19]);
        let together: Vec<bool> = filled.iter().map(|i| lists[*i][0].counts >> 31 == 1).collect();
        assert_eq!(together.iter().filter(|together| !**together).count(), 1);
        let (lists, _) = fill(&cutting, &[work(100_000, 1, None)]);
        assert!(lists.iter().all(|list| list.len() == 1 && list[0].counts >> 31 == 0));
    }

    #[test]
    fn many_long_sequences_load_all_columns_alike() {
        let cutting = Cutting { columns: 33, window: None, invariant: false, cluster: 1, round: 4 };
        let works: Vec<SequenceWork> = (0..64).map(|_| work(2047, 1, None)).collect();
        let (lists, _) = fill(&cutting, &works);
        let loads: Vec<u32> =
            lists.iter().map(|list| list.iter().map(|item| item.blocks).sum()).collect();
        let most = *loads.iter().max().unwrap();
        assert!(most * 33 <= 64 * 128 * 105 / 100, "{loads:?}");
    }

    #[test]
    fn no_sequences_are_no_work() {
        for invariant in [false, true] {
            let cutting = Cutting { columns: 5, window: None, invariant, cluster: 1, round: 4 };
            let (lists, slots) = fill(&cutting, &[]);
            assert!(lists.iter().all(Vec::is_empty));
            assert_eq!(slots, 0);
        }
    }

    #[test]
    fn too_little_room_is_refused() {
        let cutting = Cutting { columns: 1, window: None, invariant: false, cluster: 1, round: 4 };
        let works = vec![work(5, 1, None); 3];
        assert_eq!(cutting.fill(&works, &mut [Item::default(); 2]), None);
    }

    proptest! {
        #[test]
        fn every_block_is_taken_once(
            lengths in prop::collection::vec((0u32..5000, 1u32..9), 0..70),
            columns in 1usize..140,
            window in prop::option::of(1usize..3000),
            invariant: bool,
        ) {
            let cluster = [1, 2, 8][columns % 3];
            let round = if columns % 2 == 0 { 4 } else { 8 };
            let cutting = Cutting { columns, window, invariant, cluster, round };
            let works: Vec<SequenceWork> = lengths.iter().enumerate().map(|(row, (position, queries))| {
                SequenceWork { query_row: row as u32, table_at: 1000 * row as u32, ..work(*position, *queries, window) }
            }).collect();
            check(&cutting, &works);
        }

        #[test]
        fn invariant_splits_do_not_know_the_batch(
            lengths in prop::collection::vec(0u32..5000, 1..40),
            columns in 1usize..140,
        ) {
            let cutting = Cutting { columns, window: None, invariant: true, cluster: 8, round: 4 };
            let pieces = |works: &[SequenceWork], row: u32| {
                let (lists, _) = fill(&cutting, works);
                let mut mine: Vec<(u32, u32, u32)> = lists.iter().flatten()
                    .filter(|item| item.query_row == row)
                    .map(|item| (item.first_block, item.blocks, item.counts))
                    .collect();
                mine.sort_unstable();
                mine
            };
            let works: Vec<SequenceWork> = lengths.iter().enumerate()
                .map(|(row, position)| SequenceWork { query_row: row as u32, ..work(*position, 1, None) })
                .collect();
            for work in &works {
                prop_assert_eq!(pieces(&works, work.query_row), pieces(&[*work], work.query_row));
            }
        }
    }
}
