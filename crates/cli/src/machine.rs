//! What this machine is: processor, memory, GPU driver. Read from `/proc` and `/sys`; what is not there is `None`.

use std::{fs, path::Path, time::Instant};

use serde::Serialize;

/// The processor.
#[derive(Clone, Debug, Serialize)]
pub struct Processor {
    /// As the kernel names it.
    pub name: String,
    /// Threads that this process may run at once.
    pub threads: usize,
    /// Instruction sets that matter for the CPU backend and are there.
    pub features: Vec<&'static str>,
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Installed.
    pub total: u64,
    /// Free or easily freed.
    pub available: u64,
    /// The cgroup's limit, where it is lower than what is installed.
    pub cgroup_limit: Option<u64>,
}

/// The processor of this machine.
pub fn processor() -> Processor {
    let name = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| cpu_name(&text));
    Processor {
        name: name.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        features: cpu_features(),
    }
}

/// The memory of this machine, where the system tells it.
pub fn memory() -> Option<Memory> {
    let (total, available) = parse_meminfo(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let cgroup_limit = cgroup_limit().filter(|limit| *limit < total);
    Some(Memory { total, available, cgroup_limit })
}

/// The version line of the NVIDIA kernel driver, if it is loaded.
pub fn nvidia_driver() -> Option<String> {
    let text = fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    text.lines().next().map(|line| line.trim_start_matches("NVRM version:").trim().to_owned())
}

/// Bytes a second that all threads together read from memory: the best of three passes over a buffer too large
/// for the caches.
pub fn read_bandwidth(threads: usize) -> f64 {
    const WORDS: usize = 256 << 17; // 256 MiB of u64
    let buffer: Vec<u64> = (0..WORDS as u64).collect();
    let share = WORDS.div_ceil(threads.max(1));
    let pass = || {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for part in buffer.chunks(share) {
                scope.spawn(move || std::hint::black_box(sum(part)));
            }
        });
        (WORDS * size_of::<u64>()) as f64 / start.elapsed().as_secs_f64()
    };
    (0..3).map(|_| pass()).fold(0.0, f64::max)
}

/// Sums in eight lanes, so that the adder is not what is measured.
fn sum(words: &[u64]) -> u64 {
    let mut lanes = [0u64; 8];
    for chunk in words.chunks_exact(8) {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
}

fn cpu_name(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    };
    value("model name").or_else(|| value("Model")).or_else(|| value("Hardware"))
}

#[cfg(target_arch = "x86_64")]
fn cpu_features() -> Vec<&'static str> {
    let found = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
    ];
    found.into_iter().filter_map(|(name, there)| there.then_some(name)).collect()
}

#[cfg(target_arch = "aarch64")]
fn cpu_features() -> Vec<&'static str> {
    use std::arch::is_aarch64_feature_detected as detected;
    let found = [
        ("neon", detected!("neon")),
        ("dotprod", detected!("dotprod")),
        ("bf16", detected!("bf16")),
        ("i8mm", detected!("i8mm")),
        ("sve", detected!("sve")),
    ];
    found.into_iter().filter_map(|(name, there)| there.then_some(name)).collect()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn cpu_features() -> Vec<&'static str> {
    Vec::new()
}

/// Total and available bytes.
fn parse_meminfo(text: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim_start_matches(':').split_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    };
    Some((field("MemTotal")?, field("MemAvailable")?))
}

/// The lowest limit on the way from this process's cgroup to the root (version 2), or version 1's own file.
fn cgroup_limit() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"));
    let v2 = path.and_then(|path| {
        let group = Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/'));
        let limits = group.ancestors().filter(|dir| dir.starts_with("/sys/fs/cgroup"));
        limits.filter_map(|dir| number_in(&dir.join("memory.max"))).min()
    });
    v2.or_else(|| number_in(Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes")))
}

/// The number in a file of one number; `max` and whatever else is `None`.
fn number_in(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_tables() {
        let info = "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\n";
        assert_eq!(parse_meminfo(info), Some((1_024_000, 409_600)));
        assert_eq!(parse_meminfo("MemTotal: x kB"), None);
        let cpu = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n";
        assert_eq!(cpu_name(cpu), Some("Some CPU @ 2.0GHz".into()));
        assert_eq!(cpu_name(""), None);
    }
}
