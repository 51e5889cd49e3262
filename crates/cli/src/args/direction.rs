//! Which side of a file transfer calls, and what follows from that.

use clap::error::ErrorKind;
use clap::{CommandFactory, Error};
use dfcp_framing::printable_path;

use super::peers::only_of_listeners;
use super::{Cli, Command, ReceiveArgs, SendArgs, host_port};
use crate::transfer::source::STANDARD_STREAM;

impl Cli {
    /// Checks what depends on which side calls, which is known only when all is parsed, and finds the peer of `send`.
    ///
    /// # Errors
    /// Arguments which make no sense together.
    pub fn checked(mut self) -> Result<Self, Error> {
        let checked = match &mut self.command {
            Command::Send(args) => args.check(),
            Command::Receive(args) => args.check(),
            _ => Ok(()),
        };
        checked.map(|()| self).map_err(|sentence| Self::command().error(ErrorKind::ArgumentConflict, sentence))
    }
}

impl SendArgs {
    /// Without `--listen` the last argument is the peer.
    fn check(&mut self) -> Result<(), String> {
        let listens = self.listen.is_some();
        self.peers.check(listens)?;
        self.retry.check(self.why_not_again())?;
        if self.keep && self.files.iter().any(|file| file.as_os_str() == STANDARD_STREAM) {
            return Err("standard input can be sent to one receiver only: leave --keep or - out".to_owned());
        }
        if listens {
            let last = self.files.last().filter(|last| last.to_str().is_some_and(|text| host_port(text).is_ok()));
            return match last.filter(|last| !last.exists()) {
                Some(last) => Err(format!(
                    "with --listen all arguments are files, and {} is none: leave it out, or call it without --listen",
                    printable_path(last)
                )),
                None => Ok(()),
            };
        }
        only_of_listeners(&[
            ("--metrics", self.metrics.metrics.is_some()),
            ("--log-json", self.audit.log_json.is_some()),
        ])?;
        let last = self.files.pop().filter(|_| !self.files.is_empty());
        let last = last
            .ok_or("give the files, and behind them the HOST:PORT of the receiver, or --listen PORT for it to call")?;
        let to = host_port(last.to_str().unwrap_or_default());
        let why = |why| format!("invalid value '{}' for HOST:PORT, the last argument: {why}", printable_path(&last));
        self.to = Some(to.map_err(why)?);
        Ok(())
    }
}

impl SendArgs {
    /// Why nothing can go on after the connection is lost, if so.
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

/// Without keys another host could be the one that answers.
const UNKNOWN_PEER: &str = "without encryption a peer is not known again after a lost connection";

impl ReceiveArgs {
    /// Why nothing can go on after the connection is lost, if so.
    #[must_use]
    pub fn why_not_again(&self) -> Option<&'static str> {
        if self.output.as_os_str() == STANDARD_STREAM {
            return Some(
                "what went to standard output cannot be taken back, so nothing goes on after a lost connection",
            );
        }
        self.path.insecure_flag().map(|_| UNKNOWN_PEER)
    }

    fn check(&self) -> Result<(), String> {
        let calls = self.from.is_some();
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
