//! A backend that computes as another does and then says what it was told to say.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use foundation::{SlotId, TokenId, model::ModelManifest};
use runtime::{
    backend::{Backend, LoadError, LoadOptions, MemoryPlan, RunnerSpec, StepError, StepRunner},
    batch::{OutputKind, RowOutput, StepBatch, StepId, StepOutput},
    progress::ProgressEvent,
};

/// What a [`ScriptedBackend`] says next. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Script {
    answer: Arc<Mutex<Arc<[TokenId]>>>,
}

impl Script {
    /// From now on every new answer is these tokens, in place of those that were sampled; what comes after them is
    /// sampled. Empty: everything is.
    pub fn say(&self, tokens: impl Into<Arc<[TokenId]>>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = tokens.into();
    }

    fn answer(&self) -> Arc<[TokenId]> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Another backend whose answers are scripted. Log-probabilities stay those of the tokens that were sampled.
pub struct ScriptedBackend {
    inner: Arc<dyn Backend>,
    script: Script,
}

impl ScriptedBackend {
    /// `inner`, saying what `script` has.
    pub fn new(inner: Arc<dyn Backend>, script: Script) -> Self {
        ScriptedBackend { inner, script }
    }
}

impl Backend for ScriptedBackend {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn admit(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
    ) -> Result<MemoryPlan, LoadError> {
        self.inner.admit(manifest, options)
    }

    fn load(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
        progress: &mut dyn FnMut(ProgressEvent) -> bool,
    ) -> Result<Box<dyn StepRunner>, LoadError> {
        let inner = self.inner.load(manifest, options, progress)?;
        let script = self.script.clone();
        Ok(Box::new(ScriptedRunner {
            inner,
            script,
            lines: HashMap::new(),
            submitted: VecDeque::new(),
        }))
    }
}

/// The part that a sequence reads from.
struct Line {
    answer: Arc<[TokenId]>,
    /// Tokens before the answer.
    prompt: usize,
}

struct ScriptedRunner {
    inner: Box<dyn StepRunner>,
    script: Script,
    lines: HashMap<SlotId, Line>,
    /// For each step under way, what each output row is to say.
    submitted: VecDeque<Vec<Option<TokenId>>>,
}

impl ScriptedRunner {
    fn words(&mut self, batch: &StepBatch) -> Vec<Option<TokenId>> {
        for reset in &batch.slot_resets {
            self.lines.remove(&reset.slot);
        }
        let mut words = Vec::with_capacity(batch.outputs.len());
        for output in &batch.outputs {
            let run = batch.runs.iter().find(|run| run.rows.contains(&output.row));
            let sampled = matches!(output.kind, OutputKind::Sample(_));
            words.push(run.filter(|_| sampled).and_then(|run| {
                let before = (run.cached + output.row - run.rows.start) as usize + 1;
                let script = &self.script;
                let line = self.lines.entry(run.slot);
                let line = line.or_insert_with(|| Line { answer: script.answer(), prompt: before });
                line.answer.get(before.checked_sub(line.prompt)?).copied()
            }));
        }
        words
    }
}

impl StepRunner for ScriptedRunner {
    fn spec(&self) -> &RunnerSpec {
        self.inner.spec()
    }

    fn submit(&mut self, batch: StepBatch) -> Result<StepId, StepError> {
        let words = self.words(&batch);
        let step = self.inner.submit(batch)?;
        self.submitted.push_back(words);
        Ok(step)
    }

    fn wait(&mut self) -> Result<StepOutput, StepError> {
        let mut output = self.inner.wait()?;
        let words = self.submitted.pop_front().unwrap_or_default();
        for (row, word) in output.rows.iter_mut().zip(words) {
            if let (RowOutput::Sampled { token, .. }, Some(word)) = (row, word) {
                *token = word;
            }
        }
        Ok(output)
    }
}
