#!/usr/bin/env python3
"""Times file transfers by dfcp, by rsync over ssh, and by croc if it is there, each on the same emulated path: a large file, the same one
interrupted by kill -9 in the middle, one that has changed in some places, many small files, and the same ones again, unchanged. Prints a
table; needs rsync, ssh and sshd.

    benches/files/files.py target/release/dfcp --rate 100mbit --delay 20ms --loss 1% --congestion cubic --croc "$(command -v croc)"
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MANY = 10_000
# Places in which a large file has changed, the bytes of each, and where something was inserted.
CHANGES, CHANGE_BYTES = 16, 4096
INSERTED = b"a line that was not there before\n"
LARGE_BYTES = 32 << 20
PATIENCE_S = 120


def run(command):
    """Runs a command to its end; returns its seconds, PATIENCE_S if that was not enough, and its output."""
    started = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return PATIENCE_S, ""
    took = time.monotonic() - started
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {done.stderr[-500:]}")
    return took, done.stdout


class Dfcp:
    """`dfcp send` to a `dfcp receive` at the far end."""

    name = "dfcp"

    def __init__(self, program, work):
        self.program, self.work = program, work

    def server(self, output, case):
        replace = "--force" if case == "changed" else ""
        return f"exec {self.program} receive --listen 4433 --allow-any {replace} --output {output} >{self.work}/receive.log 2>&1"

    def command(self, source, output, case):
        delta = ["--delta"] if case == "changed" else []
        return [self.program, "send", *delta, str(source), f"{os.environ['DFCP_FAR']}:4433", "--accept-new-key", "--json"]

    def prepare(self):
        """The receiver serves one sender after the other."""

    def came(self, output):
        parts = [path.stat().st_size for path in output.glob(".dfcp-*.part") if path.is_file()]
        return max(parts, default=0)

    def sent_again(self, printed, came):
        """Bytes of what had come that travelled a second time."""
        return came - json.loads(printed.splitlines()[-1])["resumed_bytes"]


class Rsync:
    """rsync over ssh; sshd runs at the far end."""

    name = "rsync over ssh"

    def __init__(self, _program, work):
        self.work = work
        for name in ("host", "user"):
            key = work / name
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        shutil.copy(work / "user.pub", work / "authorized")
        (work / "sshd_config").write_text(
            f"Port 2222\nHostKey {work}/host\nAuthorizedKeysFile {work}/authorized\nPermitRootLogin yes\n"
            f"StrictModes no\nUsePAM no\nPidFile {work}/sshd.pid\n"
        )

    def server(self, _output, _case):
        os.makedirs("/run/sshd", exist_ok=True)
        return f"{' '.join(set_congestion(self.congestion))}; exec $(command -v sshd) -D -f {self.work}/sshd_config -E {self.work}/sshd.log"

    def command(self, source, output, case):
        shell = (
            f"ssh -p 2222 -i {self.work}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
            " -o LogLevel=ERROR"
        )
        # What is appended to is not searched for what has changed in it.
        how = [] if case == "changed" else ["--partial", "--append-verify"]
        return ["rsync", "-a", *how, "-e", shell, str(source), f"{os.environ['DFCP_FAR']}:{output}/"]

    def prepare(self):
        """So does sshd."""

    def came(self, output):
        parts = [path.stat().st_size for path in output.rglob("*") if path.is_file()]
        return max(parts, default=0)

    def sent_again(self, _printed, _came):
        """It does not say; it appends to what it has, and compares the beginning by a checksum."""
        return "-"


class Croc:
    """croc, with its relay and its receiver at the far end. They take one transfer each, so they are started anew before every one."""

    name = "croc"
    SECRET = "files-between-two-ends"

    def __init__(self, _program, work):
        self.work = work

    def server(self, output, _case):
        receive = f"CROC_SECRET={self.SECRET} {self.croc} --yes --overwrite --disable-clipboard --ip 127.0.0.1:9009 --out {output}"
        return f"""{' '.join(set_congestion(self.congestion))}; export HOME={self.work}; had=; mkdir -p {output}
            while sleep 0.02; do
                wanted=$(cat {self.work}/wanted 2>/dev/null); [ "$wanted" = "$had" ] && continue
                kill -9 $relay $receiver 2>/dev/null; wait
                {self.croc} relay --ports 9009,9010,9011,9012,9013 </dev/null >{self.work}/relay.log 2>&1 & relay=$!
                until ss -tlnH 'sport = :9013' | grep -q .; do sleep 0.02; done
                {receive} </dev/null >{self.work}/receive.log 2>&1 & receiver=$!
                sleep 0.3; had=$wanted; echo $had >{self.work}/ready
            done"""

    def prepare(self):
        wanted = str(time.monotonic_ns())
        (self.work / "wanted").write_text(wanted)
        ready = self.work / "ready"
        while not ready.exists() or ready.read_text().strip() != wanted:
            time.sleep(0.02)

    def command(self, source, output, case):
        far = f"{os.environ['DFCP_FAR']}:9009"
        how = ["--yes", "--ignore-stdin", "--disable-clipboard", "--no-compress", "--relay", far]
        return ["env", f"CROC_SECRET={self.SECRET}", f"HOME={self.work}", self.croc, *how, "send", "--no-local", str(source)]

    def came(self, output):
        """The file has its length from the start, and gets its blocks as they come."""
        parts = [path.stat().st_blocks * 512 for path in output.rglob("*") if path.is_file()]
        return max(parts, default=0)

    def sent_again(self, _printed, _came):
        """It does not say; it asks for what is all zeros in its file."""
        return "-"


def sent_bytes():
    """What has left this end's network interface."""
    lines = pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(int(line.split(":")[1].split()[8]) for line in lines if not line.strip().startswith("lo:"))


def set_congestion(name):
    return ["sysctl", "-qw", f"net.ipv4.tcp_congestion_control={name}"]


def interrupt(contender, command, output):
    """Starts a transfer and kills it when half has come; returns the bytes that had."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    started = time.monotonic()
    while contender.came(output) < LARGE_BYTES // 2:
        if child.poll() is not None or time.monotonic() - started > PATIENCE_S:
            sys.exit("the transfer ended before it could be interrupted")
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    # What was on its way still comes.
    time.sleep(0.3)
    return contender.came(output)


def change(path):
    """Changes some places of a file, and inserts something."""
    content = bytearray(path.read_bytes())
    for place in range(CHANGES):
        at = len(content) * place // CHANGES
        content[at : at + CHANGE_BYTES] = os.urandom(CHANGE_BYTES)
    middle = len(content) // 2 + CHANGE_BYTES
    content[middle:middle] = INSERTED
    path.write_bytes(content)


def go_on(contender, command, output, came):
    """Starts it again; returns its seconds, those until something new had come, and what it printed."""
    started = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while contender.came(output) <= came and child.poll() is None:
        time.sleep(0.002)
    new_s = time.monotonic() - started
    printed, _ = child.communicate(timeout=PATIENCE_S)
    if child.returncode != 0:
        sys.exit(f"{command[0]} failed when it went on")
    return time.monotonic() - started, new_s, printed


def near(contender, case, output, source):
    """What happens at the near end; prints the figures as JSON."""
    output.mkdir(parents=True, exist_ok=True)
    subprocess.run(set_congestion(contender.congestion), check=True)
    command = contender.command(source, output, case)
    figures = {}
    contender.prepare()
    if case == "interrupted":
        came = interrupt(contender, command, output)
        contender.prepare()
        figures["s"], figures["new_s"], printed = go_on(contender, command, output, came)
        figures["came_bytes"], figures["again_bytes"] = came, contender.sent_again(printed, came)
    else:
        figures["s"], _ = run(command)
    if case == "changed":
        change(source)
        contender.prepare()
        before = sent_bytes()
        figures["s"], _ = run(command)
        figures["sent_bytes"] = sent_bytes() - before
    if case == "many" and figures["s"] < PATIENCE_S:
        contender.prepare()
        figures["unchanged_s"], _ = run(command)
    # croc's sender ends before its receiver does.
    time.sleep(0.5)
    if figures["s"] < PATIENCE_S:
        subprocess.run(["diff", "-r", str(source), str(output / source.name)], check=True)
    print(json.dumps(figures))


def sources(work):
    large, many = work / "large.bin", work / "many"
    large.write_bytes(os.urandom(LARGE_BYTES))
    changed = shutil.copy(large, work / "changed.bin")
    for number in range(MANY):
        directory = many / f"d{number // 100}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"f{number}").write_bytes(os.urandom(500 + number % 1000))
    return {"large": large, "interrupted": large, "changed": changed, "many": many}


def measure(args, work, contender, case, source):
    output = work / "output"
    shutil.rmtree(output, ignore_errors=True)
    path = ["--rate", args.rate, "--delay", args.delay, "--loss", args.loss]
    croc = ["--croc", args.croc] if args.croc else []
    again = [sys.executable, __file__, args.dfcp, *croc, "--congestion", args.congestion, "--near", contender.name, case, str(work), str(source)]
    command = [args.dfcp, "emulate", *path, "--server", contender.server(output, case), "--", *again]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE_S)
    if done.returncode != 0:
        sys.exit(f"{contender.name}, {case}: {done.stderr[-1000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def shown(seconds):
    if seconds is None:
        return "-"
    return f"{seconds:.1f}" if seconds < PATIENCE_S else f"> {PATIENCE_S}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dfcp", help="the program")
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--delay", default="20ms")
    parser.add_argument("--loss", default="0%")
    parser.add_argument("--congestion", default="cubic", help="of TCP")
    parser.add_argument("--croc", help="croc 10; left out without it")
    parser.add_argument("--near", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.dfcp = os.path.abspath(args.dfcp)
    contenders = {each.name: each for each in (Dfcp, Rsync, *([Croc] if args.croc else []))}
    if args.near:
        name, case, work, source = args.near
        work = pathlib.Path(work)
        contender = contenders[name].__new__(contenders[name])
        contender.work, contender.program = work / name.split()[0], args.dfcp
        contender.congestion, contender.croc = args.congestion, args.croc
        return near(contender, case, work / "output", pathlib.Path(source))
    allowed = pathlib.Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    if args.congestion not in allowed:
        together = " ".join([*allowed, args.congestion])
        sys.exit(f"namespaces may not use {args.congestion}: sysctl -w net.ipv4.tcp_allowed_congestion_control='{together}'")
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        os.environ["DFCP_CONFIG_DIR"] = str(work / "config")
        files = sources(work)
        print(f"{args.rate}, {args.delay} one way, {args.loss} loss each way, TCP with {args.congestion}\n")
        print("| | large, s | rest after kill -9, s | new bytes after, s | twice, bytes | changed, s | changed, bytes | many small, s | unchanged, s |\n|---|---|---|---|---|---|---|---|---|")
        for name, kind in contenders.items():
            (work / name.split()[0]).mkdir()
            contender = kind(args.dfcp, work / name.split()[0])
            contender.congestion, contender.croc = args.congestion, args.croc
            figures = {case: measure(args, work, contender, case, source) for case, source in files.items()}
            rest, changed, many = figures["interrupted"], figures["changed"], figures["many"]
            print(
                f"| {name} | {shown(figures['large']['s'])} | {shown(rest['s'])} | {rest['new_s']:.2f} | {rest['again_bytes']} |"
                f" {shown(changed['s'])} | {changed['sent_bytes']} |"
                f" {shown(many['s'])} | {shown(many.get('unchanged_s'))} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
