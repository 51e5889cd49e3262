//! Configuration of a flow: transport, times and links.

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
    /// DFCP's own implementation.
    Dfcp(Box<DfcpConfig>),
    /// QUIC, by quinn.
    Quic(QuicConfig),
    /// Model of another message transport.
    Model(ModelConfig),
    /// One user's web traffic, by models of TCP.
    Web(WebConfig),
}

/// Transfer in one direction.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// Time at which the sender opens the connection.
    pub start: Time,
    /// Time from which both ends are silent, as if switched off.
    pub stop: Option<Time>,
    /// Times of new sender addresses, ascending, as after an expired NAT mapping: packets to the old address are lost. DFCP and QUIC
    /// continue after path validation; TCP's connection breaks.
    pub rebinds: Vec<Time>,
    /// Application bytes to send; `None` for no limit.
    pub bytes: Option<u64>,
    /// Links from sender to receiver, at least one.
    pub forward: Vec<LinkId>,
    /// Links from receiver to sender, at least one.
    pub back: Vec<LinkId>,
    /// Transport of the flow.
    pub transport: Transport,
}

/// Reason why a flow cannot be added.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// A route has no links, or too many.
    #[error("a flow's routes need at least one link each, and at most 65535")]
    EmptyRoute,
    /// A route contains an unknown link.
    #[error("there is no link number {0} to route a flow over")]
    NoLink(usize),
    /// The transport has no addresses to change.
    #[error("models of messages and web traffic have no addresses that could change")]
    NoAddress,
    /// TCP's configuration is invalid.
    #[error(transparent)]
    Tcp(#[from] tcp::ConfigError),
    /// DFCP's configuration is invalid.
    #[error(transparent)]
    Dfcp(#[from] dfcp_proto::ConfigError),
    /// QUIC's configuration is invalid.
    #[error(transparent)]
    Quic(#[from] QuicError),
    /// The configuration of messages is invalid.
    #[error(transparent)]
    Messages(#[from] MessagesError),
    /// The configuration of web traffic is invalid.
    #[error(transparent)]
    Web(#[from] WebError),
}
