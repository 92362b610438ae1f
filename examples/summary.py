#!/usr/bin/env python3
"""One line about one traced run: launches, records, bytes communicated between CTAs, trace files.

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
    communicated = sum(leaf["Size"] for source, ctas in comm["transfers"].items() if source != "<host>"
                       for steps in ctas.values() for kernels in steps.values() for to in kernels.values()
                       for at in to.values() for leaf in at.values())
    traces = [p for p in glob.glob(os.path.join(folder, "MemTrace-pipe-*")) if not p.endswith(".meta")]
    print(f"{name:<18} {launches:>8} {records:>10,} {communicated:>14,}  {len(traces)} trace + {len(traces)} companion")


if __name__ == "__main__":
    main()
