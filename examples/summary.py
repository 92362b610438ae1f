#!/usr/bin/env python3
"""One line about one traced run: launches, records, bytes of communication by who wrote them, trace files.

usage: summary.py NAME FOLDER     (FOLDER holds MemTrace-pipe-*, their companions and comm.json)
"""
import glob
import json
import os
import sys


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    name, folder = sys.argv[1:]
    launches = records = 0
    for path in sorted(glob.glob(os.path.join(folder, "MemTrace-pipe-*.meta"))):
        with open(path, encoding="utf-8") as f:
            end = [e for e in map(json.loads, f) if e["ev"] == "end"]
        if not end or not end[-1]["complete"]:
            sys.exit(f"{path}: the trace is not complete")
        launches += end[-1]["launches"]
        records += end[-1]["records_written"]
    with open(os.path.join(folder, "comm.json"), encoding="utf-8") as f:
        comm = json.load(f)
    communicated = [sum(leaf[who] for steps in comm["senders"].values() for leaf in steps.values())
                    for who in ("same_launch", "earlier_launch", "same_cta")]
    traces = [p for p in glob.glob(os.path.join(folder, "MemTrace-pipe-*")) if not p.endswith(".meta")]
    print(f"{name:<18} {launches:>8} {records:>10,}  {' '.join(f'{n:>12,}' for n in communicated)} {len(traces)} trace + {len(traces)} companion")


if __name__ == "__main__":
    main()
