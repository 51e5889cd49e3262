//! Where a guest's memory and its other files are.

use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::TempDir;

use super::GuestError;

/// A private directory for a guest, on a file system which has room for its memory and lets it be executed: its memory is
/// a file there, without a name. In main memory if possible, as elsewhere the system writes it to the disk.
///
/// # Errors
/// No directory will do.
pub(super) fn directory(memory_mib: u32) -> Result<TempDir, GuestError> {
    in_one_of(&[PathBuf::from("/dev/shm"), std::env::temp_dir(), PathBuf::from("/var/tmp")], memory_mib)
}

fn in_one_of(places: &[PathBuf], memory_mib: u32) -> Result<TempDir, GuestError> {
    let mut tried = Vec::new();
    for place in places {
        let made = check(place, u64::from(memory_mib) << 20).and_then(|()| {
            // Only this user may enter it (mode 700).
            tempfile::Builder::new().prefix("dfcp-guest-").tempdir_in(place).map_err(|error| error.to_string())
        });
        match made {
            Ok(directory) => return Ok(directory),
            Err(why) => tried.push(format!("{}: {why}", place.display())),
        }
    }
    Err(GuestError::NoMemory { memory_mib, tried: tried.join("; ") })
}

fn check(place: &Path, bytes: u64) -> Result<(), String> {
    let facts = statvfs(place).map_err(|error| error.to_string())?;
    if facts.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err("mounted noexec".to_owned());
    }
    let free = facts.f_bavail.saturating_mul(facts.f_frsize);
    if free < bytes { Err(format!("{} MiB free", free >> 20)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_without_room_is_passed_over_and_named() {
        let places = [PathBuf::from("/dev/shm/there/is/no/such"), PathBuf::from("/proc"), std::env::temp_dir()];
        let directory = in_one_of(&places, 1).unwrap();
        assert_eq!(directory.path().parent(), Some(&*std::env::temp_dir()));
        let error = in_one_of(&places, u32::MAX).unwrap_err().to_string();
        assert!(error.contains("/dev/shm/there/is/no/such: ") && error.contains("/proc: "), "{error}");
        assert!(error.contains("MiB free") && error.contains("set TMPDIR"), "{error}");
    }
}
