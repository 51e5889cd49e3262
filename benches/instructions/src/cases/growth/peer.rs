//! A victim in virtual time, and an unencrypted peer that sends hand-made datagrams.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, bail};
use dfcp_proto::{Accept, Config, Connection, DATAGRAM_BUFFER_BYTES, Handle, Read, StreamId};
use dfcp_testkit::{Host, Received};
use dfcp_time::Time;
use dfcp_wire::handshake::{Offer, Parameters};
use dfcp_wire::segment::{Ack, Address, Segment, Syn, SynOptions};
use dfcp_wire::{Features, Ports, StreamLimits, SymbolSize, VERSION};

const PORTS: Ports = Ports { source: 4_000, destination: 9_000 };
/// Connection id chosen by the peer.
const ID: u32 = 77;
const CODE_RANDOM_LINEAR: u8 = 1;

/// An open session.
pub(super) struct Scene {
    pub(super) now: Time,
    victim: Host,
    handle: Option<Handle>,
    id: u32,
    number: u32,
    buffer: [u8; DATAGRAM_BUFFER_BYTES],
}

impl Scene {
    /// Opens a session with a victim of this configuration; the first datagram has the number `first`.
    pub(super) fn open(config: Config, features: Features, first: u32) -> Result<Self> {
        let accept = Accept { memory_bytes_max: Some(1 << 30), ..config.into() };
        let mut scene = Self {
            now: Time::from_s(1),
            victim: Host::new((Ipv4Addr::LOCALHOST, PORTS.destination).into(), Some(accept), [7; 32]),
            handle: None,
            id: 0,
            number: first,
            buffer: [0; DATAGRAM_BUFFER_BYTES],
        };
        let offer = Offer {
            window_blocks: u32::MAX,
            receive_memory_bytes: u64::MAX,
            rate_max_bps: 0,
            idle_timeout_ms: 0,
            streams: StreamLimits { bidirectional: u32::MAX >> 3, one_way: u32::MAX >> 3 },
        };
        let mut payload = [0; 64];
        let length = Parameters { connection_id: ID, offer }.encode(&mut payload)?;
        let symbol_size = SymbolSize::new(1_420).context("a symbol has this size")?;
        let options = SynOptions { version: VERSION, code: CODE_RANDOM_LINEAR, symbol_size, features };
        let syn = Segment::Syn(Syn { options: Some(options) });
        let length = scene.encode(&syn, Address::Ports(PORTS), &payload[..length])?;
        let opened = scene.victim.receive(scene.now, address(), &mut scene.buffer[..length]);
        let Received::Opened(handle) = opened else { bail!("the session was not opened: {opened:?}") };
        scene.handle = Some(handle);
        scene.id = scene.connection()?.local_id().context("the session has an id")?;
        scene.serve();
        scene.say(&Segment::Ack(Ack::OfSynAck { echo: first }), &[])?;
        scene.victim.endpoint.established(handle);
        Ok(scene)
    }

    fn encode(&mut self, segment: &Segment, address: Address, payload: &[u8]) -> Result<usize> {
        let mut draft = segment.begin_clear(address, self.number, &mut self.buffer);
        draft.payload(payload.len())?.copy_from_slice(payload);
        self.number += 1;
        Ok(draft.finish())
    }

    /// Delivers a datagram of the peer.
    pub(super) fn say(&mut self, segment: &Segment, payload: &[u8]) -> Result<()> {
        let length = self.encode(segment, Address::Connection(self.id), payload)?;
        self.take_in(length);
        Ok(())
    }

    /// Processes a datagram at the victim.
    #[inline(never)] // callgrind finds the function by its name
    fn take_in(&mut self, length: usize) {
        self.victim.receive(self.now, address(), &mut self.buffer[..length]);
    }

    /// Handles the victim's timers, sends its datagrams, and lets its application read messages.
    #[inline(never)] // callgrind finds the function by its name
    pub(super) fn serve(&mut self) {
        self.victim.handle_timeout(self.now);
        while self.victim.transmit(self.now).is_some() {}
        while self.handle.and_then(|handle| self.victim.poll_event(handle)).is_some() {}
        if let Some(mut messages) = self.victim.connection_mut().and_then(Connection::messages) {
            while messages.receive().is_some() {}
        }
        std::hint::black_box(self.victim.next_timeout(self.now));
    }

    /// Exchanges datagrams until all reports about `things` items have been sent.
    pub(super) fn settle(&mut self, things: u32) {
        for _ in 0..things / 8 + 10 {
            self.now += super::MS * 2;
            self.serve();
        }
    }

    fn connection(&mut self) -> Result<&mut Connection> {
        self.victim.connection_mut().context("the session is gone")
    }

    pub(super) fn accept_all(&mut self) -> Result<()> {
        let mut streams = self.connection()?.streams();
        while streams.accept().is_some() {}
        while streams.poll_event().is_some() {}
        Ok(())
    }

    pub(super) fn read(&mut self, id: StreamId) -> Result<()> {
        let now = self.now;
        let mut streams = self.connection()?.streams();
        while matches!(streams.read(now, id, &mut [0; 100])?, Read::Bytes(_)) {}
        while streams.poll_event().is_some() {}
        Ok(())
    }

    pub(super) fn stop(&mut self, id: StreamId) -> Result<()> {
        let now = self.now;
        self.connection()?.streams().stop_sending(now, id, 9);
        Ok(())
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let now = self.now;
        let connection = self.connection()?;
        connection.streams().write(now, StreamId::FIRST, bytes)?;
        connection.streams().flush(StreamId::FIRST);
        Ok(())
    }
}

fn address() -> SocketAddr {
    (Ipv4Addr::from(0x0a00_0001), PORTS.source).into()
}
