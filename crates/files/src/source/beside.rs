//! Coordination between the producer and the connection when additional streams are opened.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};

use dfcp_framing::files::{Entry, Partial};
use tokio::sync::mpsc;

use super::encoder::Encoder;
use super::{Event, Feed, Shared, Stopped};
use crate::limits::STREAM_CHUNKS_WAITING_MAX;

/// Abilities and partial files that the receiver has reported.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Number of additional streams that were opened.
    pub streams: u32,
    /// True if the receiver accepts offers.
    pub takes_offers: bool,
    /// Partial files at the receiver, by file name.
    pub partials: BTreeMap<Vec<u8>, Partial>,
}

impl Known {
    /// Returns the length of the receiver's partial file, bytes, if it belongs to the same version of this file by
    /// length and time.
    pub(super) fn beginning_of(&self, entry: &Entry) -> Option<u64> {
        let partial = self.partials.get(&entry.name)?;
        let is_same =
            (Some(partial.len), partial.mtime_s, partial.mtime_ns) == (entry.len, entry.mtime_s, entry.mtime_ns);
        is_same.then_some(partial.offset)
    }
}

/// Producer's end of the coordination.
#[derive(Debug)]
pub(super) struct Beside {
    opened: Receiver<Known>,
    known: OnceLock<Known>,
    is_decided: Arc<AtomicBool>,
}

/// Connection's end of the coordination, which opens the streams.
#[derive(Debug)]
pub(crate) struct Opener {
    opened: std::sync::mpsc::Sender<Known>,
    /// True once it is decided whether streams are opened. Either end can decide; the first decision is final.
    is_decided: Arc<AtomicBool>,
    events: mpsc::Sender<Event>,
    shared: Arc<Shared>,
}

pub(super) fn pair(events: mpsc::Sender<Event>, shared: Arc<Shared>) -> (Beside, Opener) {
    let (opened, opened_out) = std::sync::mpsc::channel();
    let is_decided = Arc::new(AtomicBool::new(false));
    let beside = Beside { opened: opened_out, known: OnceLock::new(), is_decided: Arc::clone(&is_decided) };
    (beside, Opener { opened, is_decided, events, shared })
}

impl Beside {
    /// Returns the receiver's abilities, if they are known yet.
    pub(super) fn known(&self) -> Option<&Known> {
        if self.known.get().is_none()
            && let Ok(known) = self.opened.try_recv()
        {
            return Some(self.known.get_or_init(|| known));
        }
        self.known.get()
    }

    /// Waits for the receiver's abilities.
    pub(super) fn wait(&self) -> Result<&Known, Stopped> {
        if self.known.get().is_none() {
            let known = self.opened.recv().map_err(|_| Stopped)?;
            return Ok(self.known.get_or_init(|| known));
        }
        self.known.get().ok_or(Stopped)
    }

    /// Returns the number of additional streams after the last file. Returns 0 if the streams are not being opened yet,
    /// since they are not needed any more.
    pub(super) fn count_at_end(&self) -> Result<u32, Stopped> {
        if self.is_decided.swap(true, Ordering::Relaxed) { Ok(self.wait()?.streams) } else { Ok(0) }
    }
}

impl Opener {
    /// Returns true if additional streams are needed. The producer then waits for [`Opener::open`].
    pub(crate) fn is_wanted(&self) -> bool {
        !self.is_decided.swap(true, Ordering::Relaxed)
    }

    /// Starts a thread per additional stream, and returns the receiving ends of the streams' chunks.
    pub(crate) fn open(self, known: Known) -> Vec<Feed> {
        let feeds = (1..=known.streams as usize).map(|stream| {
            let (encoder, feed) =
                Encoder::new(stream, STREAM_CHUNKS_WAITING_MAX, self.events.clone(), Arc::clone(&self.shared));
            tokio::task::spawn_blocking(move || encoder.run());
            feed
        });
        let feeds = feeds.collect();
        // If the producer has ended, the streams are not used, and their threads end.
        let _ = self.opened.send(known);
        feeds
    }
}
