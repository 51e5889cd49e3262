//! Two ends of a connection, and an adversary between them who delays, loses, copies, reorders, changes and invents
//! datagrams while the applications write, read and close (`spec/protocol.md`).
//!
//! In every scenario:
//! - no end panics;
//! - delivered bytes are a prefix of the written bytes;
//! - every due timer is served;
//! - an end gets at most as many datagrams as it sent before its address is proven;
//! - without the adversary, all written bytes arrive, unless the connection has ended with an error.
//!
//! Plaintext profiles promise nothing about content once a changed datagram passes its checksum: classic's is weak,
//! modern's CRC would have to be guessed. Encrypted connections always promise it.

use std::time::Duration;

use dfcp_proto::{Config, PeerKey, Profile, Rate, Schedule, StreamKind, StreamLimits, Traffic, limits};
use dfcp_testkit::Trust;

use crate::input::Input;
use crate::network::Network;
use crate::side::Action;
use crate::streams::StreamAction;

const OPERATIONS_MAX: usize = 500;
/// Bytes that an end may write, and number of datagrams after which a scenario ends.
const MODERN_MAX: (u64, u64) = (400_000, 4_000);
/// Same limits for classic, whose datagrams cost a hundred times as much: a graph, and an attempt to decode.
const CLASSIC_MAX: (u64, u64) = (80_000, 300);

const STEPS: [Duration; 10] = [
    Duration::from_nanos(1),
    Duration::from_micros(150),
    Duration::from_millis(1),
    Duration::from_millis(4),
    Duration::from_millis(11),
    Duration::from_millis(50),
    Duration::from_millis(300),
    Duration::from_millis(1_100),
    Duration::from_secs(11),
    Duration::from_secs(61),
];

/// Small limits, so that credit runs out.
const STREAMS: StreamLimits = StreamLimits { bidirectional: 4, one_way: 3 };

/// Protection and features of a scenario's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sealed,
    /// Encrypted, and with messages.
    Messages,
    Unsealed,
    Classic,
}

/// Runs the scenario described by the input, with encrypted connections.
pub fn sealed(data: &[u8]) {
    run(Kind::Sealed, data);
}

/// Runs the scenario with encrypted connections and messages.
pub fn messages(data: &[u8]) {
    run(Kind::Messages, data);
}

/// Runs the scenario with plaintext modern connections.
pub fn unsealed(data: &[u8]) {
    run(Kind::Unsealed, data);
}

/// Runs the scenario with classic connections.
pub fn classic(data: &[u8]) {
    run(Kind::Classic, data);
}

/// Trust between the two ends.
const TRUSTS: [Trust; 3] = [Trust::FirstContact, Trust::Pinned, Trust::PreShared];

/// Runs a scenario; returns the network at its end.
fn run(kind: Kind, data: &[u8]) -> Network {
    let mut input = Input::new(data);
    let profile = if kind == Kind::Classic { Profile::Classic } else { Profile::Modern };
    let (mut client, mut server) = (configuration(&mut input, kind), configuration(&mut input, kind));
    if matches!(kind, Kind::Sealed | Kind::Messages) {
        (client.security, server.security) = input.pick(&TRUSTS).security();
    }
    let settles = input.bool();
    let mut network = Network::new(client, server);
    let (written_max, datagrams_max) = match profile {
        Profile::Modern => MODERN_MAX,
        Profile::Classic => CLASSIC_MAX,
    };
    network.work();
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() || network.datagrams > datagrams_max {
            break;
        }
        operation(&mut input, &mut network, written_max, kind);
        network.work();
    }
    for side in &mut network.sides {
        side.read(network.now, usize::MAX);
    }
    let [client, server] = &mut network.sides;
    client.receive_messages(&server.messages);
    server.receive_messages(&client.messages);
    let untouched = network.sides.iter().all(|side| side.is_checked && !side.is_throttled);
    if settles && untouched {
        network.settle(datagrams_max * 2);
    }
    network
}

/// A valid configuration. Windows and buffers are small more often than in practice.
fn configuration(input: &mut Input<'_>, kind: Kind) -> Config {
    let base = match kind {
        Kind::Sealed => Config::sealed(PeerKey::Any),
        Kind::Messages => Config::sealed(PeerKey::Any).with_messages(true),
        Kind::Unsealed => Config::danger_unsealed(),
        Kind::Classic => Config::danger_classic(),
    };
    let largest = if matches!(kind, Kind::Sealed | Kind::Messages) { 1452 } else { 1468 };
    let fixed = |rate_bps| Rate::Fixed { rate_bps };
    let config = base
        .clone()
        .with_rate(input.pick(&[base.rate, Rate::Line, fixed(1_000_000), fixed(10_000_000), fixed(1_000_000_000)]))
        .with_breaker(input.bool())
        .with_traffic(input.pick(&[Traffic::Bulk, Traffic::LowLatency]))
        .with_symbol_size(input.pick(&[1420, 64, 100, largest, 1412]))
        .with_window_blocks(input.pick(&[base.blocks_in_window(), 1, 2, 5, 40]))
        .with_send_buffer_bytes(input.pick(&[base.send_buffer_bytes, 1, 700, 10_000, 200_000]))
        .with_receive_memory_bytes(input.pick(&[base.receive_memory_bytes, limits::RECEIVE_MEMORY_BYTES_MIN]))
        .with_receive_rate_max_bps(input.pick(&[0, 2_000_000, 50_000_000]))
        .with_idle_timeout(input.pick(&[base.idle_timeout, Duration::from_millis(100), Duration::from_secs(3)]))
        .with_keep_alive(input.pick(&[base.keep_alive, None, Some(Duration::from_millis(10))]))
        .with_schedule(match kind {
            Kind::Sealed | Kind::Messages | Kind::Unsealed => base.schedule,
            Kind::Classic => input.pick(&[base.schedule, Schedule::OpenLoop { redundancy: 0.05 }]),
        });
    let config = match kind {
        Kind::Sealed | Kind::Messages | Kind::Unsealed => Config { streams: STREAMS, ..config },
        Kind::Classic => config,
    };
    config.validate().expect("every choice is in its range");
    config
}

/// Smallest value of the choice byte that selects an action on streams.
const FIRST_STREAM_ACTION: u8 = 96;
const STREAM_ACTIONS: [StreamAction; 8] = [
    StreamAction::Open(StreamKind::Bidirectional),
    StreamAction::Open(StreamKind::OneWay),
    StreamAction::Write,
    StreamAction::Read,
    StreamAction::Finish,
    StreamAction::Accept,
    StreamAction::Reset,
    StreamAction::Stop,
];

/// Sends a message, or reads all messages that have arrived.
fn act_on_messages(input: &mut Input<'_>, network: &mut Network, side: usize) {
    let [first, second] = &mut network.sides;
    let (own, peer) = if side == 0 { (first, second) } else { (second, first) };
    if input.u8().is_multiple_of(4) {
        own.receive_messages(&peer.messages);
    } else {
        own.send_message(network.now, input);
    }
}

/// Executes one action of an application, the clock or the adversary.
fn operation(input: &mut Input<'_>, network: &mut Network, written_max: u64, kind: Kind) {
    let choice = input.u8();
    let side = usize::from(choice >> 7);
    let now = network.now;
    if let Some(place) = (choice % 0x80).checked_sub(FIRST_STREAM_ACTION) {
        if kind == Kind::Messages && place % 2 == 1 {
            return act_on_messages(input, network, side);
        }
        let action = STREAM_ACTIONS[usize::from(place) % STREAM_ACTIONS.len()];
        return network.sides[side].act_on_stream(now, action, input);
    }
    match choice % 0x80 % 24 {
        0..=2 => {
            let length = if input.bool() { input.u8().into() } else { usize::from(input.u16()) };
            if network.sides[side].written_max + length as u64 <= written_max {
                network.sides[side].write(now, length);
            }
        }
        3 | 4 => {
            let length = input.u16().into();
            network.sides[side].read(now, length);
        }
        5 => network.sides[side].act(now, Action::Flush),
        6 => {
            let action = if input.rarely(8) { Action::Abort } else { Action::ShutDown };
            network.sides[side].act(now, action);
        }
        7 => network.sides[side].set_something(input),
        8 | 9 => network.advance_to_timer(Duration::from_secs(40)),
        10 | 11 => network.now = now + input.pick(&STEPS),
        12 => {
            let index = input.below(network.waiting(side));
            network.deliver(side, index);
        }
        13..=15 => network.deliver_all(side, false),
        16 => network.deliver_all(side, true),
        17 => {
            let index = input.below(network.waiting(side));
            network.lose(side, index);
        }
        18 => network.lose_many(side, input.below(64)),
        19 => {
            let index = input.below(network.waiting(side));
            network.duplicate(side, index);
        }
        20 | 21 => {
            let index = input.below(network.waiting(side));
            network.change(side, index, input);
        }
        22 => {
            let third = input.bool();
            let bytes = input.short_bytes();
            network.inject(side, third, bytes);
        }
        _ => {
            let index = input.below(network.recorded());
            network.replay(index, input.rarely(4));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;

    fn seed(target: &str, name: &str) -> Vec<u8> {
        let found = seeds::all().into_iter().find(|seed| seed.target == target && seed.name == name);
        found.expect("a seed of this name").bytes
    }

    /// Guards against a driver that never delivers anything, and so finds no fault.
    #[test]
    fn the_undisturbed_stories_deliver_everything() {
        for (kind, target, name, bytes) in [
            (Kind::Sealed, "connection", "long", 60_000),
            (Kind::Sealed, "connection", "short", 1),
            (Kind::Unsealed, "connection_unsealed", "long", 60_000),
            (Kind::Classic, "connection_classic", "short", 5_000),
        ] {
            let network = run(kind, &seed(target, name));
            let [client, server] = &network.sides;
            assert_eq!((client.written_max, server.read_max), (bytes, bytes), "{target} {name}");
        }
    }

    #[test]
    fn the_undisturbed_story_delivers_messages() {
        let network = run(Kind::Messages, &seed("connection_messages", "long"));
        let [client, server] = &network.sides;
        assert!(client.messages.received() > 3 && server.messages.received() > 3);
    }

    #[test]
    #[should_panic(expected = "is not the one that was written")]
    fn a_wrong_byte_is_noticed() {
        let network = &mut Network::new(Config::danger_unsealed(), Config::danger_unsealed());
        network.sides[1] =
            crate::side::Side::new(network.sides[1].host.address, Some(Config::danger_unsealed().into()), 2, 99);
        network.sides[0].write(network.now, 100);
        network.settle(1_000);
    }

    #[test]
    #[should_panic(expected = "nothing was delivered for too long")]
    fn a_connection_which_hangs_is_noticed() {
        // Neither end gives up, and the receiver's application never reads: for the driver the connection hangs.
        let patient = Config::danger_unsealed().with_idle_timeout(Duration::from_secs(1_000));
        let network = &mut Network::new(patient.clone(), patient);
        network.sides[0].write(network.now, 100);
        network.hang();
    }
}
