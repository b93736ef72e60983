//! The only place that writes to standard output and standard error.
//!
//! Standard output carries what was asked for: an answer, a table, a JSON document. Everything else (progress,
//! notices, errors) goes to standard error. Colours appear on terminals alone, and not under `NO_COLOR`.

use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, IsTerminal, Write},
};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::error::Error;

/// Emphasis for headings and names.
pub const BOLD: Style = Style::new().bold();
/// For what matters less.
pub const DIM: Style = Style::new().dimmed();
/// Something is as it should be.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Something deserves a look.
pub const WARN: Style = AnsiColor::Yellow.on_default().bold();
/// Something failed.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// The two streams of the command.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Whether standard output is a terminal.
    pub stdout_is_terminal: bool,
    /// Whether standard error is a terminal.
    pub stderr_is_terminal: bool,
    quiet: bool,
}

impl Output {
    /// Looks at the streams once; `quiet` silences notices (never warnings or errors).
    pub fn new(quiet: bool) -> Self {
        Output {
            stdout_is_terminal: io::stdout().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal(),
            quiet,
        }
    }

    /// Whether notices are silenced.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// A piece of an answer, at once. A pipe gets the bytes unchanged; on a terminal control characters are made
    /// visible, so that no text of a model can move the cursor or retitle the window.
    pub fn answer(&self, text: &str) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        let text = if self.stdout_is_terminal { visible(text) } else { Cow::Borrowed(text) };
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Error::Output)
    }

    /// A piece of the reasoning before an answer: on a terminal, dimmed; through a pipe goes the answer alone.
    pub fn reasoning(&self, text: &str) -> Result<(), Error> {
        if text.is_empty() || !self.stdout_is_terminal {
            return Ok(());
        }
        let mut stdout = anstream::stdout().lock();
        let written = write!(stdout, "{DIM}{}{DIM:#}", visible(text));
        written.and_then(|()| stdout.flush()).map_err(Error::Output)
    }

    /// A line of a report, styled.
    pub fn line(&self, text: impl Display) -> Result<(), Error> {
        let mut stdout = anstream::stdout().lock();
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(Error::Output)
    }

    /// A whole JSON document, for people to read too.
    pub fn json(&self, value: &impl Serialize) -> Result<(), Error> {
        let text =
            serde_json::to_string_pretty(value).map_err(|error| Error::Output(error.into()))?;
        self.answer_line(&text)
    }

    /// One JSON value on a line of its own.
    pub fn json_line(&self, value: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string(value).map_err(|error| Error::Output(error.into()))?;
        self.answer_line(&text)
    }

    /// Bytes as they are: a completion script.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Error::Output)
    }

    /// Something worth knowing, on standard error; silent under `--quiet`.
    pub fn note(&self, text: impl Display) {
        if !self.quiet {
            to_stderr(text);
        }
    }

    /// A reply to a command typed at the chat prompt, on standard error whatever `--quiet` says.
    pub fn reply(&self, text: impl Display) {
        to_stderr(text);
    }

    /// Something that may not be what was meant.
    pub fn warn(&self, text: impl Display) {
        to_stderr(format_args!("{WARN}warning:{WARN:#} {text}"));
    }

    /// An error as one sentence with its causes and, where there is one, a hint.
    pub fn error(&self, error: &Error) {
        to_stderr(format_args!("{BAD}error:{BAD:#} {}", error.sentence()));
        if let Some(hint) = error.hint() {
            to_stderr(format_args!("{BOLD}hint:{BOLD:#} {hint}"));
        }
    }

    fn answer_line(&self, text: &str) -> Result<(), Error> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(Error::Output)
    }
}

/// A failure to write to standard error has nowhere to be told.
fn to_stderr(text: impl Display) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// The text with every control character but newline and tab replaced by its picture.
fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let picture = |c: char| match c {
        '\n' | '\t' => c,
        '\0'..='\u{1f}' => char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    Cow::Owned(text.chars().map(picture).collect())
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn control_characters_become_pictures_and_text_stays() {
        assert_eq!(visible("a\tb\nc"), "a\tb\nc");
        assert_eq!(visible("\u{1b}[2Jx\u{7f}\u{9b}"), "␛[2Jx␡\u{fffd}");
        assert_eq!(visible("žluť 你好"), "žluť 你好");
    }
}
