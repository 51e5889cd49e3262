//! Counters of an end, and their differences between two times.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use tokio::sync::Notify;

use crate::contenders::COUNTERS_MAX;
use crate::protocol::Window;

/// The counters of all flows of an end.
#[derive(Debug)]
pub(crate) struct Meter {
    flows: Vec<Flow>,
    names: &'static [&'static str],
    /// Number of flows that have carried no data yet.
    silent: AtomicUsize,
    all_started: Notify,
}

/// Counters of one flow, with a single writer.
#[derive(Debug, Default)]
struct Flow {
    bytes: AtomicU64,
    counters: [AtomicU64; COUNTERS_MAX],
}

/// All counters at one time.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    user: Duration,
    system: Duration,
    bytes: u64,
    counters: [u64; COUNTERS_MAX],
    socket_drops: Option<u64>,
}

impl Meter {
    /// Makes a meter for this number of flows, with counters of these names.
    pub(crate) fn new(flows: usize, names: &'static [&'static str]) -> Self {
        let silent = AtomicUsize::new(flows);
        let flows = (0..flows).map(|_| Flow::default()).collect();
        Self { flows, names, silent, all_started: Notify::new() }
    }

    /// Adds application bytes carried by a flow.
    pub(crate) fn add_bytes(&self, flow: usize, bytes: usize) {
        let before = self.flows[flow].bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if before == 0 && bytes > 0 && self.silent.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.all_started.notify_one();
        }
    }

    /// Sets a flow's other counters.
    pub(crate) fn set_counters(&self, flow: usize, values: [u64; COUNTERS_MAX]) {
        for (counter, value) in self.flows[flow].counters.iter().zip(values) {
            counter.store(value, Ordering::Relaxed);
        }
    }

    /// Waits until every flow has carried data, then for `lead_in`; then measures for `seconds`.
    ///
    /// # Errors
    /// Fails if the system does not report the CPU time.
    pub(crate) async fn measure(&self, lead_in: f64, seconds: f64) -> anyhow::Result<Window> {
        self.all_started.notified().await;
        tokio::time::sleep(Duration::from_secs_f64(lead_in)).await;
        let begin = self.now()?;
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        Ok(self.now()?.since(&begin, self.names))
    }

    fn now(&self) -> anyhow::Result<Moment> {
        let usage = getrusage(UsageWho::RUSAGE_SELF).context("the system does not tell this program's CPU time")?;
        let mut moment = Moment {
            at: Instant::now(),
            user: duration(usage.user_time()),
            system: duration(usage.system_time()),
            bytes: 0,
            counters: [0; COUNTERS_MAX],
            socket_drops: socket_drops(),
        };
        for flow in &self.flows {
            moment.bytes += flow.bytes.load(Ordering::Relaxed);
            for (sum, counter) in moment.counters.iter_mut().zip(&flow.counters) {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
        Ok(moment)
    }
}

impl Moment {
    fn since(&self, begin: &Self, names: &[&'static str]) -> Window {
        let differences = self.counters.iter().zip(begin.counters).map(|(now, before)| now.saturating_sub(before));
        Window {
            seconds: (self.at - begin.at).as_secs_f64(),
            user_seconds: self.user.saturating_sub(begin.user).as_secs_f64(),
            system_seconds: self.system.saturating_sub(begin.system).as_secs_f64(),
            bytes: self.bytes - begin.bytes,
            counters: names.iter().map(|&name| name.to_owned()).zip(differences).collect::<BTreeMap<_, _>>(),
            socket_drops: self.socket_drops.zip(begin.socket_drops).map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

fn duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// Datagrams dropped by the UDP sockets of this network namespace because of full buffers; `None` where the system does not report them.
fn socket_drops() -> Option<u64> {
    udp_counter(&std::fs::read_to_string("/proc/self/net/snmp").ok()?, "RcvbufErrors")
}

/// Parses a UDP counter: one line has the names, the next one the values in the same order.
fn udp_counter(snmp: &str, name: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let (_, value) = names.split_whitespace().zip(values.split_whitespace()).find(|(named, _)| *named == name)?;
    value.parse().ok()
}

/// Resident memory of this process, bytes.
///
/// # Errors
/// Fails if the system does not report it.
pub(crate) fn resident_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    resident_bytes_in(&status).context("/proc/self/status does not tell VmRSS")
}

fn resident_bytes_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_the_difference_of_two_moments() {
        let begin = Instant::now();
        let moment = |seconds, cpu_ms, bytes, first| Moment {
            at: begin + Duration::from_secs(seconds),
            user: Duration::from_millis(cpu_ms),
            system: Duration::from_millis(2 * cpu_ms),
            bytes,
            counters: [first, 7, 0, 0, 0, 0],
            socket_drops: Some(first),
        };
        let window = moment(12, 1_500, 900, 40).since(&moment(10, 500, 100, 10), &["sent", "lost"]);
        assert_eq!(window.seconds, 2.0);
        assert_eq!((window.user_seconds, window.system_seconds, window.cpu_seconds()), (1.0, 2.0, 3.0));
        assert_eq!((window.bytes, window.socket_drops), (800, Some(30)));
        assert_eq!((window.counter("sent"), window.counter("lost"), window.counter("x")), (Some(30), Some(0), None));
    }

    #[tokio::test]
    async fn measuring_begins_when_every_flow_has_carried_something() {
        let meter = Meter::new(2, &["sent"]);
        meter.add_bytes(0, 10);
        meter.add_bytes(0, 10);
        assert_eq!(meter.silent.load(Ordering::Relaxed), 1);
        meter.add_bytes(1, 0);
        assert_eq!(meter.silent.load(Ordering::Relaxed), 1);
        meter.add_bytes(1, 5);
        meter.set_counters(1, [3, 0, 0, 0, 0, 0]);
        let window = meter.measure(0.0, 0.0).await.unwrap();
        assert_eq!(window.bytes, 0, "what came before does not count");
        assert_eq!(window.counter("sent"), Some(0));
    }

    #[test]
    fn drops_of_udp_sockets_are_found_by_name() {
        let snmp = "Tcp: A B\nTcp: 1 2\nUdp: InDatagrams NoPorts RcvbufErrors\nUdp: 10 20 30\nUdpLite: RcvbufErrors\n";
        assert_eq!(udp_counter(snmp, "RcvbufErrors"), Some(30));
        assert_eq!((udp_counter(snmp, "Other"), udp_counter("", "RcvbufErrors")), (None, None));
    }

    #[test]
    fn resident_memory_is_read() {
        assert_eq!(resident_bytes_in("Name:\tx\nVmRSS:\t    2048 kB\nVmSize: 1 kB\n"), Some(2 << 20));
        assert_eq!(resident_bytes_in("VmRSS: much"), None);
        assert!(resident_bytes().unwrap() > 0);
    }
}
