//! Tests: message measurements. Nothing depends on timing: messages late on a slow machine count as late.

use dfcp::Stream;
use dfcp_framing::messages::{Came, Request, Sent, Worth};

use super::*;
use crate::messages::{Figures, Incoming};
use crate::perf::server::Outcome;
use crate::session_error::SessionError;
use crate::testing::pair;

fn request(reverse: bool, bytes: u32) -> Request {
    let worth = Worth { within: Duration::from_secs(10), target_ppm: 999_000 };
    Request { reverse, bytes, every: Duration::from_micros(500), duration: Duration::from_millis(100), worth }
}

#[test]
fn both_sides_agree_on_what_became_of_messages_in_either_direction() {
    for (reverse, bytes) in [(false, 1_316), (true, 1_316), (false, 0), (false, 262_144), (true, 9)] {
        run(async {
            let (here, there) = pair(true).await;
            // The longest messages exceed the buffer, so some count as unsent.
            let asked = request(reverse, bytes);
            let parameters = Parameters::default();
            let (client, server) =
                tokio::join!(client::messages_session(here, &asked, |_| {}), server::session(there, &parameters));
            let (client, Outcome::Messages(served, seen)) = (client.unwrap(), server.unwrap()) else {
                panic!("not messages")
            };
            assert_eq!(served, asked);
            assert_eq!(client.offered, 200, "{bytes} bytes, reverse {reverse}");
            let counts =
                |of: &Figures| [of.offered, of.begun, of.unsent, of.in_time, of.late, of.lost.unwrap(), of.bytes];
            assert_eq!(counts(&client), counts(&seen), "{bytes} bytes, reverse {reverse}");
            let known = client.unsent + client.in_time + client.late + client.unread + client.lost.unwrap();
            assert_eq!(known, client.offered, "{client:?}");
            assert_eq!(client.bytes, client.in_time * u64::from(bytes));
            // Ten seconds are enough on any machine for the started messages.
            assert!(client.in_time > 0 && client.path.is_some(), "{client:?}");
        });
    }
}

/// Server that answers a client with these frames and keeps reading.
async fn lie(mut stream: Stream, frames: Vec<u8>) {
    let mut answer = Service::Perf.preamble().to_vec();
    answer.extend(frames);
    stream.write_all(&answer).await.unwrap();
    let mut sink = Vec::new();
    let _ = stream.read_to_end(&mut sink).await;
}

#[test]
fn a_server_which_claims_what_cannot_be_is_found_out() {
    let more = Came { in_time: 1_000, ..Came::default() };
    let early = Came { is_final: true, ..Came::default() };
    let overflowing = Came { in_time: u64::MAX, late: u64::MAX, ..Came::default() };
    for (lie_of, what) in [(more, "more than was sent"), (early, "the end before it"), (overflowing, "beyond counting")]
    {
        run(async {
            let (here, there) = pair(true).await;
            let mut frames = Vec::new();
            lie_of.encode(&mut frames);
            tokio::spawn(lie(there, frames));
            let asked =
                Request { duration: Duration::from_secs(60), every: Duration::from_secs(1), ..request(false, 1) };
            let error = client::messages_session(here, &asked, |_| {}).await.unwrap_err();
            assert_eq!(error.to_string(), "what was sent and what was received do not agree", "{what}");
        });
    }
}

#[test]
fn a_receiver_is_not_told_what_came_of_messages_that_it_does_not_send() {
    run(async {
        let (here, there) = pair(true).await;
        let mut frames = Vec::new();
        Sent { is_final: true, ..Sent::default() }.encode(&mut frames);
        tokio::spawn(lie(there, frames));
        let error = client::messages_session(here, &request(false, 1), |_| {}).await.unwrap_err();
        assert!(matches!(error, SessionError::Protocol(_)), "{error}");
    });
}

#[test]
fn a_peer_without_messages_is_an_error_and_no_measurement_of_nothing() {
    run(async {
        let (here, there) = pair(false).await;
        let (asked, parameters) = (request(false, 1), Parameters::default());
        let (client, _) =
            tokio::join!(client::messages_session(here, &asked, |_| {}), server::session(there, &parameters));
        assert!(client.unwrap_err().to_string().contains("takes no messages"));
    });
    // A connection without a session has no messages either.
    let (here, there) = duplex(10_000);
    let (asked, parameters) = (request(false, 1), Parameters::default());
    let (client, server) = run(async {
        tokio::join!(client::messages_session(here, &asked, |_| {}), server::session(there, &parameters))
    });
    assert!(matches!(client, Err(SessionError::Unsuited(_))) && matches!(server, Err(SessionError::Unsuited(_))));
}

#[test]
fn what_waits_at_the_end_of_a_measurement_is_counted() {
    run(async {
        let (here, there) = pair(true).await;
        let (sending, receiving) = (here.session().unwrap(), Incoming::new(there.session().unwrap()));
        sending.send_message(b"one", dfcp::Deadline::within(Duration::from_secs(10))).unwrap();
        let message = receiving.next().await.unwrap();
        let came = receiving.came(false);
        assert_eq!((message.bytes.as_slice(), came.in_time, came.bytes, came.known()), (&b"one"[..], 1, 3, 1));
    });
}
