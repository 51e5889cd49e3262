//! All measurements, as written by `--json`.

use serde::Serialize;

use crate::contenders::Contender;
use crate::protocol::{Latency, Memory, Rounds, Window};

/// Measurements of all sections; empty if not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Records {
    pub(crate) bulk: Vec<Flow>,
    /// Flows with and without loss, all with the same offloads.
    pub(crate) loss: Vec<Flow>,
    /// Slow flow of bare datagrams that checks that losses are independent.
    pub(crate) loss_check: Option<LossCheck>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) pingpong: Vec<RoundTrips>,
    pub(crate) connections: Vec<Opened>,
    pub(crate) memory: Vec<Idle>,
    /// Measurements that failed.
    pub(crate) failures: Vec<Failure>,
}

/// A failed measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Failure {
    pub(crate) measurement: String,
    pub(crate) error: String,
}

/// One or more flows of one contender in one round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Flow {
    pub(crate) contender: Contender,
    /// Number of the round, from 1.
    pub(crate) round: u32,
    pub(crate) connections: usize,
    /// Datagrams per thousand that nftables drops.
    pub(crate) loss_per_mille: u32,
    /// DFCP's rate per connection; `None` is `line`.
    pub(crate) rate_bps: Option<u64>,
    pub(crate) sender: Window,
    pub(crate) receiver: Window,
}

/// Pattern of losses, from datagrams so slow that only nftables dropped any.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct LossCheck {
    pub(crate) datagrams: u64,
    pub(crate) lost: u64,
    /// Number of loss bursts.
    pub(crate) runs: u64,
}

/// Result of a ping-pong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RoundTrips {
    pub(crate) contender: Contender,
    pub(crate) round: u32,
    pub(crate) latency: Latency,
}

/// Result of connections opened one after the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Opened {
    pub(crate) contender: Contender,
    pub(crate) round: u32,
    pub(crate) at_a_time: usize,
    pub(crate) result: Rounds,
}

/// Result of idle connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Idle {
    pub(crate) contender: Contender,
    pub(crate) round: u32,
    pub(crate) server: Memory,
    pub(crate) client: Memory,
}

impl Flow {
    /// Goodput: application bits per second that arrived.
    pub(crate) fn goodput_bps(&self) -> f64 {
        8.0 * self.receiver.bytes as f64 / self.receiver.seconds
    }

    /// CPU time of the sender per 10⁹ application bytes that arrived, s.
    pub(crate) fn sender_cpu_per_gb(&self) -> Option<f64> {
        self.cpu_per_gb(&self.sender)
    }

    /// CPU time of the receiver per 10⁹ application bytes, s.
    pub(crate) fn receiver_cpu_per_gb(&self) -> Option<f64> {
        self.cpu_per_gb(&self.receiver)
    }

    /// CPU time of both ends together per 10⁹ application bytes, s.
    pub(crate) fn cpu_per_gb_of_both(&self) -> Option<f64> {
        Some(self.sender_cpu_per_gb()? + self.receiver_cpu_per_gb()?)
    }

    fn cpu_per_gb(&self, window: &Window) -> Option<f64> {
        let gb_per_second = self.goodput_bps() / 8e9;
        (gb_per_second > 0.0).then(|| window.cpu_seconds() / window.seconds / gb_per_second)
    }

    /// CPU time of the sender per datagram sent, ns.
    pub(crate) fn sender_ns_per_datagram(&self) -> Option<f64> {
        ns_per_datagram(&self.sender, "datagrams_sent")
    }

    /// CPU time of the receiver per datagram received, ns.
    pub(crate) fn receiver_ns_per_datagram(&self) -> Option<f64> {
        ns_per_datagram(&self.receiver, "datagrams_received")
    }

    /// Datagrams dropped per second by the receiver's UDP sockets because of full buffers; a joined run counts as one.
    pub(crate) fn drops_per_second(&self) -> Option<f64> {
        Some(self.receiver.socket_drops? as f64 / self.receiver.seconds)
    }

    /// Share of sent datagrams that were repair (DFCP), were retransmissions (QUIC), or did not arrive (bare UDP).
    pub(crate) fn extra_share(&self) -> Option<f64> {
        let (extra, all) = if self.contender.is_blaster() {
            let lost = self.receiver.counter("lost")?;
            (lost, lost + self.receiver.counter("datagrams_received")?)
        } else {
            let extra = self.sender.counter("repair_sent").or_else(|| self.sender.counter("lost"))?;
            (extra, self.sender.counter("datagrams_sent")?)
        };
        (all > 0).then(|| extra as f64 / all as f64)
    }
}

fn ns_per_datagram(window: &Window, counter: &str) -> Option<f64> {
    let datagrams = window.counter(counter).filter(|&datagrams| datagrams > 0)?;
    Some(1e9 * window.cpu_seconds() / datagrams as f64)
}

impl LossCheck {
    /// Mean length of loss bursts; 1 / (1 − p) for independent losses of a share p.
    pub(crate) fn mean_run(&self) -> f64 {
        self.lost as f64 / self.runs.max(1) as f64
    }

    pub(crate) fn share(&self) -> f64 {
        self.lost as f64 / (self.datagrams + self.lost).max(1) as f64
    }
}

impl Opened {
    pub(crate) fn per_second(&self) -> f64 {
        self.result.connections as f64 / self.result.seconds
    }
}

impl Memory {
    /// Memory per additional connection, bytes.
    pub(crate) fn per_connection_bytes(&self) -> f64 {
        self.after_bytes.saturating_sub(self.before_bytes) as f64 / self.connections.max(1) as f64
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Flow of `gigabit` Gbit/s over 2 s, with this CPU time on each side and a datagram per 1000 bytes.
    pub(crate) fn flow(contender: Contender, round: u32, gigabit: f64, cpu_seconds: f64) -> Flow {
        let bytes = (gigabit * 2e9 / 8.0) as u64;
        let window = |counters: &[(&str, u64)]| Window {
            seconds: 2.0,
            user_seconds: cpu_seconds / 4.0,
            system_seconds: cpu_seconds * 3.0 / 4.0,
            bytes,
            counters: counters.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
            socket_drops: None,
        };
        Flow {
            contender,
            round,
            connections: 1,
            loss_per_mille: 0,
            rate_bps: None,
            sender: window(&[("datagrams_sent", bytes / 1_000), ("repair_sent", bytes / 10_000)]),
            receiver: window(&[("datagrams_received", bytes / 1_000)]),
        }
    }

    #[test]
    fn figures_of_a_flow() {
        let flow = flow(Contender::DfcpSealed, 1, 4.0, 1.5);
        assert_eq!(flow.goodput_bps(), 4e9);
        assert_eq!(flow.sender_cpu_per_gb(), Some(1.5));
        assert_eq!(flow.cpu_per_gb_of_both(), Some(3.0));
        assert_eq!(flow.sender_ns_per_datagram(), Some(1_500.0));
        assert_eq!(flow.extra_share(), Some(0.1));
    }

    #[test]
    fn nothing_arrived_and_nothing_is_known() {
        let mut flow = flow(Contender::Tcp, 1, 0.0, 1.0);
        assert_eq!((flow.goodput_bps(), flow.sender_cpu_per_gb()), (0.0, None));
        flow.sender.counters.clear();
        assert_eq!((flow.sender_ns_per_datagram(), flow.extra_share()), (None, None));
    }

    #[test]
    fn losses_and_memory() {
        let check = LossCheck { datagrams: 900, lost: 100, runs: 80 };
        assert_eq!((check.share(), check.mean_run()), (0.1, 1.25));
        let memory = Memory { before_bytes: 1_000, after_bytes: 9_000, connections: 4 };
        assert_eq!(memory.per_connection_bytes(), 2_000.0);
    }
}
