//! `tokenmill pull`: brings a checkpoint into the hub cache.

use serde_json::json;
use tokenmill::{
    Bytes, builtin,
    config::Environment,
    hub::{self, HubOptions},
};

use super::Verbosity;
use crate::{
    args::PullArgs, error::Error, interrupt::Interrupts, logging, output::Output,
    progress::Progress, settings,
};

/// Pulls, and says where the checkpoint is.
pub fn pull(args: PullArgs, verbosity: Verbosity, output: &Output) -> Result<(), Error> {
    logging::start(&settings::resolve(Default::default())?, "warn", verbosity)?;
    if builtin::find(&args.model).is_some() {
        let text = format!("{} is built in: there is nothing to pull", args.model);
        return Err(Error::Usage(text));
    }
    let failed = |source| Error::Pull { reference: args.model.clone(), source };
    let environment = HubOptions::from_environment(&Environment::of_process()).map_err(failed)?;
    let options = HubOptions { retries: args.retries, ..environment };
    let interrupts = Interrupts::listen()?;
    let mut progress = Progress::new(output, &interrupts);
    let pulled = hub::pull(&args.model, &options, &mut |event| progress.pulling(event));
    progress.clear();
    let pulled = pulled.map_err(failed)?;
    if args.json {
        return output.json(&json!({
            "path": pulled.path,
            "commit": pulled.commit,
            "downloaded_bytes": pulled.downloaded,
            "cached_bytes": pulled.cached,
        }));
    }
    output.note(format_args!(
        "{} downloaded, {} here already; run it with `tokenmill run {}`",
        Bytes(pulled.downloaded),
        Bytes(pulled.cached),
        args.model
    ));
    output.line(pulled.path.display())
}
