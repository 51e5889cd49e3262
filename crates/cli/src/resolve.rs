//! Address resolution for the command line.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use anyhow::{Context, ensure};

/// Resolves `place`, a name or address with a port, to at least one address. The zone of an IPv6 address is a local
/// interface's name or index.
///
/// # Errors
/// Fails if the name has no address, or the interface does not exist.
pub async fn resolve(place: &str) -> anyhow::Result<Vec<SocketAddr>> {
    if let Some(address) = with_zone(place)? {
        return Ok(vec![address]);
    }
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let found = tokio::net::lookup_host(place).await;
    let found: Vec<_> = found.with_context(|| format!("cannot find {host}, check the name"))?.collect();
    ensure!(!found.is_empty(), "{host} has no address, check the name");
    Ok(found)
}

/// Parses `[fe80::7%eth0]:4433`; the system's resolver accepts such an address only without brackets.
fn with_zone(place: &str) -> anyhow::Result<Option<SocketAddr>> {
    let parts = || {
        let (host, port) = place.rsplit_once(':')?;
        let (address, zone) = host.strip_prefix('[')?.strip_suffix(']')?.split_once('%')?;
        Some((address.parse::<Ipv6Addr>().ok()?, zone, port.parse().ok()?))
    };
    let Some((address, zone, port)) = parts() else { return Ok(None) };
    Ok(Some(SocketAddrV6::new(address, port, 0, interface(zone)?).into()))
}

/// Parses an address, and returns the interface index of its zone if it has one.
///
/// # Errors
/// Fails if the text is no address, or the interface does not exist.
pub fn address(text: &str) -> anyhow::Result<(IpAddr, Option<u32>)> {
    let (address, zone) = text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)));
    Ok((address.parse()?, zone.map(interface).transpose()?))
}

/// Returns the interface index of a zone, which is a name or a number.
fn interface(zone: &str) -> anyhow::Result<u32> {
    named(zone).with_context(|| {
        format!(
            "this machine has no network interface {zone}: behind the % of an address stands the one that leads to it"
        )
    })
}

#[cfg(unix)]
fn named(zone: &str) -> Option<u32> {
    use nix::net::if_::{if_indextoname, if_nametoindex};
    // For an unassigned index, `nix` returns an empty name.
    let has_name = |&number: &u32| if_indextoname(number).is_ok_and(|name| !name.is_empty());
    let number = || zone.parse().ok().filter(has_name);
    // Names come first: an interface may have a number as its name.
    if_nametoindex(zone).ok().or_else(number)
}

#[cfg(not(unix))]
fn named(zone: &str) -> Option<u32> {
    zone.parse().ok().filter(|&number| number != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_zone_is_the_name_or_the_number_of_an_interface() {
        let number = nix::net::if_::if_nametoindex("lo").unwrap();
        let expected = SocketAddr::from(SocketAddrV6::new("fe80::7".parse().unwrap(), 4433, 0, number));
        for zone in ["lo".to_owned(), number.to_string()] {
            assert_eq!(resolve(&format!("[fe80::7%{zone}]:4433")).await.unwrap(), [expected]);
        }
        assert_eq!(address("fe80::7%lo").unwrap(), (expected.ip(), Some(number)));
    }

    #[tokio::test]
    async fn an_unknown_interface_or_name_is_one_sentence() {
        for zone in ["no-such-one", "4000000000", "0", "-1"] {
            let error = resolve(&format!("[fe80::7%{zone}]:4433")).await.unwrap_err();
            assert!(format!("{error:#}").starts_with(&format!("this machine has no network interface {zone}: ")));
        }
        let error = resolve("no-such-host.invalid:4433").await.unwrap_err();
        assert!(format!("{error:#}").starts_with("cannot find no-such-host.invalid, check the name"), "{error:#}");
    }

    #[tokio::test]
    async fn addresses_need_no_resolver() {
        for text in ["192.0.2.7:1", "[2001:db8::7]:1"] {
            assert_eq!(resolve(text).await.unwrap(), [text.parse::<SocketAddr>().unwrap()]);
        }
        assert_eq!(address("192.0.2.7").unwrap(), ("192.0.2.7".parse().unwrap(), None));
    }
}
