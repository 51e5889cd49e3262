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

/// Data transfer in one direction.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// Time at which the sender opens the connection.
    pub start: Time,
    /// Time from which both ends are silent, as if switched off; `None` for never.
    pub stop: Option<Time>,
    /// Times at which the sender gets a new address, ascending, as after the expiry of a NAT mapping. Packets to an old
    /// address are lost. DFCP and QUIC continue after path validation; a TCP connection breaks.
    pub rebinds: Vec<Time>,
    /// Application bytes to send; `None` for an endless stream.
    pub bytes: Option<u64>,
    /// Links from the sender to the receiver; at least one.
    pub forward: Vec<LinkId>,
    /// Links from the receiver to the sender; at least one.
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
    /// The transport is a model without addresses that could change.
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
