#!/bin/bash
# Packet size discovery between real programs: two network namespaces with a router between them, behind which the path is narrower.
# Needs root, ip, nft and ethtool.  Usage: packet-size.sh path/to/dfcp
set -eu
DFCP=$(realpath "${1:?usage: packet-size.sh path/to/dfcp}")
A=dfcp-size-a-$$ R=dfcp-size-r-$$ B=dfcp-size-b-$$
WORK=$(mktemp -d)
SERVER_PID=
cleanup() {
    if [ -n "$SERVER_PID" ]; then kill "$SERVER_PID" 2>/dev/null || true; fi
    for ns in "$A" "$R" "$B"; do ip netns del "$ns" 2>/dev/null || true; done
    rm -rf "$WORK"
}
trap cleanup EXIT

for ns in "$A" "$R" "$B"; do ip netns add "$ns"; ip -n "$ns" link set lo up; done
ip link add size-ar netns "$A" type veth peer name size-ra netns "$R"
ip link add size-br netns "$B" type veth peer name size-rb netns "$R"
ip -n "$A" addr add 10.91.1.1/24 dev size-ar
ip -n "$R" addr add 10.91.1.2/24 dev size-ra
ip -n "$R" addr add 10.91.2.2/24 dev size-rb
ip -n "$B" addr add 10.91.2.1/24 dev size-br
for link in "$A size-ar" "$R size-ra" "$R size-rb" "$B size-br"; do
    set -- $link
    ip -n "$1" link set "$2" up
    # A veth carries batches as one packet, which loss would take as one.
    ip netns exec "$1" ethtool -K "$2" gso off gro off tx-udp-segmentation off tx-checksum-ip-generic off > /dev/null
done
ip -n "$A" route add default via 10.91.1.2
ip -n "$B" route add default via 10.91.2.2
ip netns exec "$R" sysctl -qw net.ipv4.ip_forward=1

# The MTU of the link behind the router; of both links with "local", so that the sender's own interface refuses.
set_mtu() {
    ip -n "$R" link set size-rb mtu "$1"; ip -n "$B" link set size-br mtu "$1"
    ip -n "$A" link set size-ar mtu "$2"; ip -n "$R" link set size-ra mtu "$2"
}
# Loss in per cent on either way, and whether the router may say what it drops.
set_rules() {
    ip netns exec "$R" nft flush ruleset
    ip netns exec "$R" nft add table ip dfcp_size
    ip netns exec "$R" nft add chain ip dfcp_size forward '{ type filter hook forward priority 0; }'
    ip netns exec "$R" nft add chain ip dfcp_size output '{ type filter hook output priority 0; }'
    if [ "$1" -gt 0 ]; then
        ip netns exec "$R" nft add rule ip dfcp_size forward meta l4proto udp numgen random mod 100 '<' "$1" drop
    fi
    if [ "$2" = off ]; then ip netns exec "$R" nft add rule ip dfcp_size output meta l4proto icmp drop; fi
}

head -c 32 /dev/urandom > "$WORK/key" && chmod 600 "$WORK/key"
ip netns exec "$B" "$DFCP" perf server --listen 10.91.2.1:4433 --psk-file "$WORK/key" > "$WORK/server" 2>&1 &
SERVER_PID=$!
sleep 1
RATE=20mbit SECONDS_RUN=4
printf '| path MTU | ICMP | loss %% | packet found | goodput, Mbit/s |\n|---|---|---|---|---|\n'
run() { # mtu, mtu of the sender's link, icmp, loss, another name
    set_mtu "$1" "$2"; set_rules "$4" "$3"
    if ! ip netns exec "$A" timeout 60 "$DFCP" perf client 10.91.2.1:4433 --psk-file "$WORK/key" --rate "$RATE" \
        --duration "$SECONDS_RUN" --json > "$WORK/out" 2> "$WORK/err"; then
        printf '| %s | %s | %s | failed: %s | |\n' "$1" "$3" "$4" "$(tail -1 "$WORK/err")"
        return
    fi
    name=${5:-$1}; if [ "$2" != 1500 ]; then name="$1 (sender's own link)"; fi
    python3 - "$WORK/out" "$name" "$3" "$4" <<'PY'
import json, sys
path, name, icmp, loss = sys.argv[1:]
events = [json.loads(line) for line in open(path)]
result = events[-1]
print(f"| {name} | {icmp} | {loss} | {result['path']['packet_bytes']} | {result['goodput_bps'] / 1e6:.2f} |")
PY
}
for mtu in 1280 1400 1420 1492 1500; do
    for icmp in on off; do
        for loss in 0 20; do run $mtu 1500 $icmp $loss; done
    done
done
for mtu in 1280 1400 1492; do run $mtu $mtu on 0; run $mtu $mtu off 20; done
# In mid-transfer, with nobody told: what is shown as found is the size at the end.
for loss in 0 20; do
    (sleep 2; ip -n "$R" link set size-rb mtu 1280; ip -n "$B" link set size-br mtu 1280) &
    run 1500 1500 off "$loss" "1500, after 2 s 1280"
    wait $!
done
