#!/usr/bin/env bash
# Records the captures beside it anew: `record.sh DFCP`, with the path of the program. Real sockets on a loopback interface of their own, and
# one trace of the laboratory. Needs root, and of Debian tshark. Afterwards `../test.sh --renew` writes what is expected of them.
set -euo pipefail
dfcp="$(realpath "${1:?the path of the program dfcp}")"
here="$(dirname "$(realpath "${BASH_SOURCE[0]}")")"
if [ -z "${RECORDS_ALONE:-}" ]; then
    exec env RECORDS_ALONE=1 unshare --net "$0" "$dfcp"
fi
ip link set lo up
scratch="$(mktemp -d)"
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$scratch"' EXIT
export XDG_CONFIG_HOME="$scratch/config"
cd "$scratch"
head -c 5000 /dev/zero >file

# record NAME DUMPCAP_ARGUMENTS -- SERVER -- CLIENT
record() {
    local name="$1" dump=() server=() capture
    shift
    while [ "$1" != -- ]; do dump+=("$1") && shift; done
    shift
    while [ "$1" != -- ]; do server+=("$1") && shift; done
    shift
    dumpcap -q -P -i lo -w "$scratch/$name.pcap" "${dump[@]}" 2>"$name.log" &
    capture=$!
    sleep 1
    "$dfcp" "${server[@]}" >"$name.server" 2>&1 &
    sleep 0.5
    "$dfcp" "$@" >"$name.client" 2>&1 || cat "$name.client"
    sleep 1
    kill -INT "$capture" 2>/dev/null || true
    wait "$capture" || true
    # By way of a format whose head does not name the machine.
    editcap -F pcapng "$scratch/$name.pcap" "$here/$name.pcapng"
}

record plaintext -c 40 -- receive --listen 127.0.0.1:4433 --output out-p --once --insecure-plaintext \
    -- send file 127.0.0.1:4433 --insecure-plaintext
# The keys are kept: they open nothing but this capture.
export DFCP_KEYLOG="$scratch/keys"
record encrypted -c 40 -- receive --listen 127.0.0.1:4433 --output out-e --once --allow-any --key-log \
    -- send file 127.0.0.1:4433 --accept-new-key
cp "$scratch/keys" "$here/encrypted.keys"
"$dfcp" decrypt "$here/encrypted.pcapng" --keys "$here/encrypted.keys" --output "$here/decrypted.pcapng"
record classic -s 3200 -c 16 -- receive --listen 127.0.0.1:4433 --output out-c --once --insecure-classic \
    -- send file 127.0.0.1:4433 --insecure-classic
record raw-ip -s 160 -c 40 -f 'ip proto 253' -- receive --listen 127.0.0.1:4433 --output out-r --once --insecure-plaintext \
    --carrier raw-ip -- send file 127.0.0.1:4433 --insecure-plaintext --carrier raw-ip
record messages -s 160 -c 60 -- perf server --listen 127.0.0.1:5201 --insecure-plaintext \
    -- perf client 127.0.0.1:5201 --insecure-plaintext --messages 2000 --every 20ms --deadline 60ms --duration 1

"$dfcp" lab trace S1 --series "DFCP modern" --at loss=0.1 --duration 1s --pcap --output "$scratch/lab"
editcap -F pcapng -r "$scratch/lab/packets.pcapng" "$here/lab.pcapng" 1-60
ls -l "$here"/*.pcapng
