//! Trust and admission options of `send` and `receive`; either command may listen or call.

use std::path::PathBuf;

use clap::Args;
use dfcp_secure::Fingerprint;

use super::trust::{self, AdmissionArgs, CodeArg, HostArgs};

/// Keys and codes that a listener admits or a caller trusts. The role is known only after parsing (`PeerArgs::check`).
#[derive(Debug, Clone, Default, Args)]
pub struct PeerArgs {
    /// Pair by a one-time code. A listener prints the code and admits one peer that gives it; there the flag has no value, and is the
    /// default on a terminal. A caller gives the printed code, such as 42-otter-violin; `-` asks for it on the terminal, or reads it from
    /// standard input without one: other users of this machine can see arguments
    #[arg(long, value_name = "CODE", value_parser = code)]
    #[arg(conflicts_with_all = ["no_code", "host_key", "insecure_classic", "insecure_plaintext"])]
    pub code: Option<Option<CodeArg>>,
    /// File with a secret that both sides share, at least 32 random bytes, instead of keys. All holders look alike to the other side: give
    /// each pair of machines its own secret
    #[arg(long, value_name = "FILE", conflicts_with_all = ["insecure_classic", "insecure_plaintext"])]
    pub psk_file: Option<PathBuf>,
    /// Key that the other side must prove: its fingerprint SHA256:... or its public key, as `dfcp id` prints them there
    #[arg(long, value_name = "KEY", value_parser = trust::fingerprint, help_heading = "When this side calls")]
    #[arg(conflicts_with_all = ["psk_file", "insecure_classic", "insecure_plaintext"])]
    pub host_key: Option<Fingerprint>,
    /// Accept and store the key of a host that is missing from known_hosts, without asking. A host in known_hosts must still prove its
    /// stored key
    #[arg(long, help_heading = "When this side calls")]
    #[arg(conflicts_with_all = ["code", "host_key", "psk_file", "insecure_classic", "insecure_plaintext"])]
    pub accept_new_key: bool,
    /// Admit nobody by code
    #[arg(long, help_heading = "When this side listens")]
    #[arg(conflicts_with_all = ["insecure_classic", "insecure_plaintext"])]
    pub no_code: bool,
    /// Add each key admitted by code to the list of authorized keys, so that it needs no code next time; without this flag you are asked on
    /// the terminal, if there is one
    #[arg(long, help_heading = "When this side listens")]
    #[arg(conflicts_with_all = ["no_code", "insecure_classic", "insecure_plaintext"])]
    pub remember: bool,
    /// Admit the keys in FILE, one public key or fingerprint per line; reread when it changes [default: authorized_keys in the
    /// configuration directory, if it exists]
    #[arg(long, value_name = "FILE", help_heading = "When this side listens")]
    #[arg(conflicts_with_all = ["insecure_classic", "insecure_plaintext"])]
    pub authorized_keys: Option<PathBuf>,
    /// Admit everyone who can reach this port
    #[arg(long, help_heading = "When this side listens")]
    #[arg(conflicts_with_all = ["insecure_classic", "insecure_plaintext"])]
    pub allow_any: bool,
}

impl PeerArgs {
    /// Returns the options of the calling side.
    #[must_use]
    pub fn host(&self) -> HostArgs {
        HostArgs {
            code: self.code.clone().flatten(),
            host_key: self.host_key,
            accept_new_key: self.accept_new_key,
            psk_file: self.psk_file.clone(),
        }
    }

    /// Returns the options of the listening side.
    #[must_use]
    pub fn admission(&self) -> AdmissionArgs {
        AdmissionArgs {
            code: self.code.is_some(),
            no_code: self.no_code,
            remember: self.remember,
            authorized_keys: self.authorized_keys.clone(),
            psk_file: self.psk_file.clone(),
            allow_any: self.allow_any,
        }
    }

    /// Returns true if the code comes from standard input.
    #[must_use]
    pub fn reads_code(&self) -> bool {
        matches!(self.code, Some(Some(CodeArg::Input)))
    }

    /// Refuses options that do not fit the role: listener if `listens` is true, otherwise caller.
    pub(super) fn check(&self, listens: bool) -> Result<(), String> {
        let of_callers = [("--host-key", self.host_key.is_some()), ("--accept-new-key", self.accept_new_key)];
        let of_listeners = [
            ("--no-code", self.no_code),
            ("--remember", self.remember),
            ("--authorized-keys", self.authorized_keys.is_some()),
            ("--allow-any", self.allow_any),
        ];
        let given = |flags: &[(&'static str, bool)]| flags.iter().find(|(_, given)| *given).map(|(flag, _)| *flag);
        match (listens, &self.code) {
            (true, Some(Some(_))) => {
                return Err(
                    "a side that listens makes the code itself: give --code without a value, behind the other \
                            arguments"
                        .to_owned(),
                );
            }
            (false, Some(None)) => {
                return Err("--code needs the code that the other side has printed: give --code CODE, or --code - to \
                            be asked for it"
                    .to_owned());
            }
            (false, Some(_)) if self.psk_file.is_some() => {
                return Err("a code and --psk-file each tell the other side: leave one of them out".to_owned());
            }
            _ => {}
        }
        if listens {
            given(&of_callers).map_or(Ok(()), |flag| {
                Err(format!(
                    "{flag} is about a side that is called, and this one listens: leave it out, and see --authorized-keys"
                ))
            })
        } else {
            only_of_listeners(&of_listeners)
        }
    }
}

/// Refuses the first listener flag that was given on a calling side.
pub(super) fn only_of_listeners(flags: &[(&'static str, bool)]) -> Result<(), String> {
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(format!("{flag} is for a side that listens, and this one calls: leave it out")),
        None => Ok(()),
    }
}

fn code(text: &str) -> Result<CodeArg, String> {
    // Likely mistake: a file name after the listener's `--code` is parsed as the code.
    trust::code(text).map_err(|why| format!("{why}; a side that listens makes it itself: there, put --code last"))
}
