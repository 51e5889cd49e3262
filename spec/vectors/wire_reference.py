#!/usr/bin/env python3
"""Computes the datagrams of wire_*.txt from their named values, by wire-format.md alone, and compares them with the
files' bytes: `python3 wire_reference.py`. wire_rejected.txt, which has no values, is left out. `--renew` rewrites the hex
dumps of the files which do not agree, from their values: so a new file needs values only."""

import pathlib
import sys

FLAGS = {"none": 0x00, "FIN": 0x01, "SYN": 0x02, "RST": 0x04, "FBK": 0x08, "ACK": 0x10, "SEC": 0x20}
PROFILES = {"classic": 0, "modern": 1}


def read(path):
    """The named values and the bytes of a file."""
    values, data = {}, b""
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if "=" in line:
            name, value = line.split("=", 1)
            values[name.strip()] = value.strip()
        elif line:
            data += bytes.fromhex(line.split(" ", 1)[1])
    return values, data


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def rfc1071(data):
    data += bytes(len(data) % 2)
    total = sum(int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF) or 0xFFFF


def parameter(name, kind, length, number, head):
    """A handshake parameter or an option, whose length field has `head` bytes."""
    data = bytes([kind]) + length.to_bytes(head, "big") + number.to_bytes(length, "big")
    return data, f"{'option' if head == 1 else 'parameter'} {name.replace('_', ' ')} = {number}"


def options(values):
    kinds = [("version", 1), ("profile", 1), ("code", 1), ("symbol_size", 2), ("block_length", 4), ("features", 4)]
    parts = []
    for kind, (name, length) in enumerate(kinds, 1):
        if text := values.get("option." + name):
            number = PROFILES[text] if text in PROFILES else int(text, 0)
            parts.append(parameter(name, kind, length, number, 1))
    return [*parts, (bytes(-sum(len(data) for data, _ in parts) % 4), "padding")]


def handshake(values):
    names = {1: ("connection_id", 4), 2: ("window_blocks", 4), 3: ("receive_memory_bytes", 8), 4: ("rate_max_bps", 8)}
    names |= {5: ("idle_timeout_ms", 4), 21: ("streams_bidirectional", 4), 22: ("streams_one_way", 4)}
    for kind, (name, length) in names.items():
        yield parameter(name, kind, length, int(values["handshake." + name], 0), 2)


def runs(text, block):
    """The entries of a list which starts with this block."""
    for run in filter(None, text.split(", ")):
        kind, count = run.split(" ")[0], int(run.split(" ")[1])
        if kind == "open":
            entry = bytes([count]) if count < 128 else bytes([0, count - 1])
            yield entry, f"block {block}: open, {count} missing"
            block += 1
            continue
        while count > 0:
            length = min(count, 64)
            yield bytes([(0x80 if kind == "complete" else 0xC0) + length - 1]), f"from block {block} on: {length} {kind}"
            count, block = count - length, block + length


def marks(text):
    """Each mark is time, numbers and datagrams received, back from the highest datagram."""
    for mark in text.split(", "):
        for number, name in zip(mark.split(" "), ("us", "numbers", "received")):
            yield int(number).to_bytes(3, "big"), f"{number} {name} back"


def integer(number):
    """RFC 9000 section 16, in the fewest bytes."""
    exponent = next(exponent for exponent in range(4) if number < 1 << (8 << exponent) - 2)
    return (exponent << (8 << exponent) - 2 | number).to_bytes(1 << exponent, "big")


def loss_runs(text):
    for run in filter(None, text.split(", ")):
        gap, length = (int(number) for number in run.split(" "))
        yield integer(gap), f"{gap} arrived"
        yield integer(length), f"{length} did not"


def messages(text, message):
    """The entries of a list of messages which starts with this one."""
    for run in text.split(", "):
        kind, *numbers = run.split(" ")
        numbers = [int(number) for number in numbers]
        if kind == "symbols":
            bits = bytearray(max(numbers) // 8 + 1)
            for number in numbers:
                bits[number // 8] |= 0x80 >> number % 8
            yield bytes([len(bits) - 1]) + bits, f"message {message}: symbols {', '.join(map(str, numbers))}"
            message += 1
            continue
        count = numbers[0]
        while count > 0:
            length = min(count, 64)
            yield bytes([(0x80 if kind == "complete" else 0xC0) + length - 1]), f"from message {message} on: {length} {kind}"
            count, message = count - length, message + length


def record(values, number):
    prefix = f"record.{number}."
    take = lambda name: (int(values[prefix + name], 0).to_bytes(4, "big"), f"{name.replace('_', ' ')} = {values[prefix + name]}")
    name = values[prefix + "type"]
    if name == "unseen":
        kind, parts = 8, [take("bidirectional"), take("one_way")]
    elif name == "arrival_clock":
        kind, parts = 3, [take("clock_us")]
    elif name == "marks":
        kind, parts = 4, list(marks(values[prefix + "marks"]))
    elif name == "ecn":
        kind, parts = 5, [take("ce"), take("ect")]
    elif name == "loss_runs":
        kind, parts = 6, list(loss_runs(values[prefix + "runs"]))
    elif name == "messages":
        kind, parts = 7, [take("first_id"), take("proof")]
        parts += messages(values[prefix + "list"], int(values[prefix + "first_id"], 0))
    else:
        names = ("stream", "next_needed", "blocks_read", "kib_read", "proof_cumulative", "proof_listed")
        kind, parts = 128, [take(name) for name in names]
        parts += runs(values[prefix + "runs"], int(values[prefix + "next_needed"], 0))
    length = sum(len(data) for data, _ in parts)
    yield bytes([kind]) + length.to_bytes(2, "big"), f"record {kind}, {length} bytes"
    yield from parts


def report(values):
    sizes = {"bytes_received": 8, "arrival_rate_bps": 8}
    names = "highest_datagram datagrams_received bytes_received hold_us arrival_rate_bps memory_kib"
    names += " streams_bidirectional streams_one_way wasted_dependent wasted_late wasted_refused"
    for name in names.split():
        text = values["report." + name]
        yield int(text, 0).to_bytes(sizes.get(name, 4), "big"), f"{name.replace('_', ' ')} = {text}"
    number = 1
    while f"record.{number}.type" in values:
        yield from record(values, number)
        number += 1


def message(values, s2):
    """The words behind the header of a message segment."""
    for name in ("clock_us", "age_us", "lifetime_us"):
        text = values["message." + name]
        yield int(text).to_bytes(4, "big"), f"{name.replace('_', ' ')} = {text}"
    if "message.count" in values:
        count, symbols = int(values["message.count"]), int(values["message.source_symbols"])
        assert s2 == 0
        yield count.to_bytes(2, "big") + symbols.to_bytes(2, "big"), f"{count} messages of {symbols} source symbols in all"
    else:
        assert s2 == int(values["message.k"]) - 1 << 24 | int(values["message.length_bytes"]) << 5


def fields(values):
    """The datagram's fields in order, checksum and CRC included, each with a comment."""
    modern = PROFILES[values["profile"]]
    flags = sum(FLAGS[name] for name in values["flags"].split("|"))
    if "connection_id" in values:
        identity = int(values["connection_id"], 0)
        ports = [(identity >> 16, f"connection id {identity:#010x}, upper half"), (identity & 0xFFFF, "its lower half")]
    else:
        ports = [(int(values[name + "_port"]), f"{name} port {values[name + '_port']}") for name in ("source", "destination")]
    s2 = int(values["s2"], 0)
    if "block.k" in values:
        k, length = int(values["block.k"]), int(values["block.length_bytes"])
        part = int(values.get("fragment.count", "1")) - 1 << 2 | int(values.get("fragment.index", "0"))
        assert s2 == k - 1 << 24 | length << 5 | (values["block.end_of_stream"] == "true") << 4 | part
    back = [(int(values[name], 0).to_bytes(4, "big"), f"{name.upper()} = {values[name]}") for name in ("s2", "s3")]
    extension = options(values)
    if "stream" in values:
        extension = [(int(values["stream"], 0).to_bytes(4, "big"), f"stream {values['stream']}")]
    is_message = "message.clock_us" in values
    if is_message:
        extension = list(message(values, s2))
    offset = 6 + sum(len(data) for data, _ in extension) // 4
    reserved = 0b100000 | is_message << 4 | int(values.get("epoch", "0")) if modern else 0
    front = [(number.to_bytes(2, "big"), comment) for number, comment in ports]
    front.append((int(values["block_id"], 0).to_bytes(4, "big"), f"block id {values['block_id']}"))
    front.append((int(values["s1"], 0).to_bytes(4, "big"), f"S1 = {values['s1']}"))
    control = f"data offset {offset}, reserved {reserved:06b}, flags {flags:06b} ({values['flags']})"
    front.append(((offset << 12 | reserved << 6 | flags).to_bytes(2, "big"), control))
    back += extension
    if "handshake.connection_id" in values:
        back += handshake(values)
    elif "report.hold_us" in values:
        back += report(values)
    elif payload := values.get("payload"):
        back.append((bytes.fromhex(payload), "payload"))
    everything = b"".join(data for data, _ in [*front, (bytes(2), ""), *back])
    checksum = (0 if modern else rfc1071(everything)).to_bytes(2, "big")
    middle = (checksum, "checksum field, zero in modern segments" if modern else "checksum")
    crc = (crc32c(everything).to_bytes(4, "big"), "CRC-32C of everything before")
    trailer = [crc] if modern and not flags & FLAGS["SEC"] else []
    return [(data, comment) for data, comment in [*front, middle, *back, *trailer] if data]


def dump(parts):
    at = 0
    for data, comment in parts:
        for start in range(0, len(data), 8):
            piece = data[start : start + 8]
            yield f"{at:04x}  {piece.hex(' '):24} # {'...' if start else comment}"
            at += len(piece)


def renew(path, parts):
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not line[:4].strip() or "=" in line.split("#")[0] or line.startswith("#")]
    text = "\n".join(kept).rstrip("\n") + "\n\n" + "\n".join(dump(parts)) + "\n"
    path.write_text(text)


def main():
    assert crc32c(b"123456789") == 0xE3069283
    files = sorted(pathlib.Path(__file__).parent.glob("wire_*.txt"))
    files = [path for path in files if path.stem != "wire_rejected"]
    wrong = []
    for path in files:
        values, data = read(path)
        parts = fields(values)
        if b"".join(data for data, _ in parts) != data:
            wrong.append(path.name)
            if sys.argv[1:] == ["--renew"]:
                renew(path, parts)
    print(f"{len(files) - len(wrong)} of {len(files)} files agree", *wrong)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
