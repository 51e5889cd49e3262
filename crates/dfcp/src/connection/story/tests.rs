use std::io;
use std::sync::{Arc, Mutex};

use dfcp_proto::{Config, ConnectionError, Endpoint, PeerKey};
use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// Lines that were logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Returns the lines that `tell` logs, without time, level and target.
fn lines(tell: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(log.clone())
        .with_ansi(false)
        .without_time()
        .with_level(false)
        .with_target(false)
        .finish();
    tracing::subscriber::with_default(subscriber, tell);
    let bytes = log.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap().lines().map(|line| line.trim().to_owned()).collect()
}

fn initiator() -> Connection {
    let mut endpoint = Endpoint::new(4433, None, [1; 32]);
    let remote = ([192, 0, 2, 1], 4433).into();
    endpoint.connect(Time::ZERO, remote, Config::sealed(PeerKey::Any)).unwrap().1
}

fn story() -> (Story, Observation) {
    let seen = Observation {
        state: State::Established,
        remote: ([192, 0, 2, 1], 4433).into(),
        identity: None,
        stats: Stats::default(),
    };
    let (start, name) = (Time::from_s(100), Name::Id(0x1f));
    let (address, rate, rounds) = ((None, seen.remote, 0), (start, 0), (start, 0, 0));
    let streams = StreamStory::default();
    let story = Story { name, began: start, told: seen, address, rate, rounds, streams, totals_are_told: false };
    (story, seen)
}

fn at(ms: u64) -> Time {
    Time::from_s(100) + Duration::from_millis(ms)
}

#[test]
fn without_a_listener_there_is_no_story() {
    assert!(Story::begin(Time::ZERO, &initiator(), false).is_none());
    let mut is_told = false;
    lines(|| is_told = Story::begin(Time::ZERO, &initiator(), false).is_some());
    assert!(is_told);
}

#[test]
fn calls_without_an_answer_are_counted_until_the_attempt_ends() {
    let lines = lines(|| {
        let mut connection = initiator();
        let mut story = Story::begin(Time::ZERO, &connection, false).unwrap();
        for s in 0..3 {
            while connection.poll_transmit(Time::from_s(s), &mut [0; dfcp_proto::DATAGRAM_BUFFER_BYTES]).is_some() {}
            story.go_on(Time::from_s(s), &connection, None);
        }
        connection.abort();
        story.go_on(Time::from_s(3), &connection, Some(&Ended::By(ConnectionError::Aborted)));
    });
    assert!(lines[0].starts_with("called connection="), "{lines:?}");
    assert!(lines[0].ends_with("call=1 remote=192.0.2.1:4433"), "{lines:?}");
    assert!(lines[1..lines.len() - 2].iter().all(|line| line.starts_with("called again: no answer yet")), "{lines:?}");
    assert!(lines.len() > 3 && lines[lines.len() - 2].starts_with("totals "), "{lines:?}");
    let last = lines[lines.len() - 1].as_str();
    assert!(last.starts_with("over ") && last.ends_with("error=the connection was aborted on this side"), "{last}");
}

/// Course of a breaker's test that finds a full path, and of a test that does not.
#[test]
fn the_breaker_says_what_it_does_and_what_it_has_found() {
    use BreakerState::{Limiting, LossAccepted, Testing, Watching};
    let course = [
        (Watching, 40_000_000),
        (Testing, 20_000_000),
        (Limiting, 18_500_000),
        (Watching, 40_000_000),
        (Testing, 20_000_000),
        (LossAccepted, 40_000_000),
        (Watching, 40_000_000),
    ];
    let lines = lines(|| {
        let (mut story, mut seen) = story();
        for (n, (breaker, rate_bps)) in course.into_iter().enumerate() {
            (seen.stats.breaker, seen.stats.rate_bps, seen.stats.loss) = (breaker, rate_bps, 0.25);
            story.tell_news(at(10 * n as u64), seen, None);
        }
    });
    let suffix = |rate: &str| format!(" connection=0000001f rate_mbps={rate} loss_percent=25.0");
    let expected = [
        ("circuit breaker: much is lost, tests at half the rate whether it is our doing", "20.000"),
        ("circuit breaker: the path is full, holds the rate to what it delivers", "18.500"),
        ("circuit breaker: lets go, the whole rate goes through", "40.000"),
        ("circuit breaker: much is lost, tests at half the rate whether it is our doing", "20.000"),
        ("circuit breaker: the loss is the path's own, back to the whole rate", "40.000"),
        ("circuit breaker: watches again", "40.000"),
    ];
    assert_eq!(lines, expected.map(|(what, rate)| what.to_owned() + &suffix(rate)));
}

/// An application may set the rate with every video frame, thousands of reports may arrive per second, and a hostile
/// peer may move to and fro.
#[test]
fn what_changes_all_the_time_is_told_once_a_second_with_nothing_left_out() {
    let lines = lines(|| {
        let (mut story, mut seen) = story();
        for ms in 1..=5_000 {
            seen.stats.rate_bps = 1_000_000 + ms;
            seen.stats.path_changes += 1;
            seen.stats.blocks_repeated += 1;
            seen.stats.later_rounds += 2;
            story.tell_news(at(ms), seen, None);
        }
    });
    let of = |what: &str| lines.iter().filter(|line| line.starts_with(what)).cloned().collect::<Vec<_>>();
    let (rates, rounds) = (of("the rate has changed"), of("blocks needed a second round, or more"));
    let moves = of("the peer has moved");
    assert_eq!((rates.len(), rounds.len(), moves.len(), lines.len()), (5, 5, 5, 15));
    assert!(moves[0].contains(" moves=1 ") && moves[1..].iter().all(|line| line.contains(" moves=1000 ")), "{moves:?}");
    assert!(rates[4].contains("from_mbps=1.004 to_mbps=1.005"), "{rates:?}");
    assert!(rounds.iter().all(|line| line.contains("blocks=1000 rounds=2000")), "{rounds:?}");
}

#[test]
fn a_move_and_the_end_are_told_once_each() {
    let lines = lines(|| {
        let (mut story, mut seen) = story();
        seen.remote = ([192, 0, 2, 9], 5).into();
        seen.stats.path_changes = 1;
        seen.stats.segments_sent = 7;
        for state in [State::Established, State::FinWait1, State::FinWait2, State::TimeWait, State::TimeWait] {
            seen.state = state;
            story.tell_news(at(1), seen, None);
        }
        seen.state = State::Closed;
        story.tell_news(at(2), seen, Some(&Ended::InOrder));
        story.break_off(at(3));
    });
    let starts = [
        "the peer has moved, and has proven its new address connection=0000001f from=192.0.2.1:4433 to=192.0.2.9:5",
        "our half has ended; the peer is told",
        "the peer has all of our half",
        "the peer's half has ended, and is complete",
        "both halves have ended; stays to answer late repeats",
        "totals connection=0000001f duration_s=0.001 ",
        "over, in order",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:?}");
    assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{lines:?}");
    assert!(lines[5].contains(" datagrams_sent=7 "), "{}", lines[5]);
}

#[test]
fn a_connection_whose_endpoint_is_gone_is_told_to_be_given_up() {
    let lines = lines(|| story().0.break_off(at(9)));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("totals ") && lines[1].starts_with("given up"), "{lines:?}");
}

/// The totals must be logged now, as the process may end before the connection is over.
#[test]
fn the_totals_are_told_when_the_application_lets_go() {
    let lines = lines(|| {
        let connection = initiator();
        let mut story = Story::begin(Time::ZERO, &connection, false).unwrap();
        story.let_go(Time::from_s(1), &connection, None);
        story.break_off(Time::from_s(2));
    });
    let starts = ["the application has let go of it", "totals ", "given up"];
    assert_eq!(lines.len(), starts.len(), "{lines:?}");
    assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{lines:?}");
}

/// Streams of one datagram each: a line per stream would be a line per datagram.
#[test]
fn of_thousands_of_streams_there_are_sums_once_a_second_and_before_the_totals() {
    let id = |index| StreamId::new(dfcp_proto::Opener::Acceptor, StreamKind::OneWay, index).unwrap();
    let lines = lines(|| {
        let (mut story, mut seen) = story();
        for ms in 0..2_500 {
            story.on_stream(id(ms), StreamNews::OpenedByPeer);
            story.on_stream(id(ms), StreamNews::ResetByPeer(ms));
            story.tell_news(at(ms.into()), seen, None);
        }
        story.on_no_credit(StreamKind::OneWay);
        seen.state = State::Closed;
        story.tell_news(at(2_500), seen, Some(&Ended::InOrder));
        story.on_stream(id(0), StreamNews::StoppedHere(0));
        story.on_stream(id(1), StreamNews::ReadToEnd);
        story.break_off(at(2_600));
    });
    let expected = [
        "opened_by_peer=1 reset_by_peer=1 peer_code=0",
        "opened_by_peer=1000 reset_by_peer=1000 peer_code=1000",
        "opened_by_peer=1000 reset_by_peer=1000 peer_code=2000",
        "opened_by_peer=499 reset_by_peer=499 peer_code=2499 without_credit=1",
    ];
    assert_eq!(lines[..4], expected.map(|sums| format!("streams connection=0000001f {sums}")));
    assert!(lines[4].starts_with("totals ") && lines[5].starts_with("over, in order"), "{lines:?}");
    assert_eq!(
        lines[6..],
        ["streams connection=0000001f read_to_end=1"],
        "what ends after the session is not its doing"
    );
}
