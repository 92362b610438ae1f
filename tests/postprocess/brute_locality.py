"""The further analyses once more, access by access and byte by byte, from docs/definitions.md alone.

Slow on purpose. A trace is a list of launches, dictionaries with superstep, seq (None: not known), kernel, selected and
runs; a run has cta, sm, type, size, addresses, mask (0: none) and site. Sites are a list of (id, file, line, var, column) with
"" for what is not there, allocations one of (id, base, bytes, seq, free seq or None, name).
"""
TYPES = ["load", "store", "atomic", "unknown"]
ALL = 2**64


def z_major(cta):
    return cta[2], cta[1], cta[0]


def alloc_of(allocs, seq, address):
    """Index of the allocation that holds the byte when the launch with this number runs."""
    for i, (_, base, size, born, dead, _) in enumerate(allocs):
        if seq is not None and born < seq and (dead is None or dead > seq) and base <= address < base + size:
            return i
    return None


def label(allocs, i):
    return "?" if i is None else "#%d %s" % (allocs[i][0], allocs[i][5] or "cudaMalloc")


def first_of(i):
    return -1 if i is None else i


class Sites:
    def __init__(self, sites):
        self.line = {i: "%s:%d" % (f, n) for i, f, n, v, c in sites if f and i}
        self.var = {i: v for i, f, n, v, c in sites if v and i}
        self.column = {i: c for i, f, n, v, c in sites if i and (f or v)}
        self.number = {}  # lines in the order of the site table
        for i, f, n, v, c in sites:
            if f:
                self.number.setdefault("%s:%d" % (f, n), len(self.number) + 1)


def lines(trace, sites, allocs):
    tables = [{}, {}, {}]
    known = [False, False, bool(allocs)]
    for launch in trace:
        for r in launch["runs"] if launch["selected"] else []:
            for address in r["addresses"]:
                places = [sites.line.get(r["site"]), sites.var.get(r["site"]), alloc_of(allocs, launch["seq"], address)]
                for i, (table, place) in enumerate(zip(tables, places)):
                    known[i] |= place is not None
                    cell = table.setdefault(place, {}).setdefault(launch["kernel"], [0] * 6)
                    cell[0] += r["size"] if r["type"] in ("load", "atomic") else 0
                    cell[1] += r["size"] if r["type"] in ("store", "atomic") else 0
                    cell[2 + TYPES.index(r["type"])] += 1
    out = {}
    names = ("Load", "Store", "loads", "stores", "atomics", "unknown")
    for i, key in enumerate(("lines", "variables", "allocations")):
        if not known[i]:
            out[key] = None
            continue
        order = sorted(tables[i], key=first_of if i == 2 else lambda p: (p or "?").encode())
        show = (lambda p: label(allocs, p)) if i == 2 else lambda p: p or "?"
        out[key] = {show(p): {k: dict(zip(names, tables[i][p][k])) for k in sorted(tables[i][p])} for p in order}
    return out


def coalescing_sites(trace, sites):
    """The same sums by line, column, variable, kernel and type."""
    table = {}
    for launch in trace:
        for r in launch["runs"] if launch["selected"] else []:
            if r["type"] == "unknown" or not r["mask"]:
                continue
            line, var = sites.line.get(r["site"]), sites.var.get(r["site"])
            key = ((line or "?").encode(), sites.column.get(r["site"], 0), (var or "?").encode(), launch["kernel"].encode(),
                   TYPES.index(r["type"]))
            c = table.setdefault(key, {"line": line, "column": key[1], "variable": var, "kernel": launch["kernel"], "type": r["type"],
                                       "requests": 0, "accesses": 0, "bytes": 0, "distinct": 0, "sectors": 0, "lines": 0})
            touched = [(a + i) % ALL for a in r["addresses"] for i in range(r["size"])]
            for name, n in (("requests", 1), ("accesses", len(r["addresses"])), ("bytes", len(touched)), ("distinct", len(set(touched))),
                            ("sectors", len({b // 32 for b in touched})), ("lines", len({b // 128 for b in touched}))):
                c[name] += n
    return [table[key] for key in sorted(table)]


def coalescing(trace, sites):
    table, masked, unmasked = {}, 0, 0
    for launch in trace:
        for r in launch["runs"] if launch["selected"] else []:
            if r["type"] == "unknown":
                continue
            if not r["mask"]:
                unmasked += len(r["addresses"])
                continue
            masked += len(r["addresses"])
            key = (launch["kernel"], sites.line.get(r["site"], "?"), TYPES.index(r["type"]))
            c = table.setdefault(key, dict(requests=0, accesses=0, bytes=0, distinct=0, sectors=0, lines=0, single=0,
                                           irregular=0, strides={}))
            touched = [(a + i) % ALL for a in r["addresses"] for i in range(r["size"])]
            c["requests"] += 1
            c["accesses"] += len(r["addresses"])
            c["bytes"] += len(touched)
            c["distinct"] += len(set(touched))
            c["sectors"] += len({b // 32 for b in touched})
            c["lines"] += len({b // 128 for b in touched})
            gaps = {(b - a + 2**63) % ALL - 2**63 for a, b in zip(r["addresses"], r["addresses"][1:])}
            if not gaps:
                c["single"] += 1
            elif len(gaps) > 1:
                c["irregular"] += 1
            else:
                gap = gaps.pop()
                c["strides"][gap] = c["strides"].get(gap, 0) + 1
    if unmasked and not masked:
        return None
    out = {}
    for kernel, line, kind in sorted(table, key=lambda k: (k[0].encode(), k[1].encode(), k[2])):
        c = table[kernel, line, kind]
        out.setdefault(kernel, {}).setdefault(line, {})[TYPES[kind]] = {
            **{k: c[k] for k in ("requests", "accesses", "bytes", "distinct", "sectors", "lines")},
            "efficiency": round(c["distinct"] / (c["sectors"] * 32), 6),
            "single": c["single"],
            "irregular": c["irregular"],
            "strides": {str(s): c["strides"][s] for s in sorted(c["strides"])},
        }
    return {"unmasked": unmasked, "kernels": out, "sites": coalescing_sites(trace, sites)}


def sampled(line, bits):
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        line = (line ^ line >> shift) * factor % ALL
    line ^= line >> 31
    return line % 2**bits == 0


def lines_of(address, size, line_size):
    """In ascending order, over the end of the address space too."""
    seen = []
    for i in range(size):
        n = (address + i) % ALL // line_size
        if not seen or seen[-1] != n:
            seen.append(n)
    return seen


def settle(level, uses):
    """What the counts of a sample lack of all uses, or have too much, is at the shortest distances."""
    h, over = level["histogram"], level["cold"] + sum(level["histogram"].values()) - uses
    if over < 0:
        h[0] = h.get(0, 0) - over
    for b in sorted(h):
        less = min(h[b], max(over, 0))
        h[b], over = h[b] - less, over - less
    level["cold"] -= max(over, 0)
    level["histogram"] = {b: n for b, n in h.items() if n}


def reuse(trace, line_size, bits):
    out, device, scale = {}, [], 2**bits
    for launch in trace:
        contexts = [{}, {}, {0: device}]
        counts = [dict(cold=0, histogram={}) for _ in range(3)]
        uses, per_line = 0, {}
        for r in launch["runs"]:
            for level, who in enumerate((r["cta"], r["sm"], 0)):
                contexts[level].setdefault(who, [])
            for address in r["addresses"]:
                for n in lines_of(address, r["size"], line_size):
                    uses += 1
                    if not sampled(n, bits):
                        continue
                    per_line[n] = per_line.get(n, 0) + 1
                    for level, who in enumerate((r["cta"], r["sm"], 0)):
                        history = contexts[level][who]
                        if n in history:
                            last = len(history) - 1 - history[::-1].index(n)
                            distance = len(set(history[last + 1 :])) * scale
                            bucket = 0 if distance == 0 else 2 ** (distance.bit_length() - 1)
                            h = counts[level]["histogram"]
                            h[bucket] = h.get(bucket, 0) + scale
                        else:
                            counts[level]["cold"] += scale
                        history.append(n)
        if not launch["selected"]:
            continue
        for level in counts:
            settle(level, uses)
        cell = {"uses": uses}
        if bits:
            unseen = scale * (scale - 1)
            cell["error_uses"] = round((unseen * sum(u * u for u in per_line.values())) ** 0.5, 6)
            cell["error_lines"] = round((unseen * len(per_line)) ** 0.5, 6)
        for level, name in enumerate(("CTA", "SM", "device")):
            sets = [len(set(h)) for h in contexts[level].values()] if level < 2 else [len(per_line)]
            h = counts[level]["histogram"]
            cell[name] = {
                "contexts": len(sets),
                "lines": sum(sets) * scale,
                "largest": max(sets, default=0) * scale,
                "cold": counts[level]["cold"],
                "histogram": {str(b): h[b] for b in sorted(h)},
            }
        out.setdefault(launch["kernel"], {})[launch["superstep"]] = cell
    ordered = {k: {str(s): out[k][s] for s in sorted(out[k])} for k in sorted(out, key=str.encode)}
    return {"line_size": line_size, "sample": scale, "footprint": len(set(device)) * scale, "kernels": ordered}


def sharing(trace, allocs, line_size, top):
    out = {}
    kinds = ("private", "read", "true", "false")
    for launch in trace:
        touch, store, accesses = {}, {}, {}
        for r in launch["runs"] if launch["selected"] else []:
            if r["type"] == "unknown":
                continue
            for address in r["addresses"]:
                for n in lines_of(address, r["size"], line_size):
                    accesses[n] = accesses.get(n, 0) + 1
                for i in range(r["size"]):
                    b = (address + i) % ALL
                    touch.setdefault(b, set()).add(r["cta"])
                    if r["type"] != "load":
                        store.setdefault(b, set()).add(r["cta"])
        cells, named = {}, []
        for n in accesses:
            bytes_ = [b for b in range(n * line_size, (n + 1) * line_size) if b in touch]
            ctas = set().union(*(touch[b] for b in bytes_))
            stores = set().union(*(store.get(b, set()) for b in bytes_))
            if len(ctas) == 1:
                kind = 0
            elif not stores:
                kind = 1
            else:
                kind = 2 if any(b in store and len(touch[b]) > 1 for b in bytes_) else 3
            alloc = alloc_of(allocs, launch["seq"], bytes_[0])
            cell = cells.setdefault(alloc, [[0, 0] for _ in kinds])
            cell[kind][0] += 1
            cell[kind][1] += accesses[n]
            if kind >= 2:
                named.append((-kind, -accesses[n], n, alloc, len(stores)))
        if not cells:
            continue
        named.sort()
        shown = [x for x in named if x[0] == -3][:top] + [x for x in named if x[0] == -2][:top]
        lines_ = []
        for kind, count, n, alloc, writers in shown:
            line = {"address": hex(n * line_size), "allocation": None if alloc is None else label(allocs, alloc),
                    "sharing": kinds[-kind], "accesses": -count}
            if kind == -3:
                line["writers"] = writers
            lines_.append(line)
        table = {label(allocs, a): {k: dict(zip(("lines", "accesses"), v)) for k, v in zip(kinds, cells[a])}
                 for a in sorted(cells, key=first_of)}
        out.setdefault(launch["kernel"], {})[launch["superstep"]] = {"allocations": table, "top": lines_}
    ordered = {k: {str(s): out[k][s] for s in sorted(out[k])} for k in sorted(out, key=str.encode)}
    return {"line_size": line_size, "kernels": ordered}


def conflicts(trace, sites, allocs):
    out = {}
    for launch in trace:
        bytes_ = {}  # byte -> {(line number, type)} -> CTAs
        for r in launch["runs"] if launch["selected"] else []:
            if r["type"] == "unknown":
                continue
            line = sites.line.get(r["site"])
            side = (sites.number[line] if line else 0, TYPES.index(r["type"]), line)
            for address in r["addresses"]:
                for i in range(r["size"]):
                    bytes_.setdefault((address + i) % ALL, {}).setdefault(side, set()).add(r["cta"])
        pairs = {}
        for b in sorted(bytes_):
            sides = sorted(bytes_[b], key=lambda s: s[:2])
            for i, s in enumerate(sides):
                for t in sides[i:]:
                    if "store" not in (TYPES[s[1]], TYPES[t[1]]):
                        continue
                    two = [(z_major(p), z_major(q), p, q) for p in bytes_[b][s] for q in bytes_[b][t] if p != q]
                    if two:
                        pairs.setdefault((s, t), []).append((b, min(two)[2:]))
        found = []
        for s, t in sorted(pairs, key=lambda p: (p[0][:2], p[1][:2])):
            address, ctas = pairs[s, t][0]
            alloc = alloc_of(allocs, launch["seq"], address)
            found.append({"a": {"type": TYPES[s[1]], "line": s[2]}, "b": {"type": TYPES[t[1]], "line": t[2]},
                          "bytes": len(pairs[s, t]), "address": hex(address),
                          "allocation": None if alloc is None else label(allocs, alloc), "ctas": [list(c) for c in ctas]})
        if found:
            out.setdefault(launch["kernel"], {})[launch["superstep"]] = found
    return {k: {str(s): out[k][s] for s in sorted(out[k])} for k in sorted(out, key=str.encode)}


def traffic(trace, allocs, most):
    """Coarsened only when all is counted: neighbouring launches become one, in `heat` every third time neighbouring pieces."""
    if not allocs:
        return None
    rows, heat = {}, {}
    piece = [4] * len(allocs)
    for i, (_, _, size, *_) in enumerate(allocs):
        while -(-size // piece[i]) > 64:
            piece[i] *= 2
    for launch in trace:
        for r in launch["runs"] if launch["selected"] else []:
            for address in r["addresses"]:
                a = alloc_of(allocs, launch["seq"], address)
                loaded, stored = (r["size"] if r["type"] in types else 0 for types in (("load", "atomic"), ("store", "atomic")))
                add = [loaded, stored] + [int(r["type"] == t) for t in TYPES]
                keys = [(rows, (first_of(a), launch["superstep"], 0))]
                if a is not None:
                    keys.append((heat, (a, launch["superstep"], (address - allocs[a][1]) // piece[a])))
                for table, key in keys:
                    table[key] = [x + y for x, y in zip(table.get(key, [0] * 6), add)]
    steps, pieces = [1, 1], 1
    for which, limit in ((0, 4 * most), (1, most)):
        level = 0
        while len((rows, heat)[which]) > limit and level < 60:
            level += 1
            by_piece = which == 1 and level % 3 == 0
            joined = {}
            for (a, step, at), v in (rows, heat)[which].items():
                key = (a, step, at // 2) if by_piece else (a, step // 2, at)
                joined[key] = [x + y for x, y in zip(joined.get(key, [0] * 6), v)]
            if by_piece:
                pieces *= 2
            else:
                steps[which] *= 2
            if which:
                heat = joined
            else:
                rows = joined
    out = {}
    for a in sorted({key[0] for key in rows}):
        cell = {} if a < 0 else {"id": allocs[a][0], "bytes": allocs[a][2], "piece": piece[a] * pieces}
        cell["launches"] = [[s * steps[0], *rows[b, s, p]] for b, s, p in sorted(rows) if b == a]
        cell["heat"] = [[s * steps[1], p, *heat[b, s, p][:2]] for b, s, p in sorted(heat) if b == a]
        out[label(allocs, None if a < 0 else a)] = cell
    return {"launch_step": steps[0], "heat_step": steps[1], "allocations": out}


def analyse(trace, sites, allocs, line_size=128, bits=0, top=10, cells=1 << 16):
    s = Sites(sites)
    return {
        "lines": lines(trace, s, allocs),
        "coalescing": coalescing(trace, s),
        "reuse": reuse(trace, line_size, bits),
        "sharing": sharing(trace, allocs, line_size, top),
        "conflicts": conflicts(trace, s, allocs),
        "traffic": traffic(trace, allocs, cells),
    }
