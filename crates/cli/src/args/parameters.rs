//! Parameters of thesis table 3.2 on the command line.

use std::collections::BTreeMap;

use clap::Args;
use dfcp::Config;
use dfcp::classic::{Parameter, ParameterError};

use crate::units;

/// Tick of the token bucket, s (`spec/protocol.md` [rate-3]).
const TICK_S: f64 = 4e-3;

/// Option `--set` of the measuring commands.
#[derive(Debug, Clone, Default, Args)]
pub struct ParameterArgs {
    /// Set a parameter of thesis table 3.2; can be repeated. On the sending side: coding, and the token bucket (maxtokens, numtokens,
    /// inctokens, inttokens), which replaces the default rate (--set inctokens=52428 --set maxtokens=104856). On the receiving side:
    /// redundancy (--set redundancy=70000) and decoding. On both sides: window-size
    // clap ignores `requires` if the required flag conflicts with another given flag.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    #[arg(requires = "insecure_classic", conflicts_with = "insecure_plaintext")]
    pub set: Vec<(Parameter, u64)>,
}

/// Initial parameters of classic connections; the last value of each wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters(BTreeMap<Parameter, u64>);

/// Token bucket of the thesis (§3.12.2), if the parameters enable it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TokenBucket {
    maxtokens: u64,
    inctokens: u64,
    inttokens: u64,
}

impl ParameterArgs {
    /// Returns the parameters after validation.
    ///
    /// # Errors
    /// Fails if the token bucket is incomplete and would limit nothing.
    pub fn parameters(&self) -> anyhow::Result<Parameters> {
        let parameters = Parameters(self.set.iter().copied().collect());
        let tokens = [Parameter::Maxtokens, Parameter::Numtokens, Parameter::Inctokens, Parameter::Inttokens];
        let wants_bucket = tokens.into_iter().any(|parameter| parameters.get(parameter).is_some_and(|value| value > 0));
        anyhow::ensure!(
            !wants_bucket || parameters.bucket().is_some(),
            "a token bucket needs both Inctokens and Maxtokens, and this one would limit nothing: give both, such as \
             --set inctokens=52428 --set maxtokens=104856"
        );
        Ok(parameters)
    }
}

impl Parameters {
    fn get(&self, parameter: Parameter) -> Option<u64> {
        self.0.get(&parameter).copied()
    }

    /// Returns true if this side sends uncoded blocks.
    pub fn is_coding_off(&self) -> bool {
        self.get(Parameter::Coding) == Some(0)
    }

    /// Returns true if received blocks are left undecoded.
    pub fn is_decoding_off(&self) -> bool {
        self.get(Parameter::Decoding) == Some(0)
    }

    /// Returns true if a token bucket limits the rate.
    pub fn has_bucket(&self) -> bool {
        self.bucket().is_some()
    }

    fn bucket(&self) -> Option<TokenBucket> {
        let amount = |parameter| self.get(parameter).filter(|&tokens| tokens > 0);
        Some(TokenBucket {
            maxtokens: amount(Parameter::Maxtokens)?,
            inctokens: amount(Parameter::Inctokens)?,
            inttokens: amount(Parameter::Inttokens).unwrap_or(1),
        })
    }

    /// Sets the parameters in a configuration, except `Decoding`: the request of a measurement must be decoded before
    /// its data can stay undecoded ([`Transport::stop_decoding`](dfcp_files::transport::Transport::stop_decoding)).
    ///
    /// # Errors
    /// Fails if the configuration refuses a value.
    pub fn apply(&self, config: &mut Config) -> Result<(), ParameterError> {
        self.0
            .iter()
            .filter(|&(&parameter, _)| parameter != Parameter::Decoding)
            .try_for_each(|(&parameter, &value)| config.set(parameter, value))
    }

    /// Describes the parameters for display, as in `Inctokens 52428, Maxtokens 104856`; `None` if none is set.
    pub fn describe(&self) -> Option<String> {
        let all: Vec<_> = self.0.iter().map(|(parameter, value)| format!("{} {value}", parameter.name())).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Describes the rate limit of the token bucket, for display; `None` without a bucket.
    pub fn describe_bucket(&self) -> Option<String> {
        let TokenBucket { maxtokens, inctokens, inttokens } = self.bucket()?;
        let rate_bps = 8.0 * inctokens.min(maxtokens) as f64 / (TICK_S * inttokens as f64);
        Some(format!(
            "limited by the token bucket to {} of encoded data, headers not counted",
            units::human_rate(rate_bps)
        ))
    }

    /// Returns the parameters as JSON: `{"Inctokens": 52428}`.
    pub fn to_json(&self) -> serde_json::Value {
        self.0.iter().map(|(parameter, &value)| (parameter.name(), value)).collect()
    }
}

/// Parses `NAME=VALUE`, and validates the value as a classic connection would.
fn parameter(text: &str) -> Result<(Parameter, u64), String> {
    let expected = || "expected NAME=VALUE with a whole number, such as redundancy=70000".to_owned();
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    let parameter: Parameter = name.parse().map_err(|error: ParameterError| error.to_string())?;
    let value = value.parse().map_err(|_| expected())?;
    Config::danger_classic().set(parameter, value).map_err(|error| error.to_string())?;
    Ok((parameter, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(texts: &[&str]) -> anyhow::Result<Parameters> {
        ParameterArgs { set: texts.iter().map(|text| parameter(text).unwrap()).collect() }.parameters()
    }

    #[test]
    fn a_value_is_checked_at_once() {
        assert_eq!(parameter("inctokens=52428"), Ok((Parameter::Inctokens, 52_428)));
        assert_eq!(parameter("Window size=7"), Ok((Parameter::WindowSize, 7)));
        for (bad, why) in [
            ("", "expected NAME=VALUE"),
            ("coding", "expected NAME=VALUE"),
            ("coding=", "expected NAME=VALUE"),
            ("coding=off", "expected NAME=VALUE"),
            ("coding=-1", "expected NAME=VALUE"),
            ("coding=2", "Coding must lie between 0 and 1"),
            ("maxtokens=1419", "Maxtokens must lie between 1420"),
            ("tokens=1", "those that can be set are Window size"),
            ("acks-sent=1", "ACKs sent cannot be set"),
        ] {
            assert!(parameter(bad).as_ref().is_err_and(|said| said.contains(why)), "{bad}: {:?}", parameter(bad));
        }
    }

    #[test]
    fn the_last_value_counts() {
        let parameters = parsed(&["coding=0", "redundancy=70000", "coding=1"]).unwrap();
        assert!(!parameters.is_coding_off() && !parameters.is_decoding_off());
        assert_eq!(parameters.describe().unwrap(), "Redundancy 70000, Coding 1");
        assert_eq!(parameters.to_json(), serde_json::json!({ "Redundancy": 70_000, "Coding": 1 }));
        assert_eq!(Parameters::default().to_json(), serde_json::json!({}));
    }

    #[test]
    fn a_bucket_which_would_limit_nothing_is_refused() {
        for half in [&["inctokens=1"][..], &["maxtokens=1420"], &["numtokens=9"], &["inctokens=0", "maxtokens=1420"]] {
            assert!(parsed(half).unwrap_err().to_string().contains("give both"), "{half:?}");
        }
        assert!(!parsed(&["inctokens=0", "maxtokens=0"]).unwrap().has_bucket());
        let parameters = parsed(&["inctokens=52428", "maxtokens=104856", "inttokens=2"]).unwrap();
        assert!(parameters.describe_bucket().unwrap().contains("52.4 Mbit/s"), "{:?}", parameters.describe_bucket());
    }

    #[test]
    fn a_connection_starts_with_all_of_them_but_decodes_at_first() {
        let mut config = Config::danger_classic();
        parsed(&["coding=0", "decoding=0", "window-size=7", "redundancy=70000"]).unwrap().apply(&mut config).unwrap();
        assert!(!config.classic.coding && config.classic.decoding);
        assert_eq!((config.window_blocks, config.classic.redundancy_bytes), (Some(7), 70_000));
        assert!(parsed(&["coding=0"]).unwrap().apply(&mut Config::modern()).is_err());
    }
}
