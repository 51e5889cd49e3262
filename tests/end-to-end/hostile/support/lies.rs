//! Receivers that lie to draw traffic: the bytes that each lie makes a sender send in a minute (`spec/protocol.md` §11.1).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dfcp_proto::limits::{CREDIT_AUTO_RATE_BPS, CREDIT_LINE_RATE_BPS, LOSS_BELIEVED_MAX, SYMBOLS_PER_BLOCK_FACTOR};
use dfcp_proto::{Config, PathHint, PeerKey, Policy, Rate};
use dfcp_testkit::raw::{self, Header};
use dfcp_testkit::{Packet, server_address};
use dfcp_time::Time;
use dfcp_wire::feedback::{Report, Run, StreamState, Wasted};
use dfcp_wire::handshake::Offer;
use dfcp_wire::{BlockInfo, Flags};
use serde::Serialize;

use crate::puppet::{MODEST, Opened, boundless_report, decoded};
use crate::talk::{Talk, silent};
use crate::world::{World, stranger};

/// Duration of each lie.
const LIE: Duration = Duration::from_secs(60);

/// Round-trip time of the path that the sender remembers, equal to the handshake's.
const HINT_RTT: Duration = Duration::from_millis(5);

/// Interval of a liar's reports.
const REPORT_INTERVAL_MS: u64 = 90;

/// Bytes after each source symbol's data: the secret that proves decoding.
const SECRET_BYTES: usize = 4;

/// IP bytes of an encrypted data datagram in addition to its symbol.
const DATA_OVERHEAD_BYTES: u64 = 28 + 24 + 16;

/// Symbols of the longest blocks of a bulk stream, and number of data datagrams after which the loss estimate is stable.
const LONG_BLOCK_SYMBOLS: u16 = 256;
const LOSS_SETTLED_DATAGRAMS: u32 = 8_192;

/// S1 of an ACK with a challenge, and of its answer ([path-2]).
const CHALLENGE: u32 = 3;
const RESPONSE: u32 = 4;

/// Port from which some reports arrive while the data is sent to another.
const ELSEWHERE: u16 = 99;

/// Interval of a liar's address changes.
const MOVE_INTERVAL: Duration = Duration::from_secs(5);

/// Bytes not included in a limit on data: handshake, challenges and keep-alives, and the two data datagrams by which the limit may be
/// exceeded ([credit-6]).
const BESIDES_BYTES: u64 = 8_000;

/// Behaviour of a lying receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// The third handshake message is delayed by 9 s; then the peer is silent.
    HeldBack,
    /// Reports of 70 % loss every 90 ms, without any decoded block.
    Lossy,
    /// The lossy lie from another source address than the destination of the data.
    LossyFromElsewhere,
    /// The lossy lie, with every report 700 ms late.
    LossyAndLate,
    /// The lossy lie from an address that changes every 5 s, and answers the sender's challenge each time.
    LossyAndMoving,
    /// The lossy lie to a sender at the line rate, with an unlimited rate cap.
    LossyAtLineRate,
    /// The lossy lie to a sender with an automatic rate.
    LossyAtAutomaticRate,
    /// The lossy lie to a sender with an automatic rate and a minimum rate.
    LossyAtLeastRate,
    /// Silence of a peer for which an earlier connection with an automatic rate has found a hundred times the rate.
    SilentAtRememberedRate,
    /// Honest on a path with three quarters lost, until blocks have their maximum length; after that none is decoded.
    LongBlocks,
    /// A report of a guessed low number every 90 ms; arriving data is ignored.
    Blind,
    /// The blind lie from another source address.
    BlindFromElsewhere,
    /// One block decoded and proven every 2 s, and nothing else.
    OneBlock,
    /// An honest receiver whose reports are all 9 s late.
    NineSecondsLate,
}

impl Lie {
    /// All lies.
    pub const ALL: [Self; 14] = [
        Self::HeldBack,
        Self::Lossy,
        Self::LossyFromElsewhere,
        Self::LossyAndLate,
        Self::LossyAndMoving,
        Self::LossyAtLineRate,
        Self::LossyAtAutomaticRate,
        Self::LossyAtLeastRate,
        Self::SilentAtRememberedRate,
        Self::LongBlocks,
        Self::Blind,
        Self::BlindFromElsewhere,
        Self::OneBlock,
        Self::NineSecondsLate,
    ];

    /// Share of the data that the liar reports as received.
    fn arrived(self) -> f64 {
        match self {
            Self::LongBlocks => 0.25,
            _ => 0.3,
        }
    }

    /// Highest loss that the sender can estimate.
    fn loss_max(self) -> f64 {
        match self {
            // Control datagrams to a silent address, and data to the previous address, are also lost.
            Self::LossyFromElsewhere | Self::LossyAndMoving => 1.0,
            _ => 1.0 - self.arrived(),
        }
    }

    /// Sender's rate for the requested one, and the rate cap advertised by the liar.
    fn rates(self, rate_bps: u64) -> (Rate, u64) {
        match self {
            Self::LossyAtLineRate => (Rate::Line, u64::MAX),
            Self::LossyAtAutomaticRate | Self::SilentAtRememberedRate => (Rate::auto(Policy::High), u64::MAX),
            Self::LossyAtLeastRate => {
                (Rate::Auto { policy: Policy::High, max_bps: None, min_bps: Some(rate_bps) }, u64::MAX)
            }
            _ => (Rate::Fixed { rate_bps }, 0),
        }
    }
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HeldBack => "third message 9 s late, then silence",
            Self::Lossy => "70 % lost, nothing decoded",
            Self::LossyFromElsewhere => "70 % lost, from another address",
            Self::LossyAndLate => "70 % lost, every report 0.7 s late",
            Self::LossyAndMoving => "70 % lost, another address every 5 s",
            Self::LossyAtLineRate => "70 % lost, line rate, cap of 2^64 - 1",
            Self::LossyAtAutomaticRate => "70 % lost, automatic rate, cap of 2^64 - 1",
            Self::LossyAtLeastRate => "70 % lost, automatic with a least rate",
            Self::SilentAtRememberedRate => "silence, automatic, 10 Gbit/s remembered",
            Self::LongBlocks => "75 % lost, honest until K = 256",
            Self::Blind => "blind reports of low numbers",
            Self::BlindFromElsewhere => "blind reports, from another address",
            Self::OneBlock => "one honest block per 2 s",
            Self::NineSecondsLate => "honest reports, all 9 s late",
        })
    }
}

/// Traffic drawn by a lie.
#[derive(Clone, Debug, Serialize)]
pub struct Drawn {
    /// Name of the lie.
    pub lie: String,
    /// Sender's rate that determines its credit, bit/s.
    pub rate_bps: u64,
    /// IP bytes sent by the sender.
    pub drawn_bytes: u64,
    /// IP bytes of the source symbols in proven blocks.
    pub proven_bytes: u64,
    /// Maximum IP bytes permitted for the oldest block before any proof: 4K/(1 − p) symbols.
    pub floor_bytes: u64,
    /// IP bytes outside the limit on data: those sent to an address that was challenged and not proven, and
    /// `BESIDES_BYTES`.
    pub besides_bytes: u64,
    /// Error that ended the connection, if any.
    pub error: Option<String>,
}

impl Drawn {
    /// Bytes sent beyond 4.5 times the proven ones.
    #[must_use]
    pub fn beyond_bytes(&self) -> u64 {
        self.drawn_bytes.saturating_sub(self.proven_bytes * 9 / 2)
    }

    /// Returns [`beyond_bytes`](Self::beyond_bytes) as seconds at the sender's rate.
    #[must_use]
    pub fn beyond_s(&self) -> f64 {
        self.beyond_bytes() as f64 * 8.0 / self.rate_bps as f64
    }

    /// Exceeded limit, as a sentence; `None` if all are met.
    #[must_use]
    pub fn breach(&self) -> Option<String> {
        let most = (self.rate_bps / 8 * 6).max(self.floor_bytes) + self.besides_bytes;
        let beyond = self.beyond_bytes();
        (beyond > most).then(|| format!("{beyond} bytes beyond what was proven, of at most {most}"))
    }
}

/// Runs `lie` for a minute against a sender with unlimited data at this rate, or until too much traffic was drawn.
///
/// # Errors
/// Fails if a message cannot be made, or the sender does not follow a moving liar.
pub fn tell(lie: Lie, rate_bps: u64) -> Result<Drawn> {
    let (rate, rate_max_bps) = lie.rates(rate_bps);
    let rate_bps = match rate {
        Rate::Line => CREDIT_LINE_RATE_BPS,
        Rate::Auto { min_bps, .. } => CREDIT_AUTO_RATE_BPS.max(min_bps.unwrap_or_default()),
        Rate::Fixed { .. } => rate_bps,
    };
    // A remembered rate far above any rate that the peer can have earned.
    let hint = PathHint { rate_bps: 10_000_000_000, rtt: HINT_RTT };
    let config = Config::sealed(PeerKey::Any).with_rate(rate).with_path_hint(Some(hint));
    if lie == Lie::NineSecondsLate {
        return late_but_honest(lie, rate_bps, config);
    }
    let (mut talk, third) = Talk::unproven(1, config, &Offer { rate_max_bps, ..MODEST })?;
    let end = talk.world.now + LIE;
    let mut liar = Liar::new(lie, rate_bps);
    if matches!(lie, Lie::HeldBack | Lie::SilentAtRememberedRate) {
        if lie == Lie::HeldBack {
            talk.run_for(9_000, silent);
        }
        talk.say(third);
        talk.run(end, silent);
        return Ok(liar.drawn(&talk));
    }
    talk.say(third);
    while talk.world.now < end && liar.drawn(&talk).breach().is_none() {
        talk.run_for(REPORT_INTERVAL_MS, |talk, opened| liar.hear(talk, opened));
        if lie == Lie::LossyAndMoving {
            liar.keep_moving(&mut talk)?;
        }
        liar.report(&mut talk)?;
    }
    Ok(liar.drawn(&talk))
}

/// A block as seen by a liar.
#[derive(Debug, Default)]
struct Seen {
    info: Option<BlockInfo>,
    symbols: u32,
    source: u32,
    secret: u32,
    symbol_bytes: u64,
}

/// State of a liar.
#[derive(Debug)]
struct Liar {
    lie: Lie,
    rate_bps: u64,
    blocks: BTreeMap<u32, Seen>,
    next_needed: u32,
    proof: u32,
    proven_bytes: u64,
    proven_symbols: u32,
    proven_at: Option<Time>,
    claimed: Option<Report>,
    blind_highest: u32,
    floor_bytes: u64,
    moves: u16,
    moved_at: Option<Time>,
}

impl Liar {
    fn new(lie: Lie, rate_bps: u64) -> Self {
        Self {
            lie,
            rate_bps,
            blocks: BTreeMap::new(),
            next_needed: 0,
            proof: 0,
            proven_bytes: 0,
            proven_symbols: 0,
            proven_at: None,
            claimed: None,
            blind_highest: 0,
            floor_bytes: 0,
            moves: 0,
            moved_at: None,
        }
    }

    /// Traffic drawn so far.
    fn drawn(&self, talk: &Talk) -> Drawn {
        Drawn {
            lie: self.lie.to_string(),
            rate_bps: self.rate_bps,
            drawn_bytes: talk.drawn_bytes(),
            proven_bytes: self.proven_bytes,
            floor_bytes: self.floor_bytes,
            besides_bytes: BESIDES_BYTES + talk.sent_bytes_to(stranger(ELSEWHERE)),
            error: talk.error().map(|error| error.to_string()),
        }
    }

    /// Processes received datagrams, and answers challenges.
    fn hear(&mut self, talk: &mut Talk, opened: &Opened) -> Vec<Vec<u8>> {
        let header = &opened.header;
        match header.flags.without(Flags::SEC) {
            Flags::ACK if header.s1 == CHALLENGE => {
                let respond = |response: &mut Header| {
                    (response.block_id, response.s1, response.s2) = (header.block_id, RESPONSE, header.s2);
                };
                talk.puppet.seal(Flags::ACK, respond, &[]).into_iter().collect()
            }
            flags if flags.is_empty() => {
                self.hear_data(opened);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn hear_data(&mut self, opened: &Opened) {
        let header = &opened.header;
        let Ok(info) = BlockInfo::from_s2(header.s2) else { return };
        let block = self.blocks.entry(header.block_id).or_default();
        block.info = Some(info);
        block.symbols += 1;
        block.symbol_bytes = opened.payload.len() as u64;
        if header.s1 < u32::from(info.k)
            && let Some(secret) = opened.payload.last_chunk::<SECRET_BYTES>()
        {
            block.source += 1;
            block.secret ^= u32::from_be_bytes(*secret);
        }
        if header.block_id == self.next_needed {
            let symbols =
                SYMBOLS_PER_BLOCK_FACTOR * f64::from(info.k) / (1.0 - self.lie.loss_max().min(LOSS_BELIEVED_MAX));
            self.floor_bytes = self.floor_bytes.max(symbols.ceil() as u64 * (block.symbol_bytes + DATA_OVERHEAD_BYTES));
        }
    }

    /// Changes the source address of reports periodically.
    fn keep_moving(&mut self, talk: &mut Talk) -> Result<()> {
        let moved_at = *self.moved_at.get_or_insert(talk.world.now);
        if talk.world.now.since(moved_at) < MOVE_INTERVAL {
            return Ok(());
        }
        let remote = talk.world.server.connection().context("the connection has ended")?.remote();
        ensure!(remote == talk.from, "data still go to {remote}, not to {}", talk.from);
        self.moves += 1;
        talk.from = stranger(1_000 + self.moves);
        self.moved_at = Some(talk.world.now);
        Ok(())
    }

    fn report(&mut self, talk: &mut Talk) -> Result<()> {
        match self.lie {
            Lie::OneBlock if self.proven_at.is_none_or(|at| talk.world.now.since(at) >= Duration::from_secs(2)) => {
                self.prove_oldest(talk.world.now, 1.0);
            }
            // Prove each block that would have enough symbols if the claim were true.
            Lie::LongBlocks if !self.has_settled_at_long_blocks(talk) => {
                while self.prove_oldest(talk.world.now, self.lie.arrived()) {}
            }
            _ => {}
        }
        let datagram = match self.lie {
            Lie::Blind | Lie::BlindFromElsewhere => self.blind(talk)?,
            _ => self.lossy(talk, self.lie.arrived())?,
        };
        match self.lie {
            Lie::LossyFromElsewhere | Lie::BlindFromElsewhere => talk.say_from(stranger(ELSEWHERE), datagram),
            Lie::LossyAndLate => {
                let packet = Packet { from: talk.from, to: server_address(), bytes: datagram };
                talk.world.put(packet, Duration::from_millis(700));
            }
            _ => talk.say(datagram),
        }
        Ok(())
    }

    /// Makes a consistent report: useful and useless symbols add up to the symbols that arrived, and every open block
    /// lacks some.
    fn lossy(&mut self, talk: &mut Talk, arrived: f64) -> Result<Vec<u8>> {
        let data = talk.seen - talk.control;
        let received = talk.control + (f64::from(data) * arrived) as u32;
        let (mut runs, mut served) = (Vec::new(), self.proven_symbols);
        for id in self.next_needed..talk.blocks {
            let Some((seen, info)) = self.blocks.get(&id).and_then(|seen| Some((seen, seen.info?))) else {
                runs.push(Run::Empty(1));
                continue;
            };
            let has = ((f64::from(seen.symbols) * arrived) as u32).min(u32::from(info.k) - 1);
            served += has;
            runs.push(if has == 0 { Run::Empty(1) } else { Run::Open { missing: info.k - has as u16 } });
        }
        let before = self.claimed.map_or_else(Wasted::default, |report| report.wasted);
        let dependent = (received - talk.control).saturating_sub(served).max(before.dependent);
        let report = Report {
            datagrams_received: talk.control + served + dependent,
            wasted: Wasted { dependent, ..before },
            // The report never states how many bytes were read, so the proven bytes are added to the memory.
            memory_kib: (32 << 10) + (self.proven_bytes >> 10) as u32,
            arrival_rate_bps: 1_000_000,
            ..boundless_report(talk.highest)
        };
        self.claimed = Some(report);
        let state = StreamState { proof_cumulative: self.proof, ..decoded(self.next_needed) };
        talk.puppet.report(&state, &report, &runs)
    }

    /// Makes a report of a low guessed number, below the number of datagrams in two seconds at the sender's rate.
    /// Unless the sender skips numbers, this one was surely sent.
    fn blind(&mut self, talk: &mut Talk) -> Result<Vec<u8>> {
        self.blind_highest += (self.rate_bps / 5_000_000).max(1) as u32;
        let report = Report {
            datagrams_received: self.blind_highest / 3,
            memory_kib: 32 << 10,
            ..boundless_report(self.blind_highest)
        };
        talk.puppet.report(&decoded(0), &report, &[])
    }

    /// Proves the oldest block if this share of its symbols suffices to decode it.
    fn prove_oldest(&mut self, now: Time, arrived: f64) -> bool {
        let Some((seen, info)) = self.blocks.get(&self.next_needed).and_then(|seen| Some((seen, seen.info?))) else {
            return false;
        };
        if seen.source < u32::from(info.k) || f64::from(seen.symbols) * arrived < f64::from(info.k) {
            return false;
        }
        self.proof ^= seen.secret;
        self.proven_symbols += seen.source;
        self.proven_bytes += u64::from(seen.source) * (seen.symbol_bytes + DATA_OVERHEAD_BYTES);
        self.next_needed += 1;
        self.proven_at = Some(now);
        true
    }

    fn has_settled_at_long_blocks(&self, talk: &Talk) -> bool {
        let oldest = self.blocks.get(&self.next_needed).and_then(|seen| seen.info);
        talk.seen > LOSS_SETTLED_DATAGRAMS && oldest.is_some_and(|info| info.k == LONG_BLOCK_SYMBOLS)
    }
}

/// A real receiver, whose reports are delayed on the path.
fn late_but_honest(lie: Lie, rate_bps: u64, config: Config) -> Result<Drawn> {
    let mut world = World::new(1, config.clone());
    (world.client.job.send_bytes, world.server.job.send_bytes) = (0, u64::MAX);
    let held: Rc<RefCell<Vec<Packet>>> = Rc::default();
    let keep = Rc::clone(&held);
    world.tap = Box::new(move |_, packet| {
        let is_report = packet.to == server_address()
            && raw::read(&packet.bytes).is_some_and(|raw| raw.header.flags.contains(Flags::FBK));
        if !is_report {
            return vec![packet];
        }
        keep.borrow_mut().push(packet);
        Vec::new()
    });
    world.connect(config)?;
    let end = world.now + LIE;
    while world.step(end) {
        for packet in held.borrow_mut().drain(..) {
            world.put(packet, Duration::from_secs(9));
        }
    }
    let stats = world.server.connection().context("the connection has ended")?.stats();
    let sum = |sent: &BTreeMap<_, u64>| sent.values().sum::<u64>();
    // Full symbols of 1420 bytes; the stream has no others yet.
    let symbols = stats.stream_bytes_acknowledged.div_ceil(1_420);
    Ok(Drawn {
        lie: lie.to_string(),
        rate_bps,
        drawn_bytes: sum(&world.server.sent_bytes) + 28 * sum(&world.server.sent_datagrams),
        proven_bytes: symbols * (1_424 + DATA_OVERHEAD_BYTES),
        floor_bytes: 0, // no loss is claimed, and blocks are short
        besides_bytes: BESIDES_BYTES,
        error: world.server.ended.first().cloned().flatten().map(|error| error.to_string()),
    })
}
