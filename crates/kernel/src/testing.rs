//! Helpers common to this crate's tests.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a failed helper is a failed test, a skipped one says so")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cache::Cache;
use crate::kernel::Kernel;

/// Kernel for a test: `$DFCP_TEST_KERNEL`, else the newest in the cache; `None` skips the test.
pub(crate) fn kernel() -> Option<Kernel> {
    let kernel = match std::env::var_os("DFCP_TEST_KERNEL") {
        Some(path) => Kernel::at(Path::new(&path)),
        None => Cache::of_user().and_then(|cache| cache.find(None)),
    };
    kernel.map_err(|error| println!("skipped: {error}")).ok()
}

/// Writes an executable shell script, in a separate process: a file open for writing in this process could not be executed (ETXTBSY) if
/// another thread forks meanwhile.
pub(crate) fn script(path: &Path, lines: &str) {
    let mut writer = Command::new("/bin/sh");
    writer.args(["-c", r#"cat > "$0" && chmod 755 "$0""#]).arg(path).stdin(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    write!(writer.stdin.take().unwrap(), "#!/bin/sh\n{lines}\n").unwrap();
    assert!(writer.wait().unwrap().success());
}

/// Writes a file that is no program but starts like one and contains these marks.
pub(crate) fn fake(path: &Path, marks: &[&[u8]], mode: u32) {
    fs::write(path, [b"\x7fELF\n".as_slice(), &marks.concat()].concat()).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
