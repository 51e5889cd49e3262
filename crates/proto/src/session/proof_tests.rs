//! Connections with proofs of decoding, over a path which loses datagrams or belongs to a liar.

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_wire::{Flags, Segment};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::endpoint::{Accept, Endpoint, Routed};
use crate::error::PeerMisbehaved;
use crate::session::handshake::ACK_OF_FIN;
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
            let segment = Segment::decode(&buffer[..length]).unwrap();
            let flags = segment.header.flags;
            if flags.is_empty() {
                liar.blocks = liar.blocks.max(segment.header.block_id + 1);
                ended.data_after += u64::from(lied);
            }
            if flags.contains(Flags::FIN) {
                liar.end = Some(segment.header.block_id);
            }
            let lost = random.random_bool(loss) || (late && flags.is_empty() && segment.header.block_id > 1);
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
                ended.resets += u64::from(flags(&buffer[..length]) == Flags::RST);
                ended.data_after += u64::from(flags(&buffer[..length]).is_empty());
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

/// `datagram` with its header, or the fixed part of its report, changed.
fn changed(datagram: &[u8], change: impl FnOnce(&mut dfcp_wire::Header, &mut Vec<u8>)) -> Vec<u8> {
    let segment = Segment::decode(datagram).unwrap();
    let (mut header, mut payload) = (segment.header, segment.payload.to_vec());
    change(&mut header, &mut payload);
    let mut out = [0; DATAGRAM_BUFFER_BYTES];
    let length = dfcp_wire::encode(&mut out, &header, &segment.options, &payload).unwrap();
    out[..length].to_vec()
}

fn flags(datagram: &[u8]) -> Flags {
    Segment::decode(datagram).unwrap().header.flags
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
        Some(changed(&datagram, |header, payload| {
            if header.flags == Flags::FBK {
                let proofs = dfcp_wire::feedback::REPORT_BYTES - 8..dfcp_wire::feedback::REPORT_BYTES;
                assert!(payload[proofs.clone()].iter().all(|byte| *byte == 0), "they are sent as 0");
                payload[proofs].fill(0xa5);
            } else if header.flags.contains(Flags::FIN) || header.s1 == ACK_OF_FIN {
                assert_eq!(header.s2, 0);
                header.s2 = 0x1234_5678;
            }
        }))
    };
    let ended = run_between(|connection, _| connection, 5, 0.1, false, nonsense);
    assert_eq!(ended.error, None);
    assert!(ended.bytes == data(), "{} bytes", ended.bytes.len());
    let honest = run(5, 0.1, false, nonsense_to_proofs);
    assert!(is_caught(&honest), "with proofs the same is no proof: {:?}", honest.error);
}

fn nonsense_to_proofs(_: &mut Liar, datagram: Vec<u8>) -> Option<Vec<u8>> {
    let is_report = flags(&datagram) == Flags::FBK;
    let spoil = |payload: &mut Vec<u8>| payload[dfcp_wire::feedback::REPORT_BYTES - 8] ^= 1;
    Some(if is_report { changed(&datagram, |_, payload| spoil(payload)) } else { datagram })
}

#[test]
fn a_finack_alone_confirms_the_end() {
    let ended = run(4, 0.1, false, |_, datagram| (flags(&datagram) != Flags::ACK).then_some(datagram));
    assert_eq!(ended.error, None);
    assert!(ended.bytes == data(), "{} bytes", ended.bytes.len());
}

#[test]
fn who_acknowledges_all_that_was_sent_gets_nothing_more() {
    let ended = run(1, 0.0, true, |liar, datagram| {
        let lie = flags(&datagram) == Flags::FBK && liar.blocks > 2;
        Some(if lie { changed(&datagram, |header, _| header.block_id = liar.blocks) } else { datagram })
    });
    assert!(is_caught(&ended), "{:?}, {} resets", ended.error, ended.resets);
    assert_eq!(ended.data_after, 0);
}

#[test]
fn who_lists_blocks_as_complete_which_are_not_is_caught() {
    let ended = run(2, 0.0, true, |liar, datagram| {
        let lie = flags(&datagram) == Flags::FBK && liar.blocks > 2;
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
            let Some(end) = liar.end.filter(|_| flags(&datagram) == Flags::FBK) else { return Some(datagram) };
            Some(changed(&datagram, |header, payload| {
                payload.clear();
                (header.flags, header.block_id, header.s1, header.s2) = (Flags::ACK, end, ACK_OF_FIN, 0);
            }))
        },
        |liar, datagram| {
            let Some(_) = liar.end.filter(|_| flags(&datagram) == Flags::FBK) else { return Some(datagram) };
            Some(changed(&datagram, |header, payload| {
                payload.clear();
                (header.flags, header.block_id, header.s2) = (Flags::FIN | Flags::ACK, 0, 0x1234_5678);
            }))
        },
    ];
    for answers in with_flags {
        let ended = run(3, 0.0, true, answers);
        assert!(is_caught(&ended), "{:?}, {} resets", ended.error, ended.resets);
        assert_eq!(ended.data_after, 0);
    }
}
