#!/usr/bin/env python3
"""memtrace graph and memtrace dump against a few lines of Python, on random traces. usage: graph_test.py BIN_FOLDER [CASES]"""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

import brute
import traces

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "container"))
sys.dont_write_bytecode = True
import make_golden as golden  # noqa: E402

TYPES = {"load": "read", "store": "write", "atomic": "atomic", "unknown": "unknown"}
FIELDS = ["buffer", "stride", "type", "size", "site"]


def make_case(rng):
    """Launches [(seq, kernel, records)] of one stream and allocation events."""
    events, launches, live, seq, ident = [], [], [], 0, rng.randint(0, 3)
    for _ in range(rng.randint(1, 6)):
        while rng.random() < 0.6:
            if live and rng.random() < 0.4:
                a = live.pop(rng.randrange(len(live)))
                events.append({"ev": "free", "seq": seq, "id": a["id"], "base": a["base"]})
            else:
                free = [b for b in (0x1000, 0x1040, 0x1080, 0x2000) if b not in [int(a["base"], 16) for a in live]]
                if free:
                    a = {"ev": "alloc", "seq": seq, "id": ident, "base": hex(rng.choice(free)),
                         "bytes": rng.choice([1, 32, 64]), "kind": "cudaMalloc", "name": "b%d" % ident}
                    events.append(a)
                    live.append(a)
                    ident += 1
            seq += 1
        records = [
            traces.record(rng.randint(0, 2), rng.choices([0, 1, 2, 3], [5, 4, 1, 0.2])[0], rng.choice([1, 4, 8]),
                          rng.choice([0x1000, 0x1040, 0x1080, 0x2000, 0xFF0]) + rng.randrange(0, 64, 8),
                          (rng.randint(0, 2), 0, rng.randint(0, 1)))
            for _ in range(rng.choice([0, 3, 60, 200]))
        ]
        launches.append((seq, rng.choice(["walk", "run<int>", 'say "hi"\\']), records))
        seq += 1
    return launches, events


def lives(events, seq, address):
    found = None
    for a in events:
        if a["ev"] == "alloc" and a["seq"] < seq:
            gone = [f for f in events if f["ev"] == "free" and f["id"] == a["id"]]
            if (not gone or gone[0]["seq"] > seq) and 0 <= address - int(a["base"], 16) < a["bytes"]:
                found = a
    return found


def graph(launches, events, fields, min_count):
    """Nodes {key: count} and edges {(key, key): count}; events None: no companion."""
    nodes, edges = {}, {}
    for seq, kernel, records in launches:
        before, last = {}, {}
        for r in brute.parse(traces.trace([(kernel, records)]))[0][0][1]:
            a = lives(events, seq, r["addr"]) if events is not None else None
            buffer = a["id"] if a else 0 if events is None else None
            place = (r["cta"], buffer)
            if place in before:
                key = {"buffer": buffer, "stride": r["addr"] - before[place], "type": TYPES[r["type"]],
                       "size": a["bytes"] if a else None, "site": kernel}
                key = tuple(key[f] for f in fields)
                nodes[key] = nodes.get(key, 0) + 1
                if r["cta"] in last:
                    edge = (last[r["cta"]], key)
                    edges[edge] = edges.get(edge, 0) + 1
                last[r["cta"]] = key
            before[place] = r["addr"]
    nodes = {k: n for k, n in nodes.items() if n >= min_count}
    return nodes, {e: n for e, n in edges.items() if n >= min_count and e[0] in nodes and e[1] in nodes}


def check(binary, folder, rng):
    launches, events = make_case(rng)
    path = os.path.join(folder, "t")
    with open(path, "wb") as f:
        f.write(traces.trace([(k, r) for _, k, r in launches]))
    with_meta = rng.random() < 0.8
    if os.path.exists(path + ".meta"):
        os.unlink(path + ".meta")
    if with_meta:
        n = sum(len(r) for _, _, r in launches)
        all_events = events + [{"ev": "launch", "seq": s, "kernel": k, "records": len(r)} for s, k, r in launches]
        with open(path + ".meta", "w") as f:
            f.write(traces.companion(sorted(all_events, key=lambda e: e["seq"]), {},
                                     {"records_written": n, "records_counted": n}))
    fields = rng.choice([FIELDS[:3], FIELDS[:3], FIELDS, ["stride", "type"], ["size", "site"], ["buffer"]])
    least = rng.choice([0, 0, 2, 5])
    options = ["--node", ",".join(rng.sample(fields, len(fields))), "--min-count", str(least)]
    r = subprocess.run([binary + "/mt-graph", "-f", "json", *options, path], capture_output=True, check=True)
    got = json.loads(r.stdout)
    expected = graph(launches, events if with_meta else None, fields, least)
    keys = [tuple(n[f] for f in fields) for n in got["nodes"]]
    nodes = {k: n["count"] for k, n in zip(keys, got["nodes"])}
    edges = {(keys[e["from"]], keys[e["to"]]): e["count"] for e in got["edges"]}
    assert (nodes, edges) == expected, "%s %s\n got %s\n expected %s" % (path, options, (nodes, edges), expected)
    assert len(keys) == len(set(keys)) and got["node"] == fields
    assert [n["id"] for n in got["nodes"]] == list(range(len(keys)))
    assert [(e["from"], e["to"]) for e in got["edges"]] == sorted((e["from"], e["to"]) for e in got["edges"])
    # DOT says the same
    dot = subprocess.run([binary + "/mt-graph", "--top=all", *options, path], capture_output=True, check=True).stdout.decode()
    assert re.findall(r"n(\d+) -> n(\d+) \[label=\"(\d+)\"", dot) == [
        (str(e["from"]), str(e["to"]), str(e["count"])) for e in got["edges"]
    ]
    counts = re.findall(r"^  n\d+ \[label=\".* - (\d+)\"", dot, re.M)
    assert counts == [str(n["count"]) for n in got["nodes"]], dot
    # memtrace dump says each record
    text = subprocess.run([binary + "/mt-dump", path], capture_output=True, check=True).stdout.decode()
    lines = []
    for step, (_, kernel, records) in enumerate(launches):
        lines.append("launch %d %s" % (step, kernel))
        for r in brute.parse(traces.trace([(kernel, records)]))[0][0][1]:
            lines.append("%s %d %s cta %d,%d,%d sm %d" % (r["type"], r["size"], hex(r["addr"]), *r["cta"], r["sm"]))
    assert [x for x in text.splitlines() if not x.startswith("#")] == lines
    return dot


def said_of_large(binary, folder):
    """More nodes than dot can lay out: one note that names the way out, for DOT alone; the graph is written all the same."""
    path = os.path.join(folder, "large")
    for nodes in (24, 25, 1000, 1001):
        addresses = [0]
        for stride in range(1, nodes + 1):
            addresses.append(addresses[-1] + 4 * stride)
        with open(path, "wb") as f:
            f.write(traces.trace([("k", [traces.record(0, 0, 4, 0x10000 + a, (0, 0, 0)) for a in addresses])]))
        for options, few in (([], True), (["--min-count=1"], False), (["--top=0"], False)):  # pictures have 24 unless asked
            r = subprocess.run([binary + "/mt-graph", "--no-companion", *options, path], capture_output=True, check=True, text=True)
            drawn = 24 if few else nodes
            assert len(re.findall(r"^  n\d+ \[", r.stdout, re.M)) == drawn, (nodes, options)
            assert ('label="24 of %d kinds' % nodes in r.stdout) == (drawn < nodes) == ("24 of %d kinds" % nodes in r.stderr)
        r = subprocess.run([binary + "/mt-graph", "--no-companion", "-f", "json", path], capture_output=True, check=True, text=True)
        assert len(json.loads(r.stdout)["nodes"]) == nodes and "kinds" not in r.stderr
        for options, drawn in ((["--top=0"], True), (["-f", "json"], False), (["-f", "graphml"], False), (["--top=1000"], False)):
            r = subprocess.run([binary + "/mt-graph", "--no-companion", *options, path], capture_output=True, check=True, text=True)
            notes = [x for x in r.stderr.splitlines() if "--top" in x]
            assert len(notes) == (drawn and nodes > 1000), (nodes, options, r.stderr)
            assert all("1001 nodes" in x and "--min-count" in x for x in notes), notes
            assert not drawn or "rankdir" not in r.stdout  # a chain
            if drawn:
                assert len(re.findall(r"^  n\d+ \[", r.stdout, re.M)) == nodes


def said_of_empty(binary, folder):
    """A graph without nodes of a trace with accesses: how many have no step, and which option shows more."""
    once = [traces.record(0, 0, 4, 0x1000 + 4 * x, (x, 0, 0)) for x in range(3)]
    lanes = golden.columns((3, 3, 3, 2, b"\4" + golden.sleb(1), golden.sleb(1) + golden.leb(4) + b"\1" + golden.u32(255), golden.sleb(4096)))  # warp 0
    compact = golden.head(features=golden.HAS_DEVICE) + golden.meta({"ev": "header", "version": 1, "format": "compact"}, golden.KERNEL) + \
        golden.device(lanes, 8) + golden.meta({"ev": "launch", "seq": 5, "stream": 0, "kernel": "k<int>", "traced": True, "records": 8},
                                              {"ev": "end", "records_written": 8, "complete": True})
    none, more = "have no step before them: the graph is empty", "; --lanes shows the strides between the lanes of a warp\n"
    for data, options, says in ((traces.trace([("k", once)]), [], f"3 accesses {none}\n"), (golden.closed(compact), [], f"8 accesses {none}{more}"),
                                (traces.trace([("k", once[:1])]), [], "1 access has no step before it: the graph is empty\n"),
                                (golden.closed(compact), ["--lanes"], ""), (traces.trace([("k", once[:1] * 2)]), [], ""), (traces.trace([("k", [])]), [], "")):
        path = os.path.join(folder, "once")
        with open(path, "wb") as f:
            f.write(data)
        r = subprocess.run([binary + "/mt-graph", "-f", "json", *options, path], capture_output=True, check=True, text=True)
        assert "".join(x for x in r.stderr.splitlines(True) if "step" in x) == (says and "mt-graph: " + says), (options, says, r.stderr, r.stdout)
        assert bool(json.loads(r.stdout)["nodes"]) == (not says and data != traces.trace([("k", [])]))


def main():
    binary, cases = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300
    folder = tempfile.mkdtemp(prefix="mt-graph-")
    for seed in range(cases):
        try:
            dot = check(binary, folder, random.Random(seed))
        except Exception:
            print("seed %d, kept in %s" % (seed, folder))
            raise
    said_of_large(binary, folder)
    said_of_empty(binary, folder)
    if shutil.which("dot"):  # Graphviz takes it
        svg = subprocess.run(["dot", "-Tsvg"], input=dot.encode(), capture_output=True, check=True).stdout
        assert svg.count(b'class="node"') == len(re.findall(r"^  n\d+ \[", dot, re.M))
    shutil.rmtree(folder)
    print("%d random traces: graph, DOT and dump as expected" % cases)


if __name__ == "__main__":
    main()
