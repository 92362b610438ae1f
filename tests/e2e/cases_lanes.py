"""Which lanes make a request together: kernels whose requests are known, and random ones beside a model of a warp."""
import os
from collections import Counter

import cases_compact
import lanes_model
from world import case, same

WARP = {"MEMTRACE_CHANNEL": "warp"}


def requests(result):
    """{kernel: [(line, mask, addresses)]}; a kernel is launched once."""
    launches, events = cases_compact.read(result)
    line = {e["id"]: e["line"] for e in events.all("site")}
    return {launch.kernel: [(line[site], mask, tuple(addresses)) for _, site, _, mask, addresses in launch.runs]
            for launch in launches}


def by_lane(requests):
    """{lane: [(access, address)] in order}"""
    out = {}
    for access, mask, where in requests:
        for lane, address in zip((i for i in range(32) if mask >> i & 1), where):
            out.setdefault(lane, []).append((access, address))
    return out


def compare(programs, result):
    same("output", result.out, "0\n")
    _, events = cases_compact.read(result)
    base = next(int(e["base"], 16) for e in events.all("alloc"))
    got, wrong = requests(result), []
    for program, lines in programs:
        want = [(access, mask, tuple(base + 4 * i for i in where)) for access, mask, where in program.requests()]
        have = [(lines.get(line), mask, where) for line, mask, where in got.get(f"k{program.seed}", [])]
        same(f"kernel {program.seed}: each lane's order", by_lane(have), by_lane(want))
        if Counter(have) != Counter(want):
            wrong.append((program.seed, len(have), len(want)))
    same("kernels with other requests: seed, requests, those expected", wrong, [])


def build(world, kernels, level):
    path = os.path.join(world.folder("source"), "lanes.cu")
    programs = lanes_model.write(path, range(kernels))
    return programs, world.compile(path, level)


@case("lanes.random")
def lanes_random(world):
    """200 kernels: site, mask and addresses of each request, straight from the CPU device and through the rings of a GPU."""
    programs, app = build(world, 200, "-O2")
    compare(programs, world.run_ok(app, MEMTRACE_FORMAT="compact"))
    straight = [(p, lines) for p, lines in programs if "again" not in str(p.functions)]  # no function calls itself
    compare(straight, world.run_ok(app, MEMTRACE_FORMAT="compact", **WARP))


@case("lanes.random_plain")
def lanes_random_plain(world):
    """Some of them as they are written."""
    programs, app = build(world, 60, "-O0")
    compare(programs, world.run_ok(app, MEMTRACE_FORMAT="compact"))
