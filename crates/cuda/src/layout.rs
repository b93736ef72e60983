//! Which weight goes where: the arena's layout, made from the contract alone before a byte is read.

use std::{collections::HashMap, ops::Range};

use models::{
    contract::DecoderExecutionContract,
    semantic::{FeedForward, LayerSpec, Mixer, NormSpec},
    weights::{ExpertWeight, LayerWeight, WeightBinding, WeightRole},
};
use runtime::backend::LoadError;

use crate::weights::{
    DecoderWeights, DenseWeights, FeedForwardWeights, GATE_UP_GROUP, LayerWeights, Matrix,
    RoutedWeights, Vector,
};

/// What every part of the arena is aligned to, in bytes: bulk copies and tensor maps want 128, the driver gives 256.
pub const ALIGNMENT: u64 = 256;

/// The arena of a decoder's weights.
#[derive(Clone, Debug, PartialEq)]
pub struct ArenaLayout {
    /// Size of the arena.
    pub bytes: u64,
    /// Its bytes that hold the vectors: norms and biases, a few for each layer, one after another.
    pub vectors: Range<u64>,
    /// The parts of an arena that begins at address 0.
    pub parts: DecoderWeights,
    /// Where the elements of each weight of the contract go, in its order.
    pub targets: Vec<Target>,
}

/// Where the elements of one stored weight go: in runs of `run` elements, each beginning `pitch` elements behind the one
/// before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// What the elements become.
    pub element: Element,
    /// First byte, from the arena's start.
    pub offset: u64,
    /// Elements of the weight.
    pub elements: u64,
    /// Elements that lie one after another; divides `elements`.
    pub run: u64,
    /// Elements from the first of a run to the first of the next.
    pub pitch: u64,
}

/// What a stored element becomes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element {
    /// bf16, rounded to nearest: an element of a matrix.
    Bf16,
    /// f32, after `add` was added: an element of a vector.
    F32 {
        /// A norm's offset; 0 for a bias.
        add: f32,
    },
}

impl Element {
    /// Bytes of one.
    pub fn size(self) -> u64 {
        match self {
            Element::Bf16 => 2,
            Element::F32 { .. } => 4,
        }
    }
}

impl Target {
    /// The byte of the arena where element `index` begins.
    pub fn place(&self, index: u64) -> u64 {
        let (run, within) = (index / self.run, index % self.run);
        self.offset + (run * self.pitch + within) * self.element.size()
    }
}

impl ArenaLayout {
    /// The layout for the weights of `contract`.
    ///
    /// # Errors
    /// [`LoadError::Checkpoint`] for a weight that is missing, superfluous or of a shape that does not fuse; admission has
    /// seen to all of it.
    pub fn new(contract: &DecoderExecutionContract) -> Result<ArenaLayout, LoadError> {
        let mut builder = Builder::new(contract);
        let parts = builder.decoder()?;
        let mut targets = Vec::with_capacity(builder.targets.len());
        for (target, binding) in builder.targets.iter().zip(&contract.bindings) {
            targets.push(target.ok_or_else(|| unfit(binding.role, "is read by nothing"))?);
        }
        let vectors = 0..builder.vectors.at;
        // The head is read in rows of eight: what lies behind its last row is never looked at, but it must be memory.
        let bytes = builder.matrices.at + 7 * contract.semantic.hidden_size as u64 * 2;
        Ok(ArenaLayout { bytes, vectors, parts, targets })
    }
}

/// How weights become one part of the arena.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fusion {
    /// The rows of one after those of the other.
    Stacked,
    /// In turn, [`GATE_UP_GROUP`] rows of each.
    Interleaved,
}

/// Hands out bytes one after another.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    at: u64,
}

impl Cursor {
    fn take(&mut self, bytes: u64) -> u64 {
        let start = self.at;
        self.at = (start + bytes).next_multiple_of(ALIGNMENT);
        start
    }
}

struct Builder<'a> {
    contract: &'a DecoderExecutionContract,
    index: HashMap<WeightRole, usize>,
    targets: Vec<Option<Target>>,
    vectors: Cursor,
    matrices: Cursor,
}

impl<'a> Builder<'a> {
    fn new(contract: &'a DecoderExecutionContract) -> Self {
        let index = contract.bindings.iter().enumerate();
        let vectors = contract.bindings.iter().filter(|binding| binding.shape.len() == 1);
        let aligned =
            |binding: &WeightBinding| (binding.shape[0] as u64 * 4).next_multiple_of(ALIGNMENT);
        Builder {
            contract,
            index: index.map(|(index, binding)| (binding.role, index)).collect(),
            targets: vec![None; contract.bindings.len()],
            vectors: Cursor { at: 0 },
            // Behind all vectors; fused ones need no more than their parts.
            matrices: Cursor { at: vectors.map(aligned).sum() },
        }
    }

    fn decoder(&mut self) -> Result<DecoderWeights, LoadError> {
        let semantic = &self.contract.semantic;
        let embedding = self.matrix(WeightRole::TokenEmbedding)?;
        let layers: Result<Vec<LayerWeights>, LoadError> = semantic
            .layers
            .iter()
            .zip(0..)
            .map(|(layer, index)| self.layer(index, layer))
            .collect();
        let layers = layers?;
        let final_norm = self.norm(WeightRole::FinalNorm, &semantic.final_norm)?;
        let head = match semantic.head.tied {
            true => embedding,
            false => self.matrix(WeightRole::Head)?,
        };
        Ok(DecoderWeights { embedding, layers, final_norm, head })
    }

    fn layer(&mut self, index: u32, layer: &LayerSpec) -> Result<LayerWeights, LoadError> {
        let role = |weight| WeightRole::Layer(index, weight);
        let Mixer::Attention(attention) = &layer.mixer;
        let qkv = [LayerWeight::Query, LayerWeight::Key, LayerWeight::Value].map(role);
        let qkv_bias =
            [LayerWeight::QueryBias, LayerWeight::KeyBias, LayerWeight::ValueBias].map(role);
        let qk = attention.qk_norm.map(|qk| qk.norm);
        let stacked = Fusion::Stacked;
        let output_bias = [role(LayerWeight::AttentionOutputBias)];
        Ok(LayerWeights {
            mixer_pre_norm: self
                .maybe_norm(role(LayerWeight::MixerPreNorm), &layer.mixer_pre_norm)?,
            qkv: self.fused(&qkv, stacked)?,
            qkv_bias: self.maybe_bias(attention.qkv_bias, &qkv_bias, stacked)?,
            query_norm: self.maybe_norm(role(LayerWeight::QueryNorm), &qk)?,
            key_norm: self.maybe_norm(role(LayerWeight::KeyNorm), &qk)?,
            output: self.matrix(role(LayerWeight::AttentionOutput))?,
            output_bias: self.maybe_bias(attention.output_bias, &output_bias, stacked)?,
            mixer_post_norm: self
                .maybe_norm(role(LayerWeight::MixerPostNorm), &layer.mixer_post_norm)?,
            ff_pre_norm: self
                .maybe_norm(role(LayerWeight::FeedForwardPreNorm), &layer.ff_pre_norm)?,
            feed_forward: self.feed_forward(index, &layer.feed_forward)?,
            ff_post_norm: self
                .maybe_norm(role(LayerWeight::FeedForwardPostNorm), &layer.ff_post_norm)?,
        })
    }

    fn feed_forward(
        &mut self,
        index: u32,
        feed_forward: &FeedForward,
    ) -> Result<FeedForwardWeights, LoadError> {
        let role = |weight| WeightRole::Layer(index, weight);
        let routed = match feed_forward {
            FeedForward::Dense(mlp) => {
                let bias = [LayerWeight::GateBias, LayerWeight::UpBias].map(role);
                let down_bias = [role(LayerWeight::DownBias)];
                return Ok(FeedForwardWeights::Dense(DenseWeights {
                    gate_up_bias: self.maybe_bias(mlp.bias, &bias, Fusion::Interleaved)?,
                    down_bias: self.maybe_bias(mlp.bias, &down_bias, Fusion::Stacked)?,
                    ..self
                        .dense([LayerWeight::Gate, LayerWeight::Up, LayerWeight::Down].map(role))?
                }));
            }
            FeedForward::Routed(routed) => routed,
        };
        let shared = [LayerWeight::SharedGate, LayerWeight::SharedUp, LayerWeight::SharedDown];
        let correction = routed.router.correction.then_some([role(LayerWeight::RouterCorrection)]);
        let expert = |number, weight| WeightRole::Expert(index, number, weight);
        let gate_up =
            |number| vec![expert(number, ExpertWeight::Gate), expert(number, ExpertWeight::Up)];
        let experts = 0..routed.experts as u16;
        Ok(FeedForwardWeights::Routed(RoutedWeights {
            router: self.matrix(role(LayerWeight::Router))?,
            correction: correction
                .map(|roles| self.vector(&roles, Fusion::Stacked, 0.0))
                .transpose()?,
            gate_up: self.stacked(experts.clone().map(gate_up))?,
            down: self.stacked(experts.map(|number| vec![expert(number, ExpertWeight::Down)]))?,
            shared: routed.shared.map(|_| self.dense(shared.map(role))).transpose()?,
        }))
    }

    /// Gate, up and down without biases.
    fn dense(&mut self, [gate, up, down]: [WeightRole; 3]) -> Result<DenseWeights, LoadError> {
        Ok(DenseWeights {
            gate_up: self.fused(&[gate, up], Fusion::Interleaved)?,
            gate_up_bias: None,
            down: self.matrix(down)?,
            down_bias: None,
        })
    }

    /// A matrix of each expert, one after the other without gaps; the roles of one interleaved.
    fn stacked(
        &mut self,
        experts: impl Iterator<Item = Vec<WeightRole>>,
    ) -> Result<Matrix, LoadError> {
        let mut all: Option<Matrix> = None;
        for roles in experts {
            let fusion = if roles.len() > 1 { Fusion::Interleaved } else { Fusion::Stacked };
            let own = self.fused(&roles, fusion)?;
            let Some(all) = &mut all else {
                all = Some(own);
                continue;
            };
            if own.cols != all.cols || own.address != all.address + all.bytes() {
                return Err(unfit(roles[0], "does not lie right behind the expert before it"));
            }
            all.rows += own.rows;
        }
        all.ok_or_else(|| LoadError::Checkpoint("a routed feed-forward has no experts".to_owned()))
    }

    fn matrix(&mut self, role: WeightRole) -> Result<Matrix, LoadError> {
        self.fused(&[role], Fusion::Stacked)
    }

    fn fused(&mut self, roles: &[WeightRole], fusion: Fusion) -> Result<Matrix, LoadError> {
        let (address, rows, cols) = self.place(roles, fusion, Element::Bf16)?;
        Ok(Matrix { address, rows, cols })
    }

    fn maybe_bias(
        &mut self,
        is_there: bool,
        roles: &[WeightRole],
        fusion: Fusion,
    ) -> Result<Option<Vector>, LoadError> {
        is_there.then(|| self.vector(roles, fusion, 0.0)).transpose()
    }

    fn maybe_norm(
        &mut self,
        role: WeightRole,
        spec: &Option<NormSpec>,
    ) -> Result<Option<Vector>, LoadError> {
        spec.as_ref().map(|spec| self.norm(role, spec)).transpose()
    }

    fn norm(&mut self, role: WeightRole, spec: &NormSpec) -> Result<Vector, LoadError> {
        self.vector(&[role], Fusion::Stacked, spec.weight_offset)
    }

    fn vector(
        &mut self,
        roles: &[WeightRole],
        fusion: Fusion,
        add: f32,
    ) -> Result<Vector, LoadError> {
        let (address, len, _) = self.place(roles, fusion, Element::F32 { add })?;
        Ok(Vector { address, len })
    }

    /// Fuses weights into one part of the arena: its first byte, its rows and its columns. A vector has one column.
    fn place(
        &mut self,
        roles: &[WeightRole],
        fusion: Fusion,
        element: Element,
    ) -> Result<(u64, usize, usize), LoadError> {
        let shapes: Result<Vec<_>, _> =
            roles.iter().map(|role| self.shape(*role, element)).collect();
        let shapes = shapes?;
        let (first, cols) = (shapes[0].1, shapes[0].2);
        let rows: usize = shapes.iter().map(|(_, rows, _)| rows).sum();
        for ((_, own_rows, own_cols), role) in shapes.iter().zip(roles) {
            let divides = *own_rows == first && own_rows.is_multiple_of(GATE_UP_GROUP);
            if *own_cols != cols || fusion == Fusion::Interleaved && !divides {
                let shape = format!("of {own_rows} rows and {own_cols} columns does not fuse");
                return Err(unfit(*role, &shape));
            }
        }
        let cursor = match element {
            Element::Bf16 => &mut self.matrices,
            Element::F32 { .. } => &mut self.vectors,
        };
        let start = cursor.take((rows * cols) as u64 * element.size());
        let mut before = 0;
        for (index, own_rows, _) in shapes {
            let elements = (own_rows * cols) as u64;
            let group = (GATE_UP_GROUP * cols) as u64;
            let (skip, run, pitch) = match fusion {
                Fusion::Stacked => (elements, elements, elements),
                Fusion::Interleaved => (group, group, group * roles.len() as u64),
            };
            let offset = start + before * element.size();
            self.targets[index] = Some(Target { element, offset, elements, run, pitch });
            before += skip;
        }
        Ok((start, rows, cols))
    }

    /// Index, rows and columns of a weight.
    fn shape(
        &self,
        role: WeightRole,
        element: Element,
    ) -> Result<(usize, usize, usize), LoadError> {
        let index = *self.index.get(&role).ok_or_else(|| unfit(role, "is not in the contract"))?;
        match (&self.contract.bindings[index].shape[..], element) {
            ([rows, cols], Element::Bf16) => Ok((index, *rows, *cols)),
            ([len], Element::F32 { .. }) => Ok((index, *len, 1)),
            (shape, _) => Err(unfit(role, &format!("has the shape {shape:?}"))),
        }
    }
}

fn unfit(role: WeightRole, what: &str) -> LoadError {
    LoadError::Checkpoint(format!("weight {role:?} {what}"))
}

#[cfg(test)]
mod tests;
