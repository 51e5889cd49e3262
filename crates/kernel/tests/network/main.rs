//! Tests of the guest's network in a real kernel: wires are compared with links of the simulator.
//!
//! The test uses the newest built kernel of the platform, or `DFCP_TEST_KERNEL=/path/of/linux`; without a kernel it prints so and does
//! nothing. Arguments select checks by parts of their names. This program is also the init of that kernel.

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
