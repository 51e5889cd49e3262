#!/usr/bin/env python3
"""Compares live video over a bad path: plain UDP, SRT, and DFCP.

Plays an MPEG transport stream (2.6 Mbit/s in datagrams of 1316 bytes, one in 4 ms) through each contender, and tells what came
out in time:

  player → sender → dfcp relay (25 ms each way) → lossy_hop.py (loss in the data's direction) → receiver → here

A datagram is in time when it comes out at most DEADLINE after the player sent it, plus an allowance of 10 ms for the tools' own
timers; a second table has other allowances, so that the choice hides nothing. Player and receiver are one process with one
clock. Latency is that of what came out; a datagram which never came out is lost. Bytes are those of IP packets with IP and UDP
headers for each byte of payload that was played: in the measured part as lossy_hop.py counts them, before its losses, and in the
whole run, with set-up, as the relay does. A picture is exact when a decoder makes the same of what came in time as of what was
played.

Needs Linux, ffmpeg, srt-tools (Debian's names) and `cargo build --release -p dfcp-cli`:

  benches/live/live.py                                 all cells, about 100 min
  benches/live/live.py --contenders dfcp --losses 5    some of them
  benches/live/live.py --contenders ''                 the tables of what was measured before

Each cell goes as one line of JSON to WORK/results.jsonl, where a later one replaces an earlier one in the tables. A cell is
repeated when the machine stalled the player. Run on an idle machine, as root if possible (for nice -5). Command lines of the
contenders are in contenders.py.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import math
import os
import platform
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

# The sources' directory stays clean.
sys.dont_write_bytecode = True

from contenders import DELAY_MS, Ports, contenders
from stream import DATAGRAM_BYTES, INTERVAL_NS, Player, Receiver, Stream, pictures

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# For the tools' own timers: in time is a latency of at most the deadline and this.
ALLOWANCE_MS = 10
ALLOWANCES_MS = [0, 1, 2, 5, 10, 15, 20, 50]

# Percent lost, and the mean time of a burst in ms.
LOSSES = {"0": (0, None), "1": (1, None), "5": (5, None), "20": (20, None), "bursts": (5, 20)}
LOSS_TITLES = {"0": "0 %", "1": "1 %", "5": "5 %", "20": "20 %", "bursts": "5 % in bursts of 20 ms"}

CONNECT_MAX_S = 20
# Not counted: estimates of the path settle here. As in docs/measurements/messages.md.
LEAD_IN_S = 10
# Not counted: the last datagrams counted are not the last that are sent, which no receiver can miss before a time-out.
LEAD_OUT_S = 1
# After the end, for what is late.
DRAIN_S = 1

# A cell is repeated when the player itself was later than the allowance with more than this share of the datagrams, or later
# than this with one.
STALL_SHARE_MAX = 0.001
STALL_MAX_MS = 50
ATTEMPTS = 3


@dataclasses.dataclass
class Run:
    """What happened in one run: times in ns by index, and counters."""

    counted: range
    sent_ns: list[int]
    arrivals: list[tuple[int, int]]
    foreign: int
    late_ns: list[int]
    relay: dict
    hop: dict

    def stalled(self):
        late = sum(ns > ALLOWANCE_MS * 1e6 for ns in self.late_ns)
        return late > STALL_SHARE_MAX * len(self.late_ns) or max(self.late_ns) > STALL_MAX_MS * 1e6


def free_ports(count):
    """Ports that nothing uses now. All are chosen before any is given back, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]


def is_bound(port):
    """Whether a program has this UDP port. Connecting would not tell."""
    local = f":{port:04X}"
    tables = [Path(table).read_text() for table in ("/proc/net/udp", "/proc/net/udp6")]
    return any(line.split()[1].endswith(local) for table in tables for line in table.splitlines()[1:])


@contextlib.contextmanager
def running(command, port, log):
    """A program that listens on a port; asked to end when the context does. Its messages go to a file."""
    with open(log, "w", encoding="utf-8") as messages:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=messages, text=True)
    try:
        until = time.monotonic() + CONNECT_MAX_S
        while not is_bound(port):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{' '.join(command)}: does not listen on {port}: {Path(log).read_text()}")
            time.sleep(0.02)
        yield process
        if process.poll() is not None:
            raise RuntimeError(f"{' '.join(command)}: ended by itself: {Path(log).read_text()}")
    finally:
        process.terminate()
        try:
            process.output, _ = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.output, _ = process.communicate()


def hop_command(listen, to, loss, seed, both_ways):
    percent, burst_ms = LOSSES[loss]
    command = [sys.executable, str(HERE / "lossy_hop.py"), "--listen", str(listen), "--to", str(to)]
    command += ["--loss", str(percent), "--seed", str(seed)]
    command += ["--burst-ms", str(burst_ms)] if burst_ms else []
    return command + (["--both-ways"] if both_ways else [])


def relay_command(program, listen, to):
    ends = ["--listen", f"127.0.0.1:{listen}", "--to", f"127.0.0.1:{to}"]
    return [program, "relay", *ends, "--delay", f"{DELAY_MS}ms", "--json"]


def run_once(contender, loss, deadline_ms, stream, args):
    """One contender over one path."""
    source, path, hop_port, listen, out = free_ports(5)
    if contender.sender is None:
        source, listen = path, out
    ports = Ports(source, path, listen, out)
    work = args.work
    with Receiver(stream, out) as receiver, Player(stream, source) as player:
        with contextlib.ExitStack() as stack:
            command = hop_command(hop_port, listen, loss, args.seed, args.both_ways)
            hop = stack.enter_context(running(command, hop_port, work / "hop.log"))
            relay = stack.enter_context(running(relay_command(args.dfcp, path, hop_port), path, work / "relay.log"))
            if contender.sender is not None:
                command = contender.receiver(ports, deadline_ms)
                stack.enter_context(running(command, listen, work / "receiver.log"))
                command = contender.sender(ports, deadline_ms)
                stack.enter_context(running(command, source, work / "sender.log"))
            player.knock(receiver.heard, CONNECT_MAX_S)
            player.play(datagrams_in(LEAD_IN_S))
            hop.send_signal(signal.SIGUSR1)
            counted = player.play(datagrams_in(args.seconds))
            hop.send_signal(signal.SIGUSR2)
            late_ns = list(player.late_ns)
            player.play(datagrams_in(LEAD_OUT_S))
            time.sleep(deadline_ms / 1e3 + DRAIN_S)
        return Run(
            counted,
            player.sent_ns,
            list(receiver.arrivals),
            receiver.foreign,
            late_ns,
            json.loads(relay.output),
            json.loads(hop.output),
        )


def datagrams_in(seconds):
    return round(seconds * 1e9 / INTERVAL_NS)


def run_unstalled(contender, loss, deadline_ms, stream, args):
    for attempt in range(1, ATTEMPTS + 1):
        run = run_once(contender, loss, deadline_ms, stream, args)
        if not run.stalled():
            break
        note(f"  the machine stalled the player (attempt {attempt} of {ATTEMPTS})")
    return run


def percentile(ordered, share):
    """The least value which at least this share of all does not exceed."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None


def quantiles(values):
    ordered = sorted(values)
    names = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1}
    return {name: percentile(ordered, share) for name, share in names.items()}


def first_copies(run):
    """The counted datagrams that came out, as (index, latency in ms), in the order in which they did; and how many came again."""
    latency_ms = {}
    again = 0
    for index, at_ns in run.arrivals:
        if index in run.counted:
            again += index in latency_ms
            latency_ms.setdefault(index, (at_ns - run.sent_ns[index]) / 1e6)
    return list(latency_ms.items()), again


def out_of_order(copies):
    """How many came out after one that was sent later."""
    indices = [index for index, _ in copies]
    highest = itertools.accumulate(indices, max)
    return sum(index < before for index, before in zip(indices, highest))


def evaluate(run, deadline_ms, stream, work):
    """The numbers of a run for a deadline."""
    copies, again = first_copies(run)
    total = len(run.counted)
    in_time = [index for index, ms in copies if ms <= deadline_ms + ALLOWANCE_MS]
    frames, exact, complaints = pictures(stream, run.counted, in_time, work)
    measured_bytes = total * DATAGRAM_BYTES
    all_bytes = len(run.sent_ns) * DATAGRAM_BYTES
    forward, backward = run.hop["forward"], run.hop["backward"]
    return {
        "datagrams": total,
        "in_time_%": 100 * len(in_time) / total,
        "late_%": 100 * (len(copies) - len(in_time)) / total,
        "lost_%": 100 * (total - len(copies)) / total,
        "again": again,
        "out_of_order": out_of_order(copies),
        "damaged_or_foreign": run.foreign,
        "latency_ms": quantiles([ms for _, ms in copies]),
        "in_time_by_allowance_%": {
            str(allowance): 100 * sum(ms <= deadline_ms + allowance for _, ms in copies) / total
            for allowance in ALLOWANCES_MS
        },
        "sent_bytes_per_byte": forward["bytes"] / measured_bytes,
        "back_bytes_per_byte": backward["bytes"] / measured_bytes,
        "sent_bytes_per_byte_whole_run": run.relay["forward"]["received"]["bytes"] / all_bytes,
        "back_bytes_per_byte_whole_run": run.relay["backward"]["received"]["bytes"] / all_bytes,
        "path_lost_%": 100 * forward["lost"] / forward["datagrams"],
        "frames": frames,
        "frames_exact": exact,
        "decoder_complaints": complaints,
        "player_late_ms": quantiles([ns / 1e6 for ns in run.late_ns]),
        "stalled": run.stalled(),
    }


def measure(name, contender, loss, deadlines_ms, stream, args):
    """Runs one contender over one path, and records a line for each deadline. Tells whether it could."""
    note(f"{contender.title}, {LOSS_TITLES[loss]}, {'/'.join(map(str, deadlines_ms))} ms")
    try:
        run = run_unstalled(contender, loss, max(deadlines_ms), stream, args)
    except (RuntimeError, OSError) as error:
        note(f"  failed: {error}")
        return False
    for deadline_ms in deadlines_ms:
        result = evaluate(run, deadline_ms, stream, args.work)
        about = {"contender": name, "title": contender.title, "loss": loss, "deadline_ms": deadline_ms}
        about |= {"both_ways": args.both_ways, "seconds": args.seconds, "load": os.getloadavg()[0]}
        with open(args.work / "results.jsonl", "a", encoding="utf-8") as results:
            results.write(json.dumps(about | result) + "\n")
        note(f"  in time {result['in_time_%']:.2f} %, exact pictures {result['frames_exact']} of {result['frames']}")
    return True


def known_contenders(args):
    return contenders(args.dfcp, args.fec, str(args.work / "psk"))


def measure_all(args):
    """Measures every cell; a cell that fails does not keep the others from it. Tells whether all could be measured."""
    known = known_contenders(args)
    stream = Stream(make_stream(args))
    succeeded = True
    for loss, name in itertools.product(args.losses, args.contenders):
        contender = known[name]
        runs = [[deadline_ms] for deadline_ms in args.deadlines] if contender.uses_deadline else [args.deadlines]
        for deadlines_ms in runs:
            succeeded &= measure(name, contender, loss, deadlines_ms, stream, args)
    return succeeded


def make_stream(args):
    """A stream which does not begin again within a run: a decoder would take its time stamps for an error."""
    seconds = LEAD_IN_S + args.seconds + LEAD_OUT_S + 5
    path = args.work / f"stream-{seconds}s.ts"
    if not path.exists():
        subprocess.run([HERE / "make_ts.sh", path, str(seconds)], check=True)
    return path


def recorded(args):
    """The last result of each cell, in the tables' order."""
    path = args.work / "results.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    cells = {}
    for result in map(json.loads, lines):
        cells[result["loss"], result["deadline_ms"], result["title"], result["both_ways"]] = result
    order = list(known_contenders(args))
    losses = list(LOSSES)
    return sorted(
        (result for result in cells.values() if result["both_ways"] == args.both_ways),
        key=lambda result: (losses.index(result["loss"]), result["deadline_ms"], order.index(result["contender"])),
    )


def ms(value):
    return "–" if value is None else f"{value:.1f}"


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table(header, rows):
    return "\n".join([row(header), "|" + "---|" * len(header), *map(row, rows)])


def cell_name(result):
    return [LOSS_TITLES[result["loss"]], str(result["deadline_ms"]), result["title"]]


def main_row(result):
    latency = result["latency_ms"]
    return [
        *cell_name(result),
        *(f"{result[key]:.2f}" for key in ("in_time_%", "late_%", "lost_%")),
        *(ms(latency[name]) for name in ("p50", "p99", "p99.9", "max")),
        *(f"{result[key]:.3f}" for key in ("sent_bytes_per_byte", "back_bytes_per_byte")),
        f"{100 * result['frames_exact'] / result['frames']:.1f}",
    ]


def allowance_row(result):
    counters = ("again", "out_of_order", "damaged_or_foreign", "decoder_complaints")
    return [
        *cell_name(result),
        *(f"{share:.2f}" for share in result["in_time_by_allowance_%"].values()),
        *(str(result[key]) for key in counters),
        f"{result['path_lost_%']:.2f}",
        *(f"{result[f'{way}_bytes_per_byte_whole_run']:.3f}" for way in ("sent", "back")),
        ms(result["player_late_ms"]["max"]) + (" (stalled)" if result["stalled"] else ""),
    ]


MAIN_HEADER = ["loss", "deadline ms", "contender", "in time %", "late %", "lost %", "p50 ms", "p99 ms", "p99.9 ms", "max ms"]
MAIN_HEADER += ["bytes sent per byte", "bytes back per byte", "exact pictures %"]
ALLOWANCE_HEADER = ["loss", "deadline ms", "contender", *(f"+{allowance} ms" for allowance in ALLOWANCES_MS)]
ALLOWANCE_HEADER += ["again", "out of order", "damaged", "decoder complaints", "lost on the path %"]
ALLOWANCE_HEADER += ["whole run: bytes sent per byte", "whole run: bytes back per byte", "player late max ms"]


def noise(results):
    """What the harness itself adds: UDP alone without loss should take the path's delay."""
    for result in results:
        if (result["contender"], result["loss"]) == ("udp", "0"):
            added = {name: value - DELAY_MS for name, value in result["latency_ms"].items()}
            text = ", ".join(f"{name} {value:.2f}" for name, value in added.items())
            return f"Noise of the harness (UDP alone, no loss, latency less {DELAY_MS} ms), ms: {text}."
    return "Noise of the harness: not measured; run `--contenders udp --losses 0`."


def conditions(args):
    ways = "in both directions" if args.both_ways else "in the data's direction alone"
    srt = subprocess.run(["srt-live-transmit", "-version"], capture_output=True, text=True, check=False)
    version = (srt.stdout + srt.stderr).strip().splitlines()[0].split(":")[-1].strip()
    return (
        f"{time.strftime('%Y-%m-%d')}, Linux {platform.release()}, {os.cpu_count()} cores, libsrt {version}. "
        f"One-way delay {DELAY_MS} ms, loss {ways}, {DATAGRAM_BYTES} bytes every {INTERVAL_NS // 1_000_000} ms. "
        f"In time: at most the deadline and {ALLOWANCE_MS} ms. Of 7500 datagrams in 30 s, one is 0.013 %, and 0.1 % has a standard "
        "error of 0.04 % when losses are independent; bursts have a larger one, but the same bursts meet all contenders."
    )


def print_tables(args):
    results = recorded(args)
    print(conditions(args))
    print(f"\n{noise(results)}\n")
    print(table(MAIN_HEADER, map(main_row, results)))
    print("\nIn time, %, with other allowances:\n")
    print(table(ALLOWANCE_HEADER, map(allowance_row, results)))


def note(text):
    print(text, file=sys.stderr, flush=True)


def words(text):
    return [word for word in text.split(",") if word]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(contenders("", "", ""))
    parser.add_argument("--contenders", type=words, default=names, metavar="NAMES", help=f"of {','.join(names)}")
    parser.add_argument("--losses", type=words, default=list(LOSSES), metavar="NAMES", help=f"of {','.join(LOSSES)}")
    parser.add_argument("--deadlines", type=words, default=["35", "85", "155"], metavar="MS", help="from end to end")
    parser.add_argument("--seconds", type=int, default=30, help="counted time of a cell")
    parser.add_argument("--seed", type=int, default=1, help="of the losses")
    parser.add_argument("--both-ways", action="store_true", help="lose on the way back, too")
    # A row is ready after 20 ms, a column after 100 ms: larger ones, as 20 by 10, come too late at this rate.
    parser.add_argument("--fec", default="cols:5,rows:5,arq:always", metavar="TEXT", help="SRT's packet filter")
    parser.add_argument("--dfcp", default=str(ROOT / "target/release/dfcp"), metavar="PROGRAM")
    parser.add_argument("--work", type=Path, default=Path("/tmp/dfcp-live"), metavar="DIRECTORY")
    args = parser.parse_args()
    args.deadlines = list(map(int, args.deadlines))
    return args


def main():
    args = arguments()
    args.work.mkdir(parents=True, exist_ok=True)
    # `dfcp` refuses a secret that others can read.
    (args.work / "psk").touch(mode=0o600)
    (args.work / "psk").write_bytes(secrets.token_bytes(32))
    try:
        os.nice(-5)
    except PermissionError:
        note("not permitted to use nice -5: other programs may disturb the timing")
    # The receiver's thread shall not keep the player from the interpreter for the default of 5 ms.
    sys.setswitchinterval(0.0005)
    # So that the programs which were started are ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    succeeded = measure_all(args)
    print_tables(args)
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
