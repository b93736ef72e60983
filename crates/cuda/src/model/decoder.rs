//! A decoder lowered to the operations of this crate: which kernels each layer takes, with its weights at hand.

use half::bf16;
use models::semantic::{
    AttentionSpec, DecoderSemantic, GatedMlpSpec, LayerSpec, Mixer, NormSpec, QkNormExtent,
    RopeSpec,
};

use super::{buffers::LOGITS_ALIGNMENT, kv::KvFormat, rope::DeviceRope};
use crate::{
    driver::{DriverError, Stream, View},
    ops::{
        attention_decode, attention_prefill,
        heads::{CacheType, Heads},
        rows::NormWeight,
    },
    weights::{DeviceWeights, Matrix, Vector},
};

/// A decoder on the device.
#[derive(Debug)]
pub struct Decoder {
    /// What it means.
    pub semantic: DecoderSemantic,
    /// Its weights.
    pub weights: DeviceWeights,
    /// The distinct rotary embeddings of its layers.
    pub ropes: Vec<DeviceRope>,
    /// The distinct kinds of attention.
    pub attentions: Vec<AttentionKind>,
    /// The layers, first to last.
    pub layers: Vec<Layer>,
}

/// Layers that share their heads' shape, window and KV group: one list of work serves them all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionKind {
    /// Heads and cache.
    pub heads: Heads,
    /// A token sees itself and the `window - 1` before it.
    pub window: Option<usize>,
    /// Multiplies the scores.
    pub scale: f32,
    /// Cap on the scaled scores.
    pub softcap: Option<f32>,
    /// Index of the KV group.
    pub group: usize,
    /// What decode attention can do to the projection by itself; `None`: a norm over whole projections is not its own.
    pub preparation: Option<attention_decode::Preparation>,
}

/// One layer.
#[derive(Clone, Debug)]
pub struct Layer {
    /// What it means.
    pub spec: LayerSpec,
    /// Index into [`Decoder::attentions`].
    pub kind: usize,
    /// Index into [`Decoder::ropes`].
    pub rope: Option<usize>,
}

impl Layer {
    /// Its attention.
    pub fn attention(&self) -> &AttentionSpec {
        let Mixer::Attention(attention) = &self.spec.mixer;
        attention
    }

    /// Its feed-forward, which is the same for every token.
    pub fn mlp(&self) -> &GatedMlpSpec {
        self.spec.feed_forward.dense().expect("whoever asks knows that it is dense")
    }
}

/// The part of lowering that needs no device.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The distinct rotary embeddings.
    pub ropes: Vec<RopeSpec>,
    /// The distinct kinds of attention.
    pub attentions: Vec<AttentionKind>,
    /// The layers.
    pub layers: Vec<Layer>,
}

/// Finds out what layers share.
pub fn lower(semantic: &DecoderSemantic, format: KvFormat) -> Lowered {
    let groups = semantic.kv_groups();
    let mut lowered = Lowered { ropes: Vec::new(), attentions: Vec::new(), layers: Vec::new() };
    for (index, spec) in semantic.layers.iter().enumerate() {
        let Mixer::Attention(attention) = &spec.mixer;
        let group = groups.iter().position(|group| group.layers.contains(&index));
        let kind = AttentionKind {
            heads: Heads {
                heads: attention.heads,
                kv_heads: attention.kv_heads,
                head_dim: attention.head_dim,
                cache: match format {
                    KvFormat::Bf16 => CacheType::Bf16,
                    KvFormat::Fp8 => CacheType::Fp8,
                },
            },
            window: attention.window,
            scale: attention.scale,
            softcap: attention.softcap,
            group: group.expect("kv_groups covers every layer"),
            preparation: preparation(attention),
        };
        let kind = index_of(&mut lowered.attentions, kind);
        let rope = attention.rope.clone().map(|rope| index_of(&mut lowered.ropes, rope));
        lowered.layers.push(Layer { spec: spec.clone(), kind, rope });
    }
    lowered
}

fn preparation(attention: &AttentionSpec) -> Option<attention_decode::Preparation> {
    let extent = attention.qk_norm.map(|norm| norm.extent);
    (extent != Some(QkNormExtent::Projection)).then(|| attention_decode::Preparation {
        rotary_dim: attention.rope.as_ref().map_or(0, |rope| rope.rotary_dim),
        norm: extent.is_some(),
    })
}

/// Where `value` is in `list`, which it joins if it is new.
fn index_of<T: PartialEq>(list: &mut Vec<T>, value: T) -> usize {
    list.iter().position(|known| *known == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}

impl Decoder {
    /// Brings the rotary tables to the device and puts everything together.
    pub fn new(
        stream: &Stream,
        semantic: DecoderSemantic,
        lowered: Lowered,
        weights: DeviceWeights,
    ) -> Result<Decoder, DriverError> {
        let ropes = lowered.ropes.iter().map(|rope| DeviceRope::new(stream, rope));
        Ok(Decoder {
            ropes: ropes.collect::<Result<_, _>>()?,
            semantic,
            weights,
            attentions: lowered.attentions,
            layers: lowered.layers,
        })
    }

    /// A matrix's elements.
    pub fn matrix(&self, matrix: Matrix) -> View<'_, bf16> {
        self.weights.matrix(matrix)
    }

    /// The head's rows, a multiple of eight of them: what lies behind its last row gives logits that nobody reads.
    pub fn head_rows(&self) -> View<'_, bf16> {
        let head = self.weights.parts.head;
        self.matrix(Matrix { rows: head.rows.next_multiple_of(LOGITS_ALIGNMENT), ..head })
    }

    /// A vector's elements.
    pub fn vector(&self, vector: Vector) -> View<'_, f32> {
        self.weights.vector(vector)
    }

    /// A norm with its weight, where the layer has one.
    pub fn norm(&self, weight: Option<Vector>, spec: Option<&NormSpec>) -> Option<NormWeight<'_>> {
        let (weight, spec) = weight.zip(spec)?;
        Some(NormWeight { weight: self.vector(weight), eps: spec.eps })
    }

    /// Whether what a layer's attention gives is added to the stream by its last product: it has no norm of its own and a scale of
    /// 1, and a norm follows.
    pub fn mixer_is_added(&self, layer: usize) -> bool {
        let weights = &self.weights.parts.layers[layer];
        let spec = &self.layers[layer].spec;
        let has_own = self.norm(weights.mixer_post_norm, spec.mixer_post_norm.as_ref()).is_some();
        !has_own && spec.residual_scale == 1.0 && self.ff_pre_norm(layer).is_some()
    }

    /// The same of its feed-forward; behind the last layer's nothing has to follow.
    pub fn ff_is_added(&self, layer: usize) -> bool {
        let weights = &self.weights.parts.layers[layer];
        let spec = &self.layers[layer].spec;
        let has_own = self.norm(weights.ff_post_norm, spec.ff_post_norm.as_ref()).is_some();
        let is_last = layer + 1 == self.layers.len();
        !has_own
            && spec.residual_scale == 1.0
            && (is_last || self.mixer_pre_norm(layer + 1).is_some())
    }

    /// The norm on the way into a layer's attention.
    pub fn mixer_pre_norm(&self, layer: usize) -> Option<NormWeight<'_>> {
        let weight = self.weights.parts.layers[layer].mixer_pre_norm;
        self.norm(weight, self.layers[layer].spec.mixer_pre_norm.as_ref())
    }

    /// The norm on the way into a layer's feed-forward.
    pub fn ff_pre_norm(&self, layer: usize) -> Option<NormWeight<'_>> {
        let weight = self.weights.parts.layers[layer].ff_pre_norm;
        self.norm(weight, self.layers[layer].spec.ff_pre_norm.as_ref())
    }
}

impl AttentionKind {
    /// As prefill attention asks for it.
    pub fn prefill(&self) -> attention_prefill::Attention {
        attention_prefill::Attention {
            heads: self.heads.heads,
            kv_heads: self.heads.kv_heads,
            head_dim: self.heads.head_dim,
            scale: self.scale,
            window: self.window.map(|window| window as u32),
            softcap: self.softcap,
            cache: match self.heads.cache {
                CacheType::Bf16 => attention_prefill::CacheFormat::Bf16,
                CacheType::Fp8 => attention_prefill::CacheFormat::Fp8 { keys: 1.0, values: 1.0 },
            },
        }
    }

    /// As decode attention asks for it, for `sequences` of at most `max_blocks` blocks. `prepares`: it takes the projection
    /// itself, where it can.
    pub fn decode(
        &self,
        sequences: usize,
        max_blocks: usize,
        invariant: bool,
        prepares: bool,
    ) -> attention_decode::Problem {
        attention_decode::Problem {
            heads: self.heads,
            sequences,
            queries: 1,
            max_blocks,
            window: self.window,
            scale: self.scale,
            softcap: self.softcap,
            invariant,
            preparation: self.preparation.filter(|_| prepares),
        }
    }

    /// The same where each sequence has up to `queries` tokens: keys and values are in the cache by then.
    pub fn verify(
        &self,
        sequences: usize,
        queries: usize,
        max_blocks: usize,
    ) -> attention_decode::Problem {
        attention_decode::Problem { queries, ..self.decode(sequences, max_blocks, false, false) }
    }
}
