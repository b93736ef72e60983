//! A loaded decoder that runs steps on the device.

use std::collections::VecDeque;

use runtime::{
    backend::{RunnerSpec, StepError, StepRunner},
    batch::{OutputKind, Positions, RowOutput, StepBatch, StepId, StepOutput, TokenInput},
    sampling::{TokenCounts, sample, score},
};

use super::{
    executor::{ExecuteError, Executor},
    layout::Layout,
};

/// The runner of a GPU.
#[derive(Debug)]
pub struct CudaRunner {
    spec: RunnerSpec,
    executor: Executor,
    /// Token counts of each slot.
    counts: Vec<TokenCounts>,
    /// Steps queued and not yet waited for, oldest first.
    pending: VecDeque<Pending>,
    /// For each output of the step before: whether it was a sample.
    sampled: Vec<bool>,
    last: StepId,
    fault: Option<String>,
}

#[derive(Debug)]
struct Pending {
    batch: StepBatch,
    layout: Layout,
}

impl CudaRunner {
    /// A runner over an executor whose cache and workspace are as `spec` says.
    pub fn new(spec: RunnerSpec, executor: Executor) -> CudaRunner {
        let counts = vec![TokenCounts::default(); spec.max_step_sequences];
        CudaRunner {
            spec,
            executor,
            counts,
            pending: VecDeque::new(),
            sampled: Vec::new(),
            last: StepId(0),
            fault: None,
        }
    }

    fn check(&self, batch: &StepBatch) -> Result<(), StepError> {
        if let Some(fault) = &self.fault {
            return Err(StepError::Fault(fault.clone()));
        }
        if self.pending.len() >= self.spec.max_in_flight {
            let text = format!("{} steps are in flight already", self.pending.len());
            return Err(StepError::Invalid(text));
        }
        if batch.step <= self.last {
            let text = format!("step {} after step {}", batch.step.0, self.last.0);
            return Err(StepError::Invalid(text));
        }
        batch.check(&self.spec, self.sampled.len()).map_err(StepError::Invalid)?;
        self.check_extras(batch).map_err(StepError::Invalid)
    }

    fn check_extras(&self, batch: &StepBatch) -> Result<(), String> {
        if !matches!(batch.positions, Positions::Text(_)) {
            return Err("positions in three planes, one is supported".to_owned());
        }
        for (row, token) in batch.tokens.iter().enumerate() {
            if let TokenInput::Sampled { output } = token
                && !self.sampled[*output as usize]
            {
                return Err(format!("row {row} waits for output {output}, which is no sample"));
            }
        }
        for (index, run) in batch.runs.iter().enumerate() {
            if run.adapter.is_some() || run.rewind != 0 {
                return Err(format!("run {index} asks for an adapter or a rewind; there is none"));
            }
        }
        let hidden = self.spec.hidden_size;
        let wrong = batch.embeddings.iter().find(|given| {
            given.values.len() != given.rows.len() * hidden
                || given.rows.end as usize > batch.tokens.len()
        });
        wrong.map_or(Ok(()), |given| {
            Err(format!("{} values for rows {:?} of {hidden}", given.values.len(), given.rows))
        })
    }

    /// Remembers why nothing can be computed any more.
    fn fail(&mut self, error: &ExecuteError) -> StepError {
        let launches = self.executor.stream().recorder();
        tracing::error!(%error, "the GPU failed; the last launches, latest first:\n{launches}");
        self.fault = Some(error.to_string());
        StepError::Fault(error.to_string())
    }

    fn answer(&mut self, pending: &Pending) -> Result<Vec<RowOutput>, ExecuteError> {
        let Pending { batch, layout } = pending;
        let mut rows = Vec::with_capacity(batch.outputs.len());
        let chunk = self.executor.output_rows;
        for start in (0..batch.outputs.len()).step_by(chunk) {
            let range = start..batch.outputs.len().min(start + chunk);
            let outputs = &batch.outputs[range.clone()];
            let full = outputs.iter().any(|output| output.kind == OutputKind::Hidden);
            self.executor.outputs(layout, range, full)?;
            for (row, output) in outputs.iter().enumerate() {
                rows.push(self.answer_row(batch, row, output.row, &output.kind)?);
            }
        }
        Ok(rows)
    }

    fn answer_row(
        &mut self,
        batch: &StepBatch,
        row: usize,
        token_row: u32,
        kind: &OutputKind,
    ) -> Result<RowOutput, ExecuteError> {
        if *kind == OutputKind::Hidden {
            return Ok(RowOutput::Hidden(self.executor.hidden(row)?));
        }
        let mut logits = self.executor.logits(row)?;
        Ok(match kind {
            OutputKind::Sample(sampling) => {
                let run = batch.runs.partition_point(|run| run.rows.end <= token_row);
                let counts = &mut self.counts[batch.runs[run].slot.0 as usize];
                let needed = sampling.params.needs_counts();
                let output =
                    RowOutput::from(sample(&mut logits, sampling, needed.then_some(counts)));
                if let (RowOutput::Sampled { token, .. }, true) = (&output, needed) {
                    counts.add(*token);
                }
                output
            }
            OutputKind::Score { target, top } => match score(&logits, *target, *top) {
                Ok(logprobs) => RowOutput::Scored(logprobs),
                Err(error) => RowOutput::Failed(error.to_string()),
            },
            OutputKind::Logits | OutputKind::Hidden => RowOutput::Logits(logits),
        })
    }
}

impl StepRunner for CudaRunner {
    fn spec(&self) -> &RunnerSpec {
        &self.spec
    }

    fn submit(&mut self, batch: StepBatch) -> Result<StepId, StepError> {
        self.check(&batch)?;
        for reset in &batch.slot_resets {
            self.counts[reset.slot.0 as usize] = TokenCounts::new(&reset.prompt, &reset.generated);
        }
        let bound = self.executor.stream().gpu().bind().map_err(ExecuteError::from);
        let layout = bound.and_then(|()| self.executor.forward(&batch, 0));
        let layout = layout.map_err(|error| self.fail(&error))?;
        self.sampled = batch
            .outputs
            .iter()
            .map(|output| matches!(output.kind, OutputKind::Sample(_)))
            .collect();
        self.last = batch.step;
        self.pending.push_back(Pending { batch, layout });
        Ok(self.last)
    }

    fn wait(&mut self) -> Result<StepOutput, StepError> {
        if let Some(fault) = &self.fault {
            return Err(StepError::Fault(fault.clone()));
        }
        let pending = self.pending.pop_front();
        let pending =
            pending.ok_or_else(|| StepError::Invalid("no step was submitted".to_owned()))?;
        let rows = self.answer(&pending).map_err(|error| self.fail(&error))?;
        Ok(StepOutput { step: pending.batch.step, rows })
    }
}
