//! Flushing of several files, by one flush of the whole file system if that is cheaper.
//!
//! Flushing a file costs the disk one or two writes, however small the file is. Files flushed together share these
//! writes. For several files, the whole file system is therefore flushed (`syncfs`), although this also waits for
//! writes of other programs. Each file is flushed alone, several in parallel, if `syncfs` fails, is not known to reach
//! the disk and report errors, or was too slow recently.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::beneath::{flush_file_system, status_of};
use crate::limits::{FLUSH_PAUSE, FLUSH_WORTH_PER_FILE, FLUSHED_TOGETHER_MIN, FLUSHES_AT_ONCE_MAX};

/// Decides between one flush of the whole file system and a flush of each file. A whole flush that takes too long,
/// because other programs write much, suspends whole flushes for a number of flushes. The number doubles each time.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// Number of flushes until a whole flush is tried again.
    left: AtomicUsize,
    /// Length of the next suspension, in flushes.
    pause: AtomicUsize,
}

impl Together {
    fn is_due(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    fn measure<T>(&self, files: usize, flush: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = flush();
        self.note(files, started.elapsed());
        result
    }

    fn note(&self, files: usize, elapsed: Duration) {
        let worth = FLUSH_WORTH_PER_FILE.saturating_mul(u32::try_from(files).unwrap_or(u32::MAX));
        if elapsed <= worth {
            self.pause.store(0, Ordering::Relaxed);
            return;
        }
        let pause = self.pause.load(Ordering::Relaxed).clamp(*FLUSH_PAUSE.start(), *FLUSH_PAUSE.end());
        self.left.store(pause, Ordering::Relaxed);
        self.pause.store(pause * 2, Ordering::Relaxed);
    }
}

/// Flushes all `files`; returns their results in order.
pub(super) fn flush_all(files: &[&File], together: &Together) -> Vec<io::Result<()>> {
    let mut file_systems: BTreeMap<Option<u64>, Vec<usize>> = BTreeMap::new();
    for (place, file) in files.iter().enumerate() {
        let device = status_of(file).ok().map(|status| status.identity.device());
        file_systems.entry(device).or_default().push(place);
    }
    let mut results = BTreeMap::new();
    for (device, places) in file_systems {
        // `syncfs` reports errors since the file was opened, so the file opened first reports the errors of all files.
        let is_flushed = device.is_some()
            && places.len() >= FLUSHED_TOGETHER_MIN
            && together.is_due()
            && together.measure(places.len(), || flush_file_system(files[places[0]])).is_ok();
        let one_by_one = if is_flushed { Vec::new() } else { flush_each(&places, files) };
        results.extend(places.into_iter().zip(one_by_one.into_iter().chain(std::iter::repeat_with(|| Ok(())))));
    }
    results.into_values().collect()
}

/// Flushes the files at the indices `places` one by one, several in parallel. Results are in the order of `places`.
fn flush_each(places: &[usize], files: &[&File]) -> Vec<io::Result<()>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = places.get(turn).and_then(|place| files.get(*place)) else { return };
            let result = file.sync_all();
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(turn, result);
        }
    };
    let helpers = places.len().min(FLUSHES_AT_ONCE_MAX).saturating_sub(1);
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            // If no thread can be started, the current thread does all the work.
            if std::thread::Builder::new().name("flush files".to_owned()).spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_file_system_is_flushed_as_a_whole_ever_more_rarely() {
        let together = Together::default();
        let (slow, fast) = (FLUSH_WORTH_PER_FILE * 9, FLUSH_WORTH_PER_FILE * 8);
        let pauses = || (0..).find(|_| together.is_due()).unwrap();
        assert_eq!(pauses(), 0);
        for expected in [1, 2, 4] {
            together.note(8, slow);
            assert_eq!(pauses(), expected * FLUSH_PAUSE.start());
        }
        for _ in 0..64 {
            together.note(8, slow);
        }
        assert_eq!(pauses(), *FLUSH_PAUSE.end());
        together.note(8, fast);
        assert_eq!(pauses(), 0);
        together.note(8, slow);
        assert_eq!(pauses(), *FLUSH_PAUSE.start());
    }

    /// One of many files cannot be flushed: each file has its own result, in order.
    #[cfg(unix)]
    #[test]
    fn results_are_those_of_each_file_however_many() {
        let here = tempfile::tempdir().unwrap();
        for count in [1, FLUSHED_TOGETHER_MIN, 100] {
            let files: Vec<File> = (0..count)
                .map(|number| match number {
                    // `/dev/null` accepts bytes, but cannot be flushed.
                    2 => File::options().write(true).open("/dev/null").unwrap(),
                    _ => File::create(here.path().join(number.to_string())).unwrap(),
                })
                .collect();
            let results = flush_all(&files.iter().collect::<Vec<_>>(), &Together::default());
            let expected: Vec<_> = (0..count).map(|number| number != 2).collect();
            assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), expected);
        }
    }
}
