//! Tests of `dfcp lab run --platform testbed`, with the requirements of `dfcp emulate`; `DFCP_TEST_SKIP_EMULATE=1`
//! skips them. Speed and lateness are not tested, since the machine may be busy.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const DFCP: &str = env!("CARGO_BIN_EXE_dfcp-lab");

fn is_left_out() -> bool {
    std::env::var_os("DFCP_TEST_SKIP_EMULATE").is_some()
}

/// Plan at 4 Mbit/s with two flows; the second one has a longer round-trip time.
fn plan(duration_s: u32, series: &str) -> String {
    format!(
        "id = \"tiny\"\ntitle = \"Tiny\"\nsource = \"ours\"\nquestion = \"Does it run?\"\n[run]\nduration_s = {duration_s}\nwarm_up_s = 0.5\n\
         seeds = 1\n[topology]\nrate_mbps = 4\naccess_mbps = 10\nrtt_ms = 10\nbuffer_packets = 40\ndiscipline = \"drr\"\nloss = 0.02\n\
         loss_from_s = 0.3\n[[flows]]\n[[flows]]\nrtt_ms = 30\n{series}[metrics]\nplot = [\"goodput_mbps\", \"late_p99_ms\"]\nbin_s = 0.5\n"
    )
}

fn series(transports: &[&str]) -> String {
    let each = |transport: &&str| format!("[[series]]\nlabel = \"{transport}\"\ntransport = \"{transport}\"\n");
    transports.iter().map(each).collect()
}

/// Returns the arguments that run the plan in `directory`.
fn arguments(directory: &Path) -> Vec<String> {
    let plans = directory.display().to_string();
    let results = directory.join("results").display().to_string();
    let words = ["lab", "run", "tiny", "--platform", "testbed", "--plans", &plans, "--results", &results];
    words.map(str::to_owned).to_vec()
}

fn run(directory: &Path, plan: &str) -> Output {
    fs::write(directory.join("tiny.toml"), plan).unwrap();
    Command::new(DFCP).args(arguments(directory)).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn records(directory: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(directory.join("results/tiny.jsonl")).unwrap_or_default();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asserts that a record has the same fields as records of other platforms, and that packets of both flows arrived.
fn assert_complete(record: &Value, error: &str) {
    assert!(record["platform"].as_str().unwrap().starts_with("testbed-"), "{record}");
    let measured = &record["measured"];
    let flows = measured["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 2);
    for flow in flows {
        assert!(flow["wire_bps"].as_f64().unwrap() > 0.0, "{}: {flow}\n{error}", record["series"]);
        assert_eq!(flow["failure"], Value::Null, "{flow}");
        assert!(flow["bins_bps"].as_array().unwrap().len() >= 3, "{flow}");
    }
    let link = &measured["links"][0];
    assert!(link["offered"].as_u64().unwrap() > 0 && link["utilisation"].as_f64().unwrap() > 0.0, "{link}");
    let lateness = &measured["lateness"];
    let value = |name: &str| lateness[name].as_f64().unwrap();
    assert!(value("p99_ms") > 0.0 && value("ends_ran") > 0.0, "{measured}");
    let is_busy = value("ends_ran") + value("ends_waited") > 0.9;
    let is_late = value("p99_ms") > 0.5 || value("unread_packets") > 0.0 || is_busy && value("ends_waited") > 0.1;
    assert_eq!(lateness["is_late"].as_bool().unwrap(), is_late, "{measured}");
    assert!(measured["cpu_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn flows_of_every_kind_run_and_what_cannot_is_said() {
    if is_left_out() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut transports = vec!["cubic", "oracle", "classic", "cubic-2008"];
    if cfg!(feature = "quic") {
        transports.push("quic-cubic");
    }
    let output = run(directory.path(), &plan(2, &series(&transports)));
    let error = text(&output.stderr);
    assert!(output.status.success(), "{error}; or set DFCP_TEST_SKIP_EMULATE=1");
    assert!(error.contains("tiny: cubic-2008, testbed-") && error.contains("no kernel of today"), "{error}");
    let records = records(directory.path());
    assert_eq!(records.len(), transports.len() - 1, "{error}");
    records.iter().for_each(|record| assert_complete(record, &error));
    let is_late = |record: &Value| record["measured"]["lateness"]["is_late"] == true;
    assert_eq!(error.contains("LATE in "), records.iter().any(is_late), "{error}");
    // Losses began after the connections had opened, but before the run ended.
    assert!(records.iter().any(|record| record["measured"]["links"][0]["lost"].as_u64().unwrap() > 0));
    let shown = text(&output.stdout);
    assert!(shown.contains("goodput of each flow") && shown.contains("oracle, testbed-"), "{shown}");
}

#[test]
fn a_file_of_known_size_is_complete_and_ends_the_run() {
    if is_left_out() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let plan =
        plan(600, &series(&["cubic", "oracle", "classic"])).replace("[[flows]]\n", "[[flows]]\nbytes = 100000\n");
    let started = Instant::now();
    let output = run(directory.path(), &plan);
    let error = text(&output.stderr);
    assert!(output.status.success(), "{error}");
    // Three runs of 600 s each would take longer, so the runs ended with their flows.
    assert!(started.elapsed() < Duration::from_secs(1_000), "the runs lasted to their ends");
    for record in records(directory.path()) {
        for flow in record["measured"]["flows"].as_array().unwrap() {
            assert_eq!(flow["delivered_bytes"], 100_000, "{flow}");
            for time in ["fct_s", "fct_connect_s", "fct_confirmed_s", "fct_receive_s"] {
                assert!(flow[time].as_f64().unwrap() > 0.0, "{time} of {flow}");
            }
        }
    }
}

#[test]
fn users_without_rights_run_it_in_a_user_namespace() {
    if is_left_out() || !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("tiny.toml"), plan(2, &series(&["cubic", "oracle"]))).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_admin,-net_admin,-net_raw", "--inh-caps=-sys_admin,-net_admin,-net_raw", DFCP]);
    let output = command.args(arguments(directory.path())).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = records(directory.path());
    assert_eq!(records.len(), 2);
    records.iter().for_each(|record| assert_complete(record, &text(&output.stderr)));
}

#[test]
fn a_plan_that_is_too_fast_in_full_is_refused_and_quick_it_is_scaled_down() {
    let directory = tempfile::tempdir().unwrap();
    let fast = plan(2, &series(&["cubic"])).replace("rate_mbps = 4", "rate_mbps = 1000");
    let output = run(directory.path(), &fast);
    let error = text(&output.stderr);
    assert!(error.contains("up to 200 Mbit/s in real time, not 1000 Mbit/s; use --small"), "{error}");
    assert_eq!(records(directory.path()).len(), 0);
    if is_left_out() {
        return;
    }
    fs::write(directory.path().join("tiny.toml"), fast + "[quick]\nduration_s = 1\n[small]\nfastest_mbps = 4\n")
        .unwrap();
    let output = Command::new(DFCP).args(arguments(directory.path())).arg("--quick").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = records(directory.path());
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["form"], "small");
    assert_eq!(records[0]["scenario"]["links"][0]["rate_bps"], 4_000_000);
}

#[test]
fn the_process_of_a_run_cannot_be_called_by_hand() {
    let mut command = Command::new(DFCP);
    let output = command.arg("testbed-run").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("which calls it by itself"), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
}

/// Returns the child processes of all threads of process `pid`.
fn children(pid: u32) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let text: String = tasks.map(of_task).collect();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().unwrap())).collect()
}

fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_run_ends_when_the_command_is_killed() {
    if is_left_out() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("tiny.toml"), plan(600, &series(&["cubic"]))).unwrap();
    let mut command = Command::new(DFCP);
    command.args(arguments(directory.path())).stdout(Stdio::null()).stderr(Stdio::null());
    let mut lab: Child = command.spawn().unwrap();
    // A process with threads and a network namespace of its own shows that the run is in progress.
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    let run = wait_for("no run began", || {
        let is_under_way = |pid: &Pid| {
            let task = format!("/proc/{}", pid.as_raw_nonzero());
            let threads = fs::read_dir(format!("{task}/task")).map_or(0, Iterator::count);
            threads >= 3 && fs::read_link(format!("{task}/ns/net")).is_ok_and(|net| net != own)
        };
        children(lab.id()).into_iter().find(is_under_way)
    });
    kill_process(Pid::from_raw(lab.id().cast_signed()).unwrap(), Signal::KILL).unwrap();
    lab.wait().unwrap();
    // A zombie process has no namespaces, so their absence shows that the run has ended.
    let net = format!("/proc/{}/ns/net", run.as_raw_nonzero());
    wait_for("the run goes on", || fs::read_link(&net).is_err().then_some(()));
}

/// The kernel's TCP negotiates ECN and responds to marks, so that no packets are lost.
#[test]
fn a_kernel_obeys_the_marks_of_the_emulated_network() {
    if is_left_out() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let with = "[[series]]\nlabel = \"with\"\ntransport = { kind = \"cubic\", ecn = true }\n";
    let without = "[[series]]\nlabel = \"without\"\ntransport = \"cubic\"\n";
    let plan = plan(3, &format!("{with}{without}"))
        .replace("loss = 0.02\nloss_from_s = 0.3\n", "")
        .replace("discipline = \"drr\"", "discipline = \"codel\"")
        .replace("[[flows]]\n[[flows]]\nrtt_ms = 30\n", "[[flows]]\n");
    let output = run(directory.path(), &plan);
    assert!(output.status.success(), "{}; or set DFCP_TEST_SKIP_EMULATE=1", text(&output.stderr));
    for record in records(directory.path()) {
        let (link, flow) = (&record["measured"]["links"][0], &record["measured"]["flows"][0]);
        let marks = link["marks"].as_u64().unwrap_or(0);
        let counts = (link["queue_drops"].as_u64().unwrap(), flow["retransmissions"].as_u64().unwrap());
        if record["series"] == "with" {
            assert!(marks > 0 && counts == (0, 0), "{marks} {counts:?}");
        } else {
            assert!(marks == 0 && counts.0 > 0 && counts.1 > 0, "{marks} {counts:?}");
        }
        assert!(flow["goodput_bps"].as_f64().unwrap() > 3e6, "{flow}");
    }
}
