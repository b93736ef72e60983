//! `tokenmill bench`: measurements through the same engine thread, scheduler and sampler that `serve` uses.

mod client;
mod cost;
mod engine;
mod latency;
mod load;
mod plot;
mod report;
mod serve;
mod stats;
mod throughput;
mod trace;
mod workload;

use server::settings::Source;
use tokenmill::{Library, Model, ModelOptions, Origin, Provenance, options::SyntheticWeights};

use super::Verbosity;
use crate::{
    args::{BenchArgs, BenchCommand, Target},
    error::Error,
    interrupt::Interrupts,
    logging,
    output::Output,
    progress::Progress,
    settings,
};

/// Measures.
pub fn bench(args: BenchArgs, verbosity: Verbosity, output: &Output) -> Result<(), Error> {
    match args.command {
        BenchCommand::Latency(args) => {
            latency::run(&args, &Bench::new(&args.target, verbosity, output)?)
        }
        BenchCommand::Throughput(args) => {
            throughput::run(&args, &Bench::new(&args.target, verbosity, output)?)
        }
        BenchCommand::Serve(args) => {
            serve::run(&args, &Bench::new(&args.target, verbosity, output)?)
        }
        BenchCommand::Plot(args) => plot::run(&args, output),
        BenchCommand::Load(args) => load::run(&args, &Bench::new(&args.target, verbosity, output)?),
    }
}

/// What all benches share.
struct Bench<'a> {
    target: &'a Target,
    output: &'a Output,
    interrupts: Interrupts,
    settings: server::settings::Resolved,
}

impl<'a> Bench<'a> {
    fn new(target: &'a Target, verbosity: Verbosity, output: &'a Output) -> Result<Self, Error> {
        let settings = settings::resolve(target.settings.given())?;
        logging::start(&settings, "warn", verbosity)?;
        Ok(Bench { target, output, interrupts: Interrupts::listen()?, settings })
    }

    /// What is measured: a checkpoint, or a configuration directory whose weights are made up.
    fn reference(&self) -> Result<&'a str, Error> {
        let given = self.target.model.as_deref().or(self.target.synthetic.as_deref());
        given.ok_or_else(|| Error::Usage("name a MODEL, or give --synthetic CONFIG_DIR".into()))
    }

    fn library(&self) -> Result<Library, Error> {
        settings::library(&self.settings)
    }

    fn model_options(&self) -> ModelOptions {
        let weights =
            SyntheticWeights { seed: self.target.seed, dtype: self.target.synthetic_dtype };
        ModelOptions {
            synthetic: self.target.synthetic.is_some().then_some(weights),
            ..settings::model_options(&self.settings)
        }
    }

    /// Loads what is measured. The bench's shape needs some settings to be at least so high; a lower one that
    /// somebody gave is an error, not a slower measurement in silence.
    fn load(&self, needs: &[(&str, u32)]) -> Result<Model, Error> {
        self.load_with(self.model_options(), needs)
    }

    /// The same for a measurement of nothing but tokens a second: unless told otherwise steps are as long as they like.
    fn load_unbounded(&self, needs: &[(&str, u32)]) -> Result<Model, Error> {
        let mut options = self.model_options();
        if self.settings.get("step-stretch").source == Source::Default {
            options.step_stretch = Some(0.0);
            let why = "nobody reads along while throughput is measured";
            options.provenance.insert("step_stretch", Provenance::new(Origin::Derived, why));
        }
        self.load_with(options, needs)
    }

    fn load_with(&self, mut options: ModelOptions, needs: &[(&str, u32)]) -> Result<Model, Error> {
        for (name, needed) in needs {
            self.raise(name, *needed as usize, &mut options)?;
        }
        let mut progress = Progress::new(self.output, &self.interrupts);
        let model = self
            .library()?
            .load(self.reference()?, options, &mut |event| progress.loading(event))?;
        Ok(model)
    }

    fn raise(&self, name: &str, needed: usize, options: &mut ModelOptions) -> Result<(), Error> {
        let (field, value) = match name {
            "max-num-seqs" => ("max_step_sequences", &mut options.max_step_sequences),
            _ => ("max_queue", &mut options.max_queue),
        };
        let now = value.unwrap_or(0);
        if now >= needed {
            return Ok(());
        }
        if self.settings.get(name).source != Source::Default {
            let text = format!("{name} is {now}, but this bench needs {needed}");
            return Err(Error::Usage(text));
        }
        *value = Some(needed);
        let why = "as many as this bench sends at once";
        options.provenance.insert(field, Provenance::new(Origin::Derived, why));
        Ok(())
    }
}
