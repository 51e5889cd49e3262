//! Connection attempts to the addresses of a name, until one succeeds.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use dfcp::{ConnectError, ConnectionError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::retry::{CallFailure, is_transient_call};

/// Delay before the next address is called in parallel (RFC 8305 §5).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// Timeouts of silence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Delay before the next address is called in parallel. Longer than most RTTs: a slow answer must not cause a
    /// second connection, which a receiver with `--once` might admit instead of the first.
    pub(super) next_address: Duration,
    /// Delay before the user is notified. Longer than the wait that follows a refusal (`spec/protocol.md`, [open-34]): otherwise the notice
    /// would precede the refusal.
    pub(super) notice: Duration,
}

pub(super) const PATIENCE: Patience = Patience { next_address: Duration::from_secs(1), notice: Duration::from_secs(5) };

/// Timeouts for a peer that has answered before. The caller limits the total time.
pub(super) const PATIENCE_AGAIN: Patience =
    Patience { next_address: NEXT_ADDRESS, notice: Duration::from_secs(86_400) };

/// Calls the addresses in order, and returns the first connection. The next address is called when the previous ones
/// have failed or stay silent. `tell` gets one line after prolonged silence, with `advice` on the likely faults.
///
/// # Errors
/// Fails if all addresses fail.
pub(super) async fn first_to_answer<T, C, F>(
    addresses: Vec<SocketAddr>,
    call: C,
    advice: &str,
    patience: Patience,
    tell: impl Fn(&str),
) -> Result<(T, SocketAddr), CallFailure>
where
    T: Send + 'static,
    C: Fn(SocketAddr) -> F,
    F: Future<Output = Result<T, ConnectError>> + Send + 'static,
{
    let started = Instant::now();
    let mut waiting = addresses.into_iter();
    let mut called = Vec::new();
    let mut calls = JoinSet::new();
    let mut failures = Failures::default();
    let mut notice_due = true;
    let mut call_next = true;
    let mut next_due = started;
    loop {
        if call_next && let Some(address) = waiting.next() {
            let calling = call(address);
            calls.spawn(async move { (address, calling.await) });
            called.push(address);
            next_due = Instant::now() + patience.next_address;
        }
        call_next = false;
        tokio::select! {
            biased;
            ended = calls.join_next() => match ended {
                Some(Ok((address, Ok(connection)))) => return Ok((connection, address)),
                Some(Ok((address, Err(error)))) => {
                    if matches!(error, ConnectError::Connection(ConnectionError::UnexpectedKey(_))) {
                        // An impostor may be answering: report this without trying other addresses.
                        return Err(failed(address, error));
                    }
                    failures.note(address, error);
                    call_next = true;
                }
                Some(Err(error)) => return Err(CallFailure { is_transient: false, error: error.into() }),
                None => return Err(failures.sentence(started.elapsed(), advice)),
            },
            () = sleep_until(started + patience.notice), if notice_due => {
                notice_due = false;
                tell(&format!("nothing has answered yet at {}, still trying; check that {advice}", list(&called)));
            }
            () = sleep_until(next_due), if waiting.len() > 0 => call_next = true,
        }
    }
}

/// Failed connection attempts by reason.
#[derive(Debug, Default)]
struct Failures {
    silent: Vec<SocketAddr>,
    /// Addresses with no listener.
    closed: Vec<SocketAddr>,
    /// Last failure of another kind, which is more informative.
    other: Option<(SocketAddr, ConnectError)>,
}

impl Failures {
    fn note(&mut self, address: SocketAddr, error: ConnectError) {
        match error {
            ConnectError::Connection(ConnectionError::HandshakeTimeout { .. }) => self.silent.push(address),
            ConnectError::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => self.closed.push(address),
            error => self.other = Some((address, error)),
        }
    }

    fn sentence(self, elapsed: Duration, advice: &str) -> CallFailure {
        if let Some((address, error)) = self.other {
            return failed(address, error);
        }
        CallFailure { is_transient: true, error: self.unanswered(elapsed, advice) }
    }

    fn unanswered(self, elapsed: Duration, advice: &str) -> anyhow::Error {
        let mut what = Vec::new();
        if !self.closed.is_empty() {
            what.push(format!("nothing listens at {} (the machine refused)", list(&self.closed)));
        }
        if !self.silent.is_empty() {
            what.push(format!("nothing answered at {} in {:.0} s", list(&self.silent), elapsed.as_secs_f64()));
        }
        if what.is_empty() {
            return anyhow::anyhow!("the name has no address, check the name");
        }
        anyhow::anyhow!("{}, check that {advice}, and try again", what.join(", and "))
    }
}

fn failed(address: SocketAddr, error: ConnectError) -> CallFailure {
    let is_transient = is_transient_call(&error);
    CallFailure { is_transient, error: anyhow::Error::new(error).context(format!("cannot connect to {address}")) }
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const NEVER: Duration = Duration::from_secs(86_400);

    fn addresses(count: u16) -> Vec<SocketAddr> {
        (1..=count).map(|port| ([127, 0, 0, 1], port).into()).collect()
    }

    fn silence<T>() -> Result<T, ConnectError> {
        Err(ConnectionError::HandshakeTimeout { after: NEVER }.into())
    }

    /// Calls `count` ports, with outcomes from `answer`; returns the overall outcome and the notices.
    fn run(
        count: u16,
        patience: Patience,
        answer: impl Fn(u16) -> Option<Result<u16, ConnectError>>,
    ) -> (Result<u16, String>, Vec<String>) {
        let told = RefCell::new(Vec::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let call = |address: SocketAddr| {
            let answer = answer(address.port());
            async move {
                match answer {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            }
        };
        let outcome = runtime.block_on(first_to_answer(addresses(count), call, "it runs", patience, |line| {
            told.borrow_mut().push(line.to_owned());
        }));
        (outcome.map(|(port, _)| port).map_err(|failure| format!("{:#}", failure.error)), told.into_inner())
    }

    #[test]
    fn an_address_that_fails_or_is_silent_does_not_hold_up_the_next() {
        let patience = Patience { next_address: NEVER, notice: NEVER };
        let refuse_first = |port| Some(if port < 3 { silence() } else { Ok(port) });
        assert_eq!(run(3, patience, refuse_first), (Ok(3), vec![]));
        let patience = Patience { next_address: Duration::ZERO, ..patience };
        assert_eq!(run(3, patience, |port| (port == 3).then_some(Ok(3))), (Ok(3), vec![]));
    }

    #[test]
    fn silence_is_told_once_and_trying_goes_on() {
        // The notice precedes the attempt at the second address, which answers.
        let patience = Patience { next_address: Duration::from_millis(20), notice: Duration::ZERO };
        let (outcome, told) = run(2, patience, |port| (port == 2).then_some(Ok(2)));
        assert_eq!(outcome, Ok(2));
        assert_eq!(told, ["nothing has answered yet at 127.0.0.1:1, still trying; check that it runs"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_not_called_silence_while_it_is_doubted() {
        let refusal = |_| async {
            tokio::time::sleep(Duration::from_millis(3_500)).await;
            Err::<(), ConnectError>(ConnectionError::Refused.into())
        };
        let told = RefCell::new(Vec::new());
        let tell = |line: &str| told.borrow_mut().push(line.to_owned());
        let outcome = first_to_answer(addresses(1), refusal, "it runs", PATIENCE, tell).await;
        assert!(format!("{:#}", outcome.unwrap_err().error).contains("the peer refused"));
        assert_eq!(told.into_inner(), [""; 0]);
    }

    #[test]
    fn the_error_names_every_silent_address_unless_one_says_more() {
        let patience = Patience { next_address: NEVER, notice: NEVER };
        let (outcome, _) = run(2, patience, |_| Some(silence()));
        let error = outcome.unwrap_err();
        assert!(error.starts_with("nothing answered at 127.0.0.1:1 or 127.0.0.1:2 in 0 s, check that"), "{error}");
        let refuse_first = |port| Some(if port == 1 { Err(ConnectionError::Refused.into()) } else { silence() });
        let error = run(2, patience, refuse_first).0.unwrap_err();
        assert!(error.starts_with("cannot connect to 127.0.0.1:1: the peer refused"), "{error}");
        let closed = || Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
        let error = run(1, patience, |_| Some(closed())).0.unwrap_err();
        assert!(error.starts_with("nothing listens at 127.0.0.1:1 (the machine refused), check that"), "{error}");
        let error = run(2, patience, |port| Some(if port == 1 { closed() } else { silence() })).0.unwrap_err();
        assert!(error.contains("127.0.0.1:1 (the machine refused), and nothing answered at 127.0.0.1:2 in"), "{error}");
        let no_right = |_| Some(Err(io::Error::from(io::ErrorKind::PermissionDenied).into()));
        assert!(run(1, patience, no_right).0.unwrap_err().contains("permission denied"));
        assert!(run(0, patience, |_| None).0.unwrap_err().contains("check the name"));
    }
}
