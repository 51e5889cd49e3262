//! State of an endpoint for each peer, shared by all connections to that peer.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::connection::Shared;
use crate::endpoint::run_queue::RunQueue;
use crate::peer_scheduler::PeerScheduler;

/// Peers with connections, by the initial address of each connection.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by_address: HashMap<SocketAddr, Peer>,
    /// The last peer seen with waiting connections. These connections may have ended since.
    crowded: Option<SocketAddr>,
}

/// State for one peer, identified by its socket address.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// Last period with an authentic datagram from this peer, in the count of [`Activity`](crate::activity::Activity).
    pub(super) heard_in: u32,
    pub(super) scheduler: PeerScheduler<Arc<Shared>>,
}

impl Peers {
    pub(super) fn of(&mut self, connection: &Shared) -> &mut Peer {
        self.by_address.entry(connection.path.remote).or_default()
    }

    /// Gives free places to waiting connections, after `connection` was served. Unless `connection` is over, it is back
    /// in the run queue by then.
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

    /// Gives a waiting connection one of the extra places of an idle endpoint. Returns true if a turn begins.
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

/// Offers a turn to a connection, and makes it ready if it accepts. Returns true if the turn begins.
fn begin_turn(connection: Arc<Shared>, scheduler: &mut PeerScheduler<Arc<Shared>>, run_queue: &mut RunQueue) -> bool {
    let begins = connection.begin_turn(scheduler);
    if begins {
        // Serving the connection also sets the timer that ends its turn.
        run_queue.schedule_now(connection);
    }
    begins
}
