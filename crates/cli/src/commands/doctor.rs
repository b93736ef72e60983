//! `tokenmill doctor`: looks the machine and the installation over.

use std::{fs, io, path::Path};

use serde::Serialize;
use server::settings::OPTIONS;
use tokenmill::{Bytes, config::Environment};

use crate::{
    args::DoctorArgs,
    environment,
    error::Error,
    machine,
    output::{BAD, BOLD, GOOD, Output, WARN},
    settings,
};

/// How a finding is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// One line of the report.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check {
    name: String,
    level: Level,
    found: String,
    hint: Option<String>,
}

impl Check {
    fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Check { name: name.into(), level: Level::Ok, found: found.into(), hint: None }
    }

    fn warn(name: impl Into<String>, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Check { level: Level::Warn, hint: Some(hint.into()), ..Check::ok(name, found) }
    }

    fn fail(name: impl Into<String>, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Check { level: Level::Fail, ..Check::warn(name, found, hint) }
    }
}

/// Prints the report; fails when a check failed.
pub fn doctor(args: DoctorArgs, output: &Output) -> Result<(), Error> {
    let mut checks = vec![Check::ok("version", crate::VERSION), processor(), memory(), gpu()];
    checks.push(cache(&Environment::of_process()));
    checks.extend(variables());
    checks.extend(wrong_settings());
    if args.json {
        output.json(&checks)?;
    } else {
        for check in &checks {
            print(check, output)?;
        }
    }
    match checks.iter().filter(|check| check.level == Level::Fail).count() {
        0 => Ok(()),
        1 => Err(Error::Partly("one check failed".into())),
        count => Err(Error::Partly(format!("{count} checks failed"))),
    }
}

fn print(check: &Check, output: &Output) -> Result<(), Error> {
    let (style, word) = match check.level {
        Level::Ok => (GOOD, "ok"),
        Level::Warn => (WARN, "warn"),
        Level::Fail => (BAD, "fail"),
    };
    let Check { name, found, .. } = check;
    output.line(format_args!("{style}{word:<4}{style:#}  {BOLD}{name:<20}{BOLD:#} {found}"))?;
    match &check.hint {
        Some(hint) => output.line(format_args!("      {:<20} {hint}", "")),
        None => Ok(()),
    }
}

fn processor() -> Check {
    let processor = machine::processor();
    let features = processor.features.join(" ");
    let found = format!("{}, {} threads, {features}", processor.name, processor.threads);
    let fast = ["avx2", "neon"].iter().any(|feature| processor.features.contains(feature));
    if fast {
        Check::ok("processor", found)
    } else {
        let hint = "without AVX2 (x86) or NEON (ARM) the cpu backend computes with plain code, which is slow";
        Check::warn("processor", found, hint)
    }
}

fn memory() -> Check {
    let Some(memory) = machine::memory() else {
        let hint = "models are loaded without knowing whether they fit";
        return Check::warn("memory", "this system does not tell", hint);
    };
    let found = format!("{} of {} available", Bytes(memory.available), Bytes(memory.total));
    match memory.cgroup_limit {
        None => Check::ok("memory", found),
        Some(limit) => Check::warn(
            "memory",
            format!("{found}, limited to {} by the control group", Bytes(limit)),
            "what goes beyond the limit is killed; raise the container's limit for larger models",
        ),
    }
}

fn gpu() -> Check {
    match (machine::nvidia_driver(), machine::nvidia_devices()) {
        (None, 0) => Check::ok("gpu", "no NVIDIA driver: models run on the cpu"),
        (Some(version), 0) => Check::warn(
            "gpu",
            version,
            "the driver is loaded but there is no /dev/nvidia0: pass the GPU into the container",
        ),
        (driver, devices) => {
            let driver = driver.unwrap_or_else(|| "driver version not shown".to_owned());
            Check::ok("gpu", format!("{devices} NVIDIA devices, {driver}"))
        }
    }
}

fn cache(environment: &Environment) -> Check {
    let Some(path) = environment.cache_dir() else {
        let hint = "set HF_HOME or HF_HUB_CACHE; until then only directories can be run";
        return Check::warn("hub cache", "no place for it: no home directory is known", hint);
    };
    match writable(&path) {
        Ok(()) => Check::ok("hub cache", path.display().to_string()),
        Err(error) => Check::fail(
            "hub cache",
            format!("{}: {error}", path.display()),
            "set HF_HOME or HF_HUB_CACHE to a directory that can be written",
        ),
    }
}

/// Tries it: permissions alone do not tell of read-only file systems. What is not there yet is judged by the nearest
/// directory above, and not made.
fn writable(path: &Path) -> io::Result<()> {
    let there = path.ancestors().find(|path| path.exists());
    let there = there.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let probe = there.join(format!(".tokenmill-doctor-{}", std::process::id()));
    fs::OpenOptions::new().write(true).create_new(true).open(&probe)?;
    fs::remove_file(probe)
}

/// The variables that are set and have an effect.
fn variables() -> Vec<Check> {
    let set = |variable: &environment::Variable| {
        let value = environment::text(variable.name)?;
        let value = if variable.secret { "(set, hidden)".to_owned() } else { value };
        Some(Check::ok(variable.name, format!("{value}  ({})", variable.meaning)))
    };
    let mut checks: Vec<Check> = environment::VARIABLES.iter().filter_map(set).collect();
    for (name, value) in environment::tokenmill() {
        if let Some(option) = OPTIONS.iter().find(|option| option.env() == name) {
            let value = if option.secret { "(set, hidden)".to_owned() } else { value };
            checks.push(Check::ok(name, format!("{value}  ({})", option.doc)));
        }
    }
    checks
}

/// `TOKENMILL_*` variables, and keys of the file that one of them names, that would be refused.
fn wrong_settings() -> Vec<Check> {
    let hint = "run, serve, inspect, pull and bench stop at it";
    let fail = |text: String| Check::fail("settings", text, hint);
    match settings::resolve(Default::default()) {
        Ok(_) => Vec::new(),
        Err(Error::Settings(wrong)) => wrong.iter().map(|error| fail(error.to_string())).collect(),
        Err(error) => vec![fail(error.sentence())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_yet_is_judged_by_the_one_above() {
        let dir = tempfile::tempdir().unwrap();
        assert!(writable(&dir.path().join("not/yet")).is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(writable(&file.join("below")).is_err());
    }

    #[test]
    fn a_cache_that_cannot_be_written_fails_with_a_hint() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let check = cache(&Environment { hub_cache: Some(file), ..Environment::default() });
        assert_eq!(check.level, Level::Fail);
        assert!(check.hint.is_some());
        assert_eq!(cache(&Environment::default()).level, Level::Warn);
    }
}
