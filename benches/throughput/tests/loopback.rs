//! Test of the program over loopback, so short that only its function is tested, never its figures.

use std::process::{Command, Output};

use serde_json::Value;

fn throughput(line: &str) -> Output {
    let arguments = line.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_throughput")).args(arguments).output().expect("the program starts")
}

/// Records of a run over loopback.
fn records(line: &str) -> Value {
    let output = throughput(&format!("--loopback --seconds 0.2 --rounds 1 --json - {line}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("loopback"), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON on standard output");
    assert_eq!(json["network"], "loopback");
    assert_eq!(json["targets"].as_array().map(Vec::len), Some(10));
    json["records"].clone()
}

fn assert_bytes_arrive(contender: &str) {
    let records = records(&format!("--only bulk --contenders {contender}"));
    assert_eq!(records["bulk"].as_array().map(Vec::len), Some(1));
    let flow = &records["bulk"][0];
    assert_eq!(flow["contender"], contender);
    assert!(flow["receiver"]["bytes"].as_u64() > Some(0));
    assert!(flow["sender"]["seconds"].as_f64() > Some(0.0));
}

#[test]
fn dfcp_sealed_carries_bytes() {
    assert_bytes_arrive("dfcp-sealed");
}

#[test]
fn dfcp_unsealed_carries_bytes() {
    assert_bytes_arrive("dfcp-unsealed");
}

#[test]
fn quinn_carries_bytes() {
    assert_bytes_arrive("quinn");
    assert_bytes_arrive("quinn-1");
    assert_bytes_arrive("quinn-default");
}

#[test]
fn tcp_carries_bytes() {
    assert_bytes_arrive("tcp");
    assert_bytes_arrive("tcp-large");
}

#[test]
fn the_blasters_carry_bytes_and_none_is_forged() {
    for contender in ["udp", "udp-aes"] {
        let records = records(&format!("--only bulk --contenders {contender}"));
        let receiver = &records["bulk"][0]["receiver"];
        assert!(receiver["bytes"].as_u64().unwrap() > 0);
        assert_eq!(receiver["counters"]["forged"], 0);
    }
}

#[test]
fn many_flows_all_carry_bytes() {
    let records = records("--only flows --flows 1,5 --contenders dfcp-sealed,quinn,tcp");
    let flows = records["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 6);
    assert!(flows.iter().all(|flow| flow["receiver"]["bytes"].as_u64().unwrap() > 0));
}

#[test]
fn messages_come_back() {
    let records = records("--only pingpong --messages 20 --contenders dfcp-sealed,dfcp-unsealed,quinn,tcp,udp");
    let pingpong = records["pingpong"].as_array().unwrap();
    assert_eq!(pingpong.len(), 5);
    for record in pingpong {
        let latency = &record["latency"];
        assert!(latency["messages"].as_u64().unwrap() > 0);
        assert!(latency["p50_us"].as_f64().unwrap() <= latency["max_us"].as_f64().unwrap());
        let counts = latency["histogram"].as_array().unwrap().iter().map(|class| class[1].as_u64().unwrap());
        assert_eq!(counts.sum::<u64>(), latency["messages"].as_u64().unwrap());
    }
}

#[test]
fn connections_open_and_close() {
    let records = records("--only connections --contenders dfcp-sealed,quinn,tcp");
    let opened = records["connections"].as_array().unwrap();
    assert_eq!(opened.len(), 6);
    assert!(opened.iter().all(|record| record["result"]["connections"].as_u64() >= record["at_a_time"].as_u64()));
}

#[test]
fn idle_connections_take_memory() {
    let records = records("--only memory --idle 40 --contenders dfcp-sealed,quinn");
    let memory = records["memory"].as_array().unwrap();
    assert_eq!(memory.len(), 2);
    for record in memory {
        assert_eq!(record["server"]["connections"], 40);
        assert!(record["server"]["after_bytes"].as_u64().unwrap() > 0);
    }
}

#[test]
fn loss_is_left_out_on_loopback_and_said_so() {
    let output = throughput("--loopback --only loss --seconds 0.2");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("needs network namespaces") && said.contains("nothing to measure"), "{said}");
}

#[test]
fn an_end_without_a_job_says_so() {
    let output = Command::new(env!("CARGO_BIN_EXE_throughput")).arg("end").output().unwrap();
    assert!(!output.status.success());
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(said["error"].as_str().unwrap().contains("job"), "{said}");
}
