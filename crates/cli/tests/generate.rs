//! Tests: `dfcp generate` covers all commands completely.

#![expect(clippy::unwrap_used, reason = "a test which cannot go on has failed")]

use assert_cmd::Command;

fn dfcp(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("dfcp").unwrap().args(arguments).env_remove("CARGO").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn each_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("man1");
    let (code, _, err) = dfcp(&["generate", "man", directory.to_str().unwrap()]);
    assert!(code == 0 && err.contains(" pages in "), "{err}");
    let page = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let all = page("dfcp.1");
    let help = dfcp(&["--help"]).1;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let mut count = 0;
    for name in commands.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()) {
        if name == "help" || !help.contains(&format!("\n  {name} ")) {
            continue;
        }
        assert!(page(&format!("dfcp-{name}.1")).contains(&format!("dfcp {name}")), "{name}");
        assert!(all.contains(&format!("dfcp\\-{name}(1)")), "{name}");
        count += 1;
    }
    assert!(count >= 9, "{count} commands");
    assert!(page("dfcp-perf-client.1").contains("\\-\\-duration"));
    assert!(!directory.join("dfcp-emulate-init.1").exists());
    std::fs::write(folder.path().join("file"), "").unwrap();
    let (code, _, err) = dfcp(&["generate", "man", folder.path().join("file/man1").to_str().unwrap()]);
    assert!(code == 1 && err.contains("cannot make "), "{err}");
}

#[test]
fn shells_complete_commands_and_their_options() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, text, _) = dfcp(&["generate", "completions", shell]);
        assert!(code == 0 && text.contains("receive") && text.contains("max-receive-rate"), "{shell}");
    }
}
