//! From a contract to a [`Decoder`]: files are mapped, made-up weights are made, vectors are widened.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use foundation::DType;
use models::{
    contract::DecoderExecutionContract,
    mapping::MappedFile,
    semantic::{FeedForward, GatedMlpSpec, LayerSpec, Mixer, NormSpec, RopeSpec, RoutedSpec},
    synthetic,
    weights::{ExpertWeight, LayerWeight, TensorOrigin, TensorStorage, WeightBinding, WeightRole},
};
use rayon::prelude::*;
use runtime::{backend::LoadError, progress::ProgressEvent};

use crate::{
    format::Format,
    model::{AttentionLayer, Decoder, FeedForwardLayer, Layer, Mlp, RoutedLayer},
    ops::{attention::Attention, rms_norm::Norm},
    simd::Isa,
    threads::Threads,
    weights::{Linear, Matrix, WeightBytes},
};

/// Loads every weight of `contract` from `files`, reporting bytes done. `progress` returns `false` to cancel.
pub fn load(
    contract: &DecoderExecutionContract,
    files: &[PathBuf],
    isa: Isa,
    threads: &Threads,
    progress: &mut dyn FnMut(ProgressEvent) -> bool,
) -> Result<Decoder, LoadError> {
    let files: Result<Vec<Arc<MappedFile>>, _> =
        files.iter().map(|path| MappedFile::open(path).map(Arc::new)).collect();
    let total = contract.weight_bytes().0;
    let mut loader = Loader {
        contract,
        bindings: contract.by_role(),
        files: files?,
        isa,
        threads,
        progress,
        done: 0,
        total,
        ropes: Vec::new(),
    };
    loader.decoder()
}

struct Loader<'a> {
    contract: &'a DecoderExecutionContract,
    bindings: HashMap<WeightRole, &'a WeightBinding>,
    files: Vec<Arc<MappedFile>>,
    isa: Isa,
    threads: &'a Threads,
    progress: &'a mut dyn FnMut(ProgressEvent) -> bool,
    done: u64,
    total: u64,
    ropes: Vec<RopeSpec>,
}

impl Loader<'_> {
    fn decoder(&mut self) -> Result<Decoder, LoadError> {
        let semantic = &self.contract.semantic;
        let embedding = self.matrix(WeightRole::TokenEmbedding)?;
        let layers: Result<Vec<Layer>, LoadError> =
            semantic.layers.iter().zip(0..).map(|(spec, index)| self.layer(index, spec)).collect();
        // Here, not later: a cancelled load must ask for nothing more.
        let layers = layers?;
        let final_norm = self.norm(WeightRole::FinalNorm, &semantic.final_norm)?;
        let head = match semantic.head.tied {
            true => None,
            false => Some(Linear { weight: self.matrix(WeightRole::Head)?, bias: None }),
        };
        Ok(Decoder {
            semantic: semantic.clone(),
            embedding,
            layers,
            final_norm,
            head,
            ropes: std::mem::take(&mut self.ropes),
        })
    }

    fn layer(&mut self, index: u32, spec: &LayerSpec) -> Result<Layer, LoadError> {
        let role = |weight| WeightRole::Layer(index, weight);
        let mut norm = |weight, spec: &Option<NormSpec>| {
            spec.as_ref().map(|spec| self.norm(role(weight), spec)).transpose()
        };
        Ok(Layer {
            mixer_pre_norm: norm(LayerWeight::MixerPreNorm, &spec.mixer_pre_norm)?,
            mixer_post_norm: norm(LayerWeight::MixerPostNorm, &spec.mixer_post_norm)?,
            ff_pre_norm: norm(LayerWeight::FeedForwardPreNorm, &spec.ff_pre_norm)?,
            ff_post_norm: norm(LayerWeight::FeedForwardPostNorm, &spec.ff_post_norm)?,
            attention: self.attention(index, &spec.mixer)?,
            feed_forward: self.feed_forward(index, &spec.feed_forward)?,
            residual_scale: spec.residual_scale,
        })
    }

    fn attention(&mut self, index: u32, mixer: &Mixer) -> Result<AttentionLayer, LoadError> {
        let Mixer::Attention(spec) = mixer;
        let role = |weight| WeightRole::Layer(index, weight);
        let bias = |present: bool, weight| present.then_some(role(weight));
        let qk_norm = match &spec.qk_norm {
            None => None,
            Some(qk) => Some((
                self.norm(role(LayerWeight::QueryNorm), &qk.norm)?,
                self.norm(role(LayerWeight::KeyNorm), &qk.norm)?,
            )),
        };
        Ok(AttentionLayer {
            op: Attention {
                heads: spec.heads,
                kv_heads: spec.kv_heads,
                head_dim: spec.head_dim,
                scale: spec.scale,
                window: spec.window,
                softcap: spec.softcap,
            },
            query: self
                .linear(role(LayerWeight::Query), bias(spec.qkv_bias, LayerWeight::QueryBias))?,
            key: self.linear(role(LayerWeight::Key), bias(spec.qkv_bias, LayerWeight::KeyBias))?,
            value: self
                .linear(role(LayerWeight::Value), bias(spec.qkv_bias, LayerWeight::ValueBias))?,
            output: self.linear(
                role(LayerWeight::AttentionOutput),
                bias(spec.output_bias, LayerWeight::AttentionOutputBias),
            )?,
            qk_norm,
            rope: spec.rope.as_ref().map(|rope| self.rope(rope)),
        })
    }

    fn feed_forward(
        &mut self,
        index: u32,
        feed_forward: &FeedForward,
    ) -> Result<FeedForwardLayer, LoadError> {
        let role = |weight| WeightRole::Layer(index, weight);
        match feed_forward {
            FeedForward::Dense(spec) => {
                let bias = |weight| spec.bias.then_some(role(weight));
                let parts = [
                    (role(LayerWeight::Gate), bias(LayerWeight::GateBias)),
                    (role(LayerWeight::Up), bias(LayerWeight::UpBias)),
                    (role(LayerWeight::Down), bias(LayerWeight::DownBias)),
                ];
                self.mlp(spec, parts).map(|mlp| FeedForwardLayer::Dense(Box::new(mlp)))
            }
            FeedForward::Routed(spec) => {
                self.routed(index, spec).map(|layer| FeedForwardLayer::Routed(Box::new(layer)))
            }
        }
    }

    fn routed(&mut self, index: u32, spec: &RoutedSpec) -> Result<RoutedLayer, LoadError> {
        let role = |weight| WeightRole::Layer(index, weight);
        let router = self.linear(role(LayerWeight::Router), None)?;
        let correction = spec.router.correction.then_some(role(LayerWeight::RouterCorrection));
        let correction = correction.map(|role| self.vector(role)).transpose()?;
        let expert = |this: &mut Self, expert: u16| {
            let role = |weight| (WeightRole::Expert(index, expert, weight), None);
            let parts = [ExpertWeight::Gate, ExpertWeight::Up, ExpertWeight::Down].map(role);
            this.mlp(&spec.expert, parts)
        };
        let experts = (0..spec.experts as u16).map(|number| expert(self, number));
        // Here, not later: a cancelled load must ask for nothing more.
        let experts = experts.collect::<Result<Vec<Mlp>, LoadError>>()?;
        let shared = match &spec.shared {
            None => None,
            Some(shared) => {
                let parts =
                    [LayerWeight::SharedGate, LayerWeight::SharedUp, LayerWeight::SharedDown];
                let mlp = self.mlp(&shared.mlp, parts.map(|weight| (role(weight), None)))?;
                let gate = shared.gated.then_some(role(LayerWeight::SharedExpertGate));
                let gate = gate.map(|role| self.linear(role, None)).transpose()?;
                Some((mlp, gate))
            }
        };
        Ok(RoutedLayer { spec: *spec, router, correction, experts, shared })
    }

    /// Gate, up and down, each with its bias.
    fn mlp(
        &mut self,
        spec: &GatedMlpSpec,
        [gate, up, down]: [(WeightRole, Option<WeightRole>); 3],
    ) -> Result<Mlp, LoadError> {
        Ok(Mlp {
            gate: self.linear(gate.0, gate.1)?,
            up: self.linear(up.0, up.1)?,
            down: self.linear(down.0, down.1)?,
            activation: spec.activation,
        })
    }

    /// Index of `rope` among the distinct ones.
    fn rope(&mut self, rope: &RopeSpec) -> usize {
        self.ropes.iter().position(|known| known == rope).unwrap_or_else(|| {
            self.ropes.push(rope.clone());
            self.ropes.len() - 1
        })
    }

    fn linear(
        &mut self,
        weight: WeightRole,
        bias: Option<WeightRole>,
    ) -> Result<Linear, LoadError> {
        let weight = self.matrix(weight)?;
        let bias = bias.map(|role| self.vector(role)).transpose()?;
        Ok(Linear { weight, bias })
    }

    fn norm(&mut self, role: WeightRole, spec: &NormSpec) -> Result<Norm, LoadError> {
        let mut weight = self.vector(role)?;
        weight.iter_mut().for_each(|value| *value += spec.weight_offset);
        Ok(Norm { weight, eps: spec.eps })
    }

    fn vector(&mut self, role: WeightRole) -> Result<Vec<f32>, LoadError> {
        Ok(self.matrix(role)?.widen(self.isa))
    }

    fn matrix(&mut self, role: WeightRole) -> Result<Matrix, LoadError> {
        let binding = *self
            .bindings
            .get(&role)
            .ok_or_else(|| LoadError::Checkpoint(format!("the contract has no weight {role:?}")))?;
        let (rows, cols) = match *binding.shape {
            [rows, cols] => (rows, cols),
            [cols] => (1, cols),
            ref shape => return Err(unfit(role, format!("has the shape {shape:?}"))),
        };
        let TensorStorage::Dense { dtype, .. } = &binding.storage;
        let format =
            Format::of(*dtype).ok_or_else(|| unfit(role, format!("is stored as {dtype}")))?;
        let bytes = self.bytes(binding, *dtype, rows * cols * format.size())?;
        self.report(binding)?;
        Ok(Matrix::new(bytes, format, rows, cols))
    }

    fn bytes(
        &self,
        binding: &WeightBinding,
        dtype: DType,
        length: usize,
    ) -> Result<WeightBytes, LoadError> {
        let TensorStorage::Dense { origin, .. } = &binding.storage;
        match origin {
            TensorOrigin::Synthetic { seed, std, mean } => {
                Ok(WeightBytes::Owned(make_up(self.threads, *seed, *std, *mean, dtype, length)))
            }
            TensorOrigin::File(region) => {
                let file = self.files.get(region.file);
                let range = usize::try_from(region.offset).ok().and_then(|start| {
                    let end = start.checked_add(usize::try_from(region.bytes).ok()?)?;
                    Some(start..end)
                });
                match (file, range) {
                    (Some(file), Some(range))
                        if range.end <= file.bytes().len() && range.len() == length =>
                    {
                        touch(self.threads, &file.bytes()[range.clone()]);
                        Ok(WeightBytes::Mapped { file: Arc::clone(file), range })
                    }
                    (file, _) => Err(unfit(
                        binding.role,
                        format!(
                            "needs {length} bytes, but {region:?} of {} files gives them not; its file has {} bytes",
                            self.files.len(),
                            file.map_or(0, |file| file.bytes().len())
                        ),
                    )),
                }
            }
        }
    }

    fn report(&mut self, binding: &WeightBinding) -> Result<(), LoadError> {
        self.done += binding.stored_bytes().0;
        let detail = binding.role.part();
        match (self.progress)(ProgressEvent::load_weights(self.done, self.total, detail)) {
            true => Ok(()),
            false => Err(LoadError::Cancelled),
        }
    }
}

fn unfit(role: WeightRole, what: String) -> LoadError {
    LoadError::Checkpoint(format!("weight {role:?} {what}"))
}

/// Reads one byte of every page, so that the first request does not wait for the disk.
fn touch(threads: &Threads, bytes: &[u8]) {
    const PAGE: usize = 4096;
    const CHUNK: usize = 256 * PAGE;
    let sum: u64 = threads.enter(|| {
        let touch_chunk =
            |chunk: &[u8]| chunk.iter().step_by(PAGE).map(|b| u64::from(*b)).sum::<u64>();
        bytes.par_chunks(CHUNK).map(touch_chunk).sum()
    });
    std::hint::black_box(sum);
}

/// Fills a made-up weight; which thread fills which part does not change it.
fn make_up(
    threads: &Threads,
    seed: u64,
    std: f32,
    mean: f32,
    dtype: DType,
    length: usize,
) -> Vec<u8> {
    const CHUNK: usize = 1 << 18;
    let mut bytes = vec![0; length];
    let element = dtype.size();
    threads.enter(|| {
        bytes.par_chunks_mut(CHUNK * element).enumerate().for_each(|(chunk, bytes)| {
            synthetic::fill(seed, (chunk * CHUNK) as u64, std, mean, dtype, bytes);
        });
    });
    bytes
}
