//! Whether the engine can serve, readable without stopping it.

use std::time::Duration;

/// The engine's state at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// A new request would be served: no fault, thread alive, steps going on.
    pub ok: bool,
    /// What is wrong, if something is.
    pub problem: Option<String>,
    /// It is wrong for good: the device or the engine failed, and only a new process helps.
    pub lost: bool,
    /// The engine finishes what it has and takes nothing new.
    pub draining: bool,
    /// Time since the last step ended, while there is work; `None`: idle.
    pub last_step_age: Option<Duration>,
    /// Requests that wait for their first step.
    pub queued: usize,
    /// Requests that take part in steps.
    pub running: usize,
}
