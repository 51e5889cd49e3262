//! Host side of the test: starts the kernel and prints its output.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use dfcp_kernel::Cache;

/// Name of the test in listings.
const NAME: &str = "network";

pub(crate) fn run() -> ExitCode {
    let (options, mut filters): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    if options.iter().any(|option| option == "--list") {
        // A test runner requests the list of tests, and separately the list of ignored ones.
        if !options.iter().any(|option| option == "--ignored") {
            println!("{NAME}: test");
        }
        return ExitCode::SUCCESS;
    }
    filters.retain(|filter| filter != NAME);
    let kernel = match std::env::var_os("DFCP_TEST_KERNEL").map(PathBuf::from) {
        Some(path) => path,
        None => match Cache::of_user().and_then(|cache| cache.find(None)) {
            Ok(kernel) => kernel.path().to_owned(),
            Err(error) => {
                println!("skipped: {error}");
                return ExitCode::SUCCESS;
            }
        },
    };
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("job"), "what the host says").unwrap();
    let said = boot(&kernel, home.path(), home.path(), &filters);
    let count = |word: &str| said.iter().filter(|line| line.starts_with(word)).count();
    let is_complete = said.iter().any(|line| line == "complete");
    println!(
        "{} passed, {} failed{}",
        count("ok "),
        count("FAILED "),
        if is_complete { "" } else { ", and then it broke off" }
    );
    let answer = std::fs::read_to_string(home.path().join("answer")).unwrap_or_default();
    assert_eq!(answer, "what the host says, read", "what the guest wrote into the host's directory");
    // An error also powers the machine off, with its message.
    let said = boot(&kernel, home.path(), Path::new("/nowhere"), &[]);
    let error = "error: cannot mount hostfs at /run/job: ";
    assert!(said.iter().any(|line| line.starts_with(error)), "{said:?}");
    if is_complete && count("FAILED ") == 0 && count("ok ") > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn boot(kernel: &Path, home: &Path, shared: &Path, filters: &[String]) -> Vec<String> {
    let start = Instant::now();
    let mut child = Command::new(kernel)
        // Without a root and a console in the command line, the kernel appends both after the dashes, as arguments of init.
        .args([
            "root=98:0",
            "console=tty0",
            "mem=1500M",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            "time-travel=inf-cpu",
        ])
        .args(["con=null", "con0=fd:0,fd:1", "quiet", "loglevel=3"])
        .arg(format!("init={}", std::env::current_exe().unwrap().display()))
        .arg("--")
        .arg(shared)
        .args(filters)
        .env("HOME", home)
        .env("TMPDIR", home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.map(|line| {
        let line = line.unwrap().trim_end().to_owned();
        println!("{:7.2} s  {line}", start.elapsed().as_secs_f64());
        line
    });
    let said = said.collect();
    child.wait().unwrap();
    said
}
