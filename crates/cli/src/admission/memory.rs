//! Storage of a paired peer's key, so that the peer needs no code next time.

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

/// Rule for adding the key of a paired peer to the list of authorized keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remember {
    /// Add the key without asking (`--remember`).
    Always,
    /// Ask the user on the terminal, if the program is in the foreground.
    Ask,
    /// Never add a key.
    Never,
}

/// Adds paired peers to the list of authorized keys.
#[derive(Debug)]
pub struct Memory {
    list: Arc<AuthorizedList>,
    remember: Remember,
    /// Task of the latest question to the user, open or answered.
    question: Mutex<Option<JoinHandle<()>>>,
    /// Fingerprints of keys for which the user did not answer.
    unanswered: Arc<Mutex<BTreeSet<String>>>,
}

impl Memory {
    /// Creates the memory over `list`, with the rule `remember`.
    pub fn new(list: Arc<AuthorizedList>, remember: Remember) -> Self {
        Self { list, remember, question: Mutex::new(None), unanswered: Arc::default() }
    }

    /// Applies the rule to the key of a newly paired peer at `address`, without delaying its session.
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
            // Two questions at one terminal would read each other's answers.
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

    /// Asks an unanswered question again at the end of the peer's session: the user may be back by then.
    pub fn ended(&self, key: PublicKey, address: &str) {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = unanswered.remove(&key.fingerprint().to_string());
        drop(unanswered);
        if is_open {
            self.paired(key, address);
        }
    }

    /// Waits for the answer to an open question, at most `ANSWER_MAX`.
    pub async fn settle(&self) {
        let question = self.question.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(question) = question
            && let Err(error) = question.await
        {
            tracing::warn!(%error, "a question has ended without an answer");
        }
    }
}

/// Prints the key, so that a user who cannot be asked can add it by hand.
fn tell_how(key: &PublicKey, address: &str) {
    output::note(&format!("{address}: to let it in without a code, add its key {key} to authorized_keys"));
}

fn ask(key: &PublicKey, address: &str, mut terminal: Terminal) -> io::Result<Option<bool>> {
    prompt::shall_remember(address, &key.fingerprint(), &mut terminal, |terminal| terminal.has_line_within(ANSWER_MAX))
}

/// Adds the key to the list and reports it.
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
