//! The golden vectors of whole sealed datagrams, `spec/vectors/secure_connection_*.txt`, which a second implementation
//! made (`secure_reference.py`).
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;

use dfcp_proto::{Config, Credentials, Endpoint, PeerKey, PreSharedKey, PublicKey, Routed, StaticKey};
use dfcp_secure::{Answered, Cipher, Established, Initiator, InitiatorKeys, Pattern, Responder, ResponderKeys};
use dfcp_time::Time;
use dfcp_wire::handshake::Payload;
use dfcp_wire::segment::{Ack, Clear, Data, Sealed, Segment};
use dfcp_wire::{BlockInfo, Unverified};

const FILES: [&str; 3] = [
    include_str!("../../../spec/vectors/secure_connection_xx.txt"),
    include_str!("../../../spec/vectors/secure_connection_ik.txt"),
    include_str!("../../../spec/vectors/secure_connection_nnpsk0.txt"),
];

struct Vector(BTreeMap<&'static str, &'static str>);

impl Vector {
    fn read(text: &'static str) -> Self {
        Self(text.lines().filter_map(|line| line.split_once(" = ")).collect())
    }

    fn number(&self, name: &str) -> u32 {
        self.0[name].parse().unwrap()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let hex = self.0[name];
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn array(&self, name: &str) -> [u8; 32] {
        self.bytes(name).try_into().unwrap()
    }

    fn pattern(&self) -> Pattern {
        Pattern::from_id(self.number("pattern") as u8).unwrap()
    }

    fn keys(&self) -> (InitiatorKeys, ResponderKeys) {
        if self.pattern() == Pattern::PreShared {
            let key = PreSharedKey::from_bytes(&self.array("pre_shared"));
            return (InitiatorKeys::PreShared(key.clone()), ResponderKeys { own: None, pre_shared: Some(key) });
        }
        let own = StaticKey::from_bytes(&self.array("initiator.static"));
        let responder = PublicKey(self.array("responder.public"));
        let initiator = match self.pattern() {
            Pattern::Pinned => InitiatorKeys::Pinned { own, responder },
            _ => InitiatorKeys::FirstContact { own, expected: Some(responder.fingerprint()) },
        };
        let own = StaticKey::from_bytes(&self.array("responder.static"));
        (initiator, ResponderKeys { own: Some(own), pre_shared: None })
    }

    /// The payload in the clear of a handshake datagram, its pattern checked, and the Noise message.
    fn noise<'a>(&self, datagram: &'a [u8]) -> (Payload<'a>, &'a [u8]) {
        let payload = Payload::decode(clear(datagram).verify(datagram).unwrap().payload).unwrap();
        let (pattern, message) = payload.noise.unwrap();
        assert_eq!(pattern, self.pattern().id());
        (payload, message)
    }
}

/// Runs both ends with the vector's seeds: the messages must be those in the datagrams, to the byte.
fn handshake(vector: &Vector) -> (Established, Established) {
    let (initiator_keys, responder_keys) = vector.keys();
    let (syn, synack) = (vector.bytes("syn"), vector.bytes("synack"));
    let prologue =
        [&b"DFCP 2"[..], clear(&syn).option_bytes(&syn), &vector.number("initiator.id").to_be_bytes()].concat();
    let (mut plain, mut message) = ([0; 1500], [0; 1500]);

    let (_, first) = vector.noise(&syn);
    let seed = vector.array("responder.seed");
    let (responder, length) =
        Responder::read_first(&responder_keys, vector.pattern(), &prologue, seed, first, &mut plain).unwrap();
    let inner = Payload::decode(&plain[..length]).unwrap();
    assert_eq!((inner.window_blocks, inner.ciphers), (Some(4096), Some(&[1, 3, 2][..])));
    let mut initiator = Initiator::new(initiator_keys, &prologue, vector.array("initiator.seed")).unwrap();
    let written = initiator.write_first(&plain[..length], &mut message).unwrap();
    assert_eq!(&message[..written], first);

    let (payload, second) = vector.noise(&synack);
    assert_eq!(payload, Payload { noise: payload.noise, ..Payload::default() });
    let length = initiator.read_second(second, &mut plain).unwrap();
    let inner = Payload::decode(&plain[..length]).unwrap();
    let expected = (Some(vector.number("responder.id")), Some(1400), Some(2));
    assert_eq!((inner.connection_id, inner.symbol_size, inner.echo), expected);
    let (written, answered) = responder.write_second(&plain[..length], &mut message).unwrap();
    assert_eq!(&message[..written], second);

    match answered {
        Answered::Established(responder) => (initiator.finish().unwrap(), responder),
        Answered::HalfOpen(mut half_open) => {
            let ack = vector.bytes("ack");
            let (_, third) = vector.noise(&ack);
            let written = initiator.write_third(&[], &mut message).unwrap();
            assert_eq!(&message[..written], third);
            let (responder, _) = half_open.read_third(&responder_keys, third, &mut plain).unwrap();
            (initiator.finish().unwrap(), responder)
        }
    }
}

#[test]
fn handshakes_and_first_datagrams() {
    for vector in FILES.map(Vector::read) {
        let (initiator, responder) = handshake(&vector);
        let mut data = vector.bytes("data");
        let header = sealed_header(&data);
        assert_eq!((header.connection_id(), header.number()), (vector.number("responder.id"), 0));
        let (head, sealed) = header.split(&mut data).unwrap();
        let (_, mut open) = responder.into_keys(Cipher::Aes128Gcm);
        let length = open.open(0, head, sealed).unwrap();
        let received = header.opened(head, &sealed[..length]).unwrap();
        let Segment::Data(Data { block, .. }) = received.segment else { panic!("{received:?}") };
        assert_eq!(block, BlockInfo { k: 1, length_bytes: 11, end_of_stream: true });
        assert_eq!(received.payload, vector.bytes("symbol"));

        let mut ack = vector.bytes("sealed_ack");
        let header = sealed_header(&ack);
        assert_eq!(header.connection_id(), vector.number("initiator.id"));
        let (head, sealed) = header.split(&mut ack).unwrap();
        let (_, mut open) = initiator.into_keys(Cipher::Aes128Gcm);
        assert_eq!(open.open(0, head, sealed).unwrap(), 0);
        let received = header.opened(head, &[]).unwrap();
        assert!(matches!(received.segment, Segment::Ack(Ack::OfSynAck { .. })), "{received:?}");
    }
}

fn sealed_header(datagram: &[u8]) -> Sealed {
    let Ok(Unverified::Sealed(header)) = Unverified::read(datagram) else { panic!("it is in the clear") };
    header
}

fn clear(datagram: &[u8]) -> Clear {
    let Ok(Unverified::Clear(header)) = Unverified::read(datagram) else { panic!("it is not in the clear") };
    header
}

/// The second implementation's SYN is one that an endpoint answers, with no more bytes than it got.
#[test]
fn an_endpoint_answers_the_syns() {
    for vector in FILES.map(Vector::read) {
        let credentials = match vector.keys().1 {
            ResponderKeys { pre_shared: Some(key), .. } => Credentials::from(key),
            ResponderKeys { own, .. } => Credentials { key: own, ..PeerKey::Any.into() },
        };
        let mut endpoint = Endpoint::new(9_000, Some(Config::sealed(credentials).into()), [1; 32]);
        let (syn, mut reply) = (vector.bytes("syn"), [0; 1500]);
        let routed = endpoint.handle_datagram(Time::from_s(1), ([192, 0, 2, 1], 40_000).into(), &syn, &mut reply);
        let Routed::Reply(length) = routed else { panic!("{:?}: {routed:?}", vector.pattern()) };
        let header = clear(&reply[..length]);
        assert_eq!(header.connection_id(), vector.number("initiator.id"));
        assert!(matches!(header.verify(&reply[..length]).unwrap().segment, Segment::SynAck(_)));
        assert!(length <= syn.len() && syn.len() >= 256);
    }
}
