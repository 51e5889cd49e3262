//! The place of a guest's memory and its other files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::TempDir;

use super::GuestError;
use crate::limits::STOP_POLL;

/// Bytes that the guests of this program may still come to use, at each place.
static PROMISED: Mutex<BTreeMap<PathBuf, u64>> = Mutex::new(BTreeMap::new());

/// A promise has been given back.
static GIVEN_BACK: Condvar = Condvar::new();

fn promised() -> MutexGuard<'static, BTreeMap<PathBuf, u64>> {
    // Sums are whole whenever a holder panics.
    PROMISED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A private directory for a guest, as long as it lasts.
#[derive(Debug)]
pub(super) struct Scratch {
    // Dropped first: what it took is free again when the promise ends.
    directory: TempDir,
    _promise: Promise,
}

impl Scratch {
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Room at a place, for one guest.
#[derive(Debug)]
struct Promise {
    place: PathBuf,
    bytes: u64,
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(bytes) = promised().get_mut(&self.place) {
            *bytes -= self.bytes;
        }
        GIVEN_BACK.notify_all();
    }
}

/// A private directory for a guest, on a file system which has room for its memory and lets it be executed: its memory is
/// a file there, without a name. In main memory if possible, as elsewhere the system writes it to the disk. The file grows as
/// memory is used, so room is promised in advance; a guest for which others leave too little waits until one of them ends.
///
/// # Errors
/// No directory will do, or `stop` was set while it waited.
pub(super) fn scratch(memory_mib: u32, stop: &AtomicBool) -> Result<Scratch, GuestError> {
    in_one_of(&[PathBuf::from("/dev/shm"), std::env::temp_dir(), PathBuf::from("/var/tmp")], memory_mib, stop)
}

fn in_one_of(places: &[PathBuf], memory_mib: u32, stop: &AtomicBool) -> Result<Scratch, GuestError> {
    let bytes = u64::from(memory_mib) << 20;
    let mut all = promised();
    let mut tried;
    'again: loop {
        tried = Vec::new();
        for place in places {
            let there = all.get(place).copied().unwrap_or(0);
            let made = match room(place) {
                Ok(free) if free < bytes && there == 0 => Err(format!("{} MiB free", free >> 20)),
                // Part of what was promised may be used already, and counts twice then: too careful is right here.
                Ok(free) if free < bytes + there => {
                    if stop.load(Ordering::Relaxed) {
                        return Err(GuestError::Stopped { wall: std::time::Duration::ZERO, console: String::new() });
                    }
                    let waited = GIVEN_BACK.wait_timeout(all, STOP_POLL);
                    all = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue 'again;
                }
                // Only this user may enter it (mode 700).
                Ok(_) => tempfile::Builder::new().prefix("dfcp-guest-").tempdir_in(place).map_err(|e| e.to_string()),
                Err(why) => Err(why),
            };
            match made {
                Ok(directory) => {
                    *all.entry(place.clone()).or_default() += bytes;
                    return Ok(Scratch { directory, _promise: Promise { place: place.clone(), bytes } });
                }
                Err(why) => tried.push(format!("{}: {why}", place.display())),
            }
        }
        return Err(GuestError::NoMemory { memory_mib, tried: tried.join("; ") });
    }
}

/// Bytes which are free at a place from which programs may be started.
fn room(place: &Path) -> Result<u64, String> {
    let facts = statvfs(place).map_err(|error| error.to_string())?;
    if facts.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err("mounted noexec".to_owned());
    }
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_place_without_room_is_passed_over_and_named() {
        let places = [PathBuf::from("/dev/shm/there/is/no/such"), PathBuf::from("/proc"), std::env::temp_dir()];
        let never = AtomicBool::new(false);
        let scratch = in_one_of(&places, 1, &never).unwrap();
        assert_eq!(scratch.path().parent(), Some(&*std::env::temp_dir()));
        let places = [places[0].clone(), places[1].clone()];
        let error = in_one_of(&places, u32::MAX, &never).unwrap_err().to_string();
        assert!(error.contains("/dev/shm/there/is/no/such: ") && error.contains("/proc: "), "{error}");
        assert!(error.contains("MiB free") && error.contains("set TMPDIR"), "{error}");
    }

    #[test]
    fn guests_which_need_more_than_there_is_together_run_one_after_the_other() {
        let directory = tempfile::tempdir().unwrap();
        let places = vec![directory.path().to_owned()];
        let free_mib = room(directory.path()).unwrap() >> 20;
        let share_mib = u32::try_from(free_mib / 4 * 3).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let first = in_one_of(&places, share_mib, &stop).unwrap();
        let (place, may_stop) = (places.clone(), Arc::clone(&stop));
        let second = thread::spawn(move || in_one_of(&place, share_mib, &may_stop).map(drop));
        thread::sleep(Duration::from_millis(50));
        assert!(!second.is_finished(), "{share_mib} MiB were promised twice of {free_mib}");
        drop(first);
        second.join().unwrap().unwrap();
        // A guest that waits can be stopped.
        let _first = in_one_of(&places, share_mib, &stop).unwrap();
        let may_stop = Arc::clone(&stop);
        let third = thread::spawn(move || in_one_of(&places, share_mib, &may_stop).map(drop));
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(third.join().unwrap(), Err(GuestError::Stopped { .. })));
    }
}
