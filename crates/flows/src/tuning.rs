//! Settings of the kernel's TCP.

use std::fs;

use dfcp_sim::tcp;

/// Socket buffers may grow to what those of the simulator may grow to.
const BUFFER_BYTES_MAX: u64 = tcp::RECEIVE_BUFFER_BYTES_MAX;

/// Lets TCP, in the namespace in which this thread is, ask for explicit congestion notification when it connects (RFC 3168).
///
/// # Errors
/// One sentence about what the kernel cannot be told.
pub fn tcp_ecn() -> Result<(), String> {
    let path = "/proc/sys/net/ipv4/tcp_ecn";
    fs::write(path, "1").map_err(|error| format!("cannot write 1 to {path}: {error}"))
}

/// Lets the buffers of TCP's sockets, in the namespace in which this thread is, start as the kernel has them and grow.
///
/// # Errors
/// One sentence about what the kernel cannot be told.
pub fn tcp_buffers() -> Result<(), String> {
    for (name, first) in [("tcp_rmem", "4096 131072"), ("tcp_wmem", "4096 16384")] {
        let (path, value) = (format!("/proc/sys/net/ipv4/{name}"), format!("{first} {BUFFER_BYTES_MAX}"));
        fs::write(&path, &value).map_err(|error| format!("cannot write {value} to {path}: {error}"))?;
    }
    Ok(())
}
