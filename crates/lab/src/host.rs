//! Description of the machine, for records and the report.

/// Returns host name, processor, number of cores, memory and operating system, as far as the system reports them.
pub(crate) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let processor = field(&read("/proc/cpuinfo"), "model name").unwrap_or("unknown processor").to_owned();
    let memory = memory_gb(&read("/proc/meminfo")).map_or(String::new(), |gb| format!(", {gb} GB"));
    let (name, system) = name_and_system();
    format!("{name}: {processor}, {cores} cores{memory}, {system}")
}

/// Returns the value of the first line of the form `name : value`.
fn field<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn memory_gb(meminfo: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some((kib * 1_024 + 500_000_000) / 1_000_000_000)
}

#[cfg(unix)]
fn name_and_system() -> (String, String) {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    (text(name.nodename()), [name.sysname(), name.release(), name.machine()].map(text).join(" "))
}

#[cfg(not(unix))]
fn name_and_system() -> (String, String) {
    let name = std::env::var("COMPUTERNAME").unwrap_or_else(|_| "this machine".to_owned());
    (name, format!("{} {}", std::env::consts::OS, std::env::consts::ARCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_tells_is_read() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Core 2 Duo E8400\nprocessor\t: 1\nmodel name\t: another\n";
        assert_eq!(field(cpuinfo, "model name"), Some("Core 2 Duo E8400"));
        assert_eq!(field("", "model name"), None);
        assert_eq!(memory_gb("MemTotal:       24541696 kB\nMemFree: 1 kB\n"), Some(25));
        assert_eq!(memory_gb("MemTotal: much"), None);
    }
}
