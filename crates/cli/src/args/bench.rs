//! The command line of `tokenmill bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tokenmill::DType;

use super::{ModelFlags, loading};

/// `tokenmill bench`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tokenmill bench latency ORG/NAME -p 512 -o 128
  tokenmill bench throughput --synthetic ./CONFIG_ONLY -r 64
  tokenmill bench serve --url 127.0.0.1:8000 -c 16")]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Time to the first token and time per further token of one batch
    Latency(Box<LatencyArgs>),
    /// Tokens per second with many requests at once
    Throughput(Box<ThroughputArgs>),
    /// Requests over HTTP, against a server of our own or against --url
    Serve(Box<ServeLoadArgs>),
    /// Every phase of loading a checkpoint
    Load(Box<LoadArgs>),
}

/// What is measured, and how it is told.
#[derive(Args, Debug)]
pub struct Target {
    /// A checkpoint directory, or ORG/NAME[@REVISION] in the hub cache
    #[arg(conflicts_with = "synthetic")]
    pub model: Option<String>,
    /// Make weights up for the config.json in this directory
    #[arg(long, value_name = "CONFIG_DIR")]
    pub synthetic: Option<String>,
    /// Element type of made-up weights
    #[arg(long, value_name = "TYPE", default_value = "bf16", value_parser = loading::element_type)]
    pub synthetic_dtype: DType,
    /// Seed of prompts, arrivals and made-up weights
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub settings: ModelFlags,
}

/// How tokens are drawn while they are counted and timed.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Sampling")]
pub struct DrawFlags {
    /// Randomness, 0 or more; 0 always takes the likeliest token
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    pub temperature: f32,
    /// Draw from the smallest set of tokens with this probability; without it as the checkpoint says
    #[arg(long, value_name = "P")]
    pub top_p: Option<f32>,
    /// Draw from this many likeliest tokens, 0: all; without it as the checkpoint says
    #[arg(long, value_name = "K")]
    pub top_k: Option<u32>,
}

/// `tokenmill bench latency`.
#[derive(Args, Debug)]
pub struct LatencyArgs {
    #[command(flatten)]
    pub target: Target,
    /// Sequences in the batch
    #[arg(long, short, value_name = "SEQUENCES", default_value_t = 1, value_parser = positive())]
    pub batch: u32,
    /// Tokens of each prompt
    #[arg(long, short, value_name = "TOKENS", default_value_t = 512, value_parser = positive())]
    pub prompt_len: u32,
    /// Tokens of each answer
    #[arg(long, short, value_name = "TOKENS", default_value_t = 128, value_parser = positive())]
    pub output_len: u32,
    /// Measured repetitions
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = positive())]
    pub iterations: u32,
    /// Repetitions before the measured ones
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub warmup: u32,
    #[command(flatten)]
    pub draw: DrawFlags,
}

/// `tokenmill bench throughput`.
#[derive(Args, Debug)]
pub struct ThroughputArgs {
    #[command(flatten)]
    pub target: Target,
    /// Requests, all sent at once
    #[arg(long, short, value_name = "COUNT", default_value_t = 64, value_parser = positive())]
    pub requests: u32,
    /// Tokens of each prompt
    #[arg(long, short, value_name = "TOKENS", default_value_t = 512, value_parser = positive())]
    pub prompt_len: u32,
    /// Tokens of each answer
    #[arg(long, short, value_name = "TOKENS", default_value_t = 128, value_parser = positive())]
    pub output_len: u32,
    #[command(flatten)]
    pub draw: DrawFlags,
}

/// `tokenmill bench serve`.
#[derive(Args, Debug)]
#[command(
    after_help = "Without --url a server of our own is started for MODEL. With --url and MODEL, MODEL's vocabulary \
is used to send prompts of token ids; with --url alone prompts are words."
)]
pub struct ServeLoadArgs {
    #[command(flatten)]
    pub target: Target,
    /// An OpenAI-compatible server, for example http://127.0.0.1:8000; https:// is spoken, too
    #[arg(long)]
    pub url: Option<String>,
    /// The model's name at --url; without it the first that the server lists
    #[arg(long, value_name = "NAME", requires = "url")]
    pub model_name: Option<String>,
    /// Key for --url
    #[arg(long, value_name = "KEY", requires = "url")]
    pub bench_api_key: Option<String>,
    /// Certificates (PEM) of authorities that vouch for --url beside the public ones
    #[arg(long, value_name = "FILE", requires = "url")]
    pub tls_ca: Option<PathBuf>,
    /// Requests in all
    #[arg(long, short, value_name = "COUNT", default_value_t = 64, value_parser = positive())]
    pub requests: u32,
    /// Requests a second, arriving as a Poisson process
    #[arg(long, value_name = "PER_SECOND", value_parser = rate, conflicts_with = "concurrency")]
    pub rate: Option<f64>,
    /// Requests under way at any time
    #[arg(long, short, value_name = "COUNT", default_value_t = 8, value_parser = positive())]
    pub concurrency: u32,
    /// Tokens of each prompt
    #[arg(long, short, value_name = "TOKENS", default_value_t = 512, value_parser = positive())]
    pub prompt_len: u32,
    /// Tokens of each answer
    #[arg(long, short, value_name = "TOKENS", default_value_t = 128, value_parser = positive())]
    pub output_len: u32,
    /// Do not send ignore_eos, which is an extension of the OpenAI API
    #[arg(long)]
    pub allow_eos: bool,
}

/// `tokenmill bench load`.
#[derive(Args, Debug)]
pub struct LoadArgs {
    #[command(flatten)]
    pub target: Target,
    /// Loads, each followed by an unload
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = positive())]
    pub iterations: u32,
}

fn positive() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("wanted a number above 0".into()),
    }
}
