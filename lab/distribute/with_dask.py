#!/usr/bin/env python3
"""Spreads the laboratory's jobs over the workers of a Dask cluster.

  dfcp lab jobs all > jobs.jsonl
  python3 lab/distribute/with_dask.py --workers 4 jobs.jsonl | dfcp lab collect
  python3 lab/distribute/with_dask.py --scheduler tcp://10.0.0.1:8786 --program /opt/dfcp jobs.jsonl | dfcp lab collect

Each line of the input is a job as `dfcp lab jobs` prints it; each line of the output is its record, as it ends. The dearest jobs go
first. The same program, and the same plans if they are not its own, must be there on every worker. What has not come to an end is
listed again by `dfcp lab jobs`, so that an interrupted sweep goes on where it was.

Needs `pip install distributed`.
"""

import argparse
import json
import subprocess
import sys

from distributed import Client, LocalCluster, as_completed

TRIES = 3


def work(program, arguments, job):
    """Makes a job's run; returns its record, a line of JSON."""
    done = subprocess.run([program, "lab", "job", *arguments], input=json.dumps(job), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{job['id']}: {done.stderr.strip() or f'the program ended with {done.returncode}'}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description="Spreads the laboratory's jobs over the workers of a Dask cluster.")
    parser.add_argument("jobs", help="file of jobs, or - for standard input")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--scheduler", metavar="ADDRESS", help="a cluster's scheduler, like tcp://10.0.0.1:8786")
    where.add_argument("--workers", type=int, default=2, metavar="N", help="workers of a cluster on this machine [default: 2]")
    parser.add_argument("--program", default="dfcp", help="the program's path on the workers [default: dfcp]")
    parser.add_argument("--plans", metavar="DIR", help="directory of plans on the workers, if they are not the program's own")
    args = parser.parse_args()

    with (sys.stdin if args.jobs == "-" else open(args.jobs, encoding="utf-8")) as file:
        jobs = [json.loads(line) for line in file if line.strip()]
    jobs.sort(key=lambda job: -job.get("cost", 0))
    arguments = ["--plans", args.plans] if args.plans else []

    cluster = None if args.scheduler else LocalCluster(n_workers=args.workers, threads_per_worker=1, dashboard_address=None)
    failed = 0
    with Client(args.scheduler or cluster) as client:
        # Runs are pure, so one that a lost worker had begun may begin anew.
        futures = client.map(lambda job: work(args.program, arguments, job), jobs, retries=TRIES, pure=False)
        for number, future in enumerate(as_completed(futures), 1):
            if future.status == "finished":
                sys.stdout.write(future.result())
                sys.stdout.flush()
            else:
                failed += 1
                print(f"with_dask: {future.exception()}", file=sys.stderr)
            print(f"with_dask: {number} of {len(jobs)} jobs", file=sys.stderr)
            future.release()
    if cluster:
        cluster.close()
    if failed:
        sys.exit(f"with_dask: {failed} of {len(jobs)} jobs failed; list those that are left with `dfcp lab jobs`, and run them again")


if __name__ == "__main__":
    main()
