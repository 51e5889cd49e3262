#!/usr/bin/env python3
"""One end of an SRT connection, for datagrams: as small as can be around libsrt.

`srt-live-transmit` waits for its UDP input with libsrt's epoll, which looks at system sockets once in 10 ms only (CEPoll::wait
and CGlobEvent::waitForEvent of v1.5.1): it adds 0 to 10 ms before SRT puts its time stamp on a datagram. These ends block
in `recv` instead, so that what is measured is SRT.

  srt_end.py send --in PORT --to PORT --set latency=60
  srt_end.py receive --listen PORT --out PORT --set latency=60
"""

import argparse
import ctypes
import socket
import struct
import sys

# Debian's package libsrt1.5-gnutls, on which srt-tools depends.
LIBRARY = "libsrt-gnutls.so.1.5"
PAYLOAD_BYTES_MAX = 1456
SOCKET_BUFFER_BYTES = 4 << 20

# SRT_SOCKOPT of srt.h, by the names which srt-live-transmit gives the options, and how their values are written.
OPTIONS = {
    "latency": (23, int),
    "packetfilter": (60, str),
    "retransmitalgo": (61, int),
}


class Srt:
    """The calls of libsrt that are needed; each ends the program when it fails."""

    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)
        self.library.srt_getlasterror_str.restype = ctypes.c_char_p
        self.library.srt_startup()

    def call(self, name, *args):
        result = getattr(self.library, name)(*args)
        if result < 0:
            sys.exit(f"{name}: {self.library.srt_getlasterror_str().decode()}")
        return result

    def socket(self, options):
        """A socket in live mode, which is the default, with these options."""
        sock = self.call("srt_create_socket")
        for name, text in options:
            number, kind = OPTIONS[name]
            value = struct.pack("@i", int(text)) if kind is int else text.encode()
            self.call("srt_setsockflag", sock, number, value, len(value))
        return sock


def local_address(port):
    """A sockaddr_in of 127.0.0.1."""
    return struct.pack("=H", socket.AF_INET) + struct.pack(">H4s8x", port, socket.inet_aton("127.0.0.1"))


def send(srt, args):
    """Connects, forgets what came before that, and sends each datagram as a message."""
    source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
    source.bind(("127.0.0.1", args.source))
    address = local_address(args.to)
    sock = srt.socket(args.set)
    srt.call("srt_connect", sock, address, len(address))
    drain(source)
    while True:
        datagram = source.recv(PAYLOAD_BYTES_MAX)
        srt.call("srt_sendmsg2", sock, datagram, len(datagram), None)


def drain(source):
    source.setblocking(False)
    try:
        while True:
            source.recv(PAYLOAD_BYTES_MAX)
    except BlockingIOError:
        source.setblocking(True)


def receive(srt, args):
    """Accepts a connection, and delivers each message as a datagram."""
    address = local_address(args.listen)
    listener = srt.socket(args.set)
    srt.call("srt_bind", listener, address, len(address))
    srt.call("srt_listen", listener, 1)
    sock = srt.call("srt_accept", listener, None, None)
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.connect(("127.0.0.1", args.out))
    buffer = ctypes.create_string_buffer(PAYLOAD_BYTES_MAX)
    while True:
        length = srt.call("srt_recvmsg2", sock, buffer, len(buffer), None)
        out.send(memoryview(buffer)[:length])


def option(text):
    name, _, value = text.partition("=")
    if name not in OPTIONS:
        raise argparse.ArgumentTypeError(f"`{name}` is none of {', '.join(OPTIONS)}")
    return name, value


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ends = parser.add_subparsers(required=True)
    sender = ends.add_parser("send")
    sender.add_argument("--in", dest="source", type=int, required=True, metavar="PORT")
    sender.add_argument("--to", type=int, required=True, metavar="PORT")
    sender.set_defaults(end=send)
    receiver = ends.add_parser("receive")
    receiver.add_argument("--listen", type=int, required=True, metavar="PORT")
    receiver.add_argument("--out", type=int, required=True, metavar="PORT")
    receiver.set_defaults(end=receive)
    for end in (sender, receiver):
        end.add_argument("--set", type=option, action="append", default=[], metavar="NAME=VALUE", help="an option of SRT")
    return parser.parse_args()


def main():
    args = arguments()
    args.end(Srt(), args)


if __name__ == "__main__":
    main()
