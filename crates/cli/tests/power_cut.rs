//! Crash tests of `dfcp receive` on a file system that drops unflushed data: kills and power cuts at successive operations.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failed helper is a failed test, a skipped one says so"
)]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use dfcp_powercut::{Case, Disk, Ending, Failed, Program, Report, Sweep, missing};
use serde_json::Value;
use support::{PATIENCE, Site, own_loopback};

/// Environment variable with the number of operations between cuts. 1 tries all of them, which takes minutes.
const STRIDE: &str = "DFCP_TEST_POWER_CUT_STRIDE";

/// Sending rate that lets the receiver confirm small files while the large file is still arriving.
const SLOW: &str = "30mbit";
const FAST: &str = "200mbit";

/// Number of power cuts per run.
const SEEDS: u64 = 12;

/// File that takes longer than the others.
const LARGE: &str = "tree/large";

/// Output directory below the mount point, created by the receiver.
const OUTPUT: &str = "incoming";

/// Transfer to a receiver on the tested file system.
struct Transfer {
    site: Site,
    address: String,
    /// Contents to send, by name at the receiver.
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// Contents at the receiver before the transfer.
    old: BTreeMap<PathBuf, Vec<u8>>,
    /// Additional arguments of the receiver.
    more: &'static [&'static str],
    sender: Option<(Child, JoinHandle<String>)>,
    /// Files that the sender or the audit log reports as stored. The log records them before the sender is notified, so a kill cannot hide
    /// a confirmation in flight.
    confirmed: BTreeSet<PathBuf>,
    /// Number of runs with a confirmed file before the cut.
    cut_between: usize,
    /// Number of cases in which the large file could be resumed.
    unfinished: usize,
    /// Largest amount of unjournalled data that a kill lost, bytes.
    lost_bytes: u64,
}

impl Transfer {
    /// Creates a transfer whose large file has `large_kib`.
    fn new(port: u16, large_kib: u32, old: &[&str], more: &'static [&'static str]) -> Self {
        let site = Site::new();
        let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        for number in 0..6_usize {
            files.insert(format!("tree/{number}").into(), number.to_string().repeat(number * 3_000).into());
            files.insert(format!("tree/sub/deep/{number}").into(), format!("deep {number}").into());
        }
        // No zeros, which the receiver would store as holes, and no equal blocks.
        let large = (0..large_kib << 8).flat_map(u32::to_le_bytes).collect();
        files.insert("tree/large".into(), large);
        for (name, content) in &files {
            let path = site.path("").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let old = old.iter().map(|name| (PathBuf::from(name), format!("the old {name}").into())).collect();
        let (address, confirmed) = (own_loopback(port), BTreeSet::new());
        Self { site, address, files, old, more, sender: None, confirmed, cut_between: 0, unfinished: 0, lost_bytes: 0 }
    }

    fn audit_log(&self) -> PathBuf {
        self.site.path("audit.jsonl")
    }

    /// Starts a sender. The thread returns its standard output.
    fn send(&self, rate: &str) -> io::Result<(Child, JoinHandle<String>)> {
        let arguments = ["send", "tree", &self.address, "--accept-new-key", "--json", "--rate", rate];
        let mut command = self.site.command(&arguments);
        command.current_dir(self.site.path("")).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let mut printed = child.stdout.take().unwrap();
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            printed.read_to_string(&mut text).unwrap();
            text
        });
        Ok((child, reading))
    }

    /// Starts a receiver into `directory`; returns true once it listens, false if it failed.
    fn receive(&self, directory: &Path) -> io::Result<(Child, bool)> {
        // Remove the previous run's log: the receiver would append to it.
        let log = self.audit_log();
        if log.exists() {
            fs::remove_file(&log)?;
        }
        let (output, log) = (directory.join(OUTPUT), log.to_str().unwrap().to_owned());
        let (output, address) = (output.to_str().unwrap(), self.address.as_str());
        let arguments = ["receive", "--once", "--allow-any", "--listen", address, "--output", output];
        let mut command = self.site.command(&[&arguments[..], &["--log-json", &log], self.more].concat());
        let mut receiver = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let printed = BufReader::new(receiver.stderr.take().unwrap()).lines();
        let (said, lines) = mpsc::channel();
        // Drain the pipe, so that the program never blocks on it.
        std::thread::spawn(move || {
            for line in printed.map_while(Result::ok) {
                let _test_is_over = said.send(line);
            }
        });
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains("listening on") => return Ok((receiver, true)),
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok((receiver, false)),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    receiver.kill()?;
                    return Err(io::Error::other("the receiver neither listens nor ends"));
                }
            }
        }
    }

    /// Returns the number of bytes of the large file that can be resumed.
    fn unfinished_bytes(&self, case: &Case<'_>) -> io::Result<u64> {
        let mounted = case.mount()?;
        let output = mounted.path().join(OUTPUT);
        if !output.exists() {
            return Ok(0);
        }
        let listed =
            self.site.command(&["receive", "--partials", "--json", "--output", output.to_str().unwrap()]).output()?;
        if !listed.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&listed.stderr).into_owned()));
        }
        let lines = String::from_utf8_lossy(&listed.stdout).into_owned();
        let found = events(&lines).into_iter().find(|event| event["name"] == LARGE);
        Ok(found.map_or(0, |event| event["bytes"].as_u64().unwrap()))
    }

    /// Checks that the resumable bytes equal the sent ones: a journal must not claim data that the disk lost.
    fn check_unfinished(&mut self, case: &Case<'_>) -> Result<u64, String> {
        let bytes = self.unfinished_bytes(case).map_err(|error| error.to_string())?;
        let is_part = |path: &PathBuf| path.to_string_lossy().ends_with(".part");
        let there = case.disk.paths().into_iter().filter(is_part).filter_map(|path| case.disk.read(&path));
        let there = there.max_by_key(Vec::len).unwrap_or_default();
        if case.ending == Ending::Kill {
            self.lost_bytes = self.lost_bytes.max((there.len() as u64).saturating_sub(bytes));
        }
        self.unfinished += usize::from(bytes > 0);
        let whole = &self.files[Path::new(LARGE)];
        let is_sent = there.get(..bytes as usize).is_some_and(|there| whole.starts_with(there));
        if is_sent { Ok(bytes) } else { Err(format!("the journal promises {bytes} bytes, which are not there")) }
    }

    /// Sends the tree again after a power cut; the transfer must complete it and resume after `unfinished_bytes`.
    fn send_again(&self, case: &Case<'_>, unfinished_bytes: u64) -> io::Result<()> {
        let mounted = case.mount()?;
        let (mut receiver, listens) = self.receive(mounted.path())?;
        let mut resumed_bytes = 0;
        if listens {
            let (mut sender, reading) = self.send(FAST)?;
            sender.wait()?;
            let said = reading.join().unwrap();
            let large = events(&said).into_iter().find(|event| event["name"] == LARGE);
            resumed_bytes = large.map_or(0, |event| event["resumed_bytes"].as_u64().unwrap());
        }
        let status = receiver.wait()?;
        let disk = mounted.disk();
        let is_there =
            |(name, content): (&PathBuf, &Vec<u8>)| disk.read(Path::new(OUTPUT).join(name)).as_ref() == Some(content);
        if status.success() && self.files.iter().all(is_there) {
            if resumed_bytes == unfinished_bytes {
                return Ok(());
            }
            return Err(io::Error::other(format!("{resumed_bytes} bytes were gone on with, not {unfinished_bytes}")));
        }
        Err(io::Error::other(format!("sent again, not everything has come ({status}); there is {:?}", disk.paths())))
    }

    /// Cuts the transfer at successive operations from `first` on; `None` if no file system can be mounted.
    fn sweep(&mut self, first: u64) -> Option<Report> {
        if let Some(reason) = missing() {
            eprintln!("skipped: {reason}");
            return None;
        }
        let mut disk = Disk::new();
        self.old.iter().for_each(|(name, content)| disk.put(Path::new(OUTPUT).join(name), content));
        let stride = std::env::var(STRIDE).map_or(13, |stride| stride.parse().unwrap());
        let sweep = Sweep { disk, first, stride, seeds: 0..SEEDS, patience: PATIENCE, ..Sweep::default() };
        let report = sweep.run(self).unwrap();
        assert!(report.is_complete);
        eprintln!(
            "{} runs ({} cut between confirmations), {} cases, {} of them with an unfinished file; killed, it lost at most {} bytes",
            report.points, self.cut_between, report.cases, self.unfinished, self.lost_bytes
        );
        Some(report)
    }
}

/// Parses JSON lines; the last one may be incomplete.
fn events(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

impl Program for Transfer {
    fn start(&mut self, directory: &Path) -> io::Result<Child> {
        let (receiver, listens) = self.receive(directory)?;
        if listens {
            self.sender = Some(self.send(SLOW)?);
        }
        Ok(receiver)
    }

    fn stopped(&mut self, status: Option<ExitStatus>) -> io::Result<()> {
        self.confirmed.clear();
        let mut said = String::new();
        if let Some((mut sender, reading)) = self.sender.take() {
            if status.is_none() {
                // Kill the sender, too: it would wait for the killed receiver.
                sender.kill()?;
            }
            sender.wait()?;
            said = reading.join().unwrap();
        }
        let told = events(&said).into_iter().filter(|event| event["event"] == "file" && event["ok"] == true);
        let logged = events(&fs::read_to_string(self.audit_log()).unwrap_or_default());
        let logged = logged.into_iter().filter(|event| event["event"] == "file" && event["outcome"] == "stored");
        self.confirmed = told.chain(logged).map(|event| event["name"].as_str().unwrap().into()).collect();
        self.cut_between += usize::from(status.is_none() && !self.confirmed.is_empty());
        Ok(())
    }

    fn check(&mut self, case: &Case<'_>) -> Result<(), String> {
        if case.status.is_some_and(|status| !status.success()) {
            return Err("the receiver has failed by itself".to_owned());
        }
        let complete = case.status.is_some().then_some(self.files.keys()).into_iter().flatten();
        for name in self.confirmed.iter().chain(complete) {
            let Some(content) = self.files.get(name) else { continue };
            let found = case.disk.read(Path::new(OUTPUT).join(name));
            if found.as_ref() != Some(content) {
                let found = found.map_or_else(|| "missing".to_owned(), |found| format!("one of {} bytes", found.len()));
                return Err(format!("{} was confirmed, and is {found}", name.display()));
            }
            // Both files were created under the same umask.
            let sent = fs::metadata(self.site.path("").join(name)).unwrap().permissions().mode();
            if case.disk.mode(Path::new(OUTPUT).join(name)) != Some(sent & 0o755) {
                return Err(format!("{} was confirmed, and has another mode", name.display()));
            }
        }
        for path in case.disk.paths() {
            let name = path.strip_prefix(OUTPUT).unwrap_or(&path);
            let Some(found) = case.disk.read(&path) else { continue };
            let is_unfinished = name.iter().any(|component| component.to_str().unwrap().starts_with(".dfcp-"));
            let is_right = [&self.files, &self.old].iter().any(|known| known.get(name) == Some(&found));
            if !is_unfinished && !is_right {
                return Err(format!("{} has {} bytes which were never sent", path.display(), found.len()));
            }
        }
        let is_lost = |name: &&PathBuf| case.disk.read(Path::new(OUTPUT).join(name)).is_none();
        if let Some(name) = self.old.keys().find(is_lost) {
            return Err(format!("{} is lost, old and new", name.display()));
        }
        let unfinished_bytes = self.check_unfinished(case)?;
        // Do this for one seed per cut only: it takes as long as the run itself.
        if case.ending == (Ending::PowerCut { seed: case.cut_at % SEEDS }) {
            return self.send_again(case, unfinished_bytes).map_err(|error| error.to_string());
        }
        Ok(())
    }
}

#[test]
fn a_confirmed_file_survives_a_power_cut() {
    let Some(report) = Transfer::new(29_011, 3 << 10, &[], &[]).sweep(1) else { return };
    report.assert_right();
}

#[test]
fn a_replaced_file_is_the_old_or_the_new_one() {
    let mut transfer = Transfer::new(29_012, 3 << 10, &["tree/1", "tree/large", "tree/sub/deep/3"], &["--force"]);
    let Some(report) = transfer.sweep(1) else { return };
    report.assert_right();
}

/// The file is long enough for several journal records.
#[test]
fn an_unfinished_file_goes_on_after_a_power_cut() {
    let mut transfer = Transfer::new(29_014, 8 << 10, &[], &[]);
    let Some(report) = transfer.sweep(9) else { return };
    report.assert_right();
    assert!(transfer.unfinished > 0, "no cut has left anything to go on with");
}

/// Negative control: the tests above detect a receiver that confirms too early.
#[test]
fn without_flushing_confirmed_files_are_lost() {
    // The receiver ends long before this operation.
    let Some(report) = Transfer::new(29_013, 3 << 10, &[], &["--no-sync"]).sweep(1_000_000) else { return };
    let lost = |failed: &Failed| failed.ending != Ending::Kill && failed.sentence.contains(" was confirmed, and ");
    assert!(!report.failures.is_empty() && report.failures.iter().all(lost), "{report}");
}
