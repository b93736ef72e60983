//! The command line as data.

mod bench;
mod loading;
mod sampling;
mod serving;

use std::path::PathBuf;

pub use bench::{
    BenchArgs, BenchCommand, DrawFlags, Endpoint, LatencyArgs, Lengths, LoadArgs, PlotArgs, PlotX,
    ServeLoadArgs, Target, ThroughputArgs, decimal,
};
use clap::{Args, Command as Clap, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
pub use loading::SyntheticFlags;
pub use sampling::SamplingFlags;
pub use serving::{ModelFlags, ServeArgs};

/// Where help shows what the exit codes mean.
const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the model was not found or cannot be run, \
130 interrupted.";

/// MODEL, wherever it is asked for.
const MODEL_HELP: &str =
    "A checkpoint directory, ORG/NAME[@REVISION] in the hub cache, or demo, which is built in";

/// Run, serve and measure language models from Hugging Face-format checkpoints.
#[derive(Debug, Parser)]
#[command(name = "tokenmill", version = crate::VERSION, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Arguments {
    /// Say less: no progress, no notices (warnings and errors stay)
    #[arg(long, short, global = true, display_order = 900)]
    pub quiet: bool,
    /// Log more; twice for details
    #[arg(long, short, global = true, display_order = 901, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// Reads the command line; what does not read ends the program.
    pub fn read() -> Self {
        let command = taking_negative_numbers(Self::command());
        Self::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }
}

/// A negative number is the value of the flag before it: whoever checks the value says what is wanted.
fn taking_negative_numbers(command: Clap) -> Clap {
    command
        .mut_args(|arg| {
            let takes = !arg.is_positional() && arg.get_action().takes_values();
            if takes { arg.allow_negative_numbers(true) } else { arg }
        })
        .mut_subcommands(taking_negative_numbers)
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Talk to a model at the terminal, or let it answer once
    Run(Box<RunArgs>),
    /// Serve models over the OpenAI API
    Serve(Box<ServeArgs>),
    /// Show what a checkpoint is, what it needs, and what can run it
    Inspect(InspectArgs),
    /// Download a checkpoint into the hub cache
    Pull(PullArgs),
    /// List the checkpoints in the hub cache
    List(ListArgs),
    /// Remove a checkpoint from the hub cache
    Rm(RmArgs),
    /// Write a checkpoint with made-up weights
    Synth(SynthArgs),
    /// Measure
    Bench(BenchArgs),
    /// Look this machine and this installation over
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

/// `tokenmill run`.
#[derive(Args, Debug)]
#[command(
    after_help = "Without -p and with standard input from a pipe or file, that input is the prompt; with -p it \
is appended to the prompt. Only the answer goes to standard output.

Examples:
  tokenmill run ./DIRECTORY                        talk
  tokenmill run ORG/NAME -p \"Why?\" -n 100          one answer
  tokenmill run ORG/NAME -p \"Sum up:\" < notes.txt  a file below the prompt"
)]
pub struct RunArgs {
    #[arg(help = MODEL_HELP)]
    pub model: Option<String>,
    /// Answer this and leave
    #[arg(long, short, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// What the model is told before the conversation
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    pub system: Option<String>,
    /// Continue the text as it is, without the chat template
    #[arg(long)]
    pub raw: bool,
    /// Print events as JSON, one a line (needs -p or a pipe)
    #[arg(long)]
    pub json: bool,
    /// Have the model answer without reasoning first, where its chat template knows how
    #[arg(long, conflicts_with = "raw")]
    pub no_thinking: bool,
    /// Keep no history of typed lines
    #[arg(long)]
    pub no_history: bool,
    /// A keyword argument for the chat template, for example enable_thinking=false
    #[arg(long, value_name = "KEY=VALUE", value_parser = template_argument)]
    pub template_arg: Vec<(String, serde_json::Value)>,
    #[command(flatten)]
    pub sampling: SamplingFlags,
    #[command(flatten)]
    pub settings: ModelFlags,
}

/// `tokenmill inspect`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tokenmill inspect ORG/NAME
  tokenmill inspect ./DIRECTORY --json
  tokenmill inspect ./CONFIG_ONLY --synthetic   before its weights are here")]
pub struct InspectArgs {
    #[arg(help = MODEL_HELP)]
    pub model: String,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub synthetic: SyntheticFlags,
    #[command(flatten)]
    pub settings: ModelFlags,
}

/// `tokenmill pull`.
#[derive(Args, Debug)]
#[command(
    after_help = "HF_ENDPOINT names another hub, HF_TOKEN opens gated checkpoints, HF_HUB_CACHE or HF_HOME \
name the cache. A pull that was cut off is resumed by the next.

Examples:
  tokenmill pull ORG/NAME
  tokenmill pull ORG/NAME@v1.0 --json"
)]
pub struct PullArgs {
    /// The checkpoint
    #[arg(value_name = "ORG/NAME[@REVISION]")]
    pub model: String,
    /// How often a transfer that failed is tried again before the pull fails
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub retries: u32,
    /// Print what was pulled as JSON
    #[arg(long)]
    pub json: bool,
}

/// `tokenmill list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

/// `tokenmill rm`.
#[derive(Args, Debug)]
pub struct RmArgs {
    /// The checkpoint in the hub cache
    #[arg(value_name = "ORG/NAME")]
    pub model: String,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// `tokenmill synth`.
#[derive(Args, Debug)]
pub struct SynthArgs {
    /// Directory with the config.json to follow
    pub config: PathBuf,
    /// Directory to write; it must not exist or be empty
    pub out: PathBuf,
    /// Seed of the generator
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Element type of the weights
    #[arg(long, default_value = "bf16", value_parser = loading::element_type)]
    pub dtype: tokenmill::DType,
}

/// `tokenmill doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

/// `tokenmill completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// `KEY=VALUE`, where VALUE is JSON or else a text.
fn template_argument(text: &str) -> Result<(String, serde_json::Value), String> {
    let (key, value) = text.split_once('=').ok_or("wanted KEY=VALUE")?;
    if key.is_empty() {
        return Err("the key is empty".into());
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_negative_number_is_a_value_whatever_the_flag() {
        let read = |words: &[&str]| {
            let command = taking_negative_numbers(Arguments::command());
            let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
            Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())
        };
        for flag in ["--temperature", "--min-p", "--max-queue", "--kv-memory", "--config"] {
            let read = read(&["tokenmill", "run", "x", flag, "-1"]);
            assert!(read.is_ok(), "{flag}: {read:?}");
        }
        for (flag, wanted) in [("--seed", "0 to 18446744073709551615"), ("-n", "at least 1")] {
            let error = read(&["tokenmill", "run", "x", flag, "-1"]).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn a_template_argument_is_json_or_text() {
        assert_eq!(template_argument("a=false"), Ok(("a".into(), false.into())));
        assert_eq!(template_argument("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(template_argument("a").is_err());
        assert!(template_argument("=1").is_err());
    }
}
