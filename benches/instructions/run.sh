#!/usr/bin/env bash
# Builds the counter with the settings which the recorded counts are for, those of .ci/run, and runs it:
#   benches/instructions/run.sh check | record | growth | list | profile CASE
# Needs valgrind. What is recorded with other settings, or another compiler, is not comparable.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
cargo build --release -p dfcp-instructions
exec "${CARGO_TARGET_DIR:-target}/release/instructions" "$@"
