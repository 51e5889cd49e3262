//! Memory that this process may use, as the base of default limits.

/// Divisor of the memory that the process may use: received blocks of an endpoint may take one fourth, unless the
/// application sets `Accept::memory_bytes_max`.
pub(crate) const ENDPOINT_MEMORY_SHARE: u64 = 4;

/// Returns the bytes of memory that this process may use: the machine's memory, or the limit of a control group (cgroup
/// v2, as in containers) if that is less. `None` if the system does not report its memory.
pub(crate) fn available_bytes() -> Option<u64> {
    let machine = machine_bytes()?;
    Some(group_bytes().map_or(machine, |group| group.min(machine)))
}

#[cfg(target_os = "linux")]
fn machine_bytes() -> Option<u64> {
    let info = rustix::system::sysinfo();
    // `totalram` has 32 bits on some machines.
    u64::try_from(u128::from(info.totalram) * u128::from(info.mem_unit)).ok()
}

#[cfg(not(target_os = "linux"))]
fn machine_bytes() -> Option<u64> {
    None
}

/// Returns the least memory limit among this process's control group and the groups above it, bytes.
fn group_bytes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let limit = |group: &std::path::Path| {
        let place = std::path::Path::new("/sys/fs/cgroup").join(group.strip_prefix("/").ok()?).join("memory.max");
        limit_of(&std::fs::read_to_string(place).ok()?)
    };
    std::path::Path::new(path.trim()).ancestors().filter_map(limit).min()
}

/// Parses the text of `memory.max`, bytes; `None` for `max`.
fn limit_of(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_control_groups_are_read() {
        assert_eq!([limit_of("536870912\n"), limit_of("max\n"), limit_of("")], [Some(512 << 20), None, None]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_memory() {
        assert!(available_bytes().is_some_and(|bytes| bytes >= 64 << 20));
    }
}
