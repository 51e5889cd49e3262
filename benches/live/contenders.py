"""The contenders' command lines. When an option changes, this is the one place to change."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

SRT_END = str(Path(__file__).resolve().with_name("srt_end.py"))

# One-way delay of the path, ms, each way.
DELAY_MS = 25


@dataclass(frozen=True)
class Ports:
    """UDP ports of 127.0.0.1. Data goes player → source → path → listen → out."""

    # Where the sender takes the player's datagrams.
    source: int
    # The path's near end: what the sender sends to.
    path: int
    # The path's far end sends to this: where the receiver listens.
    listen: int
    # Where the receiver delivers datagrams.
    out: int


@dataclass(frozen=True)
class Contender:
    """Both ends' command lines for ports and a deadline in ms; without ends, the player sends into the path itself."""

    title: str
    receiver: Callable[[Ports, int], list[str]] | None = None
    sender: Callable[[Ports, int], list[str]] | None = None
    # Whether the deadline changes anything: if not, one run serves all.
    uses_deadline: bool = True


def srt_latency_ms(deadline_ms):
    """SRT's `latency` for a deadline from end to end.

    `latency` is not the time from end to end. The receiver delivers at start_time + TS + latency + drift, where TS is the
    sender's time stamp and start_time is the arrival of the sender's handshake less the handshake's own time stamp, so it
    includes the network's delay at that moment:
        PTS[x] - STS[x] = prg_delay[0] + net_delay[0] + LATENCY + DRIFT
    (docs/features/latency.md of Haivision/srt; CUDT::processSrtMsg_HSREQ of v1.5.1: `m_tsRcvPeerStartTime =
    steady_clock::now() - ts`, "Also includes current packet transit time"). The deadline counts from the player's send, so
    the one-way delay is subtracted.
    """
    return deadline_ms - DELAY_MS


def srt_live_transmit():
    """Debian's tool with the defaults of live mode. It adds 0 to 10 ms of its own: srt_end.py tells why."""

    def receiver(ports, deadline_ms):
        source = f"srt://127.0.0.1:{ports.listen}?mode=listener&latency={srt_latency_ms(deadline_ms)}"
        return ["srt-live-transmit", source, f"udp://127.0.0.1:{ports.out}"]

    def sender(ports, deadline_ms):
        target = f"srt://127.0.0.1:{ports.path}?mode=caller&latency={srt_latency_ms(deadline_ms)}"
        return ["srt-live-transmit", f"udp://127.0.0.1:{ports.source}", target]

    return Contender("srt-live-transmit", receiver, sender)


def srt(title, *settings):
    """libsrt with the defaults of live mode and these settings, between ends which add nothing."""

    def options(deadline_ms):
        pairs = [f"latency={srt_latency_ms(deadline_ms)}", *settings]
        return [word for pair in pairs for word in ("--set", pair)]

    def receiver(ports, deadline_ms):
        ends = ["--listen", str(ports.listen), "--out", str(ports.out)]
        return [sys.executable, SRT_END, "receive", *ends, *options(deadline_ms)]

    def sender(ports, deadline_ms):
        ends = ["--in", str(ports.source), "--to", str(ports.path)]
        return [sys.executable, SRT_END, "send", *ends, *options(deadline_ms)]

    return Contender(title, receiver, sender)


def dfcp(program, title, *options, order="kept"):
    """`dfcp pipe`, whose deadline is the time from end to end."""

    def receiver(ports, _deadline_ms):
        ends = ["--listen", f"127.0.0.1:{ports.listen}", "--out", f"127.0.0.1:{ports.out}"]
        return [program, "pipe", "serve", *ends, "--order", order, *options]

    def sender(ports, deadline_ms):
        ends = ["--in", f"127.0.0.1:{ports.source}", "--to", f"127.0.0.1:{ports.path}"]
        return [program, "pipe", "udp", *ends, "--deadline", f"{deadline_ms}ms", *options]

    return Contender(title, receiver, sender)


def contenders(program, fec, psk_file):
    """All contenders by name. `program` is the `dfcp` command, `psk_file` a file with a secret of 32 bytes."""
    return {
        "udp": Contender("UDP alone", uses_deadline=False),
        "srt-tool": srt_live_transmit(),
        "srt": srt("SRT"),
        "srt-eager": srt("SRT, retransmitalgo=0", "retransmitalgo=0"),
        "srt-fec": srt(f"SRT, FEC {fec}", f"packetfilter=fec,{fec}"),
        # Plaintext, as SRT is without a passphrase.
        "dfcp": dfcp(program, "DFCP", "--insecure-plaintext"),
        # As SRT, whose rate answers no congestion by default.
        "dfcp-fixed": dfcp(program, "DFCP, --rate 20mbit", "--insecure-plaintext", "--rate", "20mbit"),
        # As SRT, it delivers all datagrams equally late.
        "dfcp-steady": dfcp(program, "DFCP, --order steady", "--insecure-plaintext", order="steady"),
        "dfcp-psk": dfcp(program, "DFCP, encrypted", "--psk-file", psk_file),
    }
