//! Trust in hosts: `send`, `receive --from` and `perf client` verify the host that they connect to by the same rules.
//!
//! | given | host that is accepted | key is stored in `known_hosts` |
//! |---|---|---|
//! | `--psk-file` | a host with the same secret | no |
//! | the host is in `known_hosts` | a host with the stored key | already |
//! | `--host-key` | a host with the key of this fingerprint | yes |
//! | `--code` | the host that issued the code; a key other than the stored one is refused before pairing | yes |
//! | `--accept-new-key` | any host; its first key is accepted | yes |
//! | nothing | a host whose key the user accepts on the terminal; none without a terminal or in the background | yes |
//!
//! Until the host is confirmed ([`Contact::confirm`]), only pairing messages are written to the connection.

pub mod prompt;
pub mod terminal;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};

use anyhow::Context;
use dfcp::{ConnectError, ConnectionError, PeerKey};
use dfcp_files::TransferError;
use dfcp_files::transport::Transport;
use dfcp_framing::printable;
use dfcp_secure::{Fingerprint, PreSharedKey, PublicKey, StaticKey};

use self::terminal::Terminal;
use crate::args::{CodeArg, HostArgs, PathArgs};
use crate::identity::{Added, ConfigDir, HostName, KnownHosts, Lookup, load_or_create, load_psk};
use crate::output;
use crate::pairing::{Code, PairingError, pair_as_sender};
use crate::session_error::SessionError;

/// Host to connect to, and the proof that it must give.
#[derive(Debug, Clone)]
pub struct Contact {
    host: HostName,
    known_hosts: KnownHosts,
    proof: Proof,
}

/// Proof of identity that the host must give.
#[derive(Debug, Clone)]
enum Proof {
    PreShared(PreSharedKey),
    Static { own: StaticKey, expected: Expected },
}

#[derive(Debug, Clone)]
enum Expected {
    /// The key in `known_hosts`.
    Known(PublicKey),
    /// The key of `--host-key`.
    Named(Fingerprint),
    /// The key of the peer that issued the code.
    Paired(Code),
    /// The first key seen, by `--accept-new-key`.
    Accepted,
    /// A key that the user accepts on the terminal.
    Unknown,
}

/// Next step after [`Contact::confirm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Use this connection.
    GoOn,
    /// Connect again to the now known host: the user's answer may have outlasted the listener's timeout.
    CallAgain,
}

impl Contact {
    /// Builds the contact for `host_port` from the arguments and `known_hosts`; `None` if the connection is plaintext.
    ///
    /// # Errors
    /// Fails if a file cannot be used, the code is invalid, or `known_hosts` contradicts `--host-key`.
    pub async fn prepare(host_port: &str, args: &HostArgs, path: &PathArgs) -> anyhow::Result<Option<Self>> {
        if path.insecure_flag().is_some() {
            return Ok(None);
        }
        let host: HostName = host_port.parse()?;
        let directory = ConfigDir::of_user()?;
        let known_hosts = KnownHosts::of(&directory);
        let proof = if let Some(file) = &args.psk_file {
            Proof::PreShared(load_psk(file)?)
        } else {
            let expected = match (&args.code, &args.host_key, known_hosts.lookup(&host)?) {
                (Some(code), ..) => Expected::Paired(read_code(code).await?),
                (None, Some(named), Lookup::Known(key)) if key.fingerprint() != *named => anyhow::bail!(
                    "{} has the key {} for {host}, not that of --host-key; correct the one that is wrong",
                    printable(&known_hosts.path().to_string_lossy()),
                    key.fingerprint()
                ),
                (None, _, Lookup::Known(key)) => Expected::Known(key),
                (None, Some(named), Lookup::Unknown) => Expected::Named(*named),
                (None, None, Lookup::Unknown) if args.accept_new_key => Expected::Accepted,
                (None, None, Lookup::Unknown) => Expected::Unknown,
            };
            Proof::Static { own: load_or_create(&directory)?.key, expected }
        };
        Ok(Some(Self { host, known_hosts, proof }))
    }

    /// Returns this side's static key, unless a pre-shared key is used.
    #[must_use]
    pub fn own_key(&self) -> Option<&StaticKey> {
        let Proof::Static { own, .. } = &self.proof else { return None };
        Some(own)
    }

    /// Returns the pre-shared key of both sides, if one is used.
    #[must_use]
    pub fn pre_shared(&self) -> Option<&PreSharedKey> {
        let Proof::PreShared(key) = &self.proof else { return None };
        Some(key)
    }

    /// Returns the rule for keys that the handshake accepts.
    #[must_use]
    pub fn peer_key(&self) -> PeerKey {
        match &self.proof {
            Proof::PreShared(_) => PeerKey::Undecided,
            Proof::Static { expected, .. } => match expected {
                Expected::Known(key) => PeerKey::Known(*key),
                Expected::Named(fingerprint) => PeerKey::Fingerprint(*fingerprint),
                // `confirm` decides later.
                Expected::Paired(_) | Expected::Accepted | Expected::Unknown => PeerKey::Any,
            },
        }
    }

    /// Verifies the peer of a new connection before anything else is written to it, and stores its key.
    ///
    /// # Errors
    /// Fails if the peer is another host, the user does not accept it, the key cannot be stored, or the connection breaks.
    pub async fn confirm<T: Transport>(&self, connection: &mut T) -> anyhow::Result<Next> {
        let Proof::Static { expected, .. } = &self.proof else { return Ok(Next::GoOn) };
        let seal = connection.seal().context("the connection is not encrypted, please report this as a bug")?;
        let key = seal.peer.context("the peer has shown no key, please report this as a bug")?;
        match expected {
            Expected::Known(_) => Ok(Next::GoOn),
            Expected::Named(_) => self.remember(&key, "named by --host-key").map(|_| Next::GoOn),
            Expected::Paired(code) => {
                self.known_hosts.verify(&self.host, &key)?;
                pair_as_sender(connection, code, &seal.handshake_hash).await?;
                self.remember(&key, "paired by code").map(|_| Next::GoOn)
            }
            Expected::Accepted => {
                if self.remember(&key, "accepted at first contact")? == Added::New {
                    let path = printable(&self.known_hosts.path().to_string_lossy());
                    let fingerprint = key.fingerprint();
                    output::note(&format!(
                        "first contact with {}: its key {fingerprint} is accepted and kept in {path}",
                        self.host
                    ));
                }
                Ok(Next::GoOn)
            }
            Expected::Unknown => {
                self.ask(key.fingerprint()).await?;
                self.remember(&key, "accepted by the user").map(|_| Next::CallAgain)
            }
        }
    }

    /// Returns the contact to use after [`Next::CallAgain`]: the key is now in `known_hosts`.
    ///
    /// # Errors
    /// Fails if `known_hosts` cannot be used.
    pub fn known_now(mut self) -> anyhow::Result<Self> {
        if let (Proof::Static { expected, .. }, Lookup::Known(key)) =
            (&mut self.proof, self.known_hosts.lookup(&self.host)?)
        {
            *expected = Expected::Known(key);
        }
        Ok(self)
    }

    /// Restricts further connections to the key that `connection` has proven.
    #[must_use]
    pub fn proven_by<T: Transport>(mut self, connection: &T) -> Self {
        if let (Proof::Static { expected, .. }, Some(key)) =
            (&mut self.proof, connection.seal().and_then(|seal| seal.peer))
        {
            *expected = Expected::Known(key);
        }
        self
    }

    fn remember(&self, key: &PublicKey, comment: &str) -> anyhow::Result<Added> {
        Ok(self.known_hosts.add(&self.host, key, comment)?)
    }

    /// Asks the user on the controlling terminal: standard error may be a file and standard input a pipe.
    async fn ask(&self, fingerprint: Fingerprint) -> anyhow::Result<()> {
        let Some(mut terminal) = Terminal::open().filter(Terminal::is_in_foreground) else {
            anyhow::bail!(
                "{host} is not in known_hosts and nobody can be asked without a terminal or in the background, so nothing \
                 was sent; its key is {fingerprint}: if `dfcp id` shows that there, give --host-key {fingerprint}, or give \
                 --accept-new-key to accept the key of any new host",
                host = self.host
            );
        };
        let host = self.host.to_string();
        let question = move || prompt::is_right_host(&host, &fingerprint, &mut terminal);
        let right = prompt::aside(question)
            .await
            .context("cannot ask on this terminal, give --host-key or --accept-new-key")?;
        anyhow::ensure!(
            right,
            "the key of {} was not accepted and nothing was sent; ask its owner what `dfcp id` shows there",
            self.host
        );
        Ok(())
    }

    /// Rewords the error of a failed or reset connection if keys are the reason.
    #[must_use]
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let Some(why) = connection_error(&error) else { return error };
        match (why, &self.proof) {
            (ConnectionError::UnexpectedKey(shown), Proof::Static { expected: Expected::Known(_), .. }) => {
                match self.known_hosts.refuse(&self.host, *shown) {
                    Err(changed) => changed.into(),
                    Ok(()) => error,
                }
            }
            (ConnectionError::UnexpectedKey(shown), _) => anyhow::anyhow!(
                "{} has the key {shown}, not that of --host-key, and nothing was sent; ask its owner which is right, \
                 somebody may be posing as this host",
                self.host
            ),
            (ConnectionError::PinnedKeyRefused, Proof::PreShared(_)) => anyhow::anyhow!(
                "{} does not have the secret of --psk-file; start both sides with the same file",
                self.host
            ),
            (ConnectionError::NotAdmitted, Proof::Static { own, .. }) => anyhow::anyhow!(
                "{} does not admit this side's key {}; ask its owner to add that to authorized_keys there, or to start \
                 it with --code or --psk-file",
                self.host,
                own.public().fingerprint()
            ),
            (ConnectionError::Refused, _) => anyhow::anyhow!(
                "{} refused the encrypted connection; if it runs with --insecure-plaintext or --insecure-classic, start it \
                 without, and else try again later",
                self.host
            ),
            (ConnectionError::HandshakeTimeout { .. }, Proof::PreShared(_)) => {
                error.context("no answer under the secret of --psk-file")
            }
            _ => error,
        }
    }
}

/// Rewords the error by [`Contact::explain`], if there is a contact.
pub fn explain(contact: Option<&Contact>, error: anyhow::Error) -> anyhow::Error {
    match contact {
        Some(contact) => contact.explain(error),
        None => error,
    }
}

/// Finds the connection error at any depth of `error`.
fn connection_error(error: &anyhow::Error) -> Option<&ConnectionError> {
    if let Some(ConnectError::Connection(why)) = error.downcast_ref() {
        return Some(why);
    }
    let io = match (error.downcast_ref(), error.downcast_ref(), error.downcast_ref()) {
        (Some(TransferError::Connection(io)), ..)
        | (_, Some(SessionError::Connection(io)), _)
        | (.., Some(PairingError::Connection(io))) => io,
        _ => error.downcast_ref::<io::Error>()?,
    };
    io.get_ref()?.downcast_ref()
}

/// Reads the one-time code from the command line, the terminal, or the next line of standard input.
async fn read_code(code: &CodeArg) -> anyhow::Result<Code> {
    if let CodeArg::Given(code) = code {
        return Ok(code.clone());
    }
    let question = || match Terminal::open().filter(|_| io::stdin().is_terminal()) {
        Some(mut terminal) => prompt::code(&mut terminal),
        None => prompt::line(&mut io::stdin().lock()),
    };
    let line = prompt::aside(question).await.context("cannot read the code, give it as --code CODE")?;
    Ok(line.context("standard input ended before a code came, give it as --code CODE")?.parse()?)
}
