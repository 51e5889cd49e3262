//! The listening address, on the command line.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::place::Place;
use crate::resolve::resolve;

/// Listening port at every local address, or at one address or host name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenArg {
    /// Port on every local address: `4433` or `:4433`.
    Anywhere(u16),
    /// Address or host name with a port: `192.0.2.7:4433` or `there.example:4433`.
    At(String),
}

/// Returns a parser of listening addresses, with `port` as the default.
pub fn listen_at(port: u16) -> impl Fn(&str) -> Result<ListenArg, String> + Clone + Send + Sync + 'static {
    move |text| ListenArg::parse(text, Some(port))
}

/// Parses a listening address that must state its port.
///
/// # Errors
/// Fails for any other text.
pub fn listen_at_port(text: &str) -> Result<ListenArg, String> {
    ListenArg::parse(text, None)
}

impl ListenArg {
    fn parse(text: &str, default: Option<u16>) -> Result<Self, String> {
        let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let port = text.strip_prefix(':').unwrap_or(text);
        if is_port(port)
            && let Ok(port) = port.parse()
        {
            return Ok(Self::Anywhere(port));
        }
        if let Ok(Place { host, port }) = Place::parse(text)
            && let Some(port) = port.or(default)
        {
            return Ok(Self::At(format!("{host}:{port}")));
        }
        Err("expected a port such as 4433, or an address or a name of this machine with one, such as 192.0.2.7:4433, \
             [2001:db8::7]:4433 or there.example:4433"
            .to_owned())
    }
}

impl fmt::Display for ListenArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anywhere(port) => port.fmt(f),
            Self::At(place) => f.write_str(place),
        }
    }
}

impl ListenArg {
    /// Returns the addresses to try, in order. For a port alone, the first is the IPv6 wildcard of a dual-stack socket,
    /// if `both_versions` is true.
    ///
    /// # Errors
    /// Fails if the host name has no address, or the interface does not exist.
    pub async fn addresses(&self, both_versions: bool) -> anyhow::Result<Vec<SocketAddr>> {
        const V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        const V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        match self {
            Self::Anywhere(port) => {
                let all = if both_versions { &[V6, V4][..] } else { &[V4] };
                Ok(all.iter().map(|&ip| SocketAddr::new(ip, *port)).collect())
            }
            Self::At(place) => resolve(place).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_an_address_or_a_name_will_do() {
        let parse = listen_at(23_327);
        let at = |place: &str| Ok(ListenArg::At(place.to_owned()));
        assert_eq!(parse("4433"), Ok(ListenArg::Anywhere(4433)));
        assert_eq!(parse(":0"), Ok(ListenArg::Anywhere(0)));
        for address in ["192.0.2.7:4433", "[::]:0", "[2001:db8::7]:1"] {
            assert_eq!(parse(address), at(address));
            assert_eq!(listen_at_port(address), at(address));
            let expected = address.parse::<SocketAddr>().unwrap();
            assert_eq!(parse(address).unwrap().addresses(true).await.unwrap(), [expected]);
        }
        for (text, place) in [
            ("there.example:0", "there.example:0"),
            ("there.example", "there.example:23327"),
            ("::1", "[::1]:23327"),
            ("[::]", "[::]:23327"),
            ("192.0.2.7", "192.0.2.7:23327"),
            ("fe80::7%eth0", "[fe80::7%eth0]:23327"),
        ] {
            assert_eq!(parse(text), at(place));
        }
        let localhost = parse("localhost:7").unwrap().addresses(true).await.unwrap();
        assert!(localhost.iter().all(|address| address.ip().is_loopback() && address.port() == 7), "{localhost:?}");
        for bad in ["", ":", "70000", ":70000", "a:", "a:70000", "a:+1", "+1:1", "[a]:1", "a/b", "fe80::7"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for bad in ["there.example", "[::]", "::1", "192.0.2.7"] {
            assert!(listen_at_port(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_port_alone_is_every_address() {
        let any = |both| async move { ListenArg::Anywhere(7).addresses(both).await.unwrap() };
        assert_eq!(any(true).await.iter().map(ToString::to_string).collect::<Vec<_>>(), ["[::]:7", "0.0.0.0:7"]);
        assert_eq!(any(false).await.iter().map(ToString::to_string).collect::<Vec<_>>(), ["0.0.0.0:7"]);
    }
}
