//! The arena of keys and values: one stretch of device memory, cut by layer and then by block.
//!
//! A layer's part is `[block][key, value][kv_head][BLOCK_SIZE][head_dim]`.

use std::sync::Arc;

use models::semantic::{DecoderSemantic, Mixer};

use crate::{
    driver::{Buffer, DriverError, Gpu, Stream, View, ViewMut},
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

impl KvLayer {
    fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.block_bytes * self.blocks
    }
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

    /// A layer's part.
    pub fn layer(&self, layer: usize) -> View<'_, u8> {
        self.buffer.view().slice(self.layers[layer].range())
    }

    /// A layer's part, to write.
    pub fn layer_mut(&mut self, layer: usize) -> ViewMut<'_, u8> {
        let range = self.layers[layer].range();
        self.buffer.view_mut().slice(range)
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

    use models::semantic::{
        Activation, AttentionSpec, EmbeddingSpec, FeedForward, GatedMlpSpec, HeadSpec, LayerSpec,
        NormSpec,
    };

    #[test]
    fn layers_lie_one_behind_the_other_by_the_blocks_of_their_group() {
        let norm = NormSpec { eps: 1e-6, weight_offset: 0.0 };
        let layer = |window| LayerSpec {
            mixer_pre_norm: Some(norm),
            mixer: Mixer::Attention(AttentionSpec {
                heads: 4,
                kv_heads: 2,
                head_dim: 8,
                scale: 1.0,
                window,
                rope: None,
                qk_norm: None,
                qkv_bias: false,
                output_bias: false,
                softcap: None,
            }),
            mixer_post_norm: None,
            ff_pre_norm: Some(norm),
            feed_forward: FeedForward::Dense(GatedMlpSpec {
                intermediate_size: 16,
                activation: Activation::Silu,
                bias: false,
            }),
            ff_post_norm: None,
            residual_scale: 1.0,
        };
        let semantic = DecoderSemantic {
            hidden_size: 32,
            vocab_size: 10,
            max_positions: 64,
            embedding: EmbeddingSpec { scale: 1.0 },
            layers: vec![layer(Some(32)), layer(None), layer(Some(32))],
            final_norm: norm,
            head: HeadSpec { tied: true, logit_scale: 1.0, softcap: None },
        };
        let (layers, bytes) = lay_out(&semantic, &[5, 3], KvFormat::Bf16);
        let block = 2 * 2 * BLOCK_SIZE * 8 * 2;
        let places: Vec<(usize, usize, usize)> =
            layers.iter().map(|layer| (layer.offset, layer.blocks, layer.group)).collect();
        assert_eq!(places, [(0, 3, 1), (3 * block, 5, 0), (8 * block, 3, 1)]);
        assert_eq!((layers[0].block_bytes, bytes), (block, 11 * block));
        assert_eq!(lay_out(&semantic, &[5, 3], KvFormat::Fp8).1, 11 * block / 2);
    }
}
