//! Tests of `dfcp emulate` with real programs. They need /dev/net/tun, and root or user namespaces; elsewhere, `DFCP_TEST_SKIP_EMULATE=1`
//! skips them.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn is_left_out() -> bool {
    std::env::var_os("DFCP_TEST_SKIP_EMULATE").is_some()
}

fn emulate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dfcp"));
    command.arg("emulate").args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    let output = emulate(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(125), "{error}; or set DFCP_TEST_SKIP_EMULATE=1");
    output
}

/// Summary in the last line.
fn summary(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const DFCP: &str = env!("CARGO_BIN_EXE_dfcp");

#[test]
fn exit_codes_are_passed_on() {
    if is_left_out() {
        return;
    }
    assert_eq!(output(&["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(output(&["--", "sh", "-c", "kill -KILL $$"]).status.code(), Some(137));
    let missing = output(&["--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot run `no-such-program`"));
    assert_eq!(output(&["--", "/dev/null"]).status.code(), Some(126));
}

#[test]
fn programs_are_told_the_addresses_and_see_their_own_network_and_processes_only() {
    if is_left_out() {
        return;
    }
    let script = "echo $DFCP_NEAR $DFCP_FAR $DFCP_NEAR6 $DFCP_FAR6; tail -n +3 /proc/net/dev | cut -d : -f 1 | sort | xargs; id -u";
    let user = rustix::process::geteuid().as_raw();
    let mut outputs = vec![output(&["--", "sh", "-c", script])];
    if user == 0 {
        // Root without capabilities needs a user namespace, as other users do.
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-sys_admin,-net_admin", "--inh-caps=-sys_admin,-net_admin"]);
        outputs.push(command.args([DFCP, "emulate", "--", "sh", "-c", script]).output().unwrap());
    }
    for output in outputs {
        let text = String::from_utf8(output.stdout).unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        let expected = format!("198.18.0.1 198.18.0.2 2001:2::1 2001:2::2\nlo near\n{user}\n");
        assert_eq!(text, expected, "{error}");
    }
}

/// Transfer by the real program over the path, by IPv4 and IPv6, with loss, corruption and reordering.
#[test]
fn a_transfer_crosses_the_path_and_its_losses_are_counted() {
    if is_left_out() {
        return;
    }
    for far in ["198.18.0.2", "[2001:2::2]"] {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let content: Vec<u8> = (0..300_000_u32).map(|n| (n.wrapping_mul(n) / 7) as u8).collect();
        std::fs::write(path("sent"), &content).unwrap();
        let server = format!(
            "DFCP_CONFIG_DIR={} {DFCP} receive --listen 4433 --output {} --once --allow-any --no-sync",
            path("there"),
            path("incoming")
        );
        let client =
            format!("DFCP_CONFIG_DIR={} {DFCP} send {} {far}:4433 --accept-new-key", path("here"), path("sent"));
        let options =
            ["--loss", "5%", "--corrupt", "1%", "--reorder", "1%", "--rate", "20mbit", "--delay", "2ms", "--json"];
        let output = output(&[&options[..], &["--seed", "3", "--server", &server, "--", "sh", "-c", &client]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(std::fs::read(path("incoming/sent")).unwrap(), content);
        let forward = &summary(&output)["forward"];
        let count = |what: &str| forward[what]["packets"].as_u64().unwrap();
        assert!(count("lost") > 0 && count("corrupted") > 0, "{forward}");
        let gone = count("forwarded") + count("not_sent") + count("lost") + count("queue_drops") + count("on_the_way");
        assert_eq!(count("received"), gone, "{forward}");
        assert_eq!(forward["lateness"]["packets"], count("forwarded") + count("not_sent"), "{forward}");
        assert_eq!(forward["malformed_packets"], 0, "{forward}");
    }
}

/// ECN-capable datagrams (`--ecn`) by IPv4 and IPv6: the queue marks them, they arrive as CE, and few are dropped.
#[test]
fn marks_of_a_queue_are_in_the_packets_and_counted() {
    if is_left_out() {
        return;
    }
    for far in ["198.18.0.2", "[2001:2::2]"] {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let server = format!("DFCP_CONFIG_DIR={} {DFCP} perf server --listen 5201 --ecn --allow-any", path("there"));
        let client = format!(
            "DFCP_CONFIG_DIR={} {DFCP} perf client {far}:5201 --ecn --rate 12mbit --duration 2 --json --accept-new-key",
            path("here")
        );
        let options = ["--rate", "10mbit", "--delay", "2ms", "--queue", "codel", "--json"];
        let output = output(&[&options[..], &["--server", &server, "--", "sh", "-c", &client]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let forward = &summary(&output)["forward"];
        let count = |what: &str| forward[what]["packets"].as_u64().unwrap();
        let perf: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let told = perf["total"]["path"]["marks"]["ce"].as_u64().unwrap();
        // The peer's reports lag behind its counts.
        assert!(told > 0 && told <= count("marked"), "{told} of {forward}");
        assert!(count("queue_drops") < count("marked") / 10, "{forward}");
    }
}

/// Starts an emulation and waits for its command's output.
fn started(arguments: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = emulate(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    if line != "running\n" {
        let mut error = String::new();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        panic!("{error}; or set DFCP_TEST_SKIP_EMULATE=1");
    }
    (child, out)
}

fn kill(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// All processes inside hold the pipe, which closes when the last one ends. A surviving process would make this test hang.
#[test]
fn all_processes_end_when_the_emulator_is_killed() {
    if is_left_out() {
        return;
    }
    let script = "trap '' TERM INT HUP; sleep 1000 & setsid sleep 1000 & echo running; wait";
    let (mut child, mut out) = started(&["--server", "trap '' TERM; exec sleep 1000", "--", "sh", "-c", script]);
    kill(&child, Signal::KILL);
    child.wait().unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

/// The namespace's first process also waits for the server, so the server must be killed.
#[test]
fn a_server_that_ignores_the_request_to_end_is_killed() {
    if is_left_out() {
        return;
    }
    let stubborn = "trap '' TERM; while :; do sleep 0.1; done";
    assert_eq!(output(&["--server", stubborn, "--", "true"]).status.code(), Some(0));
}

#[test]
fn requests_to_end_are_passed_on() {
    if is_left_out() {
        return;
    }
    for (signal, code) in [(Signal::TERM, 5), (Signal::HUP, 5), (Signal::INT, 6)] {
        let script = "trap 'exit 5' TERM; trap 'exit 6' INT; echo running; while :; do sleep 0.05; done";
        // A new session, so that the test's own terminal is not used.
        let mut command = Command::new("setsid");
        command.args(["--wait", DFCP, "emulate", "--", "sh", "-c", script]).stdin(Stdio::null());
        let mut session = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(session.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "running\n");
        kill(&session, signal);
        assert_eq!(session.wait().unwrap().code(), Some(code), "{signal:?}");
    }
}

#[test]
fn mistakes_are_explained_before_anything_is_started() {
    let wrong = emulate(&["--loss", "10", "--", "true"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("write 10% or 0.1"));
    let wrong = emulate(&["--queue", "codle", "--", "true"]).output().unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("fq-codel"));
    let none = emulate(&["--delay", "10ms"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
}

/// Outside a namespace, the hidden command would mount over the caller's /proc.
#[test]
fn the_first_process_is_not_for_users() {
    let refused = Command::new(DFCP).arg("emulate-init").stdin(Stdio::null()).output().unwrap();
    assert_eq!(refused.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("part of `dfcp emulate`"));
    assert!(refused.stdout.is_empty());
}

/// Runs a script as root of a separate network namespace, with full rights over its network.
fn in_a_machine_of_its_own(script: &str) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child"]);
    let set_up = "set -e; mount -t tmpfs none /run; ip link set lo up; ";
    let script = format!("{set_up}{script}");
    command.args(["sh", "-c", &script]).env("DFCP", DFCP).stdin(Stdio::null());
    command.output().unwrap()
}

/// Packets of a neighbour with a route to the emulated network must not be forwarded.
#[test]
fn nobody_gets_in_by_the_outside_who_was_not_asked() {
    if is_left_out() || Command::new("nft").arg("--version").output().is_err() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "cd {}; head -c 1000 /dev/zero > film.mkv; echo 1 > /proc/sys/net/ipv4/ip_forward
        ip netns add beyond; ip link add v0 type veth peer name v1 netns beyond
        ip addr add 10.77.0.1/24 dev v0; ip link set v0 up
        ip -n beyond addr add 10.77.0.2/24 dev v1; ip -n beyond link set v1 up
        ip -n beyond route add 198.18.0.0/24 via 10.77.0.1
        export XDG_CONFIG_HOME=$PWD/config
        $DFCP emulate --outside -- $DFCP receive --listen 4433 --output got --allow-any 2> in.log & emulation=$!
        until grep -q listening in.log; do sleep 0.05; done
        send() {{ XDG_CONFIG_HOME=$PWD/$1 timeout $2 $3 $DFCP send film.mkv 198.18.0.1:4433 --accept-new-key; }}
        ! send beyond 3 'ip netns exec beyond' || echo a neighbour got in
        test ! -e got/film.mkv; send here 20 ''; test -e got/film.mkv
        kill $emulation; wait $emulation || true",
        dir.path().display()
    );
    let output = in_a_machine_of_its_own(&script);
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !out.contains("got in"), "{out}\n{error}");
}

/// Reaches this machine, and a network behind it if forwarding is on. Forged source addresses and a second emulation
/// must fail.
#[test]
fn the_far_end_can_be_this_machines_own_network() {
    if is_left_out() || Command::new("nft").arg("--version").output().is_err() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "cd {}; export XDG_CONFIG_HOME=$PWD/near; head -c 100000 /dev/zero > film.mkv
        receive() {{ XDG_CONFIG_HOME=$PWD/$1 $2 $DFCP receive --listen 4433 --output $1-got --allow-any 2> $1.log & }}
        await() {{ until grep -q listening $1.log; do sleep 0.05; done; }}
        ip netns add beyond; ip link add v0 type veth peer name v1 netns beyond
        ip addr add 10.77.0.1/24 dev v0; ip link set v0 up
        ip -n beyond addr add 10.77.0.2/24 dev v1; ip -n beyond link set v1 up
        receive here ''; receive beyond 'ip netns exec beyond'; await here; await beyond
        $DFCP emulate --delay 5ms --outside -- $DFCP send film.mkv 198.18.0.2:4433 --accept-new-key 2> closed.log
        echo 1 > /proc/sys/net/ipv4/ip_forward
        $DFCP emulate --delay 5ms --outside -- $DFCP send film.mkv 10.77.0.2:4433 --accept-new-key 2> open.log
        cmp film.mkv here-got/film.mkv; cmp film.mkv beyond-got/film.mkv; cat beyond.log
        nft list tables; echo tables listed
        false=\"ip addr add 192.0.2.9/32 dev near; ip route replace default via 198.18.0.2 src 192.0.2.9; exec $DFCP send film.mkv\"
        ! timeout 3 $DFCP emulate --outside -- sh -c \"$false 10.77.0.2:4433 --accept-new-key\" 2> /dev/null
        $DFCP emulate --outside -- sh -c 'echo > running; sleep 60' 2> /dev/null & first=$!
        until [ -e running ]; do sleep 0.05; done
        ! $DFCP emulate --outside -- true; kill $first; wait $first || true",
        dir.path().display()
    );
    let output = in_a_machine_of_its_own(&script);
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{error}");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(read("closed.log").contains("only itself can be reached"), "{}", read("closed.log"));
    assert!(!read("open.log").contains("only itself can be reached"));
    // Remote hosts see this machine's address, never the emulated or a forged one.
    assert!(
        out.contains("10.77.0.1:") && !out.contains("198.18.0.1:") && !read("beyond.log").contains("192.0.2.9"),
        "{out}"
    );
    assert!(out.contains("tables listed") && !out.contains("table inet"), "{out}");
    assert!(error.contains("another emulation leads to this machine's own network already"), "{error}");
    let user = Command::new("unshare").args(["--user", DFCP, "emulate", "--outside", "--", "true"]).output().unwrap();
    assert_eq!(user.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&user.stderr).contains("only root may lead an emulated path"));
}

/// The upstream path is slower than the downstream one, and the near end's port changes twice during an upload.
#[test]
fn each_way_has_its_rate_and_a_transfer_goes_on_from_another_port() {
    if is_left_out() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let content: Vec<u8> = (0..400_000_u32).map(|n| (n.wrapping_mul(n) / 7) as u8).collect();
    std::fs::write(path("sent"), &content).unwrap();
    let server = format!(
        "DFCP_CONFIG_DIR={} {DFCP} receive --listen 4433 --output {} --once --allow-any --no-sync",
        path("there"),
        path("incoming")
    );
    let client =
        format!("DFCP_CONFIG_DIR={} {DFCP} send {} 198.18.0.2:4433 --accept-new-key", path("here"), path("sent"));
    // 400 kB take at least 1.6 s, so both rebindings happen during the transfer.
    let options = ["--rate", "20mbit", "--up-rate", "2mbit", "--rebind", "500ms", "--rebind", "1s", "--json"];
    let output = output(&[&options[..], &["--server", &server, "--", "sh", "-c", &client]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read(path("incoming/sent")).unwrap(), content);
    let summary = summary(&output);
    let carried_bps =
        summary["forward"]["forwarded"]["bytes"].as_f64().unwrap() * 8.0 / summary["seconds"].as_f64().unwrap();
    assert!(carried_bps < 2.1e6, "{carried_bps}: {summary}");
}
