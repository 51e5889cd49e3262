#!/bin/sh
# Runs every fuzz target (or those named) for a while: run.sh [-s SECONDS] [TARGET..]
# Works on the stable toolchain: coverage instrumentation needs no nightly option, only the address sanitizer would, and
# the crates under test forbid unsafe code.
set -eu
cd "$(dirname "$0")"

seconds=10
if [ "${1:-}" = "-s" ]; then
    seconds=$2
    shift 2
fi
[ $# -gt 0 ] || set -- wire_segment wire_options wire_handshake wire_feedback

host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
export RUSTFLAGS
# With --target the flags do not reach build scripts, which lack libFuzzer's runtime.
cargo build --release --target "$host"
binaries=${CARGO_TARGET_DIR:-target}/$host/release

for target in "$@"; do
    mkdir -p "corpus/$target" "artifacts/$target"
    echo "== $target, $seconds s"
    "$binaries/$target" -max_total_time="$seconds" -max_len=1600 -timeout=5 -print_final_stats=1 \
        -artifact_prefix="artifacts/$target/" "corpus/$target"
done
