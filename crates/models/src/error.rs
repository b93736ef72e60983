//! What can go wrong with a checkpoint: a list of findings, all of them at once.

use std::{
    borrow::Cow,
    fmt, io,
    path::{Path, PathBuf},
};

/// How much a [`Finding`] matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// The checkpoint can be used, but something of it is passed over or looks odd.
    Warning,
    /// The checkpoint cannot be used.
    Error,
}

/// One thing found while a checkpoint was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about: a file, a configuration key, a tensor.
    pub subject: String,
    /// What is the case, with the value seen and the value wanted.
    pub message: String,
    /// What to do about it; empty where nothing useful can be said.
    pub hint: String,
}

impl Finding {
    /// A finding that makes the checkpoint unusable.
    pub fn error(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Finding::new(Severity::Error, subject, message)
    }

    /// A finding that does not stop the checkpoint from being used.
    pub fn warning(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Finding::new(Severity::Warning, subject, message)
    }

    /// Something worth knowing.
    pub fn note(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Finding::new(Severity::Note, subject, message)
    }

    /// The same finding with advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// The finding that `path` could not be read.
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        let subject = path.display().to_string();
        if error.kind() == io::ErrorKind::NotFound && path.is_symlink() {
            return Finding::error(subject, "is a link to nothing")
                .hint("the download is incomplete: fetch the file that it points to");
        }
        Finding::error(subject, format!("cannot be read: {error}"))
    }

    fn new(severity: Severity, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Finding { severity, subject: subject.into(), message: message.into(), hint: String::new() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", printable(&self.subject), printable(&self.message))?;
        if !self.hint.is_empty() {
            write!(f, " ({})", self.hint)?;
        }
        Ok(())
    }
}

/// Names out of a file with their control characters escaped: a terminal must not obey them.
fn printable(text: &str) -> Cow<'_, str> {
    let is_safe = |c: char| !c.is_control() || c == '\n';
    if text.chars().all(is_safe) {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().map(|c| match is_safe(c) {
        true => c.to_string(),
        false => c.escape_default().to_string(),
    });
    Cow::Owned(escaped.collect())
}

/// Why something of a checkpoint could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The checkpoint is broken, or not understood: everything that was found, at least one of it an error.
    #[error("{}", list(.0))]
    Findings(Vec<Finding>),
    /// A file could not be read or written for reasons that lie outside the checkpoint.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// An I/O error with the file it happened to.
    pub fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::Io { path: path.into(), source }
    }

    /// The error as findings, to be listed with others.
    pub fn into_findings(self) -> Vec<Finding> {
        match self {
            Error::Findings(findings) => findings,
            other => vec![Finding::error("checkpoint", other.to_string())],
        }
    }
}

impl From<Finding> for Error {
    fn from(finding: Finding) -> Self {
        Error::Findings(vec![finding])
    }
}

fn list(findings: &[Finding]) -> String {
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    lines.join("\n")
}

/// A list of findings that grows while a checkpoint is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Adds one.
    pub fn push(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    /// Adds all of `findings`.
    pub fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.0.extend(findings);
    }

    /// The value of `result`; its error joins the findings.
    pub fn absorb<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.extend(error.into_findings())).ok()
    }

    /// Whether one of them makes the checkpoint unusable.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// All of them as an error if one is, else all of them.
    pub fn into_result(self) -> Result<Vec<Finding>, Error> {
        if self.has_errors() { Err(Error::Findings(self.0)) } else { Ok(self.0) }
    }
}

impl IntoIterator for Findings {
    type Item = Finding;
    type IntoIter = std::vec::IntoIter<Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Findings {
    type Item = &'a Finding;
    type IntoIter = std::slice::Iter<'a, Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_no_name() {
        let finding = Finding::error("a\u{1b}[2Jb", "is\rgone\nand more");
        assert_eq!(finding.to_string(), "a\\u{1b}[2Jb: is\\rgone\nand more");
    }

    #[test]
    fn an_error_lists_every_finding_with_its_hint() {
        let mut findings = Findings::default();
        findings.push(Finding::note("a", "is fine"));
        assert!(!findings.has_errors());
        assert_eq!(findings.absorb::<()>(Err(Finding::error("b", "is 3, wanted 4").into())), None);
        findings.push(Finding::error("c", "is missing").hint("download it again"));
        let error = findings.into_result().unwrap_err();
        assert_eq!(
            error.to_string(),
            "a: is fine\nb: is 3, wanted 4\nc: is missing (download it again)"
        );
    }
}
