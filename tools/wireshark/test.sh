#!/usr/bin/env bash
# Tests dfcp.lua by tshark: values of the golden vectors, captures beside what is expected of them, and hostile and foreign datagrams.
# `--renew` writes what is expected anew. Needs tshark and Python.
set -euo pipefail
command -v tshark >/dev/null || { echo 'tshark is not installed: apt-get install tshark' >&2 && exit 1; }
here="$(dirname "$(realpath "${BASH_SOURCE[0]}")")"
captures="$here/captures"
renew="${1:-}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
# Neither the settings nor the plugins of whoever runs this.
export HOME="$scratch" XDG_CONFIG_HOME="$scratch" WIRESHARK_CONFIG_DIR="$scratch/wireshark"
failed=0

say() { # say WHETHER TEXT
    [ "$1" = 0 ] && printf 'ok      %s\n' "$2" || { printf 'FAILED  %s\n' "$2" && failed=1; }
}

# tshark with the dissector. An error while it is loaded, on standard error, ends the test.
dissect() {
    tshark -X lua_script:"$here/dfcp.lua" "$@" 2>"$scratch/errors"
    if grep -v 'Running as user' "$scratch/errors" >&2; then exit 1; fi
}
columns() {
    "$1" -o 'gui.column.format:"No.","%m","Protocol","%p","Info","%i"' "${@:2}"
}
# What is between two packets and none of DFCP depends on the version of tshark.
details() {
    dissect -O dfcp "$@" | awk '/^Frame / { sub(":.*", ""); print; shown = 0 } /^Digital Fountain/ { shown = 1 } /^$/ { shown = 0; print } shown'
}
compare() { # compare NAME: standard input with what is expected
    cat >"$scratch/$1.txt"
    if [ "$renew" = --renew ]; then cp "$scratch/$1.txt" "$captures/$1.txt"; fi
    local status=0
    diff -u "$captures/$1.txt" "$scratch/$1.txt" >"$scratch/diff" || status=$?
    say "$status" "$1: $(wc -l <"$captures/$1.txt") lines as expected"
    head -n 40 "$scratch/diff"
}
make() {
    python3 "$captures/make.py" "$@"
}
all=(-d udp.port==4433,dfcp)

# Every value that a vector names is shown, and captures are what the vectors say.
for name in vectors secured opened rejected; do
    make "$name" "$scratch/$name.pcapng"
    if [ "$renew" = --renew ]; then cp "$scratch/$name.pcapng" "$captures/$name.pcapng"; fi
    status=0
    cmp "$scratch/$name.pcapng" "$captures/$name.pcapng" || status=$?
    say "$status" "$name.pcapng is made of spec/vectors"
done
dissect -r "$captures/vectors.pcapng" "${all[@]}" -T pdml >"$scratch/vectors.pdml"
status=0
text="$(make check "$scratch/vectors.pdml")" || status=$?
say "$status" "$text"

{ columns dissect -r "$captures/vectors.pcapng" "${all[@]}" && details -r "$captures/vectors.pcapng" "${all[@]}"; } | compare vectors
columns dissect -r "$captures/rejected.pcapng" "${all[@]}" | compare rejected
refused="$(dissect -r "$captures/rejected.pcapng" "${all[@]}" -Y '!dfcp.malformed && !dfcp.integrity' | wc -l)"
say "$refused" "every datagram that must be refused is marked"
for name in secured opened plaintext encrypted decrypted classic raw-ip messages lab; do
    columns dissect -r "$captures/$name.pcapng" | compare "$name"
done

details -r "$captures/opened.pcapng" "${all[@]}" | compare opened-details
unread=0
for name in opened decrypted; do
    # What ICMP quotes stays encrypted.
    count="$(dissect -r "$captures/$name.pcapng" -Y '(dfcp.ciphertext || dfcp.malformed) && !icmp' | wc -l)"
    unread=$((unread + count))
done
say "$unread" "of opened datagrams every payload is shown, and none is malformed"

make hostile "$scratch/hostile.pcapng"
for how in "as they are recognised" "decoded as DFCP"; do
    [ "$how" = "decoded as DFCP" ] && as=("${all[@]}") || as=()
    dissect -r "$scratch/hostile.pcapng" "${as[@]}" -V >"$scratch/hostile.txt"
    status=0
    ! grep -iE 'lua error|malformed packet: dfcp|exception occurred' "$scratch/hostile.txt" >"$scratch/found" || status=1
    say "$status" "hostile datagrams $how: $(grep -c '^Digital Fountain' "$scratch/hostile.txt") shown, and no error"
    sort "$scratch/found" | uniq -c | head
done
make foreign "$scratch/foreign.pcapng"
claimed="$(dissect -r "$scratch/foreign.pcapng" -Y dfcp | tee /dev/stderr | wc -l)"
say "$claimed" "no datagram of $(capinfos -Mrc "$scratch/foreign.pcapng" | tail -n 1 | grep -o '[0-9]*$') foreign ones is taken for DFCP"

# Installed as the README says.
plugins="$HOME/.local/lib/wireshark/plugins"
mkdir -p "$plugins"
cp -r "$here/dfcp.lua" "$here/dfcp" "$plugins/"
status=0
columns tshark -r "$captures/plaintext.pcapng" 2>"$scratch/errors" | diff - "$captures/plaintext.txt" || status=$?
! grep -v 'Running as user' "$scratch/errors" || status=1
say "$status" "the same when it is installed"
exit "$failed"
