//! The kernel's TCP counters, per namespace.

use std::fs;

/// Counters of all connections of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpCounters {
    /// Retransmitted segments (`RetransSegs` of RFC 4022).
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// Returns the counters of the current thread's network namespace.
///
/// # Errors
/// Fails if the kernel does not publish the counters.
pub fn tcp_counters() -> Result<TcpCounters, String> {
    let count = |file: &str, group: &str, name: &str| {
        let path = format!("/proc/thread-self/net/{file}");
        let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
        counter(&text, group, name).ok_or_else(|| format!("{path} has no {group} {name}"))
    };
    Ok(TcpCounters {
        retransmissions: count("snmp", "Tcp:", "RetransSegs")?,
        timeouts: count("netstat", "TcpExt:", "TCPTimeouts")?,
    })
}

/// Parses one counter of `text`: a group's first line has the names, its second line has the values.
fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.split(' ').next() == Some(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split(' ').position(|other| other == name)?;
    values.split(' ').nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_group_and_name() {
        let text = "Ip: A B\nIp: 1 2\nTcp: MaxConn RetransSegs\nTcp: -1 17\nTcpExt: RetransSegs\nTcpExt: 5\n";
        assert_eq!(counter(text, "Tcp:", "RetransSegs"), Some(17));
        assert_eq!(counter(text, "TcpExt:", "RetransSegs"), Some(5));
        assert_eq!(counter(text, "Tcp:", "MaxConn"), None);
        assert_eq!(counter(text, "Udp:", "RetransSegs"), None);
        assert_eq!(counter("Tcp: RetransSegs", "Tcp:", "RetransSegs"), None);
    }
}
