//! Sweeps over shell scripts that replace a file, with and without the necessary flushes.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed helper is a failed test, a skipped one says so"
)]

use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use dfcp_powercut::{Case, Disk, Ending, Program, Report, Sweep, missing};

const OLD: &[u8] = b"what was there before";
/// Bytes of the new content, more than one block.
const NEW_BYTES: usize = 10_000;

/// A script that replaces `file` by NEW_BYTES times `n`.
struct Replacing {
    script: &'static str,
    status: Option<ExitStatus>,
}

impl Program for Replacing {
    fn start(&mut self, directory: &Path) -> io::Result<Child> {
        let write = format!("head -c {NEW_BYTES} /dev/zero | tr '\\0' n >");
        let script = self.script.replace("WRITE", &write);
        let mut command = Command::new("sh");
        // After the cut the tools report I/O errors.
        command.args(["-e", "-c", &script]).current_dir(directory).stderr(std::process::Stdio::null()).spawn()
    }

    fn stopped(&mut self, status: Option<ExitStatus>) -> io::Result<()> {
        self.status = status;
        Ok(())
    }

    fn check(&mut self, case: &Case<'_>) -> Result<(), String> {
        let found = case.disk.read("file").ok_or("the file is not there any more")?;
        let is_new = found == [b'n'; NEW_BYTES];
        match self.status {
            Some(status) if !status.success() => Err(format!("the script failed by itself: {status}")),
            Some(_) if !is_new => Err("the script has succeeded, and the new content is not there".to_owned()),
            _ if is_new || found == OLD => Ok(()),
            _ => Err(format!("there are {} bytes that are neither the old nor the new content", found.len())),
        }
    }
}

/// Report of a sweep; `None` if mounting is impossible.
fn sweep(script: &'static str) -> Option<Report> {
    if let Some(reason) = missing() {
        println!("skipped: {reason}");
        return None;
    }
    let mut disk = Disk::new();
    disk.put("file", OLD);
    let report = Sweep { disk, seeds: 0..12, ..Sweep::default() }.run(&mut Replacing { script, status: None }).unwrap();
    assert!(report.is_complete);
    Some(report)
}

#[test]
fn a_flushed_file_with_a_flushed_name_is_never_lost() {
    let Some(report) = sweep("WRITE tmp; sync tmp; mv tmp file; sync .") else { return };
    report.assert_right();
    assert!(
        report.points >= 7,
        "create, write, fsync, rename (twice, if the first must not replace), fsync: {report:?}"
    );
}

#[test]
fn each_missing_flush_is_noticed() {
    for (script, sentence) in [
        ("WRITE tmp; mv tmp file; sync .", "neither the old nor the new"),
        ("WRITE tmp; sync tmp; mv tmp file", "has succeeded, and the new content is not there"),
        ("WRITE file; sync file", "neither the old nor the new"),
        ("WRITE tmp; sync tmp; rm file; sync .; mv tmp file; sync .", "not there any more"),
    ] {
        let Some(report) = sweep(script) else { return };
        let said = report.to_string();
        assert!(report.failures.iter().any(|failed| failed.sentence.contains(sentence)), "{script}: {said}");
        assert!(said.contains("replay: Sweep { first: "), "{said}");
    }
}

/// The missing flush matters only for power cuts: after a kill the kernel still has the data.
#[test]
fn a_killed_program_loses_nothing_that_it_wrote() {
    let Some(report) = sweep("WRITE tmp; mv tmp file; sync .") else { return };
    assert!(report.failures.iter().all(|failed| failed.ending != Ending::Kill), "{report}");
}

#[test]
fn what_failed_is_found_again_by_its_replay() {
    let Some(report) = sweep("WRITE tmp; mv tmp file; sync .") else { return };
    let failed = report.failures.first().expect("nothing was lost");
    let Ending::PowerCut { seed } = failed.ending else { panic!("{failed}") };
    let mut disk = Disk::new();
    disk.put("file", OLD);
    let (first, last) = (failed.cut_at, failed.cut_at);
    let sweep = Sweep { disk, first, last, seeds: seed..seed + 1, ..Sweep::default() };
    let again = sweep.run(&mut Replacing { script: "WRITE tmp; mv tmp file; sync .", status: None }).unwrap();
    assert_eq!(again.failures.iter().map(|one| &one.sentence).collect::<Vec<_>>(), [&failed.sentence]);
}
