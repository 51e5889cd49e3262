//! Tests of proofs of decoding between honest ends, and of ends without proofs (`spec/protocol.md`, \[proof-1\]).
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss};
use dfcp_proto::Config;
use dfcp_protocol_tests::Pair;
use dfcp_testkit::{Job, LinksConfig, Packet, client_address, raw, rewritten, sealed};
use dfcp_time::Time;
use dfcp_wire::Flags;
use dfcp_wire::feedback::{REPORT_BYTES, STREAM_RECORD_BYTES_MIN};

const BYTES: u64 = 1_000_000;

/// S1 of the ACK that confirms a FIN.
const ACK_OF_FIN: u32 = 1;

/// A client that sends [`BYTES`] over a path with this loss in both directions.
fn pair(seed: u64, loss: f64, config: &Config) -> Pair {
    let link = LinkConfig::default()
        .with_rate_bps(100_000_000)
        .with_delay(Duration::from_millis(1))
        .with_loss(Loss::bernoulli(loss));
    let links = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000_000_000 };
    Pair::over(seed, links, (config.clone(), Job::send(BYTES)), (config.clone(), Job::send(0))).unwrap()
}

/// Runs to the end; the server ends its half after it has read the client's, so that it answers a FIN with a FINACK.
fn run(mut pair: Pair) {
    let limit = Time::from_s(100);
    pair.server.job.shut_down = false;
    while pair.server.read_to_end == 0 {
        assert!(pair.step(limit), "{}", pair.describe());
    }
    pair.server.job.shut_down = true;
    pair.server.work(pair.now);
    pair.run(limit).unwrap();
    assert_eq!(pair.server.read, BYTES);
}

#[test]
fn honest_ends_close_with_every_byte_delivered() {
    for seed in 0..12 {
        run(pair(seed, [0.0, 0.1, 0.3][seed as usize % 3], &sealed()));
    }
}

/// Returns the offset of the only stream's record in a report: it follows all records of other types
/// (`spec/wire-format.md` §9).
fn stream_record(payload: &[u8]) -> Option<usize> {
    let mut at = REPORT_BYTES;
    while let Some(&[kind, high, low]) = payload.get(at..at + 3) {
        if kind == 128 {
            return Some(at);
        }
        at += 3 + usize::from(u16::from_be_bytes([high, low]));
    }
    None
}

#[test]
fn ends_without_seals_ignore_proofs() {
    let mut pair = pair(5, 0.1, &Config::danger_unsealed());
    let (reports, ends) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let counters = (Rc::clone(&reports), Rc::clone(&ends));
    pair.tap = Box::new(move |_, packet| {
        if packet.from == client_address() {
            return vec![packet];
        }
        let bytes = rewritten(&packet.bytes, |header, payload| {
            if header.flags == Flags::FBK
                && let Some(record) = stream_record(payload)
            {
                // End of the fields before the record's list.
                let list = record + STREAM_RECORD_BYTES_MIN - 1;
                let proofs = &mut payload[list - 8..list];
                assert!(proofs.iter().all(|byte| *byte == 0), "they are sent as 0");
                proofs.fill(0xa5);
                counters.0.set(counters.0.get() + 1);
            } else if header.flags.contains(Flags::FIN) || (header.flags == Flags::ACK && header.s1 == ACK_OF_FIN) {
                assert_eq!(header.s2, 0);
                header.s2 = 0x1234_5678;
                counters.1.set(counters.1.get() + 1);
            }
        });
        vec![Packet { bytes, ..packet }]
    });
    run(pair);
    assert!(reports.get() > 0 && ends.get() > 0, "{} reports and {} ends were changed", reports.get(), ends.get());
}

#[test]
fn a_finack_alone_confirms_the_end() {
    let mut pair = pair(4, 0.1, &sealed());
    let swallowed = Rc::new(Cell::new(0));
    let counter = Rc::clone(&swallowed);
    pair.tap = Box::new(move |_, packet| {
        let is_ack = raw::read(&packet.bytes).is_some_and(|it| it.header.flags == Flags::ACK | Flags::SEC);
        if is_ack && packet.from != client_address() {
            counter.set(counter.get() + 1);
            return Vec::new();
        }
        vec![packet]
    });
    run(pair);
    assert!(swallowed.get() > 0, "no ACK was sent");
}
