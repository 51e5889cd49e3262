//! A listener in virtual time, and peers with hand-written datagrams.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use dfcp_proto::{Accept, Config, Connection, DATAGRAM_BUFFER_BYTES, Endpoint, EndpointStats, Event, Handle, Read};
use dfcp_testkit::{Host, Received};
use dfcp_time::Time;
use dfcp_wire::handshake::{Offer, Parameters};
use dfcp_wire::segment::{self, Ack, Address, Clear, Data, Segment, Syn, SynOptions};
use dfcp_wire::{
    BlockInfo, Features, Fragment, Ports, StreamId, StreamLimits, SymbolSize, Unverified, VERSION, classic,
};

pub(crate) const SYMBOL_SIZE: u16 = 1420;

const PORTS: Ports = Ports { source: 4_000, destination: 9_000 };

/// Returns the `n`th address.
pub(crate) fn address(n: u32) -> SocketAddr {
    (Ipv4Addr::from(0x0a00_0000 + n), 4_000).into()
}

/// A listener with its clock.
pub(crate) struct Server {
    pub(crate) now: Time,
    pub(crate) host: Host,
}

impl Server {
    pub(crate) fn new(accept: impl Into<Accept>) -> Self {
        let accept = accept.into();
        accept.validate().unwrap();
        let address = (Ipv4Addr::LOCALHOST, 9_000).into();
        Self { now: Time::from_s(1), host: Host::new(address, Some(accept), [7; 32]) }
    }

    /// Passes a datagram to the listener. Returns the connection that it opened, and the answer without a connection,
    /// if any.
    pub(crate) fn take(&mut self, from: SocketAddr, datagram: &[u8]) -> (Option<Handle>, Option<Vec<u8>>) {
        match self.host.receive(self.now, from, &mut datagram.to_vec()) {
            Received::Opened(handle) => (Some(handle), None),
            received => (None, received.reply()),
        }
    }

    pub(crate) fn connection(&mut self, handle: Handle) -> &mut Connection {
        self.host.connections.get_mut(&handle).unwrap()
    }

    /// Returns the datagrams that a connection sends now.
    pub(crate) fn sent(&mut self, handle: Handle) -> Vec<Vec<u8>> {
        let (now, mut out) = (self.now, [0; DATAGRAM_BUFFER_BYTES]);
        let connection = self.connection(handle);
        let next = || connection.poll_transmit(now, &mut out).map(|it| out[..it.length].to_vec());
        std::iter::from_fn(next).take(100_000).collect()
    }

    pub(crate) fn wait(&mut self, duration: Duration) {
        self.now += duration;
        self.host.handle_timeout(self.now);
    }

    pub(crate) fn read(&mut self, handle: Handle) -> usize {
        let (now, mut buffer, mut total) = (self.now, vec![0; 1 << 16], 0);
        while let Ok(Read::Bytes(count)) = self.connection(handle).streams().read(now, StreamId::FIRST, &mut buffer) {
            total += count;
        }
        total
    }

    pub(crate) fn stats(&self) -> EndpointStats {
        self.host.endpoint.stats()
    }

    /// Returns the `Closed` event of a connection, if it is closed.
    pub(crate) fn closed(&mut self, handle: Handle) -> Option<Event> {
        let connection = self.connection(handle);
        std::iter::from_fn(|| connection.poll_event()).find(|event| matches!(event, Event::Closed(_)))
    }
}

/// A misbehaving peer with plaintext datagrams.
#[derive(Clone)]
pub(crate) struct Rogue {
    pub(crate) address: SocketAddr,
    pub(crate) id: u32,
    pub(crate) handle: Option<Handle>,
    pub(crate) server_id: u32,
    pub(crate) number: u32,
    pub(crate) features: Features,
}

impl Rogue {
    pub(crate) fn new(n: u32) -> Self {
        Self { address: address(n), id: n + 1, handle: None, server_id: 0, number: 0, features: Features::NONE }
    }

    /// Opens a modern connection. Returns true if it was accepted.
    pub(crate) fn open(&mut self, server: &mut Server) -> bool {
        let syn = self.syn();
        self.handle = server.take(self.address, &syn).0;
        let Some(handle) = self.handle else { return false };
        self.server_id = server.connection(handle).local_id().unwrap();
        server.sent(handle);
        let ack = self.segment(Segment::Ack(Ack::OfSynAck { echo: 0 }), &[]);
        server.take(self.address, &ack);
        server.host.endpoint.established(handle);
        true
    }

    pub(crate) fn syn(&mut self) -> Vec<u8> {
        let offer = Offer {
            window_blocks: u32::MAX,
            receive_memory_bytes: u64::MAX,
            rate_max_bps: 0,
            idle_timeout_ms: 0,
            streams: StreamLimits::default(),
        };
        let mut payload = [0; 64];
        let length = Parameters { connection_id: self.id, offer }.encode(&mut payload).unwrap();
        let options = SynOptions { features: self.features, ..syn_options(SYMBOL_SIZE) };
        let syn = Segment::Syn(Syn { options: Some(options) });
        encode(&syn, Address::Ports(PORTS), self.next(), &payload[..length])
    }

    fn next(&mut self) -> u32 {
        self.number += 1;
        self.number - 1
    }

    pub(crate) fn segment(&mut self, segment: Segment, payload: &[u8]) -> Vec<u8> {
        encode(&segment, Address::Connection(self.server_id), self.next(), payload)
    }

    /// Sends an encoding symbol of a block of K full-size symbols. Its content is arbitrary, which no receiver can
    /// detect.
    pub(crate) fn symbol(&mut self, server: &mut Server, block_id: u32, k: u16, esi: u32) {
        let length_bytes = u32::from(k) * u32::from(SYMBOL_SIZE);
        self.data(server, block_id, BlockInfo { k, length_bytes, end_of_stream: false }, esi, SYMBOL_SIZE.into());
    }

    pub(crate) fn data(&mut self, server: &mut Server, block_id: u32, info: BlockInfo, esi: u32, bytes: usize) {
        let fragment = Fragment::WHOLE;
        let data = Segment::Data(Data { stream: StreamId::FIRST, block_id, esi, block: info, fragment });
        let datagram = self.segment(data, &vec![esi as u8; bytes]);
        server.take(self.address, &datagram);
    }

    /// Sends all source symbols of a block.
    pub(crate) fn block(&mut self, server: &mut Server, block_id: u32, k: u16) {
        (0..k.into()).for_each(|esi| self.symbol(server, block_id, k, esi));
    }
}

/// A peer with an encrypted connection.
pub(crate) struct Caller {
    pub(crate) connection: Connection,
    pub(crate) address: SocketAddr,
}

impl Caller {
    pub(crate) fn new(n: u32, config: Config) -> Self {
        Self::calling_at(Time::from_s(1), n, config)
    }

    pub(crate) fn calling_at(now: Time, n: u32, config: Config) -> Self {
        let mut seed = [9; 32];
        seed[..4].copy_from_slice(&n.to_le_bytes());
        let mut endpoint = Endpoint::new(4_000, None, seed);
        let (_, connection) = endpoint.connect(now, address(0), config).unwrap();
        Self { connection, address: address(n) }
    }

    pub(crate) fn datagram(&mut self, now: Time) -> Option<Vec<u8>> {
        let mut out = [0; DATAGRAM_BUFFER_BYTES];
        let length = self.connection.poll_transmit(now, &mut out)?.length;
        Some(out[..length].to_vec())
    }

    pub(crate) fn take(&mut self, now: Time, mut datagram: Vec<u8>) {
        self.connection.handle_datagram(now, address(0), &mut datagram);
    }
}

/// A misbehaving classic peer.
pub(crate) struct ClassicRogue {
    pub(crate) address: SocketAddr,
    pub(crate) handle: Option<Handle>,
    seed: u32,
}

impl ClassicRogue {
    pub(crate) fn new(n: u32) -> Self {
        Self { address: address(n), handle: None, seed: 0 }
    }

    pub(crate) fn open(&mut self, server: &mut Server) -> bool {
        let syn = classic_datagram(&classic::Segment::Syn { initial: [4_097, 4_098, 4_099] }, &[]);
        self.handle = server.take(self.address, &syn).0;
        let Some(handle) = self.handle else { return false };
        let answer = server.sent(handle).pop().unwrap();
        let Ok(Unverified::Classic(header)) = Unverified::read(&answer) else { panic!("{answer:?}") };
        let segment = header.verify(&answer).unwrap().segment;
        let classic::Segment::SynAck { initial } = segment else { panic!("{segment:?}") };
        let ack = classic_datagram(&classic::Segment::HandshakeAck { echo: initial }, &[]);
        server.take(self.address, &ack);
        server.host.endpoint.established(handle);
        true
    }

    /// Sends a segment with a generator state that was never used before.
    pub(crate) fn data(&mut self, server: &mut Server, block_id: u32) {
        self.seed += 1;
        let states = [1 << 20, 1 << 21, 1 << 22].map(|base| base + self.seed * 64);
        let data = classic::Segment::Data { block_id, state: states, block_length: None };
        let datagram = classic_datagram(&data, &[self.seed as u8; 1_420]);
        server.take(self.address, &datagram);
    }
}

pub(crate) fn syn_options(symbol_size: u16) -> SynOptions {
    SynOptions {
        version: VERSION,
        code: 1,
        symbol_size: SymbolSize::new(symbol_size).unwrap(),
        features: Features::NONE,
    }
}

/// Writes a modern cleartext datagram.
pub(crate) fn encode(segment: &Segment, address: Address, number: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = [0; DATAGRAM_BUFFER_BYTES];
    let mut draft = segment.begin_clear(address, number, &mut out);
    draft.payload(payload.len()).unwrap().copy_from_slice(payload);
    let length = draft.finish();
    out[..length].to_vec()
}

/// Returns the header and the contents of a modern cleartext datagram.
pub(crate) fn decode(datagram: &[u8]) -> (Clear, segment::Received<'_>) {
    let Ok(Unverified::Clear(header)) = Unverified::read(datagram) else { panic!("it is not in the clear") };
    (header, header.verify(datagram).unwrap())
}

/// Returns the datagram with another segment or payload.
pub(crate) fn rewritten(datagram: &[u8], segment: &Segment, payload: &[u8]) -> Vec<u8> {
    let (header, segment::Received { number, .. }) = decode(datagram);
    let address =
        if header.is_syn() { Address::Ports(header.ports()) } else { Address::Connection(header.connection_id()) };
    encode(segment, address, number, payload)
}

/// Recomputes the CRC of a datagram that has been changed.
pub(crate) fn renew_crc(datagram: &mut [u8]) {
    let (covered, crc) = datagram.split_last_chunk_mut().unwrap();
    *crc = crc_fast::crc32_iscsi(covered).to_be_bytes();
}

pub(crate) fn classic_datagram(segment: &classic::Segment, payload: &[u8]) -> Vec<u8> {
    let mut out = [0; DATAGRAM_BUFFER_BYTES];
    let mut draft = segment.begin(PORTS, &mut out);
    draft.payload(payload.len()).unwrap().copy_from_slice(payload);
    let length = draft.finish();
    out[..length].to_vec()
}

/// A plaintext listener with this much memory for blocks, bytes.
pub(crate) fn unsealed(memory_bytes_max: u64) -> Accept {
    Accept { memory_bytes_max: Some(memory_bytes_max), ..Config::danger_unsealed().into() }
}

pub(crate) fn classic(memory_bytes_max: u64) -> Accept {
    Accept { memory_bytes_max: Some(memory_bytes_max), ..Config::danger_classic().into() }
}
