#!/usr/bin/env python3
"""Makes captures of UDP datagrams for the tests of dfcp.lua.

    make.py vectors OUT     every golden vector of spec/vectors, a datagram each
    make.py secured OUT     datagrams of encrypted connections in spec/vectors
    make.py opened OUT      the same as `dfcp decrypt` writes them
    make.py rejected OUT    every datagram which a decoder must refuse
    make.py hostile OUT     golden vectors that are cut, changed and filled with noise, from a seed
    make.py foreign OUT     noise, datagrams of other protocols, and golden vectors with an error: none of them is DFCP
    make.py check PDML      compares what tshark shows of `vectors` with the values which the vectors name
"""

import pathlib
import random
import re
import struct
import sys
import xml.etree.ElementTree

VECTORS = pathlib.Path(__file__).resolve().parents[3] / "spec" / "vectors"
sys.path.insert(0, str(VECTORS))
sys.dont_write_bytecode = True
from wire_reference import crc32c, read  # noqa: E402  (it is found by the path above)

DFCP_PORT = 4433
SEED, HOSTILE_DATAGRAMS, NOISE_DATAGRAMS = 1, 20_000, 100_000


def block(kind, body):
    body += bytes(-len(body) % 4)
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def packet(datagram, ports, captured=None):
    """An IPv4 packet, and of it `captured` bytes of the datagram."""
    udp = struct.pack(">4H", *ports, len(datagram) + 8, 0) + datagram
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, len(udp) + 20, 0, 0, 64, 17, 0, bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2]))
    data = ip + udp
    kept = data if captured is None else data[: 28 + captured]
    return kept, len(data)


def write(path, packets):
    """A pcapng file (draft-ietf-opsawg-pcapng) of raw IP packets, a millisecond apart."""
    with open(path, "wb") as file:
        file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        file.write(block(1, struct.pack("<HHI", 101, 0, 0)))
        for number, (data, length) in enumerate(packets):
            head = struct.pack("<5I", 0, 0, number * 1000, len(data), length)
            file.write(block(6, head + data))


def numbered(datagrams):
    """Each from a port of its own, so that none is recognised by what came before it."""
    return (packet(data, (40000 + number, DFCP_PORT)) for number, data in enumerate(datagrams))


def vectors():
    paths = sorted(VECTORS.glob("wire_*.txt"))
    return [(path.stem, *read(path)) for path in paths if path.stem != "wire_rejected"]


def secured(names=("syn", "synack", "ack", "data", "sealed_ack")):
    for path in sorted(VECTORS.glob("secure_connection_*.txt")):
        for line in path.read_text().splitlines():
            if line.partition(" = ")[0] in names:
                yield bytes.fromhex(line.partition(" = ")[2])


def opened():
    return secured(("syn", "synack", "ack", "data_opened", "sealed_ack_opened"))


def rejected():
    """Name and datagram of each case; payloads and S2 get a segment around them, which is right."""
    syn = dict((name, data) for name, _, data in vectors())["wire_syn_modern"]
    for text in (VECTORS / "wire_rejected.txt").read_text().split("case = ")[1:]:
        lines = text.splitlines()
        decoder = next(line.split(" = ")[1] for line in lines if line.startswith("decoder"))
        data = b"".join(bytes.fromhex(line.split("#")[0].split(" ", 1)[1]) for line in lines if re.match("[0-9a-f]{4}  ", line))
        if decoder == "handshake":
            data = syn[:44] + data
        elif decoder == "feedback":
            data = bytes.fromhex("c0a1e5d2 00000000 00000000 6808 0000 00000000 00000001") + data
        elif decoder == "s2":
            data = bytes.fromhex("c0a1e5d2 00000000 00000000 6800 0000") + data + bytes(4)
        yield lines[0], data if decoder == "segment" else data + crc32c(data).to_bytes(4, "big")


def change(datagram, draw):
    """One of the ways in which a datagram can be wrong; half of them with a CRC that is right, so that all of it is read."""
    data = bytearray(datagram)
    way = draw.randrange(7)
    if way == 0:
        return bytes(data[: draw.randrange(len(data) + 1)])
    if way == 1:
        return draw.randbytes(draw.randrange(1600))
    if way == 2:
        data[24:] = draw.randbytes(draw.randrange(200))
    elif way == 3:
        at = draw.randrange(len(data))
        data[at:at] = draw.randbytes(draw.randrange(20))
    elif way == 4:
        # Several in a packet: copies whose datagram numbers are right for the most part.
        data = b"".join(data[:20] + bytes([*data[20:23], (data[23] + number) % 256, *data[24:]]) for number in range(draw.randrange(1, 6)))
        data = bytearray(data[: len(data) - draw.randrange(2) * draw.randrange(len(datagram))])
    for _ in range(draw.randrange(5)):
        data[draw.randrange(len(data))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
    if draw.random() < 0.5:
        data[-4:] = crc32c(bytes(data[:-4])).to_bytes(4, "big")
    return bytes(data)


def hostile():
    draw = random.Random(SEED)
    good = [data for _, _, data in vectors()]
    for _ in range(HOSTILE_DATAGRAMS):
        data = change(draw.choice(good), draw)
        yield packet(data, (DFCP_PORT, DFCP_PORT), draw.randrange(len(data) + 1) if draw.random() < 0.3 else None)


def erroneous():
    """Golden vectors with a wrong bit, each of which is refused (wire-format.md §7); and encrypted datagrams with a checksum."""
    for _, values, data in vectors():
        for place in range(0 if "SEC" in values["flags"] else len(data) * 8):
            # Set on the way, SEC makes a segment look encrypted.
            if place != 13 * 8 + 2 or values["profile"] == "classic":
                bits = int.from_bytes(data, "big") ^ 1 << (len(data) * 8 - 1 - place)
                yield bits.to_bytes(len(data), "big")
    for data in secured():
        yield data[:15] + b"\x01" + data[16:]


def foreign():
    draw = random.Random(SEED)
    dns = bytes.fromhex("1234 0100 0001 0000 0000 0000 07 6578616d706c65 03 636f6d 00 0001 0001")
    ntp = bytes.fromhex("23 00 06 ec 00000000 00000000 00000000") + bytes(24) + draw.randbytes(8)
    stun = bytes.fromhex("0001 0000 2112a442") + draw.randbytes(12) + bytes(12)
    quic = bytes.fromhex("c3 00000001 08") + draw.randbytes(8) + bytes.fromhex("00 00 449e") + draw.randbytes(1180)
    rtp = bytes.fromhex("8060") + draw.randbytes(10) + draw.randbytes(160)
    for data in (dns, ntp, stun, quic, rtp, b"", bytes(100), b"\xff" * 100, b"\x80" + bytes(99)):
        yield packet(data, (40000, 40001))
    for number, data in enumerate(erroneous()):
        yield packet(data, (10000 + number % 50000, 10000 + number // 50000))
    for _ in range(NOISE_DATAGRAMS):
        # Half of them have what all sealed segments have: M, and a checksum field of zeros.
        data = bytearray(draw.randbytes(draw.choice((24, 40, 60, 100))))
        if draw.random() < 0.5:
            data[12], data[14:16] = data[12] | 0x08, b"\0\0"
        yield packet(bytes(data), (draw.randrange(1024, 65536), draw.randrange(32768, 65536)))


def named(values):
    """The vector's values without the numbers of its records. Flags and payload are compared apart."""
    lists = {}
    for name, text in values.items():
        name = name.split(".", 2)[2] if name.startswith("record.") else name
        if name not in ("flags", "type", "payload"):
            lists.setdefault(name, []).append(text)
    return lists


def fields_of(tree):
    lists = {}
    for field in tree.iter("field"):
        lists.setdefault(field.get("name").removeprefix("dfcp."), []).append(field)
    return lists


def number(text):
    words = {"true": 1, "false": 0, "classic": 0, "modern": 1}
    return words[text.lower()] if text.lower() in words else int(text, 0)


def merged(entries):
    """Runs of 64 and more take several entries."""
    runs = []
    for entry in entries:
        kind, _, count = entry.partition(" ")
        if runs and kind in ("complete", "empty") and runs[-1][0] == kind:
            runs[-1] = (kind, str(int(runs[-1][1]) + int(count)))
        else:
            runs.append((kind, count))
    return [f"{kind} {count}" for kind, count in runs]


def shown(name, fields):
    """What the dissector shows of what a vector calls `name`."""

    def texts(name):
        return [field.get("show") for prefix in ("", "record.", "report.") for field in fields.get(prefix + name, [])]

    rows = {"marks": ("mark_us", "mark_numbers", "mark_received"), "runs": ("gap", "lost")}
    if name == "marks" or name == "runs" and "run" in fields:
        return [" ".join(row) for row in zip(*map(texts, rows[name]))]
    if name in ("runs", "list"):
        return merged(texts("list"))
    return [number(text) for text in texts(name)]


def payload_of(fields, data):
    """The bytes behind header, options and words, as far as they are shown: opaque, or as parameters."""
    parts = [field.get("value") for part in ("payload", "ciphertext", "tag") for field in fields.get(part, [])]
    for field in fields.get("handshake", []):
        at = int(field.get("pos")) - 28
        parts.append(data[at : at + int(field.get("size"))].hex())
    return "".join(parts)


def differences(values, fields, data):
    """Names, values and what is shown instead; and how many values are shown as they are."""
    right = 0
    for name, texts in named(values).items():
        entries = [entry for text in texts for entry in text.split(", ") if entry]
        want = entries if name in ("marks", "runs", "list") else [number(entry) for entry in entries]
        if want == shown(name, fields):
            right += len(want)
        else:
            yield 0, f"{name}: vector {want}, shown {shown(name, fields)}"
    flags = {name.removeprefix("flags.").upper() for name, (field, *_) in fields.items() if name.startswith("flags.") and number(field.get("show"))}
    if flags != set(values["flags"].split("|")) - {"none"}:
        yield 0, f"flags: vector {values['flags']}, shown {flags}"
    if values.get("payload", "") != payload_of(fields, data) and "handshake.connection_id" not in values:
        yield 0, f"payload: vector {values.get('payload')}, shown {payload_of(fields, data)}"
    yield right, None


def check(path):
    trees = [packet.find("proto[@name='dfcp']") for packet in xml.etree.ElementTree.parse(path).getroot()]
    cases, failures, total = vectors(), 0, 0
    assert len(trees) == len(cases)
    for (name, values, data), tree in zip(cases, trees):
        for right, wrong in differences(values, fields_of(tree), data):
            total += right
            if wrong:
                failures += 1
                print(f"{name}: {wrong}")
    print(f"{total} values of {len(cases)} vectors are shown as they are, {failures} are not")
    return failures


def main():
    command, path = sys.argv[1:]
    if command == "check":
        return bool(check(path))
    packets = {
        "vectors": lambda: numbered(data for _, _, data in vectors()),
        "secured": lambda: numbered(secured()),
        "opened": lambda: numbered(opened()),
        "rejected": lambda: numbered(data for _, data in rejected()),
        "hostile": hostile,
        "foreign": foreign,
    }
    write(path, packets[command]())
    return 0


if __name__ == "__main__":
    sys.exit(main())
