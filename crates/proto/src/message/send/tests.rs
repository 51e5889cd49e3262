//! Tests of the sender of messages, and of the reports that it accepts.

use dfcp_wire::feedback::{self, MessageRun, Record, Report, ReportWriter};
use dfcp_wire::segment::Coverage;

use super::*;
use crate::limits::MESSAGES_QUEUED_MAX;

const PATH: PathView = PathView {
    rtt: Duration::from_millis(50),
    smoothed_rtt: Duration::from_millis(50),
    report_interval: Duration::from_millis(3),
    queue: Duration::ZERO,
    datagram_time: Duration::from_micros(120),
    symbol_size: 1_420,
};

/// View of the same path when packets have the least size.
const NARROW: PathView = PathView { symbol_size: 1_204, ..PATH };

fn at(ms: u64) -> Time {
    Time::from_ms(ms)
}

/// Returns a sender that has taken messages of these lengths, with the secrets 1, 2, 3, …
fn sender(lengths: &[usize], deadline: Deadline) -> SendMessages {
    let mut send = SendMessages::new(Kernel::detect(), true, NARROW.symbol_size);
    let mut secret = 0;
    for &length in lengths {
        send.send(at(0), &vec![7; length], deadline, &PATH, || {
            secret += 1;
            secret
        })
        .unwrap();
    }
    send
}

fn within_ms(ms: u64) -> Deadline {
    Deadline::within(Duration::from_millis(ms))
}

/// Sends all symbols that are due, and returns their segments.
fn drain(send: &mut SendMessages, now: Time, number: &mut u64) -> Vec<Message> {
    drain_over(&PATH, send, now, number)
}

fn drain_over(path: &PathView, send: &mut SendMessages, now: Time, number: &mut u64) -> Vec<Message> {
    let mut sent = Vec::new();
    while let Some(symbol) = send.next(now, path) {
        let mut out = vec![0; symbol.payload_bytes];
        assert!(send.write(&symbol, &mut out));
        send.on_sent(now, &symbol, *number, path);
        *number += 1;
        sent.push(symbol.segment);
    }
    sent
}

/// Passes a report on messages from id 0 on to the sender.
fn record(send: &mut SendMessages, runs: &[MessageRun<'_>], proof: u32) -> Result<Proven, PeerMisbehaved> {
    let mut buffer = [0; 400];
    let mut writer = ReportWriter::new(&mut buffer, &Report::default()).unwrap();
    let mut list = writer.messages(0).unwrap();
    assert!(runs.iter().all(|&run| list.push(run)));
    list.finish(proof);
    let length = writer.finish();
    let (_, all) = feedback::decode(&buffer[..length]).unwrap();
    let (state, runs) = all
        .into_iter()
        .find_map(|it| if let Record::Messages(state, runs) = it { Some((state, runs)) } else { None })
        .unwrap();
    send.take_record(at(1), state, &runs, &PATH)
}

#[test]
fn only_what_can_come_in_time_is_begun() {
    let mut number = 0;
    for (ms, begun) in [(0, 0), (10, 0), (25, 0), (30, 3), (1_000_000_000, 3)] {
        let mut send = sender(&[0, 100, 1_316], within_ms(ms));
        let sent = drain(&mut send, at(0), &mut number);
        let stats = send.stats();
        assert_eq!((stats.begun, stats.expired_unsent), (begun, 3 - begun), "{ms} ms: {sent:?}");
        assert!(sent.iter().all(|segment| segment.check().is_ok()));
    }
    let mut send = sender(&[100], within_ms(60));
    assert!(drain(&mut send, at(40), &mut number).is_empty(), "it waited for too long");
    assert_eq!(send.stats().expired_unsent, 1);
}

#[test]
fn there_is_a_limit_to_what_waits() {
    let mut send = sender(&[], within_ms(60));
    let mut hand_over = |bytes: usize| send.send(at(0), &vec![0; bytes], within_ms(1_000), &PATH, || 0);
    assert_eq!(hand_over(262_145), Err(MessageError::TooLong { bytes: 262_145 }));
    assert!((0..16).all(|_| hand_over(262_144).is_ok()));
    assert_eq!(hand_over(1), Err(MessageError::Full));
    let mut many = sender(&vec![0; MESSAGES_QUEUED_MAX], within_ms(60));
    assert_eq!(many.send(at(0), &[], within_ms(60), &PATH, || 0), Err(MessageError::Full));
    // Expired messages make room.
    assert_eq!(many.send(at(60), &[], within_ms(60), &PATH, || 0), Ok(()));
}

#[test]
fn a_receiver_that_claims_what_it_has_not_is_found_out() {
    let mut number = 0;
    let mut begun = || {
        let mut send = sender(&[100, 100, 3_000], within_ms(500));
        drain(&mut send, at(0), &mut number);
        send
    };
    // The secrets are 1 and 2 for the first two messages, and 3, 4 and 5 for the third one.
    assert_eq!(record(&mut begun(), &[MessageRun::Complete(2)], 3).unwrap().messages, 2);
    assert_eq!(
        record(&mut begun(), &[MessageRun::Empty(1), MessageRun::Complete(2)], 2 ^ 3 ^ 4 ^ 5).unwrap().symbols,
        4
    );
    let symbols = feedback::SymbolSet::new(&[0b1010_0000]).unwrap();
    let partial = [MessageRun::Empty(2), MessageRun::Partial(symbols)];
    assert_eq!(
        record(&mut begun(), &partial, 3 ^ 5).unwrap(),
        Proven { symbols: 2, symbol_bytes: 2 * 1_004, messages: 0 }
    );
    // The fourth symbol was not sent. The claim is refused, whatever its secret would be.
    let unsent = [MessageRun::Empty(2), MessageRun::Partial(feedback::SymbolSet::new(&[0b0001_0000]).unwrap())];
    for (runs, proof) in
        [(&[MessageRun::Complete(3)][..], 0), (&[MessageRun::Complete(2)], 2), (&partial, 3), (&unsent, 0)]
    {
        let claimed = record(&mut begun(), runs, proof);
        assert!(matches!(claimed, Err(PeerMisbehaved::WrongMessageProof { .. })), "{claimed:?}");
    }
    let unsent = record(&mut begun(), &[MessageRun::Empty(4)], 0);
    assert!(matches!(unsent, Err(PeerMisbehaved::ReportOfUnsentMessages { claimed: 3, sent: 3 })), "{unsent:?}");
}

#[test]
fn what_is_proven_once_counts_once() {
    let mut number = 0;
    let mut send = sender(&[3_000], within_ms(500));
    drain(&mut send, at(0), &mut number);
    let symbols = feedback::SymbolSet::new(&[0b1000_0000]).unwrap();
    let proven: Vec<_> = [
        (MessageRun::Partial(symbols), 1),
        (MessageRun::Partial(symbols), 1),
        (MessageRun::Complete(1), 1 ^ 2 ^ 3),
        (MessageRun::Complete(1), 1 ^ 2 ^ 3),
    ]
    .into_iter()
    .map(|(run, proof)| record(&mut send, &[run], proof).unwrap().symbols)
    .collect();
    assert_eq!(proven, [1, 0, 2, 0]);
}

/// Without any report, the sender sends the symbols planned in advance, and those of the last moment.
#[test]
fn silence_draws_a_few_symbols_of_each_message() {
    let mut number = 0;
    let mut send = sender(&[1_316], within_ms(200));
    let mut sent = drain(&mut send, at(0), &mut number).len();
    let mut now = at(0);
    while let Some(next) = send.next_timeout(now) {
        sent += drain(&mut send, now, &mut number).len();
        if next > at(1_000) {
            break;
        }
        now = next.max(now + Duration::from_micros(1));
    }
    assert!((1..8).contains(&sent), "{sent}");
    assert!(send.units.is_empty(), "nothing is kept of what is over");
}

#[test]
fn kinds_that_alternate_are_not_coded_together() {
    let mut number = 0;
    let mut send = sender(&[], within_ms(35));
    for i in 0..40_u64 {
        let deadline = within_ms(if i % 2 == 0 { 35 } else { 36 });
        send.send(at(i), &[0; 100], deadline, &PATH, || 0).unwrap();
        for segment in drain(&mut send, at(i), &mut number) {
            // Messages with 35 ms have even ids.
            let Coverage::Several(group) = segment.coverage else { continue };
            panic!("{} messages from {} on", group.count, segment.id);
        }
    }
    assert_eq!(send.stats().begun, 40);
}

#[test]
fn a_reliable_message_never_runs_out_of_symbols() {
    let mut number = 0;
    let mut send = sender(&[3_000], Deadline::RELIABLE);
    let mut now = at(0);
    for _ in 0..3_000 {
        drain(&mut send, now, &mut number);
        now = send.next_timeout(now).unwrap().max(now + Duration::from_micros(1));
    }
    assert!(number > 2_000, "{number}");
}

/// Tests \[message-4\]. Regression test: such a message was never sent again, and its session could not end.
#[test]
fn a_reliable_message_goes_on_when_packets_become_smaller() {
    let lengths = [1_408, 2_000, 60_000];
    let mut number = 10;
    // Smaller packets come before the messages are begun, or after.
    let mut waiting = sender(&lengths, Deadline::RELIABLE);
    let sent = drain_over(&NARROW, &mut waiting, at(0), &mut number);
    assert_eq!((waiting.stats().begun, sent.len()), (3, 2 + 2 + 51));
    let mut begun = sender(&lengths, Deadline::RELIABLE);
    assert_eq!(drain(&mut begun, at(0), &mut number), sent, "the size of packets makes no difference");
    let (mut again, mut now) = (std::collections::BTreeSet::new(), at(0));
    while again.len() < 3 {
        now = begun.next_timeout(now).unwrap().max(now + Duration::from_micros(1));
        assert!(now < at(5_000), "only {again:?} go on");
        again.extend(drain_over(&NARROW, &mut begun, now, &mut number).iter().map(|segment| segment.id));
    }
}

/// A session waits for its messages, so that it would otherwise never end.
#[test]
fn nobody_waits_for_a_proof_longer_than_for_the_message() {
    let mut number = 10;
    let mut send = sender(&[1_316], within_ms(200));
    let mut now = at(0);
    while drain(&mut send, now, &mut number).is_empty() {
        now = send.next_timeout(now).unwrap();
    }
    all_have_arrived(&mut send, at(60), number);
    now = at(60);
    assert!(drain(&mut send, now, &mut number).is_empty());
    while let Some(next) = send.next_timeout(now) {
        assert!(send.is_at_work() && next < at(210), "{next:?}");
        now = next.max(now + Duration::from_micros(1));
        assert!(drain(&mut send, now, &mut number).is_empty());
    }
    assert!(!send.is_at_work());
}

/// Reports all datagrams below `number` as arrived, except datagram 9.
fn all_have_arrived(send: &mut SendMessages, now: Time, number: u64) {
    let mut buffer = [0; 400];
    let mut writer = ReportWriter::new(&mut buffer, &Report::default()).unwrap();
    writer.loss_runs([feedback::LossRun { gap: number as u32 - 10, length: 1 }]).unwrap();
    let length = writer.finish();
    let (_, all) = feedback::decode(&buffer[..length]).unwrap();
    let runs = all.into_iter().find_map(|it| if let Record::LossRuns(runs) = it { Some(runs) } else { None });
    send.on_report(now, number - 1, runs, &PATH);
}

/// Tests \[message-15\].
#[test]
fn a_reliable_message_asks_for_a_proof_that_was_lost() {
    let mut number = 10;
    let mut send = sender(&[1_316, 100, 5_000], Deadline::RELIABLE);
    let mut now = at(0);
    for _ in 0..3 {
        let before = number;
        while drain(&mut send, now, &mut number).is_empty() || number < before + 3 {
            now = send.next_timeout(now).unwrap().max(now + Duration::from_micros(1));
            assert!(now < at(5_000), "nobody asks");
        }
        now += Duration::from_millis(51);
        all_have_arrived(&mut send, now, number);
        assert!(drain(&mut send, now, &mut number).is_empty(), "it is too early");
    }
    assert!(number < 40 && send.is_at_work());
}

/// Returns a sender with `count` messages in flight and no report, and the number of the next datagram. Datagrams are
/// numbered from 10 on.
fn under_way(count: u64) -> (SendMessages, u64) {
    let (mut send, mut number) = (sender(&[], within_ms(60_000)), 10);
    for _ in 0..count {
        send.send(at(0), &[0; 100], within_ms(60_000), &PATH, || 1).unwrap();
        drain(&mut send, at(0), &mut number);
    }
    assert_eq!(send.stats().begun, count);
    (send, number)
}

/// Returns the cost of a record, in look-ups of units and ledger entries.
fn looked_at(send: &mut SendMessages, runs: &[MessageRun<'_>], proof: u32) -> u64 {
    let now = |send: &SendMessages| send.units.looked_at.get() + send.ledger.looked_at.get();
    let before = now(send);
    record(send, runs, proof).unwrap();
    now(send) - before
}

#[test]
fn a_record_costs_what_is_new_in_it_and_not_what_is_under_way() {
    let costs = [16, 8_000].map(|count| {
        let (mut send, _) = under_way(count);
        let all = MessageRun::Complete(count as u32);
        // All secrets are 1.
        let one = looked_at(&mut send, &[MessageRun::Empty(7), MessageRun::Complete(1)], 1);
        let (news, again) = (looked_at(&mut send, &[all], 0), looked_at(&mut send, &[all], 0));
        // A byte of a record names at most 64 messages.
        assert!(news <= 8 * count && again <= 2 + count / 32, "{news} and {again} for {count}");
        one
    });
    assert!(costs[0] == costs[1] && costs[0] < 16, "{costs:?}");
}

/// Many messages have a symbol to send, as after an outage.
#[test]
fn a_symbol_costs_no_more_when_many_messages_owe_some() {
    let costs = [16, 4_000].map(|count| {
        let (mut send, mut number) = under_way(count);
        let mut now = at(0);
        while send.units.owing_after(at(0)).is_none() {
            now = send.next_timeout(now).unwrap() + Duration::from_millis(1);
            send.wake(now, &PATH);
        }
        let before = send.units.looked_at.get();
        let sent = drain(&mut send, now + Duration::from_millis(1), &mut number).len() as u64;
        assert!(2 * sent > count, "{sent} of {count}");
        (send.units.looked_at.get() - before) / sent
    });
    assert!(costs[1] <= costs[0] + 1, "{costs:?}");
}

/// Tests \[message-8\].
#[test]
fn nothing_is_sent_of_what_the_receiver_may_have_forgotten_and_nothing_waits_for_it() {
    let (mut send, mut number, mut begun) = (sender(&[], within_ms(60_000)), 10, 0);
    let mut kept = 0;
    for ms in 0..3_000 {
        for _ in 0..8 {
            send.send(at(ms), &[0; 100], within_ms(60_000), &PATH, || 1).unwrap();
        }
        for segment in drain(&mut send, at(ms), &mut number) {
            begun = begun.max(segment.id + 1);
            assert!(begun - segment.id <= WINDOW_IDS as u32, "{} of {begun}", segment.id);
        }
        kept = kept.max(send.units.numbers().len());
    }
    assert!(send.stats().begun > 23_000 && kept as u64 <= WINDOW_IDS, "{:?}, {kept} kept", send.stats());
}

/// Tests \[message-8\].
#[test]
fn what_is_reliable_is_waited_for() {
    let mut number = 10;
    let mut send = sender(&[100], Deadline::RELIABLE);
    let hand_over = |send: &mut SendMessages, now: Time, number: &mut u64| {
        for _ in 0..100 {
            send.send(now, &[0; 100], within_ms(60_000), &PATH, || 1).unwrap();
            drain(send, now, number);
        }
        all_have_arrived(send, now, *number);
    };
    for ms in 0..100 {
        hand_over(&mut send, at(ms), &mut number);
    }
    assert_eq!(send.stats().begun, WINDOW_IDS);
    record(&mut send, &[MessageRun::Complete(1)], 1).unwrap();
    drain(&mut send, at(100), &mut number);
    assert!(send.stats().begun > 10_000, "{:?}", send.stats());
}

/// Tests \[message-13\].
#[test]
fn nobody_waits_for_what_will_not_be_sent_again() {
    let (mut send, number) = under_way(100);
    assert!(send.is_at_work());
    // The proof may have been lost.
    all_have_arrived(&mut send, at(60), number);
    send.end(at(60), &PATH);
    let mut number = number;
    let sent = drain(&mut send, at(60), &mut number);
    assert!(!send.is_at_work(), "{} more were sent: {sent:?}", sent.len());
}

/// Otherwise a peer that has a large message could name all of its symbols in each report, and each report would cost a
/// run of the code for each symbol.
#[test]
fn the_secrets_of_symbols_are_known_and_not_computed_for_each_record() {
    let (mut send, mut number) = (sender(&[100_000], Deadline::RELIABLE), 10);
    let (mut now, mut secrets) = (at(0), std::collections::BTreeMap::new());
    while number < 400 {
        while let Some(symbol) = send.next(now, &PATH) {
            let mut out = vec![0; symbol.payload_bytes];
            assert!(send.write(&symbol, &mut out));
            send.on_sent(now, &symbol, number, &PATH);
            number += 1;
            secrets.insert(symbol.segment.esi, u32::from_be_bytes(*out.last_chunk().unwrap()));
        }
        now = send.next_timeout(now).unwrap().max(now + Duration::from_micros(1));
    }
    let mut bits = [0; 128];
    secrets.keys().for_each(|&esi| bits[esi as usize / 8] |= 0x80 >> (esi % 8));
    let end = 1 + bits.iter().rposition(|&byte| byte != 0).unwrap();
    let proof = secrets.values().fold(0, |proof, secret| proof ^ secret);
    let runs = [MessageRun::Partial(feedback::SymbolSet::new(&bits[..end]).unwrap())];
    assert!(record(&mut send, &runs, proof).unwrap().symbols > 60 && secrets.len() > 300);
}
