//! What this machine's kernel has.

use std::fs;

/// Congestion controls and settings of the host's TCP, which are the same for all network namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The kernel's release.
    pub release: String,
    /// Congestion controls which a socket may choose.
    pub congestion: Vec<String>,
    /// Whether CUBIC leaves slow start by HyStart; `None` where the kernel does not tell.
    pub has_hystart: Option<bool>,
}

impl Host {
    /// That on which this program runs.
    ///
    /// # Errors
    /// One sentence: the kernel does not say what it has.
    pub fn here() -> Result<Self, String> {
        let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let available = fs::read_to_string(path)
            .map_err(|error| format!("cannot read {path} ({error}), so it is unknown which TCP this host has"))?;
        let hystart = fs::read_to_string("/sys/module/tcp_cubic/parameters/hystart").ok();
        Ok(Self {
            release: rustix::system::uname().release().to_string_lossy().into_owned(),
            congestion: available.split_whitespace().map(str::to_owned).collect(),
            has_hystart: hystart.map(|text| text.trim() != "0"),
        })
    }
}
