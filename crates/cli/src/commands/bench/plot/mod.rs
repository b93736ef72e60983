//! `tokenmill bench plot`: pictures of throughput against latency, a curve for each run.

mod curve;
mod svg;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use self::curve::Curve;
use crate::{
    args::{PlotArgs, PlotX},
    bounded,
    error::Error,
    output::Output,
};

/// Most bytes of a file of results.
const MAX_RESULTS: u64 = 64 << 20;

/// Reads results and draws them.
pub fn run(args: &PlotArgs, output: &Output) -> Result<(), Error> {
    let picture = Picture::create(&args.output)?;
    let curves: Vec<Curve> =
        args.results.iter().map(|path| read(path)).collect::<Result<_, Error>>()?;
    picture.write(&curve::told_apart(curves), args.plot_x)?;
    output.note(format_args!("wrote {}", args.output.display()));
    Ok(())
}

fn read(path: &Path) -> Result<Curve, Error> {
    let wrong = |message: String| Error::Usage(format!("{}: {message}", path.display()));
    let text = bounded::read_file(path, MAX_RESULTS).map_err(|source| Error::file(path, source))?;
    let value = serde_json::from_str(&text)
        .map_err(|error| wrong(format!("this is no JSON of `bench serve --json`: {error}")))?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Curve::read(value, stem).map_err(wrong)
}

/// Where a picture goes.
pub struct Picture {
    path: PathBuf,
}

impl Picture {
    /// Looks whether there is such a place, before anything is measured for it.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        if !folder.is_dir() {
            let source = io::Error::new(io::ErrorKind::NotFound, "there is no such folder");
            return Err(Error::file(folder, source));
        }
        Ok(Picture { path: path.to_owned() })
    }

    /// Draws the curves.
    pub fn write(self, curves: &[Curve], x: PlotX) -> Result<(), Error> {
        let drawing = svg::draw(curves, x).map_err(Error::Usage)?;
        fs::write(&self.path, drawing).map_err(|source| Error::file(&self.path, source))
    }
}
