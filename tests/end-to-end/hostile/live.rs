//! Attacks on a live server. The binary `attacks` runs the same at full size.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp::{Listener, Rate, Stream};
use dfcp_end_to_end_tests::live::relay::Relay;
use dfcp_end_to_end_tests::live::{Attack, Logs, Size, config, echo_through, local, run};
use tokio::sync::Mutex;

/// Serializes the tests: memory is measured per process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const SIZE: Size = Size { datagrams: 30_000, datagrams_per_s: 40_000, transfer_bytes: 100_000, transfers: 4, seed: 7 };

fn held(attack: Attack, size: Size) {
    let _guard = ONE_AT_A_TIME.blocking_lock();
    let row = run(attack, size, Logs::install()).unwrap();
    assert!(row.is_well(), "{row:#?}");
    assert!(row.transfers_finished > 0 && row.datagrams >= size.datagrams, "{row:#?}");
}

#[test]
fn random_and_mutated_datagrams() {
    held(Attack::Mutations, SIZE);
}

#[test]
fn a_syn_flood_from_many_addresses() {
    held(Attack::SynFlood, SIZE);
}

#[test]
fn handshakes_which_are_never_ended() {
    held(Attack::SlowLoris, SIZE);
}

#[test]
fn first_messages_which_cannot_be_read() {
    // Slow, so that few are lost on the path, and the cost of processing all of them would be visible.
    held(Attack::UnreadableFirst, Size { datagrams: 15_000, datagrams_per_s: 6_000, ..SIZE });
}

#[test]
fn forged_third_messages() {
    held(Attack::ForgedProofs, SIZE);
}

#[test]
fn spoofed_segments() {
    held(Attack::Spoofed, SIZE);
}

#[test]
fn a_session_replayed() {
    held(Attack::Replay, SIZE);
}

#[test]
fn truncated_and_oversized_datagrams() {
    held(Attack::Lengths, SIZE);
}

/// A NAT that drops its mappings: the client's outward address changes repeatedly during the transfer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_survives_addresses_that_change() {
    const BYTES: u64 = 4_000_000;
    let _guard = ONE_AT_A_TIME.lock().await;
    let config = config().with_rate(Rate::Fixed { rate_bps: 20_000_000 });
    let listener = Listener::bind(local(), config.clone()).unwrap();
    let relay = Relay::start(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, moved) = tokio::sync::oneshot::channel();
    let server = tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap();
        let (mut reader, mut writer) = tokio::io::split(&mut stream);
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
        tokio::io::AsyncWriteExt::shutdown(&mut writer).await.unwrap();
        let _test_is_over = accepted.send(stream.stats().path_changes);
    });
    let stream = Stream::connect(relay.address(), config).await.unwrap();
    let transfer = tokio::spawn(echo_through(stream, 5, BYTES));
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        relay.rebind().await.unwrap();
    }
    tokio::time::timeout(Duration::from_secs(60), transfer).await.unwrap().unwrap().unwrap();
    let moves = moved.await.unwrap();
    assert!(moves >= 3, "the server has followed {moves} of six moves");
    server.await.unwrap();
}
