//! Everything that a change must pass, in order.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::repo::Repo;
use crate::{openai, process, tidy};

/// Options of `cargo xtask ci`.
#[derive(clap::Args)]
pub struct Options {
    /// Only the steps that need no full build: format, tidy, clippy, unit tests.
    #[arg(long)]
    quick: bool,
    /// Fail where a step's tool (cargo-deny, Python) is missing, instead of leaving the step out.
    #[arg(long)]
    require_tools: bool,
}

/// One step: its name, what to do when it fails, and how it is done.
struct Step {
    name: &'static str,
    /// Whether `--quick` runs it.
    quick: bool,
    advice: &'static str,
    run: fn(&Repo) -> Result<Outcome, Error>,
}

/// How a step that did not fail ended.
pub enum Outcome {
    /// It ran and passed.
    Passed,
    /// Its tool is not installed.
    Missing {
        /// The tool.
        tool: &'static str,
        /// How to get it.
        advice: &'static str,
    },
}

const STEPS: &[Step] = &[
    Step {
        name: "format",
        quick: true,
        advice: "run `cargo fmt --all`",
        run: |repo| cargo(repo, "fmt --all --check"),
    },
    Step {
        name: "tidy",
        quick: true,
        advice: "mend what it lists; the rules are in xtask/src/tidy",
        run: |repo| tidy::run(repo, &tidy::Options::default()).map(|()| Outcome::Passed),
    },
    Step {
        name: "kernels",
        quick: true,
        advice: "mend the kernel that nvcc names; it must compile for every GPU",
        run: kernels,
    },
    Step {
        name: "clippy",
        quick: true,
        advice: "mend the warnings; an exception is an `#[expect(...)]` with a reason",
        run: |repo| cargo(repo, "clippy --workspace --all-targets --locked -- -D warnings"),
    },
    Step {
        name: "unit tests",
        quick: true,
        advice: "run the failing test alone: `cargo test -p CRATE NAME`",
        run: |repo| cargo(repo, "test --workspace --locked --lib --bins"),
    },
    Step {
        name: "build",
        quick: false,
        advice: "mend the build",
        run: |repo| cargo(repo, "build --workspace --all-targets --locked"),
    },
    Step {
        name: "all tests",
        quick: false,
        advice: "run the failing test alone: `cargo test -p CRATE NAME`",
        run: |repo| cargo(repo, "test --workspace --locked"),
    },
    Step {
        name: "first command",
        quick: false,
        advice: "the README's first command, in a debug build, must answer",
        // Through `cargo run`, as people do it: that brings cargo's own variables into the environment.
        run: |repo| cargo(repo, "run --locked -p cli -- run demo -p hello"),
    },
    Step {
        name: "rustdoc",
        quick: false,
        advice: "mend the links and missing docs that it names",
        run: rustdoc,
    },
    Step {
        name: "cargo-deny",
        quick: false,
        advice: "see deny.toml: a new licence, source or duplicate needs a line there, with a reason",
        run: deny,
    },
    Step {
        name: "openai client",
        quick: false,
        advice: "the official Python client no longer works with `tokenmill serve`; its log is above",
        run: openai::run,
    },
];

/// Compiles every kernel for every GPU.
fn kernels(repo: &Repo) -> Result<Outcome, Error> {
    if !repo.root.join(".cuda/nvidia/cu13/bin/nvcc").is_file() {
        let advice = "run tools/cuda/install-nvcc.sh";
        return Ok(Outcome::Missing { tool: "nvcc", advice });
    }
    cargo(repo, "build --locked -p cuda")
}

/// Runs the steps; stops at the first that fails.
pub fn run(repo: &Repo, options: &Options) -> Result<(), Error> {
    let mut done = Vec::new();
    let begun = Instant::now();
    // The unit tests are part of all tests; the whole run does not do them twice.
    let chosen = STEPS.iter().filter(|step| match options.quick {
        true => step.quick,
        false => step.name != "unit tests",
    });
    for step in chosen {
        println!("\n==> {}", step.name);
        let started = Instant::now();
        let outcome = (step.run)(repo).and_then(|outcome| accept(outcome, options));
        done.push((step.name, started.elapsed(), outcome));
        if matches!(done.last(), Some((_, _, Err(_)))) {
            break;
        }
    }
    summarize(&done, begun.elapsed());
    match done.pop() {
        Some((name, _, Err(cause))) => {
            let advice = STEPS.iter().find(|step| step.name == name).map_or("", |step| step.advice);
            Err(Error::Step { step: name, cause: Box::new(cause), advice })
        }
        _ => Ok(()),
    }
}

fn accept(outcome: Outcome, options: &Options) -> Result<Outcome, Error> {
    match outcome {
        Outcome::Missing { tool, advice } if options.require_tools => {
            Err(Error::MissingTool { tool, advice })
        }
        outcome => Ok(outcome),
    }
}

fn summarize(done: &[(&str, Duration, Result<Outcome, Error>)], total: Duration) {
    println!("\n==> summary");
    for (name, took, outcome) in done {
        let (word, note) = match outcome {
            Ok(Outcome::Passed) => ("passed", String::new()),
            Ok(Outcome::Missing { tool, advice }) => {
                ("LEFT OUT", format!("  `{tool}` is not installed; {advice}"))
            }
            Err(_) => ("FAILED", String::new()),
        };
        println!("{name:<14} {word:<8} {:>7.1} s{note}", took.as_secs_f64());
    }
    println!("{:<14} {:<8} {:>7.1} s", "total", "", total.as_secs_f64());
}

fn cargo(repo: &Repo, arguments: &str) -> Result<Outcome, Error> {
    pass(repo.cargo().args(arguments.split(' ')))
}

fn pass(command: &mut Command) -> Result<Outcome, Error> {
    println!("{}", process::line(command));
    process::run(command).map(|()| Outcome::Passed)
}

fn rustdoc(repo: &Repo) -> Result<Outcome, Error> {
    let mut command = repo.cargo();
    command.args(["doc", "--workspace", "--no-deps", "--locked"]);
    pass(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Licences, sources and bans. Advisories need a database from the network, so they are not part
/// of a hermetic run; `cargo deny check advisories` is for people.
fn deny(repo: &Repo) -> Result<Outcome, Error> {
    if !process::works(Command::new("cargo-deny").arg("--version")) {
        return Ok(Outcome::Missing {
            tool: "cargo-deny",
            advice: "`cargo install --locked cargo-deny` brings it",
        });
    }
    cargo(repo, "deny --locked check --hide-inclusion-graph bans licenses sources")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_fails_only_where_tools_are_required() {
        let missing = || Outcome::Missing { tool: "x", advice: "get it" };
        let relaxed = Options { quick: false, require_tools: false };
        let strict = Options { quick: false, require_tools: true };
        assert!(accept(missing(), &relaxed).is_ok());
        assert!(matches!(accept(missing(), &strict), Err(Error::MissingTool { tool: "x", .. })));
        assert!(accept(Outcome::Passed, &strict).is_ok());
    }

    #[test]
    fn every_step_says_what_to_do() {
        assert!(STEPS.iter().all(|step| !step.advice.is_empty()));
    }
}
