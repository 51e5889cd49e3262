//! Statistics of a transfer at one moment.

use std::time::Duration;

use serde::Serialize;

use crate::transport::PathSample;

/// Part of a transfer that probably limits its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// Reading and hashing at the sender.
    SenderDisk,
    /// Writing and hashing at the receiver.
    ReceiverDisk,
    /// The path, or the configured sending rate.
    Path,
}

impl Bottleneck {
    /// Share of the elapsed time, 0 to 1, from which a busy disk thread counts as the bottleneck.
    const BUSY: f64 = 0.8;

    /// Returns the bottleneck, given the busy times of both disk threads during `elapsed`.
    pub fn of(elapsed: Duration, sender_disk: Duration, receiver_disk: Duration) -> Self {
        let busy = elapsed.mul_f64(Self::BUSY);
        if receiver_disk >= busy && receiver_disk >= sender_disk {
            Self::ReceiverDisk
        } else if sender_disk >= busy {
            Self::SenderDisk
        } else {
            Self::Path
        }
    }

    /// Returns a description for display.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::SenderDisk => "the sender's disk",
            Self::ReceiverDisk => "the receiver's disk",
            Self::Path => "the path or the rate",
        }
    }
}

/// Statistics of a transfer at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Snapshot {
    /// Bytes of content that reached the receiver.
    pub done_bytes: u64,
    /// Bytes of content found so far; `None` at a receiver, which does not know the total.
    pub total_bytes: Option<u64>,
    /// True once the whole file tree has been searched; `total_bytes` is then final.
    pub total_is_final: bool,
    /// Time since the start of the transfer.
    pub elapsed: Duration,
    /// Path statistics of the transport; `None` if it keeps none.
    pub path: Option<PathSample>,
    /// Probable bottleneck.
    pub bottleneck: Option<Bottleneck>,
    /// Time since the last frame from the peer.
    pub silence: Duration,
    /// Time since the last datagram from the peer; 0 if the transport does not count datagrams.
    pub unheard: Duration,
}
