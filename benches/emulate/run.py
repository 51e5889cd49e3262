#!/usr/bin/env python3
"""TCP and UDP by iperf3 over paths of `dfcp emulate`: goodput against what the path has room for, lateness, CPU time.

    cargo build --release -p dfcp-cli && sudo benches/emulate/run.py target/release/dfcp [--seconds 5] [--only rates]

Prints Markdown. `ethtool` is needed where offloads are switched off. Times depend on what else the machine does: its other load
stands above each table.
"""

import argparse
import json
import os
import subprocess

# Payload and IP bytes of a full TCP segment with timestamps.
TCP_SHARE = 1448 / 1500
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """Of the emulator alone: its children are not counted before they are waited for."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    except (FileNotFoundError, ProcessLookupError):
        return None


def run(dfcp, options, client, before="true"):
    """What iperf3 and the emulator say, and the emulator's CPU seconds. (iperf3 gives up if the first datagram of UDP is lost.)"""
    while True:
        end, summary, cpu = run_once(dfcp, options, client, before)
        if "sum_received" in end or "sum" in end:
            return end, summary, cpu


def run_once(dfcp, options, client, before):
    script = f"{before}; iperf3 -J {client} -c 198.18.0.2"
    line = [dfcp, "emulate", *options, "--json", "--server", f"{before}; exec iperf3 -s -1 >/dev/null 2>&1", "--", "sh", "-c", script]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    cpu = 0.0
    while True:
        try:
            out, _ = process.communicate(timeout=0.1)
            break
        except subprocess.TimeoutExpired:
            cpu = cpu_seconds(process.pid) or cpu
    text, summary = out.rstrip().rsplit("\n", 1)
    return json.loads(text).get("end", {}), json.loads(summary), cpu


def received(end):
    return end.get("sum_received", end.get("sum"))["bits_per_second"] / 1e6


def late(summary):
    lateness = summary["forward"]["lateness"]
    return f"{lateness['p50_ms']:.3f} | {lateness['p99_ms']:.3f} | {lateness['max_ms']:.1f}"


def table(*columns):
    print(f"\nOther load: {os.getloadavg()[0]:.1f} processes.\n\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns), flush=True)


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def rates(args):
    table("rate", "coalesce", "goodput, Mbit/s", "of the possible", "late p50, ms", "p99", "most", "packets per write", "CPU, µs per packet")
    for rate in [50, 100, 300, 500, 950, None]:
        for coalesce in ["0ms", "0.1ms"]:
            options = ["--coalesce", coalesce] + (["--delay", "5ms", "--rate", f"{rate}mbit"] if rate else [])
            end, summary, cpu = run(args.dfcp, options, f"-C cubic -t {args.seconds}")
            forward = summary["forward"]
            packets = forward["forwarded"]["packets"]
            both = packets + summary["backward"]["forwarded"]["packets"]
            goodput = received(end)
            share = f"{goodput / (rate * TCP_SHARE):.3f}" if rate else "–"
            row(f"{rate} Mbit/s" if rate else "unlimited", coalesce, f"{goodput:.0f}", share, late(summary), f"{packets / forward['writes']:.1f}", f"{cpu / both * 1e6:.2f}")


def offloads(args):
    off = "ethtool -K near tso off gso off >/dev/null 2>&1 || ethtool -K far tso off gso off >/dev/null"
    table("rate", "superpackets", "loss asked, %", "seen", "goodput, Mbit/s", "late p99, ms", "packets per write", "CPU, µs per packet")
    for rate, loss in [("300mbit", "0"), ("300mbit", "0.1"), ("950mbit", "0"), (None, "0")]:
        for name, before in [("kept as runs", "true"), ("switched off", off)]:
            options = ["--loss", f"{loss}%"] + (["--delay", "5ms", "--rate", rate] if rate else [])
            end, summary, cpu = run(args.dfcp, options, f"-C cubic -t {args.seconds}", before)
            forward = summary["forward"]
            packets = forward["forwarded"]["packets"]
            both = packets + summary["backward"]["forwarded"]["packets"]
            seen = forward["lost"]["packets"] / forward["received"]["packets"] * 100
            p99 = forward["lateness"]["p99_ms"]
            row(rate or "unlimited", name, loss, f"{seen:.3f}", f"{received(end):.0f}", f"{p99:.3f}", f"{packets / forward['writes']:.1f}", f"{cpu / both * 1e6:.2f}")


def losses(args):
    table("loss asked, %", "counted by the emulator", "counted by iperf3's UDP receiver")
    for loss in ["0", "0.1", "1", "5", "20"]:
        end, summary, _ = run(args.dfcp, ["--loss", f"{loss}%", "--rate", "100mbit"], f"-u -b 40M -t {args.seconds}")
        forward = summary["forward"]
        seen = forward["lost"]["packets"] / forward["received"]["packets"] * 100
        row(loss, f"{seen:.3f}", f"{end['sum']['lost_percent']:.3f}")


def congestion(args):
    table("loss, %", "congestion control", "goodput, Mbit/s, of 200 with 10 ms of round-trip time")
    for loss in ["0", "0.1", "1"]:
        for algorithm in ["cubic", "reno", "bbr"]:
            options = ["--rate", "200mbit", "--delay", "5ms", "--queue", "167", "--loss", f"{loss}%"]
            end, _, _ = run(args.dfcp, options, f"-C {algorithm} -t {args.seconds * 2}")
            row(loss, algorithm, f"{received(end):.1f}")


TABLES = {"rates": rates, "offloads": offloads, "losses": losses, "congestion": congestion}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dfcp")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--only", choices=TABLES, action="append")
    args = parser.parse_args()
    args.dfcp = os.path.abspath(args.dfcp)
    for name in args.only or TABLES:
        TABLES[name](args)


if __name__ == "__main__":
    main()
