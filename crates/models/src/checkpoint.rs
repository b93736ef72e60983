//! Everything that is known of a checkpoint before a weight is read.

use foundation::model::{ModelManifest, WeightOrigin};

use crate::{
    catalog::TensorCatalog,
    config::Config,
    contract::DecoderExecutionContract,
    error::{Error, Finding, Findings},
    layout::ModelLayout,
    metadata::ModelMetadata,
    task::TaskExecutionPlan,
};

/// A checkpoint that was found sound: its files, what they say, and the contract to execute it.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The files.
    pub layout: ModelLayout,
    /// Names and numbers.
    pub metadata: ModelMetadata,
    /// The tensors; empty where the weights are made up.
    pub catalog: TensorCatalog,
    /// What it is for.
    pub task: TaskExecutionPlan,
    /// Meaning and weights of its decoder, for the tasks that have one.
    pub contract: Option<DecoderExecutionContract>,
    /// What is worth knowing; none of it an error.
    pub findings: Vec<Finding>,
}

/// As much of a checkpoint as could be read, with everything that is wrong with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// The files.
    pub layout: Option<ModelLayout>,
    /// Names and numbers.
    pub metadata: Option<ModelMetadata>,
    /// The tensors.
    pub catalog: Option<TensorCatalog>,
    /// What it is for.
    pub task: Option<TaskExecutionPlan>,
    /// Meaning and weights of its decoder.
    pub contract: Option<DecoderExecutionContract>,
    /// Everything that was found.
    pub findings: Findings,
}

impl Checkpoint {
    /// Reads what `manifest` names: configuration and headers, no weights. Fails with every finding at once.
    pub fn open(manifest: &ModelManifest) -> Result<Checkpoint, Error> {
        let survey = Survey::of(manifest);
        let findings = survey.findings.into_result()?;
        let whole = "a survey without errors is whole";
        Ok(Checkpoint {
            layout: survey.layout.expect(whole),
            metadata: survey.metadata.expect(whole),
            catalog: survey.catalog.expect(whole),
            task: survey.task.expect(whole),
            contract: survey.contract,
            findings,
        })
    }
}

impl Survey {
    /// Reads as much as it can of what `manifest` names; each step goes on from what the earlier ones found.
    pub fn of(manifest: &ModelManifest) -> Survey {
        let mut survey = Survey::default();
        survey.read(manifest);
        survey
    }

    fn read(&mut self, manifest: &ModelManifest) -> Option<()> {
        let synthetic = manifest.weights != WeightOrigin::Files;
        let layout = match synthetic {
            true => ModelLayout::survey_without_weights(&manifest.path, &mut self.findings),
            false => ModelLayout::survey(&manifest.path, &mut self.findings),
        };
        let layout = self.layout.insert(layout?);
        // That there is none was said with the files.
        let config = crate::files::is_there(&layout.config).then(|| Config::read(&layout.config));
        let config = config.and_then(|config| self.findings.absorb(config));
        // Without a weight file there is nothing to hold against anything, and that was said, too.
        let has_files = !layout.weights.is_empty() || !layout.absent_weights.is_empty();
        self.catalog =
            (synthetic || has_files).then(|| TensorCatalog::survey(layout, &mut self.findings));
        if let Some(config) = &config {
            self.read_meaning(config, manifest);
        }
        let (task, contract) = (self.task.as_ref(), self.contract.as_ref());
        let catalog = self.catalog.as_ref().filter(|_| !synthetic);
        self.metadata = Some(ModelMetadata::new(config.as_ref(), catalog, task, contract));
        Some(())
    }

    fn read_meaning(&mut self, config: &Config, manifest: &ModelManifest) -> Option<()> {
        let catalog = self.catalog.as_ref().filter(|_| manifest.weights == WeightOrigin::Files);
        let task = TaskExecutionPlan::discover(
            self.layout.as_ref()?,
            config,
            catalog,
            &manifest.ignored_config_keys,
            &mut self.findings,
        );
        let task = self.task.insert(task?);
        self.findings.absorb(task.require_execution());
        // The tensors of a quantised checkpoint differ from the plan by design: its own finding says all there is.
        if config.quantization().is_none() {
            self.contract = contract(task, manifest, catalog, &mut self.findings);
        }
        Some(())
    }
}

fn contract(
    task: &TaskExecutionPlan,
    manifest: &ModelManifest,
    catalog: Option<&TensorCatalog>,
    findings: &mut Findings,
) -> Option<DecoderExecutionContract> {
    let decoder = task.decoder()?;
    match manifest.weights {
        WeightOrigin::Files => DecoderExecutionContract::discover(decoder, catalog?, findings),
        WeightOrigin::Synthetic { seed, dtype } => {
            if crate::format::dense::is_dense(dtype) {
                return Some(DecoderExecutionContract::synthetic(decoder, seed, dtype));
            }
            let known = crate::format::names().join(", ");
            let message = format!("cannot be of type {dtype}, only of {known}");
            findings.push(Finding::error("synthetic weights", message));
            None
        }
    }
}

#[cfg(test)]
mod tests;
