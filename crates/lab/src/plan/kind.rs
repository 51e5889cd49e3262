//! Transports that plans can name.

use serde::{Deserialize, Serialize};

/// Kind of transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Classic DFCP: the protocol of the thesis.
    Classic,
    /// DFCP's modern profile, unencrypted.
    Modern,
    /// CUBIC of Linux 6.12.
    Cubic,
    /// CUBIC of Linux 2.6.26, with its socket buffers.
    #[serde(rename = "cubic-2008")]
    Cubic2008,
    /// NewReno with selective acknowledgements, as in Linux 6.12.
    Newreno,
    /// NewReno of Linux 2.6.26, with its socket buffers.
    #[serde(rename = "newreno-2008")]
    Newreno2008,
    /// BBR version 1.
    Bbr,
    /// DCTCP of Linux 6.12, always with ECN.
    Dctcp,
    /// Reno without selective acknowledgements.
    Reno,
    /// Tahoe.
    Tahoe,
    /// QUIC (quinn) with CUBIC.
    QuicCubic,
    /// QUIC with NewReno.
    QuicNewreno,
    /// QUIC with BBR version 1.
    QuicBbr,
    /// Messages with fixed FEC: 10 repair datagrams after every 20 data datagrams.
    #[serde(rename = "fec-20-10")]
    Fec2010,
    /// Messages with ARQ only, like SRT.
    Arq,
    /// No transport: the theoretical bound, computed as the fewest datagrams per message that any transport needs.
    MessageBound,
}

impl Kind {
    /// Returns true for DFCP, in either profile.
    #[must_use]
    pub fn is_dfcp(self) -> bool {
        matches!(self, Self::Classic | Self::Modern)
    }

    /// Returns true for QUIC.
    #[must_use]
    pub fn is_quic(self) -> bool {
        matches!(self, Self::QuicCubic | Self::QuicNewreno | Self::QuicBbr)
    }

    /// Returns true for a model of TCP.
    #[must_use]
    pub fn is_tcp(self) -> bool {
        !self.is_dfcp() && !self.is_quic() && !self.is_of_messages()
    }

    /// Returns true for a model of a current Linux kernel's TCP, whose timers follow the kernel's clock. The models of
    /// 2008 have a fixed clock; Reno and Tahoe have none.
    #[must_use]
    pub fn is_tcp_of_today(self) -> bool {
        matches!(self, Self::Cubic | Self::Newreno | Self::Bbr | Self::Dctcp)
    }

    /// Returns true if a plan may set `ecn`: for current TCP except DCTCP, which always uses ECN.
    #[must_use]
    pub fn may_have_ecn(self) -> bool {
        self.is_tcp_of_today() && self != Self::Dctcp
    }

    /// Returns true if the transport carries only messages: a model, or the bound.
    #[must_use]
    pub fn is_of_messages(self) -> bool {
        matches!(self, Self::Fec2010 | Self::Arq | Self::MessageBound)
    }

    /// Returns the name of the transport in plans.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Modern => "modern",
            Self::Cubic => "cubic",
            Self::Cubic2008 => "cubic-2008",
            Self::Newreno => "newreno",
            Self::Newreno2008 => "newreno-2008",
            Self::Bbr => "bbr",
            Self::Dctcp => "dctcp",
            Self::Reno => "reno",
            Self::Tahoe => "tahoe",
            Self::QuicCubic => "quic-cubic",
            Self::QuicNewreno => "quic-newreno",
            Self::QuicBbr => "quic-bbr",
            Self::Fec2010 => "fec-20-10",
            Self::Arq => "arq",
            Self::MessageBound => "message-bound",
        }
    }
}
