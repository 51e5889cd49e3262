#!/usr/bin/env python3
"""Writes random_linear_coefficients.txt and random_linear_block.txt from the text of fountain-code.md alone.

It shares no code with the Rust crate: the field is multiplied by long division, the decoder is not needed.
Run it inside this folder; the files must not change.
"""

MASK = (1 << 64) - 1


def splitmix64(seed):
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def coefficients(esi, k):
    if esi < k:
        return bytes(int(i == esi) for i in range(k))
    generator, out = splitmix64(esi), b""
    while len(out) < k:
        out += next(generator).to_bytes(8, "little")
    return bytes(byte or 1 for byte in out[:k])


def product(a, b):
    r = 0
    for bit in range(8):
        if b >> bit & 1:
            r ^= a << bit
    for bit in range(14, 7, -1):
        if r >> bit & 1:
            r ^= 0x11D << (bit - 8)
    return r


def symbol(block, k, esi):
    size = -(-len(block) // k)
    padded = block.ljust(k * size, b"\0")
    out = bytearray(size)
    for i, c in enumerate(coefficients(esi, k)):
        for at in range(size):
            out[at] ^= product(c, padded[i * size + at])
    return bytes(out)


def block_bytes(length):
    return bytes((i * i * 7 + i * 13 + (i >> 8) + 1) & 0xFF for i in range(length))


with open("random_linear_coefficients.txt", "w") as f:
    f.write("# Coefficients of repair symbols: ESI (decimal), K (decimal), coefficients 0 to K-1 (hexadecimal).\n")
    for esi, k in [(1, 1), (5, 1), (7, 7), (8, 8), (45, 45), (46, 45), (1000, 45), (256, 256), (65536, 256),
                   (4294967295, 256)]:
        f.write(f"{esi} {k} {coefficients(esi, k).hex()}\n")

with open("random_linear_block.txt", "w") as f:
    f.write("# Encoding symbols: K (decimal), block length (decimal), ESI (decimal), symbol (hexadecimal).\n")
    f.write("# Byte i of the block is (7*i*i + 13*i + floor(i/256) + 1) mod 256.\n")
    for k, length in [(1, 1), (1, 33), (3, 100), (5, 6), (7, 7 * 40), (45, 45 * 20 - 7), (256, 256 * 3 - 1)]:
        for esi in [0, k - 1, k, k + 1, 300, 4294967295]:
            f.write(f"{k} {length} {esi} {symbol(block_bytes(length), k, esi).hex()}\n")
