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

/// Builds the release, packs it, and tries out what was packed.
pub fn run(repo: &Repo, options: &Options) -> Result<(), Error> {
    let mut build = repo.cargo();
    build.args(["build", "--profile", "dist", "--locked", "--package", "cli"]);
    process::run(&mut build)?;
    let binary = repo.target().join("dist/tokenmill");

    let name = package_name(&process::read(Command::new(&binary).arg("--version"))?);
    let out = repo.root.join(&options.out);
    fill(repo, &binary, &fresh(out.join(&name))?)?;
    let tarball = pack(&out, &name)?;
    try_out(repo, &out, &name, &tarball)?;
    println!("{}", out.join(&tarball).display());
    println!("{}", out.join(checksum_name(&tarball)).display());
    Ok(())
}

/// What the tarball holds.
fn fill(repo: &Repo, binary: &Path, folder: &Path) -> Result<(), Error> {
    copy(binary, &folder.join("tokenmill"))?;
    for file in ["README.md", "LICENSE", "CHANGELOG.md"] {
        copy(&repo.root.join(file), &folder.join(file))?;
    }
    let completions = fresh(folder.join("completions"))?;
    for (shell, file) in COMPLETIONS {
        let script = process::read(Command::new(binary).args(["completions", shell]))?;
        write(completions.join(file), &script)?;
    }
    Ok(())
}

/// The tarball and its checksum in `out`; gives the tarball's name. Nothing of this machine goes in but the bytes: no
/// user, no order of the file system, no times.
fn pack(out: &Path, name: &str) -> Result<String, Error> {
    let tarball = format!("{name}.tar.gz");
    let mut tar = Command::new("tar");
    tar.current_dir(out).args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mode=u+rwX,go=rX", "--mtime=@0", "--use-compress-program=gzip -n9"]);
    process::run(tar.args(["-cf", &tarball, name]))?;
    let sum = process::read(Command::new("sha256sum").current_dir(out).arg(&tarball))?;
    write(out.join(checksum_name(&tarball)), &sum)?;
    Ok(tarball)
}

/// Unpacks the tarball elsewhere and lets the command that comes out run a model.
fn try_out(repo: &Repo, out: &Path, name: &str, tarball: &str) -> Result<(), Error> {
    let sum = checksum_name(tarball);
    process::run(Command::new("sha256sum").current_dir(out).args(["--check", "--quiet", &sum]))?;
    let elsewhere = fresh(out.join("tried"))?;
    let mut tar = Command::new("tar");
    process::run(tar.current_dir(&elsewhere).arg("-xf").arg(out.join(tarball)))?;
    let mut answer = Command::new(elsewhere.join(name).join("tokenmill"));
    answer.arg("run").arg(repo.root.join("fixtures/qwen3"));
    answer.args(["-p", "hello", "-n8", "--ignore-eos", "--seed=1"]);
    let said = process::read(&mut answer)?;
    if said.trim().is_empty() {
        let message = "the packed command answered nothing".to_owned();
        return Err(Error::Malformed { place: tarball.to_owned(), message });
    }
    std::fs::remove_dir_all(&elsewhere).map_err(|source| Error::File { path: elsewhere, source })
}

fn checksum_name(tarball: &str) -> String {
    format!("{tarball}.sha256")
}

/// `tokenmill 0.1.0 ...` -> `tokenmill-0.1.0-x86_64-linux`.
fn package_name(version: &str) -> String {
    let mut words = version.split_whitespace();
    let (program, number) = (words.next().unwrap_or("tokenmill"), words.next().unwrap_or("0"));
    format!("{program}-{number}-{}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

/// An empty folder: what an earlier run left there is gone.
fn fresh(folder: PathBuf) -> Result<PathBuf, Error> {
    let failed = |source| Error::File { path: folder.clone(), source };
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(failed)?;
    }
    std::fs::create_dir_all(&folder).map_err(failed)?;
    Ok(folder)
}

fn write(path: PathBuf, text: &str) -> Result<(), Error> {
    std::fs::write(&path, text).map_err(|source| Error::File { path, source })
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

    #[test]
    fn nothing_of_an_earlier_run_is_packed() {
        let folder = std::env::temp_dir().join(format!("xtask-dist-{}", std::process::id()));
        write(fresh(folder.clone()).unwrap().join("old"), "x").unwrap();
        let again = fresh(folder.clone()).unwrap();
        assert_eq!(std::fs::read_dir(again).unwrap().count(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
