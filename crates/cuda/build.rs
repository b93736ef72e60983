//! Compiles every `.cu` under `src/ops` to one compressed fatbin, with machine code for every GPU that is served.
//!
//! nvcc is looked for in `$NVCC`, `.cuda/` at the root of the repository (`tools/cuda/install-nvcc.sh` fills it),
//! `$CUDA_HOME` and `$PATH`; older than release 13 it is none. Without one the crate still builds, its images are empty and it says so at run time;
//! `REQUIRE_KERNELS=1` makes that an error. `CUDA_ARCHS=90a` narrows the list while developing.
//! Results are cached by content: a kernel is compiled again when its source, a header, the flags or nvcc change.

use std::{
    collections::hash_map::DefaultHasher,
    env, fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
};

/// Compute capabilities with machine code of their own, as nvcc writes them.
const ARCHS: &str = "80,89,90a,100a,120a";
/// The oldest major release that knows all of them and the flags below; the driver that runs the program must speak it.
const OLDEST_NVCC: u32 = 13;
const FLAGS: [&str; 6] = [
    "-std=c++17",
    "-O3",
    "-fatbin",
    "--compress-mode=size",
    "-lineinfo",
    "--expt-relaxed-constexpr",
];

fn main() {
    for name in ["NVCC", "CUDA_HOME", "CUDA_ARCHS", "REQUIRE_KERNELS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=src/ops");
    println!("cargo:rerun-if-changed=../../.cuda/nvidia/cu13/bin/nvcc");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let sources = sources(Path::new("src/ops"));
    check_names(&sources);
    match find_nvcc() {
        Some(nvcc) => {
            let archs = env::var("CUDA_ARCHS").ok().filter(|archs| !archs.is_empty());
            let archs = archs.unwrap_or_else(|| ARCHS.to_owned());
            Compiler::new(nvcc, &archs, &out).compile_all(sources, &out);
            println!("cargo:rustc-env=KERNEL_ARCHS={archs}");
        }
        None => {
            let required = env::var("REQUIRE_KERNELS").is_ok_and(|value| value == "1");
            assert!(!required, "no nvcc found; run tools/cuda/install-nvcc.sh");
            if Path::new("/proc/driver/nvidia/version").exists() {
                println!(
                    "cargo:warning=no nvcc: this build will not use the GPU of this machine; run tools/cuda/install-nvcc.sh and build again"
                );
            }
            for source in sources {
                fs::write(out.join(image_name(&source)), []).expect("OUT_DIR is writable");
            }
            println!("cargo:rustc-env=KERNEL_ARCHS=");
        }
    }
}

/// All `.cu` files below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("src/ops is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ext| ext == "cu") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Two sources of one name, in different folders, would leave one fatbin.
fn check_names(sources: &[PathBuf]) {
    let mut names: Vec<String> = sources.iter().map(|source| image_name(source)).collect();
    names.sort();
    for pair in names.windows(2) {
        assert!(pair[0] != pair[1], "two sources below src/ops would both become {}", pair[0]);
    }
}

/// The text of `source` and of every header of ours that it includes, directly or not.
fn with_headers(source: &Path, seen: &mut Vec<PathBuf>, text: &mut String) -> Result<(), String> {
    if seen.iter().any(|known| known == source) {
        return Ok(());
    }
    seen.push(source.to_owned());
    let own =
        fs::read_to_string(source).map_err(|error| format!("{}: {error}", source.display()))?;
    let quoted = own.lines().filter_map(|line| line.trim().strip_prefix("#include \""));
    for name in quoted.filter_map(|rest| rest.split('"').next()) {
        let beside = source.parent().unwrap_or(Path::new(".")).join(name);
        let shared = Path::new("src/ops").join(name);
        if let Some(header) = [beside, shared].into_iter().find(|path| path.is_file()) {
            with_headers(&header, seen, text)?;
        }
    }
    text.push_str(&own);
    Ok(())
}

fn image_name(source: &Path) -> String {
    format!("{}.fatbin", source.file_stem().expect("a .cu file has a name").to_string_lossy())
}

/// The first compiler of a release that will do. One that `$NVCC` names must do; others are passed over with a warning, so that an
/// old toolkit somewhere on the path does not keep the workspace from building.
fn find_nvcc() -> Option<PathBuf> {
    if let Some(named) = env::var_os("NVCC").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        let unfit = unfit(&named);
        assert!(unfit.is_none(), "the variable NVCC: {}", unfit.unwrap_or_default());
        return named.canonicalize().ok();
    }
    let local = Path::new("../../.cuda/nvidia/cu13/bin/nvcc").to_owned();
    let home = env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin/nvcc"));
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::split_paths(&path).map(|folder| folder.join("nvcc")).collect::<Vec<_>>();
    let found = [local].into_iter().chain(home).chain(path).filter(|nvcc| nvcc.is_file());
    let fit = |nvcc: &PathBuf| match unfit(nvcc) {
        None => true,
        Some(why) => {
            println!("cargo:warning={why}; tools/cuda/install-nvcc.sh installs one that does");
            false
        }
    };
    found.into_iter().find(fit).and_then(|nvcc| nvcc.canonicalize().ok())
}

/// Why this compiler will not do, if it will not.
fn unfit(nvcc: &Path) -> Option<String> {
    let shown = nvcc.display();
    let output = match Command::new(nvcc).arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => return Some(format!("{shown} does not run: {error}")),
    };
    let release = output.split("release ").nth(1).and_then(|rest| rest.split(',').next());
    let Some(release) = release else {
        return Some(format!("{shown} does not say which release it is"));
    };
    let major = release.split('.').next().and_then(|major| major.trim().parse::<u32>().ok());
    let fits = major.is_some_and(|major| major >= OLDEST_NVCC);
    (!fits).then(|| format!("{shown} is release {release}, and {OLDEST_NVCC}.0 or newer is needed"))
}

struct Compiler {
    nvcc: PathBuf,
    archs: Vec<String>,
    cache: PathBuf,
    /// Hash of everything but the sources.
    base: u64,
}

impl Compiler {
    fn new(nvcc: PathBuf, archs: &str, out: &Path) -> Compiler {
        let mut hasher = DefaultHasher::new();
        let version = Command::new(&nvcc).arg("--version").output().expect("nvcc runs").stdout;
        (version, archs, FLAGS).hash(&mut hasher);
        // OUT_DIR is <target>/<profile>/build/<package>/out: the cache serves all profiles.
        let target = out.ancestors().nth(4).unwrap_or(out);
        let cache = target.join("cuda-cache");
        fs::create_dir_all(&cache).expect("the target folder is writable");
        let archs = archs.split(',').map(str::to_owned).collect();
        Compiler { nvcc, archs, cache, base: hasher.finish() }
    }

    fn compile_all(&self, sources: Vec<PathBuf>, out: &Path) {
        let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
        let queue = Mutex::new(sources);
        let failures = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    loop {
                        let next = queue.lock().expect("no worker panics").pop();
                        let Some(source) = next else { return };
                        if let Err(failure) = self.compile(&source, &out.join(image_name(&source)))
                        {
                            failures.lock().expect("no worker panics").push(failure);
                        }
                    }
                });
            }
        });
        let failures = failures.into_inner().expect("no worker panics");
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }

    fn compile(&self, source: &Path, image: &Path) -> Result<(), String> {
        let mut text = String::new();
        with_headers(source, &mut Vec::new(), &mut text)?;
        let mut hasher = DefaultHasher::new();
        (self.base, source, text).hash(&mut hasher);
        let cached = self.cache.join(format!("{:016x}.fatbin", hasher.finish()));
        if !cached.is_file() {
            let partial = image.with_extension("partial");
            self.run_nvcc(source, &partial)?;
            fs::rename(&partial, &cached).map_err(|error| error.to_string())?;
        }
        // A new file, not new contents: a copied build folder may share its files with the one it was copied from.
        let partial = image.with_extension("partial");
        fs::copy(&cached, &partial).map_err(|error| error.to_string())?;
        fs::rename(&partial, image).map_err(|error| error.to_string())
    }

    fn run_nvcc(&self, source: &Path, image: &Path) -> Result<(), String> {
        let mut command = Command::new(&self.nvcc);
        command.args(FLAGS).arg("-Isrc/ops").arg("-o").arg(image).arg(source);
        for arch in &self.archs {
            command.arg(format!("-gencode=arch=compute_{arch},code=sm_{arch}"));
        }
        let output = command.output().map_err(|error| format!("nvcc: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "nvcc failed on {}:\n{}{}",
                source.display(),
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )),
        }
    }
}
