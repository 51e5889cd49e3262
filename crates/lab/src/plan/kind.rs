//! Names of transports in plans.

use serde::{Deserialize, Serialize};

/// A transport that a plan can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// DFCP as described in the documents.
    Classic,
    /// DFCP's default profile, unencrypted.
    Modern,
    /// CUBIC of Linux 6.12.
    Cubic,
    /// CUBIC of Linux 2.6.26, with its socket buffers.
    #[serde(rename = "cubic-2008")]
    Cubic2008,
    /// Reno with selective acknowledgements, as in Linux 6.12.
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
    /// Messages with fixed FEC: 10 repair datagrams after every 20.
    #[serde(rename = "fec-20-10")]
    Fec2010,
    /// Messages with ARQ only, as in SRT.
    Arq,
    /// No transport: the computed bound, the fewest datagrams per message that any transport needs.
    MessageBound,
}

impl Kind {
    /// True for DFCP, in either profile.
    #[must_use]
    pub fn is_dfcp(self) -> bool {
        matches!(self, Self::Classic | Self::Modern)
    }

    /// True for QUIC.
    #[must_use]
    pub fn is_quic(self) -> bool {
        matches!(self, Self::QuicCubic | Self::QuicNewreno | Self::QuicBbr)
    }

    /// True for a model of TCP.
    #[must_use]
    pub fn is_tcp(self) -> bool {
        !self.is_dfcp() && !self.is_quic() && !self.is_of_messages()
    }

    /// True for a model of a current kernel's TCP, driven by that kernel's clock. Models of 2008 have their own clock, and Reno and Tahoe
    /// none.
    #[must_use]
    pub fn is_tcp_of_today(self) -> bool {
        matches!(self, Self::Cubic | Self::Newreno | Self::Bbr | Self::Dctcp)
    }

    /// True if a plan can enable ECN: for current TCP, except DCTCP, which always has it.
    #[must_use]
    pub fn may_have_ecn(self) -> bool {
        self.is_tcp_of_today() && self != Self::Dctcp
    }

    /// True if the transport carries only messages: a model, or the bound.
    #[must_use]
    pub fn is_of_messages(self) -> bool {
        matches!(self, Self::Fec2010 | Self::Arq | Self::MessageBound)
    }

    /// Name of the transport in plans.
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
