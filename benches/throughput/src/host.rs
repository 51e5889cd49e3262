//! Description of machine and program for records.

use serde::Serialize;

/// The machine and the program's version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Host {
    cpu: String,
    cores: usize,
    kernel: String,
    /// Maximum receive buffer of a socket on this machine, bytes (`net.core.rmem_max`).
    rmem_max_bytes: Option<u64>,
    version: &'static str,
    /// Commit that this program was built from; empty outside a repository.
    commit: &'static str,
}

impl Host {
    /// Describes this machine, as far as the system reports its properties.
    pub(crate) fn this() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let rmem_max = std::fs::read_to_string("/proc/sys/net/core/rmem_max").ok();
        Self {
            cpu: model(&cpuinfo).unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
            kernel: kernel.trim().to_owned(),
            rmem_max_bytes: rmem_max.and_then(|text| text.trim().parse().ok()),
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("DFCP_COMMIT"),
        }
    }

    /// The host on one line.
    pub(crate) fn describe(&self) -> String {
        let Self { cpu, cores, kernel, version, commit, .. } = self;
        format!("{cpu}, {cores} cores, Linux {kernel}; dfcp {version} {commit}")
    }
}

fn model(cpuinfo: &str) -> Option<&str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_the_first_one() {
        assert_eq!(model("processor\t: 0\nmodel name\t: Core 2 Duo\nmodel name\t: other\n"), Some("Core 2 Duo"));
        assert_eq!(model("flags: none"), None);
    }
}
