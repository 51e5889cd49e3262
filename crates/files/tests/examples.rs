//! Test that runs the example `directory` as a module in this process.

#[path = "../examples/directory.rs"]
#[expect(dead_code, reason = "its command line")]
mod directory;

use std::fs;

#[tokio::test]
async fn a_directory_is_copied_and_what_is_there_is_not_overwritten() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let photos = here.path().join("photos");
    fs::create_dir_all(photos.join("2026")).unwrap();
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(photos.join("2026/otter"), &content).unwrap();
    fs::write(photos.join("empty"), b"").unwrap();
    let report = directory::copy(&photos, there.path()).await.unwrap();
    assert_eq!((report.stored, report.directories, report.bytes), (4, 2, content.len() as u64));
    assert!(report.is_complete() && fs::read(there.path().join("photos/2026/otter")).unwrap() == content);

    fs::write(photos.join("empty"), b"no more").unwrap();
    let report = directory::copy(&photos, there.path()).await.unwrap();
    // Both files fail. The receiver does not tell a sender with another key that a file is equal.
    assert_eq!((report.is_complete(), report.failed), (false, 2), "{report:?}");
    assert!(fs::read(there.path().join("photos/empty")).unwrap().is_empty());
}
