//! How much memory this process may still take.

use std::fs;

use foundation::Bytes;

/// Memory that can be had without pushing anything out: the machine's, or the control group's where that is less.
/// `None` where the system does not say.
pub fn available() -> Option<Bytes> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_meminfo(&text));
    machine.into_iter().chain(control_group()).min()
}

/// What the control group (version 2, then 1) leaves of its limit.
fn control_group() -> Option<Bytes> {
    const FILES: [(&str, &str); 2] = [
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ];
    FILES.iter().find_map(|(limit, used)| {
        let number = |path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        Some(Bytes(number(limit)?.saturating_sub(number(used)?)))
    })
}

/// `MemAvailable` of `/proc/meminfo`, in KiB there.
fn parse_meminfo(text: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib.checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_line_and_its_unit() {
        let text = "MemTotal:       24683656 kB\nMemAvailable:   22944636 kB\n";
        assert_eq!(parse_meminfo(text), Some(Bytes(22_944_636 * 1024)));
        assert_eq!(parse_meminfo("MemAvailable: many kB"), None);
        assert_eq!(parse_meminfo(""), None);
    }
}
