//! The command line of `tokenmill bench`.

use std::{
    fmt::{self, Display},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use clap::{Args, Subcommand, ValueEnum};
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
    /// A picture of throughput against latency, from what `bench serve --json` printed
    Plot(Box<PlotArgs>),
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
is used to send prompts of token ids; with --url alone, and to chats, prompts are words.\n\n\
Several values of --concurrency or --rate are measured one after the other, each with prompts of its own."
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
    /// Key for --url; without it that of OPENAI_API_KEY, if set
    #[arg(long, value_name = "KEY", requires = "url")]
    pub bench_api_key: Option<String>,
    /// Certificates (PEM) of authorities that vouch for --url beside the public ones
    #[arg(long, value_name = "FILE", requires = "url")]
    pub tls_ca: Option<PathBuf>,
    /// What is asked: texts to be continued, or chats
    #[arg(long, value_name = "WAY", value_enum, default_value_t = Endpoint::Completions)]
    pub endpoint: Endpoint,
    /// Requests in all, at each pace [default: 4 for each that is under way, at least 64]
    #[arg(long, short, alias = "num-prompts", value_name = "COUNT", value_parser = positive())]
    pub requests: Option<u32>,
    /// Requests before the measured ones, all at once; if one fails nothing is measured
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub warmup: u32,
    /// Requests a second, arriving as a Poisson process (several: 1,2,4)
    #[arg(long, alias = "request-rate", value_name = "PER_SECOND", value_delimiter = ',', value_parser = rate, conflicts_with = "concurrency")]
    pub rate: Vec<f64>,
    /// Requests under way at any time (several: 1,4,16)
    #[arg(long, short, alias = "max-concurrency", value_name = "COUNT", value_delimiter = ',', default_value = "8", value_parser = positive())]
    pub concurrency: Vec<u32>,
    /// Tokens of each prompt
    #[arg(long, short, alias = "random-input-len", value_name = "TOKENS", default_value_t = 512, value_parser = length())]
    pub prompt_len: u32,
    /// Tokens of each answer
    #[arg(long, short, alias = "random-output-len", value_name = "TOKENS", default_value_t = 128, value_parser = length())]
    pub output_len: u32,
    /// How lengths are spread: fixed, random:RATIO (evenly within that part of them), or chat (conversations)
    #[arg(long, value_name = "SPREAD", default_value = "fixed")]
    pub lengths: Lengths,
    /// Do not send ignore_eos, which is an extension of the OpenAI API
    #[arg(long)]
    pub allow_eos: bool,
    /// Seed of the first request's draws; each further one has the next
    #[arg(long, value_name = "SEED")]
    pub request_seed: Option<u64>,
    /// Draw a picture of throughput against latency
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// The latency in it
    #[arg(long, value_name = "TIME", value_enum, default_value_t = PlotX::Tpot)]
    pub plot_x: PlotX,
    /// What pictures call this run
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Most seconds until there is a connection
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub connect_timeout: Duration,
    /// Most seconds from a request to its first token
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub first_token_timeout: Duration,
    /// Most seconds from token to token
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub stall_timeout: Duration,
    /// Most seconds from a request to the end of its answer
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    pub request_timeout: Duration,
    #[command(flatten)]
    pub draw: DrawFlags,
}

/// `tokenmill bench plot`.
#[derive(Args, Debug)]
pub struct PlotArgs {
    /// What `bench serve --json` printed, a file for each curve
    #[arg(required = true, value_name = "FILE.json")]
    pub results: Vec<PathBuf>,
    /// Where the picture goes
    #[arg(long, short, value_name = "FILE.svg")]
    pub output: PathBuf,
    /// The latency in it
    #[arg(long, value_name = "TIME", value_enum, default_value_t = PlotX::Tpot)]
    pub plot_x: PlotX,
}

/// Which of the API's ways requests take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Endpoint {
    /// /v1/completions
    Completions,
    /// /v1/chat/completions
    Chat,
}

impl Endpoint {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Endpoint::Completions => "completions",
            Endpoint::Chat => "chat",
        }
    }
}

/// The latency that a picture shows, in the median.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlotX {
    /// To the first token
    Ttft,
    /// For each further token
    Tpot,
    /// From event to event
    Itl,
    /// Tokens a second that each user sees: 1000 / TPOT
    Interactivity,
}

/// How the lengths of prompts and answers are spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lengths {
    /// All are the same.
    Fixed,
    /// Evenly, within this part of the length to both sides.
    Random(f64),
    /// As in conversations.
    Chat,
}

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ratio = text.strip_prefix("random:").and_then(|ratio| ratio.parse::<f64>().ok());
        match (text, ratio) {
            ("fixed", _) => Ok(Lengths::Fixed),
            ("chat", _) => Ok(Lengths::Chat),
            (_, Some(ratio)) if (0.0..=1.0).contains(&ratio) => Ok(Lengths::Random(ratio)),
            _ => Err("wanted fixed, chat, or random:RATIO with a ratio from 0 to 1".to_owned()),
        }
    }
}

impl Display for Lengths {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lengths::Fixed => formatter.write_str("fixed"),
            Lengths::Random(ratio) => write!(formatter, "random:{ratio}"),
            Lengths::Chat => formatter.write_str("chat"),
        }
    }
}

impl DrawFlags {
    /// Randomness, as it is written.
    pub fn temperature_decimal(&self) -> f64 {
        decimal(self.temperature)
    }

    /// The probability to draw from, as it is written.
    pub fn top_p_decimal(&self) -> Option<f64> {
        self.top_p.map(decimal)
    }
}

/// The shortest number that reads as `x`: 0.8, not 0.800000011920929.
pub fn decimal(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(x.into())
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

/// Of a prompt or an answer; the bound keeps sums of lengths far from any that overflows.
fn length() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000_000)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (1e-3..=1e6).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "wanted seconds from 0.001 to 1000000".into())
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("wanted a number above 0".into()),
    }
}
