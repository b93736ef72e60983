//! Why a constraint is refused.

/// Why a constraint is refused, in words for whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// It is larger than anybody compiles.
    #[error("{what} {seen}; at most {limit} are allowed")]
    TooLarge {
        /// What is too many: `has bytes:`, `is nested in levels:`.
        what: &'static str,
        /// How many there are, at least.
        seen: usize,
        /// How many there may be.
        limit: usize,
    },
    /// It says something that is not honoured here.
    #[error("{0}")]
    Unsupported(String),
    /// The compiler's own words, cut to a length that can be read.
    #[error("{0}")]
    Compile(String),
}

/// Longest sentence of the compiler that is passed on, in characters.
const MAX_SENTENCE: usize = 300;

impl GrammarError {
    /// What the compiler said, in one line.
    pub(crate) fn compile(error: impl std::fmt::Display) -> Self {
        GrammarError::Compile(sentence(error))
    }
}

/// The beginning of what the compiler said, in one line: grammars and states that it shows after it are left out.
pub(crate) fn sentence(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    let text = text.split("\n<").next().unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_SENTENCE) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}
