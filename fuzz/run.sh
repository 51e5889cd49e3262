#!/bin/bash
# Runs every fuzz target (or those named) for a while: run.sh [-s SECONDS] [-j LANES] [TARGET..]
# Works on the stable toolchain: coverage instrumentation needs no nightly option, only the address sanitizer would, and
# the crates under test forbid unsafe code but for the fountain's kernels. Ends with a table, one line per target; fails
# if a target does. With -j, so many targets run side by side.
set -euo pipefail
cd "$(dirname "$0")"

usage="usage: run.sh [-s SECONDS] [-j LANES] [TARGET..]"
seconds=10
lanes=1
while getopts s:j: option; do
    case $option in
    s) seconds=$OPTARG ;;
    j) lanes=$OPTARG ;;
    *) printf '%s\n' "$usage" >&2 && exit 2 ;;
    esac
done
shift $((OPTIND - 1))
for number in "$seconds" "$lanes"; do
    [[ $number =~ ^[1-9][0-9]*$ ]] || { printf '%s is no number above 0; %s\n' "$number" "$usage" >&2 && exit 2; }
done
all="wire_segment wire_options wire_handshake wire_feedback secure_handshake secure_packets secure_files \
fountain_decoder raptor_decoder file_framing connection connection_messages connection_unsealed connection_classic feedback_session"
[ $# -gt 0 ] || set -- $all

host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
export RUSTFLAGS
# With --target the flags do not reach build scripts, which lack libFuzzer's runtime.
cargo build --locked --profile fuzz --features libfuzzer --bins --target "$host"
binaries=${CARGO_TARGET_DIR:-../target}/$host/fuzz

# Fuzzes one target; its exit status goes to artifacts/TARGET/status.
fuzz() {
    local target=$1 status=0
    # New inputs go to the first folder. A scenario of the connection may be long, and none may take long or much memory.
    "$binaries/$target" -max_total_time="$seconds" -max_len=2000 -len_control=50 -timeout=10 -rss_limit_mb=1024 \
        -print_final_stats=1 -artifact_prefix="artifacts/$target/" \
        "corpus/$target" "seeds/$target" >"artifacts/$target/last.log" 2>&1 || status=$?
    printf '%s\n' "$status" >"artifacts/$target/status"
}

for target in "$@"; do
    mkdir -p "corpus/$target" "artifacts/$target"
    rm -f "artifacts/$target/status"
    touch "artifacts/$target/started"
    while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n; done
    printf '== %s, %s s\n' "$target" "$seconds"
    fuzz "$target" &
done
wait

# The last value of a counter in libFuzzer's log: lines such as "#4096 pulse cov: 812 ft: 2310 corp: 96/8Kb exec/s: 512".
counter() {
    grep -oE "$1 +[0-9]+" "$2" | tail -n 1 | grep -oE '[0-9]+$' || echo 0
}

failed=0
table=""
for target in "$@"; do
    log=artifacts/$target/last.log
    if [ "$(cat "artifacts/$target/status")" != 0 ]; then
        failed=1
        printf '\n== %s failed:\n' "$target"
        grep -vE '^#[0-9]+' "$log" | tail -n 40
    fi
    crashes=$(find "artifacts/$target" -type f ! -name last.log ! -name status -newer "artifacts/$target/started" | wc -l)
    table+=$(printf '%-18s %10s %8s %6s %6s %7s %8s' "$target" "$(counter stat::number_of_executed_units: "$log")" \
        "$(counter stat::average_exec_per_sec: "$log")" "$(counter cov: "$log")" "$(counter ft: "$log")" \
        "$(find "corpus/$target" -type f | wc -l)" "$crashes")$'\n'
done
printf '\n%-18s %10s %8s %6s %6s %7s %8s\n' target executions exec/s cov ft corpus crashes
printf '%s' "$table"
exit "$failed"
