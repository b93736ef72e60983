//! What tests of several crates share.
//!
//! Knows: goldens of the fixtures, comparators. Does not know: how anything is computed.

pub mod golden;
