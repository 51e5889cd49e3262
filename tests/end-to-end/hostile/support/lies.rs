//! Receivers which lie to draw traffic: what each lie makes a sender send in a minute (`spec/protocol.md` §11.1).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use dfcp_proto::{Config, PeerKey, Rate};
use dfcp_time::Time;
use dfcp_wire::feedback::{Report, Run, Wasted};
use dfcp_wire::{BlockInfo, Flags, Segment};
use serde::Serialize;

use crate::puppet::{MODEST, Opened, boundless_report};
use crate::talk::{Talk, silent};
use crate::world::{Packet, World, server_address, stranger};

/// How long each lie goes on.
const LIE: Duration = Duration::from_secs(60);

/// How often a liar reports.
const REPORT_INTERVAL_MS: u64 = 90;

/// Bytes which follow each source symbol's data: the secret that proves decoding.
const SECRET_BYTES: usize = 4;

/// IP bytes of a sealed data datagram besides its symbol.
const DATA_OVERHEAD_BYTES: u64 = 28 + 24 + 16;

/// A lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// The third handshake message is held back for 9 s, and silence follows.
    HeldBack,
    /// Every 90 ms a report that 70 % were lost, and no block is ever decoded.
    Lossy,
    /// The same from another source address than the one to which the data go.
    LossyFromElsewhere,
    /// The same, with every report 700 ms late.
    LossyAndLate,
    /// Every 90 ms a report of a guessed low number; nothing is looked at.
    Blind,
    /// The same from another source address.
    BlindFromElsewhere,
    /// One block decoded and proven every 2 s, and nothing else.
    OneBlock,
    /// An honest receiver whose reports all come 9 s late.
    NineSecondsLate,
}

impl Lie {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::HeldBack,
        Self::Lossy,
        Self::LossyFromElsewhere,
        Self::LossyAndLate,
        Self::Blind,
        Self::BlindFromElsewhere,
        Self::OneBlock,
        Self::NineSecondsLate,
    ];
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HeldBack => "third message 9 s late, then silence",
            Self::Lossy => "70 % lost, nothing decoded",
            Self::LossyFromElsewhere => "70 % lost, from another address",
            Self::LossyAndLate => "70 % lost, every report 0.7 s late",
            Self::Blind => "blind reports of low numbers",
            Self::BlindFromElsewhere => "blind reports, from another address",
            Self::OneBlock => "one honest block per 2 s",
            Self::NineSecondsLate => "honest reports, all 9 s late",
        })
    }
}

/// What a lie drew.
#[derive(Clone, Debug, Serialize)]
pub struct Drawn {
    /// Which one.
    pub lie: String,
    /// The sender's rate.
    pub rate_bps: u64,
    /// IP bytes which the sender sent.
    pub drawn_bytes: u64,
    /// IP bytes of the source symbols of the blocks which were proven.
    pub proven_bytes: u64,
    /// IP bytes which the largest possible block may take before anything is proven: 4K/(1 − 0.75) symbols.
    pub floor_bytes: u64,
    /// Why the connection ended, if it did.
    pub error: Option<String>,
}

impl Drawn {
    /// What was sent beyond 4.5 times of what was proven, in bytes.
    #[must_use]
    pub fn beyond_bytes(&self) -> u64 {
        self.drawn_bytes.saturating_sub(self.proven_bytes * 9 / 2)
    }

    /// The same as seconds of the rate.
    #[must_use]
    pub fn beyond_s(&self) -> f64 {
        self.beyond_bytes() as f64 * 8.0 / self.rate_bps as f64
    }

    /// What is wrong, if something is.
    #[must_use]
    pub fn breach(&self) -> Option<String> {
        let most = (self.rate_bps / 8 * 6).max(self.floor_bytes);
        let beyond = self.beyond_bytes();
        (beyond > most).then(|| format!("{beyond} bytes beyond what was proven, of at most {most}"))
    }
}

/// Tells `lie` for a minute to a sender which has no end of data for this rate.
///
/// # Errors
/// If the world stands still or a message cannot be made.
pub fn tell(lie: Lie, rate_bps: u64) -> Result<Drawn> {
    let config = Config { rate: Rate::Fixed { rate_bps }, ..Config::sealed(PeerKey::Any) };
    if lie == Lie::NineSecondsLate {
        return late_but_honest(lie, rate_bps, config);
    }
    let (mut talk, third) = Talk::unproven(1, config, &MODEST)?;
    let end = talk.world.now + LIE;
    let mut liar = Liar::default();
    if lie == Lie::HeldBack {
        talk.run_for(9_000, silent)?;
        talk.say(third);
        talk.run(end, silent)?;
    } else {
        talk.say(third);
        while talk.world.now < end {
            talk.run_for(REPORT_INTERVAL_MS, |_, opened| {
                liar.hear(opened);
                Vec::new()
            })?;
            liar.report(lie, rate_bps, &mut talk)?;
        }
    }
    Ok(Drawn {
        lie: lie.to_string(),
        rate_bps,
        drawn_bytes: talk.drawn_bytes(),
        proven_bytes: liar.proven_bytes,
        floor_bytes: 16 * 256 * 1_500,
        error: talk.error().map(|error| error.to_string()),
    })
}

/// A block as a liar sees it.
#[derive(Debug, Default)]
struct Seen {
    info: Option<BlockInfo>,
    symbols: u32,
    source: u32,
    secret: u32,
    symbol_bytes: u64,
}

/// What a liar knows and has claimed.
#[derive(Debug, Default)]
struct Liar {
    blocks: BTreeMap<u32, Seen>,
    next_needed: u32,
    proof: u32,
    proven_bytes: u64,
    proven_symbols: u32,
    proven_at: Option<Time>,
    claimed: Option<Report>,
    blind_highest: u32,
}

impl Liar {
    fn hear(&mut self, opened: &Opened) {
        let header = &opened.header;
        if !header.flags.without(Flags::SEC).is_empty() {
            return;
        }
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
    }

    fn report(&mut self, lie: Lie, rate_bps: u64, talk: &mut Talk) -> Result<()> {
        let datagram = match lie {
            Lie::Blind | Lie::BlindFromElsewhere => self.blind(talk, (rate_bps / 600_000) as u32)?,
            Lie::OneBlock => self.one_block(talk)?,
            _ => self.lossy(talk, 0.3)?,
        };
        match lie {
            Lie::LossyFromElsewhere | Lie::BlindFromElsewhere => talk.say_from(stranger(99), datagram),
            Lie::LossyAndLate => {
                let packet = Packet { from: talk.from, to: server_address(), bytes: datagram };
                talk.world.put(packet, Duration::from_millis(700));
            }
            _ => talk.say(datagram),
        }
        Ok(())
    }

    /// Nothing contradicts it: so many arrived, and what served or was in vain makes the same sum. No block lacks nothing.
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
            window_blocks: 4_096,
            window_bytes: 32 << 20,
            arrival_rate_bps: 1_000_000,
            proof_cumulative: self.proof,
            ..boundless_report(talk.highest)
        };
        self.claimed = Some(report);
        talk.puppet.report(self.next_needed, &report, &runs)
    }

    /// A number which was surely sent, were none left out: a quarter of what the rate makes in the time.
    fn blind(&mut self, talk: &mut Talk, blind_step: u32) -> Result<Vec<u8>> {
        self.blind_highest += blind_step;
        let report = Report {
            datagrams_received: self.blind_highest / 3,
            window_blocks: 4_096,
            window_bytes: 32 << 20,
            ..boundless_report(self.blind_highest)
        };
        talk.puppet.report(0, &report, &[])
    }

    fn one_block(&mut self, talk: &mut Talk) -> Result<Vec<u8>> {
        let is_time = self.proven_at.is_none_or(|at| talk.world.now.since(at) >= Duration::from_secs(2));
        if let Some((seen, info)) = self.blocks.get(&self.next_needed).and_then(|seen| Some((seen, seen.info?)))
            && is_time
            && seen.source == u32::from(info.k)
        {
            self.proof ^= seen.secret;
            self.proven_symbols += seen.source;
            self.proven_bytes += u64::from(seen.source) * (seen.symbol_bytes + DATA_OVERHEAD_BYTES);
            self.next_needed += 1;
            self.proven_at = Some(talk.world.now);
        }
        self.lossy(talk, 0.3)
    }
}

/// A real receiver. Somebody holds back what it reports.
fn late_but_honest(lie: Lie, rate_bps: u64, config: Config) -> Result<Drawn> {
    let mut world = World::new(1, config.clone());
    (world.client.to_send, world.server.to_send) = (0, u64::MAX);
    let held: Rc<RefCell<Vec<Packet>>> = Rc::default();
    let keep = Rc::clone(&held);
    world.middle = Box::new(move |_, packet| {
        let is_report = packet.to == server_address()
            && Segment::decode(&packet.bytes).is_ok_and(|segment| segment.header.flags.contains(Flags::FBK));
        if !is_report {
            return vec![packet];
        }
        keep.borrow_mut().push(packet);
        Vec::new()
    });
    world.connect(config)?;
    let end = world.now + LIE;
    while world.step(end)? {
        for packet in held.borrow_mut().drain(..) {
            world.put(packet, Duration::from_secs(9));
        }
    }
    let stats = world.server.connection().context("the connection has ended")?.stats();
    let sum = |sent: &BTreeMap<_, u64>| sent.values().sum::<u64>();
    // Full symbols of 1420 bytes; the stream has no other ones yet.
    let symbols = stats.stream_bytes_acknowledged.div_ceil(1_420);
    Ok(Drawn {
        lie: lie.to_string(),
        rate_bps,
        drawn_bytes: sum(&world.server.sent_bytes) + 28 * sum(&world.server.sent_datagrams),
        proven_bytes: symbols * (1_424 + DATA_OVERHEAD_BYTES),
        floor_bytes: 16 * 256 * 1_500,
        error: world.server.ended.first().cloned().flatten().map(|error| error.to_string()),
    })
}
