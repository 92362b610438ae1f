"""Several devices (MEMTRACE_CPU_DEVICES): bytes from device to device, counted by hand."""
import csv
import io
import json
import os
from collections import Counter

from harness import case, nvcc_of, call, holds, same

CELLS, WIDE, ROUNDS, INT = 128, 8, 3, 4


def expected(how, devices):
    """{(by, from, to): bytes} of halo.cu: each end of a device's cells goes to one neighbour in each round."""
    out, end = Counter(), ROUNDS * WIDE * INT
    for d in map(str, range(devices)):
        out["copy", "host", d] = out["copy", d, "host"] = CELLS * INT
        out["store", d, d] = ROUNDS * CELLS * INT
        out["load", d, d] = ROUNDS * 2 * (CELLS - WIDE) * INT
    for left in range(devices - 1):
        for a, b in (str(left), str(left + 1)), (str(left + 1), str(left)):
            out[how, a, b] += end
            if how != "load":
                out["load", b, b] += end  # what has come, out of its halo
            if how == "store":
                out["load", a, a] += end  # what it sends
    return out


def flows(rows):
    out = Counter()
    for r in rows:
        out[r["by"], r["from"], r["to"]] += int(r["bytes"])
    return out


def builds(world):
    source = os.path.join(world.src, "halo.cu")
    for level in "-O0", "-O2":
        yield level, [world.compile(source, level)], {"MEMTRACE_FORMAT": "compact"}
    yield "raw", [world.compile(source, "-O2")], {}
    if nvcc_of():
        app = os.path.join(world.folder("nvcc"), "halo")
        call([nvcc_of(), "-arch=compute_80", "-cudart=static", "-o", app, source])
        yield "nvcc", [world.tool("memtrace"), "run", app], {}


def traces(result):
    names = sorted(os.listdir(result.folder))
    compact = [n for n in names if n.endswith(".mtc")]
    return [os.path.join(result.folder, n) for n in compact or names if not n.endswith(".meta")]


@case("devices.halo")
def halo(world):
    """Copies, loads and stores between 2 to 4 devices; as JSON and as a table; in parts, the same."""
    for build, app, variables in builds(world):
        for how in "copy", "load", "store":
            for devices in 2, 4:
                name = f"{build} {how} {devices}"
                result = world.run_ok([*app, how, str(devices), str(ROUNDS)], MEMTRACE_CPU_DEVICES="4", **variables)
                same(name, result.out.splitlines()[0], "ok")
                paths = traces(result)
                got = world.extract(paths, "--sections=devices")["devices"]
                same(f"{name}: bytes", flows(got), expected(how, devices))
                same(f"{name}: launches", {r["superstep"] is None for r in got if r["by"] != "copy"}, {False})
                text = world.call([world.tool("mt-extract"), "-f", "csv", "-s", "devices", "--table=devices", *paths]).stdout
                same(f"{name}: table", [{**r, "from": r["source"], "to": r["target"]}["bytes"] for r in csv.DictReader(io.StringIO(text))],
                     [str(r["bytes"]) for r in got])
    same("threads", world.extract(paths, "--sections=devices", "--threads=3")["devices"], got)
    end = 2 * 3 * ROUNDS * WIDE * INT
    summary = world.call([world.tool("mt-extract"), "-f", "summary", *paths]).stdout
    holds(f"summary: {summary}", f"From device to device go {end} B (0 B by loads, {end} B by stores, 0 B by copies)" in summary)


@case("devices.lines")
def lines(world):
    """What the companion says of devices; with one there is nothing of it."""
    app = world.compile(os.path.join(world.src, "halo.cu"), "-O2")
    result = world.run_ok([app, "copy", "2", "1"], MEMTRACE_CPU_DEVICES="2")
    companion = result.companion()
    same("allocations", [e["device"] for e in companion.all("alloc") if e["kind"] == "cudaMalloc"], [0, 0, 0, 0, 1, 1, 1, 1])
    same("launches", [[e["device"] for e in result.companion(s).all("launch")] for s in (0, 1)], [[0], [1]])
    same("copies", [(e.get("src_device"), e.get("dst_device")) for e in companion.all("memcpy")],
         [(None, 0), (None, 1), (0, 1), (1, 0), (0, None), (1, None)])
    result = world.run_ok([app, "copy", "1", "1"])
    holds("one device", "device" not in json.dumps([e for kind in ("alloc", "launch", "memcpy") for e in result.companion().all(kind)]).replace("cudaMemcpy", ""))
    same("section", world.extract(traces(result), "--sections=devices").get("devices"), None)
