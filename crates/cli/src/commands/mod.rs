//! One file a command.

mod bench;
mod completions;
mod doctor;
mod inspect;
mod list;
mod pull;
mod rm;
mod run;
pub mod serve;
mod synth;

pub use run::{THINKING, chat_options, no_switch};

use crate::{
    args::{Arguments, Command},
    error::Error,
    output::Output,
};

/// How much is logged; see [`crate::logging::start`].
#[derive(Clone, Copy)]
pub struct Verbosity {
    /// How often `-v` was given.
    pub verbose: u8,
    /// `-q` was given.
    pub quiet: bool,
}

/// Does what the command line asks for.
pub fn dispatch(arguments: Arguments, output: &Output) -> Result<(), Error> {
    let verbosity = Verbosity { verbose: arguments.verbose, quiet: arguments.quiet };
    match arguments.command {
        Command::Run(args) => run::run(*args, verbosity, output),
        Command::Serve(args) => serve::serve(*args, verbosity, output),
        Command::Inspect(args) => inspect::inspect(args, verbosity, output),
        Command::Pull(args) => pull::pull(args, verbosity, output),
        Command::List(args) => list::list(args, output),
        Command::Rm(args) => rm::rm(args, output),
        Command::Synth(args) => synth::synth(args, output),
        Command::Bench(args) => bench::bench(args, verbosity, output),
        Command::Doctor(args) => doctor::doctor(args, output),
        Command::Completions(args) => completions::completions(args, output),
    }
}
