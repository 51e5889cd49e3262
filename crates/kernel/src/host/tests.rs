use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use super::*;
use crate::limits::{CONSOLE_BYTES_MAX, CONSOLE_LINE_BYTES_SHOWN, CONSOLE_LINES_SHOWN};
use crate::testing::{kernel, script};

/// A script in a directory whose name has spaces.
struct Init {
    directory: tempfile::TempDir,
    path: PathBuf,
}

impl Init {
    fn new(lines: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("guest's init ").tempdir().unwrap();
        let path = directory.path().join("init of a guest");
        script(&path, lines);
        Self { directory, path }
    }
}

/// Command that powers the guest off. A shell has no other way without `/proc/sysrq-trigger`.
const OFF: &str =
    "busybox poweroff -f || halt -f -p || python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'";

fn guest<'host>(kernel: &'host Kernel, program: &'host Path) -> Guest<'host> {
    Guest {
        kernel,
        program,
        arguments: Vec::new(),
        environment: Vec::new(),
        memory_mib: 128,
        limit: Duration::from_secs(60),
        listener: None,
    }
}

/// Host processes with this text in their command line: `/proc` directory and command line of each.
fn processes_with(text: &str) -> Vec<(PathBuf, String)> {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let lines = processes.filter_map(|process| fs::read(process.join("cmdline")).ok().map(|line| (process, line)));
    let lines = lines.map(|(process, line)| (process, String::from_utf8_lossy(&line).replace('\0', " ")));
    lines.filter(|(_, line)| line.contains(text)).collect()
}

fn assert_nothing_left(text: &str) {
    for _ in 0..100 {
        if processes_with(text).is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("left: {:?}", processes_with(text));
}

#[test]
fn a_guest_that_hangs_is_killed_with_all_its_processes() {
    let Some(kernel) = kernel() else { return };
    let init = Init::new("echo begun; (while :; do :; done) & while :; do :; done");
    let guest = Guest { limit: Duration::from_secs(3), ..guest(&kernel, &init.path) };
    let error = guest.run().unwrap_err();
    let GuestError::TimedOut { wall, console } = &error else { panic!("{error}") };
    assert!((3.0..10.0).contains(&wall.as_secs_f64()), "{wall:?}");
    assert!(console.contains("begun") && error.to_string().contains("begun"), "{error}");
    assert_nothing_left(init.path.to_str().unwrap());
}

#[test]
fn a_guest_is_stopped_when_its_caller_wants() {
    let Some(kernel) = kernel() else { return };
    let init = Init::new("while :; do :; done");
    let stop = Arc::new(AtomicBool::new(false));
    let later = Arc::clone(&stop);
    let timer = thread::spawn(move || {
        thread::sleep(Duration::from_secs(1));
        later.store(true, Ordering::Relaxed);
    });
    let error = guest(&kernel, &init.path).run_unless(&stop).unwrap_err();
    timer.join().unwrap();
    assert!(matches!(error, GuestError::Stopped { .. }), "{error}");
    assert_nothing_left(init.path.to_str().unwrap());
}

/// Variable that turns a test process into a hanging host, and names the init of its guest.
const HOST: &str = "DFCP_TEST_HOST_OF";

#[test]
fn hosts_a_guest_which_hangs_if_another_test_wants() {
    let (Some(init), Some(kernel)) = (std::env::var_os(HOST), kernel()) else { return };
    let outcome = guest(&kernel, Path::new(&init)).run();
    panic!("{outcome:?}");
}

#[test]
fn a_guest_dies_with_its_host_even_by_sigkill() {
    if kernel().is_none() {
        return;
    }
    let init = Init::new("while :; do :; done");
    let mut host = std::process::Command::new(std::env::current_exe().unwrap());
    host.args(["--exact", "host::tests::hosts_a_guest_which_hangs_if_another_test_wants"]).env(HOST, &init.path);
    let mut host = host.spawn().unwrap();
    let text = init.path.to_str().unwrap();
    let scratch = loop {
        let guests = processes_with(text).into_iter().filter(|(_, line)| !line.contains("ulimit"));
        let mut directories = guests.filter_map(|(process, _)| fs::read_link(process.join("cwd")).ok());
        if let Some(directory) = directories.find(|directory| directory.join(".uml").exists()) {
            break directory;
        }
        thread::sleep(Duration::from_millis(20));
    };
    host.kill().unwrap();
    host.wait().unwrap();
    assert_nothing_left(text);
    for _ in 0..100 {
        if !scratch.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("left: {}", scratch.display());
}

#[test]
fn a_guest_that_prints_without_end_keeps_its_last_words_only() {
    let Some(kernel) = kernel() else { return };
    let init = Init::new("while :; do echo 0123456789012345678901234567890123456789; done");
    let guest = Guest { limit: Duration::from_secs(4), ..guest(&kernel, &init.path) };
    let error = guest.run().unwrap_err();
    let GuestError::TimedOut { console, .. } = &error else { panic!("{error}") };
    assert!((1..=CONSOLE_BYTES_MAX).contains(&console.len()), "{}", console.len());
    let shown = error.to_string();
    assert!(shown.len() < (CONSOLE_LINES_SHOWN + 1) * (CONSOLE_LINE_BYTES_SHOWN + 8), "{shown}");
}

#[test]
fn a_guest_whose_init_ends_has_panicked_and_says_its_last_words() {
    let Some(kernel) = kernel() else { return };
    let init = Init::new("echo the reason; exit 3");
    let error = guest(&kernel, &init.path).run().unwrap_err();
    let GuestError::Panicked { line, .. } = &error else { panic!("{error}") };
    assert!(line.contains("Attempted to kill init! exitcode=0x00000300"), "{line}");
    let shown = error.to_string();
    assert!(shown.contains("the reason") && !shown.contains("Call Trace"), "{shown}");
    assert_nothing_left(init.path.to_str().unwrap());
}

#[test]
fn an_init_which_cannot_run_is_named() {
    let Some(kernel) = kernel() else { return };
    let init = Init::new("");
    fs::set_permissions(&init.path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = guest(&kernel, &init.path).run().unwrap_err().to_string();
    assert!(error.contains("Requested init") && error.contains("init of a guest"), "{error}");
}

#[test]
fn a_guest_gets_its_words_and_an_hour_takes_a_moment_and_the_host_is_read_only() {
    let Some(kernel) = kernel() else { return };
    let init = Init::new(&format!(
        "printf '<%s>' \"$@\" \"$WORDS\"; touch \"$0.damage\"; touch /tmp/damage; sleep 3600; echo awake; {OFF}"
    ));
    let arguments = ["--help", "mem=1G", "a b=c", "", "x=y z", "$HOME", "ünï"].map(str::to_owned);
    let guest = Guest {
        arguments: arguments.to_vec(),
        environment: vec![("WORDS".to_owned(), "one two=three".to_owned())],
        ..guest(&kernel, &init.path)
    };
    let ended = guest.run().unwrap();
    let words: String = arguments.iter().map(|word| format!("<{word}>")).collect();
    assert!(ended.console.contains(&(words + "<one two=three>")), "{}", ended.console);
    assert!(ended.console.contains("awake") && ended.wall < Duration::from_secs(60), "{ended:?}");
    assert!(!init.directory.path().join("init of a guest.damage").exists(), "{}", ended.console);
}

#[test]
fn a_guest_for_which_the_host_has_too_few_mappings_says_what_to_do() {
    let Some(kernel) = kernel() else { return };
    // A kernel prints this before it kills the process; here init prints it.
    let init = Init::new("echo 'userspace - Error flushing stub syscalls: 12'; exit 3");
    let error = guest(&kernel, &init.path).run().unwrap_err();
    let GuestError::TooFewMappings { limit } = error else { panic!("{error}") };
    assert_eq!(Some(limit), mappings_max());
    assert!(error.to_string().contains("sysctl -w vm.max_map_count="), "{error}");
}

#[test]
fn what_a_command_line_cannot_say_is_refused() {
    let kernel = Kernel::of_test("6.12.1");
    let init = Init::new("");
    let refused = |change: &dyn Fn(&mut Guest<'_>)| {
        let mut guest = guest(&kernel, &init.path);
        change(&mut guest);
        command_line::words(&guest).unwrap_err().to_string()
    };
    for wrong in ["a\"b", "a\nb", "--", "\0"] {
        let error = refused(&|guest| guest.arguments = vec![wrong.to_owned()]);
        assert!(error.contains(&format!("{wrong:?}")), "{error}");
    }
    for wrong in ["", "root", "A.B", "A=B", "1A", "Ä"] {
        let error = refused(&|guest| guest.environment = vec![(wrong.to_owned(), "1".to_owned())]);
        assert!(error.contains("cannot be a variable"), "{error}");
    }
    let error = refused(&|guest| guest.arguments = vec!["x".to_owned(); INIT_ARGUMENTS_MAX + 1]);
    assert!(error.contains("at most 30 arguments"), "{error}");
    let error = refused(&|guest| guest.arguments = vec!["x".repeat(COMMAND_LINE_BYTES_MAX)]);
    assert!(error.contains("bytes of at most 4032"), "{error}");
    let error = refused(&|guest| guest.program = Path::new("/there/is/no/such"));
    assert!(error.contains("/there/is/no/such"), "{error}");
}

#[test]
fn a_command_line_is_what_it_was() {
    let kernel = Kernel::of_test("6.12.1");
    let mut guest = guest(&kernel, Path::new("/bin/sh"));
    guest.arguments = vec!["guest".to_owned(), "a b".to_owned()];
    guest.environment = vec![("LOG".to_owned(), "1".to_owned())];
    assert_eq!(
        command_line::words(&guest).unwrap().join(" "),
        "mem=128M rootfstype=hostfs rootflags=/ ro time-travel=inf-cpu con=null con0=fd:0,fd:1 quiet loglevel=3 noreboot \
         init=\"/bin/sh\" \"LOG=1\" -- \"guest\" \"a b\" --"
    );
}

#[test]
fn a_panics_line_is_found_and_what_came_before_it() {
    let console = "first\nwordsKernel panic - not syncing: why\nStack:\n";
    assert_eq!(panic_line(console), Some("why"));
    assert_eq!(last_words(console), "; its console ends:\nfirst\nwords");
    assert_eq!(last_words(" \n"), "; it has printed nothing");
}
