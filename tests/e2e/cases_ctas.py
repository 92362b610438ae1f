"""Which CTAs of a launch are traced: MEMTRACE_CTAS, MEMTRACE_SAMPLE. The program is src/ctas.cu."""
import json
import os
import re

from harness import case, holds, same

GRIDS = {"loop": (5, 4, 3), "waits": (5, 4, 3), "grid": (4, 2, 1), "pointer": (5, 4, 3)}
PER_CTA = {"loop": {("store", 4): 16}, "waits": {("load", 4): 64, ("store", 4): 128}, "grid": {("store", 4): 64},
           "pointer": {("load", 8): 16, ("store", 4): 16}}
LOADED = {"loop": 0, "waits": 256, "grid": 0, "pointer": 128}  # bytes a CTA
STORED = {"loop": 64, "waits": 512, "grid": 256, "pointer": 64}


def program(world, *flags):
    return world.compile(os.path.join(world.src, "ctas.cu"), "-O2", *flags)


def all_ctas(kernel):
    gx, gy, gz = GRIDS[kernel]
    return [(x, y, z) for z in range(gz) for y in range(gy) for x in range(gx)]


def number(kernel, cta):
    return all_ctas(kernel).index(cta)


def chosen(kernel, spec):
    """The CTAs that MEMTRACE_CTAS=spec leaves, from the manual page's words."""
    def inside(n, text):
        if text == "*":
            return True
        m = re.fullmatch(r"(\d*)(:?)(\d*)", text)
        low = int(m[1] or 0)
        high = int(m[3]) if m[3] else low if not m[2] else 1 << 60
        return low <= n <= high
    out = []
    for cta in all_ctas(kernel):
        for part in spec.split("+") if spec else ["*"]:
            ranges = part.split(",")
            if len(ranges) == 1 and inside(number(kernel, cta), ranges[0]) or \
               len(ranges) > 1 and all(inside(n, r) for n, r in zip(cta, ranges)):
                out.append(cta)
                break
    return out


def check(world, app, spec="", every=1, **env):
    """All launches hold just the records of the CTAs that are to be traced, and the companion says how many."""
    plain = world.run_ok([app], traced=False)
    if spec:
        env["MEMTRACE_CTAS"] = spec
    if every > 1:
        env["MEMTRACE_SAMPLE"] = f"cta:{every}"
    result = world.run_ok([app], **env)
    same("output", result.out, plain.out)
    same("words", result.err, "")
    lines = result.companion().all("launch")
    launches = list(result.trace())
    same("kernels", [k.kernel for k in launches], list(GRIDS))
    for launch, line in zip(launches, lines):
        name = launch.kernel
        of = chosen(name, spec)
        traced = [c for c in of if number(name, c) % every == 0]
        same(f"CTAs of {name} with {spec} {every}", launch.ctas(), {c: PER_CTA[name] for c in traced})
        same("counts of CTAs", line["ctas"], [len(traced), len(of)])
        same("records", line["records"], launch.count)
        same("complete", result.companion().end()["complete"], True)
    return result


@case("ctas.numbers")
def numbers(world):
    app = program(world)
    for spec in ("0", "7", "3:12", "50:", ":4", "0+2+4", "1:3+2:5+59:99", "100:"):
        check(world, app, spec)


@case("ctas.ranges")
def ranges(world):
    app = program(world)
    for spec in ("0,0", "1:3,2", "*,1:2,1", "*,*,*", "4,3,2", ":1,:1,1:", "2,*,0+*,0,1+17", "9,9,9"):
        check(world, app, spec)


@case("ctas.every")
def every(world):
    app = program(world)
    check(world, app, every=7)
    check(world, app, "10:39", 4)
    check(world, app, "*,1:2", 3, MEMTRACE_CPU_THREADS=1)
    check(world, app, "*,1:2", 3, MEMTRACE_CHECK=1)
    check(world, app, "3:12", MEMTRACE_BUFFER="4K")


@case("ctas.counted")
def counted(world):
    """The program's own counters are those of the traced CTAs, so the two counts still agree."""
    result = check(world, program(world, "--mt-count=on"), "*,2", 2)
    for line in result.companion().all("launch"):
        loads, _, stores, _, atomics, _ = line["counted"]
        n = line["ctas"][0]
        per = PER_CTA[line["kernel"]]
        same("counted", (loads, stores, atomics), (n * sum(v for k, v in per.items() if k[0] == "load"), n * per[("store", 4)], 0))


@case("ctas.bad")
def bad(world):
    app = program(world)
    for spec in ("x", "1,", "1,2,3,4", "5:3", "1++2", "-1", "1;2", ":", "0+1+2+3+4+5+6+7+8"):
        result = world.run_ok(app, MEMTRACE_CTAS=spec)
        holds(f"{spec} is refused: {result.err}", f"MEMTRACE_CTAS={spec}: " in result.err and "all CTAs are traced" in result.err)
        same("and all are traced", sum(len(k.ctas()) for k in result.trace()), 60 * 3 + 8)
    for spec in ("0", "cta:", "cta:0", "3,4", "block:2", "launch:1,launch:2", "2x"):
        result = world.run_ok(app, MEMTRACE_SAMPLE=spec)
        holds(f"{spec} is refused: {result.err}", f"MEMTRACE_SAMPLE={spec}: " in result.err and "no sample is taken" in result.err)
        same("and all are traced", sum(len(k.ctas()) for k in result.trace()), 60 * 3 + 8)


@case("ctas.launches")
def launches(world):
    """Every third launch of each kernel, and the estimates of memtrace extract and memtrace dump."""
    app = program(world)
    result = world.run_ok([app, "7"], MEMTRACE_SAMPLE="launch:3,cta:8")
    lines = result.companion().all("launch")
    same("left out", [line.get("left_out") for line in lines],
         [None if i // 4 % 3 == 0 else "MEMTRACE_SAMPLE" for i in range(28)])
    per_launch = {k: len([c for c in all_ctas(k) if number(k, c) % 8 == 0]) for k in GRIDS}
    same("CTAs", [line["ctas"] for line in lines],
         [[per_launch[line["kernel"]] if i // 4 % 3 == 0 else 0, len(all_ctas(line["kernel"]))] for i, line in enumerate(lines)])

    comm = world.extract([result.path()])
    same("it is said", [n.split(" are not traced whole")[0][-11:] for n in comm["notes"]], ["12 launches"])
    same("kernels", list(comm["estimates"]), sorted(GRIDS))
    for name, e in comm["estimates"].items():
        of, traced = 7 * len(all_ctas(name)), 3 * per_launch[name]
        load, store = traced * LOADED[name], traced * STORED[name]
        same(f"estimate of {name}", {k: v for k, v in e.items() if k != "supersteps"},
             {"launches": 7, "traced_launches": 3, "ctas": of, "traced_ctas": traced,
              "counted": {"Load": load, "Store": store},
              "estimate": {"Load": (2 * load * of + traced) // (2 * traced), "Store": (2 * store * of + traced) // (2 * traced)}})
        # All CTAs of a kernel do the same, so here the estimate is the truth.
        same("truth", e["estimate"], {"Load": of * LOADED[name], "Store": of * STORED[name]})
        same("supersteps", list(e["supersteps"]), list(comm["KDV"][name]))
        for step, v in e["supersteps"].items():
            same("counted is what KDV says", v["counted"], comm["KDV"][name][step])
            same("a launch's estimate", v["estimate"]["Store"], len(all_ctas(name)) * STORED[name])
    dump = world.call([world.tool("mt-dump"), "--counts", result.path()]).stdout
    estimated = [line.split() for line in dump.splitlines() if line.startswith("estimated")]
    same("mt-dump --counts", [(e[-1], e[6], e[7]) for e in estimated],
         [(k, str(STORED[k] // 4 * len(all_ctas(k))), str(STORED[k] * len(all_ctas(k)))) for _ in range(3) for k in GRIDS])
    stat = world.call([world.tool("mt-dump"), "--stat", result.path()]).stdout
    found = re.findall(r"^# estimated for 7 launches and (\d+) CTAs, of which 3 and (\d+) are traced: .*store-bytes (\d+)  (\w+)$", stat, re.M)
    same("mt-dump --stat", found, [(str(7 * len(all_ctas(k))), str(3 * per_launch[k]), str(7 * len(all_ctas(k)) * STORED[k]), k) for k in GRIDS])


@case("ctas.whole")
def whole(world):
    """Without the settings nothing of this is in companions and outputs."""
    result = world.run_ok([program(world)])
    holds("no ctas", all("ctas" not in line for line in result.companion().all("launch")))
    comm = world.extract([result.path()])
    same("no estimates, no notes", ("estimates" in comm, comm["notes"]), (False, []))
    chosen_only = world.run_ok([program(world)], MEMTRACE_CTAS="0:9")
    comm = world.extract([chosen_only.path()])
    same("CTAs that were chosen stand for themselves alone", ("estimates" in comm, len(comm["notes"])), (False, 1))
    holds("JSON", json.dumps(comm))
