//! Separation of the packaged services: an attacker of an exposed port must not reach data of the other service. `.ci/package` installs and
//! runs them.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const SERVICES: [&str; 2] = ["receive", "perf"];

fn packaged(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path)).unwrap()
}

fn unit(service: &str) -> String {
    packaged(&format!("systemd/dfcp-{service}.service"))
}

/// Values of a setting, over any number of lines.
fn settings(unit: &str, name: &str) -> Vec<String> {
    let values = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    values.map(str::to_owned).collect()
}

#[test]
fn the_services_share_neither_user_nor_directory() {
    for setting in ["User", "Group", "StateDirectory", "Environment"] {
        let values: Vec<_> = SERVICES.iter().map(|service| settings(&unit(service), setting)).collect();
        assert_eq!(values.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1], "{setting}");
        assert_eq!(values.iter().collect::<BTreeSet<_>>().len(), 2, "both have {setting} {:?}", values[0]);
    }
}

#[test]
fn whatever_a_service_names_of_what_changes_is_in_its_own_directory() {
    for service in SERVICES {
        for text in [unit(service), packaged(&format!("default/dfcp-{service}"))] {
            let own = format!("/var/lib/dfcp-{service}/");
            let starts: Vec<_> = text.match_indices("/var/").collect();
            assert!(!starts.is_empty() && starts.iter().all(|(at, _)| text[*at..].starts_with(&own)), "{text}");
        }
    }
}

#[test]
fn the_package_makes_the_users_of_its_units() {
    let script = packaged("debian/postinst");
    assert!(script.contains("for service in receive perf") && script.contains(r#""dfcp-$service""#), "{script}");
    for service in SERVICES {
        assert_eq!(settings(&unit(service), "User"), [format!("dfcp-{service}")]);
        assert_eq!(settings(&unit(service), "StateDirectory"), [format!("dfcp-{service}")]);
    }
}
