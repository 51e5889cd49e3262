//! Tests of names, existing files, and standard input and output in `dfcp send` and `dfcp receive`.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use support::{Running, Said, Site};

fn receiver(site: &Site, more: &[&str]) -> Running {
    site.receive(&[&["--once", "--allow-any"], more].concat())
}

/// Receiver whose standard output is the file `received`.
fn receiver_to_output(site: &Site) -> Running {
    let command = site.command(&["receive", "--listen", "127.0.0.1:0", "--allow-any", "--output", "-"]);
    Running::start_into(command, Stdio::from(File::create(site.path("received")).unwrap()))
}

fn received(site: &Site) -> String {
    fs::read_to_string(site.path("received")).unwrap()
}

/// Runs `command` with `input` on its standard input.
fn feed(mut command: Command, input: &[u8]) -> Said {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that reads no input closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input);
    Said::of(child.wait_with_output().unwrap())
}

/// Sends `files`, with paths relative to the user's own directory.
fn send(site: &Site, files: &[&str], to: &str, more: &[&str]) -> Said {
    let trust = if more.contains(&"--code") { &[][..] } else { &["--accept-new-key"] };
    let mut command = site.command(&[&["send"], trust, files, &[to], more].concat());
    command.current_dir(site.path(""));
    Said::of(command.output().unwrap())
}

/// Last line of standard output, as JSON.
fn done(said: &Said) -> serde_json::Value {
    serde_json::from_str(said.out.lines().last().unwrap()).unwrap()
}

#[test]
fn what_is_there_already_and_identical_is_unchanged() {
    let site = Site::new();
    for (name, content) in [("tree/a", "one"), ("tree/d/b", "two"), ("tree/empty", "")] {
        site.write(name, content);
    }
    let first = receiver(&site, &[]);
    let said = send(&site, &["tree"], &first.address, &[]).ok();
    assert!(said.err.contains(": 3 files verified (6 B)"), "directories count: {said:?}");
    assert!(first.succeeded());

    let kept = filetime::FileTime::from_unix_time(1000, 0);
    filetime::set_file_mtime(site.path("output/tree/a"), kept).unwrap();
    let again = receiver(&site, &[]);
    let said = send(&site, &["tree"], &again.address, &[]).ok();
    assert!(said.err.contains(": 0 files verified (0 B)") && said.err.contains(", 3 unchanged"), "{said:?}");
    assert!(again.line_with("tree/a").ends_with("unchanged"));
    assert!(again.succeeded());
    let metadata = fs::metadata(site.path("output/tree/a")).unwrap();
    assert_eq!(filetime::FileTime::from_last_modification_time(&metadata), kept, "it was written again");

    site.write("tree/new", "new");
    let last = receiver(&site, &[]);
    let said = send(&site, &["tree"], &last.address, &["--json"]).ok();
    let done = done(&said);
    assert_eq!((&done["stored"], &done["directories"]), (&3.into(), &2.into()), "{done}");
    assert_eq!((&done["unchanged"], &done["failed"], &done["bytes"]), (&3.into(), &0.into(), &3.into()), "{done}");
    let files: Vec<serde_json::Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let file = files.iter().find(|line| line["name"] == "tree/a").unwrap();
    assert_eq!((&file["ok"], &file["unchanged"], &file["bytes"]), (&true.into(), &true.into(), &3.into()), "{file}");
}

#[test]
fn what_failed_for_the_same_reason_is_told_once() {
    let site = Site::new();
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        site.write(&format!("tree/{name}"), "mine");
        // Equal length: only the content differs.
        site.write(&format!("output/tree/{name}"), "your");
    }
    let receiver = receiver(&site, &[]);
    let said = send(&site, &["tree"], &receiver.address, &[]);
    let line = "failed: 7 files: it exists at the receiver; give --force there to replace it, or --allow-update so that files \
                which are the same count as unchanged (tree/a, tree/b, tree/c, tree/d, tree/e and 2 more)";
    assert_eq!((said.err.matches("it exists at the receiver").count(), said.err.contains(line)), (1, true), "{said:?}");
    said.refused(&["7 of 8 entries were not sent"]);
    assert!(receiver.line_with("it exists at the receiver").contains(line));
    assert!(!receiver.succeeded());
    assert_eq!(fs::read_to_string(site.path("output/tree/a")).unwrap(), "your");
}

/// Over one stream, the large file would be confirmed first, because it is found first. It takes seconds longer than
/// the small files, each of which is flushed to the disk.
#[test]
fn small_files_do_not_wait_for_a_large_one() {
    let site = Site::new();
    let large = "0123456789".repeat(900_000);
    site.write("tree/0", &large);
    for number in 1..=20 {
        site.write(&format!("tree/d/{number}"), &number.to_string().repeat(10_000));
    }
    let receiver = receiver(&site, &[]);
    let said = send(&site, &["tree"], &receiver.address, &["--json", "--rate", "20mbit"]).ok();
    assert!(receiver.succeeded());
    let lines = said.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let confirmed: Vec<_> = lines.filter(|line| line["event"] == "file").map(|line| line["name"].clone()).collect();
    assert_eq!((confirmed.len(), confirmed.last().unwrap()), (21, &"tree/0".into()), "{confirmed:?}");
    assert!(fs::read_to_string(site.path("output/tree/0")).unwrap() == large);
    for number in 1..=20 {
        let content = fs::read_to_string(site.path(&format!("output/tree/d/{number}"))).unwrap();
        assert!(content == number.to_string().repeat(10_000), "{number}");
    }
}

/// Eight shared streams carry many files each, in sequence.
#[test]
fn a_thousand_small_files_share_the_streams() {
    const FILES: usize = 1_000;
    let site = Site::new();
    let content = |number: usize| format!("{number:0100}");
    let folder = site.path("tree");
    fs::create_dir_all(&folder).unwrap();
    (0..FILES).for_each(|number| fs::write(folder.join(number.to_string()), content(number)).unwrap());
    let receiver = receiver(&site, &[]);
    let said = send(&site, &["tree"], &receiver.address, &["--json"]).ok();
    assert!(receiver.succeeded());
    let done = done(&said);
    let counts = ["stored", "directories", "failed", "bytes"].map(|name| done[name].as_u64());
    assert_eq!(counts, [1_001, 1, 0, 100_000].map(Some), "the directory is stored too: {done}");
    let lines = said.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let verified = lines.filter(|line| line["event"] == "file" && line["ok"] == true && line["bytes"] == 100);
    assert_eq!(verified.count(), FILES);
    assert_eq!(fs::read_dir(site.path("output/tree")).unwrap().count(), FILES);
    for number in 0..FILES {
        let stored = fs::read_to_string(site.path(&format!("output/tree/{number}"))).unwrap();
        assert!(stored == content(number), "{number}: {stored}");
    }
}

#[cfg(unix)]
#[test]
fn links_are_named_without_links_and_kept_with_it() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let site = Site::new();
    site.write("tree/a", "one");
    for number in 0..7 {
        symlink("a", site.path(&format!("tree/link{number}"))).unwrap();
    }
    fs::hard_link(site.path("tree/a"), site.path("tree/b")).unwrap();
    let lines = [
        "7 symbolic links were skipped without --links: tree/link0, tree/link1, tree/link2, tree/link3, tree/link4 and 2 more",
        "1 further hard link of a file was sent as a separate file without --links: tree/b",
    ];
    for strict in [false, true] {
        let receiver = receiver(&site, &[]);
        let said = send(&site, &["tree"], &receiver.address, if strict { &["--strict"] } else { &[] });
        for line in lines {
            assert!(said.err.lines().any(|said| said == line), "{said:?}");
        }
        assert_eq!(said.code, Some(i32::from(strict)), "{said:?}");
        assert_eq!(said.err.contains("--strict does not allow"), strict, "{said:?}");
        assert!(receiver.succeeded());
    }
    let receiver = receiver(&site, &["--force"]);
    let said = send(&site, &["tree"], &receiver.address, &["--links", "--strict", "--json"]).ok();
    let done = done(&said);
    assert_eq!((&done["links"], &done["left_out"], &done["failed"]), (&8.into(), &0.into(), &0.into()), "{done}");
    assert_eq!(said.out.lines().filter(|line| line.contains(r#""event":"link""#)).count(), 8);
    assert!(receiver.succeeded());
    assert_eq!(fs::read_link(site.path("output/tree/link3")).unwrap(), Path::new("a"));
    let inode = |name| fs::metadata(site.path(name)).unwrap().ino();
    assert_eq!(inode("output/tree/a"), inode("output/tree/b"));
}

#[test]
fn files_of_one_name_keep_the_directories_that_were_given() {
    let site = Site::new();
    for name in ["a/x", "b/x", "c/y"] {
        site.write(name, name);
    }
    site.write("d/x/deep", "deep");
    let receiver = receiver(&site, &[]);
    let absolute = site.path("d/x");
    send(&site, &["a/x", "./a/../b/x", "c/y", absolute.to_str().unwrap()], &receiver.address, &[]).ok();
    assert!(receiver.succeeded());
    let stored = |name: &str| fs::read_to_string(site.path("output").join(name)).ok();
    assert_eq!(stored("a/x").as_deref(), Some("a/x"));
    assert_eq!(stored("b/x").as_deref(), Some("b/x"));
    assert_eq!(stored("y").as_deref(), Some("c/y"), "only those in conflict keep them");
    let below = Path::new("output").join(absolute.strip_prefix("/").unwrap_or(&absolute)).join("deep");
    assert_eq!(fs::read_to_string(site.path("").join(below)).ok().as_deref(), Some("deep"));
}

#[test]
fn one_name_twice_is_an_error_where_no_directory_tells_them_apart() {
    let site = Site::new();
    site.write("a/x", "x");
    site.write("b/x", "x");
    for files in [&["a/x", "a/x"][..], &["a/x", "./a/x"], &["a", "a/x", "b/x"]] {
        let said = send(&site, files, "127.0.0.1:1", &[]);
        said.refused(&["two of the files would both be stored as", "send them one by one"]);
    }
}

/// Apple's file systems accept only UTF-8.
#[cfg(all(unix, not(target_vendor = "apple")))]
#[test]
fn names_that_are_not_utf8_arrive_as_they_are_and_are_shown_escaped() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let site = Site::new();
    let name = OsStr::from_bytes(b"caf\xe9");
    let tree = site.path("tree");
    fs::create_dir_all(tree.join(name)).unwrap();
    fs::write(tree.join(name).join(name), "latin").unwrap();
    let receiver = receiver(&site, &[]);
    send(&site, &["tree"], &receiver.address, &[]).ok();
    receiver.line_with(r"tree/caf\xe9/caf\xe9  5 B  verified");
    assert!(receiver.succeeded());
    assert_eq!(fs::read_to_string(site.path("output/tree").join(name).join(name)).unwrap(), "latin");
}

#[test]
fn standard_input_is_sent_as_one_file() {
    let site = Site::new();
    let other = site.write("other", "other");
    let first = receiver(&site, &[]);
    // The input exceeds the buffer of a pipe.
    let long: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    feed(site.command(&["send", "--accept-new-key", "-", &other, &first.address, "--name", "x"]), &long).ok();
    assert!(first.succeeded());
    assert!(fs::read(site.path("output/x")).unwrap() == long, "x differs");
    assert_eq!(fs::read_to_string(site.path("output/other")).unwrap(), "other");
    let second = receiver(&site, &[]);
    feed(site.command(&["send", "--accept-new-key", "-", &second.address, "--name", "empty"]), b"").ok();
    assert_eq!(fs::read(site.path("output/empty")).unwrap(), b"");
}

#[test]
fn standard_input_needs_a_name_and_comes_once() {
    let site = Site::new();
    site.write("f", "f");
    for (arguments, said) in [
        (&["-"][..], "standard input has no name: give it one with --name"),
        (&["-", "-", "--name", "x"], "standard input can be sent only once"),
        (
            &["f", "--name", "x"],
            "a name is given for standard input, which is not among the files: give - as one of the files",
        ),
        (&["-", "--name", "../x"], "the name has a component which leaves its directory"),
        (&["-", "--name", "a/b"], "the name of standard input has more than one component"),
    ] {
        let (files, more) =
            arguments.split_at(arguments.iter().position(|it| *it == "--name").unwrap_or(arguments.len()));
        send(&site, files, "127.0.0.1:1", more).refused(&[said]);
    }
}

#[test]
fn standard_input_is_not_both_a_code_and_a_file() {
    let site = Site::new();
    let said = send(&site, &["-"], "127.0.0.1:1", &["--name", "x", "--code", "-"]);
    said.refused(&["standard input cannot be both the code and a file: give the code as --code CODE"]);
}

#[test]
fn one_file_can_go_to_standard_output() {
    let site = Site::new();
    let receiver = receiver_to_output(&site);
    let long = "0123456789".repeat(100_000);
    let file = site.write("long", &long);
    send(&site, &[&file], &receiver.address, &[]).ok();
    receiver.line_with("verified");
    assert!(receiver.succeeded(), "one sender is enough");
    assert!(received(&site) == long);
    assert!(!site.path("-").exists() && !Path::new("-").exists());
}

#[test]
fn standard_output_takes_neither_directories_nor_a_second_file() {
    let site = Site::new();
    let (one, two) = (site.write("one", "one"), site.write("two", "two"));
    site.write("tree/a", "a");
    let receiver = receiver_to_output(&site);
    let said = send(&site, &[&one, &two], &receiver.address, &[]);
    said.refused(&["the receiver writes one file to its standard output: send one file"]);
    assert!(!receiver.succeeded(), "not all was taken");
    assert_eq!(received(&site), "one");

    let receiver = receiver_to_output(&site);
    send(&site, &["tree"], &receiver.address, &[]).refused(&["send one file"]);
    assert!(!receiver.succeeded());
    assert_eq!(received(&site), "", "a file of a directory is none by itself");
}

#[test]
fn standard_output_is_for_the_file_alone() {
    let site = Site::new();
    let arguments = ["receive", "--listen", "127.0.0.1:0", "--allow-any", "--output", "-", "--json"];
    site.run(&arguments).refused(&["--json and --output - both use standard output: leave one of them out"]);
}

/// The shell sets the soft and hard limit for the program that it executes.
#[cfg(unix)]
#[test]
fn few_descriptors_are_enough_for_many_files_in_many_directories() {
    let site = Site::new();
    for number in 0..2000 {
        let path = site.path(&format!("tree/d{}/f{number}", number % 300));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, number.to_string()).unwrap();
    }
    for _ in 0..2 {
        let output = site.path("output");
        let arguments = ["receive", "--listen", "127.0.0.1:0", "--once", "--allow-any", "--output"];
        let program = site.command(&[&arguments[..], &[output.to_str().unwrap()]].concat());
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -n 200 && exec \"$0\" \"$@\""]).arg(program.get_program()).args(program.get_args());
        limited.env("DFCP_CONFIG_DIR", site.config()).stdin(Stdio::null());
        let receiver = Running::start(limited);
        send(&site, &["tree"], &receiver.address, &[]).ok();
        assert!(receiver.succeeded());
    }
    let last = fs::read_to_string(site.path("output/tree/d299/f1799")).unwrap();
    assert_eq!(last, "1799");
}
