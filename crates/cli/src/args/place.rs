//! Host names and addresses on the command line, with or without a port.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Default port of file transfers: DFCP on a telephone keypad, with a leading 2. IANA has assigned none of the ports 23295 to 23332, and
/// they lie outside the ephemeral range.
pub const FILES_PORT: u16 = 23_327;

/// Default port of measurements. Each service has its own port, so that one machine can run all of them.
pub const PERF_PORT: u16 = 23_328;

/// Default port of bandwidth estimation.
pub const ESTIMATE_PORT: u16 = 23_329;

/// Default port of pipes.
pub const PIPE_PORT: u16 = 23_330;

/// Host name or address, and the port if one was given. IPv6 addresses are in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

impl Place {
    /// Parses `there.example`, `192.0.2.7:4433`, `2001:db8::7`, `[2001:db8::7]:4433`, `fe80::7%eth0` and similar. An IPv6 address without
    /// brackets has no port: its last group belongs to the address.
    ///
    /// # Errors
    /// Returns the fault as a phrase for an error message.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(rest) = text.strip_prefix('[') {
            let (address, behind) = rest.split_once(']').ok_or("there is no closing bracket")?;
            check_ipv6(address)?;
            let port = match behind.strip_prefix(':') {
                Some(port) => Some(parse_port(port)?),
                None if behind.is_empty() => None,
                None => return Err("behind the bracket only a colon and a port may follow"),
            };
            return Ok(Self { host: format!("[{address}]"), port });
        }
        if text.matches(':').count() > 1 {
            check_ipv6(text)?;
            return Ok(Self { host: format!("[{text}]"), port: None });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(parse_port(port)?)),
            None => (text, None),
        };
        check_name(host)?;
        Ok(Self { host: host.to_owned(), port })
    }
}

fn parse_port(text: &str) -> Result<u16, &'static str> {
    let port = if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None };
    port.ok_or("a port is a number up to 65535")
}

/// Validates an IPv6 address, optionally with a zone (the local interface that reaches it).
fn check_ipv6(text: &str) -> Result<(), &'static str> {
    let (address, zone) = text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)));
    let address: Ipv6Addr = address.parse().map_err(|_| "it is no IPv6 address")?;
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "[]%#/".contains(c);
    match zone {
        Some(zone) if zone.is_empty() || zone.contains(is_odd) => Err("an interface has to follow the %"),
        None if address.is_unicast_link_local() => {
            Err("an address that begins with fe80: needs the interface of this machine, such as fe80::7%eth0")
        }
        _ => Ok(()),
    }
}

/// Validates a host name or an IPv4 address.
fn check_name(text: &str) -> Result<(), &'static str> {
    let is_numeric = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match () {
        () if text.is_empty() => Err("it has no name"),
        // The resolver would turn `4433` into 0.0.17.81.
        () if is_numeric && text.parse::<Ipv4Addr>().is_err() => Err("a number alone is no address"),
        () if text.contains('@') => Err("user names are not needed"),
        () if !text.chars().all(|c| c.is_alphanumeric() || "-._".contains(c)) => Err("it is not the name of a machine"),
        () => Ok(()),
    }
}

/// Returns a parser of names and addresses, with `port` as the default. The parsed text always has a port, and brackets
/// around an IPv6 address.
pub fn host_or(port: u16) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |text| to_call(text, Some(port))
}

/// Parses a host name or address to connect to, which must state its port.
///
/// # Errors
/// Fails for any other text.
pub fn host_port(text: &str) -> Result<String, String> {
    to_call(text, None)
}

fn to_call(text: &str, default: Option<u16>) -> Result<String, String> {
    let expected = match default {
        Some(_) => {
            "expected a name or an address, alone or with a port: there.example, 192.0.2.7:4433, [2001:db8::7]:4433"
        }
        None => "expected a host and port such as there.example:4433, 192.0.2.7:4433 or [2001:db8::7]:4433",
    };
    let place = Place::parse(text).map_err(|why| format!("{why}; {expected}"))?;
    match place.port.or(default) {
        Some(0) => Err("port 0 cannot be called, name the port at which the other side listens".to_owned()),
        Some(port) => Ok(format!("{}:{port}", place.host)),
        None => Err(expected.to_owned()),
    }
}

/// Parses a bare port (bound to loopback), or an address with a port.
///
/// # Errors
/// Fails for any other text.
pub fn local_address(text: &str) -> Result<String, String> {
    if text.parse::<u16>().is_ok() {
        return Ok(format!("127.0.0.1:{text}"));
    }
    match Place::parse(text) {
        Ok(Place { host, port: Some(port) }) => Ok(format!("{host}:{port}")),
        _ => Err("expected a port such as 5004, or an address with one".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_without_a_port_gets_the_usual_one() {
        let place = host_or(FILES_PORT);
        for (text, full) in [
            ("there.example", "there.example:23327"),
            ("there", "there:23327"),
            ("there_2.example:1", "there_2.example:1"),
            ("192.0.2.7", "192.0.2.7:23327"),
            ("192.0.2.7:4433", "192.0.2.7:4433"),
            ("::1", "[::1]:23327"),
            ("[::1]", "[::1]:23327"),
            ("[::1]:4433", "[::1]:4433"),
            ("2001:db8::7:4433", "[2001:db8::7:4433]:23327"),
            ("::ffff:192.0.2.7", "[::ffff:192.0.2.7]:23327"),
            ("fe80::7%eth0", "[fe80::7%eth0]:23327"),
            ("[fe80::7%2]:4433", "[fe80::7%2]:4433"),
            ("[fe80::7%wlan0.5]", "[fe80::7%wlan0.5]:23327"),
        ] {
            assert_eq!(place(text), Ok(full.to_owned()));
            assert_eq!(host_port(full), Ok(full.to_owned()));
            // Parsing is idempotent.
            assert_eq!(place(full), Ok(full.to_owned()));
        }
    }

    #[test]
    fn what_is_no_place_is_refused_with_the_reason() {
        let place = host_or(FILES_PORT);
        for (bad, why) in [
            ("", "no name"),
            (":1", "no name"),
            ("a:", "a port is a number"),
            ("a:0", "port 0"),
            ("a:70000", "a port is a number"),
            ("a:+1", "a port is a number"),
            ("there.example:film.mkv", "a port is a number"),
            ("user@there.example", "user names"),
            ("4433", "a number alone"),
            ("192.168.1", "a number alone"),
            ("192.0.2.256", "a number alone"),
            ("photos/", "not the name of a machine"),
            ("./photos", "not the name of a machine"),
            ("a b", "not the name of a machine"),
            ("a\nb", "not the name of a machine"),
            ("https://there.example/", "a port is a number"),
            ("[::1", "closing bracket"),
            ("[::1]4433", "behind the bracket"),
            ("[there.example]:1", "no IPv6 address"),
            ("1:2:3", "no IPv6 address"),
            ("fe80::7", "needs the interface"),
            ("[fe80::7]:4433", "needs the interface"),
            ("fe80::7%", "an interface has to follow"),
            ("fe80::7%a%b", "an interface has to follow"),
        ] {
            let error = place(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
        for bad in ["there.example", "192.0.2.7", "[::1]", "::1"] {
            assert!(host_port(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_port_alone_is_of_this_machine() {
        for (text, full) in [("5004", "127.0.0.1:5004"), ("0", "127.0.0.1:0"), ("[::]:5004", "[::]:5004")] {
            assert_eq!(local_address(text), Ok(full.to_owned()));
        }
        for bad in ["", "there", "70000", "::1", "a:b"] {
            assert!(local_address(bad).is_err(), "{bad}");
        }
    }
}
