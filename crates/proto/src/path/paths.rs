//! Paths of a session, and validation of a new address of the peer (`spec/protocol.md`, "Paths"; RFC 9000 §8.2, §9).
//! Encrypted connections only: in plaintext anybody could pretend to be the peer.
//!
//! One path is in use, and some candidate addresses may be in validation. Datagram numbers, keys, arrivals and ECN
//! marks do not belong to a path. All paths share one number space, as in RFC 9000 §12.3, and reports count in that
//! space.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use dfcp_time::Time;

use crate::limits;
use crate::path::numbers::DatagramNumbers;
use crate::path::{Path, PathId};

/// A challenge that was sent.
#[derive(Clone, Copy, Debug)]
struct Challenge {
    token: u64,
    left_at: Time,
}

/// An address at which the peer has yet to prove that it receives.
#[derive(Debug)]
struct Candidate {
    remote: SocketAddr,
    /// Newest challenges sent. Each has its own token, so that a response identifies the challenge it answers.
    challenges: VecDeque<Challenge>,
    asked_since: Option<Time>,
    /// Datagrams received from the address, less those sent to it. Each permits one datagram to it.
    owed: u8,
}

impl Candidate {
    /// Returns the earliest time of the next challenge.
    fn due_at(&self) -> Time {
        let (Some(since), Some(last)) = (self.asked_since, self.challenges.back()) else { return Time::ZERO };
        let wait = last.left_at.since(since) / limits::PATH_CHALLENGE_PARTS;
        last.left_at + wait.clamp(limits::PATH_CHALLENGE_INTERVAL_MIN, limits::PATH_CHALLENGE_INTERVAL_MAX)
    }

    fn last_left_at(&self) -> Option<Time> {
        self.challenges.back().map(|challenge| challenge.left_at)
    }
}

/// Result of a validation: the peer receives at another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Time from the answered challenge to its response.
    pub(crate) rtt: Duration,
    /// True if the IP address differs, false if only the port does.
    pub(crate) is_other_host: bool,
}

/// A path validation message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathMessage {
    /// Path challenge with a token, which the peer must return.
    Challenge(u64),
    /// Path response with the token of the peer's challenge.
    Response(u64),
}

/// The path in use, and candidate addresses of the peer.
#[derive(Debug)]
pub(crate) struct Paths {
    active: Path,
    /// State of validations. `None` until an end seems to have moved.
    asking: Option<Box<Asking>>,
    /// Number of changes of the peer's address.
    changes: u64,
    /// Number of times that another path replaced the active one.
    replaced: u32,
}

/// Candidate addresses with their challenges, and responses to the peer's challenges.
#[derive(Debug, Default)]
struct Asking {
    candidates: VecDeque<Candidate>,
    responses: VecDeque<(SocketAddr, u64)>,
    /// Time of the last challenge to any address. It outlives candidates, so that an address which is forgotten and
    /// returns is not challenged sooner.
    asked_at: Option<Time>,
}

impl Paths {
    pub(crate) fn new(first: Path) -> Self {
        Self { active: first, asking: None, changes: 0, replaced: 0 }
    }

    /// Returns the path in use. All datagrams go to its address, except challenges and responses.
    pub(crate) fn active(&self) -> &Path {
        &self.active
    }

    pub(crate) fn active_mut(&mut self) -> &mut Path {
        &mut self.active
    }

    /// Returns the number of changes of the peer's address.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Records an authentic datagram from `remote` whose number is above all before it.
    pub(crate) fn on_newest(&mut self, remote: SocketAddr) {
        if remote == self.active.remote() {
            return;
        }
        let candidates = &mut self.asking.get_or_insert_default().candidates;
        if let Some(candidate) = candidates.iter_mut().find(|candidate| candidate.remote == remote) {
            candidate.owed = candidate.owed.saturating_add(1).min(limits::PATH_CHALLENGES_OWED_MAX);
            return;
        }
        if candidates.len() == limits::PATH_CANDIDATES_MAX {
            candidates.pop_front();
        }
        candidates.push_back(Candidate { remote, challenges: VecDeque::new(), asked_since: None, owed: 1 });
    }

    /// Queues the response to a challenge. It goes to the address that the challenge came from (\[path-3\]).
    pub(crate) fn on_challenge(&mut self, remote: SocketAddr, challenge: u64) {
        let responses = &mut self.asking.get_or_insert_default().responses;
        if responses.len() < limits::PATH_RESPONSES_MAX {
            responses.push_back((remote, challenge));
        }
    }

    /// Takes in a response. The proven address is used from now on. Another host means another path, which begins anew.
    /// Another port of the same host keeps the path's state, because the network is the same (\[path-5\]).
    pub(crate) fn on_response(&mut self, now: Time, token: u64, numbers: &DatagramNumbers) -> Option<Moved> {
        let asking = self.asking.as_mut()?;
        let answered = asking.candidates.iter().find_map(|candidate| {
            let challenge = candidate.challenges.iter().find(|challenge| challenge.token == token)?;
            Some((candidate.remote, challenge.left_at))
        });
        let (remote, left_at) = answered?;
        asking.candidates.clear();
        let (rtt, before) = (now.since(left_at), self.active.remote());
        let is_other_host = remote.ip().to_canonical() != before.ip().to_canonical();
        self.active.on_moved(now, remote, numbers);
        self.changes += 1;
        if is_other_host {
            // The RTT is a guess, because the peer may have delayed its response.
            self.replace(now, rtt);
        }
        Some(Moved { rtt, is_other_host })
    }

    /// Begins a new path: this side's datagrams leave from another host from now on (\[path-6\]).
    pub(crate) fn on_own_move(&mut self, now: Time) {
        self.replace(now, self.active.rtt().smoothed());
    }

    /// Replaces the active path by a new one with the RTT guess `rtt`.
    fn replace(&mut self, now: Time, rtt: Duration) {
        self.replaced = self.replaced.saturating_add(1);
        self.active.become_other(now, PathId(self.replaced), rtt);
    }

    /// Returns the time of the next challenge or response. Responses are due immediately.
    pub(crate) fn due_at(&self) -> Option<Time> {
        let asking = self.asking.as_ref()?;
        if !asking.responses.is_empty() {
            return Some(Time::ZERO);
        }
        let owed = asking.candidates.iter().filter(|candidate| candidate.owed > 0).map(Candidate::due_at).min()?;
        Some(asking.asked_at.map_or(owed, |at| owed.max(at + limits::PATH_CHALLENGE_INTERVAL_MIN)))
    }

    /// Returns the next message and its destination. `draw` returns a secret random number.
    pub(crate) fn next_message(&mut self, now: Time, draw: impl FnOnce() -> u64) -> Option<(SocketAddr, PathMessage)> {
        self.due_at().filter(|&at| now >= at)?;
        let asking = self.asking.as_mut()?;
        if let Some((remote, token)) = asking.responses.pop_front() {
            // Each datagram received from an address permits one to it. The response uses it up, so that a challenge
            // waits for the next one.
            let candidates = asking.candidates.iter_mut().filter(|it| it.remote == remote);
            candidates.for_each(|it| it.owed = it.owed.saturating_sub(1));
            return Some((remote, PathMessage::Response(token)));
        }
        // Round robin, beginning with candidates that were never challenged.
        let owed = asking.candidates.iter_mut().filter(|candidate| candidate.owed > 0 && candidate.due_at() <= now);
        let candidate = owed.min_by_key(|candidate| candidate.last_left_at())?;
        candidate.owed -= 1;
        candidate.asked_since.get_or_insert(now);
        if candidate.challenges.len() == limits::PATH_CHALLENGES_MAX {
            candidate.challenges.pop_front();
        }
        let token = draw();
        candidate.challenges.push_back(Challenge { token, left_at: now });
        asking.asked_at = Some(now);
        Some((candidate.remote, PathMessage::Challenge(token)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    fn at(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    fn challenge(message: Option<(SocketAddr, PathMessage)>) -> (SocketAddr, u64) {
        let Some((remote, PathMessage::Challenge(challenge))) = message else { panic!("{message:?} is no challenge") };
        (remote, challenge)
    }

    impl Paths {
        fn answer(&mut self, now: Time, token: u64) -> Option<Moved> {
            self.on_response(now, token, &DatagramNumbers::default())
        }
    }

    /// Paths, with a generator of tokens.
    struct World {
        paths: Paths,
        random: ChaCha20Rng,
    }

    impl World {
        fn new() -> Self {
            Self { paths: Paths::new(Path::open(at(1), Time::ZERO, false)), random: ChaCha20Rng::from_seed([7; 32]) }
        }

        fn next(&mut self, now: Time) -> Option<(SocketAddr, PathMessage)> {
            self.paths.next_message(now, || self.random.next_u64())
        }
    }

    fn asking(world: &World) -> &Asking {
        world.paths.asking.as_deref().unwrap()
    }

    const fn same_host(rtt_ms: u64) -> Option<Moved> {
        Some(Moved { rtt: Duration::from_millis(rtt_ms), is_other_host: false })
    }

    #[test]
    fn an_address_is_used_once_it_is_proven() {
        let mut world = World::new();
        world.paths.on_newest(at(1));
        assert_eq!(world.paths.due_at(), None);
        world.paths.on_newest(at(2));
        let (remote, token) = challenge(world.next(Time::from_ms(1)));
        let paths = &mut world.paths;
        assert_eq!((remote, paths.active().remote()), (at(2), at(1)));
        assert_eq!(paths.answer(Time::from_ms(9), token ^ 1), None);
        assert_eq!(paths.active().remote(), at(1));
        assert_eq!(paths.answer(Time::from_ms(9), token), same_host(8));
        assert_eq!((paths.active().remote(), paths.changes()), (at(2), 1));
        assert_eq!(paths.answer(Time::from_ms(9), token), None, "a response serves once");
    }

    /// Each repeated challenge has its own token. A late response is measured from its own challenge.
    #[test]
    fn an_answer_is_measured_from_the_challenge_that_it_answers() {
        for answered in 0..5 {
            let mut world = World::new();
            let tokens: Vec<_> = (0..5)
                .map(|step| {
                    world.paths.on_newest(at(2));
                    challenge(world.next(Time::from_ms(100 + 20 * step))).1
                })
                .collect();
            let now = Time::from_ms(181);
            assert_eq!(world.paths.answer(now, tokens[answered as usize]), same_host(81 - 20 * answered));
        }
    }

    /// Challenges are remembered until their responses come, for any RTT.
    #[test]
    fn an_address_proves_itself_over_any_round_trip() {
        for rtt_ms in [1, 19, 40, 300, 900, 3_000, 10_000_u64] {
            let (mut world, mut on_its_way) = (World::new(), VecDeque::new());
            let moved = (0..30_000).find_map(|ms| {
                let now = Time::from_ms(ms);
                world.paths.on_newest(at(2));
                if let Some((_, PathMessage::Challenge(token))) = world.next(now) {
                    on_its_way.push_back((ms + rtt_ms, token));
                }
                on_its_way.front().filter(|(at, _)| *at <= ms)?;
                let (_, token) = on_its_way.pop_front()?;
                world.paths.answer(now, token)
            });
            assert_eq!(moved, same_host(rtt_ms));
        }
    }

    /// Tests [path-5]: a NAT changes the port. An IPv4 address equals its IPv4-mapped IPv6 address.
    #[test]
    fn another_port_is_the_same_host_and_another_address_is_not() {
        let mapped = SocketAddr::new(std::net::Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().into(), 3);
        for (remote, is_other_host) in [(at(2), false), (mapped, false), (([192, 0, 2, 2], 1).into(), true)] {
            let mut world = World::new();
            world.paths.on_newest(remote);
            let (_, token) = challenge(world.next(Time::from_ms(1)));
            let moved = world.paths.answer(Time::from_ms(2), token).unwrap();
            assert_eq!(moved.is_other_host, is_other_host, "{remote}");
        }
    }

    #[test]
    fn an_unproven_address_gets_no_more_datagrams_than_come_from_it() {
        let mut world = World::new();
        let mut sent = 0;
        for ms in 0..10_000 {
            if ms % 1_000 < 10 {
                world.paths.on_newest(at(2));
            }
            sent += usize::from(world.next(Time::from_ms(ms)).is_some());
            assert!(sent as u64 <= (ms / 1_000) * 10 + (ms % 1_000 + 1).min(10), "{sent} after {ms} ms");
        }
        assert!(sent >= 30, "{sent}");
    }

    /// Tests [path-2]: an attacker who makes candidates come and go cannot raise the rate of challenges.
    #[test]
    fn all_candidates_together_are_asked_once_in_20_ms() {
        for addresses in [1, 3, 4, 50] {
            let mut world = World::new();
            let mut asked_at = Vec::new();
            for us in (0..1_000_000).step_by(250) {
                let now = Time::from_s(1) + Duration::from_micros(us);
                world.paths.on_newest(at(2 + (us / 250 % addresses) as u16));
                asked_at.extend(world.next(now).map(|_| now));
            }
            // Challenges to a single candidate become ever rarer.
            let expected = if addresses == 1 { 30..=36 } else { 48..=50 };
            assert!(expected.contains(&asked_at.len()), "{addresses} addresses: {}", asked_at.len());
            assert!(asked_at.windows(2).all(|pair| pair[1].since(pair[0]) >= limits::PATH_CHALLENGE_INTERVAL_MIN));
        }
    }

    #[test]
    fn candidates_are_asked_in_turn() {
        let mut world = World::new();
        let ask = |world: &mut World, step: u64| {
            (2..6).for_each(|port| world.paths.on_newest(at(port)));
            challenge(world.next(Time::from_ms(1_000 + 20 * step))).0.port()
        };
        let ports: Vec<_> = (0..8).map(|step| ask(&mut world, step)).collect();
        assert_eq!(ports, [2, 3, 4, 5, 2, 3, 4, 5]);
    }

    /// Tests [path-4].
    #[test]
    fn a_proven_address_makes_the_other_candidates_forgotten() {
        let mut world = World::new();
        let [first, second] = [2_u16, 3].map(|port| {
            world.paths.on_newest(at(port));
            challenge(world.next(Time::from_ms(20 * u64::from(port))))
        });
        assert_eq!((first.0, second.0), (at(2), at(3)));
        let paths = &mut world.paths;
        assert_eq!(paths.answer(Time::from_ms(90), second.1), same_host(30));
        assert_eq!((paths.answer(Time::from_ms(91), first.1), paths.active().remote()), (None, at(3)));
        assert_eq!(paths.due_at(), None);
    }

    #[test]
    fn many_addresses_take_bounded_memory_and_each_can_still_prove_itself() {
        let mut world = World::new();
        for port in 2..10_000 {
            world.paths.on_newest(at(port));
            world.paths.on_challenge(at(port), 5);
        }
        assert!(asking(&world).candidates.len() <= limits::PATH_CANDIDATES_MAX);
        assert!(asking(&world).responses.len() <= limits::PATH_RESPONSES_MAX);
        while let Some((_, PathMessage::Response(_))) = world.next(Time::ZERO) {}
        (0..100_000).for_each(|step| {
            world.paths.on_newest(at(9_999));
            world.next(Time::from_ms(step));
        });
        assert!(asking(&world).candidates.iter().all(|it| it.challenges.len() <= limits::PATH_CHALLENGES_MAX));
        world.paths.on_newest(at(77));
        let mut times = (0..100).map(|step| Time::from_s(200) + Duration::from_millis(20 * step));
        let asked = times.find_map(|now| world.next(now).filter(|(remote, _)| *remote == at(77)));
        let (_, token) = challenge(asked);
        assert!(world.paths.answer(Time::from_s(205), token).is_some());
        assert_eq!(world.paths.active().remote(), at(77));
    }
}
