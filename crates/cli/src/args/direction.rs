//! Validation of which side calls, and of the options that depend on it.

use std::path::{Path, PathBuf};

use dfcp_files::STANDARD_STREAM;
use dfcp_framing::printable_path;

use super::peers::only_of_listeners;
use super::{FILES_PORT, ListenArg, ReceiveArgs, SendArgs, host_or, host_port};

impl SendArgs {
    /// Checks the arguments. Without `--listen`, moves the receiver from the end of `files` into `to`.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let listens = self.listen.is_some();
        self.peers.check(listens)?;
        self.retry.check(self.why_not_again())?;
        if self.keep && self.files.iter().any(|file| file.as_os_str() == STANDARD_STREAM) {
            return Err("standard input can be sent to one receiver only: leave --keep or - out".to_owned());
        }
        if let Some(listen) = &self.listen {
            return self.check_listening(listen);
        }
        only_of_listeners(&[
            ("--metrics", self.metrics.metrics.is_some()),
            ("--log-json", self.audit.log_json.is_some()),
        ])?;
        let last = self.files.pop().ok_or_else(|| WHERE_TO.to_owned())?;
        if self.files.is_empty() {
            let shown = printable_path(&last);
            return Err(match last.exists() {
                true => format!("where {shown} goes is missing: {WHERE_TO}"),
                false => format!("only {shown} was given: {WHERE_TO}"),
            });
        }
        self.to = Some(receiver(&last)?);
        Ok(())
    }

    fn check_listening(&self, listen: &ListenArg) -> Result<(), String> {
        let is_place = |last: &&PathBuf| last.to_str().is_some_and(|text| host_port(text).is_ok()) && !last.exists();
        if let Some(last) = self.files.last().filter(is_place) {
            return Err(format!(
                "with --listen all arguments are files, and {} is none: leave it out, or call it without --listen",
                printable_path(last)
            ));
        }
        // In `--listen film.mkv`, clap takes the file for the listening address.
        let usual_port = format!(":{FILES_PORT}");
        if let ListenArg::At(place) = listen
            && let Some(host) = place.strip_suffix(&usual_port)
            && Path::new(host).exists()
        {
            return Err(format!(
                "--listen takes what follows it, {host}, for where to listen: put --listen behind the files"
            ));
        }
        if self.files.is_empty() { Err("give the files to send, and --listen behind them".to_owned()) } else { Ok(()) }
    }
}

/// Hint for a command line without files or without a receiver.
const WHERE_TO: &str =
    "give the files, and behind them the receiver as HOST or HOST:PORT, or --listen for the receiver to call";

/// Interprets the last argument as the receiver. A HOST:PORT is always a receiver; without a port, an existing path is a file.
fn receiver(last: &Path) -> Result<String, String> {
    let shown = printable_path(last);
    let text = last.to_str().unwrap_or_default();
    let place = host_or(FILES_PORT)(text);
    if host_port(text).is_err() && last.exists() {
        let advice = match &place {
            Ok(place) => format!("; if a machine has that name, too, write {place}"),
            Err(_) => String::new(),
        };
        return Err(format!(
            "the last argument is the receiver, and {shown} is a file or a directory here: {WHERE_TO}{advice}"
        ));
    }
    place.map_err(|why| format!("invalid value '{shown}' for HOST[:PORT], the last argument: {why}"))
}

impl SendArgs {
    /// Returns the reason why a lost connection cannot be resumed, if any.
    #[must_use]
    pub fn why_not_again(&self) -> Option<&'static str> {
        if self.files.iter().any(|file| file.as_os_str() == STANDARD_STREAM) {
            return Some("standard input cannot be read twice, so nothing goes on after a lost connection");
        }
        if self.dry_run {
            return Some("--dry-run sends nothing that could go on after a lost connection");
        }
        self.path.insecure_flag().map(|_| UNKNOWN_PEER)
    }
}

/// Reason against resuming a plaintext connection: without keys, a different host could answer the second connection
/// attempt.
const UNKNOWN_PEER: &str = "without encryption a peer is not known again after a lost connection";

impl ReceiveArgs {
    /// Returns the reason why a lost connection cannot be resumed, if any.
    #[must_use]
    pub fn why_not_again(&self) -> Option<&'static str> {
        if self.output.as_os_str() == STANDARD_STREAM {
            return Some(
                "what went to standard output cannot be taken back, so nothing goes on after a lost connection",
            );
        }
        self.path.insecure_flag().map(|_| UNKNOWN_PEER)
    }

    /// Checks the arguments. The receiver listens unless another mode is requested.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let calls = self.from.is_some();
        if !calls && !self.partials && !self.forget && self.listen.is_none() {
            self.listen = Some(ListenArg::Anywhere(FILES_PORT));
        }
        self.peers.check(!calls)?;
        self.retry.check(self.why_not_again())?;
        if calls {
            only_of_listeners(&[
                ("--metrics", self.metrics.metrics.is_some()),
                ("--log-json", self.audit.log_json.is_some()),
            ])?;
        }
        Ok(())
    }
}
