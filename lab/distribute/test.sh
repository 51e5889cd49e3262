#!/bin/sh
# Two workers of a local Dask cluster make the same records as `dfcp lab run`. Needs python3, and pip for what is not there.
#
#   lab/distribute/test.sh target/release/dfcp
set -eu
program=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/python"
"$work/python/bin/pip" install --quiet distributed
mkdir "$work/plans"
cp "$here/../../crates/lab/src/testdata/small.toml" "$work/plans"
cd "$work"
"$program" lab jobs small --quick --seeds 2 --plans plans --results far > jobs.jsonl
"$work/python/bin/python3" "$here/with_dask.py" --workers 2 --program "$program" --plans plans jobs.jsonl > records.jsonl
"$program" lab collect --plans plans --results far records.jsonl
"$program" lab run small --quick --seeds 2 --plans plans --results here > /dev/null
"$work/python/bin/python3" - <<'PYTHON'
import json

def records(directory):
    found = [json.loads(line) for line in open(f"{directory}/small.jsonl", encoding="utf-8")]
    for record in found:
        record["wall_s"] = record["host"] = record["measured"]["cpu_s"] = None
    return sorted(found, key=lambda record: record["hash"])

far, here = records("far"), records("here")
assert len(far) == 4 and far == here, "the records are not the same"
print(f"{len(far)} records are the same")
PYTHON
