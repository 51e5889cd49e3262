//! Transport of a flow, with its options, as written in a plan.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use dfcp_proto::codec::{Codec, RandomLinear};
use dfcp_proto::{
    ClassicSettings, Config, DeliveryControllers, Parameter, Policy, Rate, RateControllerFactory, Schedule,
};
use dfcp_sim::messages::{MODEL_HEADER_BYTES, Messages, ModelConfig, Recovery};
use dfcp_sim::tcp::{self, Congestion};
use dfcp_sim::{Counting, DfcpConfig, QuicConfig, QuicCongestion, Transport};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};

use super::blocks::{SYMBOL_BYTES, encoded_bytes, optimal_epsilon};
use super::kind::Kind;

/// Name in plans of DFCP's modern profile at its fair share, a rate that a real sender cannot know.
pub(super) const ORACLE: &str = "oracle";

/// Sending rate of a DFCP sender, as configured in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Pace {
    /// Rate of the sender's access link.
    #[serde(serialize_with = "as_line")]
    Line,
    /// Max-min fair share of the bottlenecks on the sender's path.
    #[serde(serialize_with = "as_share")]
    Share,
    /// Rate chosen by DFCP's rate controller.
    #[serde(serialize_with = "as_auto")]
    Auto(Policy),
    /// Fixed rate, Mbit/s of IP packets.
    Mbps(f64),
}

fn as_auto<S: serde::Serializer>(policy: &Policy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match policy {
        Policy::Fair => "auto",
        Policy::High => "auto:high",
        Policy::Low => "auto:low",
    })
}

fn as_line<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("line")
}

fn as_share<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("share")
}

/// Redundancy of classic DFCP in open loop, where the sender codes without feedback.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Redundancy {
    /// Fixed redundancy ε: symbols beyond a block's own, as a share.
    Epsilon(f64),
    /// Least redundancy at which 95 % of blocks decode without a retransmission, at the loss rate of the flow's path.
    #[serde(serialize_with = "as_optimal")]
    Optimal,
}

fn as_optimal<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("optimal")
}

/// A transport with its options; an absent option has the transport's default. The serialized form is the one in
/// records, where `modern` without a rate means the fair share. Plans call that transport `oracle`; see
/// `plan/transport.rs`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Carrier {
    /// Kind of transport.
    pub kind: Kind,
    /// Classic: open loop. The sender sends (1 + ε)·k encoded bytes of every block, then goes on to the next block.
    /// Default: it sends encoded bytes until the block is acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redundancy: Option<Redundancy>,
    /// Classic: true to send at full rate to a silent receiver, like the sender in the source documents. Default:
    /// false, one segment per 100 ms (`spec/protocol.md` \[classic-7\]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endless: Option<bool>,
    /// Classic: parameters of thesis table 3.2, by name, such as *Inctokens*.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub parameters: BTreeMap<String, u64>,
    /// DFCP: window, blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_blocks: Option<u32>,
    /// DFCP: sending rate. Default: `line` for classic, `share` for modern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Pace>,
    /// DFCP: controller of an automatic rate, instead of the product's: `delivery`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<Controller>,
    /// DFCP: true to really encode and decode symbols, which only affects the CPU time. Default: symbols are only
    /// counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<bool>,
    /// TCP: greatest number of bytes in flight; models the socket buffers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_window_bytes: Option<u32>,
    /// TCP: HyStart on or off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hystart: Option<bool>,
    /// TCP: slow-start threshold after the handshake, segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_ssthresh_segments: Option<u32>,
    /// TCP: congestion window after the handshake, segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window_segments: Option<u32>,
    /// Current TCP: clock ticks per second of the kernels at both ends (`CONFIG_HZ`). Default: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_hz: Option<u32>,
    /// Current TCP: true for explicit congestion notification (RFC 3168). Default: false. DCTCP always uses ECN and
    /// does not accept this option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
}

/// A controller of an automatic rate, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Controller {
    /// Judged by delivery.
    Delivery,
}

impl Controller {
    fn factory(self) -> &'static dyn RateControllerFactory {
        match self {
            Self::Delivery => &DeliveryControllers,
        }
    }
}

impl Pace {
    pub(crate) const EXPECTED: &'static str =
        "a rate in Mbit/s, \"line\", \"share\" or \"auto\", \"auto:high\", \"auto:low\"";

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        match word {
            "line" => Some(Self::Line),
            "share" => Some(Self::Share),
            "auto" | "auto:fair" => Some(Self::Auto(Policy::Fair)),
            "auto:high" => Some(Self::Auto(Policy::High)),
            "auto:low" => Some(Self::Auto(Policy::Low)),
            _ => None,
        }
    }
}

impl Redundancy {
    pub(crate) const EXPECTED: &'static str = "a number such as 0.05, or \"optimal\"";

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        (word == "optimal").then_some(Self::Optimal)
    }
}

impl<'de> Deserialize<'de> for Pace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = WordOrNumber { expected: Self::EXPECTED, of_word: Self::of_word, of_number: Self::Mbps };
        deserializer.deserialize_any(visitor)
    }
}

impl<'de> Deserialize<'de> for Redundancy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = WordOrNumber { expected: Self::EXPECTED, of_word: Self::of_word, of_number: Self::Epsilon };
        deserializer.deserialize_any(visitor)
    }
}

/// Deserializer of a number or one of a few fixed words.
struct WordOrNumber<T> {
    expected: &'static str,
    of_word: fn(&str) -> Option<T>,
    of_number: fn(f64) -> T,
}

impl<T> Visitor<'_> for WordOrNumber<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.expected)
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<T, E> {
        (self.of_word)(word).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(word), &self))
    }

    fn visit_f64<E>(self, number: f64) -> Result<T, E> {
        Ok((self.of_number)(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<T, E> {
        Ok((self.of_number)(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> Result<T, E> {
        Ok((self.of_number)(number as f64))
    }
}

impl From<Kind> for Carrier {
    /// Returns the transport with default options.
    fn from(kind: Kind) -> Self {
        Self {
            kind,
            redundancy: None,
            endless: None,
            parameters: BTreeMap::new(),
            window_blocks: None,
            rate: None,
            controller: None,
            codec: None,
            max_window_bytes: None,
            hystart: None,
            initial_ssthresh_segments: None,
            initial_window_segments: None,
            clock_hz: None,
            ecn: None,
        }
    }
}

/// Memory at each end of a DFCP flow, bytes: the largest that can be configured, so that it limits no path up to 10
/// Gbit/s and 500 ms. Counted symbols occupy none of it.
const DFCP_MEMORY_BYTES: u64 = dfcp_proto::limits::RECEIVE_MEMORY_BYTES_MAX;

/// Default memory at each end of a DFCP flow with real coding, bytes: enough for 1 Gbit/s over 500 ms. It is smaller,
/// because the application fills the send buffer immediately.
const DFCP_CODED_MEMORY_BYTES: u64 = 64 << 20;

/// Range of `CONFIG_HZ` in Linux kernels.
const CLOCK_HZ: RangeInclusive<u32> = 24..=1_200;

/// IP header of a classic segment, bytes: in the source documents, segments are carried directly over IP.
const IPV4_HEADER_BYTES: u32 = 20;

impl Carrier {
    /// Returns the modern profile at its fair share.
    pub(super) fn oracle() -> Self {
        Self::from(Kind::Modern)
    }

    /// Returns the name of an option that is set but does not apply to this transport.
    fn foreign(&self) -> Option<&'static str> {
        let (carrier, kind) = (self, self.kind);
        let dfcp = [
            ("window_blocks", carrier.window_blocks.is_some()),
            ("rate", carrier.rate.is_some()),
            ("codec", carrier.codec.is_some()),
        ];
        let tcp = [
            ("max_window_bytes", carrier.max_window_bytes.is_some()),
            ("hystart", carrier.hystart.is_some()),
            ("initial_ssthresh_segments", carrier.initial_ssthresh_segments.is_some()),
            ("initial_window_segments", carrier.initial_window_segments.is_some()),
        ];
        let clock = ("clock_hz", carrier.clock_hz.is_some() && !kind.is_tcp_of_today());
        let ecn = ("ecn", carrier.ecn.is_some() && !kind.may_have_ecn());
        let classic = ("redundancy", carrier.redundancy.is_some() && kind != Kind::Classic);
        let endless = ("endless", carrier.endless.is_some() && kind != Kind::Classic);
        let parameters = ("parameters", !carrier.parameters.is_empty() && kind != Kind::Classic);
        let not_dfcp = dfcp.iter().filter(|_| !kind.is_dfcp());
        let not_tcp = tcp.iter().filter(|_| !kind.is_tcp());
        not_dfcp
            .chain(not_tcp)
            .chain([&clock, &ecn, &classic, &endless, &parameters])
            .find(|(_, is_given)| *is_given)
            .map(|(name, _)| *name)
    }

    /// Returns the transport for the simulator. `share_bps` is the rate for [`Pace::Share`], `loss` the loss
    /// probability of the flow's path.
    ///
    /// # Errors
    /// Fails with a sentence about an option that is out of range, or does not apply to the transport.
    pub fn transport(&self, share_bps: u64, loss: f64) -> Result<Transport, String> {
        self.check_options()?;
        self.check_built(cfg!(feature = "quic"))?;
        match self.kind {
            kind if kind.is_of_messages() => {
                let name = self.name();
                Err(format!(
                    "the transport {name:?} has nothing but messages; add [flows.messages] below its [[flows]]"
                ))
            }
            kind if kind.is_dfcp() => self.dfcp(share_bps, loss),
            Kind::QuicCubic => Ok(Transport::Quic(QuicConfig::new(QuicCongestion::Cubic))),
            Kind::QuicNewreno => Ok(Transport::Quic(QuicConfig::new(QuicCongestion::NewReno))),
            Kind::QuicBbr => Ok(Transport::Quic(QuicConfig::new(QuicCongestion::Bbr))),
            _ => self.tcp(),
        }
    }

    /// Checks that all options that are set apply to this transport.
    pub(crate) fn check_options(&self) -> Result<(), String> {
        let Some(name) = self.foreign() else { return Ok(()) };
        Err(format!("the transport {:?} has no option `{name}`; remove it", self.name()))
    }

    /// Returns the transport as a model of messages.
    ///
    /// # Errors
    /// Fails with a sentence if an option does not apply, or the transport is not a model of messages.
    pub fn model(&self, messages: Messages) -> Result<Transport, String> {
        self.check_options()?;
        let recovery = match self.kind {
            Kind::Fec2010 => Recovery::Fec,
            Kind::Arq => Recovery::Arq,
            _ => {
                return Err(format!(
                    "the transport {:?} is no model of messages; choose fec-20-10 or arq",
                    self.name()
                ));
            }
        };
        Ok(Transport::Model(ModelConfig { messages, recovery }))
    }

    /// Checks that this program contains the transport's code; `has_quic` is true if it was built with QUIC.
    pub(super) fn check_built(&self, has_quic: bool) -> Result<(), String> {
        if self.kind.is_quic() && !has_quic {
            let name = self.name();
            return Err(format!(
                "the transport {name:?} is QUIC, which this program was built without; use one that was built with the feature `quic`, or another transport"
            ));
        }
        Ok(())
    }

    /// Returns the name of the transport in plans.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.kind == Kind::Modern && self.is_told_its_share() { ORACLE } else { self.kind.name() }
    }

    /// Returns true if the endpoints use explicit congestion notification, so that queues may mark their packets.
    #[must_use]
    pub fn has_ecn(&self) -> bool {
        self.kind == Kind::Dctcp || self.ecn == Some(true)
    }

    /// Returns true if the sender is configured with its max-min fair share, which a real sender cannot know.
    #[must_use]
    pub fn is_told_its_share(&self) -> bool {
        match self.rate {
            Some(pace) => pace == Pace::Share,
            None => self.kind == Kind::Modern,
        }
    }

    /// Returns the share of application data in a full data packet, headers included: the greatest usable part of a
    /// link's rate.
    #[must_use]
    pub fn payload_share(&self) -> f64 {
        let symbol = SYMBOL_BYTES;
        match self.kind {
            Kind::Classic => {
                symbol / (symbol + 24.0 + f64::from(IPV4_HEADER_BYTES)) / (1.0 + self.epsilon(0.0).unwrap_or(0.05))
            }
            Kind::Modern => symbol / (symbol + 56.0),
            // 1452 bytes of UDP payload, less short header, packet number, tag and one STREAM frame header, leave 1417.
            kind if kind.is_quic() => 1417.0 / 1480.0,
            // Usual message of SRT: seven packets of an MPEG transport stream.
            kind if kind.is_of_messages() => 1316.0 / (1316.0 + f64::from(MODEL_HEADER_BYTES)),
            _ => 1448.0 / 1500.0,
        }
    }

    fn dfcp(&self, share_bps: u64, loss: f64) -> Result<Transport, String> {
        let base = if self.kind == Kind::Classic {
            Config::danger_classic().with_overhead_bytes(IPV4_HEADER_BYTES).with_window_blocks(1000)
        } else {
            Config::danger_unsealed().with_window_blocks(16_384)
        };
        let pace = self.rate.unwrap_or(if self.kind == Kind::Classic { Pace::Line } else { Pace::Share });
        let rate = match pace {
            Pace::Line => Rate::Line,
            Pace::Share => Rate::Fixed { rate_bps: share_bps },
            Pace::Auto(policy) => Rate::auto(policy),
            Pace::Mbps(mbps) => Rate::Fixed { rate_bps: (mbps * 1e6).round() as u64 },
        };
        let epsilon = self.epsilon(loss);
        let is_coded = self.codec == Some(true);
        let codec: &'static dyn Codec = if is_coded { &RandomLinear } else { &Counting };
        let memory_bytes = if is_coded { DFCP_CODED_MEMORY_BYTES } else { DFCP_MEMORY_BYTES };
        let encoded_bytes = epsilon.map(encoded_bytes);
        let (schedule, classic, window_blocks) = (base.schedule, base.classic, base.blocks_in_window());
        // The receiver must not wait for more encoded bytes of a block than are sent, or the block would never
        // complete. The source documents measured with the decoder off, where the sent bytes suffice.
        let redundancy_bytes =
            encoded_bytes.map_or(classic.redundancy_bytes, |bytes| classic.redundancy_bytes.min(bytes as u32));
        let mut config = base
            .with_schedule(epsilon.map_or(schedule, |redundancy| Schedule::OpenLoop { redundancy }))
            .with_classic(ClassicSettings { redundancy_bytes, endless: self.endless == Some(true), ..classic })
            .with_window_blocks(self.window_blocks.unwrap_or(window_blocks))
            .with_rate(rate)
            .with_send_buffer_bytes(memory_bytes)
            .with_receive_memory_bytes(memory_bytes)
            // The long timeout suits paths with 50 % loss each way. Every run is shorter than it.
            .with_idle_timeout(Duration::from_secs(3600))
            .with_codec(codec)
            .with_rate_controllers(self.controller.map(Controller::factory));
        for (name, &value) in &self.parameters {
            let set = name.parse().and_then(|parameter: Parameter| config.set(parameter, value));
            set.map_err(|error| format!("parameters.{name}: {error}"))?;
        }
        config.validate().map_err(|error| error.to_string())?;
        Ok(Transport::Dfcp(Box::new(DfcpConfig::both(config))))
    }

    /// Returns the redundancy ε of a classic sender in open loop, at loss probability `loss`; `None` for closed loop.
    fn epsilon(&self, loss: f64) -> Option<f64> {
        match self.redundancy? {
            Redundancy::Epsilon(epsilon) => Some(epsilon),
            Redundancy::Optimal => Some(optimal_epsilon(loss)),
        }
    }

    fn tcp(&self) -> Result<Transport, String> {
        let base = match self.kind {
            Kind::Cubic2008 => tcp::Config::linux_2008(Congestion::Cubic2008),
            Kind::Newreno2008 => tcp::Config::linux_2008(Congestion::NewReno),
            Kind::Newreno => tcp::Config::modern(Congestion::NewReno),
            Kind::Bbr => tcp::Config::modern(Congestion::Bbr1),
            Kind::Dctcp => tcp::Config::modern(Congestion::Dctcp),
            Kind::Reno => tcp::Config::modern(Congestion::Reno),
            Kind::Tahoe => tcp::Config::modern(Congestion::Tahoe),
            _ => tcp::Config::modern(Congestion::Cubic),
        };
        let tick = match self.clock_hz {
            Some(hz) if !CLOCK_HZ.contains(&hz) => {
                let (least, most) = (CLOCK_HZ.start(), CLOCK_HZ.end());
                return Err(format!("`clock_hz` is {hz}, but lies between {least} and {most}"));
            }
            hz => hz.map(|hz| Duration::from_secs(1) / hz),
        };
        let config = tcp::Config {
            tick: tick.unwrap_or(base.tick),
            ecn: self.ecn.unwrap_or(base.ecn),
            max_window_bytes: self.max_window_bytes.unwrap_or(base.max_window_bytes),
            hystart: self.hystart.unwrap_or(base.hystart),
            initial_ssthresh_segments: self.initial_ssthresh_segments.or(base.initial_ssthresh_segments),
            initial_window_segments: self.initial_window_segments.unwrap_or(base.initial_window_segments),
            ..base
        };
        config.validate().map_err(|error| error.to_string())?;
        Ok(Transport::Tcp(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_which_this_program_was_built_without_is_named() {
        for (name, is_quic) in [("quic-cubic", true), ("quic-newreno", true), ("quic-bbr", true), ("cubic", false)] {
            let kind: Kind = serde_json::from_value(serde_json::json!(name)).unwrap();
            let carrier = Carrier::from(kind);
            assert_eq!(carrier.check_built(true), Ok(()));
            let outcome = carrier.check_built(false);
            assert_eq!(outcome.is_err(), is_quic, "{name}");
            if let Err(sentence) = outcome {
                assert!(sentence.contains(name) && sentence.contains("feature `quic`"), "{sentence}");
            }
        }
    }
}
