//! Remembering a peer that has paired, so that it needs no code next time.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use dfcp_framing::printable;
use dfcp_secure::PublicKey;
use tokio::task::JoinHandle;

use crate::contact::prompt;
use crate::contact::terminal::Terminal;
use crate::identity::{Added, AuthorizedList, IdentityError};
use crate::limits::{ANSWER_MAX, PAIRED_KEYS_MAX};
use crate::output;

/// Rule for writing the key of a peer that has paired into the list of authorized keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remember {
    /// Remember without asking (`--remember`).
    Always,
    /// If the user says so on the terminal, while the program is in its foreground.
    Ask,
    /// No.
    Never,
}

/// Remembers peers.
#[derive(Debug)]
pub struct Memory {
    list: Arc<AuthorizedList>,
    remember: Remember,
    /// The question that is open, or was asked last.
    question: Mutex<Option<JoinHandle<()>>>,
    /// Keys about which a question had no answer.
    unanswered: Arc<Mutex<BTreeSet<String>>>,
}

impl Memory {
    /// Into this list.
    pub fn new(list: Arc<AuthorizedList>, remember: Remember) -> Self {
        Self { list, remember, question: Mutex::new(None), unanswered: Arc::default() }
    }

    /// A peer at `address` with this key has paired. Its session does not wait for what becomes of the key.
    pub fn paired(&self, key: PublicKey, address: &str) {
        if self.remember == Remember::Never || self.list.permits(&key) {
            return;
        }
        let note = Arc::clone(&self.unanswered);
        let unanswered = move || {
            let mut keys = note.lock().unwrap_or_else(PoisonError::into_inner);
            if keys.len() < PAIRED_KEYS_MAX {
                keys.insert(key.fingerprint().to_string());
            }
        };
        let (list, address) = (Arc::clone(&self.list), address.to_owned());
        let mut question = self.question.lock().unwrap_or_else(PoisonError::into_inner);
        if self.remember == Remember::Always {
            add(&list, &key, &address);
        } else if question.as_ref().is_some_and(|question| !question.is_finished()) {
            // Two questions at one terminal would take each other's answers.
            unanswered();
            tell_how(&key, &address);
        } else if let Some(terminal) = Terminal::open().filter(Terminal::is_in_foreground) {
            *question = Some(tokio::spawn(async move {
                let asked = address.clone();
                match prompt::aside(move || ask(&key, &asked, terminal)).await {
                    Ok(Some(true)) => add(&list, &key, &address),
                    Ok(Some(false)) => output::note(&format!("{address}: not remembered")),
                    Ok(None) => {
                        unanswered();
                        output::note(&format!("{address}: not remembered yet"));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot ask any more");
                        tell_how(&key, &address);
                    }
                }
            }));
        } else {
            tell_how(&key, &address);
        }
    }

    /// The session of a peer that has paired has ended. A user who was away when it began may be back.
    pub fn ended(&self, key: PublicKey, address: &str) {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = unanswered.remove(&key.fingerprint().to_string());
        drop(unanswered);
        if is_open {
            self.paired(key, address);
        }
    }

    /// Waits for the answer to a question that is open, which does not take longer than `ANSWER_MAX`.
    pub async fn settle(&self) {
        let question = self.question.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(question) = question
            && let Err(error) = question.await
        {
            tracing::warn!(%error, "a question has ended without an answer");
        }
    }
}

/// Note with the key to add, for a user that cannot be asked.
fn tell_how(key: &PublicKey, address: &str) {
    output::note(&format!("{address}: to let it in without a code, add its key {key} to authorized_keys"));
}

fn ask(key: &PublicKey, address: &str, mut terminal: Terminal) -> io::Result<Option<bool>> {
    prompt::shall_remember(address, &key.fingerprint(), &mut terminal, |terminal| terminal.has_line_within(ANSWER_MAX))
}

/// Adds the key and says so.
fn add(list: &AuthorizedList, key: &PublicKey, address: &str) {
    let shown = list.path().map(|path| printable(&path.to_string_lossy())).unwrap_or_default();
    match list.add(key, &format!("paired by code from {address}")) {
        Ok(Added::New) => output::note(&format!("{address}: its key is in {shown} now: it needs no code next time")),
        Ok(Added::Already) => {}
        Err(error) => cannot(address, &error),
    }
}

fn cannot(address: &str, error: &IdentityError) {
    output::always(&format!("{address}: it cannot be remembered: {error}"));
}
