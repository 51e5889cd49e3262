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
    /// The path, or the rate it is used at.
    Path,
}

impl Bottleneck {
    /// A side whose disk thread is busy for this share of the time is what the other parts wait for.
    const BUSY: f64 = 0.8;

    /// From the time each disk thread was busy during `elapsed`.
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

    /// For people.
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
    /// Bytes found so far to be sent; `None` at the receiver, which is not told.
    pub total_bytes: Option<u64>,
    /// True if the file trees were searched to their ends, so that the total is final.
    pub total_is_final: bool,
    /// Since the connection was handed over.
    pub elapsed: Duration,
    /// The transport's figures of the path.
    pub path: Option<PathSample>,
    /// The likely bottleneck.
    pub bottleneck: Option<Bottleneck>,
    /// Since the last frame of the peer.
    pub silence: Duration,
    /// Since the last datagram of the peer; 0 if the transport does not count them.
    pub unheard: Duration,
}
