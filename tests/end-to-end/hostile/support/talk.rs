//! Conversation of a server with unlimited data and a hand-driven peer.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use dfcp_proto::{Config, ConnectionError};
use dfcp_testkit::{Packet, server_address};
use dfcp_time::Time;
use dfcp_wire::Flags;
use dfcp_wire::feedback::{Report, Run};
use dfcp_wire::handshake::Offer;

use crate::puppet::{Opened, Puppet, boundless_report, decoded, first_contact};
use crate::world::{World, stranger};

/// Headers of IPv4 and UDP, bytes.
const HEADERS_BYTES: u64 = 28;

/// A conversation in virtual time.
#[derive(Debug)]
pub struct Talk {
    /// World whose server is the victim.
    pub world: World,
    /// Peer of the victim.
    pub puppet: Puppet,
    /// The peer's address.
    pub from: SocketAddr,
    /// Highest datagram number received by the puppet.
    pub highest: u32,
    /// Highest block id received by the puppet, plus one.
    pub blocks: u32,
    /// Number of datagrams received by the puppet.
    pub seen: u32,
    /// Number of these datagrams without data.
    pub control: u32,
    /// Block id of the server's FIN.
    pub end: Option<u32>,
}

impl Talk {
    /// Starts a talk; the handshake is done, except that the third message is still in flight.
    ///
    /// # Errors
    /// Fails if the server does not answer.
    pub fn new(seed: u64, config: Config, offer: &Offer) -> Result<Self> {
        let (mut talk, third) = Self::unproven(seed, config, offer)?;
        talk.say(third);
        Ok(talk)
    }

    /// Starts a talk whose third handshake message is not sent yet.
    ///
    /// # Errors
    /// Fails if the server does not answer.
    pub fn unproven(seed: u64, config: Config, offer: &Offer) -> Result<(Self, Vec<u8>)> {
        let mut world = World::new(seed, config);
        world.server.job.send_bytes = u64::MAX;
        let from = stranger(1);
        let mut puppet = Puppet::new(77, first_contact(3), [seed as u8; 32], offer)?;
        let now = world.now;
        let answer = world.server.receive(now, from, &puppet.syn(None, 150)?).context("no answer to the SYN")?;
        let third = puppet.take_answer(&answer)?.context("no third message")?;
        Ok((Self { world, puppet, from, highest: 0, blocks: 0, seen: 0, control: 0, end: None }, third))
    }

    /// Sends a datagram to the server.
    pub fn say(&mut self, datagram: Vec<u8>) {
        self.say_from(self.from, datagram);
    }

    /// Sends a datagram with another source address.
    pub fn say_from(&mut self, from: SocketAddr, bytes: Vec<u8>) {
        self.world.put(Packet { from, to: server_address(), bytes }, Duration::from_millis(5));
    }

    /// Runs until `until`; `react` receives each datagram of the server and returns the puppet's answers.
    pub fn run(&mut self, until: Time, mut react: impl FnMut(&mut Self, &Opened) -> Vec<Vec<u8>>) {
        while self.world.step(until) {
            for packet in std::mem::take(&mut self.world.elsewhere) {
                if packet.to != self.from {
                    continue;
                }
                let Some(opened) = self.puppet.open(&packet.bytes) else { continue };
                self.note(&opened);
                for answer in react(self, &opened) {
                    self.say(answer);
                }
            }
        }
        self.world.now = self.world.now.max(until);
    }

    fn note(&mut self, opened: &Opened) {
        let flags = opened.header.flags.without(Flags::SEC);
        self.highest = self.highest.max(opened.header.s3);
        self.seen += 1;
        if flags.is_empty() {
            self.blocks = self.blocks.max(opened.header.block_id + 1);
            return;
        }
        self.control += 1;
        if flags == Flags::FIN {
            self.end = Some(opened.header.block_id);
        }
    }

    /// Runs for `ms` milliseconds.
    pub fn run_for(&mut self, ms: u64, react: impl FnMut(&mut Self, &Opened) -> Vec<Vec<u8>>) {
        let until = self.world.now + Duration::from_millis(ms);
        self.run(until, react);
    }

    /// Bytes of IP packets sent by the server, to any address.
    #[must_use]
    pub fn drawn_bytes(&self) -> u64 {
        let server = &self.world.server;
        let sum = |sent: &std::collections::BTreeMap<SocketAddr, u64>| sent.values().sum::<u64>();
        sum(&server.sent_bytes) + HEADERS_BYTES * sum(&server.sent_datagrams)
    }

    /// Bits of IP packets sent by the server to the puppet.
    #[must_use]
    pub fn sent_bits(&self) -> u64 {
        self.sent_bytes_to(self.from) * 8
    }

    /// Bytes of IP packets sent by the server to this address.
    #[must_use]
    pub fn sent_bytes_to(&self, to: SocketAddr) -> u64 {
        let datagrams = self.world.server.sent_datagrams.get(&to).copied().unwrap_or_default();
        let bytes = self.world.server.sent_bytes.get(&to).copied().unwrap_or_default();
        bytes + HEADERS_BYTES * datagrams
    }

    /// Error that ended the connection, if any.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        self.world.server.ended.first().cloned().flatten()
    }

    /// Makes a consistent report without complete blocks: all data was lost.
    ///
    /// # Errors
    /// Fails like [`Puppet::seal`].
    pub fn nothing_yet(&mut self, change: impl FnOnce(&mut Report)) -> Result<Vec<u8>> {
        let mut report = Report {
            datagrams_received: self.control,
            memory_kib: 32 << 10,
            arrival_rate_bps: 20_000_000,
            ..boundless_report(self.highest)
        };
        change(&mut report);
        let runs: &[Run] = if self.blocks > 0 { &[Run::Empty(self.blocks)] } else { &[] };
        self.puppet.report(&decoded(0), &report, runs)
    }
}

/// Reaction that sends nothing.
pub fn silent(_: &mut Talk, _: &Opened) -> Vec<Vec<u8>> {
    Vec::new()
}
