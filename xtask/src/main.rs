//! Chores of the workspace: `cargo xtask ci`, `cargo xtask tidy`, `cargo xtask dist`.
//!
//! Knows: the repository and the tools that look after it. Does not know: anything about models.
// A command talks to its terminal.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod ci;
mod dist;
mod error;
mod openai;
mod process;
mod repo;
mod tidy;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

use crate::error::Error;
use crate::repo::Repo;

/// Chores of the workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that a change must pass, in order; stops at the first failure.
    Ci(ci::Options),
    /// Rules about the source that no compiler checks: all findings at once.
    Tidy(tidy::Options),
    /// One stripped tarball: the command, its completions, README and licence.
    Dist(dist::Options),
}

fn main() -> ExitCode {
    let chore = Arguments::parse().chore;
    match Repo::find().and_then(|repo| carry_out(chore, &repo)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(chore: Chore, repo: &Repo) -> Result<(), Error> {
    match chore {
        Chore::Ci(options) => ci::run(repo, &options),
        Chore::Tidy(options) => tidy::run(repo, &options),
        Chore::Dist(options) => dist::run(repo, &options),
    }
}
