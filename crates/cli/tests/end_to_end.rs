//! Tests of the real program over loopback and its own relay.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use support::{Running, Said, Site, own_loopback};

fn receiver(site: &Site, more: &[&str]) -> Running {
    let way_in = if more.contains(&"--insecure-classic") { &[][..] } else { &["--allow-any"] };
    site.receive(&[&["--once"], way_in, more].concat())
}

fn send(site: &Site, what: &Path, to: &str, more: &[&str]) -> Said {
    let trust = if more.contains(&"--insecure-classic") { &[][..] } else { &["--accept-new-key"] };
    site.run(&[&["send"], trust, more, &[what.to_str().unwrap(), to]].concat())
}

/// Directory in `folder` with a large file, a small one and an empty one.
fn source(folder: &Path) -> std::path::PathBuf {
    let source = folder.join("source");
    fs::create_dir_all(source.join("sub")).unwrap();
    let large: Vec<u8> = (0..700_000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(source.join("large.bin"), large).unwrap();
    fs::write(source.join("sub/small.txt"), "small").unwrap();
    fs::write(source.join("sub/empty"), "").unwrap();
    source
}

fn assert_same(source: &Path, copy: &Path) {
    for name in ["large.bin", "sub/small.txt", "sub/empty"] {
        assert!(fs::read(source.join(name)).unwrap() == fs::read(copy.join(name)).unwrap(), "{name} differs");
    }
}

#[test]
fn a_directory_crosses_a_path_that_loses_reorders_duplicates_and_corrupts() {
    let site = Site::new();
    let source = source(&site.path(""));
    let receiver = receiver(&site, &[]);
    let impairments = "--loss 10% --delay 5ms --jitter 2ms --reorder 2% --duplicate 2% --corrupt 1% --seed 7";
    let mut relay = vec!["relay", "--listen", "127.0.0.1:0", "--to", &receiver.address];
    relay.extend(impairments.split(' '));
    let relay = site.start(&relay);
    send(&site, &source, &relay.address, &[]).ok();
    assert!(receiver.succeeded());
    assert_same(&source, &site.path("output/source"));
}

/// `--help` and README promise that the log, as plain text, describes the course of a connection.
#[test]
fn the_log_tells_the_course_of_a_transfer() {
    let site = Site::new();
    let source = source(&site.path(""));
    let receiver = receiver(&site, &[]);
    let relay = site.start(&["relay", "--listen", "127.0.0.1:0", "--to", &receiver.address, "--loss", "20%"]);
    // On loopback, the automatic rate would be several times higher, and the receiver's final answer would more often
    // arrive before the reports that end the sender's stream.
    let rate = ["--rate", "100mbit"];
    let line = [&["send", "--accept-new-key"], &rate[..], &[source.to_str().unwrap(), &relay.address]].concat();
    let mut command = site.command(&line);
    let said = Said::of(command.env("DFCP_LOG", "dfcp::session=debug").output().unwrap()).ok();
    assert!(receiver.succeeded());
    let told: Vec<_> = said.err.lines().filter_map(|line| line.split_once("DEBUG dfcp::session: ")).collect();
    let count = |what: &str| told.iter().filter(|(_, line)| line.starts_with(what)).count();
    for what in ["called connection=", "keys agreed ", "connected ", "our half has ended", "totals "] {
        assert_eq!(count(what), 1, "{what}: {}", said.err);
    }
    // If the reports that end our half are lost, the receiver's final answer tells that everything was delivered.
    let delivered = told.iter().any(|(_, line)| line.starts_with("streams ") && line.contains(" delivered="));
    assert!(count("the peer has all of our half ") == 1 || delivered, "{}", said.err);
    let totals = told.iter().find(|(_, line)| line.starts_with("totals ")).unwrap().1;
    assert!(totals.contains(" blocks_repeated=") && !totals.contains(" blocks_repeated=0 "), "{totals}");
    assert!(!said.err.contains('\u{1b}'), "no colours: {}", said.err);
}

#[test]
fn the_classic_profile_crosses_when_both_sides_ask_for_it() {
    let site = Site::new();
    let source = source(&site.path(""));
    let receiver = receiver(&site, &["--insecure-classic"]);
    let sent = send(&site, &source, &receiver.address, &["--insecure-classic", "--rate", "20mbit"]).ok();
    assert!(sent.err.contains("warning: neither encrypted nor authenticated"), "{sent:?}");
    assert_same(&source, &site.path("output/source"));
}

#[test]
fn parameters_of_the_thesis_reach_a_classic_measurement() {
    let site = Site::new();
    let common = ["--insecure-classic", "--set", "decoding=0"];
    let server = site.start(&[&["perf", "server", "--listen", "127.0.0.1:0", "--once"][..], &common].concat());
    let tokens = ["--set", "inctokens=14200", "--set", "maxtokens=28400", "--bytes", "100000"];
    let client = [&["perf", "client", &server.address][..], &common, &tokens].concat();
    let said = site.run(&[&client[..], &["--json"]].concat()).ok();
    assert!(server.succeeded());
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let expected = serde_json::json!({ "Decoding": 0, "Maxtokens": 28_400, "Inctokens": 14_200 });
    assert_eq!((&json["parameters"], &json["bytes"], &json["raw"]), (&expected, &100_000.into(), &true.into()));

    let server = site.start(&[&["perf", "server", "--listen", "127.0.0.1:0", "--once"][..], &common].concat());
    let said = site.run(&[&["perf", "client", &server.address, "--insecure-classic"][..], &tokens].concat());
    said.refused(&[
        "rate line, limited by the token bucket to 28.4 Mbit/s",
        "Maxtokens 28400, Inctokens 14200",
        "--set decoding=0",
    ]);
    assert!(!server.succeeded());
}

fn value(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn both_directions_of_a_measurement_are_shown_at_both_ends() {
    let site = Site::new();
    let (printed, log) = (site.path("printed"), site.path("log"));
    let serve =
        ["perf", "server", "--listen", "127.0.0.1:0", "--once", "--allow-any", "--log-json", log.to_str().unwrap()];
    let measure = |server: &str, more: &[&str]| {
        let client = ["perf", "client", server, "--accept-new-key", "--bidir", "--bytes", "200000"];
        site.run(&[&client, more].concat()).ok()
    };
    let mut server = site.command(&[&serve[..], &["--json"]].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(|line| value(&line.unwrap()));
    let listening = lines.next().unwrap();
    let json = value(&measure(listening["address"].as_str().unwrap(), &["--streams", "2", "--json"]).out);
    let measured = lines.find(|line| line["event"] == "measured").unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!((&json["bidir"], &json["streams"], &json["pattern"]), (&true.into(), &2.into(), &"XX".into()));
    let logged = fs::read_to_string(&log).unwrap();
    let logged = logged.lines().map(value).find(|line| line["to_server"].is_object()).unwrap();
    for direction in ["to_server", "to_client"] {
        assert_eq!(json[direction]["bytes"], 200_000, "{json}");
        assert!(json[direction]["total"]["path"].is_object() && json[direction]["intervals"].is_array(), "{json}");
        assert_eq!(measured[direction]["measured"]["bytes"], 200_000, "{measured}");
        assert_eq!(logged[direction]["bytes"], 200_000, "{logged}");
    }
    let server = Running::start_into(site.command(&serve), fs::File::create(&printed).unwrap().into());
    let said = measure(&server.address, &[]);
    assert!(server.succeeded());
    for (at, direction) in ["to server  total ", "to client  total "].into_iter().enumerate() {
        let line = said.out.lines().rev().nth(1 - at).unwrap();
        assert!(line.starts_with(direction) && line.contains("200 kB"), "{said:?}");
    }
    let text = fs::read_to_string(&printed).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(lines, ["received", "sent"], "{text}");
}

#[test]
fn an_existing_file_is_not_overwritten_without_force() {
    let site = Site::new();
    site.write("output/small.txt", "old");
    let first = receiver(&site, &[]);
    site.send(&first.address, &[]).refused(&["exists"]);
    assert_eq!(site.received().as_deref(), Some("old"));
    drop(first);
    let second = receiver(&site, &["--force"]);
    site.send(&second.address, &[]).ok();
    assert_eq!(site.received().as_deref(), Some("small"));
}

/// Receiver started under this umask.
#[cfg(unix)]
fn receive_under(site: &Site, umask: &str, more: &[&str]) -> Running {
    let mut command = std::process::Command::new("sh");
    let program = env!("CARGO_BIN_EXE_dfcp");
    command.args(["-c", "umask \"$0\" && exec \"$@\"", umask, program, "receive", "--listen", "127.0.0.1:0"]);
    command.arg("--output").arg(site.path("output")).args(more);
    command.env("DFCP_CONFIG_DIR", site.config()).stdin(Stdio::null());
    Running::start(command)
}

#[cfg(unix)]
#[test]
fn modes_are_narrowed_by_the_umask_and_by_no_writing_for_others_unless_preserved() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    let source = source(&site.path(""));
    for name in ["sub", "sub/small.txt"] {
        fs::set_permissions(source.join(name), fs::Permissions::from_mode(0o777)).unwrap();
    }
    for (umask, more, expected) in
        [("0000", &[][..], 0o755), ("0027", &[], 0o750), ("0027", &["--preserve-modes"], 0o777)]
    {
        let arguments = [&["--once", "--allow-any", "--force"], more].concat();
        let receiver = receive_under(&site, umask, &arguments);
        send(&site, &source, &receiver.address, &[]).ok();
        assert!(receiver.succeeded());
        for name in ["source/sub", "source/sub/small.txt"] {
            let mode = fs::metadata(site.path("output").join(name)).unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode, expected, "{name} has {mode:o} under {umask} {more:?}");
        }
    }
}

/// Returns a bound socket and its address: a receiver at this occupied port fails after it has checked its output
/// directory. An address of another machine would not do, since some systems allow binding to it (`ip_nonlocal_bind`).
fn taken() -> (std::net::UdpSocket, String) {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

#[test]
fn an_output_directory_around_the_configuration_is_refused() {
    let site = Site::new();
    site.id("fingerprint");
    let (config, (_held, taken)) = (site.config(), taken());
    for output in [site.path(""), config.clone(), config.join("below")] {
        let arguments = ["receive", "--allow-any", "--listen", &taken, "--output", output.to_str().unwrap()];
        site.run(&arguments).refused(&["senders could change ", "which must be trusted", "choose another --output"]);
    }
    assert!(!config.join("below").exists(), "nothing is made before");
}

#[test]
fn an_output_directory_with_the_list_of_keys_or_a_secret_is_refused() {
    let site = Site::new();
    let (output, key) = (site.path("output"), site.id("public_key"));
    let (_held, taken) = taken();
    let (list, secret) = (site.write("output/list", &key), site.write("output/secret", &"0123456789".repeat(4)));
    let receive = ["receive", "--listen", &taken, "--output", output.to_str().unwrap()];
    for named in [["--authorized-keys", &list], ["--psk-file", &secret]] {
        site.run(&[&receive[..], &named].concat()).refused(&[
            "senders could change ",
            "which must be trusted",
            named[1],
        ]);
    }
}

#[cfg(unix)]
#[test]
fn an_output_directory_that_others_can_write_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    let (output, (_held, taken)) = (site.path("output"), taken());
    let arguments = ["receive", "--allow-any", "--listen", &taken, "--output", output.to_str().unwrap()];
    let private = site.run(&arguments);
    private.refused(&["cannot listen", "choose another --listen"]);
    assert!(!private.err.contains("other users can replace"), "made by itself it is in order: {private:?}");
    // The sticky bit prevents removal by others, but not links in place of future directories.
    for mode in [0o770, 0o757, 0o1777] {
        fs::set_permissions(&output, fs::Permissions::from_mode(mode)).unwrap();
        site.run(&arguments).refused(&["other users can replace or remove", &format!("{mode:04o}"), "cannot listen"]);
    }
}

#[test]
fn a_closed_port_is_said_long_before_the_handshake_gives_up() {
    let site = Site::new();
    let address = own_loopback(20_434);
    site.send(&address, &[]).refused(&[&format!("nothing listens at {address} (the machine refused)")]);
}

#[cfg(unix)]
#[test]
fn a_sender_learns_that_its_receiver_was_stopped() {
    let site = Site::new();
    let receiver = receiver(&site, &[]);
    let (small, large) = (site.write("small.txt", "small"), site.write("large.bin", &"0123456789".repeat(1_000_000)));
    let arguments = ["send", "--accept-new-key", "--retry", "0", "--rate", "2mbit", &small, &large, &receiver.address];
    let sender = site.command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    receiver.line_with("small.txt  5 B  verified");
    receiver.signal("-INT");
    Said::of(sender.wait_with_output().unwrap()).refused(&["the receiver was stopped", "start it again"]);
    assert!(!receiver.succeeded());
    assert!(!site.path("output/large.bin").exists());
}
