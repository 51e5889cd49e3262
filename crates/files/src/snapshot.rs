//! Progress of a transfer.

use std::time::Duration;

use serde::Serialize;

use crate::transport::PathSample;

/// Likely bottleneck of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// Reading and hashing at the sender.
    SenderDisk,
    /// Writing and hashing at the receiver.
    ReceiverDisk,
    /// The path, or the sending rate.
    Path,
}

impl Bottleneck {
    /// Share of time from which a side's busy disk thread counts as the bottleneck.
    const BUSY: f64 = 0.8;

    /// Bottleneck, from the busy times of the disk threads during `elapsed`.
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

    /// Description for display.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::SenderDisk => "the sender's disk",
            Self::ReceiverDisk => "the receiver's disk",
            Self::Path => "the path or the rate",
        }
    }
}

/// Progress of a transfer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Snapshot {
    /// Bytes of content that reached the receiver.
    pub done_bytes: u64,
    /// Bytes found so far to be sent; `None` at the receiver, which does not know.
    pub total_bytes: Option<u64>,
    /// True if the search is complete, so that the total is final.
    pub total_is_final: bool,
    /// Time since the connection was handed over.
    pub elapsed: Duration,
    /// Path statistics of the transport.
    pub path: Option<PathSample>,
    /// The likely bottleneck.
    pub bottleneck: Option<Bottleneck>,
    /// Time since the last frame of the peer.
    pub silence: Duration,
    /// Time since the last datagram of the peer; 0 if the transport does not count them.
    pub unheard: Duration,
}
