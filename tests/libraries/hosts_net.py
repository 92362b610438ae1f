#!/usr/bin/env python3
"""All-reduces under mpirun on four hosts that have nothing but TCP between them, traced to a folder on each host, and read as one run: the bytes of
each rank and of each host are those that the textbook says of a ring, and what is on the wires is what NCCL of the CPU device sends.

usage: hosts_net.py BIN_FOLDER NCCL_CASES     exit code 77 (skipped) where there is no mpirun or no namespaces
"""
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from netns import HOSTS, NAMES, enter, impossible, mpirun, sent_on_wires

COUNT, TIMES, SIZE = 80000, 3, 4


def sums(folder, program, ranks):
    """Runs them; (the folders of the traces, bytes that each host has sent)."""
    before = sent_on_wires()
    script = os.path.join(folder, "rank")
    with open(script, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\nexport MEMTRACE_DIR=%s/$(hostname)\nmkdir -p $MEMTRACE_DIR\nexec %s sum $OMPI_COMM_WORLD_RANK %d %s/id %d %d\n"
                % (folder, program, ranks, folder, COUNT, TIMES))
    os.chmod(script, 0o755)
    done = mpirun(ranks, folder, script, MEMTRACE_DEVICE="cpu", MEMTRACE_FORMAT="compact")
    assert done.returncode == 0 and done.stdout == b"ok\n" * ranks, (done.returncode, done.stdout, done.stderr)
    return [os.path.join(folder, name) for name in NAMES], [new - old for old, new in zip(before, sent_on_wires())]


def extract(folder, tool, *options):
    """memtrace extract under mpirun, one rank a host, which sees the traces of its host alone."""
    script = os.path.join(folder, "extract")
    with open(script, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\nfor host in %s; do test $host = $(hostname) || mount -t tmpfs none %s/$host; done\nexec %s %s %s/$(hostname)\n"
                % (" ".join(NAMES), folder, tool, " ".join(options), folder))
    os.chmod(script, 0o755)
    return mpirun(len(HOSTS), folder, "unshare", "--mount", script)


def same(folder, tool, folders, *options):
    alone = subprocess.run([tool, *options, *folders], capture_output=True, stdin=subprocess.DEVNULL)
    together = extract(folder, tool, *options)
    assert alone.returncode == together.returncode == 0 and alone.stdout, (options, alone.returncode, alone.stderr, together.returncode, together.stderr)
    assert alone.stdout == together.stdout, (options, together.stderr, alone.stdout[:3000], together.stdout[:3000])


def check(folder, tool, program, ranks):
    folders, sent = sums(folder, program, ranks)
    data, each = COUNT * SIZE * TIMES, ranks // len(HOSTS)
    ring = 2 * (ranks - 1) * data // ranks  # what each of the ranks sends to the next one
    got = {way: json.loads(subprocess.run([tool, "-s", "devices", "--collectives=" + way, *folders], check=True, capture_output=True).stdout)
           for way in ("ring", "direct")}
    assert all(g["complete"] for g in got.values()), got["ring"]["notes"]
    notes = got["ring"]["notes"]
    assert any("%d processes of job" % ranks in n for n in notes), notes
    assert any("clocks of 4 machines are put in order by %d calls of NCCL" % TIMES in n for n in notes), notes
    assert got["ring"]["machines"] == [{"device": str(r), "machine": NAMES[r // each], "number": r % each} for r in range(ranks)], got["ring"]["machines"]
    flows = Counter()
    for row in got["ring"]["devices"]:
        if row["by"] == "collective":
            flows[int(row["from"]), int(row["to"])] += row["bytes"]
    assert flows == {(r, (r + 1) % ranks): ring for r in range(ranks)}, (flows, ring)
    links = Counter()
    for row in got["ring"]["links"]:
        links[row["kind"], row["link"]] += row["bytes"]
    # One rank of each host is the last one there.
    assert links == {("NET", "network %s %s" % (way, name)): ring for name in NAMES for way in ("from", "to")}, links
    outside = sum(row["bytes"] for row in got["direct"]["links"] if row["link"] == "network from " + NAMES[0])
    assert outside == each * (ranks - each) * data, (outside, data)
    # Each rank sends the parts of the others to them, and the result of its own part: 2 / n of the data to each.
    wires = 2 * data // ranks * (ranks - each) * each
    for name, bytes_ in zip(NAMES, sent):
        assert wires < bytes_ < 1.2 * wires + 300000, (name, bytes_, wires)
    for options in ("-s", "quick", "--collectives=ring"), ("-s", "quick,devices,lines,coalescing,sharing,conflicts,traffic"), ("-f", "text", "-s", "quick,devices"):
        same(folder, tool, folders, *options)
    text = subprocess.run([tool, "-f", "text", "-s", "devices", "--collectives=ring", *folders], check=True, capture_output=True, text=True).stdout
    assert "Bytes from machine to machine" in text and "network from host-3" in text, text
    print("%d ranks on 4 hosts: %d B from each rank and each host, %s B on the wires" % (ranks, ring, sent))


def main():
    why = impossible()
    if why:
        print(why + ": skipped")
        return 77
    enter()
    for ranks in 4, 8:
        check(tempfile.mkdtemp(dir="/run"), os.path.join(sys.argv[1], "mt-extract"), sys.argv[2], ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
