//! A fake model behind the real seam.
//!
//! [`FakeRunner`] keeps tokens in fake KV blocks and makes logits from a hash of what it reads back through the block
//! tables it is given. Wrong tables, stale blocks, missed copies or a confused regime give other tokens than
//! [`FakeModel::alone`], which knows the true sequence.

pub mod backend;
mod copies;
pub mod model;
pub mod runner;

pub use backend::FakeBackend;
pub use copies::CopyTimes;
pub use model::{Cell, Expected, FakeModel};
pub use runner::{FakeRunner, Fault, FaultKind};
