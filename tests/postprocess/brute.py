"""The communication analysis once more, byte by byte in dictionaries, from docs/definitions.md alone.

Slow on purpose: no ranges, no pages, no caches. Used to check mt-extract, from which it shares nothing.
"""
import json
import re

TYPES = ["load", "store", "atomic", "unknown"]
HOST = "<host>"


def parse(data):
    """Launches [(kernel, [record])] of a raw trace, whole parts only, and whether it is whole."""
    if not data or data[0] != 24:
        return [], False
    at, launches = 1, []
    while at < len(data):
        lf = data.find(b"\n", at)
        if lf < 0:
            return launches, False
        name, records, at = data[at:lf].decode(), [], lf + 1
        launches.append((name, records))
        while True:
            if len(data) - at < 24:
                return launches, False
            w = [int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little") for i in range(3)]
            at += 24
            if w == [0, 0, 0]:
                break
            records.append(
                {
                    "sm": w[0] >> 32,
                    "type": TYPES[w[0] >> 28 & 15],
                    "size": w[0] & 0xFFFFFFF,
                    "addr": w[1],
                    "cta": (w[2] >> 32, w[2] >> 16 & 0xFFFF, w[2] & 0xFFFF),
                }
            )
    return launches, True


def order(traces, companions, use_host):
    """The events of all inputs in order: ("launch", kernel, records) and host copies as they stand."""
    metas = [[json.loads(line) for line in c.splitlines()] if c else None for c in companions]
    launches, copies = [], {}
    known = all(m is not None for m in metas)
    for i, (data, meta) in enumerate(zip(traces, metas)):
        found = parse(data)[0]
        seqs = [e["seq"] for e in meta if e["ev"] == "launch" and e.get("traced", True)] if meta else []
        for k, (name, records) in enumerate(found):
            seq = seqs[k] if known and k < len(seqs) else float("inf")
            launches.append(((seq, i, k) if known else (i, k), seq, name, records))
        for e in meta or []:
            if e["ev"] in ("memcpy", "memset"):
                copies[e["seq"]] = e
    launches.sort(key=lambda x: x[0])
    todo = sorted(copies) if use_host and known else []
    out = []
    for _, seq, name, records in launches:
        while todo and todo[0] < seq:
            out.append(("copy", copies[todo.pop(0)]))
        out.append(("launch", name, records))
    return out


class Byte:
    """One stored byte: who wrote it, in which record, and whether another has read it."""

    def __init__(self, step, cta, sm, start):
        self.step, self.cta, self.sm, self.start, self.read = step, cta, sm, start, False


def rows(e):
    for r in range(e.get("height", 1)):
        width = e["width"] if "height" in e else e["bytes"]
        yield e["dst"], e.get("src"), r * e.get("dpitch", e.get("pitch", 0)), r * e.get("spitch", 0), width


def number(x):
    return int(x, 16) if isinstance(x, str) else x


def copy(memory, e, step):
    for dst, src, d, s, width in rows(e):
        dst, src = number(dst) + d, (number(src) + s) if src is not None else None
        if e["ev"] == "memset" or e["kind"] in ("h2d", "h2h"):
            for i in range(width):
                memory[(dst + i) % 2**64] = Byte(step, HOST, None, None)
            continue
        old = [memory.get((src + i) % 2**64) for i in range(width)]
        for i, b in enumerate(old):
            if dst == src:
                continue
            a = (dst + i) % 2**64
            memory.pop(a, None)
            if b:
                memory[a] = Byte(b.step, b.cta, b.sm, b.start)


def add(table, *path):
    for p in path[:-1]:
        table = table.setdefault(p, {})
    return table.setdefault(path[-1], {"Load": 0, "Store": 0})


def z_major(cta):
    return cta[2], cta[1], cta[0]


def text(cta):
    return "%d,%d,%d" % cta


def ordered(table, keys):
    """Nested dictionaries with keys sorted per level by the functions in `keys`, written as texts."""
    if not keys:
        return table
    sort, show = keys[0]
    return {show(k): ordered(table[k], keys[1:]) for k in sorted(table, key=sort)}


NAME = (lambda k: k.encode(), str)
NUMBER = (lambda k: k, str)
CTA = (z_major, text)


def extract(traces, companions, local=False, strict=False, host=True, kernels=None, supersteps=None, sections=()):
    events = order(traces, companions, host)
    names = [e[1] for e in events if e[0] == "launch"]
    first, end = supersteps or (0, None)
    selected = [
        s >= first and (end is None or s < end) and (kernels is None or re.search(kernels, n) is not None)
        for s, n in enumerate(names)
    ]
    memory, transfers, keys, operations = {}, {}, set(), []
    out = {k: {} for k in ("KCV", "KDV", "CCV", "CDV", "SCV", "SDV")}
    unknown = count = 0

    def volume(comm, step, cta, sm, what, n):
        if selected[step]:
            letter = "C" if comm else "D"
            add(out["K%sV" % letter], names[step], step)[what] += n
            add(out["C%sV" % letter], names[step], step, cta)[what] += n
            add(out["S%sV" % letter], names[step], step, sm)[what] += n

    step = -1
    for e in events:
        if e[0] == "copy":
            copy(memory, e[1], step + 1)
            continue
        step += 1
        if selected[step]:
            for letter in "CD":
                add(out["K%sV" % letter], names[step], step)
                out["C%sV" % letter].setdefault(names[step], {}).setdefault(step, {})
                out["S%sV" % letter].setdefault(names[step], {}).setdefault(step, {})
        for r in e[2]:
            count += 1
            operations.append((step, r))
            for comm in (0, 1):  # whoever has a record has a line in each map
                for what in ("Load", "Store"):
                    volume(comm, step, r["cta"], r["sm"], what, 0)
            touched = [(r["addr"] + i) % 2**64 for i in range(r["size"])]
            sources = {}
            if r["type"] in ("load", "atomic"):
                volume(0, step, r["cta"], r["sm"], "Load", r["size"])
                for a in touched:
                    b = memory.get(a)
                    if b is None:
                        continue
                    if b.cta == HOST:
                        sources[(HOST, (0, 0, 0), b.step)] = sources.get((HOST, (0, 0, 0), b.step), 0) + 1
                        continue
                    if b.cta == r["cta"] and (local or b.step == step):
                        continue
                    if strict and b.step == step:
                        continue
                    source = (names[b.step], b.cta, b.step)
                    sources[source] = sources.get(source, 0) + 1
                    volume(1, step, r["cta"], r["sm"], "Load", 1)
                    if not b.read:
                        volume(1, b.step, b.cta, b.sm, "Store", 1)
                        b.read = True
                    if selected[step]:
                        keys.update((r["addr"], b.start))
            if selected[step]:
                for (k, c, s), n in sources.items():
                    leaf = transfers
                    for p in (k, c, s, names[step], r["cta"]):
                        leaf = leaf.setdefault(p, {})
                    leaf = leaf.setdefault(step, {"Size": 0, "cnt": 0})
                    leaf["Size"] += n
                    leaf["cnt"] += 1
                    if k != HOST and s == step:
                        leaf["unordered"] = True
            if r["type"] in ("store", "atomic"):
                volume(0, step, r["cta"], r["sm"], "Store", r["size"])
                for a in touched:
                    memory[a] = Byte(step, r["cta"], r["sm"], r["addr"])
            unknown += r["type"] == "unknown"

    result = {"launches": len(names), "records": count, "unknown": unknown}
    for s in ("KCV", "KDV", "CCV", "CDV", "SCV", "SDV"):
        if s in sections:
            result[s] = ordered(out[s], [NAME, NUMBER] + {"K": [], "C": [CTA], "S": [NUMBER]}[s[0]])
    if "transfers" in sections:
        result["transfers"] = ordered(transfers, [NAME, CTA, NUMBER, NAME, CTA, NUMBER])
    if "addresses" in sections:
        table = {}
        for key in sorted(keys):
            table[hex(key)] = [
                {
                    "kernel": names[s],
                    "it": s,
                    "cta": list(r["cta"]),
                    "addr": hex(r["addr"]),
                    "smid": r["sm"],
                    "size": r["size"],
                    "type": r["type"],
                }
                for s, r in operations
                if (key - r["addr"]) % 2**64 < r["size"]
            ]
        result["addresses"] = table
    return result
