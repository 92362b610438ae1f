#!/usr/bin/env python3
"""memtrace extract --format=perfetto: the rules of Chrome's Trace Event Format (Trace Event Format Definition, Chromium project), and the
events of companions written here, one by one. usage: timeline_test.py BIN"""
import json
import os
import subprocess
import sys
import tempfile

import traces

BIN = sys.argv[1]
STREAMS = 1 << 30  # the thread of stream 0


def extract(*args):
    p = subprocess.run([os.path.join(BIN, "mt-extract"), *args], capture_output=True)
    assert p.returncode in (0, 3), p.stderr
    return json.loads(p.stdout)


def nested(slices):
    """Slices of one track: each within the one around it, or after it."""
    around = []
    for begin, end in sorted(slices, key=lambda s: (s[0], -s[1])):
        while around and around[-1] <= begin:
            around.pop()
        assert not around or end <= around[-1] + 1e-6, "slices overlap: %s" % slices
        around.append(end)


def check(out):
    """The format's rules; {phase: [events]}."""
    assert set(out) == {"displayTimeUnit", "traceEvents", "otherData"} and out["displayTimeUnit"] in ("ms", "ns")
    by, tracks, pairs = {p: [] for p in "MXibesf"}, {}, {}
    needs = {"M": {"args"}, "X": {"ts", "dur", "cat", "args"}, "i": {"ts", "s", "cat", "args"}, "b": {"ts", "id", "cat", "args"},
             "e": {"ts", "id", "cat", "args"}, "s": {"ts", "id", "cat", "args"}, "f": {"ts", "id", "cat", "bp", "args"}}
    for e in out["traceEvents"]:
        assert set(e) == {"ph", "name", "pid", "tid"} | needs[e["ph"]], e
        assert isinstance(e["name"], str) and all(isinstance(e[k], int) and 0 < e[k] < 2**31 for k in ("pid", "tid"))
        assert all(isinstance(e[k], float) and e[k] >= 0 for k in ("ts", "dur") if k in e) and isinstance(e["args"], dict)
        by[e["ph"]].append(e)
        if e["ph"] == "X":
            tracks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
        if e["ph"] in "besf":
            pairs.setdefault((e["cat"], e["id"], e["name"]), []).append(e)
        if e["ph"] == "i":
            assert e["s"] in ("g", "p", "t")
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name") and isinstance(e["args"]["name"], str)
    for slices in tracks.values():
        nested(slices)
    for two in pairs.values():
        assert [e["ph"] for e in two] in (["b", "e"], ["s", "f"]) and two[0]["ts"] <= two[1]["ts"], two
    for e in by["s"] + by["f"]:  # an end lies in a slice of its track
        assert any(a <= e["ts"] <= b for a, b in tracks[e["pid"], e["tid"]]), e
    named = {(e["pid"], e["tid"]) for e in by["M"] if e["name"] == "thread_name"}
    assert set(tracks) <= named and {e["pid"] for e in by["M"] if e["name"] == "process_name"} == {1, 2}
    return by


def timed(folder):
    """Two streams, a copy, a fill, ranges that overlap, a launch without trace; names with what JSON minds."""
    a, b = os.path.join(folder, "MemTrace-pipe-0"), os.path.join(folder, "MemTrace-pipe-1")
    name = 'w<"\\\u00e9">'
    with open(a, "wb") as f:
        f.write(traces.trace([(name, [traces.record(0, 1, 4, 0x100 + 4 * i, (i, 0, 0)) for i in range(4)])]))
    with open(b, "wb") as f:
        f.write(traces.trace([("r", [traces.record(0, 0, 4, 0x100 + 4 * i, (9, 0, 0)) for i in range(4)])]))
    launch = lambda seq, stream, kernel, at, to, **more: dict({"ev": "launch", "seq": seq, "stream": stream, "kernel": kernel, "grid": [4, 1, 1],
                                                               "block": [32, 2, 1], "file": "a.cu", "line": seq, "begin_ns": at, "end_ns": to,
                                                               "records": 4, "traced": True}, **more)
    first = [{"ev": "memcpy", "seq": 1, "kind": "h2d", "dst": "0x100", "src": "0x9000", "bytes": 16, "stream": -1, "begin_ns": 5000},
             {"ev": "memset", "seq": 2, "dst": "0x200", "value": 0, "bytes": 8, "stream": 1, "begin_ns": 5500},
             launch(3, 0, name, 6000, 9000), launch(4, 0, "quiet", 9000, 9500, traced=False, records=0)]
    for i, (begin, end) in enumerate(((4000, 8000), (7000, 30500))):
        first.append({"ev": "range", "seq": 20 + i, "begin": i, "begin_ns": begin, "end_ns": end, "thread": 7, "name": "part %d" % i, "domain": ""})
    for path, stream, events in ((a, 0, first), (b, 1, [launch(5, 1, "r", 10000, 10750)])):
        with open(path + ".meta", "w") as f:
            f.write(traces.companion(events, header={"stream": stream, "program": "/bin/a program"}, end={"records_written": 4, "records_counted": 4}))
    out = extract("--format=perfetto", a, b)
    by = check(out)
    got = [(e["name"], e["tid"], e["ts"], e["dur"], e["cat"]) for e in by["X"]]
    assert got == [(name, STREAMS, 2.0, 3.0, "kernel"), ("r", STREAMS + 1, 6.0, 0.75, "kernel"), ("quiet", STREAMS, 5.0, 0.5, "untraced")], got
    args = by["X"][0]["args"]
    assert (args["superstep"], args["grid"], args["block"], args["file"], args["line"], args["load"], args["store"], args["comm_store"]) == (
        0, "4 x 1 x 1", "32 x 2 x 1", "a.cu", 3, 0, 16, 16), args
    assert [(e["name"], e["pid"], e["tid"], e["ts"], e["args"]["bytes"]) for e in by["i"]] == [("memcpy h2d", 2, 2, 1.0, 16), ("memset", 1, STREAMS + 1, 1.5, 8)]
    assert [(b["name"], b["tid"], b["ts"], e["ts"]) for b, e in zip(by["b"], by["e"])] == [("part 0", 7, 0.0, 4.0), ("part 1", 7, 3.0, 26.5)]
    assert [(s["tid"], s["ts"], f["tid"], f["ts"], s["args"]["bytes"]) for s, f in zip(by["s"], by["f"])] == [(STREAMS, 4.999, STREAMS + 1, 6.0, 16)]
    assert "a program" in [e["args"]["name"] for e in by["M"]]
    assert out["otherData"]["complete"] is True and out["otherData"]["times"] == "of the companion"


def ordered(folder):
    """Without times: launches in their order; flows are the transfers of comm.json."""
    path = os.path.join(folder, "bare")
    with open(path, "wb") as f:
        f.write(traces.trace([("k%d" % (n % 3), [traces.record(0, 2, 8, 0x100 + 4 * i, (i, 0, 0)) for i in range(n + 1)]) for n in range(70)]))
    by, out = check(extract("--format=perfetto", path)), extract("-s", "transfers,KDV,KCV", path)
    assert [(e["ts"], e["dur"]) for e in by["X"]] == [(float(n), 1.0) for n in range(70)]
    for e in by["X"]:
        step = str(e["args"]["superstep"])
        assert e["args"]["load"] == out["KDV"][e["name"]][step]["Load"] and e["args"]["comm_load"] == out["KCV"][e["name"]][step]["Load"]
    want = {}
    for kernel in out["transfers"].values():
        for cta in kernel.values():
            for step, to in cta.items():
                for cta2 in to.values():
                    for steps in cta2.values():
                        for step2, t in steps.items():
                            if step != step2:
                                want[int(step), int(step2)] = want.get((int(step), int(step2)), 0) + t["Size"]
    got = {(int(s["ts"]), int(f["ts"])): s["args"]["bytes"] for s, f in zip(by["s"], by["f"])}
    assert got == want and len(got) > 60, (got, want)


def main():
    with tempfile.TemporaryDirectory(prefix="mt-timeline-") as folder:
        timed(folder)
        ordered(folder)
        empty = os.path.join(folder, "empty")
        with open(empty, "wb") as f:
            f.write(traces.trace([]))
        assert not check(extract("--format=perfetto", empty))["X"]
        p = subprocess.run([os.path.join(BIN, "mt-extract"), "--format=perfetto", "-s", "KCV", empty], capture_output=True)
        assert p.returncode == 2 and b"--sections" in p.stderr


if __name__ == "__main__":
    main()
