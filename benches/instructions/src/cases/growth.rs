//! Cases of a datagram whose sender has filled the receiver's tables: sessions of a victim with a peer that sends hand-made datagrams of
//! the most expensive kinds.

mod peer;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dfcp_proto::{Config, Opener, Rate, StreamId, StreamKind, StreamLimits};
use dfcp_wire::feedback::{Report, ReportWriter, Run, StreamState};
use dfcp_wire::segment::{Ack, Coverage, Data, Message, MessageGroup, MessageInfo, ReportHeader, Segment};
use dfcp_wire::{BlockInfo, Features, Fragment};

use self::peer::Scene;
use super::{Case, counted};

/// Numbers of items (streams, blocks, …) that exist before the count starts, as far as limits permit.
pub(crate) const FILLED: [u32; 3] = [0, 1_000, 100_000];

/// Number of counted datagrams.
const DATAGRAMS: u64 = 2_000;
/// Work of the victim, by functions of [`Scene`]: the peer's work is not counted.
const PARTS: &[(&str, &str)] = &[("taken in", "Scene::take_in"), ("served", "Scene::serve")];
/// Maximum number of streams of one kind per session.
const STREAMS_MAX: u32 = dfcp_proto::limits::STREAMS_MAX;
/// Maximum number of blocks per window.
const BLOCKS_MAX: u32 = 16_384;
/// Maximum number of blocks in one run of a report.
const RUN_MAX: usize = 256;
const REPORT: Segment = Segment::Report(ReportHeader { receive_queue_kib: 0 });
const MS: Duration = Duration::from_millis(1);

/// A kind of item that a peer creates, with the cost of a datagram at 0, 10³ and 10⁵ items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Name of the kind.
    pub(crate) what: &'static str,
    /// Limit of the number of items, if it is below the requested one.
    pub(crate) limit: u32,
    /// Permitted additional instructions per existing item, if the specification permits them and another limit bounds the total.
    pub(crate) per_item: f64,
    /// Cases, one for each of [`FILLED`].
    pub(crate) cases: [Case; 3],
}

const fn case(name: &'static str, what: &'static str, run: fn(u64) -> Result<()>) -> Case {
    Case { name, unit: "datagram", what, repetitions: DATAGRAMS, parts: PARTS, run }
}

/// Makes the cases of one function for the three numbers of items.
macro_rules! kind {
    ($name:literal, $what:literal, $limit:expr, $per_item:expr, $run:ident) => {
        Kind {
            what: $what,
            limit: $limit,
            per_item: $per_item,
            cases: [
                case(concat!($name, "-0"), $what, |count| $run(FILLED[0], count)),
                case(concat!($name, "-1000"), $what, |count| $run(FILLED[1], count)),
                case(concat!($name, "-100000"), $what, |count| $run(FILLED[2], count)),
            ],
        }
    };
}

pub(crate) const KINDS: &[Kind] = &[
    kind!("growth-messages", "messages and groups known, incomplete, and replayed", u32::MAX, 0.0, messages),
    kind!("growth-streams", "open streams, each with a byte that is not read", STREAMS_MAX, 0.0, streams),
    kind!("growth-stops", "open streams which the application has asked to end", STREAMS_MAX, 0.0, stops),
    kind!("growth-ends", "streams, of which one opens and ends beside the others", STREAMS_MAX, 0.0, ends),
    // Blocks in progress are visited in bounded time ([report-15]): 30 ns each, at up to five instructions per nanosecond.
    kind!(
        "growth-reports",
        "open blocks which the peer never has, in reports on all of them",
        BLOCKS_MAX,
        200.0,
        reports
    ),
    kind!(
        "growth-flight",
        "datagrams in flight beside messages, of which the peer tells nothing",
        BLOCKS_MAX,
        0.0,
        flight
    ),
];

fn config() -> Config {
    Config { rate: Rate::Fixed { rate_bps: 1_000_000_000 }, ..Config::danger_unsealed() }
}

// ---- messages ----

/// Datagram number `at`: a message of 20 bytes, one symbol of a message of two, a repair symbol over two messages that never arrive, or the
/// first of these again.
fn message(at: u32) -> (Message, usize) {
    let one = |k, length_bytes| Coverage::One(MessageInfo { k, length_bytes });
    let of = |id, esi, coverage| {
        let lifetime_us = Message::LIFETIME_UNLIMITED - 1;
        Message { id, esi, coverage, clock_us: 0, age_us: 0, lifetime_us }
    };
    let first = at / 4 * 4;
    match at % 4 {
        0 | 3 => (of(first, 0, one(1, 20)), 20),
        1 => (of(first + 1, 0, one(2, 2)), 1),
        _ => (of(first + 2, 5, Coverage::Several(MessageGroup { count: 2, source_symbols: 2 })), 40),
    }
}

fn messages(filled: u32, count: u64) -> Result<()> {
    let features = Features::MESSAGES.union(Features::LOSS_RUNS);
    let mut scene = Scene::open(config().with_messages(true), features, 8)?;
    let say = |scene: &mut Scene, at: u32| {
        let (message, bytes) = message(at);
        scene.say(&Segment::Message(message), &[7; 40][..bytes])?;
        scene.now += Duration::from_micros(10);
        scene.serve();
        Ok(())
    };
    (0..filled).try_for_each(|at| say(&mut scene, at))?;
    counted(|| (filled..filled + count as u32).try_for_each(|at| say(&mut scene, at)))
}

// ---- streams ----

fn theirs(kind: StreamKind, index: u32) -> Result<StreamId> {
    StreamId::new(Opener::Initiator, kind, index).context("there is no such stream")
}

fn with_streams(filled: u32) -> Result<(Scene, u32)> {
    let streams = StreamLimits { bidirectional: STREAMS_MAX, one_way: STREAMS_MAX };
    let mut scene = Scene::open(Config { streams, ..config() }, Features::NONE, 0)?;
    let filled = filled.min(STREAMS_MAX - 1);
    scene.say(&Segment::Ack(Ack::KeepAlive { stream: theirs(StreamKind::OneWay, filled)? }), &[])?;
    scene.accept_all()?;
    Ok((scene, filled))
}

/// Delivers a block of one byte.
fn byte(scene: &mut Scene, stream: StreamId, block_id: u32, end_of_stream: bool) -> Result<()> {
    let block = BlockInfo { k: 1, length_bytes: 1, end_of_stream };
    scene.say(&Segment::Data(Data { stream, block_id, esi: 0, block, fragment: Fragment::WHOLE }), &[7])
}

/// Counts blocks of one byte on one stream, each read immediately.
fn bytes_of_one(scene: &mut Scene, count: u64) -> Result<()> {
    let stream = theirs(StreamKind::OneWay, 0)?;
    counted(|| {
        for block_id in 0..count as u32 {
            byte(scene, stream, block_id, false)?;
            scene.now += MS / 10;
            scene.serve();
            scene.read(stream)?;
        }
        Ok(())
    })
}

fn streams(filled: u32, count: u64) -> Result<()> {
    let (mut scene, filled) = with_streams(filled)?;
    for index in 1..filled {
        byte(&mut scene, theirs(StreamKind::OneWay, index)?, 0, false)?;
    }
    scene.settle(filled);
    bytes_of_one(&mut scene, count)
}

fn stops(filled: u32, count: u64) -> Result<()> {
    let (mut scene, filled) = with_streams(filled)?;
    for index in 1..filled {
        scene.stop(theirs(StreamKind::OneWay, index)?)?;
    }
    scene.settle(filled);
    bytes_of_one(&mut scene, count)
}

fn ends(filled: u32, count: u64) -> Result<()> {
    let (mut scene, _) = with_streams(filled)?;
    scene.settle(filled);
    counted(|| {
        // Bidirectional streams precede all others in the order of ids.
        for index in 1..count as u32 / 2 {
            let stream = theirs(StreamKind::Bidirectional, index)?;
            byte(&mut scene, stream, 0, true)?;
            scene.accept_all()?;
            scene.read(stream)?;
            scene.say(&Segment::Ack(Ack::ResetStream { stream, error: 7, end: 1 }), &[])?;
            scene.now += MS;
            scene.serve();
        }
        Ok(())
    })
}

// ---- reports ----

fn report(scene: &mut Scene, blocks: u32) -> Result<()> {
    let mut payload = [0; 1_000];
    let report = Report { memory_kib: u32::MAX, ..Report::default() };
    let mut writer = ReportWriter::new(&mut payload, &report)?;
    let nothing = StreamState { stream: StreamId::FIRST, ..StreamState::default() };
    if blocks > 0 {
        let mut record = writer.stream(&nothing).context("there is room for a stream")?;
        for first in (0..blocks).step_by(RUN_MAX) {
            ensure!(record.push(Run::Empty((blocks - first).min(RUN_MAX as u32))), "there is room for all runs");
        }
        record.finish();
    }
    let length = writer.finish();
    scene.say(&REPORT, &payload[..length])
}

/// Session with this number of one-byte blocks in progress.
fn with_blocks(config: Config, features: Features, blocks: u32) -> Result<Scene> {
    let mut scene = Scene::open(Config { window_blocks: Some(BLOCKS_MAX), ..config }, features, 0)?;
    report(&mut scene, 0)?;
    for _ in 0..blocks {
        scene.write(&[7])?;
        scene.now += MS;
        scene.serve();
    }
    Ok(scene)
}

fn reports(filled: u32, count: u64) -> Result<()> {
    let blocks = filled.min(BLOCKS_MAX);
    let mut scene = with_blocks(config(), Features::NONE, blocks)?;
    counted(|| {
        for _ in 0..count {
            // The interval leaves time to read each block ([report-15]).
            scene.now += MS * 10;
            scene.serve();
            report(&mut scene, blocks)?;
        }
        Ok(())
    })
}

fn flight(filled: u32, count: u64) -> Result<()> {
    let features = Features::MESSAGES.union(Features::LOSS_RUNS);
    let mut scene = with_blocks(config().with_messages(true), features, filled.min(BLOCKS_MAX))?;
    counted(|| {
        for _ in 0..count {
            scene.now += MS / 10;
            scene.say(&Segment::Ack(Ack::KeepAlive { stream: StreamId::FIRST }), &[])?;
            scene.serve();
        }
        Ok(())
    })
}
