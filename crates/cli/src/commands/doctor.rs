//! `tokenmill doctor`: looks the machine and the installation over.

use std::{fs, io, path::Path};

use serde::Serialize;
use server::settings::OPTIONS;
use tokenmill::{
    Bytes,
    config::Environment,
    device::{self, CudaSurvey, GpuSummary},
};

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
    let mut checks = vec![Check::ok("version", crate::VERSION), processor(), memory()];
    checks.extend(gpu());
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

/// Driver, GPUs, and what this build has for them.
fn gpu() -> Vec<Check> {
    let kernel_module = machine::nvidia_driver();
    match device::survey_cuda() {
        Some(found) => cuda_checks(found, kernel_module),
        None if kernel_module.is_none() => {
            vec![Check::ok("gpu", "no NVIDIA driver: models run on the cpu")]
        }
        None => vec![Check::warn(
            "gpu",
            "this build has no CUDA backend: models run on the cpu",
            "build with the feature cuda, which is on unless told otherwise",
        )],
    }
}

/// `kernel_module` is the version line of the driver's module, if it is loaded: where it is, a GPU is expected.
fn cuda_checks(found: CudaSurvey, kernel_module: Option<String>) -> Vec<Check> {
    let CudaSurvey { driver, gpus, kernels, cublaslt, products } = found;
    let driver = match (driver, kernel_module) {
        (Ok(speaks), Some(module)) => Check::ok("driver", format!("{speaks}, {module}")),
        (Ok(speaks), None) => Check::ok("driver", speaks),
        (Err(problem), None) => {
            return vec![
                Check::ok("gpu", format!("{problem}: models run on the cpu")),
                built_kernels(&kernels, false),
            ];
        }
        (Err(problem), Some(module)) => {
            let hint = format!(
                "its kernel module is loaded ({module}): pass the driver's libraries into the container"
            );
            Check::warn("driver", problem, hint)
        }
    };
    let mut checks = vec![driver];
    match gpus {
        Ok(gpus) => checks.extend(gpus.iter().enumerate().map(|(index, gpu)| {
            let GpuSummary { name, memory, capability } = gpu;
            let found = format!("{index}: {name}, {memory}, compute capability {capability}");
            Check::ok("gpu", found)
        })),
        Err(problem) => {
            let hint =
                "models run on the cpu until that is mended; a container has to be given its GPUs";
            checks.push(Check::warn("gpu", problem, hint));
        }
    }
    checks.push(built_kernels(&kernels, true));
    checks.push(match cublaslt {
        Ok(library) => Check::ok("cublaslt", library),
        Err(reason) => Check::ok("cublaslt", reason),
    });
    checks.extend(products.map(|known| Check::ok("matrix products", known)));
    checks
}

/// The kernels in this build; that there are none matters where there is a driver.
fn built_kernels(kernels: &[&str], is_expected: bool) -> Check {
    if !kernels.is_empty() {
        return Check::ok("kernels", format!("for compute capability {}", kernels.join(", ")));
    }
    let found = "none: there was no nvcc when this was built";
    match is_expected {
        true => Check::warn("kernels", found, "run tools/cuda/install-nvcc.sh and build again"),
        false => Check::ok("kernels", found),
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

    fn survey() -> CudaSurvey {
        CudaSurvey {
            driver: Ok("CUDA 13.0".into()),
            gpus: Ok(vec![GpuSummary {
                name: "NVIDIA H200".into(),
                memory: Bytes::gib(140),
                capability: "9.0".into(),
            }]),
            kernels: vec!["80", "90a"],
            cublaslt: Err("not installed".into()),
            products: Some("24 known to be fastest, from FILE".into()),
        }
    }

    #[test]
    fn a_gpu_is_told_with_its_driver_kernels_and_library() {
        let checks = cuda_checks(survey(), Some("580.1".into()));
        let told: Vec<_> =
            checks.iter().map(|check| (check.name.as_str(), check.found.as_str())).collect();
        let wanted = [
            ("driver", "CUDA 13.0, 580.1"),
            ("gpu", "0: NVIDIA H200, 140.0 GiB, compute capability 9.0"),
            ("kernels", "for compute capability 80, 90a"),
            ("cublaslt", "not installed"),
            ("matrix products", "24 known to be fastest, from FILE"),
        ];
        assert_eq!(told, wanted);
        assert!(checks.iter().all(|check| check.level == Level::Ok));
    }

    #[test]
    fn what_keeps_a_gpu_idle_is_a_warning_and_no_gpu_at_all_is_none() {
        let hidden = CudaSurvey { gpus: Err("no GPU is visible".into()), ..survey() };
        let bare = CudaSurvey { kernels: Vec::new(), ..hidden };
        let checks = cuda_checks(bare.clone(), None);
        let warned = |name: &str| checks.iter().any(|c| c.name == name && c.level == Level::Warn);
        assert!(warned("gpu") && warned("kernels"), "{checks:?}");
        let none = CudaSurvey { driver: Err("no NVIDIA driver".into()), ..bare };
        assert!(cuda_checks(none, None).iter().all(|check| check.level == Level::Ok));
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
