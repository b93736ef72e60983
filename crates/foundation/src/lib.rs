//! Names and numbers that all tokenmill crates share.
//!
//! Knows: identifiers, data types, byte counts, tokens, model manifests.
//! Does not know: file formats, devices, how anything is computed.

pub mod dtype;
pub mod ids;
pub mod model;
pub mod units;

pub use dtype::DType;
pub use ids::{BlockId, ModelId, RequestId, SlotId, TokenId};
pub use units::Bytes;
