//! The official `openai` Python client against our server: the clients people have must work.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ci::Outcome;
use crate::error::Error;
use crate::process;
use crate::repo::Repo;

/// What the test needs from the Python package index, pinned.
const REQUIREMENTS: &str = "tests/requirements.txt";

/// Runs `tests/openai_client.py` against the debug binary, in a virtual environment of its own
/// under the target folder.
pub fn run(repo: &Repo) -> Result<Outcome, Error> {
    if !process::works(Command::new("python3").args(["-c", "import venv, ensurepip"])) {
        return Ok(Outcome::Missing {
            tool: "python3",
            advice: "Python 3.9 or later with `venv` is needed to run the openai client",
        });
    }
    let python = environment(repo)?;
    let binary = repo.target().join("debug/tokenmill");
    let mut client = Command::new(python);
    client.current_dir(&repo.root).arg("tests/openai_client.py").arg(binary);
    println!("{}", process::line(&client));
    process::run(&mut client)?;
    Ok(Outcome::Passed)
}

/// The interpreter of a virtual environment that has what the requirements name. It is made anew
/// when the requirements change; a note beside it says for which it was made.
fn environment(repo: &Repo) -> Result<PathBuf, Error> {
    let folder = repo.target().join("openai-client");
    let python = folder.join("bin/python");
    let made_for = folder.join("made-for.txt");
    let wanted = repo.bytes(REQUIREMENTS)?;
    if std::fs::read(&made_for).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    process::run(pip.arg(repo.root.join(REQUIREMENTS)))?;
    write(&made_for, &wanted)?;
    Ok(python)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).map_err(|source| Error::File { path: path.to_owned(), source })
}
