//! An endpoint's state for each peer, however many connections it has with it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::connection::Shared;
use crate::endpoint::run_queue::RunQueue;
use crate::peer_scheduler::PeerScheduler;

/// The peers with which there are connections, by the address at which each was first.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by_address: HashMap<SocketAddr, Peer>,
    /// The peer which was last seen with waiting connections. They may have gone since.
    crowded: Option<SocketAddr>,
}

/// A peer: one socket somewhere.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// The latest period in which something authentic came from there, as [`Activity`](crate::activity::Activity) counts them.
    pub(super) heard_in: u32,
    pub(super) scheduler: PeerScheduler<Arc<Shared>>,
}

impl Peers {
    pub(super) fn of(&mut self, connection: &Shared) -> &mut Peer {
        self.by_address.entry(connection.path.remote).or_default()
    }

    /// Gives free places to waiting connections, after `connection` has been served. It is in the run queue again by then if it
    /// is not over.
    pub(super) fn pass_on(&mut self, connection: &Shared, run_queue: &mut RunQueue) {
        let scheduler = &mut self.of(connection).scheduler;
        while let Some(waiting) = scheduler.pop(false) {
            begin_turn(waiting, scheduler, run_queue);
        }
        let (is_crowded, is_over) = (scheduler.is_crowded(), scheduler.is_empty());
        if is_over {
            self.by_address.remove(&connection.path.remote);
        } else if is_crowded {
            self.crowded = Some(connection.path.remote);
        }
    }

    /// Gives a waiting connection one of the extra places of an idle endpoint. Returns whether a turn begins.
    pub(super) fn use_idle_time(&mut self, run_queue: &mut RunQueue) -> bool {
        let Some(peer) = self.crowded.and_then(|address| self.by_address.get_mut(&address)) else { return false };
        while let Some(waiting) = peer.scheduler.pop(true) {
            if begin_turn(waiting, &mut peer.scheduler, run_queue) {
                return true;
            }
        }
        self.crowded = None;
        false
    }
}

/// Makes the connection ready if its turn begins. Returns whether it does.
fn begin_turn(connection: Arc<Shared>, scheduler: &mut PeerScheduler<Arc<Shared>>, run_queue: &mut RunQueue) -> bool {
    let begins = connection.begin_turn(scheduler);
    if begins {
        // Serving it also sets the timer that ends the turn.
        run_queue.schedule_now(connection);
    }
    begins
}
