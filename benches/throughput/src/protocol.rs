//! Messages between the program and its two ends: one JSON object per line.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::contenders::Contender;

/// Role of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// Listens, and receives.
    Server,
    /// Connects, and sends.
    Client,
}

/// Task of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    /// The client sends as much as it can.
    Bulk {
        /// Flows at once.
        connections: usize,
        /// Time before measuring, seconds.
        lead_in: f64,
        /// Measured, seconds.
        seconds: f64,
        /// DFCP's rate for each connection, bits of IP packets per second (`None` is the rate `line`); a blaster's rate,
        /// bits of datagrams per second.
        rate_bps: Option<u64>,
    },
    /// A small message goes back and forth on one connection.
    PingPong {
        /// Most messages.
        messages: u64,
        /// Longest duration, s.
        seconds: f64,
    },
    /// Connections are opened, carry one byte each way, and are closed.
    Connections {
        /// Duration, s.
        seconds: f64,
        /// Connections at a time.
        at_a_time: usize,
    },
    /// Connections are opened, carry one byte each way, and are kept.
    Idle {
        /// Number of connections.
        connections: usize,
    },
}

/// The first line to each end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) contender: Contender,
    pub(crate) role: Role,
    pub(crate) work: Work,
    /// Our address.
    pub(crate) ip: IpAddr,
    /// The server's data, for the client.
    pub(crate) server: Option<Ready>,
}

/// A later line to an end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Say what there is to report now.
    Report,
}

/// The data that a client needs to connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) address: SocketAddr,
    /// DFCP's public key, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// QUIC's certificate (DER), or the blaster's secret key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<Vec<u8>>,
}

/// A line from an end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Message {
    Ready(Ready),
    Report(Report),
    /// One sentence; nothing follows it.
    Error(String),
}

/// Measurements of an end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Report {
    Flow(Window),
    Latency(Latency),
    Connections(Rounds),
    Memory(Memory),
}

/// Counters of one end between two moments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    pub(crate) seconds: f64,
    /// CPU time of the process in itself.
    pub(crate) user_seconds: f64,
    /// CPU time of the process in the kernel, including the interrupts which are billed to it.
    pub(crate) system_seconds: f64,
    /// Application bytes.
    pub(crate) bytes: u64,
    /// Other counters, by name: `datagrams`, and what a contender knows of losses and repair.
    pub(crate) counters: BTreeMap<String, u64>,
    /// Datagrams that UDP sockets of this network namespace dropped because their buffers were full; a joined run counts as one. On loopback,
    /// other programs' as well. `None` where the system does not tell.
    pub(crate) socket_drops: Option<u64>,
}

/// Round trips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) messages: u64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
    /// Upper ends of logarithmic classes in µs, and how many round trips fell into each.
    pub(crate) histogram: Vec<(f64, u64)>,
}

/// Connections opened and closed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rounds {
    pub(crate) connections: u64,
    pub(crate) seconds: f64,
}

/// Resident memory of a process, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// Memory with one connection.
    pub(crate) before_bytes: u64,
    /// Memory with `connections` more.
    pub(crate) after_bytes: u64,
    pub(crate) connections: usize,
}

impl Window {
    /// CPU time, s.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    pub(crate) fn counter(&self, name: &str) -> Option<u64> {
        self.counters.get(name).copied()
    }
}
