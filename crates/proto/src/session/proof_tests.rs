//! Connections with proofs of decoding, over a path which loses datagrams or belongs to a liar.

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_wire::Unverified;
use dfcp_wire::segment::{Ack, Address, Data, Fin, Received, ReportHeader, Segment};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::endpoint::{Accept, Endpoint, Routed};
use crate::error::PeerMisbehaved;
use crate::session::test_datagrams::{numbered, received};
use crate::shared::Read;
use crate::shared::{DATAGRAM_BUFFER_BYTES, Transmit};

const STEP: Duration = Duration::from_millis(2);
const STEPS_MAX: u32 = 20_000;
const BYTES: usize = 1_000_000;

/// What becomes of a datagram from the receiver to the sender.
type Answers = fn(&mut Liar, Vec<u8>) -> Option<Vec<u8>>;

/// What a receiver knows who acknowledges what it has not got.
#[derive(Default)]
struct Liar {
    /// Blocks of which a symbol has been seen.
    blocks: u32,
    end: Option<u32>,
}

/// How the sender's connection ended, what the receiver has read, and how many datagrams of data followed the first
/// answer that was changed.
struct Ended {
    error: Option<ConnectionError>,
    bytes: Vec<u8>,
    data_after: u64,
    resets: u64,
}

fn with_proofs(mut connection: Session, secret: u8) -> Session {
    let (config, kernel) = (connection.config.clone(), Kernel::detect());
    connection.send = Box::new(SendSide::new(&config, kernel, Some([secret; 32])));
    connection.recv = Box::new(RecvStream::new(&config, kernel, true));
    connection
}

fn data() -> Vec<u8> {
    (0..BYTES).map(|i| (i / 7) as u8).collect()
}

/// Reads what is there, and ends the other half at the end.
fn read_all(server: &mut Session, now: Time, bytes: &mut Vec<u8>) {
    let mut buffer = [0; 4096];
    let mut found = server.read(now, &mut buffer);
    while let Ok(Read::Bytes(count)) = found {
        bytes.extend_from_slice(&buffer[..count]);
        found = server.read(now, &mut buffer);
    }
    if found == Ok(Read::End) {
        server.shutdown(now);
    }
}

/// A client sends [`data`] to a server over a path which loses a share of both directions; where `late`, also all data
/// behind the first two blocks.
fn run(seed: u64, loss: f64, late: bool, answers: Answers) -> Ended {
    run_between(with_proofs, seed, loss, late, answers)
}

/// The same where each end is made ready by `prepare`.
fn run_between(prepare: fn(Session, u8) -> Session, seed: u64, loss: f64, late: bool, answers: Answers) -> Ended {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut now = Time::from_s(1);
    let mut server_end = Endpoint::new(9, Some(Accept::from(Config::danger_unsealed())), [2; 32]);
    let (at_client, at_server) = (([192, 0, 2, 1], 8).into(), ([192, 0, 2, 2], 9).into());
    let mut client_end = Endpoint::new(8, None, [1; 32]);
    let (_, client) = client_end.connect(now, at_server, Config::danger_unsealed()).unwrap();
    let mut client = prepare(client.into_session(), 1);
    let mut server: Option<Session> = None;
    let (mut to_server, mut to_client) = (VecDeque::new(), VecDeque::new());
    let (mut liar, mut lied) = (Liar::default(), false);
    let mut ended = Ended { error: None, bytes: Vec::new(), data_after: 0, resets: 0 };
    let (mut buffer, mut reply) = ([0; DATAGRAM_BUFFER_BYTES], [0; DATAGRAM_BUFFER_BYTES]);
    assert_eq!(client.write(now, &data()), Ok(BYTES));
    client.shutdown(now);
    for _ in 0..STEPS_MAX {
        while let Some(Transmit { length, .. }) = client.poll_transmit(now, &mut buffer) {
            let mut is_late = false;
            match received(&buffer[..length]).segment {
                Segment::Data(Data { block_id, .. }) => {
                    liar.blocks = liar.blocks.max(block_id + 1);
                    ended.data_after += u64::from(lied);
                    is_late = late && block_id > 1;
                }
                Segment::Fin(fin) => liar.end = Some(fin.end),
                _ => {}
            }
            let lost = random.random_bool(loss) || is_late;
            if !lost {
                to_server.push_back(buffer[..length].to_vec());
            }
        }
        for datagram in to_server.drain(..) {
            match (server_end.handle_datagram(now, at_client, &datagram, &mut reply), &mut server) {
                (Routed::Opened(_, opened), _) => server = Some(prepare(opened.into_session(), 2)),
                (Routed::Connection(_, from), Some(server)) => {
                    server.handle_datagram(now, from, &mut datagram.to_vec());
                }
                _ => {}
            }
        }
        if let Some(server) = &mut server {
            read_all(server, now, &mut ended.bytes);
            while let Some(Transmit { length, .. }) = server.poll_transmit(now, &mut buffer) {
                let before = buffer[..length].to_vec();
                let after = answers(&mut liar, before.clone());
                lied |= after.as_ref().is_some_and(|after| *after != before);
                to_client.extend(after.filter(|_| !random.random_bool(loss)));
            }
        }
        for datagram in to_client.drain(..) {
            client.handle_datagram(now, at_server, &mut datagram.to_vec());
        }
        now += STEP;
        client.handle_timeout(now);
        server.iter_mut().for_each(|server| server.handle_timeout(now));
        if let Phase::Closed(error) = client.phase.clone() {
            while let Some(Transmit { length, .. }) = client.poll_transmit(now, &mut buffer) {
                let segment = received(&buffer[..length]).segment;
                ended.resets += u64::from(matches!(segment, Segment::Reset(_)));
                ended.data_after += u64::from(matches!(segment, Segment::Data(_)));
            }
            ended.error = error;
            return ended;
        }
        if client.state() == State::TimeWait {
            return ended;
        }
    }
    panic!("seed {seed}: neither done nor an error");
}

/// What the receiver sends, changed. The sender's id stays.
fn changed(datagram: &[u8], change: impl FnOnce(&mut Segment, &mut Vec<u8>)) -> Vec<u8> {
    let Ok(Unverified::Clear(header)) = Unverified::read(datagram) else { panic!("it is not in the clear") };
    let Received { mut segment, number, payload } = received(datagram);
    let mut payload = payload.to_vec();
    change(&mut segment, &mut payload);
    numbered(segment, Address::Connection(header.connection_id()), number, &payload)
}

fn is_report(datagram: &[u8]) -> bool {
    matches!(received(datagram).segment, Segment::Report(_))
}

fn is_caught(ended: &Ended) -> bool {
    let error = matches!(ended.error, Some(ConnectionError::PeerMisbehaved(PeerMisbehaved::WrongProof { .. })));
    error && ended.resets == 1
}

#[test]
fn honest_ends_close_with_every_byte_delivered() {
    for seed in 0..12 {
        let ended = run(seed, [0.0, 0.1, 0.3][seed as usize % 3], false, |_, datagram| Some(datagram));
        assert_eq!(ended.error, None, "seed {seed}");
        assert!(ended.bytes == data(), "seed {seed}: {} bytes", ended.bytes.len());
    }
}

/// [proof-1]
#[test]
fn ends_without_seals_ignore_proofs() {
    let nonsense: Answers = |_, datagram| {
        Some(changed(&datagram, |segment, payload| match segment {
            Segment::Report(_) => {
                let proofs = dfcp_wire::feedback::REPORT_BYTES - 8..dfcp_wire::feedback::REPORT_BYTES;
                assert!(payload[proofs.clone()].iter().all(|byte| *byte == 0), "they are sent as 0");
                payload[proofs].fill(0xa5);
            }
            Segment::Fin(Fin { ack_proof: Some(proof), .. }) | Segment::Ack(Ack::OfFin { proof, .. }) => {
                assert_eq!(*proof, 0);
                *proof = 0x1234_5678;
            }
            _ => {}
        }))
    };
    let ended = run_between(|connection, _| connection, 5, 0.1, false, nonsense);
    assert_eq!(ended.error, None);
    assert!(ended.bytes == data(), "{} bytes", ended.bytes.len());
    let honest = run(5, 0.1, false, nonsense_to_proofs);
    assert!(is_caught(&honest), "with proofs the same is no proof: {:?}", honest.error);
}

fn nonsense_to_proofs(_: &mut Liar, datagram: Vec<u8>) -> Option<Vec<u8>> {
    let spoil = |payload: &mut Vec<u8>| payload[dfcp_wire::feedback::REPORT_BYTES - 8] ^= 1;
    Some(if is_report(&datagram) { changed(&datagram, |_, payload| spoil(payload)) } else { datagram })
}

#[test]
fn a_finack_alone_confirms_the_end() {
    let ended =
        run(4, 0.1, false, |_, datagram| (!matches!(received(&datagram).segment, Segment::Ack(_))).then_some(datagram));
    assert_eq!(ended.error, None);
    assert!(ended.bytes == data(), "{} bytes", ended.bytes.len());
}

fn claim(report: &mut Segment, blocks: u32) {
    let Segment::Report(ReportHeader { next_needed, .. }) = report else { panic!("{report:?}") };
    *next_needed = blocks;
}

#[test]
fn who_acknowledges_all_that_was_sent_gets_nothing_more() {
    let ended = run(1, 0.0, true, |liar, datagram| {
        let lie = is_report(&datagram) && liar.blocks > 2;
        Some(if lie { changed(&datagram, |segment, _| claim(segment, liar.blocks)) } else { datagram })
    });
    assert!(is_caught(&ended), "{:?}, {} resets", ended.error, ended.resets);
    assert_eq!(ended.data_after, 0);
}

#[test]
fn who_lists_blocks_as_complete_which_are_not_is_caught() {
    let ended = run(2, 0.0, true, |liar, datagram| {
        let lie = is_report(&datagram) && liar.blocks > 2;
        let complete_first = |payload: &mut Vec<u8>| {
            payload.truncate(dfcp_wire::feedback::REPORT_BYTES);
            payload.push(0x80);
        };
        Some(if lie { changed(&datagram, |_, payload| complete_first(payload)) } else { datagram })
    });
    assert!(is_caught(&ended), "{:?}, {} resets", ended.error, ended.resets);
    assert_eq!(ended.data_after, 0);
}

#[test]
fn who_confirms_the_end_without_the_data_is_caught() {
    // Either as the acknowledgement of FIN, or as a FINACK; each in place of a report, when FIN has come.
    let with_flags: [Answers; 2] = [
        |liar, datagram| {
            let Some(end) = liar.end.filter(|_| is_report(&datagram)) else { return Some(datagram) };
            Some(changed(&datagram, |segment, payload| {
                payload.clear();
                *segment = Segment::Ack(Ack::OfFin { end, proof: 0 });
            }))
        },
        |liar, datagram| {
            let Some(_) = liar.end.filter(|_| is_report(&datagram)) else { return Some(datagram) };
            Some(changed(&datagram, |segment, payload| {
                payload.clear();
                *segment = Segment::Fin(Fin { end: 0, ack_proof: Some(0x1234_5678) });
            }))
        },
    ];
    for answers in with_flags {
        let ended = run(3, 0.0, true, answers);
        assert!(is_caught(&ended), "{:?}, {} resets", ended.error, ended.resets);
        assert_eq!(ended.data_after, 0);
    }
}
