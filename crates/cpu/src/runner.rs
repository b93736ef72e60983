//! A loaded decoder that runs steps: checks each, computes it, and remembers what the next one may refer to.

use std::panic::{AssertUnwindSafe, catch_unwind};

use foundation::TokenId;
use runtime::{
    backend::{RunnerSpec, StepError, StepRunner},
    batch::{OutputKind, RowOutput, StepBatch, StepId, StepOutput, TokenInput},
    sampling::TokenCounts,
};

use crate::{
    executor::Executor,
    outputs::{outputs, slot_of},
    validate::validate,
};

/// The runner of the host. A step is computed when it is waited for; there is no run-ahead.
#[derive(Debug)]
pub struct CpuRunner {
    spec: RunnerSpec,
    executor: Executor,
    /// Token counts of each slot.
    counts: Vec<TokenCounts>,
    /// The step that was submitted and not yet waited for.
    pending: Option<StepBatch>,
    /// For each output of the step before: whether it was a sample, and what token it gave.
    sampled: Vec<Option<Option<TokenId>>>,
    /// The number of the step submitted last.
    last: StepId,
    /// Why nothing can be computed any more.
    fault: Option<String>,
}

impl CpuRunner {
    /// A runner over an executor whose cache and workspace are as `spec` says.
    pub fn new(spec: RunnerSpec, executor: Executor) -> CpuRunner {
        let counts = vec![TokenCounts::default(); spec.max_step_sequences];
        CpuRunner {
            spec,
            executor,
            counts,
            pending: None,
            sampled: Vec::new(),
            last: StepId(0),
            fault: None,
        }
    }

    fn compute(&mut self, batch: &StepBatch) -> Vec<RowOutput> {
        for reset in &batch.slot_resets {
            self.counts[reset.slot.0 as usize] = TokenCounts::new(&reset.prompt, &reset.generated);
        }
        let tokens: Vec<TokenId> = batch.tokens.iter().map(|token| self.resolve(*token)).collect();
        self.executor.forward(batch, &tokens);
        let rows = outputs(&self.executor, batch, &self.counts);
        self.commit(batch, &rows);
        rows
    }

    fn resolve(&self, token: TokenInput) -> TokenId {
        match token {
            TokenInput::Known(token) => token,
            // A row that failed has no token; what follows it is discarded.
            TokenInput::Sampled { output } => {
                self.sampled[output as usize].flatten().unwrap_or_default()
            }
        }
    }

    /// Remembers what was sampled, and counts it where penalties need that.
    fn commit(&mut self, batch: &StepBatch, rows: &[RowOutput]) {
        self.sampled.clear();
        for (output, row) in batch.outputs.iter().zip(rows) {
            let token = match row {
                RowOutput::Sampled { token, .. } => Some(*token),
                _ => None,
            };
            let is_sample = matches!(output.kind, OutputKind::Sample(_));
            self.sampled.push(is_sample.then_some(token));
            if let (OutputKind::Sample(sampling), Some(token)) = (&output.kind, token)
                && sampling.params.needs_counts()
            {
                self.counts[slot_of(batch, output.row).0 as usize].add(token);
            }
        }
    }

    fn check_fault(&self) -> Result<(), StepError> {
        self.fault.as_ref().map_or(Ok(()), |fault| Err(StepError::Fault(fault.clone())))
    }
}

impl StepRunner for CpuRunner {
    fn spec(&self) -> &RunnerSpec {
        &self.spec
    }

    fn submit(&mut self, batch: StepBatch) -> Result<StepId, StepError> {
        self.check_fault()?;
        if let Some(pending) = &self.pending {
            let finding =
                format!("step {} is not waited for yet, 1 may be in flight", pending.step.0);
            return Err(StepError::Invalid(finding));
        }
        if batch.step <= self.last {
            let finding = format!("step {} after step {}", batch.step.0, self.last.0);
            return Err(StepError::Invalid(finding));
        }
        let samples: Vec<bool> = self.sampled.iter().map(Option::is_some).collect();
        validate(&batch, &self.spec, &samples)?;
        self.last = batch.step;
        self.pending = Some(batch);
        Ok(self.last)
    }

    fn wait(&mut self) -> Result<StepOutput, StepError> {
        self.check_fault()?;
        let batch = self.pending.take();
        let batch = batch.ok_or_else(|| StepError::Invalid("no step was submitted".to_owned()))?;
        match catch_unwind(AssertUnwindSafe(|| self.compute(&batch))) {
            Ok(rows) => Ok(StepOutput { step: batch.step, rows }),
            Err(panic) => {
                let fault = format!("step {} panicked: {}", batch.step.0, panic_text(&*panic));
                self.fault = Some(fault.clone());
                Err(StepError::Fault(fault))
            }
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
