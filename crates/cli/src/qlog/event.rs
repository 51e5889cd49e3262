//! Events in the format of a trace (`docs/qlog.md`).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use dfcp::{
    Beginning, BreakerState, DatagramInfo, Dropped, Fingerprint, Identity, Observed, Profile, PublicKey, RatePhase,
    SegmentKind, State, Stats,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::limits::QLOG_CONNECTIONS_MAX;

/// Owned form of an [`Observed`] event, for the writer.
#[derive(Debug)]
pub(super) enum Event {
    Started(Beginning),
    Sent(Datagram),
    Received(Datagram),
    Dropped {
        datagram: Option<Datagram>,
        bytes: u64,
        why: Dropped,
    },
    StateChanged {
        from: State,
        to: State,
    },
    KeysAgreed(Identity),
    PathChanged(SocketAddr),
    Metrics(Box<Stats>),
    Closed {
        error: Option<String>,
        stats: Box<Stats>,
    },
    /// Last connection that the trace accepts.
    Last,
    /// End of the trace.
    End,
}

/// A datagram's header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Datagram {
    profile: Profile,
    info: DatagramInfo,
}

/// Header fields of a datagram that are meaningful for its kind.
#[derive(Serialize)]
pub(super) struct Fields {
    kind: &'static str,
    number: u32,
    bytes: u64,
    encrypted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    esi: Option<u32>,
}

impl Datagram {
    fn fields(&self) -> Fields {
        use SegmentKind::{
            AckOfBlock, AckOfFin, AckOfStreamReset, Data, Fin, FinAck, Gone, KeepAlive, Message, StopSending,
            StreamReset,
        };
        let DatagramInfo { kind, bytes, number, block_id, s1, stream, is_sealed, .. } = self.info;
        let is_modern = self.profile == Profile::Modern;
        let of_stream = matches!(
            kind,
            Data | Fin | FinAck | KeepAlive | AckOfFin | StreamReset | AckOfStreamReset | StopSending | Gone
        );
        let of_block = matches!(kind, Data | Message | Fin | FinAck | AckOfFin | AckOfBlock | StreamReset);
        Fields {
            kind: kind.name(),
            number,
            bytes,
            encrypted: is_sealed,
            stream: (is_modern && of_stream).then(|| stream.to_word()),
            block: of_block.then_some(block_id),
            esi: (is_modern && matches!(kind, Data | Message)).then_some(s1),
        }
    }
}

impl Event {
    /// Converts an observed event; `None` if traces omit it.
    pub(super) fn of(profile: Profile, event: &Observed<'_>) -> Option<Self> {
        let datagram = |info| Datagram { profile, info };
        Some(match *event {
            Observed::DatagramSent(info) => Self::Sent(datagram(info)),
            Observed::DatagramReceived(info) => Self::Received(datagram(info)),
            Observed::DatagramDropped { datagram: info, bytes, why } => {
                Self::Dropped { datagram: info.map(datagram), bytes, why }
            }
            Observed::StateChanged { from, to } => Self::StateChanged { from, to },
            Observed::KeysAgreed(identity) => Self::KeysAgreed(*identity),
            Observed::PathChanged { remote } => Self::PathChanged(remote),
            Observed::MetricsUpdated(stats) => Self::Metrics(Box::new(*stats)),
            Observed::Closed { error, stats } => {
                Self::Closed { error: error.map(ToString::to_string), stats: Box::new(*stats) }
            }
            _ => return None,
        })
    }

    /// Passes the records of the event to `append`, each with name and data.
    pub(super) fn write(&self, mut append: impl FnMut(&str, Data<'_>) -> io::Result<()>) -> io::Result<()> {
        let (name, value) = match self {
            Self::Sent(datagram) => return append("dfcp:datagram_sent", Data::Datagram(&datagram.fields())),
            Self::Received(datagram) => return append("dfcp:datagram_received", Data::Datagram(&datagram.fields())),
            Self::Metrics(stats) => {
                if let Some(recovery) = recovery(stats) {
                    append("recovery:metrics_updated", Data::Value(recovery))?;
                }
                ("dfcp:estimates_updated", metrics(stats))
            }
            Self::Started(beginning) => ("dfcp:connection_started", started(beginning)),
            Self::Dropped { datagram, bytes, why } => {
                ("dfcp:datagram_dropped", dropped(datagram.as_ref(), *bytes, why))
            }
            Self::StateChanged { from, to } => ("dfcp:state_changed", json!({ "old": from.name(), "new": to.name() })),
            Self::KeysAgreed(identity) => ("dfcp:keys_agreed", keys_agreed(identity)),
            Self::PathChanged(remote) => ("dfcp:path_changed", json!({ "remote": remote })),
            Self::Closed { error, stats } => ("dfcp:connection_closed", closed(error.as_deref(), stats)),
            Self::Last => ("dfcp:connections_cut", json!({ "connections_max": QLOG_CONNECTIONS_MAX })),
            Self::End => return Ok(()),
        };
        append(name, Data::Value(value))
    }
}

/// Data of a record. Fields of a datagram are serialised directly, without an intermediate `Value`.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Data<'a> {
    Datagram(&'a Fields),
    Value(Value),
}

fn started(beginning: &Beginning) -> Value {
    let Beginning { opened_here, profile, remote, local_id, .. } = *beginning;
    let profile = match profile {
        Profile::Modern => "modern",
        Profile::Classic => "classic",
    };
    json!({ "opened_here": opened_here, "profile": profile, "remote": remote, "local_id": local_id.map(|id| format!("{id:08x}")) })
}

fn dropped(datagram: Option<&Datagram>, bytes: u64, why: &Dropped) -> Value {
    let cause = match why {
        Dropped::Malformed(_) => "malformed",
        Dropped::OutsideWindow => "outside_window",
        Dropped::NoMemory => "no_memory",
        Dropped::Unexpected => "unexpected",
        Dropped::Forged => "forged",
        Dropped::Duplicate => "duplicate",
        Dropped::TooManyReports => "too_many_reports",
        _ => "other",
    };
    json!({ "cause": cause, "message": why.to_string(), "bytes": bytes, "datagram": datagram.map(Datagram::fields) })
}

fn keys_agreed(identity: &Identity) -> Value {
    let peer = identity.peer.as_ref().map(PublicKey::fingerprint).as_ref().map(Fingerprint::to_string);
    json!({ "pattern": identity.pattern.name(), "cipher": dfcp_files::cipher_name(identity.cipher), "peer": peer })
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns the fields of qlog's recovery event that have the same meaning here; its other fields describe congestion
/// windows. A `line` rate is omitted.
fn recovery(stats: &Stats) -> Option<Value> {
    let rtt = (!stats.rtt.is_zero()).then(|| ("smoothed_rtt", milliseconds(stats.rtt).into()));
    let rate = (stats.rate_bps > 0).then(|| ("pacing_rate", stats.rate_bps.into()));
    let data: Map<String, Value> = rtt.into_iter().chain(rate).map(|(name, value)| (name.to_owned(), value)).collect();
    (!data.is_empty()).then_some(Value::Object(data))
}

fn metrics(stats: &Stats) -> Value {
    let control = stats.rate_control;
    json!({
        "loss": stats.loss,
        "queue_ms": stats.queue.map(milliseconds),
        "arrival_rate_bps": stats.arrival_rate_bps,
        "rate_bps": stats.rate_bps,
        "rate_phase": control.map(|control| match control.phase {
            RatePhase::Start => "start",
            RatePhase::Steady => "steady",
            RatePhase::Compete => "compete",
            _ => "other",
        }),
        "capacity_bps": control.and_then(|control| control.capacity_bps),
        "breaker": match stats.breaker {
            BreakerState::Off => "off",
            BreakerState::Watching => "watching",
            BreakerState::Testing => "testing",
            BreakerState::LossAccepted => "loss_accepted",
            BreakerState::Limiting => "limiting",
            _ => "other",
        },
        "packet_bytes": stats.packet_bytes,
    })
}

fn closed(error: Option<&str>, stats: &Stats) -> Value {
    json!({
        "error": error,
        "datagrams_sent": stats.segments_sent,
        "datagrams_received": stats.segments_received,
        "datagrams_dropped": stats.segments_dropped,
        "bytes_sent": stats.bytes_sent,
        "bytes_received": stats.bytes_received,
        "stream_bytes_acknowledged": stats.stream_bytes_acknowledged,
        "stream_bytes_read": stats.stream_bytes_read,
        "sent": { "source": stats.sent.source, "repair": stats.sent.repair, "proactive": stats.sent.proactive, "probe": stats.sent.probe },
        "wasted": { "dependent": stats.wasted.dependent, "late": stats.wasted.late, "refused": stats.wasted.refused },
    })
}
