"""The communication analysis once more, byte by byte in dictionaries, from docs/definitions.md alone.

Slow on purpose: no ranges, no pages, no caches. Used to check memtrace extract, from which it shares nothing.
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


def order(traces, companions, use_host, host=None):
    """The events of all inputs in order: ("launch", kernel, records), host copies as they are and, with a host trace,
    ("host", access). A host access with number s comes after the event with number s."""
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
            if (e["ev"] == "alloc" and e.get("kind") != "device") or (use_host and e["ev"] in ("memcpy", "memset")):
                copies[e["seq"]] = e
    launches.sort(key=lambda x: x[0])
    todo = sorted(copies) if known else []
    accesses = sorted(host, key=lambda a: (a["seq"], a["thread"])) if host is not None and use_host and known else []
    out = []

    def until(seq):
        while (todo and todo[0] < seq) or (accesses and accesses[0]["seq"] < seq):
            if todo and todo[0] < seq and (not accesses or todo[0] <= accesses[0]["seq"]):
                out.append(("copy", copies[todo.pop(0)]))
            else:
                out.append(("host", accesses.pop(0)))

    for _, seq, name, records in launches:
        until(seq)
        out.append(("launch", name, records))
    until(float("inf"))
    return out


class Byte:
    """One stored byte: who wrote it, in which record, and whether another has read it."""

    def __init__(self, step, cta, sm, start, place=None):
        self.step, self.cta, self.sm, self.start, self.place, self.read = step, cta, sm, start, place, False


def rows(e):
    for r in range(e.get("height", 1)):
        width = e["width"] if "height" in e else e["bytes"]
        yield e["dst"], e.get("src"), r * e.get("dpitch", e.get("pitch", 0)), r * e.get("spitch", 0), width


def number(x):
    return int(x, 16) if isinstance(x, str) else x


def copy(memory, e, step, traced):
    """`traced`: there is a host trace, so that all copies carry along who wrote."""
    if e["ev"] == "alloc":
        for i in range(e["bytes"]):
            memory.pop((number(e["base"]) + i) % 2**64, None)
        return
    nobody = e["ev"] == "memset" or e["kind"] in ("h2d", "h2h")
    for dst, src, d, s, width in rows(e):
        dst, src = number(dst) + d, (number(src) + s) if src is not None else None
        if e["ev"] == "memset" or (nobody and not traced):
            for i in range(width):
                memory[(dst + i) % 2**64] = Byte(step, HOST, None, None)
            continue
        old = [memory.get((src + i) % 2**64) for i in range(width)]
        for i, b in enumerate(old):
            if dst == src and not nobody:
                continue
            a = (dst + i) % 2**64
            memory.pop(a, None)
            if b:
                memory[a] = Byte(b.step, b.cta, b.sm, b.start, b.place)
            elif nobody:
                memory[a] = Byte(step, HOST, None, None)


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
# Below "<host>" are places, CTAs elsewhere; the two never mix.
CTA = (lambda k: k.encode() if isinstance(k, str) else z_major(k), lambda k: k if isinstance(k, str) else text(k))


def extract(traces, companions, local=False, strict=False, host=True, kernels=None, supersteps=None, sections=(),
            accesses=None):
    """`accesses`: of a host trace: dictionaries with seq, thread, place ("file:line" or None), op, addr, size."""
    events = order(traces, companions, host, accesses)
    traced = accesses is not None and host and all(companions)
    unknown_place = "?" if traced else (0, 0, 0)
    show = lambda p: unknown_place if p is None else p
    at_host = lambda s: s >= (supersteps or (0, None))[0] and (
        (supersteps or (0, None))[1] is None or s < supersteps[1]) and (
        kernels is None or re.search(kernels, HOST) is not None)
    names = [e[1] for e in events if e[0] == "launch"]
    first, end = supersteps or (0, None)
    selected = [
        s >= first and (end is None or s < end) and (kernels is None or re.search(kernels, n) is not None)
        for s, n in enumerate(names)
    ]
    memory, transfers, keys, operations = {}, {}, set(), []
    out = {k: {} for k in ("KCV", "KDV", "CCV", "CDV", "SCV", "SDV")}
    senders, reads = {}, []  # reads: (superstep, address, writer, reader) of each byte that counts, writers with their superstep
    unknown = count = touches = 0
    hosts = {}  # (place, superstep): [load, store, communicated load, communicated store]

    def at_place(place, step):
        return hosts.setdefault((show(place), step), [0, 0, 0, 0])

    def host_access(a, step):
        """What the host reads is not communication between CTAs: nothing is marked."""
        mine = at_place(a["place"], step)
        touched = [(a["addr"] + i) % 2**64 for i in range(a["size"])]
        if a["op"] in ("load", "atomic", "cas", "cas-failed"):
            mine[0] += a["size"]
            sources = {}
            for b in filter(None, map(memory.get, touched)):
                if b.cta != HOST:
                    key = (names[b.step], b.cta, b.step)
                    sources[key] = sources.get(key, 0) + 1
            mine[2] += sum(sources.values())
            for (k, c, s), n in sources.items() if at_host(step) else ():
                leaf = transfers
                for p in (k, c, s, HOST, show(a["place"])):
                    leaf = leaf.setdefault(p, {})
                leaf = leaf.setdefault(step, {"Size": 0, "cnt": 0})
                leaf["Size"] += n
                leaf["cnt"] += 1
        if a["op"] in ("store", "atomic", "cas"):
            mine[1] += a["size"]
            for x in touched:
                memory[x] = Byte(step, HOST, None, None, a["place"])

    def volume(comm, step, cta, sm, what, n):
        if selected[step]:
            letter = "C" if comm else "D"
            add(out["K%sV" % letter], names[step], step)[what] += n
            add(out["C%sV" % letter], names[step], step, cta)[what] += n
            add(out["S%sV" % letter], names[step], step, sm)[what] += n

    step = -1
    for e in events:
        if e[0] == "copy":
            copy(memory, e[1], step + 1, traced)
            continue
        if e[0] == "host":
            if e[1]["op"] != "unknown":
                touches += 1
                host_access(e[1], step + 1)
            continue
        step += 1
        if selected[step]:
            senders.setdefault(names[step], {})[step] = dict.fromkeys(("same_launch", "earlier_launch", "same_cta"), 0)
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
                        source = (HOST, show(b.place), b.step)
                        sources[source] = sources.get(source, 0) + 1
                        if traced and not b.read:
                            at_place(b.place, b.step)[3] += 1
                            b.read = True
                        continue
                    if b.cta == r["cta"] and (local or b.step == step):
                        continue
                    if strict and b.step == step:
                        continue
                    source = (names[b.step], b.cta, b.step)
                    sources[source] = sources.get(source, 0) + 1
                    volume(1, step, r["cta"], r["sm"], "Load", 1)
                    if selected[step]:
                        who = "same_launch" if b.step == step else "same_cta" if b.cta == r["cta"] else "earlier_launch"
                        senders[names[step]][step][who] += 1
                        reads.append((step, a, (b.step, b.cta), r["cta"]))
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
    if traced:
        result = {"launches": len(names), "records": count, "host_accesses": touches, "unknown": unknown}
    for s in ("KCV", "KDV", "CCV", "CDV", "SCV", "SDV"):
        if s in sections:
            result[s] = ordered(out[s], [NAME, NUMBER] + {"K": [], "C": [CTA], "S": [NUMBER]}[s[0]])
    for s, which in (("HCV", 2), ("HDV", 0)):
        if s in sections and traced:
            table = {}
            for (place, step), v in hosts.items():
                if at_host(step) and any(v[which : which + 2]):
                    table.setdefault(place, {})[step] = {"Load": v[which], "Store": v[which + 1]}
            result[s] = ordered(table, [NAME, NUMBER])
    if "transfers" in sections:
        result["transfers"] = ordered(transfers, [NAME, CTA, NUMBER, NAME, CTA, NUMBER])
    if "senders" in sections:
        result["senders"] = ordered(senders, [NAME, NUMBER])
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
    if "reads" in sections:
        result["reads"] = [(a, (str(s), names[s], text(c)), (str(step), names[step], text(reader)))
                           for step, a, (s, c), reader in reads]
    return result
