//! The guest's network in a real kernel: what comes out of a wire is compared with what a link of the simulator does.
//!
//! Needs a kernel of the platform, the newest that is built or `DFCP_TEST_KERNEL=/path/of/linux`; else it says so and does
//! nothing. Arguments choose checks by parts of their names. This program is also the init of that kernel.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, though without the harness of tests")]

#[cfg(target_os = "linux")]
mod checks;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod traffic;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    if std::process::id() == 1 { checks::run() } else { host::run() }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
