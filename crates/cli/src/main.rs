//! The `tokenmill` command.
//!
//! Knows: arguments, terminals, progress bars, exit codes.
//! Does not know: what a model is made of, how anything is computed, how requests are served.

mod answer;
mod args;
mod bounded;
mod chat;
mod commands;
mod environment;
mod error;
mod interrupt;
mod logging;
mod machine;
mod output;
mod progress;
mod settings;

use std::process::ExitCode;

use crate::{args::Arguments, error::Exit, output::Output};

/// Version and commit of this build.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILD_COMMIT"), ")");

fn main() -> ExitCode {
    let arguments = Arguments::read();
    let output = Output::new(arguments.quiet);
    let exit = match commands::dispatch(arguments, &output) {
        Ok(()) => Exit::Done,
        Err(error) => {
            if !error.is_silent() {
                output.error(&error);
            }
            error.exit()
        }
    };
    ExitCode::from(exit as u8)
}
