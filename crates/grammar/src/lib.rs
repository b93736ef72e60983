//! Constraints on what is generated: compiled against a vocabulary, followed token by token.
//!
//! Knows: grammars, schemas, regular expressions, and which tokens keep a text within them. Does not know: tokenizers'
//! files, engines, HTTP. The compiler and the parser are `llguidance`; what is here bounds them and fits them to
//! [`runtime::sampling::Constraint`].
//!
//! [`Vocabulary`] is made once a model, [`Vocabulary::compile`] turns a [`Constraint`] into a [`Compiled`], of which each
//! sequence follows a copy.

mod compiled;
mod constraint;
mod error;
mod follower;
mod terminals;
mod vocabulary;

pub use compiled::Compiled;
pub use constraint::{
    Constraint, MAX_BYTES, MAX_CHOICES, MAX_DEPTH, MAX_GRAMMAR_BYTES, MAX_PATTERN_BYTES,
};
pub use error::GrammarError;
pub use vocabulary::{TokenSpelling, Vocabulary};

#[cfg(test)]
mod tests;
