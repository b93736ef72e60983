//! A loaded decoder that runs steps on the device.

use std::collections::VecDeque;

use runtime::{
    backend::{RunnerSpec, StepError, StepRunner},
    batch::{
        Copied, CopyId, CopyWay, HostCopy, OutputKind, Positions, StepBatch, StepId, StepOutput,
        TokenInput,
    },
};

use super::executor::{ExecuteError, Executor, Queued};

/// The runner of a GPU.
#[derive(Debug)]
pub struct CudaRunner {
    spec: RunnerSpec,
    executor: Executor,
    /// Steps queued and not yet waited for, oldest first.
    pending: VecDeque<(StepId, Queued)>,
    /// Steps queued so far; they take the staging memory in turn.
    count: usize,
    /// For each output of the step before: whether it was a sample.
    sampled: Vec<bool>,
    last: StepId,
    fault: Option<String>,
}

impl CudaRunner {
    /// A runner over an executor whose cache and workspace are as `spec` says.
    pub fn new(spec: RunnerSpec, executor: Executor) -> CudaRunner {
        CudaRunner {
            spec,
            executor,
            pending: VecDeque::new(),
            count: 0,
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
}

impl StepRunner for CudaRunner {
    fn spec(&self) -> &RunnerSpec {
        &self.spec
    }

    fn submit(&mut self, batch: StepBatch) -> Result<StepId, StepError> {
        self.check(&batch)?;
        let staging = self.count % self.spec.max_in_flight;
        let bound = self.executor.stream().gpu().bind().map_err(ExecuteError::from);
        let queued = bound.and_then(|()| self.executor.submit(&batch, staging));
        let queued = queued.map_err(|error| self.fail(&error))?;
        let is_sample = |kind: &OutputKind| matches!(kind, OutputKind::Sample(_));
        self.sampled = batch.outputs.iter().map(|output| is_sample(&output.kind)).collect();
        self.count += 1;
        self.last = batch.step;
        self.pending.push_back((batch.step, queued));
        Ok(self.last)
    }

    fn wait(&mut self) -> Result<StepOutput, StepError> {
        if let Some(fault) = &self.fault {
            return Err(StepError::Fault(fault.clone()));
        }
        let pending = self.pending.pop_front();
        let (step, queued) =
            pending.ok_or_else(|| StepError::Invalid("no step was submitted".to_owned()))?;
        let rows = self.executor.wait(&queued).map_err(|error| self.fail(&error))?;
        Ok(StepOutput { step, rows })
    }

    fn copy(&mut self, way: CopyWay, copies: &[HostCopy]) -> Result<CopyId, StepError> {
        if let Some(fault) = &self.fault {
            return Err(StepError::Fault(fault.clone()));
        }
        let bound = self.executor.stream().gpu().bind().map_err(ExecuteError::from);
        let queued = bound.and_then(|()| self.executor.copy(way, copies));
        queued.map_err(|error| self.fail(&error))
    }

    fn copied(&mut self) -> Result<Option<Copied>, StepError> {
        let copied = self.executor.copied();
        copied.map_err(|error| self.fail(&error))
    }
}
