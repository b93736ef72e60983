//! All operations that executing a decoder takes, their kernels resolved once.

use std::sync::Arc;

use super::{
    attention_decode::AttentionDecode, attention_prefill::AttentionPrefill, embed::Embed,
    finish_logits::FinishLogits, gemm::Gemm, qkv_prepare::QkvPrepare, residual_norm::ResidualNorm,
    rms_norm::RmsNorm, sample::Sample, skinny::Skinny,
};
use crate::driver::{DriverError, Gpu};

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
    /// Matrix products.
    pub gemm: Gemm,
    /// Matrix products of few rows.
    pub skinny: Skinny,
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
            gemm: Gemm::load(gpu)?,
            skinny: Skinny::load(gpu)?,
            finish_logits: FinishLogits::load(gpu)?,
            sample: Sample::load(gpu)?,
        })
    }
}
