//! Messages between the program and its two ends: one JSON object per line.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::contenders::Contender;

/// Role of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// Listener and receiver.
    Server,
    /// Connecting end and sender.
    Client,
}

/// Task of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    /// The client sends at full speed.
    Bulk {
        /// Number of concurrent flows.
        connections: usize,
        /// Time before the measurement, s.
        lead_in: f64,
        /// Time of the measurement, s.
        seconds: f64,
        /// DFCP's rate per connection, bits of IP packets per second (`None` is the rate `line`); bare UDP's rate, bits of datagrams per
        /// second.
        rate_bps: Option<u64>,
    },
    /// A small message is sent back and forth on one connection.
    PingPong {
        /// Maximum number of messages.
        messages: u64,
        /// Longest duration, s.
        seconds: f64,
    },
    /// Connections are opened, carry one byte in each direction, and are closed.
    Connections {
        /// Duration, s.
        seconds: f64,
        /// Number of concurrent connections.
        at_a_time: usize,
    },
    /// Connections are opened, carry one byte in each direction, and stay open.
    Idle {
        /// Number of connections.
        connections: usize,
    },
}

/// First line to each end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) contender: Contender,
    pub(crate) role: Role,
    pub(crate) work: Work,
    /// Address of the end.
    pub(crate) ip: IpAddr,
    /// Data of the server, for the client.
    pub(crate) server: Option<Ready>,
}

/// Later line to an end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Request for a report.
    Report,
}

/// Data that a client needs to connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) address: SocketAddr,
    /// DFCP's public key, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// QUIC's certificate (DER), or the secret key of bare UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<Vec<u8>>,
}

/// Line from an end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Message {
    Ready(Ready),
    Report(Report),
    /// Error as one sentence; the last line.
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

/// Counters of one end between two times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    pub(crate) seconds: f64,
    /// CPU time of the process in user mode.
    pub(crate) user_seconds: f64,
    /// CPU time of the process in the kernel, including interrupts charged to it.
    pub(crate) system_seconds: f64,
    /// Application bytes.
    pub(crate) bytes: u64,
    /// Other counters, by name: `datagrams`, and the contender's counters of losses and repair.
    pub(crate) counters: BTreeMap<String, u64>,
    /// Datagrams dropped by UDP sockets of this network namespace because of full buffers; a joined run counts as one.
    /// On loopback, drops of other programs are included. `None` where the system does not report drops.
    pub(crate) socket_drops: Option<u64>,
}

/// Round-trip times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) messages: u64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
    /// Histogram: upper ends of logarithmic classes in µs, each with its number of round trips.
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
    /// Memory with `connections` more connections.
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
