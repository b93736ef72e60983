//! Why a chore stopped.

use std::path::PathBuf;

/// Why a chore stopped. Each message says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `cargo metadata` did not answer.
    #[error("cargo metadata failed: {0}")]
    Metadata(#[from] cargo_metadata::Error),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program could not be started.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program ran and failed.
    #[error("`{command}` failed ({status})")]
    Failed {
        /// The whole command line.
        command: String,
        /// Its exit status, in words.
        status: String,
    },
    /// A file of the repository does not say what it should.
    #[error("{place}: {message}")]
    Malformed {
        /// The file.
        place: String,
        /// What is wrong with it.
        message: String,
    },
    /// Tidy found something; the findings are already printed.
    #[error("tidy: {0} finding(s), listed above")]
    Untidy(usize),
    /// A step of `ci` failed; its output is above.
    #[error("stopped at `{step}`: {cause}\n       {advice}")]
    Step {
        /// The step.
        step: &'static str,
        /// Why.
        cause: Box<Error>,
        /// What to do.
        advice: &'static str,
    },
    /// `ci --require-tools` met a step whose tool is not installed.
    #[error("`{tool}` is not installed; {advice}")]
    MissingTool {
        /// The tool.
        tool: &'static str,
        /// How to get it.
        advice: &'static str,
    },
}
