#!/bin/bash
# Bandwidth estimation between real programs: two network namespaces, and between them a queue that is served at a known rate. The user loads
# pages meanwhile: some connections of the kernel's TCP at once, every two seconds.
# Needs root, ip, tc and python3.  Usage: estimate.sh path/to/dfcp
set -eu
DFCP=$(realpath "${1:?usage: estimate.sh path/to/dfcp}")
HERE=dfcp-est-a-$$ THERE=dfcp-est-b-$$
WORK=$(mktemp -d)
cleanup() {
    kill $(jobs -p) 2>/dev/null || true
    for ns in "$HERE" "$THERE"; do ip netns del "$ns" 2>/dev/null || true; done
    rm -rf "$WORK"
}
trap cleanup EXIT

for ns in "$HERE" "$THERE"; do ip netns add "$ns"; ip -n "$ns" link set lo up; done
ip link add est-a netns "$HERE" type veth peer name est-b netns "$THERE"
ip -n "$HERE" addr add 10.92.1.1/24 dev est-a
ip -n "$THERE" addr add 10.92.1.2/24 dev est-b
ip -n "$HERE" link set est-a up
ip -n "$THERE" link set est-b up

cat > "$WORK/pages.py" <<'PYTHON'
import socket, sys, threading, time
PARTS, BYTES = 4, 120_000
def take(address):
    with socket.create_connection(address) as connection:
        while connection.recv(65536): pass
def give(connection):
    with connection: connection.sendall(bytes(BYTES))
if sys.argv[1] == "give":
    listener = socket.create_server((sys.argv[2], 8080))
    while True: threading.Thread(target=give, args=(listener.accept()[0],), daemon=True).start()
while True:
    parts = [threading.Thread(target=take, args=((sys.argv[2], 8080),)) for _ in range(PARTS)]
    for part in parts: part.start()
    for part in parts: part.join()
    time.sleep(1)
PYTHON
ip netns exec "$THERE" python3 "$WORK/pages.py" give 10.92.1.2 &
ip netns exec "$THERE" "$DFCP" estimate server --listen 10.92.1.2:5202 2> "$WORK/server" &
sleep 1
ip netns exec "$HERE" python3 "$WORK/pages.py" take 10.92.1.2 &

printf '| rate, Mbit/s | interval | threshold | estimate | 95 %% | busy periods |\n|---|---|---|---|---|---|\n'
run() { # rate of the queue in Mbit/s, interval, threshold
    ip netns exec "$THERE" tc qdisc replace dev est-b root tbf rate "$1mbit" burst 1540 limit 500000
    sleep 1
    ip netns exec "$HERE" "$DFCP" estimate client 10.92.1.2:5202 --duration "${DURATION:-20}" --interval "$2" --threshold "$3" --json \
        > "$WORK/out" 2> "$WORK/err" || true
    python3 - "$1" "$2" "$3" "$WORK/out" "$WORK/err" <<'PYTHON'
import json, sys
rate, interval, threshold, out, err = sys.argv[1:]
found = json.loads(open(out).read() or "{}")
mbit = lambda key: "–" if found.get(key) is None else f"{found[key] / 1e6:.2f}"
print(f"| {rate} | {interval} | {threshold} | {mbit('estimate_bps')} | {mbit('low_bps')} to {mbit('high_bps')} | {found.get('busy_periods')} |")
if found.get("estimate_bps") is None: print(open(err).read().splitlines()[-1])
PYTHON
}
run 4 100ms 100ms
run 4 100ms 30ms
run 4 20ms 20ms
run 10 20ms 20ms
