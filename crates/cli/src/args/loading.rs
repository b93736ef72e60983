//! Made-up weights in place of a checkpoint's.

use clap::Args;
use tokenmill::{DType, options::SyntheticWeights};

/// Made-up weights in place of a checkpoint's.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Made-up weights")]
pub struct SyntheticFlags {
    /// MODEL is a directory with a config.json; its weights are made up
    #[arg(long)]
    pub synthetic: bool,
    /// Seed of made-up weights (0 unless given)
    #[arg(long, value_name = "SEED", requires = "synthetic")]
    pub synthetic_seed: Option<u64>,
    /// Element type of made-up weights (bf16 unless given)
    #[arg(long, value_name = "TYPE", value_parser = element_type, requires = "synthetic")]
    pub synthetic_dtype: Option<DType>,
}

impl SyntheticFlags {
    /// What to make up, if anything.
    pub fn weights(&self) -> Option<SyntheticWeights> {
        self.synthetic.then(|| SyntheticWeights {
            seed: self.synthetic_seed.unwrap_or(0),
            dtype: self.synthetic_dtype.unwrap_or(DType::BF16),
        })
    }
}

/// `bf16`, `f32`, `bfloat16`, ...
pub fn element_type(text: &str) -> Result<DType, String> {
    let read = text.parse().or_else(|_| text.to_uppercase().parse::<DType>());
    read.map_err(|error| format!("{error}: f32, f16 or bf16"))
}
