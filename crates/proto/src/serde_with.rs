//! Serialized forms in [`Config`](crate::Config) and [`Stats`](crate::Stats) of what serde has no good form
//! for.

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

/// A duration as a number of milliseconds, which need not be whole.
pub(crate) mod milliseconds {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(to_milliseconds(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        from_milliseconds(f64::deserialize(deserializer)?)
    }
}

/// The same, or none.
pub(crate) mod optional_milliseconds {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.map(to_milliseconds).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(deserializer)?.map(from_milliseconds).transpose()
    }
}

/// The profile by a name which says what classic lacks.
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

/// Number of streams of each kind.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(remote = "dfcp_wire::StreamLimits", deny_unknown_fields)]
pub(crate) struct StreamLimitsFields {
    bidirectional: u32,
    one_way: u32,
}
