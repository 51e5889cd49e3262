//! Mounting and unmounting.

use std::io::{self, PipeReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::disk::Disk;
use crate::filesystem::Filesystem;
use crate::record::{Operation, Record};

/// A mounted file system whose power can be cut, which loses unflushed data. Dropping it unmounts it.
#[derive(Debug)]
pub struct PowerCut {
    path: PathBuf,
    state: Arc<Mutex<State>>,
    alarm: PipeReader,
    /// `None` after unmounting.
    session: Option<BackgroundSession>,
}

/// State that the file system's thread shares with the test.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) disk: Disk,
    pub(crate) record: Record,
}

pub(crate) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tries to mount, and returns the reason if that is impossible here. A test prints this reason and skips itself.
pub fn missing() -> Option<String> {
    let mounted = tempfile::tempdir().and_then(|directory| PowerCut::mount(directory.path(), Disk::new()).map(drop));
    mounted.err().map(|error| format!("no FUSE file system can be mounted here: {error}"))
}

impl PowerCut {
    /// Mounts `disk` at the directory `at`. Unflushed data of `disk` stays unflushed; operation numbers start from 1 again.
    ///
    /// # Errors
    /// Fails if there is no `/dev/fuse`, or mounting is not permitted.
    pub fn mount(at: &Path, disk: Disk) -> io::Result<Self> {
        let path = at.canonicalize()?;
        let (alarm, writer) = io::pipe()?;
        let state = Arc::new(Mutex::new(State { disk, record: Record::with_alarm(writer) }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("powercut".to_owned()), MountOption::DefaultPermissions];
        let session = fuser::Session::new(Filesystem::new(Arc::clone(&state)), &path, &config)?.spawn()?;
        Ok(Self { path, state, alarm, session: Some(session) })
    }

    /// Mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Cuts the power at operation `number`, counted from mounting: this operation and everything after it fails with EIO.
    pub fn cut_at(&self, number: u64) {
        lock(&self.state).record.cut_at(number);
    }

    /// True if the power is off.
    pub fn is_cut(&self) -> bool {
        lock(&self.state).record.is_cut()
    }

    /// Number of modifying or flushing operations since mounting.
    pub fn operations(&self) -> u64 {
        lock(&self.state).record.count()
    }

    /// The operations since mounting.
    pub fn log(&self) -> Vec<Operation> {
        lock(&self.state).record.operations().to_vec()
    }

    /// A snapshot of the current state.
    pub fn disk(&self) -> Disk {
        lock(&self.state).disk.clone()
    }

    /// Sets the free space, like [`Disk::set_free_bytes`].
    pub fn set_free_bytes(&self, free_bytes: u64) {
        lock(&self.state).disk.set_free_bytes(free_bytes);
    }

    /// Waits for `child` to end, and kills it when the power is cut. Returns no status after a cut.
    ///
    /// # Errors
    /// Fails if `child` neither ended nor reached the cut within `patience`, and was killed; or if a system call failed.
    pub fn watch(&self, child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let mut waited = [PollFd::new(&process, PollFlags::IN), PollFd::new(&self.alarm, PollFlags::IN)];
        let limit = Timespec::try_from(patience).map_err(io::Error::other)?;
        // Signals interrupt poll.
        let count = loop {
            match poll(&mut waited, Some(&limit)) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        let has_ended = !waited[0].revents().is_empty();
        if !has_ended {
            child.kill()?;
        }
        let status = child.wait()?;
        if count == 0 {
            let sentence = format!("the program has neither ended nor reached the cut in {patience:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, sentence));
        }
        Ok((!self.is_cut()).then_some(status))
    }

    /// Unmounts, and returns the state seen by programs: a killed process loses no data that the kernel has.
    #[must_use]
    pub fn after_kill(mut self) -> Disk {
        self.unmount();
        self.disk()
    }

    /// Unmounts, and returns the state after a power cut: the durable part, and a part of the rest drawn from `seed`.
    #[must_use]
    pub fn after_power_cut(self, seed: u64) -> Disk {
        self.after_kill().after_power_cut(seed)
    }

    fn unmount(&mut self) {
        let Some(session) = self.session.take() else { return };
        // A process with an open descriptor must no longer change the state.
        lock(&self.state).record.cut();
        // Unmounting by `fuser` fails while descriptors are open; a lazy unmount frees the mount point immediately. It
        // fails only if the file system is already unmounted.
        let _unmounted = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
        // The thread is not joined: it ends with the last descriptor, which the test itself may hold.
        drop(session);
    }
}

impl Drop for PowerCut {
    fn drop(&mut self) {
        self.unmount();
    }
}
