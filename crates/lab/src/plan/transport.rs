//! Syntax of a transport in plans: a name, or a table with options. Records use the form of [`Carrier`] instead.

use std::collections::BTreeMap;
use std::fmt;

use dfcp_proto::Policy;
use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer, value::StrDeserializer};
use serde::{Deserialize, Deserializer};

use super::carrier::{Carrier, Controller, ORACLE, Pace, Redundancy};
use super::kind::Kind;

/// A transport, deserialized from the syntax of plans.
struct Written(Carrier);

/// Name of a transport in a plan: a kind, or `oracle`.
#[derive(Clone, Copy)]
enum Name {
    Oracle,
    Kind(Kind),
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if name == ORACLE {
            return Ok(Self::Oracle);
        }
        Kind::deserialize(StrDeserializer::new(&name)).map(Self::Kind).map_err(|error: D::Error| {
            serde::de::Error::custom(format!("{error}; or `{ORACLE}`, the modern profile which is told its share"))
        })
    }
}

/// A transport as a TOML table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    kind: Name,
    redundancy: Option<Redundancy>,
    endless: Option<bool>,
    #[serde(default)]
    parameters: BTreeMap<String, u64>,
    window_blocks: Option<u32>,
    rate: Option<Pace>,
    controller: Option<Controller>,
    codec: Option<bool>,
    max_window_bytes: Option<u32>,
    hystart: Option<bool>,
    initial_ssthresh_segments: Option<u32>,
    initial_window_segments: Option<u32>,
    clock_hz: Option<u32>,
    ecn: Option<bool>,
}

impl Name {
    /// Returns the transport without options. `modern` has the automatic rate, like the product.
    fn carrier(self) -> Carrier {
        match self {
            Self::Oracle => Carrier::oracle(),
            Self::Kind(Kind::Modern) => Carrier { rate: Some(Pace::Auto(Policy::Fair)), ..Carrier::from(Kind::Modern) },
            Self::Kind(kind) => Carrier::from(kind),
        }
    }
}

impl Table {
    fn carrier(self) -> Result<Carrier, String> {
        if matches!(self.kind, Name::Oracle) && self.rate.is_some() {
            return Err(format!("the transport {ORACLE:?} is told its share; remove `rate`, or take \"modern\""));
        }
        let named = self.kind.carrier();
        Ok(Carrier {
            kind: named.kind,
            redundancy: self.redundancy,
            endless: self.endless,
            parameters: self.parameters,
            window_blocks: self.window_blocks,
            rate: self.rate.or(named.rate),
            controller: self.controller,
            codec: self.codec,
            max_window_bytes: self.max_window_bytes,
            hystart: self.hystart,
            initial_ssthresh_segments: self.initial_ssthresh_segments,
            initial_window_segments: self.initial_window_segments,
            clock_hz: self.clock_hz,
            ecn: self.ecn,
        })
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;
        impl<'de> Visitor<'de> for NameOrTable {
            type Value = Carrier;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter
                    .write_str("a transport's name, or a table such as { kind = \"classic\", window_blocks = 1000 }")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Carrier, E> {
                Name::deserialize(StrDeserializer::new(name)).map(Name::carrier)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Carrier, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                table.carrier().map_err(serde::de::Error::custom)
            }
        }
        deserializer.deserialize_any(NameOrTable).map(Self)
    }
}

/// Deserializes a required transport.
pub(super) fn named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Carrier, D::Error> {
    Written::deserialize(deserializer).map(|written| written.0)
}

/// Deserializes an optional transport.
pub(super) fn perhaps_named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Carrier>, D::Error> {
    named(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Carrier, named};

    fn record_of(written: Value) -> Result<Value, String> {
        let carrier: Carrier = named(written).map_err(|error| error.to_string())?;
        let record = serde_json::to_value(&carrier).unwrap();
        assert_eq!(serde_json::from_value::<Carrier>(record.clone()).unwrap(), carrier, "a record says the same");
        Ok(record)
    }

    #[test]
    fn modern_is_the_automatic_rate_and_the_oracle_is_told_its_share() {
        for (written, record) in [
            (json!("modern"), json!({ "kind": "modern", "rate": "auto" })),
            (json!({ "kind": "modern", "rate": "auto" }), json!({ "kind": "modern", "rate": "auto" })),
            (json!({ "kind": "modern", "codec": true }), json!({ "kind": "modern", "rate": "auto", "codec": true })),
            (json!({ "kind": "modern", "rate": "line" }), json!({ "kind": "modern", "rate": "line" })),
            (json!({ "kind": "modern", "rate": 7.5 }), json!({ "kind": "modern", "rate": 7.5 })),
            // Records made in 2026 use this form, and their runs are found by settings, so it must not change.
            (json!("oracle"), json!({ "kind": "modern" })),
            (json!({ "kind": "oracle", "codec": true }), json!({ "kind": "modern", "codec": true })),
            (json!("classic"), json!({ "kind": "classic" })),
        ] {
            assert_eq!(record_of(written.clone()), Ok(record), "{written}");
        }
        assert!(named(json!("oracle")).unwrap().is_told_its_share());
        assert!(!named(json!("modern")).unwrap().is_told_its_share());
        assert_eq!(named(json!("oracle")).unwrap().name(), "oracle");
    }

    #[test]
    fn an_oracle_with_a_rate_and_an_unknown_name_are_refused_with_the_next_step() {
        let error = record_of(json!({ "kind": "oracle", "rate": 5 })).unwrap_err();
        assert!(error.contains("remove `rate`"), "{error}");
        let error = record_of(json!("quick")).unwrap_err();
        assert!(error.contains("`cubic`") && error.contains("`oracle`"), "{error}");
    }
}
