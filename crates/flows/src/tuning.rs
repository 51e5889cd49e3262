//! What the kernel's TCP is told by its settings.

use std::fs;

use dfcp_sim::tcp;

/// Socket buffers may grow to what those of the simulator may grow to.
const BUFFER_BYTES_MAX: u64 = tcp::RECEIVE_BUFFER_BYTES_MAX;

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
