//! Connecting to a peer with several addresses: they are tried in turn until one answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use dfcp_proto::limits::CONNECT_TIMEOUT_MIN;
use dfcp_proto::{Config, ConnectionError, Profile};
use tokio::net::{ToSocketAddrs, lookup_host};

use crate::carrier::Carrier;
use crate::clock::Clock;
use crate::endpoint::Endpoint;
use crate::error::ConnectError;
use crate::limits;
use crate::session::Session;
use crate::stream::Stream;

const NO_ADDRESS: &str = "there is no address to connect to: the name or the list has none";

/// Returns the unspecified local address of the IP version of `remote`, with port 0 (the system chooses).
pub(crate) fn any_port_towards(remote: SocketAddr) -> SocketAddr {
    let any: IpAddr = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(any, 0)
}

impl Stream {
    /// Connects to `remote` from a new socket, and adapts the configuration to the path's IP version like
    /// [`Endpoint::connect`]. Waits for the peer for at most [`Config::connect_timeout`]. Dropping the future aborts
    /// the attempt.
    ///
    /// `remote` is an address, a name with a port, or a list of addresses:
    ///
    /// ```no_run
    /// # use std::net::{IpAddr, SocketAddr};
    /// # use dfcp::{Config, ConnectError, Stream};
    /// # async fn example(config: Config, addresses: Vec<SocketAddr>, host: IpAddr) -> Result<(), ConnectError> {
    /// let by_name = Stream::connect("there.example:4433", config.clone()).await?;
    /// let by_list = Stream::connect(&addresses[..], config.clone()).await?;
    /// let by_address = Stream::connect((host, 4433), config).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// **Several addresses** are tried in turn, each from a new socket, until one answers. The next one is tried if
    /// - the peer did not answer in time ([`HandshakeTimeout`](ConnectionError::HandshakeTimeout)), refused, or reset
    ///   the connection;
    /// - this machine has no route to the address, cannot make a socket for it, or refuses to send to it.
    ///
    /// Any other error ends the call immediately, above all a failed authentication
    /// ([`UnexpectedKey`](ConnectionError::UnexpectedKey), [`PinnedKeyRefused`](ConnectionError::PinnedKeyRefused),
    /// [`NotAdmitted`](ConnectionError::NotAdmitted)): all addresses belong to one peer, and a wrong key at one of them
    /// may be an attack.
    ///
    /// The connect timeout covers all attempts together, but not the lookup of a name, for which the system's resolver
    /// has its own limits. Each attempt gets an equal share of the remaining time, or 7 s if the share is less, but at
    /// most half of the remaining time while other addresses wait. An address that does not answer uses its whole
    /// share, unless the machine refuses, as with a closed port, or there is no route. A wrong key is certain after 6 s
    /// at most. An attempt with less time counts as unanswered, and the next address must show the expected key, too.
    ///
    /// # Errors
    /// Same as [`Endpoint::bind`] and [`Endpoint::connect`], for the address tried last; the error of the name lookup;
    /// or `InvalidInput` without any address.
    ///
    /// # Panics
    /// Same as [`Endpoint::bind`]; or if `remote` is a name to look up and the caller is outside of a tokio runtime.
    pub async fn connect(remote: impl ToSocketAddrs, config: Config) -> Result<Self, ConnectError> {
        Self::connect_over(Carrier::Udp, remote, config).await
    }

    /// Like [`connect`](Self::connect), over the given carrier.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect) and [`Endpoint::bind_over`].
    ///
    /// # Panics
    /// Same as [`connect`](Self::connect).
    pub async fn connect_over(
        carrier: Carrier,
        remote: impl ToSocketAddrs,
        config: Config,
    ) -> Result<Self, ConnectError> {
        let call = |endpoint: Endpoint, remote, config| async move { endpoint.connect(remote, config).await };
        over(carrier, remote, config, call).await
    }
}

impl Session {
    /// Connects to `remote` from a new socket, like [`Stream::connect`]. `remote` is an address, a name with a port, or
    /// a list of addresses, which are tried in turn. No stream is opened yet.
    ///
    /// # Errors
    /// Same as [`Stream::connect`] and [`Endpoint::connect_session`].
    ///
    /// # Panics
    /// Same as [`Stream::connect`].
    pub async fn connect(remote: impl ToSocketAddrs, config: Config) -> Result<Self, ConnectError> {
        Self::connect_over(Carrier::Udp, remote, config).await
    }

    /// Like [`connect`](Self::connect), over the given carrier.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect) and [`Endpoint::bind_over`].
    ///
    /// # Panics
    /// Same as [`Stream::connect`].
    pub async fn connect_over(
        carrier: Carrier,
        remote: impl ToSocketAddrs,
        config: Config,
    ) -> Result<Self, ConnectError> {
        let call = |endpoint: Endpoint, remote, config| async move { endpoint.connect_session(remote, config).await };
        over(carrier, remote, config, call).await
    }
}

/// Lets `call` connect a new endpoint to each address of `remote` in turn; see [`in_turn`].
///
/// # Errors
/// The error of the name lookup, or of the last attempt, which includes making the endpoint.
async fn over<T, F>(
    carrier: Carrier,
    remote: impl ToSocketAddrs,
    config: Config,
    call: impl Fn(Endpoint, SocketAddr, Config) -> F,
) -> Result<T, ConnectError>
where
    F: Future<Output = Result<T, ConnectError>>,
{
    let addresses = lookup_host(remote).await?.collect();
    in_turn(addresses, config, |remote, config| {
        let endpoint = Endpoint::bind_over(carrier, any_port_towards(remote), None);
        let called = endpoint.map(|endpoint| call(endpoint, remote, config));
        async move { called?.await }
    })
    .await
}

/// Calls the addresses in turn until one answers, or until an error concerns all addresses alike. Cancel-safe if `call`
/// is: the future owns the only attempt in progress.
///
/// # Errors
/// The error of the last attempt; `InvalidInput` without an address.
pub(crate) async fn in_turn<T, F>(
    addresses: Vec<SocketAddr>,
    mut config: Config,
    call: impl Fn(SocketAddr, Config) -> F,
) -> Result<T, ConnectError>
where
    F: Future<Output = Result<T, ConnectError>>,
{
    let clock = Clock::start();
    let began = clock.now();
    let total = total_time(&config);
    let mut waiting = addresses.into_iter();
    let mut last_error = None;
    while let Some(remote) = waiting.next() {
        let is_only = last_error.is_none() && waiting.len() == 0;
        if !is_only {
            let left = total.saturating_sub(clock.now().since(began));
            if last_error.is_some() && left < CONNECT_TIMEOUT_MIN {
                break;
            }
            config.connect_timeout = Some(attempt_time(left, waiting.len()));
        }
        let error = match call(remote, config.clone()).await {
            Err(error) if is_of_this_address(&error) => error,
            outcome => return outcome,
        };
        tracing::debug!(%remote, %error, others = waiting.len(), "no connection to this address");
        last_error = Some(error);
    }
    Err(last_error.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, NO_ADDRESS).into()))
}

/// Returns the time limit of all attempts together, which equals the limit of a single attempt.
fn total_time(config: &Config) -> Duration {
    let own = match config.profile {
        Profile::Modern => limits::CONNECT_TIME_MODERN.min(config.idle_timeout),
        Profile::Classic => limits::CONNECT_TIME_CLASSIC,
    };
    config.connect_timeout.map_or(own, |given| given.min(own))
}

/// Returns the time limit of one attempt, when `left` remains for it and for the `others`. Some time is reserved for
/// the others, because the first of two addresses is often an IPv6 address that does not work.
fn attempt_time(left: Duration, others: usize) -> Duration {
    let share = left / u32::try_from(others).unwrap_or(u32::MAX).saturating_add(1);
    share.max(limits::ATTEMPT_TIME_MIN.min(left / 2))
}

/// Returns true if another address may succeed. After a failed authentication no other address is tried: a wrong key
/// may be an attack, which a success at another address would hide. Errors of the configuration, and of a peer that
/// breaks the protocol, concern all addresses alike.
fn is_of_this_address(error: &ConnectError) -> bool {
    match error {
        ConnectError::Connection(error) => matches!(
            error,
            ConnectionError::HandshakeTimeout { .. }
                | ConnectionError::TimedOut
                | ConnectionError::Refused
                | ConnectionError::Reset
        ),
        ConnectError::Io(error) => error.kind() != io::ErrorKind::InvalidInput,
        ConnectError::Rejected(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use dfcp_proto::{ConfigError, PeerKey};

    use super::*;

    const UNANSWERED: ConnectionError = ConnectionError::HandshakeTimeout { after: Duration::ZERO };

    /// Connects to loopback addresses, whose attempts end with `outcomes` in turn. Returns the outcome, and the time
    /// limit of each attempt.
    async fn call(
        config: Config,
        addresses: usize,
        outcomes: impl IntoIterator<Item = Result<(), ConnectError>>,
    ) -> (Result<(), ConnectError>, Vec<Option<Duration>>) {
        let addresses = (0..addresses).map(|index| ([127, 0, 0, 1], 1_000 + index as u16).into()).collect();
        let (outcomes, times) = (RefCell::new(outcomes.into_iter()), RefCell::new(Vec::new()));
        let outcome = in_turn(addresses, config, |remote, config| {
            assert_eq!(usize::from(remote.port()), 1_000 + times.borrow().len());
            times.borrow_mut().push(config.connect_timeout);
            std::future::ready(outcomes.borrow_mut().next().unwrap())
        })
        .await;
        (outcome, times.into_inner())
    }

    fn config() -> Config {
        Config::sealed(PeerKey::Any)
    }

    fn unanswered() -> Result<(), ConnectError> {
        Err(UNANSWERED.into())
    }

    #[tokio::test]
    async fn one_address_gets_the_configuration_as_it_is() {
        for given in [None, Some(Duration::from_millis(1)), Some(Duration::from_secs(7))] {
            let mut config = config();
            config.connect_timeout = given;
            let (outcome, times) = call(config, 1, [unanswered()]).await;
            assert!(matches!(outcome, Err(ConnectError::Connection(UNANSWERED))), "{outcome:?}");
            assert_eq!(times, [given]);
        }
    }

    #[tokio::test]
    async fn the_last_error_is_returned_and_the_first_answer_ends_it() {
        let refused = || Err(ConnectionError::Refused.into());
        let (outcome, times) = call(config(), 3, [unanswered(), unanswered(), refused()]).await;
        assert!(matches!(outcome, Err(ConnectError::Connection(ConnectionError::Refused))), "{outcome:?}");
        assert_eq!(times.len(), 3);
        let (outcome, times) = call(config(), 3, [refused(), Ok(())]).await;
        assert!(outcome.is_ok() && times.len() == 2);
        let (outcome, _) = call(config(), 0, []).await;
        assert!(matches!(outcome, Err(ConnectError::Io(error)) if error.kind() == io::ErrorKind::InvalidInput));
    }

    #[tokio::test]
    async fn what_concerns_all_addresses_ends_it() {
        let shown = dfcp_proto::StaticKey::from_seed(&[3; 32]).public().fingerprint();
        let wrong = ConfigError::OutOfRange { name: "x", value: 0, min: 1, max: 2 };
        let finals: [ConnectError; 7] = [
            ConnectionError::UnexpectedKey(shown).into(),
            ConnectionError::PinnedKeyRefused.into(),
            ConnectionError::NotAdmitted.into(),
            ConnectionError::Incompatible.into(),
            ConnectionError::Aborted.into(),
            dfcp_proto::ConnectError::Config(wrong).into(),
            io::Error::from(io::ErrorKind::InvalidInput).into(),
        ];
        for error in finals {
            let sentence = error.to_string();
            let (outcome, times) = call(config(), 2, [Err(error)]).await;
            assert_eq!((outcome.unwrap_err().to_string(), times.len()), (sentence, 1));
        }
    }

    #[tokio::test]
    async fn faults_of_one_address_lead_to_the_next() {
        let passing: [ConnectError; 5] = [
            UNANSWERED.into(),
            ConnectionError::TimedOut.into(),
            ConnectionError::Refused.into(),
            ConnectionError::Reset.into(),
            io::Error::from(io::ErrorKind::NetworkUnreachable).into(),
        ];
        for error in passing {
            let (outcome, times) = call(config(), 2, [Err(error), Ok(())]).await;
            assert!(outcome.is_ok() && times.len() == 2);
        }
    }

    #[test]
    fn an_attempt_gets_its_part_of_the_time_and_enough_to_hear_a_refusal() {
        let seconds = Duration::from_secs;
        assert_eq!(attempt_time(seconds(30), 1), seconds(15));
        assert_eq!(attempt_time(seconds(15), 0), seconds(15));
        assert_eq!(attempt_time(seconds(30), 29), limits::ATTEMPT_TIME_MIN);
        assert_eq!(attempt_time(seconds(5), 1), Duration::from_millis(2_500));
        assert_eq!(attempt_time(seconds(4), 9), seconds(2));
        assert!(limits::ATTEMPT_TIME_MIN > 2 * dfcp_proto::limits::DOUBT);
    }

    #[test]
    fn all_attempts_together_take_as_long_as_one_would() {
        let seconds = Duration::from_secs;
        assert_eq!(total_time(&config()), seconds(30));
        assert_eq!(total_time(&config().with_idle_timeout(seconds(4))), seconds(4));
        assert_eq!(total_time(&config().with_connect_timeout(seconds(5))), seconds(5));
        assert_eq!(total_time(&config().with_connect_timeout(seconds(500))), seconds(30));
        assert_eq!(total_time(&Config::danger_classic()), seconds(63));
    }

    #[tokio::test]
    async fn without_time_left_no_further_address_is_called() {
        let total = Duration::from_millis(20);
        let config = config().with_connect_timeout(total);
        let addresses = vec![([127, 0, 0, 1], 1_000).into(), ([127, 0, 0, 1], 1_001).into()];
        let calls = RefCell::new(0);
        let outcome: Result<(), _> = in_turn(addresses, config, |_, _| {
            *calls.borrow_mut() += 1;
            async move {
                tokio::time::sleep(total).await;
                unanswered()
            }
        })
        .await;
        assert!(outcome.is_err() && calls.into_inner() == 1);
    }
}
