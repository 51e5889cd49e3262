//! Connection states, with the names of thesis §3.6 and §3.11.

/// States in the life of a connection.
///
/// ```text
///            connect                       SYN arrives
///               v                               v
///           SYN_SENT --SYNACK--> ESTABLISHED <--ACK, data-- SYN_RECV
///                                 |       |
///                 shutdown, FIN   |       |  FIN arrives, all decoded
///                                 v       v
///                        FIN_WAIT1       CLOSE_WAIT
///            its ACK  |      |                | shutdown, FINACK
///                     v      |                v
///                 FIN_WAIT2  |            LAST_ACK
///                     |      | both           | its ACK
///           FIN, all  |      | done           v
///            decoded  v      v              CLOSE
///                    TIME_WAIT ---timer------^
/// ```
///
/// ```
/// # use dfcp_proto as dfcp;
/// assert!(dfcp::State::CloseWait.is_open());
/// assert_eq!(dfcp::State::CloseWait.name(), "CLOSE_WAIT");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A SYN has been sent.
    SynSent,
    /// A SYN has been answered; the peer's address is not proven yet.
    SynReceived,
    /// Both directions are open.
    Established,
    /// Our FIN has been sent and is not acknowledged.
    FinWait1,
    /// Our FIN has been acknowledged: the peer has every byte. The peer's direction is still open (`spec/protocol.md`
    /// \[state-2\]).
    FinWait2,
    /// The peer's stream has ended; ours is still open.
    CloseWait,
    /// The peer's stream has ended, and our FIN is not acknowledged.
    LastAck,
    /// Both directions are done. Late repeats of the peer's FIN are still answered.
    TimeWait,
    /// Nothing is left to do; the connection may be dropped.
    Closed,
}

impl State {
    /// Returns true after the three-way handshake, until TIME_WAIT or the end.
    #[must_use]
    pub fn is_open(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived | Self::TimeWait | Self::Closed)
    }

    /// Returns the name of the state in thesis §3.6.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SynSent => "SYN_SENT",
            Self::SynReceived => "SYN_RECV",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN_WAIT1",
            Self::FinWait2 => "FIN_WAIT2",
            Self::CloseWait => "CLOSE_WAIT",
            Self::LastAck => "LAST_ACK",
            Self::TimeWait => "TIME_WAIT",
            Self::Closed => "CLOSE",
        }
    }
}
