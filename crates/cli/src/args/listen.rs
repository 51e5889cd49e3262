//! Where to listen, on the command line.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use anyhow::Context;

use super::is_host_port;

/// A port of every address of this machine, or of one address, or of what a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenArg {
    /// `4433` or `:4433`.
    Anywhere(u16),
    /// `192.0.2.7:4433`.
    Address(SocketAddr),
    /// `there.example:4433`.
    Name(String),
}

impl FromStr for ListenArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let port = text.strip_prefix(':').unwrap_or(text);
        if is_port(port)
            && let Ok(port) = port.parse()
        {
            return Ok(Self::Anywhere(port));
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let is_name = text.rsplit_once(':').is_some_and(|(host, port)| is_port(port) && !host.starts_with('['));
        if is_name && is_host_port(text, true) {
            return Ok(Self::Name(text.to_owned()));
        }
        Err("expected a port such as 4433, or an address or a name of this machine with one, such as 192.0.2.7:4433, \
             [2001:db8::7]:4433 or there.example:4433"
            .to_owned())
    }
}

impl fmt::Display for ListenArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anywhere(port) => write!(f, "port {port}"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl ListenArg {
    /// The addresses to be tried one after the other. A port alone is first tried for both versions of IP at once, where the
    /// carrier has sockets for both.
    ///
    /// # Errors
    /// The name has no address.
    pub async fn addresses(&self, both_versions: bool) -> anyhow::Result<Vec<SocketAddr>> {
        const V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        const V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        match self {
            Self::Anywhere(port) => {
                let all = if both_versions { &[V6, V4][..] } else { &[V4] };
                Ok(all.iter().map(|&ip| SocketAddr::new(ip, *port)).collect())
            }
            Self::Address(address) => Ok(vec![*address]),
            Self::Name(name) => {
                let found = tokio::net::lookup_host(name).await;
                let found: Vec<_> = found.with_context(|| format!("cannot find {name}, check the name"))?.collect();
                anyhow::ensure!(!found.is_empty(), "{name} has no address, check the name");
                Ok(found)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_an_address_or_a_name_will_do() {
        let parse = |text: &str| text.parse::<ListenArg>();
        assert_eq!(parse("4433"), Ok(ListenArg::Anywhere(4433)));
        assert_eq!(parse(":0"), Ok(ListenArg::Anywhere(0)));
        for address in ["192.0.2.7:4433", "[::]:0", "[2001:db8::7]:1"] {
            let expected = address.parse::<SocketAddr>().unwrap();
            assert_eq!(parse(address), Ok(ListenArg::Address(expected)));
            assert_eq!(parse(address).unwrap().addresses(true).await.unwrap(), [expected]);
        }
        assert_eq!(parse("there.example:0"), Ok(ListenArg::Name("there.example:0".to_owned())));
        let localhost = parse("localhost:7").unwrap().addresses(true).await.unwrap();
        assert!(localhost.iter().all(|address| address.ip().is_loopback() && address.port() == 7), "{localhost:?}");
        for bad in
            ["", ":", "70000", ":70000", "a:", "a:70000", "a:+1", "+1", "-1", "2001:db8::7:1", "[a]:1", "a", "[::]"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_port_alone_is_every_address() {
        let any = |both| async move { ListenArg::Anywhere(7).addresses(both).await.unwrap() };
        assert_eq!(any(true).await.iter().map(ToString::to_string).collect::<Vec<_>>(), ["[::]:7", "0.0.0.0:7"]);
        assert_eq!(any(false).await.iter().map(ToString::to_string).collect::<Vec<_>>(), ["0.0.0.0:7"]);
    }
}
