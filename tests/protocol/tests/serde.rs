//! Tests of `Config` and `Stats` as text, with the feature `serde`.

use std::time::Duration;

use dfcp_proto::{
    BreakerState, Config, Credentials, EndpointStats, PeerKey, PreSharedKey, Rate, Schedule, Security, StaticKey,
    Stats, Traffic,
};
use serde_json::{Value, from_str, json, to_string, to_value};

/// Configuration with non-default values for all serialized settings.
fn unusual() -> Config {
    let mut config = Config::danger_classic();
    config.schedule = Schedule::OpenLoop { redundancy: 0.25 };
    config.rate = Rate::Fixed { rate_bps: 123_456_789 };
    config.breaker = true;
    config.traffic = Traffic::LowLatency;
    config.symbol_size = 1_188;
    config.window_blocks = Some(77);
    config.send_buffer_bytes = (1 << 53) + 1;
    config.receive_memory_bytes = 5_000_000;
    config.receive_rate_max_bps = 9_999_999;
    config.streams.one_way = 17;
    config.idle_timeout = Duration::from_nanos(86_399_999_999_999);
    config.connect_timeout = Some(Duration::from_millis(1_500));
    config.keep_alive = None;
    config.time_wait = Duration::from_nanos(1);
    config.overhead_bytes = 48;
    config.classic.maxtokens = 5;
    config
}

#[test]
fn what_is_written_reads_as_it_was() {
    for config in [Config::modern(), Config::danger_classic(), unusual()] {
        let read: Config = from_str(&to_string(&config).unwrap()).unwrap();
        let mut expected = config;
        expected.security = Config::modern().security;
        assert_eq!(format!("{read:?}"), format!("{expected:?}"));
    }
}

#[test]
fn no_key_and_no_trust_is_written() {
    let key = StaticKey::from_seed(&[0xab; 32]);
    let peer = StaticKey::from_seed(&[0xcd; 32]).public();
    let credentials = Credentials {
        key: Some(key),
        pre_shared: Some(PreSharedKey::from_bytes(&[0x77; 32])),
        peer: PeerKey::Known(peer),
        ..Credentials::default()
    };
    let (with, without) = (to_string(&Config::sealed(credentials)), to_string(&Config::modern()));
    assert_eq!(with.unwrap(), without.unwrap());
    // Disabling encryption is not serialized: only the program itself can do that.
    assert_eq!(to_string(&Config::danger_unsealed()).unwrap(), to_string(&Config::modern()).unwrap());
    for name in ["security", "key", "pre_shared", "content"] {
        assert!(from_str::<Config>(&format!("{{\"{name}\": null}}")).is_err(), "{name}");
    }
}

#[test]
fn what_is_left_out_has_its_default_and_trusts_nobody() {
    let config: Config = from_str(r#"{"rate": {"fixed": {"rate_bps": 5000000}}, "idle_timeout_ms": 1500}"#).unwrap();
    assert_eq!((config.rate, config.idle_timeout), (Rate::Fixed { rate_bps: 5_000_000 }, Duration::from_millis(1500)));
    assert!(matches!(&config.security, Security::Sealed(it) if matches!(it.peer, PeerKey::Undecided)));
    assert_eq!(config.symbol_size, Config::modern().symbol_size);
    assert_eq!(from_str::<Config>(r#"{"rate": "line", "keep_alive_ms": null}"#).unwrap().keep_alive, None);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    for (text, part) in [
        (r#"{"idle_timeout_ms": -1}"#, "a number of milliseconds, not negative"),
        (r#"{"idle_timeout_ms": 1e300}"#, "a number of milliseconds, not negative"),
        (r#"{"idle_timeout": 3}"#, "unknown field `idle_timeout`"),
        (r#"{"profile": "classic"}"#, "unknown variant `classic`, expected `danger_classic` or `modern`"),
        (r#"{"classic": {"max_tokens": 1}}"#, "unknown field `max_tokens`"),
        (r#"{"rate": "fixed"}"#, "line 1"),
    ] {
        let error = from_str::<Config>(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn statistics_are_written_field_by_field() {
    let mut stats = Stats::default();
    (stats.rtt, stats.loss, stats.breaker) = (Duration::from_micros(25_300), 0.25, BreakerState::LossAccepted);
    stats.sent.repair = 7;
    let written = to_value(stats).unwrap();
    let of = |name: &str| written[name].clone();
    assert_eq!((of("rtt_ms"), of("loss"), of("breaker")), (json!(25.3), json!(0.25), json!("loss_accepted")));
    assert_eq!(written["sent"]["repair"], json!(7));
    let named = format!("{stats:?}").matches(": ").count();
    let counted = |value: &Value| value.as_object().map_or(0, |fields| fields.len());
    let written_fields = counted(&written)
        + ["sent", "wasted", "received", "messages_sent", "messages_received", "ecn_reported", "ecn_received"]
            .map(|group| counted(&of(group)))
            .iter()
            .sum::<usize>();
    assert_eq!(written_fields, named, "no field is left out");
    assert_eq!(to_value(EndpointStats::default()).unwrap()["cookies_sent"], json!(0));
}
