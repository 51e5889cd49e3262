//! Hand-over of files to the streams beside the first one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};

use dfcp_framing::files::{Entry, Partial};
use tokio::sync::mpsc;

use super::encoder::Encoder;
use super::{Event, Feed, Shared, Stopped};
use crate::limits::STREAM_CHUNKS_WAITING_MAX;

/// Abilities of a receiver, as it has told them.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Streams beside the first one.
    pub streams: u32,
    /// True if it answers offers.
    pub takes_offers: bool,
    /// Files of which it has the beginning, by their names.
    pub partials: BTreeMap<Vec<u8>, Partial>,
}

impl Known {
    /// Bytes of this file that the receiver has, if it is the same one by its length and time.
    pub(super) fn beginning_of(&self, entry: &Entry) -> Option<u64> {
        let partial = self.partials.get(&entry.name)?;
        let is_same =
            (Some(partial.len), partial.mtime_s, partial.mtime_ns) == (entry.len, entry.mtime_s, entry.mtime_ns);
        is_same.then_some(partial.offset)
    }
}

/// The end at which files come in.
#[derive(Debug)]
pub(super) struct Beside {
    opened: Receiver<Known>,
    known: OnceLock<Known>,
    is_decided: Arc<AtomicBool>,
}

/// The end at which streams are opened and take files.
#[derive(Debug)]
pub(crate) struct Opener {
    opened: std::sync::mpsc::Sender<Known>,
    /// True once it is decided if streams are opened. Both ends may decide it; the first one does.
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
    /// Abilities of the receiver, if it has told them.
    pub(super) fn known(&self) -> Option<&Known> {
        if self.known.get().is_none()
            && let Ok(known) = self.opened.try_recv()
        {
            return Some(self.known.get_or_init(|| known));
        }
        self.known.get()
    }

    /// Waits for them, if it has not told them yet.
    pub(super) fn wait(&self) -> Result<&Known, Stopped> {
        if self.known.get().is_none() {
            let known = self.opened.recv().map_err(|_| Stopped)?;
            return Ok(self.known.get_or_init(|| known));
        }
        self.known.get().ok_or(Stopped)
    }

    /// Number of streams, when no file follows: streams that are not being opened by now are not needed.
    pub(super) fn count_at_end(&self) -> Result<u32, Stopped> {
        if self.is_decided.swap(true, Ordering::Relaxed) { Ok(self.wait()?.streams) } else { Ok(0) }
    }
}

impl Opener {
    /// True if more streams may be of use. The source then waits from now on for [`Opener::open`].
    pub(crate) fn is_wanted(&self) -> bool {
        !self.is_decided.swap(true, Ordering::Relaxed)
    }

    /// Starts a thread for each stream beside the first one, and returns what is to be written to them.
    pub(crate) fn open(self, known: Known) -> Vec<Feed> {
        let feeds = (1..=known.streams as usize).map(|stream| {
            let (encoder, feed) =
                Encoder::new(stream, STREAM_CHUNKS_WAITING_MAX, self.events.clone(), Arc::clone(&self.shared));
            tokio::task::spawn_blocking(move || encoder.run());
            feed
        });
        let feeds = feeds.collect();
        // Without a source there is no use for them, which ends their threads.
        let _ = self.opened.send(known);
        feeds
    }
}
