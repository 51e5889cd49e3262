//! Layout of rows, and transfers between an honest sender and an honest or lying receiver over a lossy path.

use std::collections::VecDeque;

use dfcp_fountain::kernel::Kernel;
use dfcp_time::Time;
use dfcp_wire::feedback::{self, Record, Report, ReportWriter, Run, Runs, StreamState};
use dfcp_wire::segment::Data;
use dfcp_wire::{Opener, StreamId, StreamLimits};
use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::config::Config;
use crate::error::{PeerMisbehaved, StreamError};
use crate::path::Path;
use crate::path::credit::Spending;
use crate::path::numbers::DatagramNumbers;
use crate::session::recv_side::RecvSide;
use crate::session::send_side::SendSide;
use crate::shared::{Read, Role};

fn shape(length: usize, z: usize) -> BlockShape {
    BlockShape::for_length(length, z).unwrap()
}

proptest! {
    #[test]
    fn laid_out_rows_are_the_data_zeros_and_the_secrets(
        length in 1_usize..2_000, z in 8_usize..100, pieces in proptest::collection::vec(1_usize..300, 1..8)
    ) {
        let data: Vec<u8> = (0..length).map(|i| i as u8 | 1).collect();
        let (mut laid, mut before) = (Vec::new(), 0);
        let mut lengths = pieces.iter().copied().cycle();
        while before < length {
            let take = lengths.next().unwrap_or(1).min(length - before);
            append(&mut laid, before, z, &data[before..before + take]);
            before += take;
        }
        let layout = Layout::new(shape(length, z), true);
        let mut rows = layout.lay_out(laid, z);
        let mut secret = 0x1234_5678_u32;
        let proof = layout.fill(&mut rows, || { secret = secret.rotate_left(5) ^ 0x9E37_79B9; secret });
        prop_assert_eq!(rows.len(), layout.coded().unwrap().length_bytes());
        prop_assert_eq!(layout.proof(&rows), proof);
        let t = layout.data().symbol_size();
        let mut padded = data.clone();
        padded.resize(layout.data().k() * t, 0);
        for (row, data) in rows.chunks(t + SECRET_BYTES).zip(padded.chunks(t)) {
            prop_assert_eq!(&row[..t], data);
            prop_assert_ne!(&row[t..], [0; SECRET_BYTES]);
        }
    }

    #[test]
    fn any_range_is_copied_as_far_as_the_room_goes(
        length in 1_usize..2_000, z in 8_usize..100, cut in (0.0..1.0_f64, 0.0..1.0_f64), room in 0_usize..300
    ) {
        let data: Vec<u8> = (0..length).map(|i| i as u8).collect();
        for proofs in [false, true] {
            let layout = Layout::new(shape(length, z), proofs);
            let mut laid = data.clone();
            if proofs {
                laid.clear();
                append(&mut laid, 0, z, &data);
            }
            let rows = layout.lay_out(laid, z);
            let end = (cut.0 * length as f64) as usize;
            let start = (cut.1 * end as f64) as usize;
            let mut out = vec![0; room];
            let copied = layout.copy(&rows, start..end, &mut out);
            prop_assert_eq!(copied, room.min(end - start));
            prop_assert_eq!(&out[..copied], &data[start..start + copied]);
        }
    }
}

#[test]
fn only_whole_rows_count_as_available() {
    let layout = Layout::new(shape(25, 10), true);
    assert_eq!((layout.data().k(), layout.data().symbol_size(), layout.symbol_size()), (3, 9, 13));
    assert_eq!([0, 13, 26, 39].map(|bytes| layout.data_bytes(bytes)), [0, 9, 18, 25]);
    assert_eq!(Layout::new(shape(25, 10), false).data_bytes(18), 18);
}

const STEP: std::time::Duration = std::time::Duration::from_millis(1);
const STEPS_MAX: u32 = 20_000;

/// A sender and a receiver, connected directly by a path.
struct Pair {
    random: Pcg64Mcg,
    sender: SendSide,
    sender_path: Path,
    receiver: RecvSide,
    now: Time,
    numbers: DatagramNumbers,
    received: u64,
    highest: Option<u64>,
    reports: u64,
    /// Reports still permitted for the last arrival: a receiver without arrivals sends none.
    reports_left: u8,
    loss: f64,
    /// A block of which only the first symbol arrives.
    withheld: Option<u32>,
    /// Datagrams in flight, which may overtake each other: number, block info and payload.
    path: Vec<(u64, Data, Vec<u8>)>,
    /// Bytes written and not yet read.
    unread: VecDeque<u8>,
}

/// An encoded report: its number, the next block needed, and its payload.
struct Told {
    number: u64,
    cumulative: u32,
    payload: Vec<u8>,
}

/// Offset of the list of blocks in a report with one record.
const LIST_AT: usize = feedback::REPORT_BYTES + feedback::STREAM_RECORD_BYTES_MIN - 1;

/// Returns the only record of a report.
fn record(payload: &[u8]) -> (StreamState, Runs<'_>) {
    match feedback::decode(payload).unwrap().1.next() {
        Some(Record::Stream(state, runs)) => (state, runs),
        other => panic!("{other:?}"),
    }
}

impl Pair {
    fn new(seed: u64, symbol_size: u16, window_blocks: u32, loss: f64, proofs: bool) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let memory_bytes = crate::limits::RECEIVE_MEMORY_BYTES_MIN;
        let config = Config::danger_unsealed()
            .with_symbol_size(symbol_size)
            .with_send_buffer_bytes(memory_bytes)
            .with_receive_memory_bytes(memory_bytes)
            .with_window_blocks(window_blocks);
        let mut secret = [0; 32];
        random.fill_bytes(&mut secret);
        let kernel = Kernel::detect();
        let sender = SendSide::new(&config, kernel, Opener::Initiator, proofs.then_some(secret));
        let receiver = RecvSide::new(&config, kernel, proofs, Role::Acceptor);
        let now = Time::from_s(1);
        let mut numbers = DatagramNumbers::default();
        numbers.skip_some(secret);
        let (path, unread) = (Vec::new(), VecDeque::new());
        let mut pair = Self {
            random,
            sender,
            sender_path: Path::open(([192, 0, 2, 1], 9).into(), now, false),
            receiver,
            now,
            numbers,
            received: 0,
            highest: None,
            reports: 0,
            reports_left: 0,
            loss,
            withheld: None,
            path,
            unread,
        };
        pair.write(1_000); // cut again after the handshake
        let agreed = symbol_size.saturating_sub(pair.random.random_range(0..2) * 16).max(64);
        let window = (window_blocks, memory_bytes);
        pair.sender.establish(now, &pair.sender_path, (agreed, usize::MAX), window);
        pair.receiver.set_symbol_size(agreed);
        pair
    }

    fn write(&mut self, bytes: usize) {
        let mut data = vec![0; bytes];
        self.random.fill_bytes(&mut data);
        let taken = self.sender.write(self.now, &self.sender_path, StreamId::FIRST, &data).unwrap();
        self.unread.extend(&data[..taken]);
        if self.random.random_bool(0.5) {
            self.sender.flush(StreamId::FIRST);
        }
    }

    /// Sends up to 30 symbols, and delivers those that are not lost.
    fn send(&mut self) -> usize {
        let mut count = 0;
        while count < 30 {
            let next = self.sender.next_symbol(self.now, &self.sender_path, Spending::Freely);
            let Some(mut ready) = next.unwrap() else { break };
            let mut payload = vec![0xEE; ready.payload_bytes()];
            ready.write(&mut payload).unwrap();
            let (number, symbol) = (self.numbers.take(), ready.segment());
            ready.sent(self.now, &mut self.sender_path, number);
            let withheld = self.withheld == Some(symbol.block_id);
            let lost = self.random.random_bool(self.loss) && !withheld || withheld && symbol.esi > 0;
            if !lost {
                self.path.push((number, symbol, payload));
            }
            count += 1;
        }
        while self.path.len() > 5 || (count == 0 && !self.path.is_empty()) {
            let at = self.random.random_range(0..self.path.len());
            let (number, symbol, payload) = self.path.swap_remove(at);
            self.received += 1;
            self.reports_left = 3;
            self.highest = self.highest.max(Some(number));
            // A symbol without room at the receiver is as good as lost.
            let pushed = self.receiver.push(&symbol, &payload);
            assert!(!matches!(pushed, Err(crate::shared::PushError::Misbehaved(_))), "{pushed:?}");
        }
        self.now += STEP;
        count
    }

    /// Reads once, and checks that the bytes read are the next ones written.
    fn read(&mut self) {
        let mut out = vec![0; self.random.random_range(1..20_000)];
        let copied = match self.receiver.read(StreamId::FIRST, &mut out) {
            Ok(Read::Bytes(count)) => count,
            Ok(Read::Blocked | Read::End) | Err(StreamError::Ended) => 0,
            Err(error) => panic!("{error}"),
        };
        let expected: Vec<u8> = self.unread.drain(..copied).collect();
        assert_eq!(out[..copied], expected);
    }

    fn tell(&mut self) -> Option<Told> {
        self.reports_left = self.reports_left.checked_sub(1)?;
        let report = Report {
            highest_datagram: self.highest? as u32,
            datagrams_received: self.received as u32,
            memory_kib: self.receiver.memory_kib(),
            wasted: self.receiver.wasted(),
            ..Report::default()
        };
        let mut payload = vec![0; LIST_AT + self.random.random_range(1..40)];
        let mut writer = ReportWriter::new(&mut payload, &report).unwrap();
        self.receiver.on_question(StreamId::FIRST);
        self.receiver.write_records(&mut writer, StreamLimits::default());
        let length = writer.finish();
        payload.truncate(length);
        self.reports += 1;
        let cumulative = record(&payload).0.next_needed;
        Some(Told { number: self.reports, cumulative, payload })
    }

    fn hear(&mut self, told: &Told) -> Result<(), PeerMisbehaved> {
        let mut payload = told.payload.clone();
        // Tests change the length of the list and the next block needed, so write both fields again.
        let length = (payload.len() - feedback::REPORT_BYTES - 3) as u16;
        payload[feedback::REPORT_BYTES + 1..][..2].copy_from_slice(&length.to_be_bytes());
        payload[feedback::REPORT_BYTES + 7..][..4].copy_from_slice(&told.cumulative.to_be_bytes());
        let (report, records) = feedback::decode(&payload).unwrap();
        let (path, contents) = (&mut self.sender_path, (&report, &records));
        self.sender.on_report(self.now, path, told.number, contents, &self.numbers).map(|_| ())
    }

    fn is_done(&self) -> bool {
        self.sender.is_drained()
            && self.sender.first_end().is_some()
            && self.receiver.is_first_finished()
            && self.unread.is_empty()
    }
}

/// Everything arrives, with and without proofs, despite loss and reordering in both directions.
fn transfer(seed: u64, symbol_size: u16, loss: f64, proofs: bool) {
    let mut pair = Pair::new(seed, symbol_size, 2 + (seed % 38) as u32, loss, proofs);
    let writes = pair.random.random_range(1..12);
    let mut late: Option<Told> = None;
    for step in 0.. {
        assert!(step < STEPS_MAX, "seed {seed}: not done");
        if step < writes {
            let bytes = pair.random.random_range(1..60_000);
            pair.write(bytes);
        } else if step == writes {
            pair.sender.shut_down(pair.now, StreamId::FIRST);
        }
        pair.send();
        for _ in 0..pair.random.random_range(0..4) {
            pair.read();
        }
        if let Some(end) = pair.sender.first_end() {
            pair.receiver.on_fin(StreamId::FIRST, end).unwrap();
        }
        if pair.sender.stuck().is_some() {
            pair.reports_left = 1; // as if a keep-alive had requested a report
        }
        let told = pair.tell().filter(|_| !pair.random.random_bool(loss));
        // Every third report is delayed, and delivered after the next one.
        let held = told.is_some() && late.is_none() && step % 3 == 0;
        let (first, second) = if held { (None, None) } else { (told.as_ref(), late.take()) };
        for told in first.into_iter().chain(second.as_ref()) {
            assert_eq!(pair.hear(told), Ok(()), "seed {seed}");
        }
        if held {
            late = told;
        }
        if pair.is_done() {
            break;
        }
    }
    assert!(pair.unread.is_empty(), "seed {seed}: {} bytes are missing", pair.unread.len());
    let (end, proof) = (pair.sender.first_end(), pair.receiver.first_proof());
    assert_eq!(pair.sender.check_first_end(end, proof), Ok(()), "seed {seed}");
    assert_eq!(proof != 0, proofs, "seed {seed}");
    if proofs {
        let last = end.unwrap() - 1;
        for claimed in [end, None] {
            let refused = Err(PeerMisbehaved::WrongProof { block_id: last });
            assert_eq!(pair.sender.check_first_end(claimed, proof ^ 1), refused, "seed {seed}");
        }
        assert_eq!(pair.sender.check_first_end(Some(last), 0), Ok(()), "not our FIN");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn honest_ends_always_agree(
        seed in any::<u64>(), symbol_size in 64_u16..=1472, loss in 0.0..0.4_f64, proofs in any::<bool>()
    ) {
        transfer(seed, symbol_size, loss, proofs);
    }
}

/// Returns a pair and its report. Blocks 0 to 2 are decoded, block 3 is open, and some later blocks are decoded.
fn half_way(seed: u64) -> (Pair, Told) {
    let mut pair = Pair::new(seed, 1420, 20, 0.2, true);
    pair.withheld = Some(3);
    for _ in 0..STEPS_MAX {
        pair.write(5_000);
        pair.sender.flush(StreamId::FIRST);
        pair.send();
        let Some(told) = pair.tell() else { continue };
        let (_, runs) = record(&told.payload);
        let complete_at = runs.clone().position(|run| matches!(run, Run::Complete(_)));
        let open = matches!(runs.clone().next(), Some(Run::Open { missing: 1..128 }));
        if told.cumulative == 3 && open && complete_at.is_some() {
            return (pair, told);
        }
        assert_eq!(pair.hear(&told), Ok(()), "seed {seed}");
    }
    panic!("seed {seed}: never half way");
}

#[test]
fn a_receiver_that_lies_about_a_block_is_caught_at_once() {
    let blames = |result: Result<(), PeerMisbehaved>, block: u32| {
        assert_eq!(result, Err(PeerMisbehaved::WrongProof { block_id: block }));
    };
    for seed in 0..8 {
        // Claims that the open block is decoded, too.
        let (mut pair, mut told) = half_way(seed);
        told.cumulative += 1;
        let open = LIST_AT;
        told.payload.remove(open);
        blames(pair.hear(&told), told.cumulative - 1);
        // Claims that the open block is complete.
        let (mut pair, mut told) = half_way(seed);
        told.payload.truncate(open + 1);
        told.payload[open] = 0x80;
        blames(pair.hear(&told), told.cumulative);
        // The same, with a random proof.
        told.payload[open - 4..open].copy_from_slice(&pair.random.random::<[u8; 4]>());
        blames(pair.hear(&told), told.cumulative);
        // A complete block is not named, although its proof is counted. Then proofs with a wrong bit.
        let (mut pair, mut told) = half_way(seed);
        told.payload.truncate(open + 1);
        blames(pair.hear(&told), told.cumulative - 1);
        for at in [open - 8, open - 1] {
            let (mut pair, mut told) = half_way(seed);
            told.payload[at] ^= 1;
            assert!(matches!(pair.hear(&told), Err(PeerMisbehaved::WrongProof { .. })), "seed {seed}, byte {at}");
        }
        // The honest report is accepted.
        let (mut pair, told) = half_way(seed);
        assert_eq!(pair.hear(&told), Ok(()), "seed {seed}");
    }
}

/// [report-12]: a report's counts must match the symbols that it accounts for, and may include only datagrams that were
/// sent.
#[test]
fn counts_which_do_not_belong_together_are_misbehaviour() {
    let fixed = |at: usize, change: fn(u32) -> u32| {
        move |told: &mut Told| {
            let field: &mut [u8; 4] = (&mut told.payload[at..at + 4]).try_into().unwrap();
            *field = change(u32::from_be_bytes(*field)).to_be_bytes();
        }
    };
    let open = LIST_AT;
    type Change = Box<dyn Fn(&mut Told)>;
    let lies: [(&str, Change); 5] = [
        ("fewer datagrams than symbols which served", Box::new(fixed(4, |count| count - 1))),
        ("more datagrams than symbols which came to anything", Box::new(fixed(4, |count| count + 1))),
        ("one more came late", Box::new(fixed(44, |late| late + 1))),
        ("the open block lacks one symbol less", Box::new(move |told| told.payload[open] -= 1)),
        ("the open block lacks one symbol more", Box::new(move |told| told.payload[open] += 1)),
    ];
    for seed in 0..8 {
        for (what, lie) in &lies {
            let (mut pair, mut told) = half_way(seed);
            lie(&mut told);
            let result = pair.hear(&told);
            assert!(
                matches!(result, Err(PeerMisbehaved::InconsistentReport { .. })),
                "seed {seed}, {what}: {result:?}"
            );
        }
    }
}

#[test]
fn a_report_of_a_skipped_number_is_misbehaviour_and_none_counts_as_lost() {
    let (mut pair, mut told) = half_way(1);
    while pair.numbers.end() < 200 {
        pair.numbers.take();
    }
    let skipped = (128..200).find(|&number| pair.numbers.is_skipped(number)).unwrap();
    told.payload[..4].copy_from_slice(&(skipped as u32).to_be_bytes());
    assert_eq!(pair.hear(&told), Err(PeerMisbehaved::ReportOfSkippedDatagram { claimed: skipped }));
    let mut pair = Pair::new(2, 1420, 30, 0.0, true);
    for _ in 0..400 {
        pair.write(20_000);
        pair.send();
        (0..2).for_each(|_| pair.read());
        pair.tell().map_or(Ok(()), |told| pair.hear(&told)).unwrap();
    }
    let end = pair.numbers.end();
    assert!(end - pair.numbers.sent_before(end) >= 10, "only {end} numbers");
    assert!(
        pair.sender_path.flight().loss().estimate() < 0.004,
        "a loss of {}, of which the first guess is half",
        pair.sender_path.flight().loss().estimate()
    );
}

#[test]
fn what_a_later_report_has_overtaken_is_not_looked_at() {
    let (mut pair, told) = half_way(1);
    assert_eq!(pair.hear(&told), Ok(()));
    let mut old = told;
    old.number -= 1;
    old.payload[LIST_AT - 1] ^= 1;
    assert_eq!(pair.hear(&old), Ok(()));
    old.number += 1;
    assert!(pair.hear(&old).is_err(), "as new as the newest");
}

#[test]
fn every_block_has_other_secrets() {
    let mut pair = Pair::new(3, 1420, 20, 0.0, true);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        pair.write(1);
        pair.sender.flush(StreamId::FIRST);
        pair.send();
        pair.send();
        pair.read();
        assert!(seen.insert(pair.receiver.first_proof()), "the same bytes, one byte long, but another secret");
        let told = pair.tell().unwrap();
        assert_eq!(pair.hear(&told), Ok(()));
    }
}
