//! Build script: passes the program the settings of its build, because counts are comparable only between equal builds.

use std::env;
use std::io::Write as _;
use std::process::Command;

/// Settings of the release profile that affect inlining and that a run may override.
const SETTINGS: [&str; 3] =
    ["CARGO_PROFILE_RELEASE_LTO", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "CARGO_PROFILE_RELEASE_OPT_LEVEL"];

fn main() {
    let compiler = env::var("RUSTC").ok().and_then(|rustc| Command::new(rustc).arg("--version").output().ok());
    let version = compiler.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let mut settings = vec![format!("profile={}", env::var("PROFILE").unwrap_or_default())];
    let mut out = format!("cargo::rustc-env=DFCP_RUSTC={}\ncargo::rerun-if-changed=build.rs\n", version.trim());
    for name in SETTINGS {
        out += &format!("cargo::rerun-if-env-changed={name}\n");
        if let Ok(value) = env::var(name) {
            settings.push(format!("{}={value}", name.trim_start_matches("CARGO_PROFILE_RELEASE_").to_lowercase()));
        }
    }
    out += &format!("cargo::rustc-env=DFCP_SETTINGS={}\n", settings.join(" "));
    // A failed write means that cargo has ended, and the build with it.
    let _ = std::io::stdout().write_all(out.as_bytes());
}
