//! Fuzz body: arbitrary bytes as a datagram; decoded segments survive a round trip.

use dfcp_wire::segment::{Address, Clear, Envelope, Received, Sealed};
use dfcp_wire::{DATAGRAM_BYTES_MAX, DecodeError, Finished, Outline, TAG_BYTES, Unverified, classic};

/// Decodes `datagram`, and checks that the segment survives a round trip. Panics if a decoder does.
pub(crate) fn run(datagram: &[u8]) {
    let outline = Outline::of(datagram);
    // For a refused datagram, the only requirement is that no decoder panics.
    let read = match Unverified::read(datagram) {
        Ok(Unverified::Classic(header)) => check_classic(header, datagram),
        Ok(Unverified::Clear(header)) => check_clear(header, datagram),
        Ok(Unverified::Sealed(header)) => check_sealed(header, datagram),
        Err(error) => Err(error),
    };
    assert!(read.is_err() || outline.is_ok(), "{outline:?}");
}

fn check_classic(header: classic::Unverified, datagram: &[u8]) -> Result<(), DecodeError> {
    let received = header.verify(datagram)?;
    let mut out = [0x55; DATAGRAM_BYTES_MAX];
    let mut draft = received.segment.begin(header.ports(), &mut out);
    draft
        .payload(received.payload.len())
        .expect("the canonical form is the shortest")
        .copy_from_slice(received.payload);
    let length = draft.finish();
    let Ok(Unverified::Classic(again)) = Unverified::read(&out[..length]) else { panic!("written as classic") };
    assert_eq!(again.ports(), header.ports());
    assert_eq!(again.verify(&out[..length]), Ok(received));
    Ok(())
}

fn check_clear(header: Clear, datagram: &[u8]) -> Result<(), DecodeError> {
    let received = header.verify(datagram)?;
    let address =
        if header.is_syn() { Address::Ports(header.ports()) } else { Address::Connection(header.connection_id()) };
    let envelope = Envelope { address, number: received.number, seal: None };
    let mut out = [0x55; DATAGRAM_BYTES_MAX];
    let mut draft = received.segment.begin(&envelope, &mut out);
    draft
        .payload(received.payload.len())
        .expect("the canonical form is the shortest")
        .copy_from_slice(received.payload);
    let Finished::Complete(length) = draft.finish() else { panic!("nothing is sealed") };
    let Ok(Unverified::Clear(again)) = Unverified::read(&out[..length]) else { panic!("written in the clear") };
    assert_eq!((again.is_syn(), again.connection_id()), (header.is_syn(), header.connection_id()));
    assert_eq!(again.verify(&out[..length]), Ok(received));
    Ok(())
}

/// Checks an encrypted datagram, as if its sealed bytes were the decrypted payload.
fn check_sealed(header: Sealed, datagram: &[u8]) -> Result<(), DecodeError> {
    let mut copy = datagram.to_vec();
    let (head, sealed) = header.split(&mut copy)?;
    assert_eq!([head, &*sealed].concat(), datagram);
    let payload = &sealed[..sealed.len().saturating_sub(TAG_BYTES)];
    let received = header.opened(head, payload)?;
    let address = Address::Connection(header.connection_id());
    let envelope = Envelope { address, number: header.number(), seal: Some(header.epoch()) };
    let mut out = [0x55; DATAGRAM_BYTES_MAX];
    let mut draft = received.segment.begin(&envelope, &mut out);
    draft.payload(payload.len()).expect("the canonical form is the shortest").copy_from_slice(payload);
    let Finished::ToSeal(to_seal) = draft.finish() else { panic!("nothing is in the clear") };
    let length = to_seal.datagram_bytes();
    let Ok(Unverified::Sealed(again)) = Unverified::read(&out[..length]) else { panic!("written as sealed") };
    assert_eq!((again.connection_id(), again.epoch()), (header.connection_id(), header.epoch()));
    let (head, sealed) = again.split(&mut out[..length]).expect("what was written");
    assert_eq!(again.opened(head, &sealed[..payload.len()]), Ok(Received { payload, ..received }));
    Ok(())
}
