#!/usr/bin/env python3
"""Writes secure_*.txt from the text of security.md and of the Noise specification (revision 34) alone.

It shares no code with the Rust crate: the handshake is written out here; X25519, ChaCha20, ChaCha20-Poly1305 and AES-GCM
are those of the Python package `cryptography`. Run it inside this folder; the files must not change.
"""

import base64
import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def expand(secret, label, context=b"", length=32):
    info, out, block, count = b"DFCP 2 " + label.encode() + b"\0" + context, b"", b"", 1
    while len(out) < length:
        block = mac(secret, block + info + bytes([count]))
        out, count = out + block, count + 1
    return out[:length]


def sha256(data):
    return hashlib.sha256(data).digest()


def public(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def dh(private, their_public):
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(their_public))


def counted(first, length):
    return bytes((first + i) & 0xFF for i in range(length))


def ephemeral(seed):
    """The first 32 bytes of ChaCha20's key stream: how this implementation draws a key from a seed (not normative)."""
    return Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(32))


class Side:
    """One end of a Noise handshake; tokens as in the specification."""

    def __init__(self, name, prologue, initiator, s=None, e=None, rs=None, psk=None):
        self.h = name.ljust(32, b"\0") if len(name) <= 32 else sha256(name)
        self.ck, self.k, self.n = self.h, None, 0
        self.initiator, self.s, self.e, self.rs, self.re, self.psk = initiator, s, e, rs, None, psk
        self.mix_hash(prologue)

    def mix_hash(self, data):
        self.h = sha256(self.h + data)

    def hkdf(self, data, outputs):
        temp, out, block = mac(self.ck, data), [], b""
        for i in range(outputs):
            block = mac(temp, block + bytes([i + 1]))
            out.append(block)
        return out

    def mix_key(self, data):
        self.ck, self.k = self.hkdf(data, 2)
        self.n = 0

    def mix_psk(self):
        self.ck, temp, self.k = self.hkdf(self.psk, 3)
        self.mix_hash(temp)
        self.n = 0

    def nonce(self):
        self.n += 1
        return bytes(4) + (self.n - 1).to_bytes(8, "little")

    def seal(self, plaintext):
        out = plaintext if self.k is None else ChaCha20Poly1305(self.k).encrypt(self.nonce(), plaintext, self.h)
        self.mix_hash(out)
        return out

    def open(self, data):
        out = data if self.k is None else ChaCha20Poly1305(self.k).decrypt(self.nonce(), data, self.h)
        self.mix_hash(data)
        return out

    def secret(self, token):
        mine_first = self.initiator == (token[0] == "e") if token in ("es", "se") else None
        if token == "ee":
            return dh(self.e, self.re)
        if token == "ss":
            return dh(self.s, self.rs)
        # "es": the initiator's ephemeral with the responder's static key; "se" the other way round.
        return dh(self.e, self.rs) if mine_first else dh(self.s, self.re)

    def write(self, tokens, payload):
        out = b""
        for token in tokens:
            if token == "e":
                out += public(self.e)
                self.mix_hash(public(self.e))
                if self.psk is not None:
                    self.mix_key(public(self.e))
            elif token == "s":
                out += self.seal(public(self.s))
            elif token == "psk":
                self.mix_psk()
            else:
                self.mix_key(self.secret(token))
        return out + self.seal(payload)

    def read(self, tokens, message):
        for token in tokens:
            if token == "e":
                self.re, message = message[:32], message[32:]
                self.mix_hash(self.re)
                if self.psk is not None:
                    self.mix_key(self.re)
            elif token == "s":
                length = 32 if self.k is None else 48
                self.rs, message = self.open(message[:length]), message[length:]
            elif token == "psk":
                self.mix_psk()
            else:
                self.mix_key(self.secret(token))
        return self.open(message)


PATTERNS = {
    "xx": (1, b"Noise_XX_25519_ChaChaPoly_SHA256", [["e"], ["e", "ee", "s", "es"], ["s", "se"]]),
    "ik": (2, b"Noise_IK_25519_ChaChaPoly_SHA256", [["e", "es", "s", "ss"], ["e", "ee", "se"]]),
    "nnpsk0": (3, b"Noise_NNpsk0_25519_ChaChaPoly_SHA256", [["psk", "e"], ["e", "ee"]]),
}
CIPHERS = {"aes_128_gcm": (1, 16, AESGCM), "aes_256_gcm": (2, 32, AESGCM), "chacha20_poly1305": (3, 32, ChaCha20Poly1305)}


def epoch_keys(traffic, direction, cipher, epoch):
    number, length, _ = CIPHERS[cipher]
    context = bytes([direction, number])
    secret = expand(traffic, "epoch 0", context)
    for _ in range(epoch):
        secret = expand(secret, "next epoch", context)
    return expand(secret, "key", context, length), expand(secret, "iv", context, 12)


def seal(traffic, direction, cipher, number, header, plaintext):
    key, iv = epoch_keys(traffic, direction, cipher, number >> 28)
    nonce = (int.from_bytes(iv, "big") ^ number).to_bytes(12, "big")
    return key, nonce, CIPHERS[cipher][2](key).encrypt(nonce, plaintext, header)


def write(name, comment, lines):
    with open(name, "w") as f:
        f.write("".join(f"# {line}\n" for line in comment.splitlines()) + "\n")
        for line in lines:
            f.write(line if line == "\n" else f"{line[0]} = {line[1].hex() if isinstance(line[1], bytes) else line[1]}\n")


def handshake(pattern):
    number, name, messages = PATTERNS[pattern]
    prologue = b"DFCP 2" + counted(0x30, 14)
    seeds = counted(0x40, 32), counted(0x60, 32)
    statics = expand(counted(0x80, 32), "static key"), expand(counted(0xA0, 32), "static key")
    psk = counted(0xC0, 32) if pattern == "nnpsk0" else None
    sides = []
    for i in range(2):
        known = public(statics[1]) if pattern == "ik" and i == 0 else None
        sides.append(Side(name, prologue, i == 0, None if psk else statics[i], ephemeral(seeds[i]), known, psk))
    if pattern == "ik":
        for side in sides:
            side.mix_hash(public(statics[1]))
    lines = [("pattern", number), ("name", name.decode()), ("prologue", prologue)]
    if psk:
        lines.append(("pre_shared", psk))
    else:
        lines += [("initiator.static", statics[0]), ("responder.static", statics[1]),
                  ("initiator.public", public(statics[0])), ("responder.public", public(statics[1]))]
    lines += [("initiator.seed", seeds[0]), ("responder.seed", seeds[1]),
              ("initiator.ephemeral", ephemeral(seeds[0])), ("responder.ephemeral", ephemeral(seeds[1])), "\n"]
    for i, tokens in enumerate(messages):
        payload = counted(0x10 * i, [29, 23, 9][i])
        message = sides[i % 2].write(tokens, payload)
        assert sides[1 - i % 2].read(tokens, message) == payload
        lines += [(f"payload.{i + 1}", payload), (f"message.{i + 1}", message)]
    assert sides[0].h == sides[1].h and sides[0].ck == sides[1].ck
    secrets = sides[0].hkdf(b"", 2)
    lines += ["\n", ("handshake_hash", sides[0].h), ("traffic.from_initiator", secrets[0]),
              ("traffic.from_responder", secrets[1]), "\n"]
    header, plaintext = counted(0xE0, 24), b"the first datagram"
    lines += [("datagram.number", 7), ("datagram.header", header), ("datagram.plaintext", plaintext)]
    for cipher in CIPHERS:
        for i, direction in enumerate(("from_initiator", "from_responder")):
            sealed = seal(secrets[i], i + 1, cipher, 7, header, plaintext)[2]
            lines.append((f"datagram.{cipher}.{direction}", sealed))
    write(f"secure_handshake_{pattern}.txt",
          "A handshake and the first datagrams after it (security.md, 2 and 3).\n"
          "static, ephemeral: private keys. seed: from which this implementation draws the ephemeral key.", lines)


def packets(cipher):
    traffic = counted(0x01, 32)
    lines = [("cipher", CIPHERS[cipher][0]), ("traffic", traffic), ("direction", 1), "\n"]
    for number, length in [(0, 0), (1, 1), (77, 24), (2**28 - 1, 100), (2**28, 1420), (2**29 + 5, 33)]:
        header, plaintext = counted(number & 0xFF, 24), counted(0x20, length)
        key, nonce, sealed = seal(traffic, 1, cipher, number, header, plaintext)
        lines += [("number", number), ("key", key), ("nonce", nonce), ("header", header), ("plaintext", plaintext),
                  ("sealed", sealed), "\n"]
    write(f"secure_packets_{cipher}.txt",
          "Datagrams of one direction, sealed (security.md, 3). sealed: ciphertext, then tag.\n"
          "direction: 1 from the initiator, 2 from the responder.", lines[:-1])


def cookies():
    seed, lines = counted(0x33, 32), []
    for step, address, connection_id, message in [(0, b"", 1, b""), (255, bytes([192, 0, 2, 1, 0x23, 0x28]), 0x7F3B9A04, b"first"),
                                                  (2**40 + 3, counted(0x20, 18), 0xFFFFFFFF, counted(0, 96))]:
        data = len(address).to_bytes(8, "big") + address + connection_id.to_bytes(4, "big") + sha256(message)
        cookie = bytes([step & 0xFF]) + mac(expand(seed, "cookie", step.to_bytes(8, "big")), data)[:16]
        lines += [("step", step), ("address", address), ("connection_id", connection_id), ("message", message), ("cookie", cookie), "\n"]
    write("secure_cookie.txt", "Cookies as this implementation makes them (security.md, 5; not normative).",
          [("seed", seed), "\n"] + lines[:-1])


def resets():
    lines = []
    for key, port, connection_id, nonce in [(counted(0x10, 32), 4433, 0x7F3B9A04, counted(0x50, 8)), (bytes(32), 0, 1, bytes(8)),
                                            (counted(0xE0, 32), 65535, 0xFFFFFFFF, b"\xff" * 8)]:
        codes = expand(expand(key, "stateless reset", port.to_bytes(2, "big")), "session", connection_id.to_bytes(4, "big") + nonce, 24)
        lines += [("key", key), ("port", port), ("connection_id", connection_id), ("nonce", nonce),
                  ("question", nonce + codes[:8]), ("token", codes[8:]), "\n"]
    write("secure_reset.txt", "Reset tickets as this implementation makes them (security.md, 7; not normative).", lines[:-1])


def keys():
    lines = []
    for first in (0x00, 0x5A):
        seed = counted(first, 32)
        private = expand(seed, "static key")
        text = lambda data: base64.b64encode(data).decode().rstrip("=")
        lines += [("seed", seed), ("static", private), ("public", public(private)), ("public_text", text(public(private))),
                  ("fingerprint", "SHA256:" + text(sha256(public(private)))), "\n"]
    for content, used in [(b"correct horse battery staple, forty bytes\n", -1), (counted(0xF0, 32), 32), (b"x" * 31 + b"\r\n", -2)]:
        lines += [("file", content), ("pre_shared", expand(mac(bytes(32), content[:used]), "pre-shared key")), "\n"]
    write("secure_keys.txt", "Keys from seeds, their text forms, and pre-shared keys from what a file holds (security.md, 1).", lines[:-1])


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return (crc ^ 0xFFFFFFFF).to_bytes(4, "big")


def segment(ports, flags, options=b"", block=0, s1=0, s2=0, s3=0):
    """Header and options (wire-format.md, 1 and 4) of a modern segment of epoch 0."""
    control = (6 + len(options) // 4) << 12 | 0b100000 << 6 | flags
    words = [ports, block, s1, control << 16, s2, s3]
    return b"".join(word.to_bytes(4, "big") for word in words) + options


def parameter(kind, value):
    return bytes([kind]) + len(value).to_bytes(2, "big") + value


def offer(window, memory, rate, idle):
    return b"".join(parameter(kind, value.to_bytes(length, "big"))
                    for kind, value, length in [(2, window, 4), (3, memory, 8), (4, rate, 8), (5, idle, 4)])


def streams(bidirectional, one_way):
    """As many as the peer may open: the last parameters of an offer."""
    return parameter(21, bidirectional.to_bytes(4, "big")) + parameter(22, one_way.to_bytes(4, "big"))


# In the place of a tag, in captures (security.md, 6.1).
OPENED = b"DFCP opened" + bytes(5)


def connection(pattern):
    """Whole datagrams of a connection's begin."""
    number, name, messages = PATTERNS[pattern]
    ids = 0x7F3B9A04, 0x1122AABB
    seeds = counted(0x41, 32), counted(0x61, 32)
    statics = expand(counted(0x81, 32), "static key"), expand(counted(0xA1, 32), "static key")
    psk = counted(0xC1, 32) if pattern == "nnpsk0" else None
    syn, ack, sec = 0x02, 0x10, 0x20
    options = bytes([1, 1, 2, 2, 1, 1, 3, 1, 1, 4, 2]) + (1420).to_bytes(2, "big") + bytes([6, 4, 0, 0, 0, 0, 0])
    prologue = b"DFCP 2" + options + ids[0].to_bytes(4, "big")
    sides = [Side(name, prologue, i == 0, None if psk else statics[i], ephemeral(seeds[i]),
                  public(statics[1]) if pattern == "ik" and i == 0 else None, psk) for i in range(2)]
    if pattern == "ik":
        for side in sides:
            side.mix_hash(public(statics[1]))
    payloads = [offer(4096, 32 << 20, 0, 30000) + parameter(17, bytes([1, 3, 2])) + streams(0, 0),
                parameter(1, ids[1].to_bytes(4, "big")) + offer(1000, 16 << 20, 50_000_000, 20000)
                + parameter(17, bytes([1])) + parameter(18, (1400).to_bytes(2, "big")) + parameter(19, (2).to_bytes(4, "big"))
                + parameter(20, bytes(4)) + streams(100, 8),
                b""]
    noise = []
    for i, tokens in enumerate(messages):
        noise.append(sides[i % 2].write(tokens, payloads[i]))
        assert sides[1 - i % 2].read(tokens, noise[i]) == payloads[i]
    secrets = sides[0].hkdf(b"", 2)
    clear = [parameter(128, bytes([number]) + message) for message in noise]
    clear[0] = parameter(1, ids[0].to_bytes(4, "big")) + clear[0]
    head = segment(40000 << 16 | 9000, syn, options, s3=2)
    missing = 256 - 4 - len(head) - len(clear[0])
    clear[0] = parameter(0, bytes(missing - 3)) + clear[0]
    datagrams = [("syn", head + clear[0]), ("synack", segment(ids[0], syn | ack, s3=1) + clear[1])]
    if len(noise) == 3:
        datagrams.append(("ack", segment(ids[1], ack, s3=3) + clear[2]))
    datagrams = [(what, bytes + crc32c(bytes)) for what, bytes in datagrams]
    # One block of 11 bytes, K = 1, the stream's last; the symbol ends with its secret, 4 bytes.
    symbol, s2 = b"hello, wire" + bytes([0xDE, 0xAD, 0xBE, 0xEF]), 0 << 24 | 11 << 5 | 1 << 4
    data = segment(ids[1], sec, block=0, s1=0, s2=s2, s3=0)
    pong = segment(ids[0], ack | sec, s1=2, s3=0)
    lines = [("pattern", number)]
    lines += [("pre_shared", psk)] if psk else [("initiator.static", statics[0]), ("responder.static", statics[1]),
                                                ("responder.public", public(statics[1]))]
    lines += [("initiator.seed", seeds[0]), ("responder.seed", seeds[1]), ("initiator.id", ids[0]), ("responder.id", ids[1]), "\n"]
    lines += datagrams + ["\n", ("symbol", symbol)]
    lines += [("data", data + seal(secrets[0], 1, "aes_128_gcm", 0, data, symbol)[2]),
              ("sealed_ack", pong + seal(secrets[1], 2, "aes_128_gcm", 0, pong, b"")[2])]
    line = f"DFCP2_TRAFFIC_SECRETS 1 {sides[0].h.hex()} {ids[0]:08x} {ids[1]:08x} {secrets[0].hex()} {secrets[1].hex()}"
    lines += ["\n", ("key_log", line), ("data_opened", data + symbol + OPENED), ("sealed_ack_opened", pong + OPENED)]
    write(f"secure_connection_{pattern}.txt",
          "Whole datagrams of a sealed connection's begin: SYN, SYNACK, with pattern 1 the ACK, then the initiator's first data\n"
          "(one block, its only symbol ends with the secret) and a sealed ACK of the responder's, both under AES-128-GCM. Last its\n"
          "line of a key log, and these two as a capture has them when they are opened (security.md, 6).", lines)


for each in PATTERNS:
    handshake(each)
    connection(each)
for each in CIPHERS:
    packets(each)
cookies()
resets()
keys()
