#!/usr/bin/env python3
"""Forwards UDP between one client and one target at once, and loses datagrams on the way to the target.

`dfcp relay` loses in both directions alike, and its bursts last a number of datagrams: a sender shortens them by sending more.
Here the data's direction alone loses, and a burst lasts a time, as in docs/measurements/messages.md.

SIGUSR1 begins the measured part: the counters restart, and the schedule of losses from the seed, so that senders which are
compared meet the same bursts at the same times. SIGUSR2 ends the measured part. SIGTERM ends the program, which then prints the
counters of that part as JSON.
"""

import argparse
import json
import random
import select
import signal
import socket
import time

DATAGRAM_BYTES_MAX = 65535
# IPv4 and UDP.
HEADER_BYTES = 28
SOCKET_BUFFER_BYTES = 4 << 20


class Independent:
    """Each datagram is lost by itself."""

    def __init__(self, share, seed):
        self.share = share
        self.random = random.Random(seed)

    def loses(self, _now_s):
        return self.random.random() < self.share


class Bursts:
    """Everything is lost for an exponential time, then nothing for another (Gilbert's model in continuous time)."""

    def __init__(self, share, burst_s, seed):
        self.random = random.Random(seed)
        self.means_s = {True: burst_s, False: burst_s * (1 - share) / share}
        self.is_bad = False
        self.until_s = time.monotonic() + self._draw()

    def _draw(self):
        return self.random.expovariate(1 / self.means_s[self.is_bad])

    def loses(self, now_s):
        while now_s >= self.until_s:
            self.is_bad = not self.is_bad
            self.until_s += self._draw()
        return self.is_bad


class Direction:
    """The losses of one direction, and their count. Bytes are those of IP packets."""

    def __init__(self, loss):
        self.loss = loss
        self.counters = {"datagrams": 0, "bytes": 0, "lost": 0}

    def passes(self, datagram):
        lost = self.loss.loses(time.monotonic())
        self.counters["datagrams"] += 1
        self.counters["bytes"] += HEADER_BYTES + len(datagram)
        self.counters["lost"] += lost
        return not lost


class Hop:
    """The sockets, and both directions."""

    def __init__(self, args):
        self.args = args
        self.client = None
        self.listener = self._socket()
        self.listener.bind(("127.0.0.1", args.listen))
        self.upstream = self._socket()
        self.upstream.connect(("127.0.0.1", args.to))
        self.measured = None
        self.ended = False
        self.begin()

    @staticmethod
    def _socket():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
        sock.setblocking(False)
        return sock

    def _loss(self, share, seed):
        if self.args.burst_ms and share:
            return Bursts(share, self.args.burst_ms / 1e3, seed)
        return Independent(share, seed)

    def begin(self, *_):
        share = self.args.loss / 100
        self.forward = Direction(self._loss(share, self.args.seed))
        self.backward = Direction(self._loss(share if self.args.both_ways else 0, ~self.args.seed))

    def measure(self, *_):
        self.measured = {"forward": dict(self.forward.counters), "backward": dict(self.backward.counters)}

    def end(self, *_):
        self.ended = True

    def run(self):
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        poll.register(self.upstream, select.POLLIN)
        while not self.ended:
            # The timeout bounds how long the end waits for a signal that came just before the call.
            poll.poll(100)
            self._forward()
            self._backward()
        print(json.dumps(self.measured), flush=True)

    def _forward(self):
        for datagram, self.client in receive_all(self.listener):
            if self.forward.passes(datagram):
                send(self.upstream.send, datagram)

    def _backward(self):
        for datagram, _ in receive_all(self.upstream):
            if self.backward.passes(datagram) and self.client:
                send(self.listener.sendto, datagram, self.client)


def receive_all(sock):
    """What has arrived. A refusal tells that the target does not listen yet: the datagram it answers is lost already."""
    while True:
        try:
            yield sock.recvfrom(DATAGRAM_BYTES_MAX)
        except ConnectionRefusedError:
            continue
        except BlockingIOError:
            return


def send(method, *args):
    try:
        method(*args)
    except (ConnectionRefusedError, BlockingIOError):
        # As on a network, nobody is told.
        pass


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", type=int, required=True, metavar="PORT")
    parser.add_argument("--to", type=int, required=True, metavar="PORT")
    parser.add_argument("--loss", type=float, default=0, metavar="PERCENT")
    parser.add_argument("--burst-ms", type=float, metavar="MS", help="mean time of a burst; independent losses if not given")
    parser.add_argument("--both-ways", action="store_true", help="lose on the way back, too")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    hop = Hop(arguments())
    signal.signal(signal.SIGUSR1, hop.begin)
    signal.signal(signal.SIGUSR2, hop.measure)
    signal.signal(signal.SIGTERM, hop.end)
    hop.run()


if __name__ == "__main__":
    main()
