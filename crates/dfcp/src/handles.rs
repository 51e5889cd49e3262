//! The calls that all handles of a connection have in common: a [`Stream`] or a [`Session`], async or blocking.

use std::net::SocketAddr;

use dfcp_proto::{ConfigError, Identity, PathHint, Rate, State, Stats, Traffic};

use crate::carrier::Carrier;
use crate::session::Session;
use crate::stream::Stream;

macro_rules! common_calls {
    ($($handle:ty)*) => {
        $(
            /// Figures and settings of the connection, the same on each of its handles.
            impl $handle {
                /// Counters and estimates of the connection, all streams together.
                #[must_use]
                pub fn stats(&self) -> Stats {
                    self.shared().read(|connection| connection.stats())
                }

                /// Findings of its automatic rate about the path, for [`Config::path_hint`](crate::Config::path_hint) of the next connection there;
                /// `None` before that is proven. An [`Endpoint`](crate::Endpoint) remembers by itself the findings of connections opened on it,
                /// once they are over.
                #[must_use]
                pub fn path_hint(&self) -> Option<PathHint> {
                    self.shared().read(|connection| connection.path_hint())
                }

                /// State of the connection.
                #[must_use]
                pub fn state(&self) -> State {
                    self.shared().read(|connection| connection.state())
                }

                /// The peer's proven identity; `None` without seals.
                #[must_use]
                pub fn identity(&self) -> Option<Identity> {
                    self.shared().read(|connection| connection.identity())
                }

                /// The peer's address. It changes when the peer moves, once it has proven the new one.
                #[must_use]
                pub fn remote_addr(&self) -> SocketAddr {
                    self.shared().read(|connection| connection.remote())
                }

                /// Our socket's address. It changes soon after [`Endpoint::rebind`](crate::Endpoint::rebind), when datagrams leave from there.
                #[must_use]
                pub fn local_addr(&self) -> SocketAddr {
                    self.shared().local_addr()
                }

                /// Carrier of the datagrams.
                #[must_use]
                pub fn carrier(&self) -> Carrier {
                    self.shared().path.carrier
                }

                /// Changes the sending rate, that of all streams together.
                ///
                /// # Errors
                /// If the rate is out of range; the one before stays.
                pub fn set_rate(&self, rate: Rate) -> Result<(), ConfigError> {
                    self.shared().configure(|connection| connection.set_rate(rate))
                }

                /// Says what the data written from now on is like, on all streams.
                pub fn set_traffic(&self, traffic: Traffic) {
                    self.shared().configure(|connection| connection.set_traffic(traffic));
                }

                /// Ends the connection at once, with all streams: what is unsent is lost, and the peer is told.
                pub fn abort(&self) {
                    self.shared().abort();
                }
            }
        )*
    };
}

common_calls! { Stream Session crate::blocking::Stream crate::blocking::Session }
