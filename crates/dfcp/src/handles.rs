//! Methods that all handles of a connection share: [`Stream`] and [`Session`], async and blocking.

use std::net::SocketAddr;

use dfcp_proto::{ConfigError, Identity, PathHint, Rate, State, Stats, Traffic};

use crate::carrier::Carrier;
use crate::session::Session;
use crate::stream::Stream;

macro_rules! common_calls {
    ($($handle:ty)*) => {
        $(
            /// Counters and settings of the connection, the same for each of its handles.
            impl $handle {
                /// Returns counters and estimates of the connection, summed over all streams.
                #[must_use]
                pub fn stats(&self) -> Stats {
                    self.shared().read(|connection| connection.stats())
                }

                /// Returns the automatic rate's estimates of the path, for
                /// [`Config::path_hint`](crate::Config::path_hint) of the next connection on the same path. `None`
                /// until the estimates are proven. An [`Endpoint`](crate::Endpoint) itself remembers the hints of
                /// connections that it opened, once they are over.
                #[must_use]
                pub fn path_hint(&self) -> Option<PathHint> {
                    self.shared().read(|connection| connection.path_hint())
                }

                /// Returns the state of the connection.
                #[must_use]
                pub fn state(&self) -> State {
                    self.shared().read(|connection| connection.state())
                }

                /// Returns the peer's proven identity, or `None` without encryption.
                #[must_use]
                pub fn identity(&self) -> Option<Identity> {
                    self.shared().read(|connection| connection.identity())
                }

                /// Returns the peer's address. It changes when the peer has moved and proven its new address.
                #[must_use]
                pub fn remote_addr(&self) -> SocketAddr {
                    self.shared().read(|connection| connection.remote())
                }

                /// Returns the local address of the socket. It changes soon after
                /// [`Endpoint::rebind`](crate::Endpoint::rebind), when the first datagrams leave from the new address.
                #[must_use]
                pub fn local_addr(&self) -> SocketAddr {
                    self.shared().local_addr()
                }

                /// Returns the carrier of the datagrams.
                #[must_use]
                pub fn carrier(&self) -> Carrier {
                    self.shared().path.carrier
                }

                /// Sets the sending rate, for all streams together.
                ///
                /// # Errors
                /// If the rate is out of range; the previous rate stays.
                pub fn set_rate(&self, rate: Rate) -> Result<(), ConfigError> {
                    self.shared().configure(|connection| connection.set_rate(rate))
                }

                /// Sets the kind of traffic of all data written from now on, on all streams.
                pub fn set_traffic(&self, traffic: Traffic) {
                    self.shared().configure(|connection| connection.set_traffic(traffic));
                }

                /// Aborts the connection with all streams immediately: unsent data is lost, and the peer is notified.
                pub fn abort(&self) {
                    self.shared().abort();
                }
            }
        )*
    };
}

common_calls! { Stream Session crate::blocking::Stream crate::blocking::Session }
