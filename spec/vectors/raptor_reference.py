#!/usr/bin/env python3
"""Reference of DFCP's classic code, written from spec/fountain-code-classic.md; writes the golden vectors beside it.

Run in this folder: python3 raptor_reference.py
"""

SOURCE, CHECKS, INTERMEDIATE, SEGMENT, POOL = 63536, 2000, 65536, 1420, 1024
U32 = 0xFFFFFFFF
LEAST = (2, 8, 16)
MASKS = (0xFFFFFFFE, 0xFFFFFFF8, 0xFFFFFFF0)
OMEGA = (
    (1, 34226663), (2, 2119871247), (3, 713910892), (4, 312012818), (5, 354584619),
    (8, 240767758), (9, 159897657), (19, 238757710), (65, 107473182), (66, 13464749),
)
SALTS = {
    "precode": (0x9E3779B9, 0x3C6EF372, 0xDAA66D2B),
    "segment": (0x78DDE6E4, 0x1715609D, 0xB54CDA56),
}


class Taus88:
    """L'Ecuyer's algorithm: component j has parameters (q, s, k - s), applied as shifts."""

    def __init__(self, state):
        self.s = list(state)

    def draw(self):
        out = 0
        for j, (q, s, k_minus_s, k) in enumerate(((13, 12, 19, 31), (2, 4, 25, 29), (3, 17, 11, 28))):
            z = self.s[j]
            b = (((z << q) & U32) ^ z) >> k_minus_s
            mask = U32 ^ ((1 << (32 - k)) - 1)
            self.s[j] = (((z & mask) << s) & U32) ^ b
            out ^= self.s[j]
        return out


def warmed_up(words):
    g = Taus88([w + least if w < least else w for w, least in zip(words, LEAST)])
    for _ in range(6):
        g.draw()
    return g


def from_seed(seed):
    s1 = 69069 * (seed or 1) & U32
    s2 = 69069 * s1 & U32
    s3 = 69069 * s2 & U32
    return warmed_up((s1, s2, s3))


def mix(x):
    x ^= x >> 16
    x = x * 0x85EBCA6B & U32
    x ^= x >> 13
    x = x * 0xC2B2AE35 & U32
    return x ^ (x >> 16)


def derive(initial, purpose, number):
    return tuple(warmed_up([mix(w ^ mix(number ^ salt)) for w, salt in zip(initial, SALTS[purpose])]).s)


def pool(initial):
    states, seen, number = [], set(), 0
    while len(states) < POOL:
        state = derive(initial, "segment", number)
        key = tuple(w & m for w, m in zip(state, MASKS))
        if key not in seen:
            seen.add(key)
            states.append(state)
        number += 1
    return states


def pool_index(index, block):
    return ((block // 32) * 389 + index) % POOL


def distinct(g, count, modulus):
    chosen = []
    while len(chosen) < count:
        value = g.draw() % modulus
        if value not in chosen:
            chosen.append(value)
    return chosen


def precode(initial, block, source):
    g = Taus88(derive(initial, "precode", block))
    checks = bytearray(CHECKS)
    for byte in source:
        for check in distinct(g, 3, CHECKS):
            checks[check] ^= byte
    return bytes(checks)


def degree(draw):
    last = 0
    for d, steps in OMEGA:
        last += steps
        if draw <= last:
            return d
    raise AssertionError


def graph(state):
    g = Taus88(state)
    return [distinct(g, degree(g.draw()), INTERMEDIATE) for _ in range(SEGMENT)]


def encode(intermediate, neighbours):
    out = bytearray()
    for symbol in neighbours:
        value = 0
        for index in symbol:
            value ^= intermediate[index]
        out.append(value)
    return bytes(out)


def hex32(words):
    return " ".join(f"{w:08x}" for w in words)


def write_generator():
    lines = ["# Seeding: seed: s1 s2 s3 after it; then the next eight draws."]
    for seed in (0, 1, 2, 42, 0xDEADBEEF, 0xFFFFFFFF):
        g = from_seed(seed)
        lines.append(f"seed {seed:08x}: {hex32(g.s)}; {hex32([g.draw() for _ in range(8)])}")
    lines.append("# From a state: s1 s2 s3: the next eight draws; s1 s2 s3 after them.")
    for state in ((2, 8, 16), (11, 22, 33), (U32, U32, U32), (0x12345678, 0x9ABCDEF0, 0x0F1E2D3C)):
        g = Taus88(state)
        draws = [g.draw() for _ in range(8)]
        lines.append(f"state {hex32(state)}: {hex32(draws)}; {hex32(g.s)}")
    open("raptor_taus88.txt", "w").write("\n".join(lines) + "\n")


def write_states():
    lines = ["# precode: initial state; block ID: state of the block's precode."]
    initials = ((2, 8, 16), (11, 22, 33), (0x12345678, 0x9ABCDEF0, 0x0F1E2D3C))
    for initial in initials:
        for block in (0, 1, 2, 31, 32, 1000, U32):
            lines.append(f"precode {hex32(initial)}; {block:08x}: {hex32(derive(initial, 'precode', block))}")
    lines.append("# segment: initial state; block ID; index of the segment in the block: state in its header.")
    for initial in initials:
        states = pool(initial)
        for block, index in ((0, 0), (0, 1), (0, 1023), (0, 1024), (31, 5), (32, 5), (33, 700), (100000, 3), (U32, U32)):
            state = states[pool_index(index, block)]
            lines.append(f"segment {hex32(initial)}; {block:08x}; {index:08x}: {hex32(state)}")
    open("raptor_states.txt", "w").write("\n".join(lines) + "\n")


def write_block(name, initial, block, seed, length):
    g = from_seed(seed)
    source = bytes(g.draw() & 0xFF for _ in range(length)) + bytes(SOURCE - length)
    checks = precode(initial, block, source)
    states = pool(initial)
    lines = [
        "# A block: source byte i is the low byte of draw i of the generator seeded with `seed`, zeros from `length` on.",
        f"initial: {hex32(initial)}",
        f"block: {block:08x}",
        f"seed: {seed:08x}",
        f"length: {length:08x}",
        f"checks: {checks.hex()}",
    ]
    for index in (0, 1, 47):
        state = states[pool_index(index, block)]
        neighbours = graph(state)
        lines.append(f"# Segment {index}: its state, the neighbours of its first 24 symbols, its symbols.")
        lines.append(f"state: {hex32(state)}")
        for symbol in neighbours[:24]:
            lines.append("neighbours: " + " ".join(f"{i:04x}" for i in symbol))
        lines.append(f"symbols: {encode(source + checks, neighbours).hex()}")
    open(name, "w").write("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_generator()
    write_states()
    write_block("raptor_block_full.txt", (0x12345678, 0x9ABCDEF0, 0x0F1E2D3C), 0, 1, SOURCE)
    write_block("raptor_block_padded.txt", (11, 22, 33), 0xFFFF_0021, 7, 1000)
