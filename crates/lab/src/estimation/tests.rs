use super::*;
use crate::expand::{Choice, Form, expand};
use crate::metrics::FlowMeasured;
use crate::plan::Source;
use crate::reading::parse;

/// Parses a plan with the given TOML `tables`, for CUBIC over 20 s.
fn plan(tables: &str) -> Result<Source, String> {
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"ours\"\nquestion = \"\"\n[run]\nduration_s = 20\nwarm_up_s = 2\nseeds = 1\n{tables}\n\
         [[series]]\nlabel = \"A\"\ntransport = \"cubic\"\n[metrics]\nplot = [\"busy_periods\"]\n"
    );
    parse("t.toml", &text).map_err(|error| error.message)
}

/// Returns the first flow's measurements in each run of the plan.
fn flows(tables: &str) -> Vec<FlowMeasured> {
    let runs = expand(&plan(tables).unwrap(), Choice { form: Form::Full, seeds: None }).unwrap();
    runs.iter().map(|run| crate::measure(&run.scenario, run.seed).unwrap().flows.remove(0)).collect()
}

const CELL: &str = "[topology]\nrate_mbps = 4\naccess_mbps = 100\nrtt_ms = 60\nbuffer_packets = 100\n";
const WEB: &str = "[flows.web]\nconnection_bytes = 40000\npage_every_s = 2\n";

#[test]
fn a_constant_rate_is_found() {
    let estimate = flows(&format!("{CELL}[[flows]]\n{WEB}[flows.estimate]\n"))[0].estimate.clone().unwrap();
    assert!(estimate.busy_s.len() >= 3, "{estimate:?}");
    assert!((estimate.link_bps - 4e6).abs() < 1.0 && (estimate.probes_bps - 4_800.0).abs() < 50.0, "{estimate:?}");
    // A busy period of about 100 kB can be wrong by one packet of 1500 bytes at each end.
    assert!(estimate.error_mean.unwrap() < 0.02 && estimate.error_worst.unwrap() < 0.05, "{estimate:?}");
    let found = [estimate.estimate_bps, estimate.weighted_bps];
    assert!(found.iter().all(|bps| (bps.unwrap() / 4e6 - 1.0).abs() < 0.02), "{estimate:?}");
}

#[test]
fn what_the_bottleneck_could_carry_follows_its_rate() {
    // A long download keeps the queue busy while the rate changes. It starts at 3 s, so that the estimator begins with
    // an empty queue.
    let changes = "[[time]]\nat_s = 6\nrate_mbps = 2\n[[time]]\nat_s = 12\nrate_mbps = 8\n";
    let bulk = "[[flows]]\nstart_s = 3\nbytes = 10000000\n[[flows]]\nbytes = 1\n";
    let found = flows(&format!("{changes}{CELL}{}", bulk.replacen("\n[[", "\nestimate = {}\n[[", 1)));
    let estimate = found[0].estimate.clone().unwrap();
    assert!(estimate.error_worst.unwrap() < 0.02, "{estimate:?}");
    // The capacity after the warm-up: 4 s at 4 Mbit/s, 6 s at 2 Mbit/s and 8 s at 8 Mbit/s, less the idle time at the
    // end.
    assert!((2e6..6e6).contains(&estimate.link_bps), "{estimate:?}");
}

#[test]
fn all_thresholds_watch_the_same_run() {
    let sweep = "[[sweep]]\nparameter = \"threshold_ms\"\nvalues = [10, 100]\n";
    let found = flows(&format!("{sweep}{CELL}[[flows]]\n{WEB}[flows.estimate]\n"));
    let [low, high] = &found[..] else { panic!("two points") };
    assert_eq!((low.delivered_bytes, low.retransmissions), (high.delivered_bytes, high.retransmissions));
    let [low, high] = [low, high].map(|flow| flow.estimate.clone().unwrap());
    assert_eq!(low.link_bps, high.link_bps);
    let busy_s = |estimate: &EstimateMeasured| estimate.busy_s.iter().sum::<f64>();
    assert!(busy_s(&low) > busy_s(&high), "{low:?} {high:?}");
}

#[test]
fn lost_test_packets_are_no_queue() {
    // Random loss without load must not produce a busy period.
    let idle = "[[flows]]\nstart_s = 1\n[flows.web]\nconnection_bytes = 1\npage_every_s = 100000\n[flows.estimate]\n";
    let found = flows(&format!("{CELL}loss = 0.3\n{idle}"));
    let estimate = found[0].estimate.clone().unwrap();
    assert_eq!((estimate.busy_s.len(), estimate.estimate_bps, estimate.error_worst), (0, None, None));
}

#[test]
fn web_and_estimates_without_sense_are_refused() {
    let web = |lines: &str| format!("[[flows]]\n[flows.web]\n{lines}");
    let estimate = |lines: &str| format!("[[flows]]\n[flows.estimate]\n{lines}");
    for (flows, part) in [
        (web("connection_bytes = 9\n"), "missing field `page_every_s`"),
        (web("connection_bytes = 0\npage_every_s = 1\n"), "connection_bytes is 0"),
        (web("connection_bytes = 9\npage_every_s = 0\n"), "page_every_s is 0"),
        (web("connection_bytes = 9\npage_every_s = nan\n"), "page_every_s is NaN"),
        (web("connection_bytes = 9\npage_every_s = 1e-9\n"), "more than 1000000 connections"),
        (web("connection_bytes = 9\npage_every_s = 1\nconnections = 0\n"), "a page has 0 connections"),
        (format!("[[flows]]\nbytes = 5\n{WEB}"), "no `bytes` of their own"),
        (format!("[[flows]]\ntransport = \"modern\"\n{WEB}"), "\"modern\" has no web traffic"),
        (estimate("probe_every_ms = 0\n"), "probe_every_ms is 0"),
        (estimate("probe_every_ms = 0.5\n"), "the interval is 500µs"),
        (estimate("probe_every_ms = 20000\n"), "probe_every_ms is 20s"),
        (estimate("threshold_ms = -1\n"), "threshold_ms is -1"),
        (estimate("gap_ms = 50\n"), "the gap is 50ms"),
        (estimate("size = 1\n"), "unknown field"),
        ("[[flows]]\nis_back = true\n[flows.estimate]\n".to_owned(), "in data's direction"),
    ] {
        let error = plan(&format!("{CELL}{flows}")).unwrap_err();
        assert!(error.contains(part), "{flows}: {error}");
    }
    let two = "[topology]\nkind = \"parking-lot\"\n[[topology.bottlenecks]]\n[[topology.bottlenecks]]\n";
    assert!(plan(&format!("{two}[[flows]]\n[flows.estimate]\n")).unwrap_err().contains("let `over` name it"));
    assert!(plan(&format!("{two}[[flows]]\nover = [2, 2]\n[flows.estimate]\n")).is_ok());
    let policed = "[topology.impairments]\npolicer_packets = 9\n";
    assert!(plan(&format!("{CELL}{policed}[[flows]]\n[flows.estimate]\n")).unwrap_err().contains("a policer"));
    for (parameter, part) in [("threshold_ms", "[flows.estimate]"), ("page_every_s", "[flows.web]")] {
        let sweep = format!("[[sweep]]\nparameter = \"{parameter}\"\nvalues = [1]\n{CELL}");
        assert!(plan(&sweep).unwrap_err().contains(part));
    }
}
