//! All operations that executing a decoder takes, their kernels resolved once.

use std::sync::Arc;

use super::{
    activation::Activation, attention_decode::AttentionDecode, attention_prefill::AttentionPrefill,
    embed::Embed, experts::Experts, finish_logits::FinishLogits, gather::Gather, gemm::Gemm,
    qkv_prepare::QkvPrepare, residual_norm::ResidualNorm, rms_norm::RmsNorm, routing::Routing,
    sample::Sample, skinny::Skinny,
};
use crate::driver::{DriverError, Gpu, cublaslt::Cublaslt};

/// The operations, ready to launch.
#[derive(Debug)]
pub struct Ops {
    /// Rows of the embedding.
    pub embed: Embed,
    /// Queries, keys and values into attention.
    pub qkv_prepare: QkvPrepare,
    /// Attention of rows that decode.
    pub attention_decode: AttentionDecode,
    /// Attention of runs that prefill.
    pub attention_prefill: AttentionPrefill,
    /// Branches back into the residual stream.
    pub residual_norm: ResidualNorm,
    /// Norms.
    pub rms_norm: RmsNorm,
    /// Gates and what they let through, where a product leaves them apart.
    pub activation: Activation,
    /// Matrix products.
    pub gemm: Gemm,
    /// Matrix products of few rows.
    pub skinny: Skinny,
    /// Which experts tokens visit.
    pub routing: Routing,
    /// Matrix products with experts.
    pub experts: Experts,
    /// Rows picked by a list.
    pub gather: Gather,
    /// The head's scale and cap.
    pub finish_logits: FinishLogits,
    /// Tokens from logits.
    pub sample: Sample,
}

impl Ops {
    /// Resolves every kernel for `gpu`.
    pub fn load(gpu: &Arc<Gpu>) -> Result<Ops, DriverError> {
        Ok(Ops {
            embed: Embed::load(gpu)?,
            qkv_prepare: QkvPrepare::load(gpu)?,
            attention_decode: AttentionDecode::load(gpu)?,
            attention_prefill: AttentionPrefill::load(gpu)?,
            residual_norm: ResidualNorm::load(gpu)?,
            rms_norm: RmsNorm::load(gpu)?,
            activation: Activation::load(gpu)?,
            gemm: products(gpu)?,
            skinny: Skinny::load(gpu)?,
            routing: Routing::load(gpu)?,
            experts: Experts::load(gpu)?,
            gather: Gather::load(gpu)?,
            finish_logits: FinishLogits::load(gpu)?,
            sample: Sample::load(gpu)?,
        })
    }
}

/// Bytes of workspace that the library gets; planned for with everything else ([`crate::plan`]).
const LIBRARY_WORKSPACE: usize = 64 << 20;

/// Matrix products, by the library too where it is installed.
fn products(gpu: &Arc<Gpu>) -> Result<Gemm, DriverError> {
    let gemm = Gemm::load(gpu)?;
    match Cublaslt::open(&[]) {
        Ok(library) => {
            tracing::debug!(?library, "large products may be the library's");
            Ok(gemm.with_library(library, gpu.alloc(LIBRARY_WORKSPACE)?))
        }
        Err(why) => {
            tracing::info!("{why}");
            Ok(gemm)
        }
    }
}
