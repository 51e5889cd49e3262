//! Client: requests test packets and estimates from them (`spec/estimation.md` §2, §3).

use std::time::Duration;

use dfcp_secure::Cookie;
use dfcp_time::Time;

use super::datagram::{Answer, Datagram, ProbeDatagram, Reason, Request, VERSION};
use crate::config::{Config, ConfigError};
use crate::estimator::{Estimator, Probe, TimeError};
use crate::limits::{CALL_FIRST, CALLS_MAX, RENEWAL, SILENCE_MAX};
use crate::summary::BusyPeriod;

/// Reason why a measurement cannot begin or continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server does not answer.
    #[error(
        "no answer: check that `dfcp estimate server` runs there, that the port is its --listen port, and that firewalls let UDP through"
    )]
    NoAnswer,
    /// Test packets stopped arriving.
    #[error("no test packet came for {} s: the server or the path is gone, start again when it is back", .0.as_secs())]
    Silent(Duration),
    /// The server is at its limit of clients.
    #[error("the server has as many clients as it serves: try again later, or start it with a larger --max-clients")]
    TooManyClients,
    /// The server does not permit this interval.
    #[error("the server does not send test packets at this interval: choose another --interval, from 10ms to 10s")]
    Interval,
    /// The server refused for a reason unknown to this version.
    #[error("the server refused, for a reason which this version does not know ({0}): install its version here")]
    Refused(u8),
    /// The server speaks another version of the format.
    #[error(
        "the server speaks version {theirs} of the test packets and this program version {VERSION}: install the same program on both sides"
    )]
    Version {
        /// Version of the server.
        theirs: u8,
    },
    /// The caller's clock went back.
    #[error(transparent)]
    Time(#[from] TimeError),
}

/// Effect of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Test packet received, with the busy period that it ended.
    Probe(Option<BusyPeriod>),
    /// First test packet after the server had forgotten this client. Open busy periods are discarded.
    Forgotten,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Requesting a cookie.
    Calling { calls: u32 },
    /// Requesting test packets, or renewing the request.
    Started { cookie: Cookie },
}

/// Client of one server, which estimates the rate at which it is served.
#[derive(Debug)]
pub struct Client {
    session: u64,
    phase: Phase,
    /// Time of the next request, or of giving up.
    next: Time,
    /// Time of the server's last message: a test packet, or a challenge before the first test packet.
    heard: Time,
    /// Number of the latest test packet.
    number: Option<u32>,
    /// Last value of the caller's counter.
    counter_bytes: Option<u64>,
    estimator: Estimator,
}

impl Client {
    /// Creates a client that starts calling at `now`. `session` must be unpredictable (\[estimate-3\]).
    ///
    /// # Errors
    /// Fails if a parameter of the estimator is out of range.
    pub fn new(now: Time, config: Config, session: u64) -> Result<Self, ConfigError> {
        let estimator = Estimator::new(config)?;
        let phase = Phase::Calling { calls: 0 };
        Ok(Self { session, phase, next: now, heard: now, number: None, counter_bytes: None, estimator })
    }

    /// Time of the next [`poll`](Self::poll).
    #[must_use]
    pub fn next_time(&self) -> Time {
        match self.phase {
            Phase::Calling { .. } => self.next,
            Phase::Started { .. } => self.next.min(self.heard + SILENCE_MAX),
        }
    }

    /// Next datagram to the server, if one is due.
    ///
    /// # Errors
    /// Fails if the server stays silent.
    pub fn poll(&mut self, now: Time) -> Result<Option<Datagram>, ClientError> {
        match &mut self.phase {
            Phase::Started { .. } if now.since(self.heard) >= SILENCE_MAX => Err(ClientError::Silent(SILENCE_MAX)),
            _ if now < self.next => Ok(None),
            Phase::Calling { calls } if *calls >= CALLS_MAX => Err(ClientError::NoAnswer),
            Phase::Calling { calls } => {
                self.next = now + CALL_FIRST * (1 << *calls);
                *calls += 1;
                Ok(Some(Request::Call { session: self.session }.encode()))
            }
            Phase::Started { cookie } => {
                self.next = now + if self.number.is_some() { RENEWAL } else { CALL_FIRST };
                let interval_us = u32::try_from(self.estimator.config().interval.as_micros()).unwrap_or(u32::MAX);
                Ok(Some(Request::Start { session: self.session, interval_us, cookie: *cookie }.encode()))
            }
        }
    }

    /// Processes a datagram from the server's address. `counter_bytes` is a running count of IP bytes received by this host, including the
    /// datagram. Other datagrams have no effect (\[estimate-11\]).
    ///
    /// # Errors
    /// Fails if the server refuses.
    pub fn receive(&mut self, now: Time, datagram: &[u8], counter_bytes: u64) -> Result<Option<Progress>, ClientError> {
        let Some(answer) = Answer::decode(datagram) else { return Ok(None) };
        match answer {
            Answer::Challenge { session, cookie } if session == self.session => {
                self.challenged(now, cookie);
                Ok(None)
            }
            Answer::Probe(probe) if probe.session == self.session => self.probed(now, &probe, counter_bytes),
            Answer::Refused { session, reason } if session == self.session => Err(match reason {
                Reason::TooManyClients => ClientError::TooManyClients,
                Reason::Interval => ClientError::Interval,
                Reason::Other(code) => ClientError::Refused(code),
            }),
            Answer::OtherVersion { session, version } if session == self.session => {
                Err(ClientError::Version { theirs: version })
            }
            _ => Ok(None),
        }
    }

    /// Processes a challenge. Cookies expire: a server that continues sends a new one in time (\[estimate-6\]).
    fn challenged(&mut self, now: Time, cookie: Cookie) {
        if matches!(self.phase, Phase::Calling { .. }) {
            (self.next, self.heard) = (now, now);
        }
        // Later requests are sent when due, so that the two ends never drive each other.
        self.phase = Phase::Started { cookie };
    }

    /// Silence after which a smaller number means a restarted server, not a late test packet.
    fn missed(&self) -> Duration {
        RENEWAL + self.estimator.config().interval
    }

    fn probed(
        &mut self,
        now: Time,
        probe: &ProbeDatagram,
        counter_bytes: u64,
    ) -> Result<Option<Progress>, ClientError> {
        if matches!(self.phase, Phase::Calling { .. }) {
            return Ok(None);
        }
        if self.number.is_none() {
            // The start was requested frequently until now.
            self.next = now + RENEWAL;
        }
        let is_late = self.number.is_some_and(|latest| probe.number <= latest);
        let is_anew = is_late && now.since(self.heard) >= self.missed();
        if is_anew {
            self.estimator.restart();
        }
        if is_anew || !is_late {
            (self.number, self.heard) = (Some(probe.number), now);
        }
        match self.counter_bytes.map(|before| counter_bytes.checked_sub(before)) {
            Some(Some(more)) => self.estimator.traffic(now, more)?,
            // The counter restarted: arrivals meanwhile are unknown.
            Some(None) => self.estimator.restart(),
            None => {}
        }
        self.counter_bytes = Some(counter_bytes);
        let probe = Probe { number: probe.number.into(), sent: Some(probe.sent), at: now, size_bytes: 0 };
        let period = self.estimator.probe(probe)?;
        Ok(Some(if is_anew { Progress::Forgotten } else { Progress::Probe(period) }))
    }

    /// Datagram that stops the server's test packets.
    #[must_use]
    pub fn stop(&self) -> Datagram {
        Request::Stop { session: self.session }.encode()
    }

    /// Estimator with the current results.
    #[must_use]
    pub fn estimator(&self) -> &Estimator {
        &self.estimator
    }
}
