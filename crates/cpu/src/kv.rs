//! The cache of keys and values: one arena for each layer, cut into blocks that the layer's KV group hands out.
//!
//! Layout of a layer's keys, and of its values: `[block][kv_head][slot][head_dim]`, float32. What attention reads in one
//! go, the keys of one head in one block, lies together.

use foundation::BlockId;
use models::semantic::{DecoderSemantic, Mixer};
use runtime::batch::BlockTable;

/// Tokens in a block.
pub const BLOCK_SIZE: usize = 16;

/// Keys and values of every layer.
#[derive(Debug)]
pub struct KvCache {
    /// For each layer, in order.
    pub layers: Vec<KvLayer>,
    /// For each KV group, the layers in it.
    groups: Vec<Vec<usize>>,
}

/// Keys and values of one layer.
#[derive(Debug)]
pub struct KvLayer {
    /// Index of the KV group whose tables apply.
    pub group: usize,
    heads: usize,
    head_dim: usize,
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// Bytes of keys and values of one layer and token.
pub fn bytes_per_token(kv_heads: usize, head_dim: usize) -> u64 {
    (2 * kv_heads * head_dim * size_of::<f32>()) as u64
}

impl KvCache {
    /// A cache with `blocks[g]` blocks in group `g`. The memory is zeroed, and becomes resident as it is used.
    pub fn new(semantic: &DecoderSemantic, blocks: &[usize]) -> KvCache {
        let groups: Vec<Vec<usize>> =
            semantic.kv_groups().into_iter().map(|group| group.layers).collect();
        let layer = |(index, layer): (usize, &models::semantic::LayerSpec)| {
            let Mixer::Attention(attention) = &layer.mixer;
            let group = groups.iter().position(|layers| layers.contains(&index));
            let group = group.expect("kv_groups covers every layer");
            let (heads, head_dim) = (attention.kv_heads, attention.head_dim);
            let elements = blocks[group] * heads * BLOCK_SIZE * head_dim;
            let (keys, values) = (vec![0.0; elements], vec![0.0; elements]);
            KvLayer { group, heads, head_dim, keys, values }
        };
        let layers = semantic.layers.iter().enumerate().map(layer).collect();
        KvCache { layers, groups }
    }

    /// Copies a block of every layer of a group.
    pub fn copy_block(&mut self, group: usize, from: BlockId, to: BlockId) {
        for layer in &self.groups[group] {
            let layer = &mut self.layers[*layer];
            let size = layer.heads * BLOCK_SIZE * layer.head_dim;
            let (from, to) = (from.0 as usize * size, to.0 as usize * size);
            layer.keys.copy_within(from..from + size, to);
            layer.values.copy_within(from..from + size, to);
        }
    }
}

impl KvLayer {
    /// Stores key and value, `[kv_heads * head_dim]` each, of the sequence's token `token`.
    pub fn write(&mut self, table: &BlockTable, token: usize, key: &[f32], value: &[f32]) {
        let block = physical_block(table, token);
        let heads = key.chunks(self.head_dim).zip(value.chunks(self.head_dim));
        for (head, (key, value)) in heads.enumerate() {
            let at =
                ((block * self.heads + head) * BLOCK_SIZE + token % BLOCK_SIZE) * self.head_dim;
            self.keys[at..at + self.head_dim].copy_from_slice(key);
            self.values[at..at + self.head_dim].copy_from_slice(value);
        }
    }

    /// Keys of one head in the block that holds token `token`, `[BLOCK_SIZE, head_dim]`.
    pub fn block_keys(&self, table: &BlockTable, token: usize, head: usize) -> &[f32] {
        &self.keys[self.block_range(table, token, head)]
    }

    /// Values of one head in the block that holds token `token`, `[BLOCK_SIZE, head_dim]`.
    pub fn block_values(&self, table: &BlockTable, token: usize, head: usize) -> &[f32] {
        &self.values[self.block_range(table, token, head)]
    }

    fn block_range(&self, table: &BlockTable, token: usize, head: usize) -> std::ops::Range<usize> {
        let size = BLOCK_SIZE * self.head_dim;
        let at = (physical_block(table, token) * self.heads + head) * size;
        at..at + size
    }
}

fn physical_block(table: &BlockTable, token: usize) -> usize {
    table.blocks[token / BLOCK_SIZE - table.first as usize].0 as usize
}
