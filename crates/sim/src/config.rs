//! Configuration of a flow: its transport, when it sends, and over which links.

use dfcp_time::Time;

use crate::dfcp::DfcpConfig;
use crate::messages::{MessagesError, ModelConfig};
use crate::packet::LinkId;
use crate::quic::{QuicConfig, QuicError};
use crate::tcp;
use crate::web::{WebConfig, WebError};

/// Transport of a flow.
#[derive(Clone, Debug)]
pub enum Transport {
    /// A model of TCP.
    Tcp(tcp::Config),
    /// DFCP's own code.
    Dfcp(Box<DfcpConfig>),
    /// QUIC, by quinn's code.
    Quic(QuicConfig),
    /// A model of another transport of messages.
    Model(ModelConfig),
    /// One user's web traffic, by models of TCP.
    Web(WebConfig),
}

/// A transfer in one direction.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// Time at which the sender opens the connection.
    pub start: Time,
    /// Time from which both ends are silent, as if their hosts had been switched off.
    pub stop: Option<Time>,
    /// Times at which its sender gets another address, in order, as behind a NAT whose mapping has expired: packets to the address before
    /// are lost. DFCP and QUIC go on by a validated path; TCP's connection ends.
    pub rebinds: Vec<Time>,
    /// Application bytes to be sent, or `None` for as many as the time permits.
    pub bytes: Option<u64>,
    /// The links from sender to receiver, at least one.
    pub forward: Vec<LinkId>,
    /// The links back, at least one.
    pub back: Vec<LinkId>,
    /// Transport of the flow.
    pub transport: Transport,
}

/// A flow cannot be added.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// A route has no links, or too many to count.
    #[error("a flow's routes need at least one link each, and at most 65535")]
    EmptyRoute,
    /// A route leads over a link which does not exist.
    #[error("there is no link number {0} to route a flow over")]
    NoLink(usize),
    /// Other addresses of what has none.
    #[error("models of messages and web traffic have no addresses that could change")]
    NoAddress,
    /// TCP's settings make no sense.
    #[error(transparent)]
    Tcp(#[from] tcp::ConfigError),
    /// DFCP's settings make no sense.
    #[error(transparent)]
    Dfcp(#[from] dfcp_proto::ConfigError),
    /// QUIC's settings make no sense.
    #[error(transparent)]
    Quic(#[from] QuicError),
    /// Messages make no sense.
    #[error(transparent)]
    Messages(#[from] MessagesError),
    /// Web traffic makes no sense.
    #[error(transparent)]
    Web(#[from] WebError),
}
