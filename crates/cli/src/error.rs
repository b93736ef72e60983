//! Why a command failed: one sentence with its causes, a hint where there is one, and the exit code.

use std::{
    error::Error as _,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use server::settings::{OptionSpec, SettingsError};
use tokenmill::{LoadError, hub};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything was done.
    Done = 0,
    /// Something failed.
    Failed = 1,
    /// The command line or a setting is wrong.
    Usage = 2,
    /// The model was not found, or nothing here can run it.
    Model = 3,
    /// Stopped by Ctrl-C.
    Interrupted = 130,
}

/// Why a command failed. Each variant is told, or ends the program, in its own way.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Standard output does not take what is written; a closed pipe is no failure.
    #[error("writing to standard output")]
    Output(#[source] io::Error),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// The command line asks for what makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Settings that do not read: all of them.
    #[error("{}", one_a_line(.0))]
    Settings(Vec<SettingsError>),
    /// A report that was printed says that the model cannot be run, and why.
    #[error("{reference} cannot be run: {reason}")]
    CannotRun {
        /// What was asked for.
        reference: String,
        /// Whose fault it is.
        reason: String,
    },
    /// Part of what was asked for failed; the report that was printed says what.
    #[error("{0}")]
    Partly(String),
    /// The library refused or failed.
    #[error(transparent)]
    Library(#[from] tokenmill::Error),
    /// The library refused, and there is something to do about it.
    #[error("{source}")]
    Hinted {
        /// Why.
        source: tokenmill::Error,
        /// What to do.
        hint: String,
    },
    /// The server did not start.
    #[error(transparent)]
    Serve(#[from] server::ServeError),
    /// The hub refused or failed.
    #[error("pulling {reference}")]
    Pull {
        /// What was asked for.
        reference: String,
        /// Why.
        source: hub::Error,
    },
    /// A file.
    #[error("{}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Anything else that the system refused.
    #[error("{doing}")]
    Io {
        /// What was being done.
        doing: String,
        /// Why.
        source: io::Error,
    },
    /// Another server answered otherwise than it should, or not at all.
    #[error("{url}: {message}")]
    Remote {
        /// The address.
        url: String,
        /// What happened.
        message: String,
    },
}

impl Error {
    /// The system refused `doing`.
    pub fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Error::Io { doing: doing.into(), source }
    }

    /// The system refused something about a file.
    pub fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::File { path: path.into(), source }
    }

    /// How the program ends.
    pub fn exit(&self) -> Exit {
        match self {
            Error::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Error::Interrupted
            | Error::Library(tokenmill::Error::Cancelled)
            | Error::Pull { source: hub::Error::Cancelled, .. } => Exit::Interrupted,
            Error::Usage(_)
            | Error::Settings(_)
            | Error::Library(
                tokenmill::Error::InvalidRequest { .. } | tokenmill::Error::InvalidOption { .. },
            )
            | Error::Pull { source: hub::Error::Reference(_), .. } => Exit::Usage,
            Error::CannotRun { .. }
            | Error::Pull {
                source: hub::Error::NotFound { .. } | hub::Error::NoWeights { .. },
                ..
            }
            | Error::Library(tokenmill::Error::NotFound(_) | tokenmill::Error::Load { .. }) => {
                Exit::Model
            }
            _ => Exit::Failed,
        }
    }

    /// Whether there is anything to tell: a reader that went away and a user who pressed Ctrl-C know.
    pub fn is_silent(&self) -> bool {
        matches!(self.exit(), Exit::Done | Exit::Interrupted)
    }

    /// The error and its causes, each once.
    pub fn sentence(&self) -> String {
        let mut text = match self {
            // Its user knows the option as a flag.
            Error::Library(tokenmill::Error::InvalidOption { option, message }) => {
                let flag = server::option_of_field(option).map(OptionSpec::flag);
                format!("{}: {message}", flag.as_deref().unwrap_or(option))
            }
            error => error.to_string(),
        };
        let mut cause = self.source();
        while let Some(error) = cause {
            let line = error.to_string();
            let new = not_said(&text, &line);
            if !text.contains(new) {
                let _ = write!(text, ": {new}");
            }
            cause = error.source();
        }
        text
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::Hinted { hint, .. } => hint,
            Error::Library(tokenmill::Error::Load { path, source }) => {
                return load_hint(path, source);
            }
            Error::Library(tokenmill::Error::NotFound(_)) => {
                "`tokenmill list` shows the models that are here, `tokenmill pull ORG/NAME` brings one"
            }
            Error::Library(tokenmill::Error::ContextLengthExceeded { .. }) => "shorten the prompt",
            Error::Remote { message, .. } if message.contains("UnknownIssuer") => {
                "--tls-ca FILE names the authority that vouches for the server's certificate"
            }
            Error::Remote { .. } => "check the address and that the server is running",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// For a checkpoint that could not be loaded. What does not fit, or is no option, says itself what to do.
fn load_hint(path: &Path, source: &LoadError) -> Option<String> {
    let shown = path.display();
    let is_weights = |entry: &fs::DirEntry| {
        entry.path().extension().is_some_and(|extension| extension == "safetensors")
    };
    let has_weights = fs::read_dir(path).ok()?.flatten().any(|entry| is_weights(&entry));
    let flag = if has_weights { "" } else { " --synthetic" };
    match source {
        LoadError::Checkpoint(text) if !has_weights && text.contains("has no weights") => {
            Some(format!(
                "`tokenmill synth {shown} DIRECTORY` makes weights up, and `tokenmill bench latency --synthetic {shown}` \
                 measures without any"
            ))
        }
        LoadError::Checkpoint(_) => Some(format!(
            "`tokenmill inspect {shown}{flag}` shows everything that stands in the way"
        )),
        LoadError::MissingCapability(_) => Some(format!(
            "`tokenmill inspect {shown}{flag}` shows which backend can run it, and --device names one"
        )),
        _ => None,
    }
}

/// `line` without the beginning that `text` ended with: a path that both name.
fn not_said<'l>(text: &str, line: &'l str) -> &'l str {
    match line.split_once(": ") {
        Some((start, rest)) if !rest.is_empty() && text.ends_with(&format!(" {start}")) => rest,
        _ => line,
    }
}

fn one_a_line(errors: &[SettingsError]) -> String {
    let lines: Vec<String> = errors.iter().map(SettingsError::to_string).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_quiet_and_a_full_disk_is_not() {
        let closed = Error::Output(io::ErrorKind::BrokenPipe.into());
        assert!(closed.is_silent());
        assert_eq!(closed.exit(), Exit::Done);
        let full = Error::Output(io::ErrorKind::StorageFull.into());
        assert!(!full.is_silent());
        assert_eq!(full.exit(), Exit::Failed);
    }

    #[test]
    fn causes_are_told_once() {
        let missing = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let error = Error::file("/x/config.json", missing);
        assert_eq!(error.sentence(), "/x/config.json: no such file");
        let inner = tokenmill::Error::File {
            path: "/y".into(),
            source: io::Error::new(io::ErrorKind::NotFound, "no such file"),
        };
        assert_eq!(Error::Library(inner).sentence(), "/y: no such file");
    }

    #[test]
    fn what_the_text_ended_with_is_not_said_again() {
        assert_eq!(not_said("loading fixtures", "fixtures: no config.json"), "no config.json");
        assert_eq!(not_said("loading fixtures", "other: no config.json"), "other: no config.json");
    }

    #[test]
    fn a_hint_is_given_where_the_error_says_not_itself_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let hint = |source| {
            let path = dir.path().to_owned();
            Error::Library(tokenmill::Error::Load { path, source }).hint().unwrap_or_default()
        };
        let broken = |text: &str| LoadError::Checkpoint(text.to_owned());
        assert!(hint(broken("has no weights: neither a nor b")).contains("tokenmill synth"));
        assert!(hint(broken("vocab_size: is 0")).contains("--synthetic` shows everything"));
        fs::write(dir.path().join("model.safetensors"), "").unwrap();
        assert!(hint(broken("vocab_size: is 0")).contains("` shows everything"));
        assert!(!hint(broken("vocab_size: is 0")).contains("--synthetic"));
        assert_eq!(hint(LoadError::Option("x is 0".to_owned())), "");
        assert!(hint(LoadError::MissingCapability(Vec::new())).contains("--device"));
    }

    #[test]
    fn the_exit_code_says_whose_fault_it_is() {
        let not_found = Error::Library(tokenmill::Error::NotFound("x".into()));
        assert_eq!(not_found.exit(), Exit::Model);
        let pull = |source| Error::Pull { reference: "org/name".into(), source };
        let absent = pull(hub::Error::NotFound { url: "x".into(), message: None });
        assert_eq!(absent.exit(), Exit::Model);
        assert_eq!(pull(hub::Error::NoCache).exit(), Exit::Failed);
        assert_eq!(pull(hub::Error::Cancelled).exit(), Exit::Interrupted);
        assert_eq!(Error::Usage("x".into()).exit(), Exit::Usage);
        assert_eq!(Error::Library(tokenmill::Error::Draining).exit(), Exit::Failed);
        assert_eq!(Error::Interrupted.exit(), Exit::Interrupted);
    }
}
