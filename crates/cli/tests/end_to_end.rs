//! The real program against itself, over loopback and its own relay.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::fs;
use std::path::Path;

use support::{Running, Said, Site};

fn receiver(site: &Site, more: &[&str]) -> Running {
    let way_in = if more.contains(&"--insecure-classic") { &[][..] } else { &["--allow-any"] };
    site.receive(&[&["--once"], way_in, more].concat())
}

fn send(site: &Site, what: &Path, to: &str, more: &[&str]) -> Said {
    site.run(&[&["send"], more, &[what.to_str().unwrap(), to]].concat())
}

/// A directory with a large file, a small one and an empty one, in `folder`.
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
