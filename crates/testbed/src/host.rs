//! Properties of this machine's TCP.

use std::fs;

use rustix::time::{ClockId, clock_getres};

/// Congestion controls and settings of the host's TCP, common to all network namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The kernel's release.
    pub release: String,
    /// Congestion controls that a socket may choose.
    pub congestion: Vec<String>,
    /// True if CUBIC leaves slow start by HyStart; `None` if unknown.
    pub has_hystart: Option<bool>,
    /// Ticks of the kernel's clock per second (`CONFIG_HZ`).
    pub clock_hz: u32,
}

impl Host {
    /// Reads the properties of this host.
    ///
    /// # Errors
    /// Fails with a sentence if the kernel does not report them.
    pub fn here() -> Result<Self, String> {
        let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let available = fs::read_to_string(path)
            .map_err(|error| format!("cannot read {path} ({error}), so it is unknown which TCP this host has"))?;
        let hystart = fs::read_to_string("/sys/module/tcp_cubic/parameters/hystart").ok();
        Ok(Self {
            release: rustix::system::uname().release().to_string_lossy().into_owned(),
            congestion: available.split_whitespace().map(str::to_owned).collect(),
            has_hystart: hystart.map(|text| text.trim() != "0"),
            clock_hz: clock_hz()?,
        })
    }
}

/// Tick rate, from the resolution of the coarse clocks.
fn clock_hz() -> Result<u32, String> {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    u32::try_from(tick.tv_nsec)
        .ok()
        .filter(|&tick_ns| tick.tv_sec == 0 && tick_ns > 0)
        .map(|tick_ns| (1_000_000_000 + tick_ns / 2) / tick_ns)
        .ok_or_else(|| {
            format!("the kernel's clock has ticks of {} s and {} ns, which cannot be", tick.tv_sec, tick.tv_nsec)
        })
}
