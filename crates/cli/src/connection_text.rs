//! Text and JSON about a connection: its encryption, and a sending rate above the path's capacity.

use dfcp_files::transport::PathSample;
use dfcp_files::{Seal, cipher_name, pattern_name};
use serde_json::{Value, json};

use crate::units;

/// Adds `peer_key` (the fingerprint), `cipher` and `pattern` to a JSON object; all are null without encryption.
pub fn add_seal(seal: Option<&Seal>, object: &mut Value) {
    object["peer_key"] = json!(seal.and_then(|seal| seal.peer).map(|key| key.fingerprint().to_string()));
    object["cipher"] = json!(seal.map(|seal| cipher_name(seal.cipher)));
    object["pattern"] = json!(seal.map(|seal| pattern_name(seal.pattern)));
}

/// Returns advice on a lower rate if the sender exceeded the path's capacity and caused loss itself; `None` otherwise.
#[must_use]
pub fn rate_advice(path: &PathSample) -> Option<String> {
    let rate_bps = path.carried_rate_bps?;
    // An automatic rate exceeds the path for long only if `--min-rate` forces it.
    let flag = if path.found.is_some() { "--min-rate" } else { "--rate" };
    Some(format!(
        "the sender was faster than the path, which carries about {}; {flag} {} there wastes less",
        units::human_rate(rate_bps as f64),
        units::rate_argument(rate_bps)
    ))
}

#[cfg(test)]
mod tests {
    use dfcp::{Cipher, Pattern, StaticKey};
    use dfcp_files::transport::FoundRate;

    use super::*;

    #[test]
    fn programs_see_the_seal_that_people_see() {
        let key = StaticKey::from_seed(&[1; 32]).public();
        let seal = Seal {
            pattern: Pattern::Pinned,
            peer: Some(key),
            pre_shared: None,
            handshake_hash: [0; 32],
            cipher: Cipher::ChaCha20Poly1305,
        };
        let mut object = json!({ "event": "connected" });
        add_seal(Some(&seal), &mut object);
        assert_eq!((object["pattern"].as_str(), object["cipher"].as_str()), (Some("IK"), Some("ChaCha20-Poly1305")));
        assert_eq!(object["peer_key"], key.fingerprint().to_string());
        add_seal(None, &mut object);
        assert!(object["peer_key"].is_null() && object["cipher"].is_null() && object["event"] == "connected");
    }

    #[test]
    fn a_sender_which_was_too_fast_is_told_the_rate_to_give() {
        assert_eq!(rate_advice(&PathSample::default()), None);
        let path = PathSample { carried_rate_bps: Some(4_963_000), ..PathSample::default() };
        let advice = rate_advice(&path).unwrap();
        assert!(advice.contains("4.96 Mbit/s") && advice.contains("--rate 4.9mbit"), "{advice}");
        let advice = rate_advice(&PathSample { found: Some(FoundRate::default()), ..path }).unwrap();
        assert!(advice.contains("; --min-rate 4.9mbit"), "{advice}");
    }
}
