"""memtrace extract, memtrace graph and memtrace dump on traces of the examples, against formulas."""
import json
import os
import re
import subprocess

import checks
from harness import case, holds, same


def volumes(per_cta):
    """Load and Store volume of {(type, size): accesses}: an atomic counts in both."""
    load = sum(n * size for (kind, size), n in per_cta.items() if kind in ("load", "atomic"))
    store = sum(n * size for (kind, size), n in per_cta.items() if kind in ("store", "atomic"))
    return {"Load": load, "Store": store}


def add(into, what):
    for key, value in what.items():
        into[key] = into.get(key, 0) + value


def data_volumes(expected, sms):
    """KDV, CDV and SDV as comm.json has them, from the expected accesses."""
    kdv, cdv, sdv = {}, {}, {}
    for step, launch in enumerate(expected):
        kernel, (gx, gy, _) = launch["kernel"], launch["grid"]
        k = kdv.setdefault(kernel, {}).setdefault(str(step), {"Load": 0, "Store": 0})
        c = cdv.setdefault(kernel, {}).setdefault(str(step), {})
        s = sdv.setdefault(kernel, {}).setdefault(str(step), {})
        for (x, y, z), counts in launch["ctas"].items():
            if not any(counts.values()):
                continue
            volume = volumes(counts)
            c[f"{x},{y},{z}"] = volume
            add(k, volume)
            add(s.setdefault(str((x + gx * (y + gy * z)) % sms), {"Load": 0, "Store": 0}), volume)
    return kdv, cdv, sdv


def flat_transfers(comm):
    """{(source kernel, CTA, superstep, kernel, CTA, superstep): the innermost object}."""
    out = {}
    for sk, ctas in comm["transfers"].items():
        for sc, steps in ctas.items():
            for ss, kernels in steps.items():
                for dk, to in kernels.items():
                    for dc, at in to.items():
                        for ds, leaf in at.items():
                            out[sk, sc, ss, dk, dc, ds] = leaf
    return out


def ordered_transfers(comm):
    """Those between supersteps, keyed as in the expectations: CTAs are tuples and supersteps numbers."""
    return {(sk, tuple(map(int, sc.split(","))), int(ss), dk, tuple(map(int, dc.split(","))), int(ds)):
            (leaf["Size"], leaf["cnt"])
            for (sk, sc, ss, dk, dc, ds), leaf in flat_transfers(comm).items()
            if sk != "<host>" and not leaf.get("unordered")}


def invariants(comm):
    """What must hold of any comm.json: sums over CTAs and SMs, CV <= DV, transfers into a kernel (the host is no
    CTA: what its copies wrote is in the transfers and not in the communication volumes)."""
    for kind in ("C", "D"):
        kernels, ctas, sms = comm[f"K{kind}V"], comm[f"C{kind}V"], comm[f"S{kind}V"]
        same(f"kernels of C{kind}V", set(ctas) <= set(kernels), True)
        for kernel, steps in kernels.items():
            for step, volume in steps.items():
                for name, parts in (("CTAs", ctas), ("SMs", sms)):
                    sums = {"Load": 0, "Store": 0}
                    for part in parts.get(kernel, {}).get(step, {}).values():
                        add(sums, part)
                    same(f"K{kind}V {kernel} {step} is the sum over {name}", sums, volume)
    for kernel, steps in comm["KDV"].items():
        for step, volume in steps.items():
            some = comm["KCV"].get(kernel, {}).get(step, {"Load": 0, "Store": 0})
            for way in ("Load", "Store"):
                holds(f"{kernel} {step}: {way}: communication {some[way]} <= data {volume[way]}",
                      some[way] <= volume[way])
    into = {}
    for (sk, sc, ss, dk, dc, ds), leaf in flat_transfers(comm).items():
        if sk != "<host>":
            into[dk, ds] = into.get((dk, ds), 0) + leaf["Size"]
        holds(f"a transfer has bytes and accesses: {leaf}", leaf["Size"] > 0 and 0 < leaf["cnt"] <= leaf["Size"])
    for kernel, steps in comm["KCV"].items():
        for step, volume in steps.items():
            same(f"transfers into {kernel} {step}", into.pop((kernel, step), 0), volume["Load"])
    same("transfers into kernels that KCV does not have", into, {})
    who = {k: {s: {"same_launch": 0, "earlier_launch": 0, "same_cta": 0} for s in steps} for k, steps in comm["KCV"].items()}
    for (sk, sc, ss, dk, dc, ds), leaf in flat_transfers(comm).items():
        if sk != "<host>":
            who[dk][ds]["same_launch" if ss == ds else "same_cta" if sc == dc else "earlier_launch"] += leaf["Size"]
    same("senders", comm["senders"], who)


def run_example(world, name, arguments=None, **variables):
    expect = world.expectation(name)
    arguments = arguments or expect.QUICK
    app = world.compile(world.example(name), "-O2")
    result = world.run_ok([app, *arguments], MEMTRACE_CPU_SMS=5, **variables)
    return expect, arguments, result


def files(result):
    return [result.path(s) for s in result.streams()]


def actual_steps(result, expected):
    """The superstep that each expected launch got: the k-th launch of a kernel is the k-th expected one, and launches of
    several streams have the numbers in which they began."""
    begun = sorted({e["seq"]: e["kernel"] for s in result.streams() for e in result.companion(s).all("launch")}.items())
    steps = {}
    for step, (_, kernel) in enumerate(begun):
        steps.setdefault(kernel, []).append(step)
    same("launches", [len(v) for v in steps.values()],
         [sum(launch["kernel"] == k for launch in expected) for k in steps])
    return [steps[launch["kernel"]].pop(0) for launch in expected]


def check_example(world, name, arguments=None):
    expect, arguments, result = run_example(world, name, arguments)
    comm = world.extract(files(result), "--sections=all")
    same("format", (comm["format"], comm["version"], comm["complete"]), ("memtrace-comm", 1, True))
    wanted = expect.launches(arguments, "-O2")
    if len(result.streams()) > 1:
        step = actual_steps(result, wanted)
        for p, k in ((p, k) for k in range(len(step)) for p in range(k)):
            holds(f"launches {p} and {k} of one stream or one round in order",
                  step[p] < step[k] or (wanted[p]["stream"] != wanted[k]["stream"] and k - p < 3))
    else:
        step = range(len(wanted))
    wanted = [launch for _, launch in sorted(zip(step, wanted), key=lambda x: x[0])]
    for key, want in zip(("KDV", "CDV", "SDV"), data_volumes(wanted, 5)):
        got = comm[key]
        quiet = {k: {s: v for s, v in steps.items() if v != {"Load": 0, "Store": 0} and v != {}}
                 for k, steps in got.items()}
        same(f"{name}: {key}", quiet, want)
    invariants(comm)
    if hasattr(expect, "transfers"):
        same(f"{name}: transfers", ordered_transfers(comm),
             {(sk, sc, step[ss], dk, dc, step[ds]): v
              for (sk, sc, ss, dk, dc, ds), v in expect.transfers(arguments).items()})
    if hasattr(expect, "unordered"):
        sums = {}
        for (sk, sc, ss, dk, dc, ds), leaf in flat_transfers(comm).items():
            if leaf.get("unordered"):
                same("unordered transfers stay in one launch", (sk, ss), (dk, ds))
                sums[dk] = sums.get(dk, 0) + leaf["Size"]
        for kernel, want in expect.unordered(arguments).items():
            same(f"{name}: bytes between CTAs of {kernel}", sums.get(kernel, 0), want)
    if hasattr(expect, "host_bytes"):
        sums = {}
        for (sk, sc, ss, dk, dc, ds), leaf in flat_transfers(comm).items():
            if sk == "<host>":
                sums[int(ds)] = sums.get(int(ds), 0) + leaf["Size"]
        same(f"{name}: bytes from the host", sums, expect.host_bytes(arguments))
    return comm, result, expect, arguments


for example in ("vector_add", "matrix_multiply", "stencil_1d", "stencil_2d", "reduction", "histogram",
                "producer_consumer", "device_calls", "templated", "memcpy_forms"):
    def extract_case(world, name=example):
        check_example(world, name)
        if name.startswith("stencil") or name == "producer_consumer":
            check_example(world, name, world.expectation(name).DEFAULTS)
    case(f"extract.{example}")(extract_case)


@case("extract.addresses")
def addresses(world):
    """`addresses` of the 1-D stencil: cell by cell, every operation on it, by the formula of the kernel."""
    comm, result, expect, (ctas, threads, steps) = check_example(world, "stencil_1d")
    meta = result.companion()
    buffers = [base for base, *_ in meta.allocations()][:2]
    cells = ctas * threads
    operations = {}
    for step in range(steps):
        source, target = buffers[step % 2], buffers[(step + 1) % 2]
        for i in range(cells):
            cta = i // threads
            readers = [cta]
            if i % threads >= threads - expect.RADIUS and cta + 1 < ctas:
                readers.append(cta + 1)
            if i % threads < expect.RADIUS and cta > 0:
                readers.append(cta - 1)
            for reader in readers:
                operations.setdefault(source + 4 * i, []).append((step, (reader, 0, 0), "load"))
            operations.setdefault(target + 4 * i, []).append((step, (cta, 0, 0), "store"))
    kind = {0: "load", 1: "store", 2: "atomic"}
    got = {}
    for address, ops in comm["addresses"].items():
        same(f"{address}: superstep order", [o["it"] for o in ops], sorted(o["it"] for o in ops))
        for o in ops:
            same(f"{address}: fixed fields", (int(str(o["addr"]), 0), o["kernel"], o["size"], o["smid"]),
                 (int(address, 16), "stencil_1d", 4, o["cta"][0] % 5))
        got[int(address, 16)] = sorted((o["it"], tuple(o["cta"]), kind.get(o["type"], o["type"])) for o in ops)
    # The first buffer is loaded from the host's copy; the last step's results are loaded by no kernel.
    involved = {a: sorted(ops) for a, ops in operations.items()
                if any(k == "load" and (a - buffers[0] not in range(4 * cells) or s > 0) for s, _, k in ops)
                or any(k == "load" for _, _, k in ops)}
    same("addresses", got, involved)


@case("extract.reuse")
def reuse(world):
    """An address that was freed and allocated again: its old contents are not communication."""
    result = world.run_ok(world.compile(os.path.join(world.src, "reuse.cu"), "-O2"))
    same("the program", result.out, "same address\n")
    comm = world.extract(files(result))
    invariants(comm)
    same("from the host: the half that was cleared; from kernels: nothing",
         {(k[0], k[3], k[5]): leaf["Size"] for k, leaf in flat_transfers(comm).items()},
         {("<host>", "read_all", "1"): 128})


@case("extract.fifo")
def fifo(world):
    """Live extraction through a named pipe gives what the file gives."""
    name = "stencil_2d"
    app = world.compile(world.example(name), "-O2")
    from_file = world.extract([world.run_ok(app, MEMTRACE_CPU_THREADS=1).path()])
    folder = world.folder("fifo")
    pipe = os.path.join(folder, "MemTrace-pipe-0")
    os.mkfifo(pipe, 0o600)
    reader = subprocess.Popen([world.tool("mt-extract"), pipe], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
    try:
        result = world.run_ok(app, folder=folder, MEMTRACE_CPU_THREADS=1)
        out, err = reader.communicate(timeout=60)
    finally:
        reader.kill()
    same("the program's output", result.out.splitlines()[-1], f"{name}: passed")
    same("mt-extract's exit code", (reader.returncode, err if reader.returncode else ""), (0, ""))
    live = json.loads(out)
    for key in ("KDV", "CDV", "SDV"):
        same(key, live[key], from_file[key])
    own = {k: v for k, v in flat_transfers(live).items() if k[0] != "<host>"}
    same("transfers", own, {k: v for k, v in flat_transfers(from_file).items() if k[0] != "<host>"})


@case("extract.fifos")
def fifos(world):
    """A FIFO for each stream, read while the program runs: launches that overlap, copies between, an address that is used
    again, a stream that goes away."""
    app = world.compile(os.path.join(world.src, "overlap.cu"), "-O2")
    for form, suffix in (("raw", ""), ("compact", ".mtc")):
        want = world.run_ok(app, MEMTRACE_CPU_THREADS=2, MEMTRACE_FORMAT=form)
        traces = [want.path(n) + suffix for n in range(3)]
        comm = world.extract(traces, "-s", "quick")
        same(f"{form}: order", (list(comm["KDV"]["slow"]), list(comm["KDV"]["fast"]), comm["complete"], comm["launches"]), (["0"], ["1"], True, 9))
        holds(f"{form}: host copies", "<host>" in comm["transfers"])
        folder = world.folder("fifos")
        pipes = [os.path.join(folder, os.path.basename(trace)) for trace in traces]
        for pipe in pipes:
            os.mkfifo(pipe, 0o600)
        reader = subprocess.Popen([world.tool("mt-extract"), "-s", "quick", *pipes], stdout=subprocess.PIPE, text=True)
        try:
            world.run_ok(app, folder=folder, MEMTRACE_CPU_THREADS=2, MEMTRACE_FORMAT=form)
            out, _ = reader.communicate(timeout=60)
        finally:
            reader.kill()
        got = json.loads(out)
        for key in comm:
            if key not in ("inputs", "notes", "gaps"):
                same(f"{form}: {key}", got[key], comm[key])


@case("extract.stdin")
def stdin(world):
    """`-` reads the trace from standard input."""
    _, _, result = run_example(world, "stencil_1d")
    with open(result.path(), "rb") as f:
        process = world.call([world.tool("mt-extract"), "-"], stdin=f)
    comm = json.loads(process.stdout)
    same("KDV", comm["KDV"], world.extract(files(result))["KDV"])


@case("extract.options")
def options(world):
    """--same-cta=local, --kernels, --launches, --sections, --strict on known input."""
    expect, arguments, result = run_example(world, "stencil_1d")
    full = world.extract(files(result))
    ctas, threads, steps = arguments
    # Each CTA sends 3 elements of 4 bytes to each neighbour and keeps its own, in each launch after the first.
    same("senders by hand", full["senders"], {"stencil_1d": {str(s): {"same_launch": 0, "earlier_launch": 24 * (ctas - 1) * (s > 0), "same_cta": 4 * threads * ctas * (s > 0)} for s in range(steps)}})
    local = ordered_transfers(world.extract(files(result), "--same-cta=local"))
    want = {k: v for k, v in expect.transfers(arguments).items() if k[1] != k[4]}
    same("--same-cta=local drops what a CTA id says to itself", local, want)
    some = world.extract(files(result), "--sections", "KDV,CDV")
    same("--sections", [k for k in ("KCV", "KDV", "CCV", "CDV", "SCV", "SDV", "transfers", "addresses") if k in some],
         ["KDV", "CDV"])
    same("--sections: KDV", some["KDV"], full["KDV"])
    step = world.extract(files(result), "--launches", "1")
    holds(f"--launches 1 holds superstep 1 only: {step['KDV']}",
          list(step["KDV"]["stencil_1d"]) == ["1"] and step["KDV"]["stencil_1d"]["1"] == full["KDV"]["stencil_1d"]["1"])
    expect, arguments, result = run_example(world, "reduction")
    atomic = world.extract(files(result), "--kernels", "^reduce_atomic$")
    same("--kernels", list(atomic["KDV"]), ["reduce_atomic"])
    strict = world.extract(files(result), "--strict")
    same("--strict leaves no unordered transfer", [v for v in flat_transfers(strict).values() if v.get("unordered")], [])


@case("dump")
def dump(world):
    """memtrace dump prints each record that the independent reader sees, in order."""
    _, _, result = run_example(world, "producer_consumer")
    part = 3 if len(result.streams()) > 1 else 0  # one of several streams is not the whole run
    for stream in result.streams():
        text = world.call([world.tool("mt-dump"), result.path(stream)], part).stdout
        launches = result.trace(stream)
        for launch in launches:
            holds(f"{launch.kernel} is in the text", launch.kernel in text)
        lines = [line for line in text.splitlines() if re.search(r"\b(load|store|atomic)\b", line)]
        records = [r for launch in launches for r in launch.records()]
        same("record lines", len(lines), len(records))
        for line, (smid, kind, size, address, (x, y, z)) in zip(lines, records):
            same("a line", line, f"{kind} {size} {address:#x} cta {x},{y},{z} sm {smid}")


def stride_graph(result):
    """{(buffer, stride, type): count} and {(node, node): count} by hand: the stride is the distance to the previous
    access of the same CTA to the same buffer; a CTA's first access to a buffer makes no node."""
    nodes, edges = {}, {}
    for launches in checks.placed(result).values():
        for _, records in launches:
            last, before = {}, {}
            for _, kind, _, (buffer, offset), cta in records:
                if (cta, buffer) in last:
                    node = (buffer, offset - last[cta, buffer], kind)
                    nodes[node] = nodes.get(node, 0) + 1
                    if cta in before:
                        edges[before[cta], node] = edges.get((before[cta], node), 0) + 1
                    before[cta] = node
                last[cta, buffer] = offset
    return nodes, edges


@case("graph")
def graph(world):
    """memtrace graph's nodes, edges and their counts; its DOT is one that Graphviz draws."""
    for name, arguments in (("vector_add", [96, 32, 1]), ("vector_add", None), ("stencil_1d", None),
                            ("stencil_2d", None), ("histogram", None), ("reduction", None)):
        _, _, result = run_example(world, name, arguments, MEMTRACE_CPU_THREADS=1)
        dot = world.call([world.tool("mt-graph"), "--top=all", result.path()]).stdout
        holds(f"{name}: a DOT graph: {dot[:80]!r}", dot.startswith("digraph"))
        if name != "histogram":  # thousands of nodes: slow to lay out
            world.call(["dot", "-Tsvg", "-o", os.path.join(world.folder("svg"), "g.svg")], input=dot)
        number, nodes, edges = {}, {}, {}
        for ident, buffer, stride, count, look in re.findall(
                r'^ *(n\d+) \[label="(\d+)(?::\S+)? (-?\d+) \d+ [^"]* - (\d+)", (.*)\];$', dot, re.M):
            kind = "atomic" if "octagon" in look else "store" if "#c0c0c0" in look else "load"
            number[ident] = int(buffer), int(stride), kind
            nodes[number[ident]] = int(count)
        for a, b, count in re.findall(r'^ *(n\d+) -> (n\d+) \[label="(\d+)"', dot, re.M):
            edges[number[a], number[b]] = int(count)
        want_nodes, want_edges = stride_graph(result)
        same(f"{name}: nodes", nodes, want_nodes)
        same(f"{name}: edges", edges, want_edges)


@case("extract.one_stream")
def one_stream(world):
    """A trace of one of two streams does not show who wrote and read the rest: nothing is called uninitialised, unread or unused."""
    run = world.run_ok(world.compile(os.path.join(world.src, "halves.cu"), "-O1", "-g"))
    same("output", run.out, "4\n")
    pipes = [run.path(n) for n in run.streams()]
    same("traces", len(pipes), 2)
    for paths, code in ((pipes, 0), (pipes[:1], 3), (pipes[1:], 3)):
        said = world.call([world.tool("mt-extract"), "-q", "-f", "summary", *paths], code=code).stdout
        same(f"findings of {paths}: {said}", re.findall(r"(?:uninitialised|unread|unused)\S* at .*", said), [])
