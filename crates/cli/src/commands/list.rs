//! `tokenmill list`: the checkpoints in the hub cache.

use serde::Serialize;
use tokenmill::{Bytes, Library, LibraryOptions, ModelOptions, builtin};

use crate::{
    args::ListArgs,
    error::Error,
    output::{BOLD, Output},
};

/// A checkpoint in the list.
#[derive(Serialize)]
struct Row {
    name: String,
    revision: String,
    bytes: u64,
    /// `None` where the configuration cannot be understood.
    architecture: Option<String>,
    path: std::path::PathBuf,
}

/// Prints the list.
pub fn list(args: ListArgs, output: &Output) -> Result<(), Error> {
    let library = Library::new(LibraryOptions::default())?;
    let rows = rows(&library)?;
    if args.json {
        return output.json(&rows);
    }
    if rows.is_empty() {
        output.note("no models in the hub cache yet; `tokenmill pull ORG/NAME` brings one");
        tell_built_in(output);
        return Ok(());
    }
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max("NAME".len());
    output.line(format_args!("{BOLD}{:<width$}  {:>10}  ARCHITECTURE{BOLD:#}", "NAME", "SIZE"))?;
    for row in &rows {
        let architecture = row.architecture.as_deref().unwrap_or("not understood");
        output.line(format_args!(
            "{:<width$}  {:>10}  {architecture}",
            row.name,
            Bytes(row.bytes)
        ))?;
    }
    tell_built_in(output);
    Ok(())
}

/// Names the models that are there without a pull.
fn tell_built_in(output: &Output) {
    for model in builtin::all() {
        let (name, size) = (model.name, Bytes(model.bytes));
        output.note(format_args!("built in: {name} ({size}); try `tokenmill run {name}`"));
    }
}

fn rows(library: &Library) -> Result<Vec<Row>, Error> {
    let architecture = |name: &str| {
        let report = library.inspect(name, &ModelOptions::default()).ok()?;
        report.model?.architecture
    };
    let models = library.local_models()?.into_iter();
    let row = |model: tokenmill::LocalModel| Row {
        architecture: architecture(&model.name),
        name: model.name,
        revision: model.revision,
        bytes: model.bytes,
        path: model.path,
    };
    Ok(models.map(row).collect())
}
