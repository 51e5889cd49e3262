//! Plan parameters that sweeps, series and short forms can set by name.

use dfcp_proto::Parameter;
use toml::{Spanned, Value};

use super::carrier::{Carrier, ORACLE, Pace, Redundancy};
use super::flows::{Ends, Flows, MessagesTable};
use super::level::{Level, as_number};
use super::model::{Change, Plan};
use super::topology::Discipline;
use super::transport;

/// Parameters with a fixed name, and their descriptions, for error messages and the documentation.
pub const PARAMETERS: [(&str, &str); 48] = [
    ("bottleneck_mbps", "rate of the bottleneck, Mbit/s of IP packets"),
    ("up_mbps", "the same up, in data's direction, where that is another one"),
    ("rtt_ms", "round-trip time of every pair's access links, ms"),
    ("access_mbps", "rate of access links, Mbit/s; 0 for infinite"),
    ("access_jitter_us", "longest random delay of a packet on its access link, µs"),
    ("loss", "share of data packets lost in a bottleneck"),
    ("loss_burst_packets", "mean length of runs of losses, packets"),
    ("discipline", "drop-tail, drr, sfq, wfq, codel, fq-codel or red"),
    ("ce_threshold_us", "waiting time from which codel and fq-codel mark every packet, µs"),
    ("buffer_packets", "packets which may wait in a bottleneck"),
    ("buffer_bdp", "the same in bandwidth-delay products"),
    ("jitter_ms", "longest random delay behind a bottleneck, ms"),
    ("batch_ms", "time between batches in which packets leave a bottleneck, ms"),
    ("reorder", "share of packets which arrive late, so that others overtake them"),
    ("back_loss", "share of packets lost on the way back alone"),
    ("policer_packets", "full packets in the bucket of a policer, which stands in for the queue or in front of it"),
    ("policer_mbps", "the policer's own rate, Mbit/s: it then stands in front of the queue"),
    ("scenario", "which draw of a random network"),
    ("flows", "number of flows of the first [[flows]]"),
    ("bytes", "application bytes of every flow"),
    ("app_mbps", "how fast the sending application has data to send, Mbit/s"),
    ("on_s", "seconds for which it has some at a time"),
    ("off_s", "and seconds for which it then has none"),
    ("read_mbps", "how fast the receiving application reads, Mbit/s"),
    ("receive_memory_kib", "what the receiver lends to blocks which are not read, KiB"),
    ("clock_ppm", "by how many millionths the receiver's clock is faster than it should be"),
    ("receive_batch_ms", "time between batches in which packets arrive at the receiver, ms"),
    ("lie", "what the receiver lies about: arrivals or losses"),
    ("message_bytes", "bytes of each message"),
    ("message_every_ms", "from one message to the next, ms"),
    ("deadline_ms", "from handing a message over until it is worth nothing, ms"),
    ("target_percent", "how many messages DFCP is to deliver in time, %"),
    ("web_connection_bytes", "bytes of each connection of web traffic, on average"),
    ("page_every_s", "from one page of web traffic to the next, on average, s"),
    ("probe_every_ms", "from one test packet of an estimate to the next, ms"),
    ("threshold_ms", "queueing delay from which an estimate counts the queue as busy, ms"),
    ("redundancy", "classic's redundancy in open loop"),
    ("endless", "whether classic floods a silent receiver for ever, true or false"),
    ("window_blocks", "DFCP's window, blocks"),
    ("rate", "DFCP's rate: Mbit/s, line, share or auto; an oracle keeps its own"),
    ("codec", "whether DFCP really codes and decodes, true or false"),
    ("max_window_bytes", "TCP's largest window, bytes"),
    ("hystart", "TCP's HyStart, true or false"),
    ("initial_ssthresh_segments", "TCP's slow-start threshold after the handshake"),
    ("clock_hz", "ticks of the clock of TCP's kernel per second"),
    ("ecn", "explicit congestion notification of TCP of today, true or false"),
    ("duration_s", "simulated seconds of a run"),
    ("warm_up_s", "seconds which goodput leaves out"),
];

/// Parameters whose name contains a number N, from 1, or the name of another parameter.
pub const NUMBERED: [(&str, &str); 13] = [
    ("parameters.NAME", "classic's parameter NAME of thesis table 3.2, such as inctokens"),
    ("bottleneckN.rate_mbps", "rate of bottleneck N, Mbit/s"),
    ("bottleneckN.up_mbps", "the same up, in data's direction, where that is another one"),
    ("bottleneckN.rtt_ms", "what bottleneck N adds to the round-trip time, ms"),
    ("bottleneckN.loss", "share lost in bottleneck N"),
    ("bottleneckN.buffer_packets", "packets which may wait in bottleneck N"),
    ("flowsN.count", "number of flows of the [[flows]] N"),
    ("flowsN.rtt_ms", "round-trip time of the [[flows]] N, ms"),
    ("flowsN.access_mbps", "rate of access links of the [[flows]] N, Mbit/s"),
    ("timeN.rate_mbps", "the rate from the change [[time]] N on, Mbit/s"),
    ("timeN.delay_ms", "the one-way delay from the change [[time]] N on, ms"),
    ("flowsN.transport", "name of the transport of the [[flows]] N"),
    ("flowsN.bytes", "application bytes of the [[flows]] N"),
];

/// Sets parameter `name` of `plan`.
///
/// # Errors
/// Fails with a sentence if the parameter does not exist, or the value is invalid for it.
pub fn set(plan: &mut Plan, name: &str, value: &Value) -> Result<(), String> {
    if let Some((group, field)) = name.split_once('.') {
        if group == "parameters" {
            return set_of_table(plan, name, field, value);
        }
        return set_numbered(plan, name, group, field, value);
    }
    let topology = plan.topology.get_mut();
    match name {
        "bottleneck_mbps" => topology.rate_mbps = Some(number(name, value)?),
        "up_mbps" => topology.up_mbps = Some(number(name, value)?),
        "rtt_ms" => topology.rtt_ms = Some(number(name, value)?),
        "access_mbps" => topology.access_mbps = Some(number(name, value)?),
        "access_jitter_us" => topology.access_jitter_us = Some(number(name, value)?),
        "loss" => topology.loss = Some(number(name, value)?),
        "loss_burst_packets" => topology.loss_burst_packets = Some(number(name, value)?),
        "jitter_ms" => topology.impairments.jitter_ms = Some(number(name, value)?),
        "batch_ms" => topology.impairments.batch_ms = Some(number(name, value)?),
        "reorder" => topology.impairments.reorder = Some(number(name, value)?),
        "back_loss" => topology.impairments.back_loss = Some(number(name, value)?),
        "policer_packets" => topology.impairments.policer_packets = Some(whole(name, value)?),
        "policer_mbps" => topology.impairments.policer_mbps = Some(number(name, value)?),
        "discipline" => topology.discipline = Some(discipline(value)?),
        "ce_threshold_us" => topology.ce_threshold_us = Some(number(name, value)?),
        "buffer_packets" => (topology.buffer_packets, topology.buffer_bdp) = (Some(whole(name, value)?), None),
        "buffer_bdp" => (topology.buffer_packets, topology.buffer_bdp) = (None, Some(number(name, value)?)),
        "scenario" => topology.scenario = whole(name, value)?,
        "flows" => flows(plan, 1)?.count = whole(name, value)?,
        "bytes" => {
            let bytes = whole(name, value)?;
            plan.flows.iter_mut().for_each(|flows| flows.get_mut().bytes = Some(bytes));
        }
        "app_mbps" | "on_s" | "off_s" | "read_mbps" | "receive_memory_kib" | "clock_ppm" | "receive_batch_ms"
        | "lie" => {
            // Applied to flows with DFCP only; flows with another transport keep their settings.
            let is_dfcp = |flows: &&mut Flows| flows.transport.as_ref().is_none_or(|own| own.kind.is_dfcp());
            let mut flows = plan.flows.iter_mut().map(Spanned::get_mut).filter(is_dfcp);
            return flows.try_for_each(|flows| set_of_ends(&mut flows.ends, name, value));
        }
        "message_bytes" | "message_every_ms" | "deadline_ms" | "target_percent" => {
            return set_of_messages(plan, name, value);
        }
        "web_connection_bytes" | "page_every_s" => return set_of_web(plan, name, value),
        "probe_every_ms" | "threshold_ms" => return set_of_estimate(plan, name, value),
        "duration_s" => plan.run.duration_s = number(name, value)?,
        "warm_up_s" => plan.run.warm_up_s = number(name, value)?,
        _ => return set_option(plan, name, value),
    }
    Ok(())
}

fn set_numbered(plan: &mut Plan, name: &str, group: &str, field: &str, value: &Value) -> Result<(), String> {
    let digits = group.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    let Ok(index) = digits.parse::<usize>() else { return Err(unknown(name)) };
    match (group.trim_end_matches(digits), field) {
        ("bottleneck", field) => {
            let all = &mut plan.topology.get_mut().bottlenecks;
            let count = all.len();
            let Some(bottleneck) = index.checked_sub(1).and_then(|at| all.get_mut(at)).map(Spanned::get_mut) else {
                return Err(format!(
                    "`{name}` is the bottleneck number {index}, but [[topology.bottlenecks]] has {count}"
                ));
            };
            match field {
                "rate_mbps" => bottleneck.rate_mbps = Some(number(name, value)?),
                "up_mbps" => bottleneck.up_mbps = Some(number(name, value)?),
                "rtt_ms" => bottleneck.rtt_ms = Some(number(name, value)?),
                "loss" => bottleneck.loss = Some(number(name, value)?),
                "buffer_packets" => {
                    (bottleneck.buffer_packets, bottleneck.buffer_bdp) = (Some(whole(name, value)?), None);
                }
                _ => return Err(unknown(name)),
            }
        }
        ("time", "rate_mbps") => change(plan, index)?.rate_mbps = Some(number(name, value)?),
        ("time", "delay_ms") => change(plan, index)?.delay_ms = Some(number(name, value)?),
        ("flows", "transport") => {
            let known = transport::named(value.clone()).map_err(|error| format!("`{name}`: {error}"))?;
            flows(plan, index)?.transport = Some(known);
        }
        ("flows", "count") => flows(plan, index)?.count = whole(name, value)?,
        ("flows", "rtt_ms") => flows(plan, index)?.rtt_ms = Some(number(name, value)?),
        ("flows", "access_mbps") => flows(plan, index)?.access_mbps = Some(number(name, value)?),
        ("flows", "bytes") => flows(plan, index)?.bytes = Some(whole(name, value)?),
        _ => return Err(unknown(name)),
    }
    Ok(())
}

fn set_of_ends(ends: &mut Ends, name: &str, value: &Value) -> Result<(), String> {
    match name {
        "app_mbps" => ends.app_mbps = Some(number(name, value)?),
        "on_s" => ends.on_s = Some(number(name, value)?),
        "off_s" => ends.off_s = Some(number(name, value)?),
        "read_mbps" => ends.read_mbps = Some(number(name, value)?),
        "receive_memory_kib" => ends.receive_memory_kib = Some(whole(name, value)?),
        "clock_ppm" => ends.clock_ppm = Some(signed(name, value)?),
        "lie" => {
            let known = value.clone().try_into();
            ends.lie = Some(known.map_err(|_| format!("`lie` is arrivals or losses, not {}", Level::of(value)))?);
        }
        "receive_batch_ms" => ends.receive_batch_ms = Some(number(name, value)?),
        _ => return Err(unknown(name)),
    }
    Ok(())
}

/// Sets a parameter of all flows with messages. Fails if there are none.
fn set_of_messages(plan: &mut Plan, name: &str, value: &Value) -> Result<(), String> {
    let all = plan.flows.iter_mut().filter_map(|flows| flows.get_mut().messages.as_mut());
    let all: Vec<&mut MessagesTable> = all.collect();
    if all.is_empty() {
        return Err(format!("`{name}` is of messages, but no flows have any; add [flows.messages] below [[flows]]"));
    }
    for messages in all {
        match name {
            "message_bytes" => messages.bytes = whole(name, value)?,
            "message_every_ms" => messages.every_ms = number(name, value)?,
            "deadline_ms" => messages.deadline_ms = number(name, value)?,
            "target_percent" => messages.target_percent = number(name, value)?,
            _ => return Err(unknown(name)),
        }
    }
    Ok(())
}

/// Sets a parameter of all flows with web traffic. Fails if there are none.
fn set_of_web(plan: &mut Plan, name: &str, value: &Value) -> Result<(), String> {
    let all: Vec<_> = plan.flows.iter_mut().filter_map(|flows| flows.get_mut().web.as_mut()).collect();
    if all.is_empty() {
        return Err(format!("`{name}` is of web traffic, but no flows have any; add [flows.web] below [[flows]]"));
    }
    for web in all {
        match name {
            "web_connection_bytes" => web.connection_bytes = whole(name, value)?,
            _ => web.page_every_s = number(name, value)?,
        }
    }
    Ok(())
}

/// Sets a parameter of all flows with an estimator. Fails if there are none.
fn set_of_estimate(plan: &mut Plan, name: &str, value: &Value) -> Result<(), String> {
    let all: Vec<_> = plan.flows.iter_mut().filter_map(|flows| flows.get_mut().estimate.as_mut()).collect();
    if all.is_empty() {
        return Err(format!("`{name}` is of estimates, but no flows have any; add [flows.estimate] below [[flows]]"));
    }
    for estimate in all {
        match name {
            "probe_every_ms" => estimate.probe_every_ms = Some(number(name, value)?),
            _ => estimate.threshold_ms = Some(number(name, value)?),
        }
    }
    Ok(())
}

fn carriers(plan: &mut Plan) -> impl Iterator<Item = &mut Carrier> {
    let series = plan.series.iter_mut().map(|series| &mut series.get_mut().transport);
    series.chain(plan.flows.iter_mut().filter_map(|flows| flows.get_mut().transport.as_mut()))
}

/// Sets an option in all transports that accept it.
fn set_option(plan: &mut Plan, name: &str, value: &Value) -> Result<(), String> {
    carriers(plan).try_for_each(|carrier| set_option_of(carrier, name, value))
}

/// Sets a parameter of thesis table 3.2 in all classic transports.
fn set_of_table(plan: &mut Plan, name: &str, field: &str, value: &Value) -> Result<(), String> {
    let parameter: Parameter = field.parse().map_err(|error| format!("`{name}`: {error}"))?;
    let value: u64 = whole(name, value)?;
    for carrier in carriers(plan).filter(|carrier| carrier.name() == "classic") {
        // Replace an entry whose name is spelled differently in the plan.
        carrier.parameters.retain(|other, _| other.parse() != Ok(parameter));
        carrier.parameters.insert(field.to_owned(), value);
    }
    Ok(())
}

fn set_option_of(carrier: &mut Carrier, name: &str, value: &Value) -> Result<(), String> {
    let (is_dfcp, is_tcp) = (carrier.kind.is_dfcp(), carrier.kind.is_tcp());
    match name {
        "redundancy" if carrier.name() == "classic" => {
            carrier.redundancy =
                Some(word_or(value, Redundancy::of_word, number(name, value).map(Redundancy::Epsilon))?)
        }
        "endless" if carrier.name() == "classic" => carrier.endless = Some(flag(name, value)?),
        "window_blocks" if is_dfcp => carrier.window_blocks = Some(whole(name, value)?),
        "rate" if is_dfcp && carrier.name() != ORACLE => {
            carrier.rate = Some(word_or(value, Pace::of_word, number(name, value).map(Pace::Mbps))?);
        }
        "codec" if is_dfcp => carrier.codec = Some(flag(name, value)?),
        "max_window_bytes" if is_tcp => carrier.max_window_bytes = Some(whole(name, value)?),
        "hystart" if is_tcp => carrier.hystart = Some(flag(name, value)?),
        "initial_ssthresh_segments" if is_tcp => carrier.initial_ssthresh_segments = Some(whole(name, value)?),
        "clock_hz" if carrier.kind.is_tcp_of_today() => carrier.clock_hz = Some(whole(name, value)?),
        "ecn" if carrier.kind.may_have_ecn() => carrier.ecn = Some(flag(name, value)?),
        "redundancy"
        | "endless"
        | "window_blocks"
        | "rate"
        | "codec"
        | "max_window_bytes"
        | "hystart"
        | "initial_ssthresh_segments"
        | "clock_hz"
        | "ecn" => {}
        _ => return Err(unknown(name)),
    }
    Ok(())
}

fn flag(name: &str, value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("`{name}` is true or false, not {}", Level::of(value)))
}

/// Returns the value of a word; otherwise the number.
fn word_or<T>(value: &Value, of_word: fn(&str) -> Option<T>, number: Result<T, String>) -> Result<T, String> {
    value.as_str().and_then(of_word).map_or(number, Ok)
}

fn flows(plan: &mut Plan, index: usize) -> Result<&mut Flows, String> {
    let count = plan.flows.len();
    let flows = index.checked_sub(1).and_then(|at| plan.flows.get_mut(at));
    flows.map(Spanned::get_mut).ok_or_else(|| format!("there is no [[flows]] number {index}, but {count} of them"))
}

fn change(plan: &mut Plan, index: usize) -> Result<&mut Change, String> {
    let count = plan.time.len();
    let change = index.checked_sub(1).and_then(|at| plan.time.get_mut(at));
    change.map(Spanned::get_mut).ok_or_else(|| format!("there is no [[time]] number {index}, but {count} of them"))
}

fn unknown(name: &str) -> String {
    let names = PARAMETERS.iter().chain(&NUMBERED).map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    format!("there is no parameter `{name}`; choose one of {names}")
}

/// Reads an integer or float.
///
/// # Errors
/// Fails if the value is not a number.
fn number(name: &str, value: &Value) -> Result<f64, String> {
    as_number(value).ok_or_else(|| format!("`{name}` is a number, not {}", Level::of(value)))
}

fn whole<T: TryFrom<i64>>(name: &str, value: &Value) -> Result<T, String> {
    // Integers may be written as floats, such as 4.7e9.
    let float = value.as_float().filter(|float| float.fract() == 0.0 && float.abs() < 9e15).map(|float| float as i64);
    let whole = value.as_integer().or(float).and_then(|whole| T::try_from(whole).ok());
    whole.ok_or_else(|| format!("`{name}` is a whole number and not negative, not {}", Level::of(value)))
}

fn signed(name: &str, value: &Value) -> Result<i32, String> {
    let whole = value.as_integer().and_then(|whole| i32::try_from(whole).ok());
    whole.ok_or_else(|| format!("`{name}` is a whole number, not {}", Level::of(value)))
}

fn discipline(value: &Value) -> Result<Discipline, String> {
    match value.as_str() {
        Some("drop-tail") => Ok(Discipline::DropTail),
        Some("drr") => Ok(Discipline::Drr),
        Some("sfq") => Ok(Discipline::Sfq),
        Some("wfq") => Ok(Discipline::Wfq),
        Some("codel") => Ok(Discipline::Codel),
        Some("fq-codel") => Ok(Discipline::FqCodel),
        Some("red") => Ok(Discipline::Red),
        _ => Err(format!("`discipline` is drop-tail, drr, sfq, wfq, codel, fq-codel or red, not {}", Level::of(value))),
    }
}
