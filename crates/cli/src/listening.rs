//! First lines that a listener prints: its address, and the command to connect to it.

pub(crate) mod own_addresses;

use std::net::SocketAddr;

use dfcp_framing::frame::Service;
use serde_json::{Value, json};

use self::own_addresses::Reachable;
use crate::output;

/// Returns the command that connects to a listener of this `service` at `place`.
#[must_use]
pub(crate) fn call(service: Service, place: &str) -> String {
    match service {
        Service::Files => format!("dfcp send FILE.. {place}"),
        Service::FilesToCaller => format!("dfcp receive --output DIR --from {place}"),
        Service::Perf => format!("dfcp perf client {place}"),
        Service::Pipe => format!("dfcp pipe udp --in [ADDRESS:]PORT --to {place} --deadline TIME"),
    }
}

/// Prints the listening `address`, and the command from `call` that connects to it. `doing` completes the sentence with
/// the service and its end; `more` adds members to the JSON object. Returns the reachable places.
pub(crate) fn announce(
    address: SocketAddr,
    doing: &str,
    call: impl Fn(&str) -> String,
    json: bool,
    more: Value,
) -> Reachable {
    let reachable = Reachable::of(address);
    if json {
        let mut object = json!({ "event": "listening", "address": address, "addresses": reachable.places });
        if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
            object.extend(more);
        }
        output::json(&object);
    } else {
        output::note(&format!("listening on {address}{doing}"));
        if address.ip().is_unspecified() {
            output::note(&describe(&reachable, call));
        }
    }
    if let Some(error) = &reachable.unlisted {
        output::note(&format!("further addresses may be missing: the system does not list them ({error})"));
    }
    reachable
}

/// Returns the text line for the reachable places.
fn describe(reachable: &Reachable, call: impl Fn(&str) -> String) -> String {
    let Some((last, others)) = reachable.places.split_last() else {
        return "this machine has no address yet at which others could reach it".to_owned();
    };
    let mut text = match others {
        [] => last.clone(),
        _ if reachable.left_out > 0 => format!("{}, {last} and {} more", others.join(", "), reachable.left_out),
        _ => format!("{} or {last}", others.join(", ")),
    };
    if last.contains("%INTERFACE") {
        text += ", INTERFACE being that of the calling machine";
    }
    let who = if reachable.is_only_here { "only this machine reaches it" } else { "others reach it" };
    format!("{who} at {text}: {}", call(reachable.first()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(places: &[&str], left_out: usize) -> String {
        let places = places.iter().map(|&place| place.to_owned()).collect();
        describe(&Reachable { places, left_out, ..Reachable::default() }, |place| call(Service::Files, place))
    }

    #[test]
    fn the_line_has_every_address_and_a_command_to_be_pasted() {
        assert_eq!(told(&["192.0.2.7:1"], 0), "others reach it at 192.0.2.7:1: dfcp send FILE.. 192.0.2.7:1");
        let line = "others reach it at 192.0.2.7:1, 10.0.0.7:1 or [2001:db8::7]:1: dfcp send FILE.. 192.0.2.7:1";
        assert_eq!(told(&["192.0.2.7:1", "10.0.0.7:1", "[2001:db8::7]:1"], 0), line);
        assert!(told(&["192.0.2.7:1", "10.0.0.7:1"], 9).contains("at 192.0.2.7:1, 10.0.0.7:1 and 9 more: "));
        assert!(told(&["[fe80::7%INTERFACE]:1"], 0).contains("INTERFACE being that of the calling machine: dfcp"));
        assert!(told(&[], 0).contains("no address yet"));
    }
}
