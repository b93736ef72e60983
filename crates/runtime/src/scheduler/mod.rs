//! Who runs in the next step, and how many tokens of each.
//!
//! [`RunnerQueue::plan`] is a pure function of queue and pool; it gives a [`StepPlan`], plain data. [`RunnerQueue::apply`]
//! carries it out.

pub mod cost;
mod planner;
pub mod queue;
pub mod rank;
pub mod sequence;

pub use cost::{CacheCost, CopyCost, StepBounds, StepCost};
pub use queue::{Admission, Changes, Restoration, RunPlan, RunnerQueue, StepLimits, StepPlan};
pub use rank::Rank;
pub use sequence::Sequence;
