//! Options for trusted and admitted peers.

use std::path::PathBuf;

use clap::Args;
use dfcp_secure::{Cipher, Fingerprint, PublicKey};

use crate::pairing::{Code, CodeError};

/// Source of a one-time code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeArg {
    /// Code given on the command line.
    Given(Code),
    /// Code on the next line of standard input.
    Input,
}

/// Proofs that the caller trusts.
#[derive(Debug, Clone, Default, Args)]
pub struct HostArgs {
    /// One-time code that the other side printed, such as 42-otter-violin; `-` asks for it on the terminal, or reads it from standard input
    /// without one: other users of this machine can see arguments
    #[arg(long, value_name = "CODE", value_parser = code)]
    #[arg(conflicts_with_all = ["host_key", "psk_file", "insecure_classic", "insecure_plaintext"])]
    pub code: Option<CodeArg>,
    /// Key that the other side must prove: its fingerprint SHA256:... or its public key, as `dfcp id` prints them there
    #[arg(long, value_name = "KEY", value_parser = fingerprint)]
    #[arg(conflicts_with_all = ["psk_file", "insecure_classic", "insecure_plaintext"])]
    pub host_key: Option<Fingerprint>,
    /// Accept and store the key of a host that is missing from known_hosts, without asking. A host in known_hosts must still prove its
    /// stored key
    #[arg(long, conflicts_with_all = ["code", "host_key", "psk_file", "insecure_classic", "insecure_plaintext"])]
    pub accept_new_key: bool,
    /// File with a secret that both sides share, at least 32 random bytes, instead of keys
    #[arg(long, value_name = "FILE", conflicts_with_all = ["insecure_classic", "insecure_plaintext"])]
    pub psk_file: Option<PathBuf>,
}

/// Peers that the listener admits.
#[derive(Debug, Clone, Default, Args)]
pub struct AdmissionArgs {
    /// Print a one-time code and admit one peer that gives it; the default on a terminal
    #[arg(long, conflicts_with_all = ["no_code", "insecure_classic", "insecure_plaintext"])]
    pub code: bool,
    /// Admit nobody by code
    #[arg(long, conflicts_with_all = ["insecure_classic", "insecure_plaintext"])]
    pub no_code: bool,
    /// Add each key admitted by code to the list of authorized keys, so that it needs no code next time; without this flag you are asked on
    /// the terminal, if there is one
    #[arg(long, conflicts_with_all = ["no_code", "insecure_classic", "insecure_plaintext"])]
    pub remember: bool,
    /// Admit the keys in FILE, one public key or fingerprint per line; reread when it changes [default: authorized_keys in the
    /// configuration directory, if it exists]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["insecure_classic", "insecure_plaintext"])]
    pub authorized_keys: Option<PathBuf>,
    /// Admit peers that share the secret in this file, at least 32 random bytes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["insecure_classic", "insecure_plaintext"])]
    pub psk_file: Option<PathBuf>,
    /// Admit everyone who can reach this port
    #[arg(long, conflicts_with_all = ["insecure_classic", "insecure_plaintext"])]
    pub allow_any: bool,
}

pub(super) fn cipher(text: &str) -> Result<Cipher, String> {
    match text {
        "aes-128-gcm" => Ok(Cipher::Aes128Gcm),
        "aes-256-gcm" => Ok(Cipher::Aes256Gcm),
        "chacha20-poly1305" => Ok(Cipher::ChaCha20Poly1305),
        _ => Err("expected aes-128-gcm, aes-256-gcm or chacha20-poly1305".to_owned()),
    }
}

pub(super) fn code(text: &str) -> Result<CodeArg, String> {
    if text == "-" {
        return Ok(CodeArg::Input);
    }
    text.parse().map(CodeArg::Given).map_err(|error: CodeError| error.to_string())
}

pub(super) fn fingerprint(text: &str) -> Result<Fingerprint, String> {
    let key = text.parse::<PublicKey>().map(|key| key.fingerprint());
    key.or_else(|_| text.parse())
        .map_err(|_| "expected SHA256:... or a public key, as `dfcp id` prints them".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_key_is_a_key_or_its_fingerprint() {
        let key = dfcp_secure::StaticKey::from_seed(&[3; 32]).public();
        assert_eq!(fingerprint(&key.to_string()), Ok(key.fingerprint()));
        assert_eq!(fingerprint(&key.fingerprint().to_string()), Ok(key.fingerprint()));
        for bad in ["", "SHA256:", "x", "MD5:00"] {
            assert!(fingerprint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ciphers_have_names() {
        for known in Cipher::ALL {
            assert_eq!(cipher(&dfcp_files::cipher_name(known).to_lowercase()), Ok(known));
        }
        assert!(cipher("rot13").is_err());
    }
}
