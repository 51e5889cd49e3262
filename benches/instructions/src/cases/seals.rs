//! Cases of sealing and opening one full datagram.

use std::hint::black_box;

use anyhow::{Context, Result};
use dfcp_secure::{
    Answered, Cipher, Established, Initiator, InitiatorKeys, OpenKeys, Pattern, PreSharedKey, Responder, ResponderKeys,
    SealKeys, TAG_BYTES,
};

use super::{Case, counted, random_bytes};

/// Bytes of a header.
const HEADER_BYTES: usize = 24;
const PAYLOAD_BYTES: usize = 1_424;

const REPETITIONS: u64 = 200;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "seal",
        unit: "datagram",
        what: "1424 bytes under AES-128-GCM",
        repetitions: REPETITIONS,
        parts: &[],
        run: seal,
    },
    Case { name: "open", unit: "datagram", what: "the same, opened", repetitions: REPETITIONS, parts: &[], run: open },
];

fn keys() -> Result<(SealKeys, OpenKeys)> {
    let shared = PreSharedKey::from_bytes(&[3; 32]);
    let (mut first, mut second, mut out) = ([0; 300], [0; 300], [0; 300]);
    let own = InitiatorKeys::PreShared(shared.clone());
    let mut initiator = Initiator::new(own, b"instructions", [4; 32])?;
    let length = initiator.write_first(&[], &mut first)?;
    let keys = ResponderKeys { own: None, pre_shared: Some(shared) };
    let (responder, _) =
        Responder::read_first(&keys, Pattern::PreShared, b"instructions", [5; 32], &first[..length], &mut out)?;
    let (length, answered) = responder.write_second(&[], &mut second)?;
    initiator.read_second(&second[..length], &mut out)?;
    let Answered::Established(responder) = answered else { anyhow::bail!("there are two messages with a shared key") };
    let into = |established: Established| established.into_keys(Cipher::Aes128Gcm);
    Ok((into(initiator.finish()?).0, into(responder).1))
}

/// A datagram: header, and payload with space for the tag.
type Datagram = ([u8; HEADER_BYTES], Vec<u8>);

fn datagram() -> Datagram {
    ([0x5A; HEADER_BYTES], random_bytes(1, PAYLOAD_BYTES + TAG_BYTES))
}

fn seal_one(keys: &mut SealKeys, number: u64, (header, bytes): &mut Datagram) -> Result<()> {
    let (payload, tag) = bytes.split_last_chunk_mut().context("there is room for the tag")?;
    Ok(keys.seal(number, header, payload, tag)?)
}

fn seal(repetitions: u64) -> Result<()> {
    let (mut keys, _) = keys()?;
    let mut datagram = datagram();
    counted(|| {
        for number in 0..repetitions {
            seal_one(&mut keys, number, &mut datagram)?;
            black_box(&mut datagram);
        }
        Ok(())
    })
}

fn open(repetitions: u64) -> Result<()> {
    let (mut seal_keys, mut keys) = keys()?;
    let mut sealed = vec![datagram(); usize::try_from(repetitions)?];
    for (number, datagram) in (0..).zip(&mut sealed) {
        seal_one(&mut seal_keys, number, datagram)?;
    }
    counted(|| {
        for (number, (header, bytes)) in (0..).zip(&mut sealed) {
            keys.open(number, header, bytes)?;
            black_box(bytes);
        }
        Ok(())
    })
}
