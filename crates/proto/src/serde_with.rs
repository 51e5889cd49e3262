//! Serialized forms of fields in [`Config`](crate::Config) and [`Stats`](crate::Stats) for which serde's own forms are
//! unsuitable.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected};
use serde::ser::{Serialize, Serializer};

fn to_milliseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

fn from_milliseconds<E: Error>(milliseconds: f64) -> Result<Duration, E> {
    Duration::try_from_secs_f64(milliseconds / 1e3)
        .map_err(|_| E::invalid_value(Unexpected::Float(milliseconds), &"a number of milliseconds, not negative"))
}

/// A duration as a number of milliseconds, possibly fractional.
pub(crate) mod milliseconds {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(to_milliseconds(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        from_milliseconds(f64::deserialize(deserializer)?)
    }
}

/// An optional duration as a number of milliseconds, possibly fractional.
pub(crate) mod optional_milliseconds {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.map(to_milliseconds).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(deserializer)?.map(from_milliseconds).transpose()
    }
}

/// The profile by name. Classic is called `danger_classic`, because it has no protection.
pub(crate) mod profile {
    use dfcp_wire::Profile;

    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(remote = "Profile", rename_all = "snake_case")]
    enum Named {
        #[serde(rename = "danger_classic")]
        Classic,
        Modern,
    }

    pub(crate) fn serialize<S: Serializer>(profile: &Profile, serializer: S) -> Result<S::Ok, S::Error> {
        Named::serialize(profile, serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Profile, D::Error> {
        Named::deserialize(deserializer)
    }
}

/// Number of streams of each kind, with serde's derived form.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(remote = "dfcp_wire::StreamLimits", deny_unknown_fields)]
pub(crate) struct StreamLimitsFields {
    bidirectional: u32,
    one_way: u32,
}
