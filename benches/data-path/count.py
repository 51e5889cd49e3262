#!/usr/bin/env python3
"""Counts the functions, and their files, that an application byte passes: down from the application's write to the system's send, and up
from the system's receive to the application's read. Needs gdb, nm and cargo.

    benches/data-path/count.py [CHECKOUT] [--target DIRECTORY]

The byte is one of 512 KiB which `crates/dfcp/examples/file.rs` sends sealed over loopback, in a build without optimisation, where each
function is one. The transfer runs twice for each direction, under gdb. A function of `crates/*/src` counts as passed if it is one of these:

- **It moves bytes.** It is on the stack, at least once for each 64 KiB, while 1000 bytes or more are copied, sealed or opened, or while the
  system is called to send or receive. Calls which lead there count, however deep.
- **It chooses them.** A function that moves bytes, or another that chooses, calls it, at least once for each data datagram, and what it
  returns holds a value of a type which a function that moves bytes is given (an address in memory, a number and a time are no such type).

Functions made of one source function (closures, instances of generic ones) are one. Nothing is listed by hand: a function which is new on
the way is counted.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TRANSFER_BYTES = 512 << 10
PIECE_BYTES = 64 << 10
DATAGRAM_BYTES = 1400
COPY_BYTES_MIN = 1000
RATE_MBPS = "1"
SYSTEM_CALLS = ("sendmsg", "sendmmsg", "recvmsg", "recvmmsg")
CIPHER = re.compile(r"ring.*aead.*(seal|open)_in_place")
# Types that are handed around everywhere, and choose nothing.
NO_CHOICE = re.compile(r"dfcp_time::|::config::|::limits::")

try:
    import gdb
except ImportError:
    gdb = None


# ---- within gdb: one run ----


def folded(name):
    """The source function's name: without closures and the arguments of generic functions."""
    depth, plain = 0, []
    for at, char in enumerate(name):
        if char == "<":
            depth += 1
        elif char == ">" and name[at - 1] != "-":
            depth -= 1
        elif depth == 0:
            plain.append(char)
    name = "".join(plain).replace("::::", "::")
    return re.sub(r"::\{(closure|async)[^}]*\}.*", "", name)


def station(symbol, checkout):
    """File and name of a function of the workspace's crates; None for any other."""
    if symbol is None or symbol.symtab is None:
        return None
    path = os.path.realpath(symbol.symtab.fullname())
    match = re.fullmatch(re.escape(checkout) + r"/(crates/[^/]+/src/.*)", path)
    return (match[1], folded(symbol.name)) if match else None


def stack(frame, checkout):
    """The workspace's functions on the stack, innermost first."""
    stations = []
    while frame is not None:
        here = station(frame.function(), checkout)
        if here:
            stations.append(here)
        frame = frame.older()
    return tuple(stations)


def mangled_names(program):
    lines = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True, check=True).stdout
    return [line.split()[2] for line in lines.splitlines() if line.split()[1] in "tT"]


def record_moves(settings):
    """Stacks at which bytes are moved, with how often that was."""
    seen = collections.Counter()

    class Move(gdb.Breakpoint):
        def stop(self):
            seen[stack(gdb.newest_frame(), settings["checkout"])] += 1
            return False

    gdb.execute("break main")
    gdb.execute("run")
    for function in ("memcpy", "memmove"):
        Move(function).condition = f"$rdx >= {COPY_BYTES_MIN}"
    for function in SYSTEM_CALLS:
        Move(function)
    for name in filter(CIPHER.search, mangled_names(settings["program"])):
        Move(name)
    gdb.execute("continue")
    return [[list(stations), count] for stations, count in seen.items()]


def types_in(value):
    """Names of the workspace's types that a type is made of, as it is written."""
    names = re.findall(r"\bdfcp\w*(?:::\w+)+", value.name or str(value))
    return {name for name in names if not NO_CHOICE.search(name)}


def signatures(settings):
    """The workspace's functions: their names in the program, and the types that they take and return."""
    found = collections.defaultdict(lambda: (set(), set(), set()))
    for name in mangled_names(settings["program"]):
        if "dfcp" not in name:
            continue
        try:
            block = gdb.block_for_pc(int(gdb.parse_and_eval(f"(u64)&'{name}'")))
        except gdb.error:
            continue
        while block and block.function is None:
            block = block.superblock
        here = station(block.function, settings["checkout"]) if block else None
        if here is None:
            continue
        names, takes, returns = found[here]
        names.add(name)
        if "{closure" not in block.function.name:
            kind = block.function.type
            takes.update(*(types_in(field.type) for field in kind.fields()))
            returns.update(types_in(kind.target()))
    return found


def record_choices(settings):
    """How often each function that may choose is called, and by which one."""
    calls = collections.defaultdict(collections.Counter)

    class Call(gdb.Breakpoint):
        def stop(self):
            here, *callers = stack(gdb.newest_frame(), settings["checkout"])
            calls[here][next((caller for caller in callers if caller != here), None)] += 1
            return False

    gdb.execute("break main")
    gdb.execute("run")
    functions = signatures(settings)
    moves = set(map(tuple, settings["moves"]))
    given = set().union(*(functions[here][1] for here in moves))
    for here, (names, _, returns) in list(functions.items()):
        if here not in moves and returns & given:
            for name in names:
                Call(name)
    gdb.execute("continue")
    return [[here, caller, count] for here, callers in calls.items() for caller, count in callers.items()]


def within_gdb():
    settings = json.loads(os.environ["DATA_PATH"])
    for setting in ("pagination off", "confirm off", "breakpoint pending on", "print thread-events off", "language rust"):
        gdb.execute(f"set {setting}")
    found = {"moves": record_moves, "choices": record_choices}[settings["record"]](settings)
    pathlib.Path(settings["output"]).write_text(json.dumps(found))


# ---- outside: four runs, and the sums ----


def built(checkout, target):
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": target,
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_DEV_OPT_LEVEL": "0",
        "CARGO_PROFILE_DEV_DEBUG": "2",
    }
    command = ["cargo", "build", "--quiet", "-p", "dfcp", "--example", "file"]
    subprocess.run(command, cwd=checkout, env=environment, check=True)
    return str(pathlib.Path(target) / "debug/examples/file")


def run(settings, side):
    """A transfer of which one side is under gdb; what was recorded there."""
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "secret").write_text(os.urandom(32).hex()[:43] + "=")
        (work / "original").write_bytes(os.urandom(TRANSFER_BYTES))
        output = work / "found.json"
        environment = {**os.environ, "DATA_PATH": json.dumps({**settings, "output": str(output)})}
        debugger = ["gdb", "-batch", "-nx", "-x", __file__, "--args"]

        def started(name, arguments):
            command = [*(debugger if name == side else []), settings["program"], *arguments]
            return subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )

        receiver = started("receive", ["receive", "127.0.0.1:0", str(work / "secret"), str(work / "copy")])
        heard = []
        for line in receiver.stdout:
            heard.append(line)
            address = re.search(r"waiting on (\S+)", line)
            if address:
                break
        else:
            sys.exit("the receiver did not start:\n" + "".join(heard))
        sender = started("send", ["send", address[1], str(work / "secret"), str(work / "original"), RATE_MBPS])
        said, _ = sender.communicate(timeout=600)
        received, _ = receiver.communicate(timeout=600)
        if not output.exists() or (work / "copy").read_bytes() != (work / "original").read_bytes():
            sys.exit(f"the transfer failed:\n{said}\n{''.join(heard)}{received}")
        return json.loads(output.read_text())


def passed(settings, side):
    """The functions that the byte passes on this side, as (file, name): those that move it, and those that choose it."""
    counts = collections.Counter()
    for stations, count in run({**settings, "record": "moves"}, side):
        counts.update(dict.fromkeys({tuple(function) for function in stations}, count))
    moves = {function for function, count in counts.items() if count >= TRANSFER_BYTES // PIECE_BYTES}
    calls = run({**settings, "record": "choices", "moves": sorted(moves)}, side)
    choices, before = set(), None
    while choices != before:
        before, counts = choices, collections.Counter()
        for function, caller, count in calls:
            if caller is not None and tuple(caller) in moves | choices:
                counts[tuple(function)] += count
        choices = {function for function, count in counts.items() if count >= TRANSFER_BYTES // DATAGRAM_BYTES}
    return moves, choices


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("checkout", nargs="?", default=str(pathlib.Path(__file__).resolve().parents[2]))
    parser.add_argument("--target", help="directory of the build; default: target/data-path of the checkout")
    arguments = parser.parse_args()
    checkout = os.path.realpath(arguments.checkout)
    program = built(checkout, os.path.realpath(arguments.target or f"{checkout}/target/data-path"))
    for name, side in (("down", "send"), ("up", "receive")):
        moves, choices = passed({"checkout": checkout, "program": program}, side)
        files = {path for path, _ in moves | choices}
        print(f"{name}: {len(moves | choices)} functions in {len(files)} files")
        for path, function in sorted(moves | choices):
            print(f"    {'moves  ' if (path, function) in moves else 'chooses'} {path}  {function}")


if gdb is None:
    main()
else:
    within_gdb()
