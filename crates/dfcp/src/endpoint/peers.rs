//! What an endpoint keeps for each peer, however many connections it has with it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::connection::{Next, Shared};
use crate::endpoint::agenda::Agenda;
use crate::endpoint::turns::Turns;
use crate::endpoint::{EndpointShared, Outbox};

/// The peers with which something is going on, by the address at which each was first. There are no more than connections.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by_address: HashMap<SocketAddr, Peer>,
    /// One with which connections wait for their turn, as far as is known.
    crowded: Option<SocketAddr>,
}

/// A peer: one socket somewhere.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// The latest period in which something came from there, as [`Activity`](super::activity::Activity) counts them.
    pub(super) heard_in: u32,
    pub(super) turns: Turns<Arc<Shared>>,
}

impl Peers {
    pub(super) fn of(&mut self, connection: &Shared) -> &mut Peer {
        self.by_address.entry(connection.path.remote).or_default()
    }

    /// Serves a connection, and gives the places which are free then to those who wait.
    pub(super) fn serve(
        &mut self,
        connection: &Arc<Shared>,
        endpoint: &EndpointShared,
        outbox: Option<&mut Outbox>,
        agenda: &mut Agenda,
    ) -> Next {
        let turns = &mut self.of(connection).turns;
        let next = connection.serve(endpoint, outbox, turns);
        while let Some(waiting) = turns.pop(false) {
            begin_turn(waiting, turns, agenda);
        }
        if turns.is_crowded() {
            self.crowded = Some(connection.path.remote);
        }
        next
    }

    /// There is nothing to do now. Whether that gives one of those who wait a place.
    pub(super) fn use_idle_time(&mut self, agenda: &mut Agenda) -> bool {
        let turns =
            self.crowded.take().and_then(|address| self.by_address.get_mut(&address)).map(|peer| &mut peer.turns);
        let Some((turns, waiting)) = turns.and_then(|turns| turns.pop(true).map(|waiting| (turns, waiting))) else {
            return false;
        };
        begin_turn(waiting, turns, agenda);
        true
    }

    /// A connection is over. What is left of its peer, if another connection needs it, begins anew.
    pub(super) fn forget(&mut self, connection: &Shared) {
        if self.by_address.get(&connection.path.remote).is_some_and(|peer| peer.turns.is_empty()) {
            self.by_address.remove(&connection.path.remote);
        }
    }
}

fn begin_turn(connection: Arc<Shared>, turns: &mut Turns<Arc<Shared>>, agenda: &mut Agenda) {
    if connection.begin_turn(turns) {
        // It has an end, at which the connection is to be served.
        agenda.now(connection);
    }
}
