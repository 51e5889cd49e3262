use super::*;
use crate::expand::{Choice, expand};
use crate::measure::measure;
use crate::reading::parse;

const PLAN: &str = r#"id = "t"
title = ""
source = ""
question = ""
[run]
duration_s = 2
warm_up_s = 0
seeds = 2
[topology]
rate_mbps = 20
access_mbps = 40
buffer_packets = 30
[[flows]]
count = 2
[[series]]
label = "CUBIC"
transport = "cubic"
[[series]]
label = "Classic"
transport = { kind = "classic", window_blocks = 8 }
[[series]]
label = "Modern"
transport = "oracle"
[[series]]
label = "QUIC"
transport = "quic-cubic"
[[sweep]]
parameter = "loss"
values = [0, 0.01]
[[sweep]]
parameter = "rtt_ms"
values = [10, 40]
[metrics]
plot = ["goodput_mbps"]
"#;

fn runs(text: &str) -> Vec<Run> {
    expand(&parse("t.toml", text).unwrap(), Choice::default()).unwrap()
}

fn chosen(runs: &[Run], series: &str) -> Run {
    let at = [("loss", "0.01"), ("rtt_ms", "10.0")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    choose(runs, &Wanted { series: Some(series.to_owned()), at: at.to_vec() }).unwrap().clone()
}

fn traced(run: &Run, directory: &Path, has_capture: bool, capture_bytes_max: u64) -> Result<Traced, TraceError> {
    let stop = AtomicBool::new(false);
    let bin = Duration::from_millis(300);
    trace(run, Settings { directory, bin, duration: None, has_capture, capture_bytes_max, stop: &stop })
}

/// A table read back from its file.
struct Table {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn read(directory: &Path, name: &str) -> Self {
        let text = std::fs::read_to_string(directory.join(name)).unwrap();
        let mut rows: Vec<Vec<String>> =
            text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
        let names = rows.remove(0);
        assert!(rows.iter().all(|row| row.len() == names.len()), "{text}");
        Self { names, rows }
    }

    /// Returns the values of column `name` in the lines of flow or link `of`; empty fields are skipped.
    fn column(&self, name: &str, of: &str) -> Vec<f64> {
        let at = self.names.iter().position(|column| column == name).unwrap();
        let rows = self.rows.iter().filter(|row| row[1] == of && !row[at].is_empty());
        rows.map(|row| row[at].parse().unwrap()).collect()
    }

    fn sum(&self, name: &str, of: &str) -> u64 {
        self.column(name, of).iter().sum::<f64>() as u64
    }
}

#[test]
fn a_trace_is_of_the_run_which_is_measured_and_its_bins_add_up() {
    let all = runs(PLAN);
    for series in ["CUBIC", "Classic", "Modern", "QUIC"] {
        let run = chosen(&all, series);
        let directory = tempfile::tempdir().unwrap();
        let found = traced(&run, directory.path(), true, u64::MAX).unwrap();
        let measured = measure(&run.scenario, run.seed).unwrap();
        let flows = Table::read(directory.path(), "flows.csv");
        for (flow, expected) in found.flows.iter().zip(&measured.flows) {
            let of = flow.flow.to_string();
            assert_eq!(flow.delivered_bytes, expected.delivered_bytes, "{series}");
            assert_eq!((flow.retransmissions, flow.timeouts), (expected.retransmissions, expected.timeouts));
            assert_eq!(flows.sum("delivered_bytes", &of), expected.delivered_bytes);
            assert_eq!(flows.column("time_s", &of), [0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.0], "the last bin is shorter");
            let bits: f64 = flows
                .column("goodput_mbps", &of)
                .iter()
                .zip([3, 3, 3, 3, 3, 3, 2])
                .map(|(g, w)| g * f64::from(w))
                .sum();
            assert!((bits * 1e5 / 8.0 - expected.delivered_bytes as f64).abs() < 10.0, "{series}: {bits}");
            let has = |name: &str| !flows.column(name, &of).is_empty();
            let present =
                ["cwnd_segments", "cwnd_bytes", "timeouts", "lost_packets", "blocks_in_flight", "p_hat", "queue_ms"]
                    .map(has);
            let due = match series {
                "CUBIC" => [true, true, true, false, false, false, false],
                "QUIC" => [false, true, false, true, false, false, false],
                _ => [false, false, false, false, true, series == "Modern", series == "Modern"],
            };
            assert_eq!(present, due, "{series}");
            if series == "CUBIC" {
                assert_eq!(Some(flows.sum("retransmissions", &of)), expected.retransmissions);
                assert!(expected.retransmissions > Some(0), "nothing is tested without losses");
            }
        }
        let queues = Table::read(directory.path(), "queues.csv");
        let (link, expected) = (&found.links[0], &measured.links[0]);
        assert_eq!((link.offered, link.lost), (expected.offered, expected.lost), "{series}");
        assert_eq!(link.drops, expected.queue_drops);
        assert_eq!((queues.sum("offered", "1"), queues.sum("lost", "1")), (link.offered, link.lost));
        assert_eq!(Some(queues.sum("drops_full", "1") + queues.sum("drops_early", "1")), Some(link.drops));
        if ["Classic", "Modern"].contains(&series) {
            // Every datagram that leaves the bottleneck arrives. The tolerance covers datagrams in flight and the few
            // without a symbol.
            let arrived = flows.sum("symbols_arrived", "1") + flows.sum("symbols_arrived", "2");
            let delivered = queues.sum("delivered", "1");
            assert!((arrived..arrived + 50).contains(&delivered), "{series}: {arrived} of {delivered}");
            assert!(flows.sum("symbols_wasted", "1") < flows.sum("symbols_arrived", "1"), "{series}");
        }
        assert!(link.lost > 0 && queues.column("packets_waiting", "1").iter().all(|&packets| packets <= 30.0));
        // The bottleneck and four access links, each with two directions. The capture has the packets of all flows.
        assert_eq!((found.verified_links, found.unverified_links), (Some(10), Some(0)));
        assert_eq!(found.left_out_packets, Some(0));
        assert!(found.captured_packets.unwrap() > link.offered, "{found:?}");
    }
}

#[test]
fn a_capture_is_cut_at_its_limit_and_never_left_beside_another_trace() {
    let run = chosen(&runs(PLAN), "Modern");
    let directory = tempfile::tempdir().unwrap();
    let found = traced(&run, directory.path(), true, 50_000).unwrap();
    assert!(std::fs::metadata(directory.path().join("packets.pcapng")).unwrap().len() <= 50_000);
    assert!(found.left_out_packets > Some(100) && found.capture_full_s.is_some_and(|at| at < 2.0), "{found:?}");
    let error = traced(&run, directory.path(), false, u64::MAX).unwrap_err().to_string();
    assert!(error.contains("packets.pcapng") && error.contains("--output"), "{error}");
}

#[test]
fn a_link_which_is_faster_than_the_laws_permit_is_found() {
    let run = chosen(&runs(PLAN), "CUBIC");
    let mut simulation: Watched = Simulation::new(run.seed, (Verifier::default(), None));
    let built = build(&run.scenario, &mut simulation).unwrap();
    let real = simulation.link(built.links[0]).config().clone();
    let slower = real.with_delay(Duration::from_secs(1));
    simulation.observer_mut().0.watch(built.links[0], slower);
    simulation.run_until(dfcp_time::Time::from_ms(200));
    let violations = Verifier::verdict_within(&mut simulation, |observer| &observer.0);
    assert!(violations[0].contains("earlier than rate and delay permit"), "{violations:?}");
    assert!(matches!(lawful(violations, Path::new("here")), Err(TraceError::Violated { .. })));
}

#[test]
fn a_violated_law_is_an_error() {
    let directory = Path::new("here");
    assert!(lawful(Vec::new(), directory).is_ok());
    let error = lawful(vec!["too early".to_owned(), "twice".to_owned()], directory).unwrap_err().to_string();
    assert!(error.contains("2 physical laws") && error.contains("here") && error.contains("too early"), "{error}");
}

#[test]
fn links_which_change_or_jitter_are_not_judged_and_a_trace_ends_with_its_flows() {
    let text = PLAN.replace(
        "[[flows]]\ncount = 2",
        "access_jitter_us = 300\n[[flows]]\nbytes = 100000\n[[time]]\nat_s = 0.01\nrate_mbps = 10",
    );
    let run = chosen(&runs(&text), "CUBIC");
    let directory = tempfile::tempdir().unwrap();
    let found = traced(&run, directory.path(), false, u64::MAX).unwrap();
    // Unverified are the sender's access link (jitter) and the bottleneck (a change), both in the forward direction.
    assert_eq!((found.verified_links, found.unverified_links), (Some(4), Some(2)));
    assert!(found.duration_s < 2.0 && found.flows[0].delivered_bytes == 100_000, "{found:?}");
    let flows = Table::read(directory.path(), "flows.csv");
    assert_eq!(flows.sum("delivered_bytes", "1"), 100_000);
    assert!(found.flows[0].completed_s.is_some_and(|at| at < found.duration_s));
}

#[test]
fn settings_without_sense_are_refused_and_a_trace_can_be_broken_off() {
    let run = chosen(&runs(PLAN), "CUBIC");
    let directory = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let settings = |bin_ns: u64, duration: Option<u64>| Settings {
        directory: directory.path(),
        bin: Duration::from_nanos(bin_ns),
        duration: duration.map(Duration::from_secs),
        has_capture: false,
        capture_bytes_max: 0,
        stop: &stop,
    };
    let error = |settings| trace(&run, settings).unwrap_err().to_string();
    assert!(error(settings(0, None)).contains("--bin"));
    assert!(error(settings(1, None)).contains("wider --bin"));
    assert!(error(settings(1_000_000, Some(0))).contains("--duration"));
    assert!(error(settings(1_000_000, Some(u64::MAX))).contains("--duration"));
    stop.store(true, Ordering::Relaxed);
    std::fs::write(directory.path().join("mine.txt"), "kept").unwrap();
    assert!(matches!(trace(&run, settings(1_000_000, None)), Err(TraceError::Stopped)));
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mine.txt"], "nothing is left of a trace which was broken off");
}

#[test]
fn a_choice_which_is_not_one_says_what_there_is() {
    let all = runs(PLAN);
    let error = |series: Option<&str>, at: &[(&str, &str)]| {
        let at = at.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        choose(&all, &Wanted { series: series.map(str::to_owned), at }).unwrap_err().to_string()
    };
    assert_eq!(error(None, &[]), r#"say --series; t has "CUBIC", "Classic", "Modern", "QUIC""#);
    assert_eq!(error(Some("BBR"), &[]), r#"t has no series "BBR"; choose one of "CUBIC", "Classic", "Modern", "QUIC""#);
    assert_eq!(
        error(Some("cubic"), &[]),
        "4 points of t are left; choose by --at loss=, one of 0, 0.01, and --at rtt_ms=, one of 10, 40"
    );
    assert_eq!(
        error(Some("CUBIC"), &[("rtt_ms", "40")]),
        "2 points of t are left; choose by --at loss=, one of 0, 0.01"
    );
    assert_eq!(error(Some("CUBIC"), &[("loss", "0.02")]), "t has no loss of 0.02; choose one of 0, 0.01");
    assert_eq!(
        error(Some("CUBIC"), &[("bytes", "1")]),
        "--at bytes is not possible, because t sweeps loss, rtt_ms alone"
    );
    assert_eq!(error(Some("CUBIC"), &[("loss", "0"), ("loss", "0")]), "--at loss is given twice; choose one value");
}

#[test]
fn a_repetition_is_the_one_which_the_plan_has() {
    let all = runs(PLAN);
    let first = chosen(&all, "Modern");
    let second = all.iter().find(|run| run.series == "Modern" && run.point == first.point && run.repetition == 2);
    assert_eq!(second, Some(&first.repeated(2)));
    assert_eq!(first.repeated(1), first);
}

#[test]
fn marks_of_a_run_are_in_its_table() {
    let marking = PLAN
        .replace("buffer_packets = 30", "discipline = \"codel\"")
        .replace("transport = \"cubic\"", "transport = { kind = \"cubic\", ecn = true }")
        .replace("values = [0, 0.01]", "values = [0.01]");
    let run = chosen(&runs(&marking), "CUBIC");
    let directory = tempfile::tempdir().unwrap();
    traced(&run, directory.path(), false, 0).unwrap();
    let measured = measure(&run.scenario, run.seed).unwrap();
    let queues = Table::read(directory.path(), "queues.csv");
    assert_eq!((queues.sum("marks", "1"), queues.sum("drops", "1")), (measured.links[0].marks, 0));
    assert!(measured.links[0].marks > 0);
}
