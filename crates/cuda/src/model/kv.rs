//! The arena of keys and values: one stretch of device memory, cut by KV group, then by layer, then by block.
//!
//! Layers of a group lie one behind the other, so that a block of all of them is a row of each of so many planes: one copy to or
//! from the host. A layer's part is `[block][key, value][kv_head][BLOCK_SIZE][head_dim]`.

use std::sync::Arc;

use models::semantic::{AttentionSpec, DecoderSemantic, KvGroup, Mixer};

use crate::{
    driver::{Buffer, DriverError, Gpu, Planes, Stream, View, ViewMut},
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

/// Where every layer lies, and how long the arena is. Groups begin at multiples of 256 bytes; so does every block whose size is one.
pub fn lay_out(
    semantic: &DecoderSemantic,
    blocks: &[usize],
    format: KvFormat,
) -> (Vec<KvLayer>, usize) {
    let mut layers = vec![None; semantic.layers.len()];
    let mut offset: usize = 0;
    for (group, KvGroup { layers: indices, .. }) in semantic.kv_groups().into_iter().enumerate() {
        offset = offset.next_multiple_of(256);
        for index in indices {
            let Mixer::Attention(attention) = &semantic.layers[index].mixer;
            let AttentionSpec { kv_heads, head_dim, .. } = *attention;
            let block_bytes = 2 * kv_heads * BLOCK_SIZE * head_dim * format.size();
            let blocks = blocks[group];
            layers[index] = Some(KvLayer { offset, block_bytes, blocks, group });
            offset += block_bytes * blocks;
        }
    }
    let layers = layers.into_iter().map(|layer| layer.expect("kv_groups covers every layer"));
    (layers.collect(), offset)
}

/// Layers of one group that lie one behind the other and have blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Where the first layer begins in the arena, in bytes.
    pub offset: usize,
    /// A row is a block, a plane a layer.
    pub planes: Planes,
}

/// The layers of a group, of which `layers` tells where they lie, in as few stretches as there can be.
fn stretches(layers: &[KvLayer], group: usize) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for layer in layers.iter().filter(|layer| layer.group == group) {
        let KvLayer { offset, block_bytes, blocks, .. } = *layer;
        match stretches.last_mut() {
            Some(last) if last.planes.row_bytes == block_bytes => last.planes.count += 1,
            _ => {
                let planes = Planes { count: 1, rows: blocks, row_bytes: block_bytes };
                stretches.push(Stretch { offset, planes });
            }
        }
    }
    stretches
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

    /// Where the layers of a group lie.
    pub fn stretches(&self, group: usize) -> Vec<Stretch> {
        stretches(&self.layers, group)
    }

    /// Address of the arena on the device.
    pub fn address(&self) -> u64 {
        self.buffer.address()
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
pub(crate) mod tests {
    use super::*;

    use models::semantic::{
        Activation, EmbeddingSpec, FeedForward, GatedMlpSpec, HeadSpec, LayerSpec, NormSpec,
    };

    /// Three layers, the middle one alone without a window.
    pub(crate) fn semantic() -> DecoderSemantic {
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
        DecoderSemantic {
            draft_layers: 0,
            hidden_size: 32,
            vocab_size: 10,
            max_positions: 64,
            embedding: EmbeddingSpec { scale: 1.0 },
            layers: vec![layer(Some(32)), layer(None), layer(Some(32))],
            final_norm: norm,
            head: HeadSpec { tied: true, logit_scale: 1.0, softcap: None },
        }
    }

    #[test]
    fn layers_of_a_group_lie_one_behind_the_other() {
        let semantic = semantic();
        let (layers, bytes) = lay_out(&semantic, &[5, 3], KvFormat::Bf16);
        let block = 2 * 2 * BLOCK_SIZE * 8 * 2;
        let places: Vec<(usize, usize, usize)> =
            layers.iter().map(|layer| (layer.offset, layer.blocks, layer.group)).collect();
        assert_eq!(places, [(5 * block, 3, 1), (0, 5, 0), (8 * block, 3, 1)]);
        assert_eq!((layers[0].block_bytes, bytes), (block, 11 * block));
        let planes = |count, rows| Planes { count, rows, row_bytes: block };
        assert_eq!(stretches(&layers, 0), [Stretch { offset: 0, planes: planes(1, 5) }]);
        assert_eq!(stretches(&layers, 1), [Stretch { offset: 5 * block, planes: planes(2, 3) }]);
        assert_eq!(lay_out(&semantic, &[5, 3], KvFormat::Fp8).1, 11 * block / 2);
    }
}
