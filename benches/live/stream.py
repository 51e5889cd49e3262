"""The stream: its datagrams, their player and their receiver, and a check of the pictures that arrived."""

import secrets
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

TS_PACKET_BYTES = 188
# What a sender of MPEG transport streams over UDP puts into a datagram: the most that fits an Ethernet frame.
DATAGRAM_BYTES = 7 * TS_PACKET_BYTES
CONTENT_BYTES = 6 * TS_PACKET_BYTES
# 2.632 Mbit/s of payload; make_ts.sh computes its rate from this.
INTERVAL_NS = 4_000_000

# A null packet: sync byte, PID 0x1fff, payload only. Every demultiplexer discards it (ISO/IEC 13818-1, 2.4.3.3).
NULL_HEADER = b"\x47\x1f\xff\x10"
MARKER = struct.Struct(">4s8sQ")

# Linux, asm-generic/socket.h; Python does not name it.
SO_TIMESTAMPNS = getattr(socket, "SO_TIMESTAMPNS", 35)
TIMESPEC = struct.Struct("@qq")
# Bytes: several seconds of the stream, so that no datagram is lost here.
SOCKET_BUFFER_BYTES = 4 << 20


def now_ns():
    """The clock of SO_TIMESTAMPNS, so that sent and received times can be subtracted."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


class Stream:
    """Datagrams of a transport stream, identified by an index.

    The index is in a null packet, the seventh of each datagram. A hash of the content would not do: every sixteenth datagram of
    the stream equals an earlier one (null packets of the muxer, repeated tables). What comes back is compared with what was
    sent under its index, so that damage is not taken for delivery. `run` keeps an earlier cell's datagrams apart.
    """

    def __init__(self, path):
        self.content = Path(path).read_bytes()
        self.count = len(self.content) // CONTENT_BYTES
        self.run = secrets.token_bytes(8)

    def content_of(self, index):
        begin = index % self.count * CONTENT_BYTES
        return self.content[begin : begin + CONTENT_BYTES]

    def datagram(self, index):
        marker = MARKER.pack(NULL_HEADER, self.run, index)
        return self.content_of(index) + marker.ljust(TS_PACKET_BYTES, b"\xff")

    def index_of(self, datagram):
        """The index, or `None` if it is not a datagram of this run as it was sent."""
        if len(datagram) != DATAGRAM_BYTES:
            return None
        header, run, index = MARKER.unpack_from(datagram, CONTENT_BYTES)
        if header != NULL_HEADER or run != self.run or datagram != self.datagram(index):
            return None
        return index


class Receiver:
    """Receives datagrams on a thread and records when the kernel received each: this program's own delays do not count."""

    def __init__(self, stream, port):
        self.stream = stream
        self.arrivals = []
        self.foreign = 0
        self.heard = threading.Event()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.bind(("127.0.0.1", port))
        self.socket.settimeout(0.1)
        self.stopping = False
        self.thread = threading.Thread(target=self._receive)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join()
        self.socket.close()

    def _receive(self):
        while not self.stopping:
            try:
                datagram, ancillary, _, _ = self.socket.recvmsg(2 * DATAGRAM_BYTES, 128)
            except TimeoutError:
                continue
            index = self.stream.index_of(datagram)
            if index is None:
                self.foreign += 1
                continue
            seconds, ns = TIMESPEC.unpack(ancillary[0][2][: TIMESPEC.size])
            self.arrivals.append((index, seconds * 1_000_000_000 + ns))
            self.heard.set()


class Player:
    """Plays datagrams one after the other, and records when it sent each and how late that was."""

    def __init__(self, stream, port):
        self.stream = stream
        self.sent_ns = []
        self.late_ns = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _send(self):
        datagram = self.stream.datagram(len(self.sent_ns))
        self.sent_ns.append(now_ns())
        try:
            self.socket.send(datagram)
        except ConnectionRefusedError:
            # An earlier datagram met no listener. This one was not sent, and counts as lost.
            pass

    def knock(self, heard, timeout_s):
        """Sends a datagram now and then until one comes out at the other end: the transport is connected then."""
        until = time.monotonic() + timeout_s
        while not heard.wait(0.05):
            if time.monotonic() > until:
                raise TimeoutError("nothing came out at the far end")
            self._send()

    def play(self, count):
        """Sends `count` datagrams at the stream's pace. Returns their indices."""
        begin = len(self.sent_ns)
        del self.late_ns[:]
        due = time.monotonic_ns()
        for _ in range(count):
            due += INTERVAL_NS
            time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
            self._send()
            self.late_ns.append(time.monotonic_ns() - due)
        return range(begin, begin + count)


def decode(content, work):
    """Decodes the video of a transport stream: the hash of each frame by its time stamp, and the decoder's complaints."""
    file = work / "decode.ts"
    file.write_bytes(content)
    command = ["nice", "-n", "10", "ffmpeg", "-nostdin", "-v", "repeat+warning", "-copyts", "-i", str(file)]
    command += ["-map", "0:v", "-fps_mode", "passthrough", "-f", "framemd5", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    frames = {}
    for line in done.stdout.splitlines():
        if not line.startswith("#"):
            _, _, time_stamp, _, _, digest = (field.strip() for field in line.split(","))
            frames[time_stamp] = digest
    return frames, len(done.stderr.splitlines())


def pictures(stream, sent, delivered, work):
    """How many frames a decoder gets from the indices `sent`, how many of them exact from `delivered`, and its complaints.

    The stream is cut within a group of pictures, of which a decoder complains even when nothing is missing: that is subtracted.
    """
    expected, complaints_anyway = decode(b"".join(map(stream.content_of, sent)), work)
    got, complaints = decode(b"".join(map(stream.content_of, delivered)), work)
    exact = sum(got.get(time_stamp) == digest for time_stamp, digest in expected.items())
    return len(expected), exact, max(0, complaints - complaints_anyway)
