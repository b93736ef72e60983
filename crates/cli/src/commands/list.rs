//! `tokenmill list`: the checkpoints in the hub cache.

use serde::Serialize;
use tokenmill::{Bytes, Library, LibraryOptions, ModelOptions, builtin, hub::Leftover};

use crate::{
    args::ListArgs,
    error::Error,
    output::{BOLD, Output},
};

/// A checkpoint in the list.
#[derive(Serialize)]
struct Row {
    name: String,
    /// `None` where no revision is whole.
    revision: Option<String>,
    bytes: u64,
    /// A pull did not come to its end.
    incomplete: bool,
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
        let architecture = match row.incomplete {
            true => "incomplete: pull it again, or rm it",
            false => row.architecture.as_deref().unwrap_or("not understood"),
        };
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
        revision: Some(model.revision),
        bytes: model.bytes,
        incomplete: false,
        path: model.path,
    };
    let left = |left: Leftover| Row {
        architecture: None,
        name: left.repository,
        revision: None,
        bytes: left.bytes,
        incomplete: true,
        path: left.path,
    };
    let leftovers = library.leftovers()?.into_iter().map(left);
    let mut rows: Vec<Row> = models.map(row).chain(leftovers).collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(rows)
}
