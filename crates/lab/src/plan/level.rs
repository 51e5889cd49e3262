//! Values of swept parameters, and points of a sweep.

use std::fmt;

use serde::{Deserialize, Serialize};
use toml::Value;

/// A value of a swept parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// A number.
    Number(f64),
    /// A name, or a boolean.
    Name(String),
}

impl Level {
    /// Converts a value of a plan.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        match as_number(value) {
            Some(number) => Self::Number(number),
            None => Self::Name(match value {
                Value::String(name) => name.clone(),
                Value::Boolean(flag) => flag.to_string(),
                other => format!("a value of type {}", other.type_str()),
            }),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Name(name) => formatter.write_str(name),
        }
    }
}

/// Point of a sweep: one value for each swept parameter, in the plan's order.
pub type Point = Vec<(String, Level)>;

/// Formats a point as text, for example `loss 0.1, flows 2`.
pub(crate) fn name(point: &Point) -> String {
    point.iter().map(|(name, level)| format!("{name} {level}")).collect::<Vec<_>>().join(", ")
}

/// Returns the value of parameter `name` at a point.
pub(crate) fn level<'point>(point: &'point Point, name: &str) -> Option<&'point Level> {
    point.iter().find(|(parameter, _)| parameter == name).map(|(_, level)| level)
}

/// Returns an integer or float as a number; `None` for other values.
pub(super) fn as_number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}
