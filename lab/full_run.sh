#!/usr/bin/env bash
# The full run: every plan in full, the cheapest first, at the lowest priority. Each is archived in lab/recorded as soon as it is complete.
# It may be stopped at any time, in whatever way, and begun again: what has a record is not made again. Needs `cargo build --release`.
#   lab/full_run.sh [DIRECTORY OF THE RECORDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
results="${1:-lab-results}"
mkdir -p "$results"
dfcp="${CARGO_TARGET_DIR:-target}/release/dfcp"

# The plans of which something is missing, by what that costs.
left() {
    "$dfcp" lab jobs all --results "$results" --recorded lab/recorded |
        sed -E 's/.*"cost":([0-9.e+-]+).*"id":"([^".]+)\..*/\2 \1/' |
        awk '{cost[$1] += $2} END {for (plan in cost) print cost[plan], plan}' | sort -g | cut -d ' ' -f 2
}

for plan in $(left); do
    started=$SECONDS
    nice -n 19 "$dfcp" lab run "$plan" --results "$results" >"$results/$plan.txt" 2>&1 || {
        echo "$plan failed: $(tail -n 1 "$results/$plan.txt")" >&2
        exit 1
    }
    "$dfcp" lab archive "$plan" --results "$results" --to lab/recorded
    echo "$plan: $((SECONDS - started)) s"
done
