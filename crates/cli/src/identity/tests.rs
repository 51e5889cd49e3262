use std::fs;
use std::path::Path;

use dfcp_secure::{PublicKey, StaticKey};
use proptest::prelude::*;
use tempfile::TempDir;

#[cfg(unix)]
use super::guard::Guard;
use super::*;
use crate::limits;

/// Directory with mode 0700 under any umask.
fn private_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o700);
    folder
}

fn directory() -> (TempDir, ConfigDir) {
    let folder = private_folder();
    let directory = ConfigDir::at(&folder.path().join("made/dfcp")).unwrap();
    (folder, directory)
}

fn public(seed: u8) -> PublicKey {
    StaticKey::from_seed(&[seed; 32]).public()
}

fn host(text: &str) -> HostName {
    text.parse().unwrap()
}

/// Writes a file with mode 0600.
fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::write(path, content).unwrap();
    set_mode(path, 0o600);
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(not(unix))]
fn set_mode(_path: &Path, _mode: u32) {}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(directory: &ConfigDir) -> Vec<String> {
    let entries = fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_key_is_made_once_and_kept() {
    let (_folder, directory) = directory();
    let first = load_or_create(&directory).unwrap();
    let second = load_or_create(&directory).unwrap();
    assert_eq!((first.created, second.created), (true, false));
    assert_eq!(first.key.public(), second.key.public());
    let text = fs::read_to_string(&first.path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with('#') && lines[1].len() == 43, "{} lines", lines.len());
    #[cfg(unix)]
    assert_eq!((mode(&first.path), mode(directory.path())), (0o600, 0o700));
    let (_folder, elsewhere) = self::directory();
    assert_ne!(load_or_create(&elsewhere).unwrap().key.public(), first.key.public());
}

#[test]
fn the_reset_key_is_a_secret_of_its_own_beside_the_key() {
    let (_folder, directory) = directory();
    let first = load_or_create_reset_key(&directory).unwrap();
    assert!(load_or_create_reset_key(&directory).unwrap() == first, "it is kept");
    let path = directory.reset_key_file();
    #[cfg(unix)]
    assert_eq!((mode(&path), mode(directory.path())), (0o600, 0o700));
    let own = load_or_create(&directory).unwrap();
    assert_eq!(names(&directory), ["key", "reset_key"]);
    assert_ne!(fs::read_to_string(&path).unwrap().lines().last(), fs::read_to_string(own.path).unwrap().lines().last());
    let (_folder, elsewhere) = self::directory();
    assert!(load_or_create_reset_key(&elsewhere).unwrap() != first, "another directory has another one");
    write(&path, "AAAA");
    let error = load_or_create_reset_key(&directory).unwrap_err();
    assert!(matches!(error, IdentityError::DamagedResetKey { .. }) && !error.to_string().contains('\n'), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "AAAA", "it is left alone");
    fs::remove_file(&path).unwrap();
    assert!(load_or_create_reset_key(&directory).unwrap() != first);
    #[cfg(unix)]
    {
        set_mode(&path, 0o644);
        assert!(matches!(load_or_create_reset_key(&directory), Err(IdentityError::Exposed { .. })));
        // A link is neither read through nor created through.
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(directory.path().join("elsewhere"), &path).unwrap();
        assert!(load_or_create_reset_key(&directory).is_err());
        assert!(!directory.path().join("elsewhere").exists());
    }
}

#[test]
fn programs_which_start_together_have_one_key() {
    for _ in 0..8 {
        let (_folder, directory) = directory();
        let barrier = std::sync::Barrier::new(8);
        let keys: Vec<_> = std::thread::scope(|scope| {
            let start = || {
                barrier.wait();
                load_or_create(&directory).unwrap()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(keys.iter().filter(|own| own.created).count(), 1);
        assert!(keys.iter().all(|own| own.key.public() == keys[0].key.public()));
        assert_eq!(names(&directory), ["key"]);
    }
}

#[test]
fn a_damaged_key_is_refused_and_left_alone() {
    let (_folder, directory) = directory();
    directory.create().unwrap();
    let good = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    let spare_bits = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9";
    for bad in ["", "# only this\n", "AAAA", spare_bits, &format!("{good}\n{good}\n"), &good.replace('B', "?"), "\0"] {
        write(&directory.key_file(), bad);
        let error = load_or_create(&directory).unwrap_err();
        assert!(matches!(error, IdentityError::DamagedKey { .. }), "{bad:?}: {error}");
        assert_eq!(fs::read_to_string(directory.key_file()).unwrap(), bad);
    }
    write(&directory.key_file(), [0xFF, b'\n']);
    assert!(matches!(load_or_create(&directory), Err(IdentityError::Line { line: 1, .. })));
    write(&directory.key_file(), vec![b'#'; limits::KEY_FILE_BYTES_MAX as usize + 1]);
    assert!(matches!(load_or_create(&directory), Err(IdentityError::TooLarge { .. })));
    for text in [format!("{good}=\r\n"), format!("# a\n\n  {good}  \n")] {
        write(&directory.key_file(), text);
        let bytes: [u8; 32] = std::array::from_fn(|i| i as u8);
        assert_eq!(*load_or_create(&directory).unwrap().key.to_bytes(), bytes);
    }
}

#[cfg(unix)]
#[test]
fn secrets_that_others_can_read_are_refused() {
    let (_folder, directory) = directory();
    let own = load_or_create(&directory).unwrap();
    for open in [0o640, 0o604, 0o620, 0o644, 0o601] {
        set_mode(&own.path, open);
        let error = load_or_create(&directory).unwrap_err().to_string();
        assert!(error.contains(&format!("chmod 600 {}", own.path.display())) && !error.contains('\n'), "{error}");
    }
    set_mode(&own.path, 0o400);
    assert_eq!(load_or_create(&directory).unwrap().key.public(), own.key.public());
    let psk = directory.path().join("shared key");
    write(&psk, [b'x'; 32]);
    for (given, allowed) in
        [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o660, false), (0o610, false)]
    {
        set_mode(&psk, given);
        let loaded = load_psk(&psk);
        assert_eq!(loaded.is_ok(), allowed, "{given:o}");
        if let Err(error) = loaded {
            assert!(error.to_string().ends_with(&format!("chmod 600 '{}'", psk.display())), "{error}");
        }
    }
}

#[cfg(unix)]
#[test]
fn only_this_user_and_root_may_own_a_file_or_its_directory() {
    let (user, other, path) = (1000, 1001, Path::new("/a/file"));
    for guard in [Guard::Private, Guard::Trusted] {
        for owner in [user, 0] {
            assert!(guard.judge(path, owner, 0o600, user).is_ok(), "{owner}");
        }
        assert!(guard.judge(path, user, 0o600, 0).is_err(), "root does not trust everyone");
        let error = guard.judge(path, other, 0o600, user).unwrap_err();
        assert!(matches!(error, IdentityError::Foreign { owner: 1001, user: 1000, .. }), "{error}");
        let text = error.to_string();
        assert!(text.ends_with("sudo chown 1000 /a/file") && !text.contains('\n'), "{text}");
    }
    // Only root can change owners; other users rely on the unit test of `judge`.
    let (folder, directory) = directory();
    directory.create().unwrap();
    let list = directory.authorized_keys();
    write(&list, public(1).to_string());
    assert!(AuthorizedKeys::load(&directory.authorized_keys()).is_ok());
    for given_away in [list.as_path(), directory.path()] {
        if std::os::unix::fs::chown(given_away, Some(12_345), None).is_ok() {
            let error = AuthorizedKeys::load(&list).unwrap_err();
            assert!(matches!(&error, IdentityError::Foreign { path, .. } if path == given_away), "{error}");
            std::os::unix::fs::chown(given_away, Some(0), None).unwrap();
        }
    }
    drop(folder);
}

#[cfg(unix)]
#[test]
fn a_file_is_refused_in_a_directory_that_others_can_write() {
    let folder = private_folder();
    let open = folder.path().join("open");
    fs::create_dir(&open).unwrap();
    set_mode(&open, 0o700);
    let (list, psk) = (open.join("list"), open.join("psk"));
    write(&list, public(1).to_string());
    write(&psk, [b'x'; 32]);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&list, &link).unwrap();
    for (mode, good) in [(0o700, true), (0o755, true), (0o775, false), (0o757, false), (0o1777, false)] {
        set_mode(&open, mode);
        let outcomes = [AuthorizedKeys::load(&list).err(), AuthorizedKeys::load(&link).err(), load_psk(&psk).err()];
        for error in outcomes {
            assert_eq!(error.is_none(), good, "{mode:o}");
            if let Some(error) = error {
                let text = error.to_string();
                assert!(text.ends_with(&format!("chmod go-w {}", open.display())) && !text.contains('\n'), "{text}");
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn a_linked_known_hosts_is_refused_where_others_can_replace_it() {
    let (folder, directory) = directory();
    directory.create().unwrap();
    let hosts = KnownHosts::of(&directory);
    let open = folder.path().join("open");
    fs::create_dir(&open).unwrap();
    set_mode(&open, 0o700);
    write(&open.join("real"), format!("a:1 {}\n", public(1)));
    std::os::unix::fs::symlink(open.join("real"), hosts.path()).unwrap();
    set_mode(&open, 0o777);
    let looked = hosts.lookup(&host("a:1")).unwrap_err();
    let added = hosts.add(&host("b:1"), &public(1), "").unwrap_err();
    for error in [looked, added] {
        assert!(matches!(&error, IdentityError::Writable { path, .. } if *path == open), "{error}");
    }
    set_mode(&open, 0o700);
    assert_eq!(hosts.lookup(&host("a:1")).unwrap(), Lookup::Known(public(1)));
}

#[cfg(unix)]
#[test]
fn an_existing_configuration_directory_may_be_read_but_not_written_by_others() {
    let (_folder, directory) = directory();
    directory.create().unwrap();
    for (mode, good) in [(0o755, true), (0o700, true), (0o720, false), (0o702, false), (0o777, false)] {
        set_mode(directory.path(), mode);
        assert_eq!(directory.create().is_ok(), good, "{mode:o}");
        assert_eq!(load_or_create(&directory).is_ok(), good, "{mode:o}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_pre_shared_key_may_come_through_a_pipe() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'x'; 40]).unwrap();
    drop(writer);
    assert!(load_psk(Path::new(&format!("/dev/fd/{}", reader.as_raw_fd()))).is_ok());
}

#[cfg(unix)]
#[test]
fn lists_that_others_can_change_are_refused() {
    let (_folder, directory) = directory();
    directory.create().unwrap();
    write(&directory.authorized_keys(), public(1).to_string());
    let hosts = KnownHosts::of(&directory);
    hosts.add(&host("a:1"), &public(1), "").unwrap();
    for open in [0o620, 0o602, 0o666] {
        set_mode(&directory.authorized_keys(), open);
        set_mode(hosts.path(), open);
        for error in
            [AuthorizedKeys::load(&directory.authorized_keys()).unwrap_err(), hosts.lookup(&host("a:1")).unwrap_err()]
        {
            assert!(
                matches!(error, IdentityError::Writable { .. }) && error.to_string().contains("chmod go-w"),
                "{error}"
            );
        }
    }
    for closed in [0o644, 0o600] {
        set_mode(&directory.authorized_keys(), closed);
        set_mode(hosts.path(), closed);
        assert!(AuthorizedKeys::load(&directory.authorized_keys()).is_ok() && hosts.lookup(&host("a:1")).is_ok());
    }
    set_mode(directory.path(), 0o770);
    assert!(AuthorizedKeys::load(&directory.authorized_keys()).is_err() && hosts.lookup(&host("a:1")).is_err());
    assert!(hosts.add(&host("b:1"), &public(1), "").is_err() && load_or_create(&directory).is_err());
}

#[test]
fn a_host_is_known_once_it_was_added() {
    let (_folder, directory) = directory();
    let hosts = KnownHosts::of(&directory);
    assert_eq!(hosts.lookup(&host("a.example:4433")).unwrap(), Lookup::Unknown);
    assert_eq!(hosts.add(&host("A.example:4433"), &public(1), "laptop\nof #1").unwrap(), Added::New);
    assert_eq!(hosts.add(&host("a.example:4433"), &public(1), "").unwrap(), Added::Already);
    assert_eq!(hosts.lookup(&host("a.EXAMPLE:4433")).unwrap(), Lookup::Known(public(1)));
    assert_eq!(hosts.verify(&host("a.example:4433"), &public(1)).unwrap(), Lookup::Known(public(1)));
    assert_eq!(hosts.verify(&host("a.example:4434"), &public(2)).unwrap(), Lookup::Unknown);
    let line = format!("a.example:4433  {}  # laptop\\nof #1\n", public(1));
    assert_eq!(fs::read_to_string(hosts.path()).unwrap(), line);
}

#[test]
fn a_changed_key_is_told_loudly_and_changes_nothing() {
    let (_folder, directory) = directory();
    let hosts = KnownHosts::of(&directory);
    directory.create().unwrap();
    let content = format!("# mine\n\na:1 {}\n", public(1));
    write(hosts.path(), &content);
    for error in
        [hosts.verify(&host("a:1"), &public(2)).unwrap_err(), hosts.add(&host("a:1"), &public(2), "").unwrap_err()]
    {
        let text = error.to_string();
        let path = hosts.path().display().to_string();
        for part in ["THE KEY OF a:1 HAS CHANGED", "line 3 of", &path] {
            assert!(text.contains(part), "{text}");
        }
        for key in [public(1), public(2)] {
            assert!(text.contains(&key.fingerprint().to_string()), "{text}");
        }
    }
    assert_eq!(fs::read_to_string(hosts.path()).unwrap(), content);
}

#[test]
fn lines_added_at_once_are_all_kept() {
    let (_folder, directory) = directory();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let directory = &directory;
            scope.spawn(move || {
                for i in 1..=8 {
                    let name = host(&format!("h{thread}:{i}"));
                    assert_eq!(KnownHosts::of(directory).add(&name, &public(thread), "").unwrap(), Added::New);
                }
            });
        }
    });
    let hosts = KnownHosts::of(&directory);
    for thread in 0..8 {
        for i in 1..=8 {
            assert_eq!(hosts.lookup(&host(&format!("h{thread}:{i}"))).unwrap(), Lookup::Known(public(thread)));
        }
    }
    assert_eq!(names(&directory), ["known_hosts", "known_hosts.lock"]);
}

#[test]
fn what_people_wrote_into_known_hosts_stays() {
    let (_folder, directory) = directory();
    directory.create().unwrap();
    let hosts = KnownHosts::of(&directory);
    let content = format!("# mine\r\n\r\na:1\t{}=  # no end of line", public(1));
    write(hosts.path(), &content);
    hosts.add(&host("[2001:DB8::7]:1"), &public(2), "").unwrap();
    let after = fs::read_to_string(hosts.path()).unwrap();
    assert_eq!(after, format!("{content}\n[2001:db8::7]:1  {}\n", public(2)));
    assert_eq!(hosts.lookup(&host("a:1")).unwrap(), Lookup::Known(public(1)));
}

#[cfg(unix)]
#[test]
fn a_link_to_known_hosts_stays_a_link() {
    let (folder, directory) = directory();
    directory.create().unwrap();
    let hosts = KnownHosts::of(&directory);
    let real = folder.path().join("real");
    write(&real, "");
    std::os::unix::fs::symlink(&real, hosts.path()).unwrap();
    hosts.add(&host("a:1"), &public(1), "").unwrap();
    assert!(fs::symlink_metadata(hosts.path()).unwrap().is_symlink());
    assert!(fs::read_to_string(real).unwrap().starts_with("a:1  "));
}

#[test]
fn wrong_lines_are_named() {
    let (_folder, directory) = directory();
    directory.create().unwrap();
    let (hosts, path) = (KnownHosts::of(&directory), directory.authorized_keys());
    let key = public(1);
    for bad in ["a:1", &format!("a {key}"), &format!("a:1 {key} x"), "a:1 key", &format!("a:2 {}", public(2))] {
        write(hosts.path(), format!("a:2 {key}\n{bad}\n"));
        let error = hosts.lookup(&host("b:1")).unwrap_err();
        assert!(matches!(error, IdentityError::Line { line: 2, .. }), "{bad}: {error}");
        assert!(error.to_string().contains("known_hosts") && !error.to_string().contains('\n'), "{error}");
        assert!(hosts.add(&host("b:1"), &key, "").is_err());
    }
    for bad in ["x", "SHA256:x", &key.to_string()[1..], "\u{7f}"] {
        write(&path, format!("{key}\n\n{bad} alice\n"));
        let error = AuthorizedKeys::load(&directory.authorized_keys()).unwrap_err();
        assert!(matches!(error, IdentityError::Line { line: 3, .. }), "{bad}: {error}");
    }
}

#[test]
fn authorized_keys_permits_its_keys_and_no_others() {
    let (_folder, directory) = directory();
    assert!(AuthorizedKeys::load(&directory.authorized_keys()).is_err());
    directory.create().unwrap();
    let text = format!("# us\n\n{} alice # laptop\r\n  {}\n{}=", public(1), public(2).fingerprint(), public(3));
    write(&directory.authorized_keys(), text);
    let keys = AuthorizedKeys::load(&directory.authorized_keys()).unwrap();
    assert!((1..=3).all(|seed| keys.permits(&public(seed))) && !keys.is_empty());
    assert!(!keys.permits(&public(4)));
    write(&directory.authorized_keys(), "# nobody\n");
    let keys = AuthorizedKeys::load(&directory.authorized_keys()).unwrap();
    assert!(keys.is_empty() && !keys.permits(&public(1)));
}

#[test]
fn names_of_hosts_have_one_form() {
    for (text, name) in [
        ("There.Example:04433", "there.example:4433"),
        ("192.0.2.7:1", "192.0.2.7:1"),
        ("[FE80::1%Eth0]:9", "[fe80::1%eth0]:9"),
    ] {
        assert_eq!(host(text).to_string(), name);
    }
    let long = format!("{}:1", "a".repeat(limits::HOST_NAME_BYTES_MAX));
    for bad in ["", "a", ":1", "a:", "a:0", "a:+1", "a:65536", "a b:1", "#a:1", "::1:4433", "a\u{1b}:1", "a\n:1", &long]
    {
        let error = bad.parse::<HostName>().unwrap_err().to_string();
        assert!(error.len() < 500 && !error.contains(['\n', '\u{1b}']), "{error:?}");
    }
}

#[test]
fn pre_shared_keys_have_a_size() {
    let folder = private_folder();
    let path = folder.path().join("psk");
    let error = load_psk(&path).unwrap_err();
    assert!(error.to_string().contains("psk"), "{error}");
    assert!(load_psk(folder.path()).is_err());
    let max = limits::PSK_FILE_BYTES_MAX as usize;
    for (bytes, good) in [(31, false), (32, true), (max, true), (max + 1, false)] {
        write(&path, vec![7; bytes]);
        assert_eq!(load_psk(&path).is_ok(), good, "{bytes}");
    }
}

/// Strategy for file contents in which many lines are nearly valid.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20),
        "[a-z:#0-9 ]{0,12}".prop_map(String::into_bytes),
        (0_u8..4).prop_map(|seed| public(seed).to_string().into_bytes()),
        (0_u8..4).prop_map(|seed| public(seed).fingerprint().to_string().into_bytes()),
        Just(b"a:1 ".to_vec()),
        Just(b"\n".to_vec()),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_content_makes_a_list_panic(content in hostile()) {
        let path = Path::new("list");
        if let Ok(lines) = known_hosts::parse(path, &content) {
            for line in &lines {
                prop_assert!(line.host.to_string().parse::<HostName>().is_ok_and(|host| host == line.host));
                prop_assert!(lines.iter().all(|other| other.host != line.host || other.key == line.key));
            }
        }
        if let Ok(keys) = AuthorizedKeys::parse(path, &content) {
            prop_assert!(!keys.permits(&public(200)));
        }
    }

    #[test]
    fn every_host_name_is_its_own_normal_form(text in "\\PC{0,20}:[0-9]{1,5}") {
        if let Ok(name) = text.parse::<HostName>() {
            let line = format!("{name} {}", public(1));
            prop_assert!(known_hosts::parse(Path::new("list"), line.as_bytes()).is_ok_and(|lines| lines[0].host == name));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_content_makes_a_key_file_panic_or_change(content in hostile()) {
        let (_folder, directory) = directory();
        directory.create().unwrap();
        write(&directory.key_file(), &content);
        let _either = load_or_create(&directory);
        prop_assert_eq!(fs::read(directory.key_file()).unwrap(), content);
    }
}

#[test]
fn a_list_of_keys_follows_its_file() {
    let (_folder, directory) = directory();
    let path = directory.authorized_keys();
    let list = AuthorizedList::open(&path, false).unwrap();
    assert!(AuthorizedList::open(&path, true).is_err());
    assert!(list.is_empty() && !list.permits(&public(1)));
    directory.create().unwrap();
    // The second file has the same length and often the same time stamp.
    for seed in 1..20 {
        write(&path, format!("{} somebody\n", public(seed)));
        assert!(list.permits(&public(seed)) && !list.permits(&public(seed - 1)), "{seed}");
    }
    // The stamp is old enough to be trusted.
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::open(&path).unwrap().set_modified(long_ago).unwrap();
    assert!(list.permits(&public(19)) && list.permits(&public(19)));
    write(&path, "nonsense\n");
    assert!(!list.permits(&public(19)), "a wrong line admits nobody");
    write(&path, public(3).to_string());
    assert!(list.permits(&public(3)));
    fs::remove_file(&path).unwrap();
    assert!(!list.permits(&public(3)) && list.is_empty());
    write(&path, public(3).to_string());
    assert!(list.permits(&public(3)), "it is back");
}

#[cfg(unix)]
#[test]
fn a_list_which_others_can_change_admits_nobody_even_if_it_was_read_before() {
    let (_folder, directory) = directory();
    directory.create().unwrap();
    let path = directory.authorized_keys();
    write(&path, public(1).to_string());
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::open(&path).unwrap().set_modified(long_ago).unwrap();
    let list = AuthorizedList::open(&path, true).unwrap();
    for (changed, bad, good) in [(path.as_path(), 0o666, 0o600), (directory.path(), 0o777, 0o700)] {
        assert!(list.permits(&public(1)));
        set_mode(changed, bad);
        assert!(!list.permits(&public(1)), "{}", changed.display());
        assert!(list.add(&public(2), "").is_err());
        set_mode(changed, good);
    }
    assert!(list.permits(&public(1)) && !list.permits(&public(2)));
}

#[test]
fn a_key_is_added_once_to_a_file_of_its_owner_alone() {
    let (_folder, directory) = directory();
    let path = directory.authorized_keys();
    let list = AuthorizedList::open(&path, false).unwrap();
    assert_eq!(list.add(&public(1), "from\n192.0.2.7").unwrap(), Added::New);
    assert_eq!(list.add(&public(1), "again").unwrap(), Added::Already);
    assert!(list.permits(&public(1)));
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{} from\\n192.0.2.7\n", public(1)));
    write(&path, format!("# friends\n{}", public(2).fingerprint()));
    assert_eq!(list.add(&public(2), "known by its fingerprint").unwrap(), Added::Already);
    assert_eq!(list.add(&public(3), "new").unwrap(), Added::New);
    let expected = format!("# friends\n{}\n{} new\n", public(2).fingerprint(), public(3));
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    #[cfg(unix)]
    assert_eq!((mode(&path), mode(directory.path())), (0o600, 0o700));
    assert_eq!(names(&directory), ["authorized_keys", "authorized_keys.lock"]);
    let fixed = AuthorizedList::fixed(AuthorizedKeys::load(&path).unwrap());
    assert!(fixed.permits(&public(3)) && matches!(fixed.add(&public(4), ""), Err(IdentityError::NoList)));
}

#[test]
fn keys_which_are_added_at_once_are_all_there() {
    let (_folder, directory) = directory();
    let lists: Vec<_> = (0..8).map(|_| AuthorizedList::open(&directory.authorized_keys(), false).unwrap()).collect();
    std::thread::scope(|scope| {
        for (seed, list) in (1..).zip(&lists) {
            scope.spawn(move || list.add(&public(seed), "").unwrap());
        }
    });
    assert!((1..=8).all(|seed| lists.iter().all(|list| list.permits(&public(seed)))));
}
