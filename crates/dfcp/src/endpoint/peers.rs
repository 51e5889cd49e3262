//! What an endpoint keeps for each peer, however many connections it has with it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::connection::Shared;
use crate::endpoint::run_queue::RunQueue;
use crate::endpoint::turns::Turns;

/// The peers with which there are connections, by the address at which each was first.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by_address: HashMap<SocketAddr, Peer>,
    /// One with which connections wait for their turn, as far as is known.
    crowded: Option<SocketAddr>,
}

/// A peer: one socket somewhere.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// The latest period in which something authentic came from there, as [`Activity`](super::activity::Activity) counts them.
    pub(super) heard_in: u32,
    pub(super) turns: Turns<Arc<Shared>>,
}

impl Peers {
    pub(super) fn of(&mut self, connection: &Shared) -> &mut Peer {
        self.by_address.entry(connection.path.remote).or_default()
    }

    /// Gives free places to waiting connections, after `connection` has been served. It is in the run queue again by then if it
    /// is not over.
    pub(super) fn pass_on(&mut self, connection: &Shared, run_queue: &mut RunQueue) {
        let turns = &mut self.of(connection).turns;
        while let Some(waiting) = turns.pop(false) {
            begin_turn(waiting, turns, run_queue);
        }
        let (is_crowded, is_over) = (turns.is_crowded(), turns.is_empty());
        if is_over {
            self.by_address.remove(&connection.path.remote);
        } else if is_crowded {
            self.crowded = Some(connection.path.remote);
        }
    }

    /// There is nothing to do now. Whether that gives one of those who wait a place.
    pub(super) fn use_idle_time(&mut self, run_queue: &mut RunQueue) -> bool {
        let Some(peer) = self.crowded.and_then(|address| self.by_address.get_mut(&address)) else { return false };
        while let Some(waiting) = peer.turns.pop(true) {
            if begin_turn(waiting, &mut peer.turns, run_queue) {
                return true;
            }
        }
        self.crowded = None;
        false
    }
}

/// Whether it has something to send.
fn begin_turn(connection: Arc<Shared>, turns: &mut Turns<Arc<Shared>>, run_queue: &mut RunQueue) -> bool {
    let begins = connection.begin_turn(turns);
    if begins {
        // It has an end, at which the connection is to be served.
        run_queue.schedule_now(connection);
    }
    begins
}
