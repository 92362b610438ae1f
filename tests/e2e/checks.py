"""Checks of whole runs that several cases share."""
import os
import re
from collections import Counter

import trace
from harness import Failed, holds, same


def totals(launch):
    """{(type, size): accesses} over all CTAs."""
    out = Counter()
    for counts in launch.ctas().values():
        out.update(counts)
    return dict(+out)


def kernels_and_counts(result, expected):
    """Trace files against [{kernel, stream, grid, block, ctas}], in launch order: one file per stream, names,
    accesses per CTA, kind and size."""
    streams = {}
    for launch in expected:
        streams.setdefault(launch["stream"], []).append(launch)
    same("trace files", result.streams(), sorted(streams))
    for stream, launches in streams.items():
        got = result.trace(stream)
        same(f"kernels of stream {stream}", [g.kernel for g in got], [w["kernel"] for w in launches])
        for k, (g, want) in enumerate(zip(got, launches)):
            ctas = {cta: {key: n for key, n in counts.items() if n} for cta, counts in want["ctas"].items()}
            ctas = {cta: counts for cta, counts in ctas.items() if counts}
            same(f"stream {stream}, launch {k}, {g.kernel}: accesses per CTA", g.ctas(), ctas)


def own_counts(result):
    """The program's `count` lines against the trace, summed over each kernel's launches."""
    said = {}
    for line in result.out.splitlines():
        m = re.fullmatch(r"count (.*) launches=(\d+)((?: \w+:\d+=\d+)*)", line)
        if m:
            counts = {(k, int(size)): int(n) for k, size, n in re.findall(r" (\w+):(\d+)=(\d+)", m.group(3))}
            said[m.group(1)] = (int(m.group(2)), counts)
    holds("the program prints count lines", said)
    seen = {}
    for stream in result.streams():
        for launch in result.trace(stream):
            if launch.kernel in said:
                count, sums = seen.setdefault(launch.kernel, [0, {}])
                seen[launch.kernel][0] = count + 1
                for counts in launch.ctas().values():
                    for key, n in counts.items():
                        sums[key] = sums.get(key, 0) + n
    same("the program's own count", {k: tuple(v) for k, v in seen.items()}, {k: v for k, v in said.items() if v[0]})


def round_robin(result, expected, sms):
    """CTA number i of a launch (x fastest) runs on SM i modulo `sms`."""
    position = {}
    for want in expected:
        k = position[want["stream"]] = position.get(want["stream"], -1) + 1
        gx, gy, _ = want["grid"]
        for (x, y, z), on in result.trace(want["stream"])[k].sms().items():
            linear = x + gx * (y + gy * z)
            same(f"SM of CTA {x},{y},{z} of {want['kernel']}", on, {linear % sms})


def companions(result, expected, program_sources, sms=None):
    """Every companion: header, launches in step with the trace, allocations that cover all recorded addresses,
    sites that exist in the sources, an end whose counts agree."""
    seqs = []
    for stream in result.streams():
        launches = result.trace(stream)
        meta = result.companion(stream)
        where = f"companion of stream {stream}"
        header = meta.one("header")
        same(f"{where}: first event", meta.events[0]["ev"], "header")
        same(f"{where}: header", {k: header[k] for k in ("version", "device", "format", "stream")},
             {"version": 1, "device": result.device, "format": "raw", "stream": stream})
        same(f"{where}: trace file", os.path.basename(header["trace"]), f"MemTrace-pipe-{stream}")
        if sms:
            same(f"{where}: SMs", header["sms"], sms)

        said = [e for e in meta.all("launch") if e["traced"] and e["stream"] == stream]
        wanted = [w for w in expected if w["stream"] == stream]
        same(f"{where}: launches", [(e["kernel"], tuple(e["grid"]), tuple(e["block"]), e["records"]) for e in said],
             [(w["kernel"], w["grid"], w["block"], g.count) for w, g in zip(wanted, launches)])
        for e in said:
            same(f"{where}: status of {e['kernel']}", (e["status"], e["untraced"]), (0, 0))
            holds(f"{where}: {e['kernel']} ends after it begins", e["begin_ns"] <= e["end_ns"])
            source_line(program_sources, e["file"], e["line"], rf"<<<|cudaLaunch", f"launch of {e['kernel']}")
        seqs += [e["seq"] for e in said]

        places = trace.Places(meta)
        for e, launch in zip(said, launches):
            for address, size in sorted(launch.spans()):
                if not places.find(address, size, e["seq"]):
                    raise Failed(f"{where}: {launch.kernel}: {size} bytes at {address:#x} lie in no allocation")

        total = sum(g.count for g in launches)
        end = meta.end()
        same(f"{where}: end", {k: end[k] for k in ("records_written", "records_counted", "launches", "complete")},
             {"records_written": total, "records_counted": total, "launches": len(launches), "complete": True})
        same(f"{where}: last event", meta.events[-1]["ev"], "end")
        same(f"{where}: lost", meta.all("lost"), [])
    same("event numbers of launches are different", len(set(seqs)), len(seqs))


def source_line(sources, file, line, pattern, what):
    """Line `line` of `file` exists and matches; `file` must be one of `sources`. Returns the text."""
    real = {os.path.realpath(s) for s in sources}
    path = os.path.realpath(file)
    holds(f"{what}: {file} is one of the program's sources", path in real)
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    holds(f"{what}: {file} has a line {line}", 1 <= line <= len(lines))
    text = lines[line - 1]
    holds(f"{what}: {file}:{line} holds it: {text!r}", re.search(pattern, text))
    return text.strip()


def sites(result, sources, expected, left_out=(), silent={}):
    """The companion's sites are `expected` {text of the line: [what it does, bytes]}; sites in functions named in
    `left_out` are only checked to lie on lines that exist. `silent` ones may be there or not."""
    got = {}
    meta = result.companion(result.streams()[0])
    found = meta.all("site")
    same("site ids are different", len({s["id"] for s in found}), len(found))
    for s in found:
        text = source_line(sources, s["file"], s["line"], r"\S", f"site {s['id']}")
        if s["column"] == 0:  # one access made of several lines: it stands at its function
            holds(f"site {s['id']} stands at its function: {text}", s["function"].split("::")[-1].split("<")[0] in text)
        elif not any(name in s["function"] for name in left_out):
            holds(f"site {s['id']} has a column on its line: {s}", 1 <= s["column"] <= 200)
            what = f"{s['op']} {s['size']}"
            if what not in silent.get(text, ()):
                got.setdefault(text, set()).add(what)
    same("sites", {k: sorted(v) for k, v in got.items()}, {k: sorted(v) for k, v in expected.items()})


def placed(result):
    """The traces with addresses replaced by (allocation, offset): what two runs of one program share.
    {stream: [(kernel, [(smid, kind, size, place, cta)])]}"""
    out = {}
    for stream in result.streams():
        meta = result.companion(stream)
        places = trace.Places(meta)
        said = [e for e in meta.all("launch") if e["traced"] and e["stream"] == stream]
        out[stream] = []
        for e, launch in zip(said, result.trace(stream)):
            records, known = [], {}
            for smid, kind, size, address, cta in launch.records():
                if (address, size) not in known:
                    known[address, size] = places.find(address, size, e["seq"])
                records.append((smid, kind, size, known[address, size], cta))
            out[stream].append((launch.kernel, records))
    return out
