//! Test of `dfcp perf local` with the shortest settings.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use serde_json::Value;
use support::Site;

fn measured(more: &[&str]) -> Value {
    let said = Site::new().run(&[&["perf", "local", "--json", "--duration", "0.1"], more].concat()).ok();
    assert_eq!(said.out.lines().count(), 1, "{said:?}");
    serde_json::from_str(&said.out).unwrap()
}

/// Returns the measurements with one protection, one per round.
fn rounds<'a>(json: &'a Value, protection: &str) -> Vec<&'a Value> {
    let measurements = json["measurements"].as_array().unwrap();
    measurements.iter().filter(|measurement| measurement["protection"] == protection).collect()
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// Checks that each ratio in a summary is the quotient of its round's measurements.
#[track_caller]
fn assert_quotients(ratio: &Value, sealed: &[&Value], plaintext: &[&Value], key: &str) {
    let listed = ratio["rounds"].as_array().unwrap();
    assert_eq!(listed.len(), sealed.len());
    for (listed, (sealed, plaintext)) in listed.iter().zip(sealed.iter().zip(plaintext)) {
        assert_eq!(sealed["round"], plaintext["round"]);
        let quotient = number(&sealed[key]) / number(&plaintext[key]);
        assert!((number(listed) / quotient - 1.0).abs() < 1e-9, "{key}: {listed} is not {quotient}");
    }
}

#[test]
fn every_round_measures_with_and_without_a_seal_in_turn() {
    let json = measured(&["--rounds", "2", "--cipher", "chacha20-poly1305"]);
    let order: Vec<_> = json["measurements"].as_array().unwrap().iter().map(|one| &one["protection"]).collect();
    assert_eq!(order, ["ChaCha20-Poly1305", "plaintext", "ChaCha20-Poly1305", "plaintext"]);
    for measurement in json["measurements"].as_array().unwrap() {
        assert!(number(&measurement["goodput_bps"]) > 0.0, "{measurement}");
        assert!(number(&measurement["seconds"]) >= 0.1, "{measurement}");
        let goodput_bps = 8.0 * number(&measurement["bytes"]) / number(&measurement["seconds"]);
        assert!((number(&measurement["goodput_bps"]) / goodput_bps - 1.0).abs() < 1e-9, "{measurement}");
        if cfg!(target_os = "linux") {
            let per_datagram_ns = 1e9 * number(&measurement["cpu_seconds"]) / number(&measurement["data_datagrams"]);
            assert!((number(&measurement["cpu_ns_per_data_datagram"]) / per_datagram_ns - 1.0).abs() < 1e-9);
        }
    }
    let (sealed, plaintext) = (rounds(&json, "ChaCha20-Poly1305"), rounds(&json, "plaintext"));
    assert_eq!(
        (&json["summary"][0]["protection"], &json["summary"][1]["protection"]),
        (&plaintext[0]["protection"], &sealed[0]["protection"])
    );
    let ratio = &json["summary"][1]["ratio_to_plaintext"];
    assert_quotients(&ratio["goodput"], &sealed, &plaintext, "goodput_bps");
    if cfg!(target_os = "linux") {
        assert_quotients(&ratio["cpu_per_data_datagram"], &sealed, &plaintext, "cpu_ns_per_data_datagram");
    }
}

#[test]
fn without_a_cipher_it_is_the_one_which_connections_choose_here() {
    let json = measured(&["--rounds", "1"]);
    let sealed = json["summary"][1]["protection"].as_str().unwrap();
    let fastest = if dfcp_secure::Cipher::cpu_has_aes() { "AES-128-GCM" } else { "ChaCha20-Poly1305" };
    assert_eq!(sealed, fastest);
    assert_eq!((rounds(&json, sealed).len(), rounds(&json, "plaintext").len()), (1, 1));
}

#[test]
fn people_get_a_line_for_each_measurement_and_a_table_which_says_what_is_in_it() {
    let said = Site::new().run(&["perf", "local", "--duration", "100ms", "--rounds", "1"]).ok();
    assert!(said.err.contains("over loopback") && said.err.lines().count() == 1, "{said:?}");
    let lines: Vec<_> = said.out.lines().collect();
    assert!(lines[0].starts_with("round 1 of 1") && lines[1].starts_with("round 1 of 1  plaintext"), "{said:?}");
    assert!(lines[3].starts_with("protection") && lines[4].starts_with("plaintext"), "{said:?}");
    assert!(said.out.contains("counts both ends together"), "{said:?}");
}
