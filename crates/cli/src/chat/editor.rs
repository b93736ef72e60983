//! The line editor of the chat prompt: history, several lines, completion of commands.

use std::{fs, io, path::PathBuf};

use rustyline::{
    Config, Context, Helper,
    completion::Completer,
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::DefaultHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};

use super::line::{self, COMMANDS};
use crate::{error::Error, output::Output};

/// Lines that are remembered from one run to the next.
const HISTORY_LINES: usize = 2000;
const PROMPT: &str = "> ";

/// What the user did at the prompt.
pub enum Typed {
    /// An entry, maybe of several lines.
    Entry(String),
    /// Bytes that are no text.
    NoText,
    /// Ctrl-C, for the first time in a row.
    Interrupted,
    /// Ctrl-D, or Ctrl-C again.
    Leave,
}

/// Reads entries.
pub struct Editor {
    inner: rustyline::Editor<Entry, DefaultHistory>,
    history: Option<PathBuf>,
    interrupted: bool,
}

impl Editor {
    /// With the lines of earlier runs from `history`. A history that cannot be kept is worth a warning, no more.
    pub fn open(history: Option<PathBuf>, output: &Output) -> Result<Self, Error> {
        let config = Config::builder().max_history_size(HISTORY_LINES).map_err(failed)?;
        let config = config.history_ignore_space(true).auto_add_history(true).build();
        let mut inner = rustyline::Editor::with_config(config).map_err(failed)?;
        inner.set_helper(Some(Entry));
        if let Some(path) = &history {
            if let Some(Err(error)) = path.parent().map(fs::create_dir_all) {
                output.warn(format_args!("{}: {error}; typed lines are not kept", path.display()));
            }
            match inner.load_history(path) {
                Ok(()) => {}
                Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => output.warn(format_args!("{}: {error}", path.display())),
            }
        }
        Ok(Editor { inner, history, interrupted: false })
    }

    /// The next entry.
    pub fn read(&mut self) -> Result<Typed, Error> {
        match self.inner.readline(PROMPT) {
            Ok(text) => {
                self.interrupted = false;
                self.keep();
                Ok(Typed::Entry(text))
            }
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Ok(Typed::NoText)
            }
            Err(ReadlineError::Interrupted) if !self.interrupted => {
                self.interrupted = true;
                Ok(Typed::Interrupted)
            }
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => Ok(Typed::Leave),
            Err(error) => Err(failed(error)),
        }
    }

    /// After every entry, so that nothing is lost when the program is killed. A failure was warned of at the start.
    fn keep(&mut self) {
        if let Some(path) = &self.history {
            let _ = self.inner.append_history(path);
        }
    }
}

fn failed(error: ReadlineError) -> Error {
    Error::io("reading from the terminal", io::Error::other(error))
}

/// What the editor knows of entries.
struct Entry;

impl Validator for Entry {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match line::is_incomplete(context.input()) {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Completer for Entry {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let names = COMMANDS.iter().map(|entry| entry.name);
        let fitting = names.filter(|name| typed.starts_with('/') && name.starts_with(typed));
        Ok((0, fitting.map(|name| format!("{name} ")).collect()))
    }
}

impl Hinter for Entry {
    type Hint = String;
}

impl Highlighter for Entry {}

impl Helper for Entry {}
