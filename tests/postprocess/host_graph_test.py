#!/usr/bin/env python3
"""memtrace graph on host traces, containers and MAT text, against a few lines of Python.

usage: host_graph_test.py BIN_FOLDER GEN_HOST [CASES]
"""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "container"))
import host_traces
import mtc

READ = {"load": "read", "cas-failed": "read", "store": "write", "atomic": "atomic", "cas": "atomic", "unknown": "unknown"}
FIELDS = ["buffer", "stride", "type", "size", "site"]


def walk(accesses, fields):
    """Nodes and edges of (actor, buffer id, bytes, address, type, site) in order."""
    nodes, edges, before, last = {}, {}, {}, {}
    for actor, buffer, size, address, kind, site in accesses:
        if (actor, buffer) in before:
            key = {"buffer": buffer, "stride": address - before[actor, buffer], "type": kind, "size": size or None,
                   "site": site}
            key = tuple(key[f] for f in fields)
            nodes[key] = nodes.get(key, 0) + 1
            if actor in last:
                edges[last[actor], key] = edges.get((last[actor], key), 0) + 1
            last[actor] = key
        before[actor, buffer] = address
    return nodes, edges


class Memory:
    """Each byte's allocation, one dictionary per layer."""

    def __init__(self):
        self.layers = {"maps": {}, "blocks": {}}

    def layer(self, a):
        return self.layers["maps" if a["kind"] in ("mmap", "brk", "section") else "blocks"]

    def begin(self, a):
        for i in range(a["bytes"]):
            self.layer(a)[int(a["base"], 16) + i] = a

    def end(self, a):
        layer = self.layer(a)
        for i in range(a["bytes"]):
            if layer.get(int(a["base"], 16) + i) is a:
                del layer[int(a["base"], 16) + i]

    def cut(self, a, base, size):
        layer = self.layer(a)
        for i in range(base, base + size):
            if layer.get(i) is a:
                del layer[i]

    def find(self, address):
        return self.layers["blocks"].get(address) or self.layers["maps"].get(address)


def make_container(rng):
    """Accesses and allocation events of one program: ranges of both layers that overlap, are cut and used again."""
    events, live, memory, seq, ident = [], [], Memory(), 1, rng.randint(0, 2)
    for _ in range(rng.randint(0, 14)):
        if live and rng.random() < 0.2:  # a part of one is given back
            a = rng.choice(live)
            whole = [i for i, x in memory.layer(a).items() if x is a]
            if whole:
                base, size = rng.choice(whole), 1
                while base + size in whole and rng.random() < 0.95:
                    size += 1
                events.append({"ev": "cut", "seq": seq, "id": a["id"], "base": hex(base), "bytes": size})
                memory.cut(a, base, size)
        elif live and rng.random() < 0.4:
            a = live.pop(rng.randrange(len(live)))
            memory.end(a)
            events.append({"ev": "free", "seq": seq, "id": a["id"], "base": a["base"]})
        else:
            a = {"ev": "alloc", "seq": seq, "id": ident, "base": hex(0x1000 + 16 * rng.randint(0, 12)),
                 "bytes": rng.choice([1, 8, 24, 64, 160]), "name": "", "file": "", "line": 0,
                 "kind": rng.choice(["malloc", "calloc", "realloc", "new", "global", "mmap", "mmap", "brk", "section"])}
            events.append(a)
            live.append(a)
            memory.begin(a)
            ident += 1
        seq += rng.choice([1, 1, 2])
    accesses = []
    for thread in range(rng.randint(1, 3)):
        now = 0
        for _ in range(rng.choice([0, 5, 80, 200])):
            if rng.random() < 0.1:
                now = min(now + rng.randint(1, 3), seq)
            accesses.append({"seq": now, "thread": thread, "place": rng.choice(["a.c:1", "/x/b \"q\".c:22", None]),
                             "op": rng.choice(list(READ)), "addr": 0xFF0 + rng.randrange(0, 400, rng.choice([1, 8])),
                             "size": rng.choice([1, 4, 8])})
    return accesses, events


def container_graph(accesses, events, everything):
    """What walk() takes, and how many accesses lie in no allocation."""
    memory, out, outside, todo = Memory(), [], 0, list(events)
    known = {e["id"]: e for e in events if e["ev"] == "alloc"}
    for a in sorted(accesses, key=lambda a: (a["seq"], a["thread"])):
        while todo and todo[0]["seq"] <= a["seq"]:
            e = todo.pop(0)
            if e["ev"] == "alloc":
                memory.begin(e)
            elif e["ev"] == "cut":
                memory.cut(known[e["id"]], int(e["base"], 16), e["bytes"])
            else:
                memory.end(known[e["id"]])
        b = memory.find(a["addr"])
        outside += b is None
        if b or everything:
            out.append((a["thread"], b["id"] if b else None, b["bytes"] if b else None, a["addr"], READ[a["op"]],
                        a["place"] or "?"))
    return out, outside


def make_mat(rng):
    """Lines of a MAT text trace and what walk() takes."""
    lines, out, ids, size_at = [], [], {}, {}
    places = {0x400 + i: "dir/m.c:%d" % (i // 2) for i in range(4)}
    everything = rng.random() < 0.5
    outside = made = 0
    for _ in range(rng.choice([1, 30, 200])):
        ip, base = rng.choice([*places, 0x999]), rng.choice([4096, 8192, 8448, 0])
        size = rng.choice([64, 64, 128]) if base else 0
        offset, kind = rng.randrange(0, 64, 4), rng.choice([1, 2])
        lines.append("%s %d %d %d %d %d %d" % (rng.choice([str(ip), hex(ip)]), base + offset, offset, base, kind, 4, size))
        if base == 0:
            outside += 1
            if not everything:
                continue
            buffer = None
        else:
            if size_at.get(base) != size:  # buffers are numbered as they appear
                ids[base] = made
                made += 1
                size_at[base] = size
            buffer = ids[base]
        out.append((0, buffer, size or None, base + offset, {1: "read", 2: "write"}[kind], places.get(ip, hex(ip))))
    told = ["%d %s" % p for p in places.items()]
    for line in told:
        lines.insert(rng.randint(0, len(lines)), line)
    return "\n".join(lines) + "\n", out, everything, outside


def read_graph(binary, path, fields, options, code=0):
    command = [binary + "/mt-graph", "-f", "json", "--node", ",".join(fields), *options, path]
    r = subprocess.run(command, capture_output=True)
    assert r.returncode == code, (command, r.returncode, r.stderr)
    got = json.loads(r.stdout)
    keys = [tuple(n[f] for f in fields) for n in got["nodes"]]
    assert len(keys) == len(set(keys))
    nodes = {k: n["count"] for k, n in zip(keys, got["nodes"])}
    return got, nodes, {(keys[e["from"]], keys[e["to"]]): e["count"] for e in got["edges"]}, r.stderr.decode()


def same_everywhere(binary, path, fields, options, got):
    """DOT and GraphML say what JSON says."""
    run = lambda form: subprocess.run([binary + "/mt-graph", "-f", form, "--node", ",".join(fields), "--top=all", *options, path],
                                      capture_output=True, check=True).stdout.decode()
    edges = [(e["from"], e["to"], e["count"]) for e in got["edges"]]
    dot = run("dot")
    assert [tuple(map(int, e)) for e in re.findall(r"n(\d+) -> n(\d+) \[label=\"(\d+)\"", dot)] == edges
    assert len(re.findall(r"^  n\d+ \[label=\".* - \d+\"", dot, re.M)) == len(got["nodes"])
    space = "{http://graphml.graphdrawing.org/xmlns}"
    tree = xml.fromstring(run("graphml"))
    values = lambda node: {d.get("key"): d.text for d in node.findall(space + "data")}
    nodes = [values(n) for n in tree.iter(space + "node")]
    assert [n["count"] for n in nodes] == [str(n["count"]) for n in got["nodes"]]
    assert [n["site"] for n in nodes] == [n["site"] for n in got["nodes"]]
    for f in ("buffer", "stride", "type"):
        assert [n.get(f) for n in nodes] == [None if n.get(f) is None else str(n[f]) for n in got["nodes"]], f
    assert [(int(e.get("source")[1:]), int(e.get("target")[1:]), int(values(e)["times"]))
            for e in tree.iter(space + "edge")] == edges


def random_container(binary, gen_host, folder, rng):
    accesses, events = make_container(rng)
    path = os.path.join(folder, "t.mtc")
    script = host_traces.script(accesses, events, chunk=lambda: rng.random() < 0.1, sized=lambda: rng.random() < 0.5)
    host_traces.write(gen_host, path, script, rng.choice([0, 1]))
    fields = rng.choice([FIELDS[:3], FIELDS[:3], FIELDS, ["buffer", "site"], ["stride", "type"]])
    everything = rng.random() < 0.5
    options = ["--all"] if everything else []
    got, nodes, edges, words = read_graph(binary, path, fields, options)
    used, outside = container_graph(accesses, events, everything)
    assert (nodes, edges) == walk(used, fields), (path, fields, options, nodes, edges, walk(used, fields))
    assert got["records"] == len(used) and got["complete"]
    assert ("%d accesses outside all allocations" % outside in words) == (outside > 0 and not everything), words
    same_everywhere(binary, path, fields, options, got)


def random_mat(binary, folder, rng):
    text, used, everything, outside = make_mat(rng)
    path = os.path.join(folder, "t.txt")
    # its end: whole; accesses lost; none, and then only MAT itself, whose writes have type 0, is not to blame
    mats = not re.search(r"^\S+ \d+ \d+ \d+ 2 ", text, re.M)
    end, whole = rng.choice([("0 <end>:0\n", True), ("0 <end>:5\n", False), ("", None if mats else False)])
    with open(path, "w") as f:
        f.write(text + end)
    fields = rng.choice([FIELDS[:3], FIELDS, ["site"]])
    got, nodes, edges, words = read_graph(binary, path, fields, ["--all"] if everything else [], code=3 if whole is False else 0)
    assert got["complete"] is whole and ("5 accesses were lost" in words) == ("5" in end), (got["complete"], end, words)
    assert (nodes, edges) == walk(used, fields), (path, fields, nodes, edges, walk(used, fields))
    assert got["records"] == len(used)
    assert ("%d accesses outside" % outside in words) == (outside > 0 and not everything)
    assert "names no threads" in got["notes"][0] and "a base address and a size" in got["notes"][0]


def by_hand(binary, gen_host, folder):
    """Offsets 0 8 16 24 32 of one buffer are four times stride 8, as the paper's example has it; as container and as
    text. Then two threads, two buffers and a buffer that moves in at an old address."""
    walk8 = [{"seq": 1, "thread": 0, "place": "src/runARawLoops.cxx:524", "op": "load", "addr": 0x5000 + 8 * i, "size": 8}
             for i in range(5)]
    alloc = {"ev": "alloc", "seq": 1, "id": 18, "base": "0x5000", "bytes": 356352, "kind": "malloc"}
    path = os.path.join(folder, "hand.mtc")
    host_traces.write(gen_host, path, host_traces.script(walk8, [alloc]))
    text = os.path.join(folder, "hand.txt")
    with open(text, "w") as f:
        for a in walk8:
            f.write("77 %d %d %d 1 8 356352\n" % (a["addr"], a["addr"] - 0x5000, 0x5000))
        f.write("77 src/runARawLoops.cxx:524\n")
    for file, ident in ((path, 18), (text, 0)):
        _, nodes, edges, _ = read_graph(binary, file, FIELDS[:3], [])
        assert nodes == {(ident, 8, "read"): 4} and edges == {((ident, 8, "read"), (ident, 8, "read")): 3}, (nodes, edges)
        dot = subprocess.run([binary + "/mt-graph", file], capture_output=True, check=True).stdout.decode()
        assert 'label="%d 8 356352 runARawLoops.cxx-524 - 4", fillcolor=white' % ident in dot, dot

    def at(seq, thread, op, address, line):
        return {"seq": seq, "thread": thread, "place": "m.c:%d" % line, "op": op, "addr": address, "size": 4}

    accesses = [
        at(1, 0, "store", 0x100, 1), at(1, 0, "store", 0x104, 1), at(1, 0, "store", 0x108, 1),  # a: 4 4
        at(1, 1, "load", 0x108, 2), at(1, 1, "load", 0x100, 2),  # a, other thread: -8
        at(2, 0, "load", 0x200, 3), at(2, 0, "store", 0x100, 4),  # b: first; a: -8 (from 0x108)
        at(2, 0, "load", 0x208, 3), at(2, 0, "store", 0x104, 4),  # b: 8; a: 4
        at(4, 0, "store", 0x100, 5), at(4, 0, "store", 0x110, 5),  # c at a's address: first, 16
    ]
    events = [
        {"ev": "alloc", "seq": 1, "id": 0, "base": "0x100", "bytes": 64, "kind": "malloc"},
        {"ev": "alloc", "seq": 2, "id": 1, "base": "0x200", "bytes": 16, "kind": "malloc"},
        {"ev": "free", "seq": 3, "id": 0, "base": "0x100"},
        {"ev": "alloc", "seq": 4, "id": 2, "base": "0x100", "bytes": 32, "kind": "malloc"},
    ]
    path = os.path.join(folder, "threads.mtc")
    host_traces.write(gen_host, path, host_traces.script(accesses, events))
    _, nodes, edges, _ = read_graph(binary, path, FIELDS[:3], [])
    a4, a8, b8, c16, other = (0, 4, "write"), (0, -8, "write"), (1, 8, "read"), (2, 16, "write"), (0, -8, "read")
    assert nodes == {a4: 3, a8: 1, b8: 1, c16: 1, other: 1}, nodes
    assert edges == {(a4, a4): 1, (a4, a8): 1, (a8, b8): 1, (b8, a4): 1, (a4, c16): 1}, edges
    got, *_ = read_graph(binary, path, FIELDS[:3], ["--sequence"])
    index = {tuple(n[f] for f in FIELDS[:3]): n["id"] for n in got["nodes"]}
    assert got["sequence_complete"] and got["sequence"] == [
        [0, index[a4], 2], [0, index[a8], 1], [0, index[b8], 1], [0, index[a4], 1], [0, index[c16], 1],
        [1, index[other], 1]], got["sequence"]
    _, nodes, _, _ = read_graph(binary, path, ["buffer", "stride", "type", "site"], [])
    assert nodes[0, 4, "write", "m.c:1"] == 2 and nodes[0, 4, "write", "m.c:4"] == 1, nodes


def through_pipe(binary, path, pieces, name, **env):
    """What memtrace graph makes of the bytes `pieces`, written one after the other into a FIFO, or with name "-" into its
    standard input."""
    command = [binary + "/mt-graph", "-f", "json", name if name == "-" else path]
    if name != "-":
        os.mkfifo(path)
    p = subprocess.Popen(command, stdin=subprocess.PIPE if name == "-" else subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env={**os.environ, **env})
    with (p.stdin if name == "-" else open(path, "wb", buffering=0)) as out:
        for piece in pieces:
            out.write(piece)
            out.flush()
    answer, words = p.stdout.read(), p.stderr.read()
    p.wait(timeout=60)
    if name != "-":
        os.unlink(path)
    return p.returncode, json.loads(answer) if answer else None, words


def pipes(binary, gen_host, folder):
    """Traces while they are written. Text is followed line by line and stored nowhere; a container goes through a spool
    file; a raw trace of kernels is taken for one, as ever."""
    line = b"77 %d %d 20480 1 8 40\n"
    text = [b"7", b"7 a.c:", b"3\n"] + [line % (20480 + 8 * i, 8 * i) for i in range(5)] + [b"0 <e", b"nd>:0\n"]
    nowhere = os.path.join(folder, "no such folder")
    for name in ("fifo", "-"):
        path = os.path.join(folder, "pipe")
        code, got, words = through_pipe(binary, path, text, name, TMPDIR=nowhere)
        assert code == 0 and got["complete"] and words == b"", (code, words)
        assert [(n["stride"], n["count"], n["size"], n["site"]) for n in got["nodes"]] == [(8, 4, 40, "a.c:3")], got
        assert [(e["from"], e["to"], e["count"]) for e in got["edges"]] == [(0, 0, 3)], got
        code, got, words = through_pipe(binary, path, [b"".join(text) + b"77 2"], name)
        assert code == 3 and got["nodes"][0]["count"] == 4 and b"ends inside a line" in words, (code, words)

        file, want, rng = os.path.join(folder, "c.mtc"), {"nodes": []}, random.Random(1)
        while len(want["nodes"]) < 3:
            accesses, events = make_container(rng)
            host_traces.write(gen_host, file, host_traces.script(accesses, events))
            want, *_ = read_graph(binary, file, FIELDS[:3], [])
        with open(file, "rb") as f:
            data = f.read()
        code, got, _ = through_pipe(binary, path, [data[:5], data[5:100], data[100:]], name)
        assert code == 0 and (got["nodes"], got["edges"]) == (want["nodes"], want["edges"]), code
        code, _, words = through_pipe(binary, path, [data], name, TMPDIR=nowhere)
        assert code == 1 and b"TMPDIR" in words, (code, words)

        record = lambda address: (0x10000004).to_bytes(8, "little") + address.to_bytes(8, "little") + bytes(8)
        raw = [b"\x18", b"kernel\n", record(4096), record(4100), bytes(24)]
        code, got, _ = through_pipe(binary, path, raw, name)
        assert code == 0 and [(n["stride"], n["type"], n["count"]) for n in got["nodes"]] == [(4, "write", 1)], got
        code, _, words = through_pipe(binary, path, [], name)
        assert code == 3 and b"empty" in words, (code, words)


def unfit(binary, folder):
    """What an input is and who reads it is said; damage leaves what was whole."""
    cases = {"atomic": ("12\t0\tm\tr\t100\t4\n", b"text trace of atomic mode, not a trace of kernels: memtrace convert --order=time"),
             "insn": ("0x401000\tmov rax, rbx\tR:rbx\tW:rax\n\t1\n", b"instruction log, not a trace of kernels"),
             "meta": ('{"ev":"header","version":1}\n', b"companion file of a trace"),
             "comm": ('{\n "format": "memtrace-comm",\n', b"output of mt-extract")}
    for name, (text, words) in cases.items():
        path = os.path.join(folder, name)
        with open(path, "w") as f:
            f.write(text)
        for tool in ("mt-graph", "mt-extract"):
            r = subprocess.run([binary + "/" + tool, path], capture_output=True)
            assert r.returncode == 2 and words in r.stderr and r.stdout == b"", (tool, name, r)
        kind = words.split(b", not")[0]
        for args, not_of in ((["mt-convert", "-o", os.path.join(folder, "none")], None), (["mt-convert", "--order=time"], "atomic"), (["mt-report", "--from"], "comm")):
            r = subprocess.run([binary + "/" + args[0], *args[1:], path], capture_output=True)
            assert not_of == name or (r.returncode, kind in r.stderr, r.stderr.count(b"\n"), r.stdout) == (2, True, 1, b""), (args, name, r)
    for data, kind in ((b"\x18k\n" + bytes(24), b"is a trace of kernels"), (mtc.head(), b"is a compact trace of host accesses"),
                       (mtc.head(features=mtc.HAS_DEVICE), b"is a trace of kernels")):
        for pipe in (False, True):  # it called each line of it a bad one
            with open(os.path.join(folder, "other"), "wb") as f:
                f.write(data)
            if data[:4] == mtc.head()[:4] and not pipe:  # a container by time is text, too
                continue
            r = subprocess.run([binary + "/mt-convert", "--order=time"] + [f.name] * (not pipe), input=data if pipe else b"", capture_output=True)
            assert (r.returncode, kind + b", not a text trace of atomic mode: m" in r.stderr, r.stderr.count(b"\n")) == (2, True, 1), r
    r = subprocess.run([binary + "/mt-convert", "--order=time"], input=b"\nbad\n1\t0\ttr\n2\t0\ttf\n", capture_output=True)
    assert (r.returncode, r.stdout) == (3, b"0\ttr\n0\ttf\n"), r
    path = os.path.join(folder, "mat")
    line = "1 %d 0 4096 1 4 64\n"
    with open(path, "w") as f:
        f.write(line % 4096 + "not a line\n" + line % 4100 + line % 4104 + "1 4108 0")
    r = subprocess.run([binary + "/mt-extract", path], capture_output=True)
    assert r.returncode == 2 and b"is a MAT text trace" in r.stderr and b"memtrace graph" in r.stderr, r
    got, nodes, _, words = read_graph(binary, path, FIELDS[:3], [], code=3)
    assert nodes == {(0, 4, "read"): 2} and not got["complete"], nodes
    assert "mat: byte %d: is neither" % len(line % 4096) in words, words
    assert "ends inside a line" in words, words


def damage(binary, gen_host, folder, rng):
    """Cut and flipped containers: no crash, and an incomplete graph says so."""
    accesses, events = make_container(rng)
    path = os.path.join(folder, "d.mtc")
    host_traces.write(gen_host, path, host_traces.script(accesses, events, chunk=lambda: rng.random() < 0.2))
    with open(path, "rb") as f:
        data = bytearray(f.read())
    if rng.random() < 0.5:
        del data[rng.randrange(len(data)):]
    else:
        for _ in range(rng.randint(1, 5)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    with open(path, "wb") as f:
        f.write(data)
    for tool in ("mt-graph", "mt-extract"):
        r = subprocess.run([binary + "/" + tool, path], capture_output=True, timeout=20)
        assert r.returncode in (0, 2, 3) and (r.returncode == 0 or r.stderr), (tool, path, r)


def main():
    binary, gen_host, cases = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 200
    folder = tempfile.mkdtemp(prefix="mt-host-graph-")
    by_hand(binary, gen_host, folder)
    unfit(binary, folder)
    pipes(binary, gen_host, folder)
    for seed in range(cases):
        rng = random.Random(seed)
        try:
            random_container(binary, gen_host, folder, rng)
            random_mat(binary, folder, rng)
            damage(binary, gen_host, folder, rng)
        except Exception:
            print("seed %d, kept in %s" % (seed, folder))
            raise
    shutil.rmtree(folder)
    print("%d random host traces, containers and text: graphs as expected" % (2 * cases))


if __name__ == "__main__":
    main()
