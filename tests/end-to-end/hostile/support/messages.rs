//! Costs that an authenticated peer can cause with messages: memory, computing time and traffic (`spec/protocol.md` §3.2).

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use dfcp_proto::limits::{CONNECTION_BYTES_MAX, MESSAGE_IDS_MAX, MESSAGES_HELD_BYTES_MAX, MESSAGES_UNREAD_BYTES_MAX};
use dfcp_proto::{Accept, Config, Deadline, Event, Handle, PeerKey, Rate};
use dfcp_testkit::{Host, Received, seed32, server_address};
use dfcp_time::Time;
use dfcp_wire::Features;
use dfcp_wire::feedback::{MessageRun, Report, ReportWriter};
use dfcp_wire::segment::{Coverage, Message, MessageGroup, MessageInfo, ReportHeader, Segment};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::live::memory_kib;
use crate::puppet::{MODEST, Puppet, first_contact};
use crate::world::stranger;

/// Payload bytes of a message's symbol, including its secret.
const SYMBOL_BYTES: usize = 1_200;

/// Interval of the attacker's datagrams: 100 000 per second.
const PAUSE: Duration = Duration::from_micros(10);

/// Bytes of the victim's own messages.
const OWN_BYTES: usize = 1_316;
const OWN_EVERY: Duration = Duration::from_micros(400);
const OWN_WITHIN: Duration = Duration::from_millis(100);
const OWN_RATE_BPS: u64 = 50_000_000;

/// Permitted memory of the victim in KiB: the states of 16 384 messages, the queue of messages that wait for its application, and other
/// allocations.
const REMEMBERED_KIB: u64 = 2_048;
/// Bytes for the id of a message.
const ID_BYTES: u64 = 9;

/// An attack with messages or reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// For comparison: complete messages of one datagram each.
    Honest,
    /// Complete messages that the application never reads.
    Unread,
    /// A single symbol of each of many messages of 256 KiB.
    Unfinished,
    /// Repair symbols over groups whose messages never arrive.
    Groups,
    /// Empty messages with a deadline of 71 minutes. The victim keeps them, because they may help to decode other messages of their group.
    Known,
    /// Like `Known`, with the greatest length of a message in a group.
    KnownLong,
    /// A single symbol of each of many messages of two bytes.
    UnfinishedSmall,
    /// Repair symbols over groups of two messages. The messages never arrive.
    GroupsSmall,
    /// Datagram numbers and message ids that jump ahead by 20 000: each datagram replaces all remembered ids.
    Leaps,
    /// One datagram, repeated.
    Replayed,
    /// Messages with ids that expired long ago.
    Old,
    /// A lifetime of one microsecond, in datagrams whose clock goes down from one to the next. (A lifetime of zero is
    /// refused unread.)
    NoLifetime,
    /// A lifetime of 71 minutes, the longest limited lifetime, and an age of nearly 71 minutes.
    Years,
    /// Ids far ahead of all ids that can have been sent.
    FarAhead,
    /// A receiver that claims all of the victim's messages.
    ClaimsAll,
    /// A receiver that reports that no data arrives.
    ClaimsNone,
    /// A receiver that sends nothing.
    Silent,
}

impl Attack {
    /// All attacks.
    pub const ALL: [Self; 17] = [
        Self::Honest,
        Self::Unread,
        Self::Unfinished,
        Self::Groups,
        Self::Known,
        Self::KnownLong,
        Self::UnfinishedSmall,
        Self::GroupsSmall,
        Self::Leaps,
        Self::Replayed,
        Self::Old,
        Self::NoLifetime,
        Self::Years,
        Self::FarAhead,
        Self::ClaimsAll,
        Self::ClaimsNone,
        Self::Silent,
    ];

    const fn is_on_sender(self) -> bool {
        matches!(self, Self::ClaimsAll | Self::ClaimsNone | Self::Silent)
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Honest => "messages, honest",
            Self::Unread => "messages, honest, nobody reads them",
            Self::Unfinished => "messages of 256 KiB, one symbol of each",
            Self::Groups => "messages, repair of what never comes",
            Self::Known => "messages of no byte, known for 71 minutes",
            Self::KnownLong => "messages of a symbol, known for as long",
            Self::UnfinishedSmall => "messages of 2 bytes, one symbol of each",
            Self::GroupsSmall => "messages, repair of two that never come",
            Self::Leaps => "messages, numbers and ids leap",
            Self::Replayed => "messages, one datagram replayed",
            Self::Old => "messages which were over long ago",
            Self::NoLifetime => "messages, a lifetime of nothing",
            Self::Years => "messages, the longest lifetime",
            Self::FarAhead => "messages, ids far ahead",
            Self::ClaimsAll => "messages, a receiver that claims all",
            Self::ClaimsNone => "messages, a receiver that claims none",
            Self::Silent => "messages, a receiver that is silent",
        })
    }
}

/// Costs to the victim.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cost {
    /// Name of the attack.
    pub attack: String,
    /// Datagrams of the attacker, or the victim's own messages if the victim sends.
    pub units: u64,
    /// Datagrams that the victim dropped unread.
    pub dropped: u64,
    /// Peak of memory in excess of the open session's, KiB.
    pub memory_kib: u64,
    /// Peak of memory that was not charged to the endpoint's limit, KiB.
    pub uncharged_kib: u64,
    /// Computing time of the victim per unit, µs.
    pub cpu_us: f64,
    /// IP bytes sent by the victim.
    pub drawn_bytes: u64,
    /// Bytes of the messages offered by the victim's own application.
    pub own_bytes: u64,
    /// Messages of the attacker delivered to the victim's application.
    pub delivered: u64,
    /// Error that ended the session, if any.
    pub error: Option<String>,
    #[serde(skip)]
    most: Most,
}

/// Limits of the costs.
#[derive(Clone, Copy, Debug, Default)]
struct Most {
    memory_kib: u64,
    uncharged_kib: u64,
    drawn_bytes: u64,
    delivered: u64,
}

impl Cost {
    /// The exceeded limit, as a sentence; `None` if all limits are met.
    #[must_use]
    pub fn breach(&self) -> Option<String> {
        let Most { memory_kib, uncharged_kib, drawn_bytes, delivered } = self.most;
        if self.memory_kib > memory_kib {
            Some(format!("{} KiB of memory, of at most {memory_kib}", self.memory_kib))
        } else if self.uncharged_kib > uncharged_kib {
            Some(format!("{} KiB of memory uncharged, of at most {uncharged_kib}", self.uncharged_kib))
        } else if self.drawn_bytes > drawn_bytes {
            Some(format!("{} bytes drawn, of at most {drawn_bytes}", self.drawn_bytes))
        } else if self.delivered > delivered {
            Some(format!("{} messages delivered, of at most {delivered}", self.delivered))
        } else {
            None
        }
    }
}

/// An open session between a victim and an attacker that the test controls.
struct Scene {
    now: Time,
    victim: Host,
    handle: Handle,
    puppet: Puppet,
    cost: Cost,
    memory_before_kib: u64,
    charged_before_bytes: u64,
    /// Number of message ids that the attacker has used. Their states are not charged one by one: the session's reserve has paid for them
    /// since its start.
    ids: u64,
    cpu: Duration,
}

impl Scene {
    fn open(attack: Attack) -> Result<Self> {
        let config = Config::sealed(PeerKey::Any).with_messages(true).with_rate(Rate::Fixed { rate_bps: OWN_RATE_BPS });
        let mut victim = Host::new(server_address(), Some(Accept::from(config)), seed32(1, 2));
        let features = Features::MESSAGES.union(Features::LOSS_RUNS);
        let mut puppet = Puppet::with_features(77, first_contact(3), [1; 32], &MODEST, features)?;
        let now = Time::from_s(1);
        let answer = victim.receive(now, stranger(1), &mut puppet.syn(None, 150)?).reply().context("no answer")?;
        let mut third = puppet.take_answer(&answer)?.context("no third message")?;
        let opened = victim.receive(now, stranger(1), &mut third);
        let Received::Opened(handle) = opened else { bail!("the session was not opened: {opened:?}") };
        let cost = Cost { attack: attack.to_string(), ..Cost::default() };
        let (memory_before_kib, charged_before_bytes) = (memory_kib(), victim.endpoint.stats().memory_bytes);
        Ok(Self {
            now,
            victim,
            handle,
            puppet,
            cost,
            memory_before_kib,
            charged_before_bytes,
            ids: 0,
            cpu: Duration::ZERO,
        })
    }

    /// Runs the victim, and measures its time.
    fn timed<T>(&mut self, work: impl FnOnce(&mut Host, Time) -> T) -> T {
        let cpu = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        };
        let before = cpu();
        let result = work(&mut self.victim, self.now);
        self.cpu += cpu().saturating_sub(before);
        let taken_kib = memory_kib().saturating_sub(self.memory_before_kib);
        // An ended session has released its reserve, too.
        let charged = self.victim.endpoint.stats().memory_bytes.saturating_sub(self.charged_before_bytes);
        self.cost.memory_kib = self.cost.memory_kib.max(taken_kib);
        let reserved = ID_BYTES * self.ids.next_power_of_two().min(MESSAGE_IDS_MAX as u64);
        self.cost.uncharged_kib = self.cost.uncharged_kib.max(taken_kib.saturating_sub((charged + reserved) >> 10));
        result
    }

    fn say(&mut self, mut datagram: Vec<u8>) {
        self.timed(|victim, now| drop(victim.receive(now, stranger(1), &mut datagram)));
    }

    /// Receives the datagrams that the victim sends now; returns their datagram numbers.
    fn hear(&mut self) -> Vec<u32> {
        let mut numbers = Vec::new();
        loop {
            let sent = self.timed(|victim, now| {
                victim.handle_timeout(now);
                victim.transmit(now)
            });
            let event = self.victim.poll_event(self.handle);
            if let Some(Event::Closed(Some(error))) = event {
                self.cost.error.get_or_insert_with(|| error.to_string());
            }
            let Some(packet) = sent else { return numbers };
            self.cost.drawn_bytes += packet.bytes.len() as u64 + 28;
            numbers.extend(self.puppet.open(&packet.bytes).map(|opened| opened.header.s3));
        }
    }

    /// Lets the victim's application read all available messages.
    fn read(&mut self) {
        let count = self.timed(|victim, _| {
            let mut messages = victim.connection_mut()?.messages()?;
            Some(std::iter::from_fn(|| messages.receive()).count() as u64)
        });
        self.cost.delivered += count.unwrap_or_default();
    }

    fn finish(mut self, most: Most) -> Cost {
        self.cost.cpu_us = self.cpu.as_secs_f64() * 1e6 / self.cost.units.max(1) as f64;
        self.cost.most = most;
        self.cost.dropped = self.victim.connection().map_or(0, |connection| connection.stats().segments_dropped);
        self.cost
    }
}

/// Attacks with this number of datagrams. If the victim is the sender, it runs for the time that these datagrams would take.
///
/// # Errors
/// Fails if a message cannot be made.
pub fn attack(attack: Attack, datagrams: u64) -> Result<Cost> {
    if attack.is_on_sender() { on_sender(attack, datagrams) } else { on_receiver(attack, datagrams) }
}

/// Message of the attacker for datagram `number`.
fn message(attack: Attack, number: u64, now: Time) -> Message {
    let one = |k, length_bytes| Coverage::One(MessageInfo { k, length_bytes });
    let whole = SYMBOL_BYTES as u32 - 4;
    let honest = Message {
        id: number as u32,
        esi: 0,
        coverage: one(1, whole),
        clock_us: (now.as_ns() / 1_000) as u32,
        age_us: 0,
        lifetime_us: 100_000,
    };
    match attack {
        Attack::Unfinished => {
            let k = (256_u32 << 10).div_ceil(whole);
            Message { coverage: one(k as u16, 256 << 10), lifetime_us: Message::LIFETIME_UNLIMITED, ..honest }
        }
        Attack::Groups => {
            let coverage = Coverage::Several(MessageGroup { count: 64, source_symbols: 64 });
            Message { id: (number as u32).saturating_sub(64), esi: 64 + (number % 32) as u32, coverage, ..honest }
        }
        Attack::Known => Message { coverage: one(1, 0), lifetime_us: Message::LIFETIME_UNLIMITED - 1, ..honest },
        Attack::KnownLong => Message { lifetime_us: Message::LIFETIME_UNLIMITED - 1, ..honest },
        Attack::UnfinishedSmall => Message { coverage: one(2, 2), lifetime_us: Message::LIFETIME_UNLIMITED, ..honest },
        Attack::GroupsSmall => {
            let coverage = Coverage::Several(MessageGroup { count: 2, source_symbols: 2 });
            // The same symbol twice: two different symbols would suffice to decode.
            Message { id: (number as u32 & !1).saturating_sub(2), esi: 5, coverage, ..honest }
        }
        Attack::Old => Message { id: (number % 4) as u32, ..honest },
        Attack::NoLifetime => {
            Message { clock_us: u32::MAX.wrapping_sub((number as u32).wrapping_mul(100)), lifetime_us: 1, ..honest }
        }
        // The greatest age and lifetime that are not unlimited.
        Attack::Years => {
            Message { age_us: Message::LIFETIME_UNLIMITED - 2, lifetime_us: Message::LIFETIME_UNLIMITED - 1, ..honest }
        }
        Attack::FarAhead => Message { id: u32::MAX - 1 - number as u32, ..honest },
        _ => honest,
    }
}

/// Payload bytes that the segment claims.
fn payload_bytes(segment: &Segment) -> usize {
    match segment {
        Segment::Message(Message { coverage: Coverage::One(MessageInfo { k, length_bytes }), .. }) => {
            length_bytes.div_ceil(u32::from(*k)) as usize + 4
        }
        _ => SYMBOL_BYTES,
    }
}

fn on_receiver(attack: Attack, datagrams: u64) -> Result<Cost> {
    let mut scene = Scene::open(attack)?;
    // A replayed datagram is encrypted only once.
    let mut replayed = None;
    for count in 0..datagrams {
        if attack == Attack::Leaps {
            scene.puppet.next_number += 20_000;
        }
        let number = scene.puppet.next_number;
        let message = message(attack, number, scene.now);
        let covered = if let Coverage::Several(group) = message.coverage { group.count } else { 1 };
        let begun = u64::from(message.id) + u64::from(covered);
        // The victim drops ids further ahead.
        scene.ids = if begun <= number + 1 { scene.ids.max(begun) } else { scene.ids };
        let segment = Segment::Message(message);
        let datagram = match &replayed {
            Some(datagram) if attack == Attack::Replayed => Vec::clone(datagram),
            _ => scene.puppet.seal_segment(&segment, &[7; SYMBOL_BYTES][..payload_bytes(&segment)])?,
        };
        replayed.get_or_insert_with(|| datagram.clone());
        scene.say(datagram);
        scene.cost.units += 1;
        if count % 10 == 0 {
            scene.hear();
        }
        if attack != Attack::Unread {
            scene.read();
        }
        scene.now += PAUSE;
    }
    let kib = |bytes: usize| bytes as u64 >> 10;
    let delivered = match attack {
        Attack::Honest | Attack::Years | Attack::Known | Attack::KnownLong | Attack::Leaps => datagrams,
        Attack::Replayed => 1,
        // The victim delivers the first message, because it has no other delay to compare with. It delivers another message
        // after each minute by which the clock has run back, because it then assumes that the clock was set.
        Attack::NoLifetime => 1 + datagrams / 600_000,
        Attack::Old => 4,
        _ => 0,
    };
    Ok(scene.finish(Most {
        memory_kib: kib(MESSAGES_HELD_BYTES_MAX) + kib(MESSAGES_UNREAD_BYTES_MAX) + REMEMBERED_KIB,
        uncharged_kib: CONNECTION_BYTES_MAX >> 10,
        // Only reports of at most one datagram: 1000 per second and a few more.
        drawn_bytes: 1_500 * (1_100 * (datagrams / 100_000 + 1)),
        delivered,
    }))
}

/// The victim sends messages for the time that the attacker would need for its datagrams.
fn on_sender(attack: Attack, datagrams: u64) -> Result<Cost> {
    let mut scene = Scene::open(attack)?;
    let end = scene.now + PAUSE * u32::try_from(datagrams)?;
    let (mut own_at, mut report_at, mut highest) = (scene.now, scene.now, None);
    while scene.now < end {
        if scene.now >= own_at {
            own_at += OWN_EVERY;
            scene.cost.units += 1;
            scene.cost.own_bytes += OWN_BYTES as u64;
            let deadline = Deadline::within(OWN_WITHIN);
            scene.timed(|victim, now| {
                let messages = victim.connection_mut().and_then(|connection| connection.messages());
                // A message without room is dropped, as by an application.
                let _sent = messages.map(|mut messages| messages.send(now, &[1; OWN_BYTES], deadline));
            });
        }
        let numbers = scene.hear();
        highest = numbers.into_iter().max().max(highest);
        if let Some(highest) = highest.filter(|_| attack != Attack::Silent && scene.now >= report_at) {
            report_at = scene.now + Duration::from_millis(10);
            let report = report(&mut scene, attack, highest)?;
            scene.say(report);
        }
        scene.now += Duration::from_micros(50);
    }
    let seconds = PAUSE.as_secs_f64() * datagrams as f64;
    // Traffic without proofs is limited as for data (§11.1): the bytes of six seconds at the rate, and in any case one transmission of
    // each message.
    let credit = (OWN_RATE_BPS / 8) as f64 * 6.0_f64.min(seconds);
    // The victim's application chooses how many messages it hands over, so they are not charged to the attack.
    Ok(scene.finish(Most { memory_kib: 16 << 10, uncharged_kib: 16 << 10, drawn_bytes: credit as u64, delivered: 0 }))
}

/// A report that all messages are complete, or that no data has arrived.
fn report(scene: &mut Scene, attack: Attack, highest: u32) -> Result<Vec<u8>> {
    let has_all = attack == Attack::ClaimsAll;
    let begun = scene.victim.connection().map_or(0, |connection| connection.stats().messages_sent.begun) as u32;
    let received = if has_all { highest + 1 } else { 0 };
    let report = Report {
        highest_datagram: highest,
        datagrams_received: received,
        bytes_received: u64::from(received) * 1_400,
        arrival_rate_bps: 1_000_000_000,
        memory_kib: 32 << 10,
        ..Report::default()
    };
    let mut payload = [0; 1_000];
    let mut writer = ReportWriter::new(&mut payload, &report)?;
    if has_all && begun > 0 {
        let mut list = writer.messages(0).context("the report has no room")?;
        ensure!(list.push(MessageRun::Complete(begun)), "the report is full");
        list.finish(0x1234_5678);
    }
    let length = writer.finish();
    scene.puppet.seal_segment(&Segment::Report(ReportHeader { receive_queue_kib: 0 }), &payload[..length])
}
