//! Host names of `known_hosts`.

use std::fmt;

use dfcp_framing::printable;

use crate::limits::HOST_NAME_BYTES_MAX;

/// Host and port as typed, in lower case. Two spellings of a host count as two names: only the resolver could tell that
/// they are equal, and `known_hosts` does not trust the resolver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostName(String);

impl HostName {
    /// Parses a host with a port; `None` for any other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = Some(port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        let port = port.and_then(|port| port.parse::<u16>().ok()).filter(|&port| port != 0)?;
        let in_brackets = host.starts_with('[') && host.ends_with(']');
        let odd = |c: char| c.is_whitespace() || c == '#';
        if host.is_empty() || host.contains(odd) || printable(host) != host || host.contains(':') && !in_brackets {
            return None;
        }
        let name = format!("{}:{port}", host.to_lowercase());
        (name.len() <= HOST_NAME_BYTES_MAX).then_some(Self(name))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
