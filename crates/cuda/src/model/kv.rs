//! The arena of keys and values: one stretch of device memory, cut by layer and then by block.
//!
//! A layer's part is `[block][key, value][kv_head][BLOCK_SIZE][head_dim]`.

use std::sync::Arc;

use models::semantic::{DecoderSemantic, Mixer};

use crate::{
    driver::{Buffer, DriverError, Gpu, Stream},
    engine::pack::BLOCK_SIZE,
};

/// How a key or a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvFormat {
    /// bf16.
    Bf16,
    /// fp8 e4m3, with a scale for the keys and one for the values of a layer.
    Fp8,
}

impl KvFormat {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            KvFormat::Bf16 => 2,
            KvFormat::Fp8 => 1,
        }
    }
}

/// Keys and values of every layer.
#[derive(Debug)]
pub struct KvArena {
    buffer: Buffer<u8>,
    /// In the order of the layers.
    pub layers: Vec<KvLayer>,
    /// How elements are stored.
    pub format: KvFormat,
    /// For each KV group, its layers.
    pub groups: Vec<Vec<usize>>,
}

/// One layer's part of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvLayer {
    /// Offset in the arena, in bytes.
    pub offset: usize,
    /// Bytes of one block.
    pub block_bytes: usize,
    /// Blocks.
    pub blocks: usize,
    /// Index of the KV group whose tables apply.
    pub group: usize,
}

/// Where every layer lies, and how long the arena is. Parts begin at multiples of 256 bytes.
pub fn lay_out(
    semantic: &DecoderSemantic,
    blocks: &[usize],
    format: KvFormat,
) -> (Vec<KvLayer>, usize) {
    let groups = semantic.kv_groups();
    let mut offset = 0;
    let layer = |(index, layer): (usize, &models::semantic::LayerSpec)| {
        let Mixer::Attention(attention) = &layer.mixer;
        let group = groups.iter().position(|group| group.layers.contains(&index));
        let group = group.expect("kv_groups covers every layer");
        let block_bytes = 2 * attention.kv_heads * BLOCK_SIZE * attention.head_dim * format.size();
        let layer = KvLayer { offset, block_bytes, blocks: blocks[group], group };
        offset = (offset + block_bytes * layer.blocks).next_multiple_of(256);
        layer
    };
    let layers = semantic.layers.iter().enumerate().map(layer).collect();
    (layers, offset)
}

impl KvArena {
    /// An arena with `blocks[g]` blocks in group `g`. What unused slots hold is never read as a number.
    pub fn new(
        gpu: &Arc<Gpu>,
        semantic: &DecoderSemantic,
        blocks: &[usize],
        format: KvFormat,
    ) -> Result<KvArena, DriverError> {
        let (layers, bytes) = lay_out(semantic, blocks, format);
        let groups = semantic.kv_groups().into_iter().map(|group| group.layers).collect();
        Ok(KvArena { buffer: gpu.alloc(bytes)?, layers, format, groups })
    }

    /// Address of a layer's part.
    pub fn address(&self, layer: usize) -> u64 {
        self.buffer.address() + self.layers[layer].offset as u64
    }

    /// Queues a copy of a block in every layer of a group.
    pub fn copy_block(
        &mut self,
        stream: &Stream,
        group: usize,
        from: usize,
        to: usize,
    ) -> Result<(), DriverError> {
        for layer in &self.groups[group] {
            let KvLayer { offset, block_bytes, blocks, .. } = self.layers[*layer];
            assert!(
                from < blocks && to < blocks && from != to,
                "blocks {from} to {to} of {blocks}"
            );
            stream.copy_within(
                &mut self.buffer,
                offset + from * block_bytes,
                offset + to * block_bytes,
                block_bytes,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fp8_takes_half_of_bf16() {
        assert_eq!(KvFormat::Bf16.size(), 2 * KvFormat::Fp8.size());
    }
}
