use std::fs::OpenOptions;

use proptest::prelude::*;

use super::line::{Line, parse};
use super::*;

const GOOD: &str = "DFCP2_TRAFFIC_SECRETS 1 \
                    0101010101010101010101010101010101010101010101010101010101010101 7f3b9a04 1122aabb \
                    0202020202020202020202020202020202020202020202020202020202020202 \
                    0303030303030303030303030303030303030303030303030303030303030303";

fn good() -> Line {
    Line {
        cipher: dfcp::Cipher::Aes128Gcm,
        handshake_hash: [1; 32],
        initiator_id: 0x7F3B_9A04,
        responder_id: 0x1122_AABB,
        from_initiator: [2; 32],
        from_responder: [3; 32],
    }
}

#[test]
fn a_line_is_read_as_it_is_specified() {
    for text in [GOOD.to_owned(), format!("{GOOD}\r")] {
        assert_eq!(parse(text.as_bytes()), Ok(Some(good())));
    }
    for other in
        ["", "# DFCP2_TRAFFIC_SECRETS", "CLIENT_RANDOM 00 11", "DFCP2_TRAFFIC_SECRETSX 1", " DFCP2_TRAFFIC_SECRETS"]
    {
        assert_eq!(parse(other.as_bytes()), Ok(None), "{other}");
    }
    for (from, to) in [
        (" 1 ", " 4 "),
        (" 1 ", " 01 "),
        (" 1 ", "  "),
        (" 7f", " 7g"),
        (" 7f", " +f"),
        ("7f3b9a04", "7f3b9a0"),
        ("7f3b9a04", "7f3b9a040"),
        ("0303 ", "03 "),
        (" 0303", " "),
        ("1122aabb", "1122aabb 0"),
        ("SECRETS 1", "SECRETS\t1"),
    ] {
        let damaged = GOOD.replacen(from, to, 1);
        let outcome = parse(damaged.as_bytes());
        assert!(outcome.is_err() || damaged == GOOD || outcome == Ok(None), "{damaged}: {outcome:?}");
    }
    for length in LABEL_BYTES..GOOD.len() {
        assert!(parse(&GOOD.as_bytes()[..length]).is_err(), "{length}");
    }
    assert!(parse(format!("{GOOD} ").as_bytes()).is_err());
    assert!(!format!("{:?}", good()).contains("[2, 2"), "no secret is shown");
}

const LABEL_BYTES: usize = line::LABEL.len();

proptest! {
    #[test]
    fn no_line_is_too_strange(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), more in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut bytes = GOOD.as_bytes().to_vec();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = parse(&bytes);
        bytes.extend(&more);
        let _ = parse(&bytes);
        let _ = parse(&more);
    }
}

#[test]
fn without_the_flag_nothing_is_opened() {
    assert!(begin(false).unwrap().is_none());
}

#[cfg(unix)]
mod files {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn refusal(path: &Path) -> String {
        format!("{:#}", Writer::open(path).unwrap_err())
    }

    #[test]
    fn a_new_file_is_its_owner_s_alone_and_an_old_one_is_appended_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        for line in ["a\n", "b\n"] {
            Writer::open(&path).unwrap().append(line);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    }

    #[test]
    fn a_line_which_was_cut_off_spoils_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        Writer::open(&path).unwrap().append("cut");
        Writer::open(&path).unwrap().append("whole\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "cut\nwhole\n");
    }

    #[test]
    fn links_are_not_followed_and_what_they_lead_to_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let [target, link, dangling, second] =
            ["target", "link", "dangling", "second"].map(|name| directory.path().join(name));
        drop(Writer::open(&target).unwrap());
        symlink(&target, &link).unwrap();
        symlink(directory.path().join("nothing"), &dangling).unwrap();
        for link in [link, dangling] {
            assert!(refusal(&link).contains("symbolic link"), "{}", refusal(&link));
        }
        assert!(!directory.path().join("nothing").exists());
        fs::hard_link(&target, &second).unwrap();
        assert!(refusal(&second).contains("2 names"), "{}", refusal(&second));
        assert_eq!(fs::read(&target).unwrap(), b"");
    }

    #[test]
    fn what_others_can_read_is_refused_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        for mode in [0o644, 0o640, 0o620, 0o602, 0o611] {
            fs::write(&path, "x\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(refusal(&path).contains("chmod 600"), "{}", refusal(&path));
            assert_eq!(fs::read_to_string(&path).unwrap(), "x\n");
        }
    }

    #[test]
    fn what_is_no_file_is_refused_without_waiting() {
        let directory = tempfile::tempdir().unwrap();
        assert!(refusal(directory.path()).contains("directory"), "{}", refusal(directory.path()));
        assert!(refusal(Path::new("/dev/null")).contains("no file"), "{}", refusal(Path::new("/dev/null")));
        let pipe = directory.path().join("pipe\u{1b}[2J");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert!(!refusal(&pipe).contains('\u{1b}'), "names are escaped");
    }

    #[test]
    fn a_full_disk_is_told_once_and_stops_nothing() {
        let file = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let state = State { file, is_torn: false, lines: 0, is_told: false };
        let writer = Writer { name: "full".to_owned(), state: Mutex::new(state) };
        for _ in 0..3 {
            writer.append("line\n");
        }
        let state = writer.state.lock().unwrap();
        assert!(state.is_told && state.is_torn);
    }

    #[test]
    fn one_program_writes_so_many_lines_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        let writer = Writer::open(&path).unwrap();
        for _ in 0..KEY_LOG_CONNECTIONS_MAX + 2 {
            writer.append("x\n");
        }
        assert_eq!(fs::read(&path).unwrap().len(), 2 * KEY_LOG_CONNECTIONS_MAX);
    }
}
