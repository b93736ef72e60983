//! `tokenmill completions`: a script for a shell.

use clap::CommandFactory;

use crate::{
    args::{Arguments, CompletionsArgs},
    error::Error,
    output::Output,
};

/// Prints the script.
pub fn completions(args: CompletionsArgs, output: &Output) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "tokenmill", &mut script);
    output.bytes(&script)
}
