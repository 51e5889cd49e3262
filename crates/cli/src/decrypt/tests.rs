use std::fs;

use proptest::prelude::*;

use super::*;
use crate::testing::Full;

fn capture(name: &str) -> Vec<u8> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark/captures");
    fs::read(directory.join(format!("{name}.pcapng"))).unwrap()
}

/// Key log lines of the test vectors of secure connections.
fn vector_lines() -> String {
    ["ik", "nnpsk0", "xx"]
        .map(|pattern| {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors");
            let text = fs::read_to_string(directory.join(format!("secure_connection_{pattern}.txt"))).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("key_log = ")).unwrap();
            format!("{line}\n")
        })
        .concat()
}

fn decrypted(bytes: &[u8], keys: &str) -> (Counts, bool, Vec<u8>) {
    let mut ring = KeyRing::read(keys.as_bytes()).unwrap();
    copy(bytes, &mut ring, Vec::new()).unwrap()
}

/// [keylog-2], [keylog-4]: both captures come from `spec/vectors`, computed by a second implementation.
#[test]
fn the_golden_connections_are_opened_to_the_byte() {
    let (counts, is_whole, out) = decrypted(&capture("secured"), &vector_lines());
    assert!(out == capture("opened"));
    assert_eq!((counts, is_whole), (Counts { opened: 6, plaintext: 7, ..Counts::default() }, true));
    let (counts, _, again) = decrypted(&out, &vector_lines());
    assert!(again == out, "what is open stays as it is");
    assert_eq!(counts, Counts { opened_before: 6, plaintext: 7, ..Counts::default() });
}

/// Capture of real sockets, in which GSO shows several datagrams as one packet.
#[test]
fn a_recorded_connection_is_opened_to_the_byte() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark/captures");
    let keys = fs::read_to_string(directory.join("encrypted.keys")).unwrap();
    let (counts, is_whole, out) = decrypted(&capture("encrypted"), &keys);
    assert!(out == capture("decrypted") && is_whole);
    assert!(counts.opened > 50 && counts.opened == counts.encrypted(), "{counts:?}");
}

#[test]
fn captures_without_anything_to_open_are_copied_to_the_byte() {
    for name in ["plaintext", "encrypted", "classic", "raw-ip", "messages", "lab", "rejected", "vectors"] {
        let before = capture(name);
        let (counts, is_whole, out) = decrypted(&before, &vector_lines());
        assert!(out == before && is_whole && counts.opened == 0, "{name}");
        assert!(counts.no_key + counts.plaintext + counts.others + counts.truncated + counts.forged > 0, "{name}");
    }
}

#[test]
fn a_capture_that_was_broken_off_is_opened_to_its_last_whole_packet() {
    let bytes = capture("secured");
    let (_, is_whole, out) = decrypted(&bytes[..bytes.len() - 1], &vector_lines());
    assert!(!is_whole && capture("opened").starts_with(&out) && out.len() < bytes.len());
}

#[test]
fn comments_other_programs_lines_and_copies_are_passed_over_and_damage_is_told() {
    let lines = vector_lines();
    let comment = format!("# {}\n", "x".repeat(100_000));
    let mixed =
        format!("{comment}\nCLIENT_RANDOM 00 11\r\n{lines}{lines}DFCP2_TRAFFIC_SECRETS 1 00\n{}", lines.trim_end());
    let ring = KeyRing::read(mixed.as_bytes()).unwrap();
    assert_eq!(ring.connections(), 3);
    let damage = ring.describe_damage().unwrap();
    assert!(damage.contains("damaged lines: 1") && damage.contains("line 10"), "{damage}");
}

#[test]
fn files_without_keys_and_endless_ones_are_refused() {
    let refusal = |text: &[u8]| KeyRing::read(text).unwrap_err().to_string();
    for nothing in [&b""[..], b"\n\n", b"CLIENT_RANDOM 1 2\n", &[0xFF; 10_000], &vec![b'x'; 3 << 20]] {
        assert!(refusal(nothing).contains("has no keys"), "{}", refusal(nothing));
    }
    let long = format!("DFCP2_TRAFFIC_SECRETS 1 {}", "0".repeat(1 << 20));
    assert!(refusal(long.as_bytes()).contains("line 1: it is too long"), "{}", refusal(long.as_bytes()));
    let mut damaged = vector_lines().replace("SECRETS 1", "SECRETS 9");
    damaged.push_str("\u{1b}[2J\n");
    let told = refusal(damaged.as_bytes());
    assert!(told.contains("damaged lines: 3") && !told.contains('\u{1b}'), "{told}");
    let endless = io::repeat(b'\n');
    assert!(matches!(KeyRing::read(endless), Err(keys::KeysError::TooManyLines)));
    let same_id = |number: usize| {
        let hash = format!("{number:064x}");
        let line = vector_lines().lines().next().unwrap().to_owned();
        let mut fields: Vec<_> = line.split(' ').collect();
        fields[2] = &hash;
        fields.join(" ") + "\n"
    };
    let many: String = (0..crate::limits::KEY_LOG_CONNECTIONS_MAX + 1).map(same_id).collect();
    assert!(matches!(KeyRing::read(many.as_bytes()), Err(keys::KeysError::TooManyConnections)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Mutated captures and key logs: the readable part is copied, and the number of decrypted datagrams does not grow.
    #[test]
    fn no_capture_and_no_key_log_are_too_strange(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20), cut in any::<prop::sample::Index>(),
        of_keys in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark/captures");
        let mut keys = fs::read(directory.join("encrypted.keys")).unwrap();
        let mut bytes = capture("encrypted");
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut.index(bytes.len() / 8));
        for (at, byte) in of_keys {
            let at = at.index(keys.len());
            keys[at] = byte;
        }
        let mut ring = KeyRing::read(&keys[..]).unwrap_or_default();
        if let Ok((counts, is_whole, out)) = copy(&bytes[..], &mut ring, Vec::new()) {
            prop_assert!(counts.opened <= 53, "{counts:?}");
            prop_assert!(out.len() <= bytes.len() && (!is_whole || out.len() == bytes.len()));
        }
    }
}

#[test]
fn the_copy_goes_beside_the_capture() {
    for (from, to) in [("a/x.pcapng", "a/x.decrypted.pcapng"), ("x", "x.decrypted"), ("x.y.pcap", "x.y.decrypted.pcap")]
    {
        assert_eq!(beside(Path::new(from)), Path::new(to));
    }
}

#[test]
fn a_full_disk_is_told() {
    let mut ring = KeyRing::read(vector_lines().as_bytes()).unwrap();
    let error = copy(&capture("secured")[..], &mut ring, Full(1000)).err().unwrap();
    assert!(error.to_string().contains("make room"), "{error}");
}

#[test]
fn what_opens_nothing_says_why_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("keys"), vector_lines()).unwrap();
    fs::write(path("encrypted.pcapng"), capture("encrypted")).unwrap();
    fs::write(path("classic.pcapng"), capture("classic")).unwrap();
    fs::write(path("secured.pcapng"), capture("secured")).unwrap();
    let args = |name: &str| DecryptArgs { capture: path(name), keys: path("keys"), output: None, json: false };
    let told = |name: &str| format!("{:#}", run(&args(name)).unwrap_err());
    assert!(told("encrypted.pcapng").contains("the key log that was written"), "{}", told("encrypted.pcapng"));
    assert!(told("classic.pcapng").contains("no encrypted datagram"), "{}", told("classic.pcapng"));
    assert!(told("keys").contains("is no capture"), "{}", told("keys"));
    assert!(told("missing\u{7}").contains(r"missing\u{7}"), "{}", told("missing\u{7}"));
    let to_directory = DecryptArgs { output: Some(directory.path().to_owned()), ..args("secured.pcapng") };
    assert!(format!("{:#}", run(&to_directory).unwrap_err()).contains("is no file"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
    run(&args("secured.pcapng")).unwrap();
    assert!(fs::read(path("secured.decrypted.pcapng")).unwrap() == capture("opened"));
    // Output over the input file works, too.
    let in_place = DecryptArgs { output: Some(path("secured.pcapng")), ..args("secured.pcapng") };
    run(&in_place).unwrap();
    assert!(fs::read(path("secured.pcapng")).unwrap() == capture("opened"));
}
