//! The engine without its thread: commands in, steps out. A simulation drives it call by call.

use std::sync::Arc;

use super::{
    EngineOptions, FinishReason, Usage,
    inbox::{Command, Shared},
};
use crate::backend::StepRunner;

/// What a call of [`EngineCore::step`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something; there may be more.
    Worked,
    /// There is nothing to do until a command comes.
    Idle,
}

/// Owns the runner and every sequence.
pub struct EngineCore {
    _runner: Box<dyn StepRunner>,
    shared: Arc<Shared>,
}

impl EngineCore {
    pub(crate) fn new(
        runner: Box<dyn StepRunner>,
        _options: &EngineOptions,
        shared: Arc<Shared>,
    ) -> Self {
        EngineCore { _runner: runner, shared }
    }

    pub(crate) fn accept(&mut self, command: Command) {
        if let Command::Submit(job) = command {
            job.responder
                .finish(FinishReason::Failed("scheduling follows".into()), Usage::default());
        }
    }

    /// One turn of the loop.
    pub fn step(&mut self) -> Progress {
        self.shared.stepped();
        self.shared.idle();
        Progress::Idle
    }
}
