#!/usr/bin/env python3
"""Computes the datagrams of wire_*.txt from their named values, by wire-format.md alone, and compares them with the
files' bytes: `python3 wire_reference.py`. wire_rejected.txt, which has no values, is left out. `--dump FILE` prints the
hex dump of a file which has values only."""

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


def options(values):
    kinds = [("version", 1), ("profile", 1), ("code", 1), ("symbol_size", 2), ("block_length", 4)]
    parts = []
    for kind, (name, length) in enumerate(kinds, 1):
        if text := values.get("option." + name):
            number = PROFILES[text] if text in PROFILES else int(text, 0)
            parts.append(bytes([kind, length]) + number.to_bytes(length, "big"))
    together = b"".join(parts)
    return parts, bytes(-len(together) % 4)


def handshake(values):
    names = [("connection_id", 4), ("window_blocks", 4), ("receive_memory_bytes", 8), ("rate_max_bps", 8)]
    for kind, (name, length) in enumerate([*names, ("idle_timeout_ms", 4)], 1):
        number = int(values["handshake." + name], 0)
        yield bytes([kind]) + length.to_bytes(2, "big") + number.to_bytes(length, "big")


def report(values):
    sizes = {"bytes_received": 8, "arrival_rate_bps": 8, "window_bytes": 8}
    names = "highest_datagram datagrams_received bytes_received hold_us arrival_rate_bps window_blocks window_bytes"
    for name in (names + " wasted_dependent wasted_late wasted_refused proof_cumulative proof_listed").split():
        yield int(values["report." + name], 0).to_bytes(sizes.get(name, 4), "big")
    for run in values["report.runs"].split(", "):
        kind, count = run.split(" ")[0], int(run.split(" ")[1])
        if kind == "open":
            yield bytes([count]) if count < 128 else bytes([0, count - 1])
            continue
        while count > 0:
            yield bytes([(0x80 if kind == "complete" else 0xC0) + min(count, 64) - 1])
            count -= 64


def fields(values):
    """The datagram's fields in order, checksum and CRC included."""
    modern = PROFILES[values["profile"]]
    flags = sum(FLAGS[name] for name in values["flags"].split("|"))
    if "connection_id" in values:
        identity = int(values["connection_id"], 0)
        ports = [identity >> 16, identity & 0xFFFF]
    else:
        ports = [int(values["source_port"]), int(values["destination_port"])]
    s2 = int(values["s2"], 0)
    if "block.k" in values:
        k, length = int(values["block.k"]), int(values["block.length_bytes"])
        assert s2 == k - 1 << 24 | length << 5 | (values["block.end_of_stream"] == "true") << 4
    option_parts, padding = options(values)
    offset = 6 + (sum(map(len, option_parts)) + len(padding)) // 4
    reserved = 0b100000 | int(values.get("epoch", "0")) if modern else 0
    front = [number.to_bytes(2, "big") for number in ports]
    front += [int(values[name], 0).to_bytes(4, "big") for name in ("block_id", "s1")]
    front.append((offset << 12 | reserved << 6 | flags).to_bytes(2, "big"))
    back = [number.to_bytes(4, "big") for number in (s2, int(values["s3"], 0))]
    back += [part for part in (*option_parts, padding) if part]
    if "handshake.connection_id" in values:
        back += handshake(values)
    elif "report.runs" in values:
        back += report(values)
    elif payload := values.get("payload"):
        back.append(bytes.fromhex(payload))
    everything = b"".join([*front, bytes(2), *back])
    checksum = 0 if modern else rfc1071(everything)
    trailer = [crc32c(everything).to_bytes(4, "big")] if modern and not flags & FLAGS["SEC"] else []
    return [*front, checksum.to_bytes(2, "big"), *back, *trailer]


def dump(parts):
    at = 0
    for part in parts:
        for start in range(0, len(part), 8):
            piece = part[start : start + 8]
            print(f"{at:04x}  {piece.hex(' ')}")
            at += len(piece)


def main():
    assert crc32c(b"123456789") == 0xE3069283
    if sys.argv[1:2] == ["--dump"]:
        return dump(fields(read(pathlib.Path(sys.argv[2]))[0]))
    files = sorted(pathlib.Path(__file__).parent.glob("wire_*.txt"))
    files = [path for path in files if path.stem != "wire_rejected"]
    wrong = []
    for path in files:
        values, data = read(path)
        if b"".join(fields(values)) != data:
            wrong.append(path.name)
    print(f"{len(files) - len(wrong)} of {len(files)} files agree", *wrong)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
