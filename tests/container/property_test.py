"""Random containers: what the writer was given, what a decoder written from the specification finds in the
file, and what libmemtrace-reader hands out must be one thing; in all three orders.

    property_test.py GEN_MTC READ_MTC MT_CONVERT [CASES]

And what memtrace convert makes of it must be what the text formats say.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mtc  # noqa: E402

gen, read, convert = sys.argv[1:4]
cases = int(sys.argv[4]) if len(sys.argv) > 4 else 60
SEQ = 9


def run(*args):
    p = subprocess.run(args, capture_output=True, text=True, timeout=120)
    if p.returncode != 0:
        raise SystemExit("%s: exit %d\n%s%s" % (" ".join(args), p.returncode, p.stdout[:500], p.stderr))
    return p.stdout.splitlines()


def truth(text, timed):
    """[(thread, [("a"|"e", ...)])] per chunk, in file order."""
    out = []
    for line in text:
        kind, *rest = line.split()
        v = [int(x) for x in rest]
        if kind == "c":
            out.append((v[0], []))
        elif kind == "a":
            out[-1][1].append(("a", v[0], v[1], v[2], v[3] if timed else 0))
        else:
            out[-1][1].append(("e", v[0], v[1] if timed else 0, v[2:]))
    return out


def as_read(chunks, firsts, sizes):
    """The lines that read_mtc prints for these chunks in file order, each with (seq, time, thread)."""
    out = []
    for (thread, items), seq in zip(chunks, firsts):
        for it in items:
            if it[0] == "a":
                it = (*it[:3], it[3] or sizes.get(it[1], 0), it[4])
                out.append(("r %d %d %d %d %d %d" % (thread, seq, it[1], it[2], it[3], it[4]), seq, it[4], thread))
            else:
                if it[1] == SEQ:
                    seq = it[3][0]
                out.append((" ".join(str(x) for x in ["e", thread, seq, it[1], it[2], *it[3]]), seq, it[2], thread))
    return out


DOES = {"load": "r", "store": "w", "atomic": "rw", "unknown": "r", "exec": "", "cas": "rw", "cas-failed": "r"}
WORDS = ["", "tr", "tf", "fc", "fr", "start_roi", "end_roi", "ctxt_change", "thread_sync"]


def as_atomic(by_time, sites, functions):
    """TIME THREAD lines of items in order of time. A thread that began and did not end has ended with the program."""
    out, line, names, running, latest = [], None, {}, [], 0

    def done():
        if line and line[2]:
            given = line[2]
            fields = ["%d\t%d\tm" % (line[0], names.get(line[1], line[1]))]
            fields += ["r\t%d\t%d" % given["r"]] if "r" in given else []
            fields += ["r2\t%d" % given["r2"]] if "r2" in given else []
            fields += ["w\t%d\t%d" % given["w"]] if "w" in given else []
            out.append("\t".join(fields))

    for text in by_time:
        kind, *v = text.split()
        v = [int(x) for x in v]
        if kind == "r":
            thread, _, site, address, size, time = v
            latest = max(latest, time)
            if not line or line[:2] != [time, thread]:
                done()
                line = [time, thread, {}]
            does, given = DOES[sites.get(site, {"op": "unknown"})["op"]], line[2]
            if "w" in does and "w" in given:
                continue
            if "r" in does and "r" in given and ("r2" in given or given["r"][1] != size):
                continue
            if "r" in does:
                if "r" in given:
                    given["r2"] = address
                else:
                    given["r"] = (address, size)
            if "w" in does:
                given["w"] = (address, size)
        else:
            done()
            line = None
            thread, _, event, time, *args = v
            latest = max(latest, time)
            if event == 1:
                names[thread] = (args[0] ^ 1 << 63) - (1 << 63)
                running.append(names[thread])
            elif event == 2 and names.get(thread, thread) in running:
                running.remove(names.get(thread, thread))
            if event > 8:
                continue
            if event in (3, 4):
                args = [functions.get(args[0], "?")] + args[1:]
            else:
                args = []
            out.append("\t".join(str(x) for x in [time, names.get(thread, thread), WORDS[event], *args]))
    done()
    return out + [f"{latest + 1 + i}\t{name}\ttf" for i, name in enumerate(running)]


def as_mat(by_seq, sites, allocs):
    out, shown = [], set()
    for text in by_seq:
        kind, *v = text.split()
        if kind != "r":
            continue
        _, seq, site, address, size, _ = (int(x) for x in v)
        live = [a for a in allocs if a["base"] <= address < a["base"] + a["bytes"] and a["seq"] <= seq < a["free"]]
        inner = [a for a in live if a["kind"] == "malloc"] or live
        if not inner:
            continue
        assert len(inner) == 1
        s = sites.get(site, {"op": "unknown", "ip": 0, "file": ""})
        ip = int(str(s["ip"]), 0) or site
        lines = ["%d %d %d %d %d %d %d" % (ip, address, address - inner[0]["base"], inner[0]["base"], t, size,
                                           inner[0]["bytes"]) for t, c in ((1, "r"), (2, "w")) if c in DOES[s["op"]]]
        if lines and site // 4 not in shown and s["file"]:
            shown.add(site // 4)
            out.append("%d %s:%d" % (ip, s["file"], s["line"]))
        out += lines
    return out


def as_insn(by_time, sites):
    groups = {}
    for text in by_time:
        kind, *v = text.split()
        if kind == "r":
            _, _, site, address, size, time = (int(x) for x in v)
            groups.setdefault(site // 4, []).append((time, site, address, size))
    heads = []
    for number in groups:
        known = [sites[number * 4 + i] for i in range(4) if number * 4 + i in sites] or [{"ip": "0", "text": "?", "reads": ""}]
        heads.append((int(known[0]["ip"], 0), number, known[0]))
    out = []
    for ip, number, s in sorted(heads, key=lambda h: h[:2]):
        out.append("0x%x\t%s\tR:%s\tW:" % (ip, s["text"], s["reads"]))
        before = None
        for time, site, address, size in groups[number]:
            if time != before:
                out.append("\t%d" % time)
            before = time
            for c in DOES[sites[site]["op"]] if site in sites else "":
                out[-1] += "\t%s\t0x%x\t%d" % (c.upper(), address, size)
    return out


def compare(what, seed, a, b):
    if a == b:
        return
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            raise SystemExit("seed %d, %s: item %d: %s against %s" % (seed, what, i, x, y))
    raise SystemExit("seed %d, %s: %d items against %d" % (seed, what, len(a), len(b)))


def one(seed, path):
    timed = seed % 2
    given = truth(run(gen, str(seed), str(timed), str(seed % 3), path), timed)
    with open(path, "rb") as f:
        data = f.read()
    all_chunks = list(mtc.chunks(data))
    host = [c for c in all_chunks if c.type == mtc.HOST]
    found = [(c.key, mtc.host(c.payload, timed)) for c in host]
    compare("specification", seed, given, found)
    for c, (_, items) in zip(host, found):
        assert c.items == len(items), "items of the chunk at %d" % c.offset
    assert bool(mtc.read_head(data)["features"] & mtc.HAS_TIMES) == bool(timed)
    meta = [x for c in all_chunks if c.type == mtc.META for x in mtc.lines(c)]
    sites = {x["id"]: x for x in meta if x["ev"] == "site"}
    functions = {x["id"]: x["name"] for x in meta if x["ev"] == "function"}
    frees = {x["id"]: x["seq"] for x in meta if x["ev"] == "free"}
    allocs = [dict(x, base=int(x["base"]), free=frees.get(x["id"], 1 << 70)) for x in meta if x["ev"] == "alloc"]
    lines = as_read(found, [c.first for c in host], {k: v["size"] for k, v in sites.items()})
    by_file = [x[0] for x in lines]
    compare("file order", seed, by_file, run(read, "file", path))
    by_seq = [x[0] for x in sorted(lines, key=lambda x: (x[1], x[3]))]
    compare("by sequence number", seed, by_seq, run(read, "seq", path))
    if timed:
        by_time = [x[0] for x in sorted(lines, key=lambda x: (x[2], x[3]))]
        compare("by time", seed, by_time, [x for x in run(read, "time", path) if x != "-"])
        compare("atomic text", seed, as_atomic(by_time, sites, functions), run(convert, path))
        compare("atomic text, file order", seed, as_atomic(by_file, sites, functions),
                run(convert, "--order", "file", path))
        compare("instructions", seed, as_insn(by_time, sites), run(convert, "--to", "insn", path))
    compare("mat text", seed, as_mat(by_seq, sites, allocs) + ["0 <end>:0"], run(convert, "--to", "mat", path))
    # Without tail and index: the same from a scan, and through a pipe.
    index = all_chunks[-1].offset if all_chunks[-1].type == mtc.INDEX else len(data)
    assert index < len(data)
    cut = data[:index]
    with open(path, "wb") as f:
        f.write(cut)
    compare("scan", seed, by_file, run(read, "file", path))
    for what, sent in (("pipe", data), ("pipe without tail", cut)):
        p = subprocess.run([read, "file", "-"], input=sent, capture_output=True, timeout=60, check=True)
        compare(what, seed, by_file, p.stdout.decode().splitlines())
    return sum(len(i) for _, i in found)


with tempfile.TemporaryDirectory() as folder:
    total = sum(one(seed, os.path.join(folder, "x.mtc")) for seed in range(cases))
print("%d containers, %d items" % (cases, total))
assert total > cases * 500
