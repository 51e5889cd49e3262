//! Tests against the golden vectors of `spec/vectors/secure_*.txt`, which an independent implementation
//! (`secure_reference.py`) made.

use std::collections::BTreeMap;

use crate::packet::Secret;
use crate::role::Direction;
use crate::{
    Answered, COOKIE_BYTES, Cipher, CookieJar, Established, Initiator, InitiatorKeys, OpenKeys, Pattern, PreSharedKey,
    PublicKey, ResetKey, Responder, ResponderKeys, SealKeys, StaticKey, TAG_BYTES,
};

macro_rules! vector {
    ($name:literal) => {
        include_str!(concat!("../vectors/", $name, ".txt"))
    };
}

const CIPHERS: [(Cipher, &str); 3] = [
    (Cipher::Aes128Gcm, "aes_128_gcm"),
    (Cipher::Aes256Gcm, "aes_256_gcm"),
    (Cipher::ChaCha20Poly1305, "chacha20_poly1305"),
];

/// Values of lines of the form `name = value`, by name.
struct Values(BTreeMap<&'static str, &'static str>);

impl Values {
    /// Values of each paragraph that has lines of the form `name = value`.
    fn paragraphs(text: &'static str) -> Vec<Self> {
        let values = |paragraph: &'static str| paragraph.lines().filter_map(|line| line.split_once(" = ")).collect();
        text.split("\n\n").map(|paragraph| Self(values(paragraph))).filter(|values| !values.0.is_empty()).collect()
    }

    fn whole(text: &'static str) -> Self {
        Self(Self::paragraphs(text).into_iter().flat_map(|values| values.0).collect())
    }

    fn text(&self, name: &str) -> &'static str {
        self.0.get(name).copied().unwrap_or_default()
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let hex = self.text(name);
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn array(&self, name: &str) -> [u8; 32] {
        self.bytes(name).try_into().unwrap()
    }

    fn static_key(&self, name: &str) -> StaticKey {
        StaticKey::from_bytes(&self.array(name))
    }

    fn public(&self, name: &str) -> Option<PublicKey> {
        self.0.contains_key(name).then(|| PublicKey(self.array(name)))
    }
}

fn keys(values: &Values, pattern: Pattern) -> (InitiatorKeys, ResponderKeys) {
    if pattern == Pattern::PreShared {
        let shared = PreSharedKey::from_bytes(&values.array("pre_shared"));
        return (InitiatorKeys::PreShared(shared.clone()), ResponderKeys { own: None, pre_shared: Some(shared) });
    }
    let own = values.static_key("initiator.static");
    let responder = values.public("responder.public").unwrap();
    let initiator = match pattern {
        Pattern::Pinned => InitiatorKeys::Pinned { own, responder },
        _ => InitiatorKeys::FirstContact { own, expected: Some(responder.fingerprint()) },
    };
    (initiator, ResponderKeys { own: Some(values.static_key("responder.static")), pre_shared: None })
}

/// Runs both endpoints, and checks that each message is identical to the vector's message.
fn handshake(values: &Values) -> (Established, Established) {
    let pattern = Pattern::from_id(values.number("pattern") as u8).unwrap();
    assert_eq!(pattern.name(), values.text("name"));
    let (keys, responder_keys) = keys(values, pattern);
    let prologue = values.bytes("prologue");
    let mut initiator = Initiator::new(keys, &prologue, values.array("initiator.seed")).unwrap();
    let (mut message, mut payload) = ([0; 1500], [0; 1500]);

    let length = initiator.write_first(&values.bytes("payload.1"), &mut message).unwrap();
    assert_eq!(message[..length], values.bytes("message.1"));
    let seed = values.array("responder.seed");
    let (responder, length) =
        Responder::read_first(&responder_keys, pattern, &prologue, seed, &message[..length], &mut payload).unwrap();
    assert_eq!(payload[..length], values.bytes("payload.1"));

    let (length, answered) = responder.write_second(&values.bytes("payload.2"), &mut message).unwrap();
    assert_eq!(message[..length], values.bytes("message.2"));
    let length = initiator.read_second(&message[..length], &mut payload).unwrap();
    assert_eq!(payload[..length], values.bytes("payload.2"));

    let mut half_open = match answered {
        Answered::Established(responder) => return (initiator.finish().unwrap(), responder),
        Answered::HalfOpen(half_open) => half_open,
    };
    let length = initiator.write_third(&values.bytes("payload.3"), &mut message).unwrap();
    assert_eq!(message[..length], values.bytes("message.3"));
    let (responder, length) = half_open.read_third(&responder_keys, &message[..length], &mut payload).unwrap();
    assert_eq!(payload[..length], values.bytes("payload.3"));
    (initiator.finish().unwrap(), responder)
}

#[test]
fn handshakes() {
    for text in [vector!("secure_handshake_xx"), vector!("secure_handshake_ik"), vector!("secure_handshake_nnpsk0")] {
        let values = Values::whole(text);
        let (initiator, responder) = handshake(&values);
        assert_eq!(initiator.peer(), values.public("responder.public"));
        assert_eq!(responder.peer(), values.public("initiator.public"));
        for established in [&initiator, &responder] {
            assert_eq!(established.handshake_hash(), values.array("handshake_hash"));
            assert_eq!(
                established.danger_traffic_secrets().map(|secret| *secret),
                ["traffic.from_initiator", "traffic.from_responder"].map(|name| values.array(name))
            );
        }
        for (cipher, name) in CIPHERS {
            first_datagrams(&values, cipher, name);
        }
    }
}

fn first_datagrams(values: &Values, cipher: Cipher, name: &str) {
    let (initiator, responder) = handshake(values);
    let (mut initiator_seals, mut initiator_opens) = initiator.into_keys(cipher);
    let (mut responder_seals, mut responder_opens) = responder.into_keys(cipher);
    for (seals, opens, direction) in [
        (&mut initiator_seals, &mut responder_opens, "from_initiator"),
        (&mut responder_seals, &mut initiator_opens, "from_responder"),
    ] {
        let (number, header) = (values.number("datagram.number"), values.bytes("datagram.header"));
        let sealed = values.bytes(&format!("datagram.{name}.{direction}"));
        datagram(seals, opens, (number, &header), &values.bytes("datagram.plaintext"), &sealed);
    }
}

fn datagram(
    seals: &mut SealKeys,
    opens: &mut OpenKeys,
    (number, header): (u64, &[u8]),
    plaintext: &[u8],
    sealed: &[u8],
) {
    let (mut buffer, mut tag) = (plaintext.to_vec(), [0; TAG_BYTES]);
    seals.seal(number, header, &mut buffer, &mut tag).unwrap();
    buffer.extend(tag);
    assert_eq!(buffer, sealed, "number {number}");
    let length = opens.open(number, header, &mut buffer).unwrap();
    assert_eq!(buffer[..length], *plaintext, "number {number}");
}

#[test]
fn packets() {
    for text in [
        vector!("secure_packets_aes_128_gcm"),
        vector!("secure_packets_aes_256_gcm"),
        vector!("secure_packets_chacha20_poly1305"),
    ] {
        let paragraphs = Values::paragraphs(text);
        let (setting, datagrams) = paragraphs.split_first().unwrap();
        let cipher = Cipher::from_id(setting.number("cipher") as u8).unwrap();
        assert_eq!(setting.number("direction"), Direction::FromInitiator as u64);
        let traffic = Secret(setting.array("traffic"));
        let mut seals = SealKeys::new(cipher, Direction::FromInitiator, &traffic);
        let mut opens = OpenKeys::new(cipher, Direction::FromInitiator, &traffic);
        assert_eq!(datagrams.len(), 6);
        for values in datagrams {
            let (number, header) = (values.number("number"), values.bytes("header"));
            let sealed = values.bytes("sealed");
            datagram(&mut seals, &mut opens, (number, &header), &values.bytes("plaintext"), &sealed);
            assert_eq!(seals.nonce_bytes(number).to_vec(), values.bytes("nonce"));
        }
    }
}

#[test]
fn cookies() {
    let paragraphs = Values::paragraphs(vector!("secure_cookie"));
    let (setting, cookies) = paragraphs.split_first().unwrap();
    let jar = CookieJar::new(setting.array("seed"));
    assert_eq!(cookies.len(), 3);
    for values in cookies {
        let (address, message) = (values.bytes("address"), values.bytes("message"));
        let id = values.number("connection_id") as u32;
        let cookie = jar.issue(values.number("step"), &address, id, &message);
        assert_eq!(cookie.to_vec(), values.bytes("cookie"));
        assert_eq!(cookie.len(), COOKIE_BYTES);
        assert!(jar.verify(values.number("step") + 1, &address, id, &message, &cookie));
    }
}

#[test]
fn reset_tickets() {
    let paragraphs = Values::paragraphs(vector!("secure_reset"));
    assert_eq!(paragraphs.len(), 3);
    for values in paragraphs {
        let key = ResetKey::from_bytes(&values.array("key")).at_port(values.number("port") as u16);
        let id = values.number("connection_id") as u32;
        let (question, token) = (values.bytes("question"), values.bytes("token"));
        let ticket = key.ticket(id, values.bytes("nonce").try_into().unwrap());
        assert_eq!(ticket.to_vec(), [&question[..], &token].concat());
        assert_eq!(key.answer(id, &question.try_into().unwrap()).unwrap().to_vec(), token);
    }
}

#[test]
fn keys_and_their_texts() {
    let mut checked = 0;
    for values in Values::paragraphs(vector!("secure_keys")) {
        if values.0.contains_key("seed") {
            let key = StaticKey::from_seed(&values.array("seed"));
            assert_eq!(*key.to_bytes(), values.array("static"));
            assert_eq!(key.public(), PublicKey(values.array("public")));
            assert_eq!(key.public().to_string(), values.text("public_text"));
            assert_eq!(key.public().fingerprint().to_string(), values.text("fingerprint"));
        } else {
            let key = PreSharedKey::from_file_content(&values.bytes("file")).unwrap();
            assert_eq!(*key.bytes(), values.array("pre_shared"));
        }
        checked += 1;
    }
    assert_eq!(checked, 5);
}
