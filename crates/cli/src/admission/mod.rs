//! Access control of a listener: `receive`, `send --listen` and `perf server` admit by the same rules.
//!
//! [`Ways`] holds the rules from the command line and the configuration directory, fixed before the listener starts. An
//! [`Admission`] applies the rules to each connection before the connection can touch the disk. An encrypted connection
//! admits a peer
//!
//! - that has the pre-shared key, as the handshake proves;
//! - whose static key is authorized, as the handshake proves;
//! - that pairs by a one-time code, whether or not its key is authorized: the code also proves to the *peer* that this
//!   listener is the right one;
//! - whose key has paired before, to resume the transfer that it began after pairing ([`pairs`]);
//! - with any key, under `--allow-any`.
//!
//! Without codes and `--allow-any`, the handshake itself refuses other keys ([`Ways::peer_key`]). A peer requests
//! pairing in its first bytes (`spec/file-transfer.md` §1).

pub mod codes;
pub mod memory;
pub mod opening;
pub mod pairs;
#[cfg(test)]
pub(crate) mod tests;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use dfcp::{PeerKey, ResetKey, Verifier};
use dfcp_files::limits::CLOSE_WAIT_MAX;
use dfcp_files::transport::Transport;
use dfcp_files::{Seal, refuse};
use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::frame::Service;
use dfcp_secure::{PreSharedKey, PublicKey, StaticKey};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use self::codes::{CodeDesk, News};
use self::memory::{Memory, Remember};
use self::opening::Opening;
use self::pairs::Pairs;
use crate::args::{AdmissionArgs, PathArgs};
use crate::connection_text::add_seal;
use crate::identity::{AuthorizedList, ConfigDir, IdentityError, load_or_create, load_or_create_reset_key, load_psk};
use crate::limits::{OPENING_MAX, PAIRING_CODE_AGE_MAX};
use crate::pairing::{self, PairingError, Refusal};
use crate::{listening, output};

/// Ways by which peers may be admitted.
#[derive(Debug, Clone)]
pub struct Ways {
    /// This side's key.
    pub own: StaticKey,
    /// Key for stateless resets after a restart; `None` if it cannot be stored.
    pub reset_key: Option<ResetKey>,
    /// Secret that admits every peer holding it.
    pub pre_shared: Option<PreSharedKey>,
    /// Static keys that are admitted.
    pub authorized: Arc<AuthorizedList>,
    /// Admit every peer.
    pub any: bool,
    /// Admit a peer that gives the one-time code.
    pub codes: bool,
    /// Rule for adding the key of a peer that has paired by code to `authorized`.
    pub remember: Remember,
    /// Transfers that peers may resume after pairing by code; `None` if no transfer can be resumed.
    pub pairs: Option<Arc<Pairs>>,
}

impl Ways {
    /// Builds the rules from the arguments; `None` if connections are plaintext. With a terminal (`on_terminal`),
    /// one-time codes are the default.
    ///
    /// # Errors
    /// Fails if a file cannot be used, or if no peer could be admitted.
    pub fn prepare(args: &AdmissionArgs, path: &PathArgs, on_terminal: bool) -> anyhow::Result<Option<Self>> {
        if path.insecure_flag().is_some() {
            return Ok(None);
        }
        let directory = ConfigDir::of_user()?;
        let named = args.authorized_keys.as_deref();
        let (list, must_exist) = (named.map_or_else(|| directory.authorized_keys(), Path::to_owned), named.is_some());
        directory.check()?;
        // With `--remember`, the first remembered peer may become the first line of a new file.
        let authorized = AuthorizedList::open(&list, must_exist && !args.remember)?;
        let pre_shared = args.psk_file.as_deref().map(load_psk).transpose()?;
        let asked_for = pre_shared.is_some() || args.authorized_keys.is_some() || args.allow_any;
        let codes = args.code || (on_terminal && !asked_for && !args.no_code);
        anyhow::ensure!(
            codes || asked_for || !authorized.is_empty(),
            "nobody could be admitted: give --code, --authorized-keys FILE, --psk-file FILE or --allow-any"
        );
        anyhow::ensure!(codes || !args.remember, "--remember is about peers which pair by code: give --code, too");
        let remember = match args.remember {
            true => Remember::Always,
            false if codes && on_terminal => Remember::Ask,
            false => Remember::Never,
        };
        let own = load_or_create(&directory)?.key;
        let reset_key = match load_or_create_reset_key(&directory) {
            // Go on if the directory is unwritable: it may still hold this user's key, and a listener needs nothing
            // else from it.
            Err(error @ IdentityError::Io { .. }) => {
                output::note(&format!("after a restart, senders and receivers notice it only by silence: {error}"));
                None
            }
            loaded => Some(loaded?),
        };
        Ok(Some(Self {
            own,
            reset_key,
            pre_shared,
            authorized: Arc::new(authorized),
            any: args.allow_any,
            codes,
            remember,
            pairs: None,
        }))
    }

    /// Returns true if standard error is a terminal; codes are printed there.
    #[must_use]
    pub fn on_terminal() -> bool {
        io::stderr().is_terminal()
    }

    /// Returns the rule for keys that the handshake accepts.
    #[must_use]
    pub fn peer_key(&self) -> PeerKey {
        if self.codes || self.any {
            return PeerKey::Any;
        }
        let (authorized, pairs) = (Arc::clone(&self.authorized), self.pairs.clone());
        let is_paired = move |key: &_| pairs.as_ref().is_some_and(|pairs| pairs.permits(key));
        PeerKey::Verified(Verifier::new(move |key| authorized.permits(key) || is_paired(key)))
    }
}

/// Reason for which a peer was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The pre-shared key.
    PreShared,
    /// The peer's key is authorized.
    Key,
    /// The peer gave the one-time code.
    Code,
    /// The peer paired earlier by code and resumes its transfer.
    Pair,
    /// Every peer is admitted.
    Any,
}

impl By {
    /// Name of the reason, for text and JSON output.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::PreShared => "pre-shared key",
            Self::Key => "authorized key",
            Self::Code => "code",
            Self::Pair => "transfer begun by code",
            Self::Any => "any",
        }
    }
}

/// Reason for which a peer was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum NotAdmitted {
    /// The peer left or stayed silent before its first bytes; not logged.
    #[error("it said nothing")]
    Silent,
    /// The connection is plaintext, so the peer has no proven key.
    #[error("the connection is not encrypted")]
    Unsealed,
    /// The peer's key is unknown and the peer tried no code.
    #[error("it has no code, and its key {0} is not authorized; to admit it, add that to authorized_keys")]
    Unknown(String),
    /// The peer tried a code and failed.
    #[error(transparent)]
    Pairing(PairingError),
}

/// Admission control of a listener.
#[derive(Debug)]
pub struct Admission {
    ways: Ways,
    desk: Option<CodeDesk<Herald>>,
    memory: Memory,
    service: Service,
    json: bool,
}

type Herald = Box<dyn Fn(News) + Send + Sync>;

impl Admission {
    /// Starts admission for a listener at `place` and prints how a peer can be admitted. With `once`, a used code is not replaced.
    ///
    /// # Errors
    /// Fails if the system has no random numbers for a code.
    pub fn open(ways: Ways, place: &str, service: Service, once: bool, json: bool) -> anyhow::Result<Self> {
        if !json {
            output::note(&format!("this side's key is {}", ways.own.public().fingerprint()));
        }
        if ways.any {
            output::always("warning: everyone who can reach this port is admitted (--allow-any)");
        }
        let command = listening::call(service, place);
        let herald: Herald = Box::new(move |news| announce(&news, &command, json));
        let desk = if ways.codes { Some(CodeDesk::open(once, herald)?) } else { None };
        // With `--json`, standard output feeds a program, which answers no questions.
        let remember = if json && ways.remember == Remember::Ask { Remember::Never } else { ways.remember };
        let memory = Memory::new(Arc::clone(&ways.authorized), remember);
        Ok(Self { ways, desk, memory, service, json })
    }

    /// Returns true if wrong guesses have used up all codes and no other kind of admission remains. A listener with a
    /// list of keys and no codes never closes: an empty or unusable list can be repaired while the listener runs.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let is_paired = self.ways.pairs.as_ref().is_some_and(|pairs| !pairs.is_empty());
        let others = self.ways.any || self.ways.pre_shared.is_some() || !self.ways.authorized.is_empty() || is_paired;
        !others && self.desk.as_ref().is_some_and(CodeDesk::is_closed)
    }

    /// Decides about one connection, notifies a rejected peer, and reports the decision. Calls `speaks` when the peer's
    /// first bytes arrive. Cancel-safe: a dropped call admits no peer.
    ///
    /// # Errors
    /// Fails if the peer is not admitted.
    pub async fn admit<T: Transport>(
        &self,
        transport: T,
        peer: &str,
        speaks: impl FnOnce(),
    ) -> Result<(Opening<T>, By), NotAdmitted> {
        let seal = transport.seal();
        let decided = self.decide(transport, speaks).await;
        let (event, field, text) = match &decided {
            Ok((_, by)) => ("admitted", "by", by.describe().to_owned()),
            Err(NotAdmitted::Silent) => {
                tracing::debug!(peer, "a peer left before it said anything");
                return decided;
            }
            Err(error) => ("turned_away", "message", error.to_string()),
        };
        if self.json {
            let mut object = json!({ "event": event, "peer": peer, field: text });
            add_seal(seal.as_ref(), &mut object);
            output::json(&object);
        } else if decided.is_ok() {
            let seal = seal.map_or_else(String::new, |seal| seal.describe());
            output::note(&format!("{peer}: admitted ({text}), {seal}"));
        } else {
            output::note(&format!("{peer}: turned away: {text}"));
        }
        if let (Some(key), Ok((_, By::Code))) = (seal.and_then(|seal| seal.peer), &decided) {
            if let Some(pairs) = &self.ways.pairs {
                pairs.paired(&key, peer);
            }
            self.memory.paired(key, peer);
        }
        decided
    }

    /// Called after the session of a peer admitted for reason `by`. Repeats a question about the peer's key that the
    /// user did not answer.
    pub fn ended(&self, key: Option<PublicKey>, by: Option<By>, peer: &str) {
        if let (Some(key), Some(By::Code | By::Pair)) = (key, by) {
            self.memory.ended(key, peer);
        }
    }

    /// Waits until the user has answered open questions about peers, or until the questions' time limit.
    pub async fn settle(&self) {
        self.memory.settle().await;
    }

    async fn decide<T: Transport>(&self, transport: T, speaks: impl FnOnce()) -> Result<(Opening<T>, By), NotAdmitted> {
        let seal = transport.seal().ok_or(NotAdmitted::Unsealed)?;
        let mut opening = Opening::new(transport);
        let Ok(Ok(first)) = timeout(OPENING_MAX, opening.peek()).await else { return Err(NotAdmitted::Silent) };
        speaks();
        if pairing::begins_with(&first) {
            return match self.pair(&mut opening, &seal).await {
                Ok(()) => Ok((opening, By::Code)),
                Err(error) => {
                    // An immediate drop would reset the connection before the peer has read the reason.
                    let _ = timeout(CLOSE_WAIT_MAX, opening.shutdown()).await;
                    Err(NotAdmitted::Pairing(error))
                }
            };
        }
        if let Some(by) = self.without_code(&seal) {
            return Ok((opening, by));
        }
        let key = seal.peer.map_or_else(String::new, |key| key.fingerprint().to_string());
        let sentence = format!(
            "this side wants a pairing code: use --code with what it printed, or ask its owner to add your key \
             {key} to its authorized_keys"
        );
        refuse(opening, self.service, Failure::new(FailureCode::NotAdmitted, sentence)).await;
        Err(NotAdmitted::Unknown(key))
    }

    /// Pairs with the peer. Every handshake pattern is safe here: pairing is bound to the handshake hash, which is
    /// unique to the connection.
    async fn pair<T: Transport>(&self, opening: &mut Opening<T>, seal: &Seal) -> Result<(), PairingError> {
        match &self.desk {
            Some(desk) => {
                let has_paired = |key| self.ways.pairs.as_ref().is_some_and(|pairs| pairs.has_paired(&key));
                desk.pair(opening, &seal.handshake_hash, seal.peer.is_some_and(has_paired)).await
            }
            None => pairing::decline(opening).await,
        }
    }

    fn without_code(&self, seal: &Seal) -> Option<By> {
        match seal.peer {
            // The handshake has already proven that the peer has the pre-shared key.
            None => self.ways.pre_shared.is_some().then_some(By::PreShared),
            Some(key) if self.ways.authorized.permits(&key) => Some(By::Key),
            Some(_) if self.ways.any => Some(By::Any),
            Some(key) => self.ways.pairs.as_ref().is_some_and(|pairs| pairs.permits(&key)).then_some(By::Pair),
        }
    }
}

fn announce(news: &News, command: &str, json: bool) {
    let (code, before) = match news {
        News::Code { code, before } => (code, before.map(fate)),
        News::Closed => {
            output::always(
                "warning: somebody keeps guessing; no more codes are made, start again to admit people by code",
            );
            return;
        }
    };
    // As an argument, the code would be visible to other users of the caller's machine.
    let command = format!("{command} --code -");
    if json {
        output::json(&json!({
            "event": "code", "code": code.to_string(), "command": command, "seconds": PAIRING_CODE_AGE_MAX.as_secs(),
            "before": before,
        }));
        return;
    }
    if let Some(fate) = before {
        output::always(&format!("the last code {fate}; the next one:"));
    }
    let minutes = PAIRING_CODE_AGE_MAX.as_secs() / 60;
    output::always(&format!(
        "\n    code: {code}\n    for one person, once, within {minutes} minutes; this asks for it there:"
    ));
    output::always(&format!("    {command}\n"));
}

/// Returns the phrase that tells the user why the previous code ended.
const fn fate(why: Refusal) -> &'static str {
    match why {
        Refusal::Used => "was used",
        Refusal::Expired => "has expired",
        _ => "is void after wrong guesses",
    }
}
