//! Location of a guest's memory and its other files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::TempDir;

use super::GuestError;
use crate::limits::STOP_POLL;

/// Bytes that this program's guests may still use, per directory.
static PROMISED: Mutex<BTreeMap<PathBuf, u64>> = Mutex::new(BTreeMap::new());

/// Signal that a reservation was released.
static GIVEN_BACK: Condvar = Condvar::new();

fn promised() -> MutexGuard<'static, BTreeMap<PathBuf, u64>> {
    // The sums are consistent even if a lock holder panicked.
    PROMISED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A private directory of a guest, for its lifetime.
#[derive(Debug)]
pub(super) struct Scratch {
    // Dropped first, so that the space is free when the reservation ends.
    directory: TempDir,
    _promise: Promise,
}

impl Scratch {
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// A reservation of space in a directory, for one guest.
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

/// Creates a private directory for a guest on a file system with enough space for its memory, an unnamed file that must be executable. Main
/// memory is preferred, because other file systems write the memory to disk. The file grows with use, so space is reserved in advance; a
/// guest without enough space waits until another one ends.
///
/// # Errors
/// Fails if no directory is suitable, or `stop` is set during the wait.
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
                // The used part of another reservation counts twice: this errs on the safe side.
                Ok(free) if free < bytes + there => {
                    if stop.load(Ordering::Relaxed) {
                        return Err(GuestError::Stopped { wall: std::time::Duration::ZERO, console: String::new() });
                    }
                    let waited = GIVEN_BACK.wait_timeout(all, STOP_POLL);
                    all = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue 'again;
                }
                // Accessible only to this user (mode 700).
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

/// Free bytes in a directory, which must permit the execution of files.
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
        // A waiting guest can be stopped.
        let _first = in_one_of(&places, share_mib, &stop).unwrap();
        let may_stop = Arc::clone(&stop);
        let third = thread::spawn(move || in_one_of(&places, share_mib, &may_stop).map(drop));
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(third.join().unwrap(), Err(GuestError::Stopped { .. })));
    }
}
