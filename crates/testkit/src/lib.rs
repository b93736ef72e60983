//! What tests of all crates share: a fake model behind the real seam, a gate that holds any backend back, a clock that
//! obeys, seeded randomness, goldens, what must be equal however it is served, a proposer that knows, a hub on this machine.
//!
//! Knows: the runtime's interfaces, the goldens beside the fixtures. Does not know: any real backend.

pub mod chain;
pub mod clock;
pub mod compare;
pub mod equality;
pub mod fake;
pub mod gate;
pub mod golden;
pub mod harness;
pub mod held;
pub mod hub;
pub mod oracle;
pub mod rng;
pub mod script;
pub mod served;

pub use chain::ChainConstraint;
pub use clock::SimClock;
pub use fake::{CopyTimes, FakeBackend, FakeModel, FakeRunner, Fault, FaultKind};
pub use gate::{Gate, GatedBackend};
pub use held::HeldWorkers;
pub use oracle::Oracle;
pub use rng::Rng;
pub use script::{Script, ScriptedBackend};
pub use served::Served;
