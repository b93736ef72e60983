//! One tarball that runs on its own: the stripped command, its completions, README and licence.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::process;
use crate::repo::Repo;

/// Options of `cargo xtask dist`.
#[derive(clap::Args)]
pub struct Options {
    /// Where to put the tarball, relative to the root of the repository.
    #[arg(long, default_value = "target/dist")]
    out: PathBuf,
}

/// Shells that the command writes completions for, and the file that each expects.
const COMPLETIONS: &[(&str, &str)] =
    &[("bash", "tokenmill.bash"), ("zsh", "_tokenmill"), ("fish", "tokenmill.fish")];

/// Builds the release and packs it.
pub fn run(repo: &Repo, options: &Options) -> Result<(), Error> {
    let mut build = repo.cargo();
    build.args(["build", "--profile", "dist", "--locked", "--package", "cli"]);
    process::run(&mut build)?;
    let binary = repo.target().join("dist/tokenmill");

    let name = package_name(&process::read(Command::new(&binary).arg("--version"))?);
    let out = repo.root.join(&options.out);
    let folder = out.join(&name);
    make(&folder.join("completions"))?;
    copy(&binary, &folder.join("tokenmill"))?;
    for file in ["README.md", "LICENSE", "CHANGELOG.md"] {
        copy(&repo.root.join(file), &folder.join(file))?;
    }
    for (shell, file) in COMPLETIONS {
        let script = process::read(Command::new(&binary).args(["completions", shell]))?;
        let path = folder.join("completions").join(file);
        std::fs::write(&path, script).map_err(|source| Error::File { path, source })?;
    }

    let tarball = out.join(format!("{name}.tar.gz"));
    process::run(Command::new("tar").arg("-C").arg(&out).arg("-czf").arg(&tarball).arg(&name))?;
    println!("{}", tarball.display());
    Ok(())
}

/// `tokenmill 0.1.0 ...` -> `tokenmill-0.1.0-x86_64-linux`.
fn package_name(version: &str) -> String {
    let mut words = version.split_whitespace();
    let (program, number) = (words.next().unwrap_or("tokenmill"), words.next().unwrap_or("0"));
    format!("{program}-{number}-{}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

fn make(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder)
        .map_err(|source| Error::File { path: folder.to_owned(), source })
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let copied = std::fs::copy(from, to);
    copied.map(|_| ()).map_err(|source| Error::File { path: from.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tarball_is_named_after_version_and_machine() {
        assert!(package_name("tokenmill 0.1.0 (abc)\n").starts_with("tokenmill-0.1.0-"));
    }
}
