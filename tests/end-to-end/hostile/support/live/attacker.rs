//! Attacks on a live server: datagrams, source addresses and rate.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use dfcp_proto::StaticKey;
use dfcp_testkit::raw;
use dfcp_wire::Flags;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Size;
use crate::forge::{FLAGS, LENGTH_MAX, mutated, noise, spoofed};
use crate::puppet::{MODEST, Puppet, first_contact, pinned};

/// Sockets of the attacker open at a time, each with its own address.
const SOCKETS: usize = 64;

/// Datagrams after which one socket gets another address.
const DATAGRAMS_PER_ADDRESS: u64 = 64;

/// Datagrams after which forgers of proofs start new handshakes.
const DATAGRAMS_PER_HALF_OPEN: u64 = 250_000;

/// Datagrams between two checks of the clock and of the server's memory.
const BATCH: u64 = 256;

/// An attack on a live server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// No attack, for the duration of another one: the reference for comparison.
    Nothing,
    /// Random bytes, and modified genuine datagrams.
    Mutations,
    /// SYNs without intent to connect, from ever new addresses.
    SynFlood,
    /// Handshakes that are started, with cookie, and never completed.
    SlowLoris,
    /// First messages to the server's key that it cannot read, each different and with its cookie.
    UnreadableFirst,
    /// Third messages and first datagrams with wrong proofs, for half-open connections.
    ForgedProofs,
    /// RST, FIN, ACK, feedback and data, half of them with observed ids.
    Spoofed,
    /// A recorded session, repeated.
    Replay,
    /// Genuine datagrams truncated to every length, or longer than permitted.
    Lengths,
}

impl Attack {
    /// All attacks.
    pub const ALL: [Self; 9] = [
        Self::Nothing,
        Self::Mutations,
        Self::SynFlood,
        Self::SlowLoris,
        Self::UnreadableFirst,
        Self::ForgedProofs,
        Self::Spoofed,
        Self::Replay,
        Self::Lengths,
    ];

    /// Name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none, for comparison",
            Self::Mutations => "random and mutated datagrams",
            Self::SynFlood => "SYN flood",
            Self::SlowLoris => "slow-loris handshakes",
            Self::UnreadableFirst => "unreadable first messages",
            Self::ForgedProofs => "forged third messages",
            Self::Spoofed => "spoofed RST, FIN, ACK, FBK, data",
            Self::Replay => "replayed session",
            Self::Lengths => "truncated and oversized",
        }
    }

    /// True if the attack can take all places for half-open connections, because its addresses are genuine. New connections then wait or
    /// fail, while open ones continue.
    pub(super) fn may_deny_entry(self) -> bool {
        matches!(self, Self::SlowLoris)
    }

    fn listens(self) -> bool {
        matches!(self, Self::SlowLoris | Self::UnreadableFirst | Self::ForgedProofs)
    }
}

/// Traffic of the attacker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub(super) datagrams: u64,
    pub(super) bytes: u64,
    pub(super) addresses: u64,
    pub(super) answers: u64,
}

struct Attacker<'a> {
    attack: Attack,
    server: SocketAddr,
    random: Pcg64Mcg,
    captured: &'a [Vec<u8>],
    /// Observed ids of connections to the server.
    ids: Vec<u32>,
    puppet: Puppet,
    /// Puppets, one per socket, whose half-open connections get forged proofs.
    puppets: Vec<Puppet>,
    /// Ids that the server has assigned to these connections.
    half_open: Vec<u32>,
    renew_at: u64,
    sockets: Vec<UdpSocket>,
    sent: Sent,
}

/// Sends the attack's datagrams, and calls `look` repeatedly.
pub(super) fn attack(
    attack: Attack,
    size: Size,
    server: SocketAddr,
    captured: &[Vec<u8>],
    mut look: impl FnMut(u64),
) -> Result<Sent> {
    let mut ids: Vec<u32> =
        captured.iter().filter_map(|it| raw::read(it)).map(|it| it.header.connection_id()).collect();
    ids.sort_unstable();
    ids.dedup();
    let keys = match attack {
        Attack::UnreadableFirst => pinned(3, StaticKey::from_seed(&[4; 32]).public()),
        _ => first_contact(3),
    };
    let mut attacker = Attacker {
        attack,
        server,
        random: Pcg64Mcg::seed_from_u64(size.seed),
        captured,
        ids,
        puppet: Puppet::new(1, keys, [size.seed as u8; 32], &MODEST)?,
        puppets: Vec::new(),
        half_open: Vec::new(),
        renew_at: 0,
        sockets: Vec::new(),
        sent: Sent::default(),
    };
    for _ in 0..SOCKETS {
        let socket = attacker.new_socket()?;
        attacker.sockets.push(socket);
    }
    let started = Instant::now();
    if attack == Attack::Nothing {
        let end = Duration::from_nanos(size.datagrams.saturating_mul(1_000_000_000) / size.datagrams_per_s);
        while started.elapsed() < end {
            look(0);
            std::thread::sleep(Duration::from_millis(2));
        }
        return Ok(Sent::default());
    }
    while attacker.sent.datagrams < size.datagrams {
        for _ in 0..BATCH {
            attacker.one()?;
        }
        look(attacker.sent.datagrams);
        let due = Duration::from_nanos(attacker.sent.datagrams.saturating_mul(1_000_000_000) / size.datagrams_per_s);
        std::thread::sleep(due.saturating_sub(started.elapsed()));
    }
    Ok(attacker.sent)
}

impl Attacker<'_> {
    fn new_socket(&mut self) -> Result<UdpSocket> {
        let [a, b, c] = [self.random.random(), self.random.random(), self.random.random_range(1..255)];
        let socket = UdpSocket::bind(SocketAddr::from(([127, a, b, c], 0))).context("an address of 127.0.0.0/8")?;
        socket.set_nonblocking(true)?;
        self.sent.addresses += 1;
        Ok(socket)
    }

    fn one(&mut self) -> Result<()> {
        if self.attack == Attack::ForgedProofs && self.sent.datagrams >= self.renew_at {
            self.renew()?;
        }
        if self.attack != Attack::ForgedProofs && self.sent.datagrams.is_multiple_of(DATAGRAMS_PER_ADDRESS) {
            let place = self.random.random_range(0..SOCKETS);
            self.sockets[place] = self.new_socket()?;
        }
        let place = self.random.random_range(0..self.sockets.len());
        if self.attack.listens() {
            self.listen(place)?;
        }
        let datagram = self.datagram()?;
        self.send(place, &datagram);
        Ok(())
    }

    fn send(&mut self, place: usize, datagram: &[u8]) {
        // A datagram refused by the system is lost, as on any path.
        let _lost = self.sockets[place].send_to(datagram, self.server);
        self.sent.datagrams += 1;
        self.sent.bytes += datagram.len() as u64;
    }

    fn genuine(&mut self) -> Vec<u8> {
        self.captured[self.random.random_range(0..self.captured.len())].clone()
    }

    fn datagram(&mut self) -> Result<Vec<u8>> {
        Ok(match self.attack {
            Attack::Nothing => Vec::new(),
            Attack::Mutations if self.random.random_bool(0.3) => noise(&mut self.random),
            Attack::Mutations => {
                let genuine = self.genuine();
                mutated(&mut self.random, &genuine)
            }
            Attack::ForgedProofs if !self.half_open.is_empty() => {
                self.puppet.peer_id = self.half_open[self.random.random_range(0..self.half_open.len())];
                // The first part is a point on the curve, so that the server has to compute.
                self.puppet.third(&[0x42; 64])?
            }
            Attack::SynFlood | Attack::SlowLoris | Attack::ForgedProofs => {
                self.puppet.id = self.random.random_range(1..u32::MAX);
                self.puppet.syn(None, 150)?
            }
            Attack::UnreadableFirst => {
                let id = self.random.random_range(1..u32::MAX);
                self.begin_with(id);
                self.puppet.syn(None, 150)?
            }
            Attack::Spoofed => {
                let overheard = self.random.random_bool(0.5);
                let id = if overheard {
                    self.ids[self.random.random_range(0..self.ids.len())]
                } else {
                    self.random.random()
                };
                let flags = if self.random.random_bool(0.2) {
                    Flags::default()
                } else {
                    FLAGS[self.random.random_range(0..FLAGS.len())]
                };
                spoofed(&mut self.random, id, flags)
            }
            Attack::Replay => self.genuine(),
            Attack::Lengths => {
                let length = self.random.random_range(0..LENGTH_MAX);
                let mut datagram = self.genuine();
                datagram.resize(length, 0x55);
                datagram
            }
        })
    }

    /// Sets the id of the next handshake. An unreadable first message is derived from the id, so that the SYNs without
    /// and with the cookie carry the same message.
    fn begin_with(&mut self, id: u32) {
        self.puppet.id = id;
        if self.attack == Attack::UnreadableFirst {
            self.puppet.spoil_first(id);
        }
    }

    /// Starts a handshake from each socket.
    fn renew(&mut self) -> Result<()> {
        self.renew_at = self.sent.datagrams + DATAGRAMS_PER_HALF_OPEN;
        self.half_open.clear();
        self.puppets.clear();
        for place in 0..SOCKETS {
            let id = self.random.random_range(1..u32::MAX);
            let puppet = Puppet::new(id, first_contact(3), self.random.random(), &MODEST)?;
            let syn = puppet.syn(None, 150)?;
            self.puppets.push(puppet);
            self.send(place, &syn);
        }
        Ok(())
    }

    /// Reads the server's answers: cookies are sent back with the SYN, and SYNACKs contain the half-open connection's id.
    fn listen(&mut self, place: usize) -> Result<()> {
        let mut buffer = [0; 2_048];
        while let Ok((length, _)) = self.sockets[place].recv_from(&mut buffer) {
            self.sent.answers += 1;
            let Some(answer) = raw::read(&buffer[..length]).map(|it| it.header) else { continue };
            if let Some(cookie) = Puppet::cookie(&buffer[..length]) {
                self.begin_with(answer.connection_id());
                let syn = self.puppet.syn(Some(&cookie), 150)?;
                self.send(place, &syn);
            } else if self.attack == Attack::ForgedProofs
                && let Some(puppet) = self.puppets.get_mut(place)
                && puppet.peer_id == 0
                && puppet.take_answer(&buffer[..length]).is_ok()
            {
                self.half_open.push(puppet.peer_id);
            }
        }
        Ok(())
    }
}
