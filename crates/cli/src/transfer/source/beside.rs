//! How files get to the streams beside the first one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use super::encoder::{Encoder, Job};
use super::{Event, Feed, Shared, Stopped};
use crate::limits::{FILES_OPENED_AHEAD_MAX, STREAM_CHUNKS_WAITING_MAX};

/// The end at which files come in.
#[derive(Debug)]
pub(super) struct Beside {
    jobs: SyncSender<Job>,
    opened: Receiver<u32>,
    count: Option<u32>,
    is_decided: Arc<AtomicBool>,
}

/// The end at which streams are opened and take files.
#[derive(Debug)]
pub(in crate::transfer) struct Opener {
    jobs: Arc<Mutex<Receiver<Job>>>,
    opened: std::sync::mpsc::Sender<u32>,
    /// Whether it was decided to open streams or not. Both ends may decide it; the first one does.
    is_decided: Arc<AtomicBool>,
    events: mpsc::Sender<Event>,
    shared: Arc<Shared>,
}

pub(super) fn pair(events: mpsc::Sender<Event>, shared: Arc<Shared>) -> (Beside, Opener) {
    let (jobs_in, jobs) = sync_channel(FILES_OPENED_AHEAD_MAX);
    let (opened, opened_out) = std::sync::mpsc::channel();
    let is_decided = Arc::new(AtomicBool::new(false));
    let beside = Beside { jobs: jobs_in, opened: opened_out, count: None, is_decided: Arc::clone(&is_decided) };
    (beside, Opener { jobs: Arc::new(Mutex::new(jobs)), opened, is_decided, events, shared })
}

impl Beside {
    /// How many streams there are, if that is known.
    pub(super) fn count(&mut self) -> Option<u32> {
        self.count = self.count.or_else(|| self.opened.try_recv().ok());
        self.count
    }

    /// How many there are, once that is known.
    pub(super) fn wait(&mut self) -> Result<u32, Stopped> {
        let count = self.count.map_or_else(|| self.opened.recv().map_err(|_| Stopped), Ok)?;
        self.count = Some(count);
        Ok(count)
    }

    /// How many there are, when no file follows: what is not being opened by now is not needed.
    pub(super) fn count_at_end(&mut self) -> Result<u32, Stopped> {
        if self.is_decided.swap(true, Ordering::Relaxed) { self.wait() } else { Ok(0) }
    }

    /// Leaves a file to the stream that is free next; gives it back if all are busy.
    pub(super) fn try_hand_on(&self, job: Job) -> Result<Option<Job>, Stopped> {
        match self.jobs.try_send(job) {
            Ok(()) => Ok(None),
            Err(TrySendError::Full(job)) => Ok(Some(job)),
            Err(TrySendError::Disconnected(_)) => Err(Stopped),
        }
    }

    /// Leaves a file to the stream that is free next.
    pub(super) fn hand_on(&self, job: Job) -> Result<(), Stopped> {
        self.jobs.send(job).map_err(|_| Stopped)
    }
}

impl Opener {
    /// Whether there may be a use for more streams. If so, the source waits from now on for [`Opener::open`].
    pub(in crate::transfer) fn is_wanted(&self) -> bool {
        !self.is_decided.swap(true, Ordering::Relaxed)
    }

    /// Starts a thread for each of `count` streams beside the first one, and returns what is to be written to them.
    pub(in crate::transfer) fn open(self, count: u32) -> Vec<Feed> {
        let feeds = (1..=count as usize).map(|stream| {
            let (encoder, feed) =
                Encoder::new(stream, STREAM_CHUNKS_WAITING_MAX, self.events.clone(), Arc::clone(&self.shared));
            let jobs = Arc::clone(&self.jobs);
            tokio::task::spawn_blocking(move || encoder.run(&jobs));
            feed
        });
        let feeds = feeds.collect();
        // Without a source there is no use for them, which ends their threads.
        let _ = self.opened.send(count);
        feeds
    }
}
