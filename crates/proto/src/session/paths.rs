//! Where a connection's datagrams go, and how a new address of the peer proves itself (`spec/protocol.md`, "Paths").
//! Sealed connections only: without seals anybody could claim to be the peer.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use dfcp_time::Time;

use crate::limits;

/// An address of which the peer has yet to prove that it receives there.
#[derive(Debug)]
struct Candidate {
    remote: SocketAddr,
    challenge: u64,
    /// A datagram has come from there since the last challenge left: one more may go there.
    owed: bool,
    asked_at: Option<Time>,
}

/// What is to be said about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathMessage {
    /// Prove that you receive here.
    Challenge(u64),
    /// That is what I received.
    Response(u64),
}

/// The peer's address, and those which may become it.
#[derive(Debug)]
pub(crate) struct Paths {
    active: SocketAddr,
    candidates: VecDeque<Candidate>,
    responses: VecDeque<(SocketAddr, u64)>,
    /// When the last challenge left, to whichever address: a candidate which comes again after it was forgotten does not
    /// begin anew.
    asked_at: Option<Time>,
    changes: u64,
}

impl Paths {
    pub(crate) fn new(remote: SocketAddr) -> Self {
        Self { active: remote, candidates: VecDeque::new(), responses: VecDeque::new(), asked_at: None, changes: 0 }
    }

    /// The proven address, to which everything goes but what is said about other paths.
    pub(crate) fn active(&self) -> SocketAddr {
        self.active
    }

    /// How often the address has changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// An authentic datagram has come from `remote`, younger than all before it. `draw` gives a number which nobody else
    /// knows.
    pub(crate) fn on_newest(&mut self, remote: SocketAddr, draw: impl FnOnce() -> u64) {
        if remote == self.active {
            return;
        }
        if let Some(candidate) = self.candidates.iter_mut().find(|candidate| candidate.remote == remote) {
            candidate.owed = true;
            return;
        }
        if self.candidates.len() == limits::PATH_CANDIDATES_MAX {
            self.candidates.pop_front();
        }
        self.candidates.push_back(Candidate { remote, challenge: draw(), owed: true, asked_at: None });
    }

    /// The peer asks whether we receive where it sent this to; the answer goes back to where it came from (\[path-3\]).
    pub(crate) fn on_challenge(&mut self, remote: SocketAddr, challenge: u64) {
        if self.responses.len() < limits::PATH_RESPONSES_MAX {
            self.responses.push_back((remote, challenge));
        }
    }

    /// The peer proves an address; the round-trip time if data go there from now on.
    pub(crate) fn on_response(&mut self, now: Time, response: u64) -> Option<Duration> {
        let index = self.candidates.iter().position(|candidate| candidate.challenge == response)?;
        let candidate = self.candidates.remove(index)?;
        let asked_at = candidate.asked_at?;
        self.active = candidate.remote;
        self.candidates.clear();
        self.changes += 1;
        Some(now.since(asked_at))
    }

    /// Whether something is to be said at `now`.
    pub(crate) fn due_at(&self) -> Option<Time> {
        if !self.responses.is_empty() {
            return Some(Time::ZERO);
        }
        let owed = self.candidates.iter().any(|candidate| candidate.owed);
        owed.then(|| self.asked_at.map_or(Time::ZERO, |at| at + limits::PATH_CHALLENGE_INTERVAL_MIN))
    }

    /// The next thing to say, and to whom.
    pub(crate) fn next_message(&mut self, now: Time) -> Option<(SocketAddr, PathMessage)> {
        if let Some((remote, challenge)) = self.responses.pop_front() {
            // One datagram came from there: it gets one, and the question waits for another.
            self.candidates.iter_mut().filter(|it| it.remote == remote).for_each(|it| it.owed = false);
            return Some((remote, PathMessage::Response(challenge)));
        }
        self.due_at().filter(|&at| now >= at)?;
        // In turn, beginning with one that was never asked.
        let owed = self.candidates.iter_mut().filter(|candidate| candidate.owed);
        let candidate = owed.min_by_key(|candidate| candidate.asked_at)?;
        candidate.owed = false;
        candidate.asked_at = Some(now);
        self.asked_at = Some(now);
        Some((candidate.remote, PathMessage::Challenge(candidate.challenge)))
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

    #[test]
    fn an_address_is_used_once_it_is_proven() {
        let (mut paths, mut random) = (Paths::new(at(1)), ChaCha20Rng::from_seed([7; 32]));
        paths.on_newest(at(1), || random.next_u64());
        assert_eq!(paths.due_at(), None);
        paths.on_newest(at(2), || random.next_u64());
        let (remote, number) = challenge(paths.next_message(Time::from_ms(1)));
        assert_eq!((remote, paths.active()), (at(2), at(1)));
        assert_eq!(paths.on_response(Time::from_ms(9), number ^ 1), None);
        assert_eq!(paths.active(), at(1));
        assert_eq!(paths.on_response(Time::from_ms(9), number), Some(Duration::from_millis(8)));
        assert_eq!((paths.active(), paths.changes()), (at(2), 1));
        assert_eq!(paths.on_response(Time::from_ms(9), number), None, "a response serves once");
    }

    #[test]
    fn an_unproven_address_gets_no_more_datagrams_than_come_from_it() {
        let (mut paths, mut random) = (Paths::new(at(1)), ChaCha20Rng::from_seed([7; 32]));
        let mut sent = 0;
        for ms in 0..1_000 {
            if ms % 100 == 0 {
                paths.on_newest(at(2), || random.next_u64());
            }
            sent += usize::from(paths.next_message(Time::from_ms(ms)).is_some());
        }
        assert_eq!(sent, 10);
    }

    /// [path-2]: an attacker who makes candidates come and go, and come again, makes us ask no more often.
    #[test]
    fn all_candidates_together_are_asked_once_in_20_ms() {
        for addresses in [1, 3, 4, 50] {
            let (mut paths, mut random) = (Paths::new(at(1)), ChaCha20Rng::from_seed([7; 32]));
            let mut asked_at = Vec::new();
            for us in (0..1_000_000).step_by(250) {
                let now = Time::from_s(1) + Duration::from_micros(us);
                paths.on_newest(at(2 + (us / 250 % addresses) as u16), || random.next_u64());
                asked_at.extend(paths.next_message(now).map(|_| now));
            }
            assert_eq!(asked_at.len(), 50, "{addresses} addresses");
            assert!(asked_at.windows(2).all(|pair| pair[1].since(pair[0]) >= limits::PATH_CHALLENGE_INTERVAL_MIN));
        }
    }

    #[test]
    fn candidates_are_asked_in_turn() {
        let (mut paths, mut random) = (Paths::new(at(1)), ChaCha20Rng::from_seed([7; 32]));
        let ask = |paths: &mut Paths, random: &mut ChaCha20Rng, step: u64| {
            (2..6).for_each(|port| paths.on_newest(at(port), || random.next_u64()));
            challenge(paths.next_message(Time::from_ms(1_000 + 20 * step))).0.port()
        };
        let ports: Vec<_> = (0..8).map(|step| ask(&mut paths, &mut random, step)).collect();
        assert_eq!(ports, [2, 3, 4, 5, 2, 3, 4, 5]);
    }

    /// [path-4]
    #[test]
    fn a_proven_address_makes_the_other_candidates_forgotten() {
        let (mut paths, mut random) = (Paths::new(at(1)), ChaCha20Rng::from_seed([7; 32]));
        let [first, second] = [2_u16, 3].map(|port| {
            paths.on_newest(at(port), || random.next_u64());
            challenge(paths.next_message(Time::from_ms(20 * u64::from(port))))
        });
        assert_eq!((first.0, second.0), (at(2), at(3)));
        assert_eq!(paths.on_response(Time::from_ms(90), second.1), Some(Duration::from_millis(30)));
        assert_eq!((paths.on_response(Time::from_ms(91), first.1), paths.active()), (None, at(3)));
        assert_eq!(paths.due_at(), None);
    }

    #[test]
    fn many_addresses_take_bounded_memory_and_each_can_still_prove_itself() {
        let (mut paths, mut random) = (Paths::new(at(1)), ChaCha20Rng::from_seed([7; 32]));
        for port in 2..10_000 {
            paths.on_newest(at(port), || random.next_u64());
            paths.on_challenge(at(port), 5);
        }
        assert!(paths.candidates.len() <= limits::PATH_CANDIDATES_MAX);
        assert!(paths.responses.len() <= limits::PATH_RESPONSES_MAX);
        while let Some((_, PathMessage::Response(_))) = paths.next_message(Time::ZERO) {}
        paths.on_newest(at(77), || random.next_u64());
        let mut times = (0..100).map(|step| Time::from_ms(1_000 + 20 * step));
        let asked = times.find_map(|now| paths.next_message(now).filter(|(remote, _)| *remote == at(77)));
        let (_, number) = challenge(asked);
        assert!(paths.on_response(Time::from_s(2), number).is_some());
        assert_eq!(paths.active(), at(77));
    }
}
