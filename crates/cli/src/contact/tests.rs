//! Tests of messages about failed connections.

use std::io;

use super::*;
use crate::args::{CarrierArg, Parameters};
use crate::limits::MTU_DEFAULT_BYTES;
use crate::recording::Recording;

fn contact(directory: &std::path::Path, expected: Expected) -> Contact {
    Contact {
        host: "There.example:1".parse().unwrap(),
        known_hosts: KnownHosts::of(&ConfigDir::at(directory).unwrap()),
        proof: Proof::Static { own: StaticKey::from_seed(&[1; 32]), expected },
    }
}

fn failed(why: ConnectionError) -> anyhow::Error {
    anyhow::Error::new(ConnectError::from(why)).context("cannot connect to 192.0.2.7:1")
}

#[test]
fn another_key_than_the_known_one_is_loud_and_others_are_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("dfcp");
    let (known, shown) = (StaticKey::from_seed(&[2; 32]).public(), StaticKey::from_seed(&[3; 32]).public());
    let pinned = contact(&directory, Expected::Known(known));
    pinned.remember(&known, "").unwrap();
    let loud = pinned.explain(failed(ConnectionError::UnexpectedKey(shown.fingerprint()))).to_string();
    for part in ["HAS CHANGED", &known.fingerprint().to_string(), &shown.fingerprint().to_string(), "remove line 1"] {
        assert!(loud.contains(part), "{loud}");
    }
    let named = contact(&directory, Expected::Named(known.fingerprint()));
    let error = named.explain(failed(ConnectionError::UnexpectedKey(shown.fingerprint()))).to_string();
    assert!(error.contains("--host-key") && error.lines().count() == 1, "{error}");
}

#[test]
fn not_being_admitted_is_recognised_wherever_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    let unknown = contact(folder.path(), Expected::Unknown);
    let later = || io::Error::new(io::ErrorKind::PermissionDenied, ConnectionError::NotAdmitted);
    let own = StaticKey::from_seed(&[1; 32]).public().fingerprint().to_string();
    for error in [
        failed(ConnectionError::NotAdmitted),
        TransferError::Connection(later()).into(),
        SessionError::Connection(later()).into(),
        PairingError::Connection(later()).into(),
        later().into(),
    ] {
        let said = unknown.explain(error).to_string();
        assert!(said.contains(&own) && said.contains("authorized_keys"), "{said}");
    }
    let other = unknown.explain(TransferError::PeerClosed.into()).to_string();
    assert_eq!(other, TransferError::PeerClosed.to_string());
}

#[tokio::test]
async fn insecure_connections_have_no_contact() {
    let path = |insecure_classic| PathArgs {
        rate: None,
        max_rate: None,
        min_rate: None,
        max_receive_rate: None,
        carrier: CarrierArg::Udp,
        ecn: false,
        dscp: None,
        mtu: MTU_DEFAULT_BYTES,
        cipher: None,
        insecure_classic,
        insecure_plaintext: !insecure_classic,
        qlog: None,
        key_log: false,
        recording: Recording::default(),
        parameters: Parameters::default(),
        peer_streams: 0,
        messages: false,
    };
    for insecure_classic in [true, false] {
        let contact = Contact::prepare("there:1", &HostArgs::default(), &path(insecure_classic)).await.unwrap();
        assert!(contact.is_none());
    }
}
