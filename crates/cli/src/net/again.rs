//! Reconnection to a peer after its session was lost.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dfcp::Stream;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{Connected, advice, attempts, carrier, plain_config, sealed_config, with_settings, within_mtu};
use crate::args::PathArgs;
use crate::contact::{self, Contact};
use crate::limits::LOOKUP_TIME_MAX;
use crate::retry::{CallFailure, Caller};

/// Result of a successful connection attempt.
#[derive(Debug)]
pub struct Answered {
    /// Connection to the peer.
    pub stream: Stream,
    /// The address that answered.
    pub peer: String,
}

/// Known peer that can be called again, with the addresses of its name.
#[derive(Debug, Clone)]
pub struct Redial {
    addresses: Arc<Addresses>,
    args: PathArgs,
    /// Proof of identity; `None` for plaintext connections.
    contact: Option<Contact>,
}

impl Redial {
    /// Prepares reconnections to the peer that was `connected` under the name `host_port`; no other peer is accepted.
    #[must_use]
    pub fn new(host_port: &str, args: &PathArgs, connected: Connected) -> (Self, Answered) {
        let Connected { stream, peer, contact } = connected;
        let contact = contact.map(|contact| contact.proven_by(&stream));
        let addresses = Addresses::new(host_port, stream.remote_addr());
        (Self { addresses, args: args.clone(), contact }, Answered { stream, peer })
    }

    /// Rewords the error of a connection attempt or session if keys are the reason.
    #[must_use]
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        contact::explain(self.contact.as_ref(), error)
    }

    async fn dial(self) -> Result<Answered, CallFailure> {
        let addresses = self.addresses.now().await;
        let config = match &self.contact {
            Some(contact) => Ok(sealed_config(contact, &self.args)),
            None => plain_config(&self.args),
        };
        let config = config.and_then(|config| with_settings(config, &self.args));
        let config = config.map_err(|error| CallFailure { is_transient: false, error })?;
        let carrier = carrier(&self.args);
        let call = |address| Stream::connect_over(carrier, address, within_mtu(config.clone(), &self.args, address));
        let answered =
            attempts::first_to_answer(addresses, call, &advice(carrier), attempts::PATIENCE_AGAIN, |_| {}).await;
        match answered {
            Ok((stream, address)) => {
                self.addresses.answered(address);
                Ok(Answered { stream, peer: address.to_string() })
            }
            Err(failure) => Err(CallFailure { error: self.explain(failure.error), ..failure }),
        }
    }
}

impl Caller for Redial {
    type Connection = Answered;

    fn has_moved(&self) -> bool {
        self.addresses.have_changed()
    }

    fn call(&self) -> impl Future<Output = Result<Answered, CallFailure>> + Send + 'static {
        self.clone().dial()
    }
}

/// Current addresses of a name. If DNS fails, the last known addresses are used: a network that is down has no name
/// server.
#[derive(Debug)]
struct Addresses {
    host_port: String,
    state: Mutex<State>,
    /// Signals new addresses.
    told: Notify,
}

#[derive(Debug)]
struct State {
    /// Known addresses; the one that answered last comes first.
    known: Vec<SocketAddr>,
    /// Addresses of the last connection attempt, sorted.
    called: Vec<SocketAddr>,
    /// True while a lookup is in progress. The system may take half a minute to give up, so only one lookup runs at a
    /// time.
    is_asking: bool,
}

impl Addresses {
    fn new(host_port: &str, answered: SocketAddr) -> Arc<Self> {
        let state = State { known: vec![answered], called: Vec::new(), is_asking: false };
        Arc::new(Self { host_port: host_port.to_owned(), state: Mutex::new(state), told: Notify::new() })
    }

    /// Starts a lookup, unless one is running.
    fn ask(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state().is_asking, true) {
            return;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let found = tokio::net::lookup_host(&this.host_port).await;
            let mut state = this.state();
            state.is_asking = false;
            match found {
                Ok(found) => state.found(found.collect()),
                Err(error) => tracing::debug!(%error, "the name was not found this time"),
            }
            drop(state);
            this.told.notify_waiters();
        });
    }

    /// Returns the addresses to call, after a lookup of limited duration.
    async fn now(self: &Arc<Self>) -> Vec<SocketAddr> {
        let mut told = std::pin::pin!(self.told.notified());
        told.as_mut().enable();
        self.ask();
        let _ = timeout(LOOKUP_TIME_MAX, told).await;
        let mut state = self.state();
        state.called = sorted(&state.known);
        state.known.clone()
    }

    /// Returns true if the addresses differ from the last connection attempt's. Starts a lookup without waiting for it.
    fn have_changed(self: &Arc<Self>) -> bool {
        self.ask();
        let state = self.state();
        sorted(&state.known) != state.called
    }

    fn answered(&self, address: SocketAddr) {
        let mut state = self.state();
        state.known.retain(|known| *known != address);
        state.known.insert(0, address);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sorted(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted
}

impl State {
    /// Stores the result of a lookup.
    fn found(&mut self, mut found: Vec<SocketAddr>) {
        if found.is_empty() {
            return;
        }
        let last = self.known.first().copied();
        found.sort_by_key(|address| Some(*address) != last);
        self.known = found;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 4433).into()
    }

    #[test]
    fn a_name_that_leads_elsewhere_by_now_is_followed_and_what_answered_last_comes_first() {
        let addresses = Addresses::new("there.example:4433", address(1));
        addresses.state().found(vec![address(2), address(1)]);
        assert_eq!(addresses.state().known, [address(1), address(2)]);
        addresses.answered(address(2));
        assert_eq!(addresses.state().known, [address(2), address(1)]);
        addresses.state().found(vec![address(3)]);
        assert_eq!(addresses.state().known, [address(3)]);
        addresses.state().found(Vec::new());
        assert_eq!(addresses.state().known, [address(3)], "a name server that knows nothing at the moment");
    }

    #[tokio::test]
    async fn without_a_name_server_the_last_addresses_are_called() {
        let addresses = Addresses::new("no-such-name.invalid:4433", address(1));
        assert_eq!(addresses.now().await, [address(1)]);
        assert!(!addresses.have_changed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_is_not_answered_holds_no_call_up_and_is_not_asked_twice() {
        let addresses = Addresses::new("no-such-name.invalid:4433", address(1));
        addresses.state().is_asking = true;
        assert_eq!(addresses.now().await, [address(1)]);
        assert!(!addresses.have_changed());
        addresses.state().found(vec![address(2), address(1)]);
        assert!(addresses.have_changed(), "another call is worth it");
        assert_eq!(addresses.now().await, [address(1), address(2)]);
        addresses.state().found(vec![address(1), address(2)]);
        assert!(!addresses.have_changed(), "name servers rotate them");
    }
}
