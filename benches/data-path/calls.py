#!/usr/bin/env python3
"""Counts the functions and files of this project which an application byte passes, on its way down and on its way up.

    benches/data-path/calls.py [--list] [--checkout DIRECTORY]       by default the checkout of this script; needs valgrind

One program sends bytes over an encrypted session, another one receives them, over loopback, by `write` and `read` of the crate `dfcp`. Both
are compiled without inlining and run under callgrind, which writes each call and its number.

**Touch points** are functions below crates/ that call the cipher or the socket, or that copy a slice of about a symbol's length or more (by
std, so that the compiler's moves of values are none). **The way** is each touch point with all functions below crates/ that are on the
stack when it runs, back to the one that the application or the runtime calls. Of the sender only the way down counts (copies, sealing,
sending), of the receiver only the way up (receiving, opening, copies).

- A function counts if it is called at least CALLS_PER_BLOCK_MIN times for each block of the stream: those of handshake and answers are not.
- A closure, and the body of an `async fn`, count with the function that they are written in. Instances of a generic function count once.
- Functions of std and other crates do not count, and are passed through: what they call still has its caller on the stack.
- Not counted: functions that see a header or a length and return before the bytes are moved (routing, getters, clocks), and those which make
  a repair symbol: nothing is lost here, so each byte travels in a source symbol.
- Not told: a function which returns a slice of the bytes instead of working on them. It shortens the stack and is no touch point.

The list is in order of descent: a function stands below the first that calls it, with its calls for each datagram.
"""

import argparse
import collections
import functools
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys

BYTES = 6_000_000

# A block of 2^16 bytes at the rate of the run, less the room for its proofs.
BLOCK_BYTES = 63_500

CALLS_PER_BLOCK_MIN = 0.5

# Calls of other crates that move the bytes of datagrams, by the ends of their names.
MOVERS = {
    "down": ("seal_in_place_separate_tag", "UdpSocketState::try_send", "UdpSocketState::send"),
    "up": ("open_in_place", "UdpSocketState::recv"),
}

# Calls of std that copy slices. Values, too, are moved by `memcpy`, but not by these.
COPIES = ("copy_from_slice", "extend_from_slice", "copy_within", "put_slice", "to_vec")

# Of one `memcpy`, on the average: 32 bytes take about 3. A header's field takes 14, a symbol 110 and more.
COPY_INSTRUCTIONS_MIN = 64

# Callers that callgrind tells apart for each `memcpy`: std has up to four between a slice's copy and that.
COPY_CALLERS = 8

MANIFEST = """\
[package]
name = "way"
edition = "2024"

[workspace]

[dependencies]
dfcp = {{ path = "{checkout}/crates/dfcp" }}
rustix = {{ version = "1", default-features = false, features = ["use-libc-auxv"] }} # its own search fails under valgrind
tokio = {{ version = "1", features = ["net", "rt", "io-util", "macros", "time"] }}

[profile.dev]
opt-level = 0
debug = 1
incremental = false
"""

PROGRAM = """\
use std::time::Duration;

use dfcp::{{Config, Listener, PreSharedKey, Rate, Stream}};
use tokio::io::{{AsyncReadExt, AsyncWriteExt}};

const BYTES: usize = {bytes};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {{
    let secret = PreSharedKey::from_file_content(b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    let config = Config::pre_shared(secret).with_rate(Rate::Fixed {{ rate_bps: 20_000_000 }});
    match std::env::args().nth(1) {{
        None => receive(config).await,
        Some(address) => send(&address, config).await,
    }}
}}

async fn receive(config: Config) -> std::io::Result<()> {{
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), config)?;
    println!("{{}}", listener.local_addr()?);
    let mut stream = listener.accept().await?;
    let (mut piece, mut bytes) = (vec![0; 1 << 16], 0);
    loop {{
        match stream.read(&mut piece).await? {{
            0 => break,
            count => bytes += count,
        }}
    }}
    assert_eq!(bytes, BYTES);
    stream.shutdown().await
}}

async fn send(address: &str, config: Config) -> std::io::Result<()> {{
    let mut stream = Stream::connect(address, config).await?;
    let piece: Vec<u8> = (0..1 << 16).map(|at: u32| at.wrapping_mul(0x9E37_79B1).to_be_bytes()[0]).collect();
    for at in (0..BYTES).step_by(piece.len()) {{
        stream.write_all(&piece[..piece.len().min(BYTES - at)]).await?;
    }}
    stream.shutdown().await?;
    println!("{{}}", stream.stats().sent.source);
    assert_eq!(stream.read(&mut [0]).await?, 0);
    // The peer's end is acknowledged.
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok(())
}}
"""


def build(checkout):
    """The program, compiled with the crates of a checkout."""
    directory = checkout / "target/calls"
    (directory / "src").mkdir(parents=True, exist_ok=True)
    (directory / "Cargo.toml").write_text(MANIFEST.format(checkout=checkout))
    (directory / "src/main.rs").write_text(PROGRAM.format(bytes=BYTES))
    shutil.copy(checkout / "Cargo.lock", directory)
    command = ["cargo", "build", "--quiet", "--manifest-path", directory / "Cargo.toml", "--target-dir", directory]
    # Settings of the caller's for the profile would take precedence over the program's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CARGO_PROFILE_")}
    subprocess.run(command, check=True, env=environment)
    return directory / "debug/way"


def run(program):
    """Profiles of the sender and the receiver, and the number of datagrams with data."""
    sender, receiver = (program.parent / f"callgrind.{end}" for end in ("sender", "receiver"))

    def start(profile, *arguments):
        options = ["--quiet", "--demangle=no", f"--separate-callers{COPY_CALLERS}=__mem*", f"--callgrind-out-file={profile}"]
        command = ["valgrind", "--tool=callgrind", *options, program, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    with start(receiver) as receiving:
        try:
            with start(sender, receiving.stdout.readline().strip()) as sending:
                datagrams = int(sending.communicate(timeout=600)[0] or 0)
            receiving.wait(timeout=60)
        finally:
            receiving.kill()
    if sending.returncode or receiving.returncode:
        sys.exit(f"the sender ended with {sending.returncode}, the receiver with {receiving.returncode}")
    return sender, receiver, datagrams


ESCAPES = {"LT": "<", "GT": ">", "RF": "&", "BP": "*", "C": ",", "LP": "(", "RP": ")", "SP": "@"}


@functools.cache
def demangle(symbol):
    """The path of a function, without the hash of its instance."""
    symbol = symbol.split("'")[0]
    if not symbol.startswith("_ZN"):
        return symbol
    names, position = [], 3
    while found := re.compile(r"\d+").match(symbol, position):
        position = found.end() + int(found[0])
        names.append(symbol[found.end() : position])
    names = [name.removeprefix("_") if name.startswith("_$") else name for name in names if not re.fullmatch("h[0-9a-f]{16}", name)]

    def unescape(found):
        code = found[1]
        return chr(int(code[1:], 16)) if re.fullmatch("u[0-9a-f]+", code) else ESCAPES.get(code, found[0])

    return re.sub(r"\$(\w+?)\$", unescape, "::".join(names)).replace("..", "::")


class Profile:
    """Calls of a run by caller and callee, both by symbol: instances of a generic function are apart here, or `Option::map` would connect
    everything."""

    def __init__(self, path):
        self.calls = collections.Counter()
        self.instructions = collections.Counter()
        self.files = {}
        names = {}

        def name(text):
            # A name is written once, behind its number, and afterwards the number alone.
            number, _, text = text.partition(" ")
            return names.setdefault(number[1:-1], text)

        files, functions = {}, {}
        file = callee_file = call = None
        for line in path.read_text().splitlines():
            key, _, value = line.partition("=")
            if key in ("fl", "fi", "fe", "cfi", "cfl"):
                names = files
                found = name(value)
                file, callee_file = (found, callee_file) if key == "fl" else (file, found if key[0] == "c" else callee_file)
            elif key in ("fn", "cfn"):
                names = functions
                found = name(value)
                if key == "fn":
                    caller = found
                    self.files.setdefault(found, file)
                else:
                    callee = found
                    self.files.setdefault(found, callee_file or file)
                    callee_file = None
            elif key == "calls":
                call = (caller, callee)
                self.calls[call] += int(value.split()[0])
            elif call:
                self.instructions[call] += int(line.split()[1])
                call = None


class Way:
    """The way of a byte in one direction."""

    def __init__(self, profile, checkout, direction):
        prefix = f"{checkout}/crates/"
        self.profile = profile
        self.own = {symbol for symbol, file in profile.files.items() if file.startswith(prefix)}
        self.prefix = prefix
        self.least = CALLS_PER_BLOCK_MIN * BYTES / BLOCK_BYTES
        self.calls = {call: count for call, count in profile.calls.items() if count >= self.least}
        self.counts = self.count()
        touches = self.copiers() | {caller for caller, callee in self.calls if demangle(callee).endswith(MOVERS[direction])}
        self.touches = {symbol for symbol in touches & self.own if self.is_frequent(symbol)}
        self.symbols = self.ancestors(self.touches)

    def count(self):
        """Calls of each function. An `async fn` is polled by its closure; that of another function runs within it, and is no call."""
        calls, polls = collections.Counter(), collections.Counter()
        for (caller, callee), count in self.profile.calls.items():
            if callee in self.own and self.function(caller) != self.function(callee):
                counter = polls if "{{closure}}" in demangle(callee) else calls
                counter[self.function(callee)] += count
        return {function: calls[function] if calls[function] > 1 else polls[function] for function in calls | polls}

    def is_frequent(self, symbol):
        """True unless it is a function of this project that is called too seldom."""
        return symbol not in self.own or self.counts.get(self.function(symbol), 0) >= self.least

    def copiers(self):
        """Functions that copy long slices."""
        calls, instructions = collections.Counter(), collections.Counter()
        for call, count in self.profile.calls.items():
            name, *callers = call[1].split("'")
            if not re.match("__mem(cpy|move)", name):
                continue
            between = list(itertools.takewhile(lambda caller: caller not in self.own, callers))
            if len(between) < len(callers) and any(demangle(caller).endswith(COPIES) for caller in between):
                copy = (callers[len(between)], between[-1])
                calls[copy] += count
                instructions[copy] += self.profile.instructions[call]
        return {
            copier
            for (copier, copy), count in calls.items()
            if count >= self.least and instructions[copier, copy] >= COPY_INSTRUCTIONS_MIN * count
        }

    def ancestors(self, symbols):
        """These and all that are on the stack when they run."""
        callers = collections.defaultdict(set)
        for caller, callee in self.calls:
            callers[callee].add(caller)
        found, todo = set(symbols), list(symbols)
        while todo:
            new = {symbol for symbol in callers[todo.pop()] if self.is_frequent(symbol)} - found
            found |= new
            todo += new
        return found

    @staticmethod
    @functools.cache
    def function(symbol):
        """The function that a symbol's code is written in."""
        return re.sub(r"(::\{\{closure\}\})+$", "", demangle(symbol))

    def functions(self):
        """Functions of the way with their files, in order of descent, each with its depth and calls."""
        callees = collections.defaultdict(list)
        for caller, callee in self.calls:
            if caller in self.symbols and callee in self.symbols:
                callees[caller].append(callee)
        own = self.symbols & self.own
        listed, seen = {}, set()

        def visit(symbol, depth):
            if symbol in seen:
                return
            seen.add(symbol)
            if symbol in own and self.function(symbol) not in listed:
                file = self.profile.files[symbol].removeprefix(self.prefix)
                listed[self.function(symbol)] = (file, depth, self.counts[self.function(symbol)])
                depth += 1
            for callee in callees[symbol]:
                visit(callee, depth)

        called = {callee for caller, callee in self.calls if caller in self.symbols}
        for symbol in sorted(self.symbols - called) + sorted(self.symbols):
            visit(symbol, 0)
        return listed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--checkout", type=pathlib.Path, default=pathlib.Path(__file__).parents[2], metavar="DIRECTORY")
    parser.add_argument("--list", action="store_true", help="print the functions, too")
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    sys.setrecursionlimit(10_000)
    sender, receiver, datagrams = run(build(checkout))
    for direction, profile in (("down", sender), ("up", receiver)):
        way = Way(Profile(profile), checkout, direction)
        functions = way.functions()
        if not functions:
            sys.exit(f"{profile}: no touch point was found")
        files = {file for file, *_ in functions.values()}
        print(f"{direction}: {len(functions)} calls in {len(files)} files")
        touched = {way.function(symbol) for symbol in way.touches}
        for function, (file, depth, count) in functions.items() if arguments.list else ():
            mark = "*" if function in touched else " "
            print(f"  {count / datagrams:5.2f} {mark} {'  ' * depth}{function}  {file}")


main()
