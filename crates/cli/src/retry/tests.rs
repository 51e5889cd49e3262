//! Tests: sessions and calls on virtual time.

use std::sync::{Arc, Mutex};

use dfcp::ConnectionError;
use dfcp_framing::error::{Failure, FailureCode};
use tokio::sync::watch;

use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const HOUR: Duration = seconds(3600);

/// Peer that answers calls according to a script.
#[derive(Clone)]
struct Peer {
    began: Instant,
    /// Start times of calls, ms.
    called: Arc<Mutex<Vec<u64>>>,
    /// Outcome of a call that starts at this time.
    answer: fn(Duration) -> Answer,
    /// Time at which the peer's name resolves to another address.
    moves_at: Option<Duration>,
}

enum Answer {
    /// The call succeeds after this RTT.
    Yes(Duration),
    Silence,
    Closed,
    WrongKey,
}

impl Peer {
    fn new(answer: fn(Duration) -> Answer) -> Self {
        Self { began: Instant::now(), called: Arc::default(), answer, moves_at: None }
    }

    fn calls(&self) -> Vec<u64> {
        self.called.lock().unwrap().clone()
    }
}

impl Caller for Peer {
    type Connection = u32;

    fn has_moved(&self) -> bool {
        self.moves_at.is_some_and(|at| self.began.elapsed() >= at && self.called.lock().unwrap().len() < 2)
    }

    fn call(&self) -> impl Future<Output = Result<u32, CallFailure>> + Send + 'static {
        let at = self.began.elapsed();
        let mut called = self.called.lock().unwrap();
        called.push(at.as_millis() as u64);
        let number = called.len() as u32;
        let (peer, began) = (self.answer, self.began);
        let answer = peer(at);
        async move {
            match answer {
                Answer::Yes(rtt) => {
                    tokio::time::sleep(rtt).await;
                    Ok(number)
                }
                // The call retransmits every second for half a minute.
                Answer::Silence => {
                    for _ in 0..30 {
                        tokio::time::sleep(seconds(1)).await;
                        if let Answer::Yes(rtt) = peer(began.elapsed()) {
                            tokio::time::sleep(rtt).await;
                            return Ok(number);
                        }
                    }
                    Err(CallFailure { is_transient: true, error: anyhow::anyhow!("no answer") })
                }
                Answer::Closed => {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    Err(CallFailure { is_transient: true, error: anyhow::anyhow!("nothing listens") })
                }
                Answer::WrongKey => Err(CallFailure { is_transient: false, error: anyhow::anyhow!("wrong key") }),
            }
        }
    }
}

/// Observer that records all reports.
struct Seen {
    heard: watch::Receiver<Instant>,
    has_progressed: bool,
    told: Mutex<Vec<String>>,
}

impl Watch for Seen {
    fn begins(&self) {}

    fn unheard(&self) -> Duration {
        self.heard.borrow().elapsed()
    }

    fn has_progressed(&self) -> bool {
        self.has_progressed
    }

    fn lost(&self, cause: &TransferError, _: Duration) {
        self.told.lock().unwrap().push(format!("lost: {cause}"));
    }

    fn waits(&self, _: &OutageFigures) {}

    fn is_back(&self, outage: &OutageFigures) {
        self.told.lock().unwrap().push(format!("back after {} s", outage.lasted.as_secs()));
    }
}

fn timed_out() -> TransferError {
    TransferError::Connection(io::Error::other(ConnectionError::TimedOut))
}

fn done() -> Result<Report, TransferError> {
    Ok(Report { stored: 1, ..Report::default() })
}

struct Course {
    outcome: Result<Report, Failed>,
    /// Connection numbers of the sessions, and their start times, ms.
    sessions: Vec<(u32, u64)>,
    ended_s: u64,
    told: Vec<String>,
}

/// Runs sessions: `session` gets the connection's number, 0 for the first, and a callback for datagrams from the peer.
async fn course<F>(
    peer: &Peer,
    limit: Duration,
    has_progressed: bool,
    session: impl Fn(u32, watch::Sender<Instant>) -> F,
) -> Course
where
    F: Future<Output = Result<Report, TransferError>>,
{
    let (hear, heard) = watch::channel(Instant::now());
    let seen = Seen { heard, has_progressed, told: Mutex::default() };
    let sessions = Mutex::new(Vec::new());
    let never = Stop::never();
    let run = run(0, peer, limit, &seen, &never, |number| {
        sessions.lock().unwrap().push((number, peer.began.elapsed().as_millis() as u64));
        hear.send_replace(Instant::now());
        session(number, hear.clone())
    });
    let outcome = run.await;
    let ended_s = peer.began.elapsed().as_secs();
    Course { outcome, sessions: sessions.into_inner().unwrap(), ended_s, told: seen.told.into_inner().unwrap() }
}

/// Session that receives datagrams from the peer all the time, and ends with `outcome` after the time `lasts`.
async fn lively(
    hear: watch::Sender<Instant>,
    lasts: Duration,
    outcome: Result<Report, TransferError>,
) -> Result<Report, TransferError> {
    let end = Instant::now() + lasts;
    while Instant::now() < end {
        hear.send_replace(Instant::now());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    outcome
}

/// The peer process is gone for two seconds. The call that reaches the restarted process then takes over.
#[tokio::test(start_paused = true)]
async fn a_peer_that_is_back_is_noticed_within_a_second() {
    let peer = Peer::new(|at| if at < seconds(4) { Answer::Closed } else { Answer::Yes(Duration::from_millis(50)) });
    let course = course(&peer, HOUR, true, |number, hear| async move {
        match number {
            0 => lively(hear, seconds(2), Err(timed_out())).await,
            _ => done(),
        }
    })
    .await;
    assert_eq!(course.outcome.unwrap().stored, 1);
    assert_eq!(peer.calls(), [2000, 3000, 4000]);
    assert_eq!(course.sessions, [(0, 0), (3, 4050)]);
    assert!(course.told[0].starts_with("lost: ") && course.told[1] == "back after 2 s", "{:?}", course.told);
}

#[tokio::test(start_paused = true)]
async fn ten_minutes_without_a_link_are_followed_by_at_most_two_seconds() {
    let peer =
        Peer::new(|at| if at < seconds(600) { Answer::Silence } else { Answer::Yes(Duration::from_millis(600)) });
    let course = course(&peer, HOUR, true, |number, _| async move {
        match number {
            0 => {
                tokio::time::sleep(seconds(30)).await;
                Err(timed_out())
            }
            _ => done(),
        }
    })
    .await;
    assert!(course.outcome.is_ok());
    let (_, began_ms) = course.sessions[1];
    assert!((600_600..602_700).contains(&began_ms), "{began_ms}");
    let calls = peer.calls();
    assert!(calls.windows(2).all(|two| (30_000..=32_000).contains(&(two[1] - two[0]))), "one at a time: {calls:?}");
}

/// Calls to a closed port fail immediately.
#[tokio::test(start_paused = true)]
async fn calls_that_fail_at_once_are_a_second_apart_and_later_two() {
    let peer = Peer::new(|at| if at < seconds(100) { Answer::Closed } else { Answer::Yes(Duration::ZERO) });
    let course =
        course(&peer, HOUR, true, |number, _| async move { if number == 0 { Err(timed_out()) } else { done() } });
    assert!(course.await.outcome.is_ok());
    let gaps: Vec<u64> = peer.calls().windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps[..60].iter().all(|gap| *gap == 1000) && gaps[60..].iter().all(|gap| *gap == 2000), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_has_moved_is_called_at_its_new_address_beside_the_old_one() {
    let moves_at = Some(seconds(12));
    let peer =
        Peer { moves_at, ..Peer::new(|at| if at < seconds(12) { Answer::Silence } else { Answer::Yes(seconds(0)) }) };
    let course =
        course(&peer, HOUR, true, |number, _| async move { if number == 0 { Err(timed_out()) } else { done() } });
    assert!(course.await.outcome.is_ok());
    assert!(peer.calls()[1] <= 13_000, "{:?}", peer.calls());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_comes_back_to_life_goes_on_and_costs_nothing() {
    let peer = Peer::new(|at| if at < seconds(10) { Answer::Silence } else { Answer::Yes(Duration::from_millis(100)) });
    let course = course(&peer, HOUR, true, |number, hear| async move {
        assert_eq!(number, 0, "there is only one session");
        tokio::time::sleep(Duration::from_millis(10_900)).await;
        lively(hear, seconds(5), done()).await
    })
    .await;
    assert!(course.outcome.is_ok());
    assert_eq!((course.sessions.len(), course.told.len()), (1, 0));
    assert_eq!(peer.calls().first(), Some(&2000), "it was called beside the session");
    assert_eq!(peer.calls().len(), 1, "and no more once that was heard");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_stays_silent_is_replaced_long_before_it_ends() {
    let peer = Peer::new(|_| Answer::Yes(Duration::from_millis(100)));
    let course = course(&peer, HOUR, true, |number, _| async move {
        match number {
            0 => std::future::pending().await,
            _ => done(),
        }
    })
    .await;
    assert!(course.outcome.is_ok());
    assert!(course.ended_s < 6, "{}", course.ended_s);
    assert_eq!(peer.calls().len(), 1);
}

/// The peer ends the old session while a parallel call has been answered already.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_answered_is_used_at_once_when_the_silent_session_ends() {
    let peer = Peer::new(|_| Answer::Yes(Duration::from_millis(100)));
    let course = course(&peer, HOUR, true, |number, _| async move {
        match number {
            0 => {
                tokio::time::sleep(Duration::from_millis(2_400)).await;
                Err(timed_out())
            }
            _ => done(),
        }
    })
    .await;
    assert_eq!(course.sessions, [(0, 0), (1, 2_400)]);
}

#[tokio::test(start_paused = true)]
async fn what_would_fail_again_ends_at_once() {
    let peer = Peer::new(|_| Answer::Yes(Duration::ZERO));
    let refuse = || TransferError::Refused(Failure::new(FailureCode::NotAdmitted, "no"));
    let course = course(&peer, HOUR, true, |_, hear| lively(hear, seconds(1), Err(refuse()))).await;
    assert!(matches!(course.outcome, Err(Failed::Session(TransferError::Refused(_)))));
    assert!(peer.calls().is_empty() && course.told.is_empty());
}

#[tokio::test(start_paused = true)]
async fn zero_switches_it_off() {
    let peer = Peer::new(|_| Answer::Yes(Duration::ZERO));
    let course = course(&peer, Duration::ZERO, true, |_, _| async {
        tokio::time::sleep(seconds(30)).await;
        Err(timed_out())
    })
    .await;
    assert!(matches!(course.outcome, Err(Failed::Session(TransferError::Connection(_)))));
    assert!(peer.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wrong_key_ends_a_transfer_whose_session_is_lost_and_not_one_that_is_silent() {
    let peer = Peer::new(|_| Answer::WrongKey);
    let lost = course(&peer, HOUR, true, |_, hear| lively(hear, seconds(1), Err(timed_out()))).await;
    let error = lost.outcome.unwrap_err().to_string();
    assert!(error.starts_with("wrong key; before that, ") && lost.ended_s == 1, "{error}");
    let peer = Peer::new(|_| Answer::WrongKey);
    let silent = course(&peer, HOUR, true, |_, hear| async move {
        tokio::time::sleep(seconds(8)).await;
        lively(hear, seconds(1), done()).await
    })
    .await;
    assert!(silent.outcome.is_ok(), "whoever answers there is not the peer, which is heard again");
    assert_eq!(peer.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_ends_after_the_time_without_progress_however_many_sessions_open() {
    for progresses in [false, true] {
        let peer = Peer::new(|at| {
            let is_gone = at > seconds(40);
            if is_gone { Answer::Closed } else { Answer::Yes(Duration::from_millis(10)) }
        });
        let course = course(&peer, seconds(60), progresses, |_, hear| {
            lively(hear, Duration::from_millis(100), Err(TransferError::PeerClosed))
        })
        .await;
        let error = course.outcome.unwrap_err().to_string();
        assert!(error.contains("nothing listens") && error.contains("closed the connection"), "{error}");
        // The time limit counts from the last progress, or from the first loss.
        let expected = if progresses { 99..=102 } else { 60..=61 };
        assert!(expected.contains(&course.ended_s), "{} {progresses}", course.ended_s);
        let (opened, calls) = (course.sessions.len(), peer.calls().len());
        assert!(opened <= 43 && calls <= 103, "no storm: {opened} sessions, {calls} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn the_user_ends_it_while_there_is_no_session() {
    let (ask, stop) = Stop::new();
    let peer = Peer::new(|_| Answer::Silence);
    let (_hear, heard) = watch::channel(Instant::now());
    let seen = Seen { heard, has_progressed: true, told: Mutex::default() };
    let run = run(0, &peer, HOUR, &seen, &stop, |_| async { Err(timed_out()) });
    let ask = async {
        tokio::time::sleep(seconds(7)).await;
        ask.send(true).unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        outcome = run => assert!(matches!(outcome, Err(Failed::Interrupted))),
        () = ask => {}
    }
    assert_eq!(peer.began.elapsed(), seconds(7));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_busy_when_it_is_called_first_is_not_called_again() {
    let busy = || TransferError::Refused(Failure::new(FailureCode::Busy, "busy"));
    let peer = Peer::new(|_| Answer::Yes(Duration::ZERO));
    let first = course(&peer, HOUR, false, |_, hear| lively(hear, seconds(1), Err(busy()))).await;
    assert!(matches!(first.outcome, Err(Failed::Session(TransferError::Refused(_)))));
    // The peer is busy, because it still has the lost session.
    let later = course(&peer, HOUR, false, |number, hear| async move {
        match number {
            0 => Err(timed_out()),
            3 => done(),
            _ => lively(hear, Duration::from_millis(100), Err(busy())).await,
        }
    })
    .await;
    assert!(later.outcome.is_ok());
    assert_eq!(later.sessions.len(), 4);
}
