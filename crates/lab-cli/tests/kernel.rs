//! Tests of plans on a kernel in virtual time, and of programs between its hosts. They are skipped without a built
//! kernel.
//!
//! ```text
//! dfcp lab kernel build && cargo test -p dfcp-lab-cli --test kernel
//! ```
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::print_stderr, reason = "who reads the tests' output learns what was skipped")]

use std::path::Path;

use assert_cmd::Command;
use dfcp_kernel::{Cache, Kernel, KernelError};
use serde_json::Value;

fn kernel(release: Option<&str>) -> Result<Kernel, KernelError> {
    Cache::of_user()?.find(release)
}

/// Returns true if a kernel was built; otherwise prints why the test is skipped.
fn has_kernel() -> bool {
    kernel(None).inspect_err(|error| eprintln!("skipped: {error}")).is_ok()
}

fn lab(arguments: &[&str], directory: &Path) -> (i32, String, String) {
    let mut command = Command::cargo_bin("dfcp-lab").unwrap();
    let output = command.arg("lab").args(arguments).current_dir(directory).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Creates a directory with the plan `t`, whose tables are `text`.
fn with_plan(text: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("plans")).unwrap();
    let head = "id = \"t\"\ntitle = \"t\"\nsource = \"ours\"\nquestion = \"t\"\n[metrics]\nplot = [\"goodput_mbps\"]\n";
    std::fs::write(directory.path().join("plans/t.toml"), format!("{head}{text}")).unwrap();
    directory
}

/// Reads the records of plan `t`: platform, series and record.
fn records(directory: &Path) -> Vec<(String, String, Value)> {
    let text = std::fs::read_to_string(directory.join("lab-results/t.jsonl")).unwrap();
    let record = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        let name = |key: &str| record[key].as_str().unwrap().to_owned();
        (name("platform"), name("series"), record)
    };
    text.lines().map(record).collect()
}

fn mbps(record: &Value) -> f64 {
    let flows = record["measured"]["flows"].as_array().unwrap();
    flows.iter().map(|flow| flow["goodput_bps"].as_f64().unwrap()).sum::<f64>() / 1e6
}

fn run(directory: &Path, more: &[&str]) -> (String, String) {
    let base = ["run", "t", "--plans", "plans", "--platform", "sim,kernel", "--jobs", "2"];
    let (code, out, err) = lab(&[&base, more].concat(), directory);
    assert_eq!(code, 0, "{err}");
    (out, err)
}

#[test]
fn without_loss_every_transport_fills_the_link_on_the_simulator_and_on_each_kernel() {
    if !has_kernel() {
        return;
    }
    let kernels: Vec<_> = ["6.1", "6.12"].into_iter().filter(|release| kernel(Some(release)).is_ok()).collect();
    eprintln!("kernels: {kernels:?}");
    let names: Vec<_> = kernels.iter().flat_map(|release| ["--kernel", release]).collect();
    let series = ["cubic", "newreno", "bbr", "oracle", "quic-cubic"];
    let series: String =
        series.iter().map(|kind| format!("[[series]]\nlabel = \"{kind}\"\ntransport = \"{kind}\"\n")).collect();
    let directory = with_plan(&format!(
        "[run]\nduration_s = 4\nwarm_up_s = 2\nseeds = 1\n[topology]\nrate_mbps = 20\naccess_mbps = 0\nrtt_ms = 10\n\
         buffer_packets = 100\n{series}"
    ));
    let (out, _) = run(directory.path(), &names);
    assert!(kernels.iter().all(|release| out.contains(&format!("kernel-{release}."))), "{out}");
    let records = records(directory.path());
    assert_eq!(records.len(), 5 * (1 + kernels.len().max(1)));
    for (platform, series, record) in records {
        assert!((18.0..20.0).contains(&mbps(&record)), "{platform} {series}: {record}");
        let link = &record["measured"]["links"][0];
        assert!((0.99..1.001).contains(&link["utilisation"].as_f64().unwrap()), "{platform} {series}: {link}");
    }
}

#[test]
fn the_documents_profile_waits_for_the_device_and_delivers_the_same_on_both_platforms() {
    if !has_kernel() {
        return;
    }
    let directory = with_plan(
        "[run]\nduration_s = 4\nwarm_up_s = 1\nseeds = 1\n[topology]\nrate_mbps = 20\naccess_mbps = 20\nrtt_ms = 0.2\n\
         [[series]]\nlabel = \"flood\"\ntransport = { kind = \"classic\", window_blocks = 100 }\n\
         [[series]]\nlabel = \"open loop\"\ntransport = { kind = \"classic\", redundancy = 0.05, window_blocks = 1000 }\n",
    );
    run(directory.path(), &[]);
    let records = records(directory.path());
    assert_eq!(records.len(), 4);
    for label in ["flood", "open loop"] {
        let of = |is_sim: bool| {
            let found = records.iter().find(|(platform, series, _)| (platform == "sim") == is_sim && series == label);
            mbps(&found.unwrap().2)
        };
        let (sim, kernel) = (of(true), of(false));
        assert!(sim > 10.0 && (kernel / sim - 1.0).abs() < 0.01, "{label}: {sim} and {kernel} Mbit/s");
    }
}

#[test]
fn what_the_kernel_cannot_do_is_said_and_left_out() {
    if !has_kernel() {
        return;
    }
    let directory = with_plan(
        "[run]\nduration_s = 1\nwarm_up_s = 0\nseeds = 1\n[topology]\nrate_mbps = 5\n[[series]]\nlabel = \"WFQ\"\n\
         transport = \"cubic\"\nset = { discipline = \"wfq\" }\n[[series]]\nlabel = \"2008\"\ntransport = \"cubic-2008\"\n\
         [[series]]\nlabel = \"DRR\"\ntransport = \"cubic\"\nset = { discipline = \"drr\" }\n",
    );
    let (_, err) = run(directory.path(), &[]);
    assert!(err.contains("the kernel has no WFQ") && err.contains("no TCP of 2008"), "{err}");
    let records = records(directory.path());
    let of_kernel: Vec<_> =
        records.iter().filter(|(platform, ..)| platform != "sim").map(|(_, series, _)| series.as_str()).collect();
    assert_eq!((records.len(), of_kernel), (4, vec!["DRR"]));
}

#[test]
fn a_lower_rate_a_longer_delay_and_losses_come_when_the_plan_says_so() {
    if !has_kernel() {
        return;
    }
    let directory = with_plan(
        "[run]\nduration_s = 9\nwarm_up_s = 0\nseeds = 1\n[topology]\nrate_mbps = 20\naccess_mbps = 0\nrtt_ms = 10\nbuffer_packets = 20\n\
         [[series]]\nlabel = \"DFCP\"\ntransport = { kind = \"modern\", rate = 10 }\n[[time]]\nat_s = 3\nrate_mbps = 5\n\
         [[time]]\nat_s = 6\nrate_mbps = 20\nloss = 0.5\n",
    );
    let path = directory.path().join("plans/t.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("plot = [\"goodput_mbps\"]", "plot = [\"goodput_mbps\"]\nbin_s = 1")).unwrap();
    run(directory.path(), &[]);
    for (platform, _, record) in records(directory.path()) {
        let bins = record["measured"]["flows"][0]["bins_bps"].as_array().unwrap();
        // Blocks arrive as a whole, so single seconds vary. Means of three seconds are compared.
        let mbps = |from: usize| bins[from..from + 3].iter().map(|bin| bin.as_f64().unwrap()).sum::<f64>() / 3e6;
        assert!((9.0..10.0).contains(&mbps(0)), "{platform}: {bins:?}");
        assert!((3.8..5.0).contains(&mbps(3)), "{platform}: {bins:?}");
        assert!((3.0..5.2).contains(&mbps(6)), "{platform}: {bins:?}");
        let lost = record["measured"]["random_losses"].as_u64().unwrap();
        assert!((900..1_900).contains(&lost), "{platform}: {lost}");
    }
}

#[test]
fn flows_over_a_parking_lot_and_a_graph_take_their_routes() {
    if !has_kernel() {
        return;
    }
    let series = "[[series]]\nlabel = \"DFCP\"\ntransport = { kind = \"modern\", rate = 4 }\n";
    let lot = "[topology]\nkind = \"parking-lot\"\nrate_mbps = 10\n[[topology.bottlenecks]]\n[[topology.bottlenecks]]\n\
               rtt_ms = 20\n[[flows]]\n[[flows]]\nover = [2, 2]\n";
    let graph = "[topology]\nkind = \"graph\"\nrate_mbps = 10\n[[topology.links]]\nfrom = \"a\"\nto = \"b\"\n\
                 [[topology.links]]\nfrom = \"b\"\nto = \"c\"\n[[flows]]\nfrom = \"a\"\nto = \"c\"\n[[flows]]\nfrom = \"b\"\nto = \"c\"\n";
    for topology in [lot, graph] {
        let directory = with_plan(&format!("[run]\nduration_s = 3\nwarm_up_s = 1\nseeds = 1\n{topology}{series}"));
        run(directory.path(), &[]);
        for (platform, _, record) in records(directory.path()) {
            let links = record["measured"]["links"].as_array().unwrap();
            let used: Vec<f64> = links.iter().map(|link| link["utilisation"].as_f64().unwrap()).collect();
            assert!((used[0] - 0.4).abs() < 0.01 && (used[1] - 0.8).abs() < 0.01, "{platform}: {used:?}");
        }
    }
}

#[test]
fn a_web_object_takes_as_long_on_both_platforms() {
    if !has_kernel() {
        return;
    }
    let directory = with_plan(
        "[run]\nduration_s = 20\nwarm_up_s = 0\nseeds = 1\n[topology]\nrate_mbps = 20\naccess_mbps = 0\nrtt_ms = 40\n\
         [[flows]]\nbytes = 100000\nstart_s = 0.5\n[[series]]\nlabel = \"CUBIC\"\ntransport = \"cubic\"\n[[series]]\n\
         label = \"DFCP\"\ntransport = \"modern\"\n",
    );
    run(directory.path(), &[]);
    let records = records(directory.path());
    let time = |record: &Value, key: &str| record["measured"]["flows"][0][key].as_f64().unwrap();
    for series in ["CUBIC", "DFCP"] {
        let both: Vec<&Value> = records.iter().filter(|(_, of, _)| of == series).map(|(.., record)| record).collect();
        let [sim, kernel] = both[..] else { panic!("{series} was not run on both") };
        for key in ["fct_s", "fct_connect_s", "fct_receive_s", "fct_confirmed_s"] {
            let [ours, reference] = [sim, kernel].map(|record| time(record, key));
            assert!((ours - reference).abs() < 0.02, "{series} {key}: {ours} and {reference}");
        }
        assert_eq!(time(kernel, "delivered_bytes"), 100_000.0);
    }
}

#[test]
fn a_program_runs_between_two_hosts_and_its_status_is_the_commands() {
    if !has_kernel() {
        return;
    }
    let directory = with_plan(
        "[run]\n[topology]\nrate_mbps = 10\nrtt_ms = 100\naccess_mbps = 0\n[[series]]\nlabel = \"A\"\ntransport = \"cubic\"\n",
    );
    let exec = |more: &[&str]| {
        lab(&[&["kernel", "exec", "--topology", "t", "--plans", "plans"], more].concat(), directory.path())
    };
    let start = std::time::Instant::now();
    let line = "sleep 1000; echo $DFCP_HERE $DFCP_PEER; echo written > here; exit 7";
    let (code, out, err) = exec(&["--peer", "echo peer $DFCP_HERE >&2; sleep 2000", "--", "sh", "-c", line]);
    assert_eq!(code, 7, "{out}{err}");
    let addresses: Vec<&str> = out.split_whitespace().collect();
    assert_eq!(addresses.len(), 2, "{out}");
    assert!(err.contains(&format!("peer {}", addresses[1])), "{err}");
    assert_eq!(std::fs::read_to_string(directory.path().join("here")).unwrap(), "written\n");
    // A thousand seconds of sleep pass in virtual time, and take little real time.
    assert!(start.elapsed().as_secs() < 100);
    // Files outside the guest cannot be changed.
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = outside.path().join("file");
    let (code, _, err) = exec(&["--", "touch", path.to_str().unwrap()]);
    assert!(code != 0 && !path.exists(), "{err}");
    let (code, _, err) = exec(&["--", "no-such-program"]);
    assert_eq!((code, err.lines().count()), (1, 1), "{err}");
    assert!(err.contains("cannot run no-such-program"), "{err}");
}

#[test]
fn guests_tell_events_on_standard_error() {
    if !has_kernel() {
        return;
    }
    let directory = with_plan(
        "[run]\nduration_s = 0.5\nwarm_up_s = 0.1\nseeds = 1\n[topology]\nrate_mbps = 10\nrtt_ms = 1\n\
         [[series]]\nlabel = \"m\"\ntransport = \"modern\"\n",
    );
    let mut command = Command::cargo_bin("dfcp-lab").unwrap();
    command.args(["lab", "run", "t", "--plans", "plans", "--platform", "kernel"]).current_dir(directory.path());
    let output = command.env("DFCP_LOG", "dfcp=debug").output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{err}");
    let (_, _, record) = records(directory.path()).remove(0);
    let begin = format!("seed {}: ", record["seed"]);
    assert!(err.lines().any(|line| line.starts_with(&begin) && line.contains("DEBUG")), "{err}");
    assert!(!out.contains("DEBUG"), "{out}");
}

/// Reads a table: names of the columns, and lines.
fn table(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    (lines.next().unwrap(), lines.collect())
}

#[test]
fn a_trace_has_the_tables_of_the_simulator_and_its_bins_add_up() {
    if !has_kernel() {
        return;
    }
    let directory = with_plan(
        "[run]\nduration_s = 2\nwarm_up_s = 0\nseeds = 1\n[topology]\nrate_mbps = 10\naccess_mbps = 10\nrtt_ms = 10\nloss = 0.01\n\
         [[series]]\nlabel = \"cubic\"\ntransport = \"cubic\"\n[[series]]\nlabel = \"classic\"\ntransport = { kind = \"classic\", window_blocks = 2 }\n\
         [[series]]\nlabel = \"modern\"\ntransport = \"oracle\"\n[[series]]\nlabel = \"quic\"\ntransport = \"quic-cubic\"\n",
    );
    let trace = |more: &[&str]| lab(&[&["trace", "t", "--plans", "plans"], more].concat(), directory.path());
    let columns =
        ["cwnd_segments", "cwnd_bytes", "srtt_ms", "retransmissions", "timeouts", "lost_packets", "symbols_sent"];
    for (series, due) in [
        ("cubic", [true, true, true, true, true, false, false]),
        ("quic", [false, true, true, false, false, true, false]),
        ("classic", [false, false, true, false, false, false, true]),
        ("modern", [false, false, true, false, false, false, true]),
    ] {
        let (code, out, err) = trace(&["--series", series, "--platform", "kernel", "--bin", "300ms", "--json"]);
        assert_eq!(code, 0, "{err}");
        let traced: Value = serde_json::from_str(&out).unwrap();
        assert!(traced["platform"].as_str().unwrap().starts_with("kernel-"), "{out}");
        let (names, lines) = table(&directory.path().join("lab-trace/flows.csv"));
        let column = |name: &str| {
            let at = names.iter().position(|other| other == name).unwrap();
            lines.iter().map(move |line| line[at].clone()).collect::<Vec<_>>()
        };
        assert_eq!(column("time_s"), ["0.3", "0.6", "0.9", "1.2", "1.5", "1.8", "2"]);
        let sum = |name: &str| column(name).iter().map(|field| field.parse::<f64>().unwrap()).sum::<f64>();
        assert_eq!(sum("delivered_bytes"), traced["flows"][0]["delivered_bytes"].as_f64().unwrap(), "{series}");
        assert!(sum("delivered_bytes") > 400_000.0, "{series}: {out}");
        let present = columns.map(|name| column(name).iter().all(|field| !field.is_empty()));
        assert_eq!(present, due, "{series}: {lines:?}");
        let (_, queues) = table(&directory.path().join("lab-trace/queues.csv"));
        assert!(queues.len() == 7 && traced["links"][0]["lost"].as_u64() > Some(0), "{queues:?}");
        // The simulator writes the same columns in the same order.
        let (code, _, err) = trace(&["--series", series, "--output", "sim"]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(table(&directory.path().join("sim/flows.csv")).0, names);
    }
    let (code, _, err) = trace(&["--series", "cubic", "--platform", "kernel", "--pcap"]);
    assert!(code == 1 && err.contains("--pcap"), "{err}");
}

#[test]
fn marks_are_obeyed_on_the_simulator_and_on_the_kernel() {
    if !has_kernel() {
        return;
    }
    let directory = with_plan(
        "[run]\nduration_s = 10\nwarm_up_s = 4\nseeds = 1\n[topology]\nrate_mbps = 20\naccess_mbps = 0\nrtt_ms = 20\ndiscipline = \"codel\"\n\
         [[series]]\nlabel = \"CUBIC\"\ntransport = { kind = \"cubic\", ecn = true }\n[[series]]\nlabel = \"DCTCP\"\ntransport = \"dctcp\"\n\
         [[series]]\nlabel = \"threshold\"\ntransport = \"dctcp\"\nset = { ce_threshold_us = 3000 }\n\
         [[series]]\nlabel = \"RED\"\ntransport = { kind = \"newreno\", ecn = true }\nset = { discipline = \"red\" }\n\
         [[series]]\nlabel = \"none\"\ntransport = \"cubic\"\n",
    );
    run(directory.path(), &[]);
    let records = records(directory.path());
    assert_eq!(records.len(), 10);
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    for (platform, series, record) in &records {
        let (link, flow) = (&record["measured"]["links"][0], &record["measured"]["flows"][0]);
        let (marks, drops) = (count(&link["marks"]), count(&link["queue_drops"]));
        let has_ecn = series != "none";
        assert_eq!((marks > 0, drops > 0), (has_ecn, !has_ecn), "{platform} {series}: {link}");
        assert_eq!(count(&flow["retransmissions"]) > 0, !has_ecn, "{platform} {series}: {flow}");
        // The kernel's RED is not gentle: with its usual thresholds and a slow average, marking persists and goodput
        // stays low.
        let least_mbps = if series == "RED" { 0.5 } else { 18.0 };
        assert!(mbps(record) > least_mbps, "{platform} {series}: {record}");
    }
    for label in ["CUBIC", "DCTCP", "threshold"] {
        let marks = records.iter().filter(|(_, series, _)| series == label);
        let marks: Vec<u64> = marks.map(|(.., record)| count(&record["measured"]["links"][0]["marks"])).collect();
        let most = (marks[0] / 4).max(10);
        assert!(marks[0].abs_diff(marks[1]) <= most, "{label}: {marks:?}");
    }
}

#[test]
fn after_new_ports_dfcp_and_quic_go_on_as_in_the_simulator_and_tcp_ends() {
    if !has_kernel() {
        return;
    }
    let directory = with_plan(
        "[run]\nduration_s = 4.5\nwarm_up_s = 0\nseeds = 1\n[topology]\nrate_mbps = 10\naccess_mbps = 50\nrtt_ms = 20\nbuffer_packets = 40\n\
         [[flows]]\nrebind_s = [1.5]\n[[series]]\nlabel = \"DFCP\"\ntransport = { kind = \"modern\", rate = 8 }\n[[series]]\nlabel = \"CUBIC\"\n\
         transport = \"cubic\"\n[[series]]\nlabel = \"QUIC\"\ntransport = \"quic-cubic\"\n",
    );
    let path = directory.path().join("plans/t.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("plot = [\"goodput_mbps\"]", "plot = [\"goodput_mbps\"]\nbin_s = 0.5")).unwrap();
    run(directory.path(), &[]);
    let records = records(directory.path());
    assert_eq!(records.len(), 6);
    for (platform, series, record) in &records {
        let flow = &record["measured"]["flows"][0];
        let bins = flow["bins_bps"].as_array().unwrap();
        let mbps = |from: usize, to: usize| {
            bins[from..to].iter().map(|bin| bin.as_f64().unwrap()).sum::<f64>() / 1e6 / (to - from) as f64
        };
        // Measured from half a second after the change of ports: validation of the new path fits in this time.
        let (before, after) = (mbps(1, 3), mbps(4, 9));
        let is_tcp = series == "CUBIC";
        if is_tcp {
            assert!(before > 7.0 && after == 0.0, "{platform} {series}: {bins:?}");
        } else {
            assert!(before > 6.5 && (after / before - 1.0).abs() < 0.1, "{platform} {series}: {bins:?}");
        }
        assert_eq!(flow["failure"].is_string(), is_tcp, "{platform} {series}: {flow}");
    }
    for label in ["DFCP", "QUIC"] {
        let of = |is_sim: bool| {
            let found = records.iter().find(|(platform, series, _)| (platform == "sim") == is_sim && series == label);
            mbps(&found.unwrap().2)
        };
        let (sim, kernel) = (of(true), of(false));
        assert!((kernel / sim - 1.0).abs() < 0.05, "{label}: {sim} and {kernel} Mbit/s");
    }
}
