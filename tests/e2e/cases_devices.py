"""Several devices (MEMTRACE_CPU_DEVICES): bytes from device to device, counted by hand."""
import csv
import io
import json
import os
import shutil
import subprocess
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
    holds(f"summary: {summary}", f"Traffic between devices: {end} B ({end} B by stores), most from 0 to 1" in summary)


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


@case("devices.variables")
def variables(world):
    """Each device has its own variables and constants, the managed one is everybody's; by mt-cc, its linker for device code, and nvcc."""
    source = os.path.join(world.src, "device_variables.cu")
    programs = [("mt-cc", [world.compile(source, "-O2")]), ("rdc", [world.compile(source, "-O2", "-rdc=true")])]
    if nvcc_of():
        app = os.path.join(world.folder("nvcc"), "variables")
        call([nvcc_of(), "-arch=compute_80", "-cudart=static", "-o", app, source])
        programs.append(("nvcc", [world.tool("memtrace"), "run", app]))
    for name, app in programs:
        result = world.run(app, MEMTRACE_CPU_DEVICES="3")
        same(name, result.out, "ok\n")
        if name != "mt-cc":
            continue
        symbols = [(e["name"], e.get("device")) for e in result.companion().all("alloc") if e["kind"] == "symbol"]
        own = [n for n, d in symbols if d == 0]
        same("variables", sorted(n for n, d in symbols if d == 2), sorted(own))
        holds(str(symbols), "counter" in own and ("everybody", None) in symbols and len(own) * 3 + 1 == len(symbols))


@case("devices.example")
def example(world):
    """halo_exchange by loads and by copies; how much crosses as it ran."""
    hand = world.expectation("halo_exchange")
    app = world.compile(world.example("halo_exchange"), "-O2")
    for copies, devices, arguments in (False, 4, []), (True, 4, []), (False, 3, ["35", "9", "5"]), (True, 1, []):
        result = world.run_ok([app, "copies" if copies else "loads", *arguments], MEMTRACE_CPU_DEVICES=str(devices), MEMTRACE_FORMAT="compact")
        got = world.extract(traces(result), "--sections=devices,placement")
        size = dict(zip(("width", "rows", "steps"), map(int, arguments)))
        if devices > 1:
            hands = {(by, str(a), str(b)): n for (by, a, b), n in hand.expected(devices, copies, **size).items()}
            same(f"{copies} {devices}", flows(got["devices"]), Counter(hands))
        if not copies:  # the first step reads what the host has written
            width, steps = size.get("width", 128), size.get("steps", 8)
            same("crossing", got["placement"]["ran"], (steps - 1) * 2 * (devices - 1) * 4 * (width - 2))
        holds("one device", devices > 1 or "ran" not in got["placement"])
        # what is called the best is better than what ran, or nothing is
        summary = world.call([world.tool("mt-extract"), "-f", "summary", *traces(result)]).stdout
        place, ran = got["placement"], got["placement"].get("ran")
        best = min(p["cross"] for p in place["policies"].values())
        same(f"{copies} {devices}: {summary}", ("best placement tried" in summary, "; as it ran: " in summary),
             (place["load"] > 0 and (ran is None or best < ran), place["load"] > 0 and ran is not None and best < ran))


TREE = """\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m
GPU0\t X \tPIX\tSYS\tSYS\tPXB\t0-15\t0
GPU1\tPIX\t X \tSYS\tSYS\tPXB\t0-15\t0
GPU2\tSYS\tSYS\t X \tNODE\tSYS\t16-31\t1
GPU3\tSYS\tSYS\tNODE\t X \tSYS\t16-31\t1
NIC0\tPXB\tPXB\tSYS\tSYS\t X

Legend:
  X    = Self
speed PIX 63
speed SYS 20
"""


def links_by_hand(how, bytes_of):
    """{link: (GB/s, bytes)} of four devices; bytes_of: {(from, to): bytes}."""
    out = {}

    def over(name, speed, size):
        out[name] = speed, out.get(name, (0, 0))[1] + size
    slot = 63 if how == "file" else 31.5
    for (a, b), size in bytes_of.items():
        if a == b:
            continue
        far = "host" in (a, b) or {a, b} == {"1", "2"}
        if how == "dgx-1" and "host" not in (a, b):
            over(f"NVLink from {a} to {b}", 25 if {a, b} == {"0", "1"} else 50, size)
            continue
        if how == "nvlink" and "host" not in (a, b):
            over(f"NVLink from {a}", 450, size)
            over(f"NVLink to {b}", 450, size)
            continue
        for word, d in ("from", a), ("to", b):
            if d == "host":
                continue
            over(f"PCIe {word} {d}", slot, size)
            if far and (how == "pcie" or how == "file" and d in "01"):  # two below a switch
                over(f"PCIe {word} switch of {int(d) // 2 * 2}", 31.5, size)
        if how == "file" and far and "host" not in (a, b):
            over(f"processor of {int(a) // 2 * 2} to that of {int(b) // 2 * 2}", 20, size)
    return out


@case("devices.copies_alone")
def copies_alone(world):
    """A program without kernels has a trace, with what went from device to device."""
    app = world.compile(os.path.join(world.src, "ring_copies.cu"), "-O2")
    want = Counter({("copy", a, b): 400 for a, b in (("host", "0"), ("0", "1"), ("1", "2"), ("2", "0"), ("0", "host"))})
    for how in "raw", "compact":
        result = world.run_ok(app, MEMTRACE_CPU_DEVICES="3", MEMTRACE_FORMAT=how)
        same(f"{how}: result", result.out, "99\n")
        got = world.extract(traces(result), "--sections=devices")
        same(how, (got["launches"], got["complete"], flows(got["devices"])), (0, True, want))
        summary = world.call([world.tool("mt-extract"), "-f", "summary", *traces(result)]).stdout
        holds(summary, "Traffic between devices: 1.17 KiB (1.17 KiB by copies)" in summary)
    result = world.run_ok(app, MEMTRACE_CPU_DEVICES="3", MEMTRACE_KERNELS="none")  # there was no launch to leave out
    same("a filter", flows(world.extract(traces(result), "--sections=devices")["devices"]), want)


@case("devices.links")
def links(world):
    """Bytes over links, of machines that are known and of a table of nvidia-smi's; the page's and the summary's are the same."""
    app = world.compile(world.example("halo_exchange"), "-O2")
    paths = traces(world.run_ok([app, "copies"], MEMTRACE_CPU_DEVICES="4", MEMTRACE_FORMAT="compact"))
    table = os.path.join(world.folder("topology"), "topo.txt")
    with open(table, "w", encoding="utf-8") as f:
        f.write(TREE)
    for how, name in ("nvlink", "nvlink"), ("pcie", "pcie"), ("dgx-1", "dgx-1"), ("file", table):
        got = world.extract(paths, "--sections=KCV", f"--topology={name}")  # who names a machine wants devices, too
        pairs = Counter()
        for r in got["devices"]:
            pairs[r["from"], r["to"]] += r["bytes"]
        sums = Counter()
        for r in got["links"]:
            sums[r["link"], r["speed"] / 1e9] += r["bytes"]
        same(how, sums, Counter({(k, speed): size for k, (speed, size) in links_by_hand(how, pairs).items()}))
    # Below the switch: what 0 and 1 give the host, and 1 gives 2; 36864 bytes at 31.5 GB/s.
    summary = world.call([world.tool("mt-extract"), "-f", "summary", f"--topology={table}", *paths]).stdout
    holds(summary, "The slowest transfer is over PCIe from switch of 0: 1.17 µs at its speed, most of it for copy." in summary)
    for bad, word in ("GPU0 GPU2 GPU1\nGPU0 X NV1 SYS\nGPU2 NV1 X PIX\nGPU1 SYS PIX X\n", "in their order"), ("GPU0 GPU1\nGPU0 X NV1\n", "no line of its own"), ("GPU0 GPU1\nGPU0 X FOO\nGPU1 FOO X", "GPU0 has no connection to GPU1"), ("x", "no table"), ("speed NV x", "a speed is"):
        with open(table, "w", encoding="utf-8") as f:
            f.write(bad)
        done = world.call([world.tool("mt-extract"), f"--topology={table}", *paths], code=2)
        holds(done.stderr, word in done.stderr)


def ranks_run(world, app, folder, variables, devices):
    """Processes of a job, started at once: their outputs."""
    os.makedirs(folder)
    started = []
    for rank in range(len(devices)):
        env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
        env.update(MEMTRACE_DEVICE="cpu", MEMTRACE_DIR=folder, RANK=str(rank), WORLD_SIZE=str(len(devices)), MASTER_PORT="1",
                   **{name: value.format(rank=rank) for name, value in variables.items()})
        started.append(subprocess.Popen([*app, str(rank), str(len(devices)), folder, str(devices[rank])], env=env, stdout=subprocess.PIPE, text=True))
    return [p.communicate(timeout=120)[0] for p in started]


@case("devices.ranks")
def ranks(world):
    """Three processes that read each other's memory are one run, by several devices and by one for each; raw and compact, and a tool that reads twice."""
    app = [world.compile(os.path.join(world.src, "ranks.cu"), "-O2")]
    cells, taken, steps, n = 1 << 18, 1 << 10, 2, 3
    for name, variables, devices in (("several", {"MEMTRACE_CPU_DEVICES": "3", "MEMTRACE_FORMAT": "compact"}, [0, 1, 2]),
                                     ("seen", {"MEMTRACE_CPU_DEVICES": "3", "CUDA_VISIBLE_DEVICES": "{rank},7", "MEMTRACE_FORMAT": "compact"}, [0, 0, 0]),
                                     ("one", {"MEMTRACE_FORMAT": "compact"}, [0, 0, 0]), ("raw", {}, [0, 0, 0])):
        folder = os.path.join(world.folder("ranks"), name)
        same(name, ranks_run(world, app, folder, variables, devices), ["ok\n"] * n)
        got = world.extract([folder], "--sections=all,devices,placement", f"--devices={n}")
        holds(str(got["notes"]), any("3 processes of job" in x for x in got["notes"]))
        same("complete", (got["complete"], got["launches"]), (True, 2 * steps * n))
        with open(next(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".meta")), encoding="utf-8") as f:
            same("machine", json.loads(f.readline())["host"], os.uname().nodename)
        hands = Counter({("load", str((r + n - 1) % n), str(r)): 4 * taken * steps for r in range(n)})
        hands.update({("store", str(r), str(r)): 4 * (cells + taken) * steps for r in range(n)})
        hands.update({("copy", str(r), "host"): 4 * taken * steps for r in range(n)})
        hands.update({("copy", str((r + n - 1) % n), str(r)): 2 * taken * steps for r in range(n)})
        same(f"{name}: devices", flows(got["devices"]), hands)
        same(f"{name}: as it ran", got["placement"]["ran"], 4 * taken * steps * n)
        steps_of = {k: [int(s) for s in v] for k, v in got["KCV"].items()}
        same(f"{name}: communication", sum(v["Load"] for v in got["KCV"]["take"].values()), 4 * taken * steps * n)
        for step in steps_of["take"]:  # what it loads was filled by a launch before it, of another process
            holds(str(steps_of), sum(s < step for s in steps_of["fill"]) >= n)
        alone = world.extract([os.path.join(folder, f) for f in os.listdir(folder) if f.startswith("MemTrace-rank0") and not f.endswith(".meta")], "--sections=KDV,KCV")
        same(f"{name}: one alone", (alone["launches"], sum(v["Load"] for v in alone["KCV"]["take"].values())), (2 * steps, 0))
        world.call([world.tool("mt-report"), folder, "-o", os.path.join(folder, "r.html")])
        two = world.extract([os.path.join(folder, f) for f in os.listdir(folder) if f.startswith(("MemTrace-rank0", "MemTrace-rank2")) and not f.endswith(".meta")],
                            "--sections=KDV", code=3)
        same(f"{name}: two of three", (two["complete"], [x.split(":")[0] for x in two["notes"] if "is missing" in x or "given away" in x]),
             (False, ["traces of 2 of the job's 3 processes are here", "memory of other processes was opened 1 times of which no trace here says that it was given away"]))


# ---- collectives of NCCL: ways that bytes go, step by step ----

def parts(count, n):
    """Elements of each of n parts, the first ones larger."""
    return [len(range(k, count, n)) for k in range(n)]


def ring_sum(n, count):
    """{(from, to): elements} when each rank hands on, n - 1 times, a part that grows by its own, then n - 1 times a part that is done."""
    out, size = Counter(), parts(count, n)
    for first in (0, 1):  # the part that rank r sends first: the one that ends, at last, at the rank of its number; then that
        for step in range(n - 1):
            for r in range(n):
                out[r, (r + 1) % n] += size[(r - step - (0 if first else 1)) % n]
    return out


def chain(order, count):
    return Counter({pair: count for pair in zip(order, order[1:])})


def tree_edges(n, root):
    return [((root + (v - 1) // 2) % n, (root + v) % n) for v in range(1, n)]


def ways(n, count, way):
    """{kernel: {(from, to): elements}} of the calls of collectives.cu, in one turn."""
    ranks, root, last = range(n), 1 % n, n - 1
    pairs = [(a, b) for a in ranks for b in ranks if a != b]
    out = {"ncclRecv": Counter({(r, (r + 1) % n): count for r in ranks})}
    if way == "direct":
        out["ncclAllReduce"] = out["ncclAllGather"] = out["ncclReduceScatter"] = Counter(dict.fromkeys(pairs, count))
        out["ncclBroadcast"] = Counter({(a, b): count for a, b in pairs if a == root})
        out["ncclReduce"] = Counter({(a, b): count for a, b in pairs if b == last})
        return out
    out["ncclAllGather"] = out["ncclReduceScatter"] = Counter({(r, (r + 1) % n): (n - 1) * count for r in ranks})
    if way == "ring":
        out["ncclAllReduce"] = ring_sum(n, count)
        out["ncclBroadcast"] = chain([(root + i) % n for i in ranks], count)
        out["ncclReduce"] = chain([(last + 1 + i) % n for i in ranks], count)
        return out
    out["ncclBroadcast"] = Counter({edge: count for edge in tree_edges(n, root)})
    out["ncclReduce"] = Counter({(b, a): count for a, b in tree_edges(n, last)})
    out["ncclAllReduce"] = Counter({e: count for a, b in tree_edges(n, 0) for e in ((a, b), (b, a))})
    return out


def collected(rows):
    out = {}
    for r in rows:
        if r["by"] == "collective":
            out.setdefault(r["kernel"], Counter())[int(r["from"]), int(r["to"])] += r["bytes"] // INT
    return out


def hostile(world, paths):
    """Lines that cannot be: the collective is none, and it is said."""
    for key, value in ("rank", 2), ("rank", -1), ("ranks", 0), ("ranks", 1 << 40), ("count", 1 << 62), ("size", 1 << 33), ("root", 9), ("peer", 1 << 50):
        folder = world.folder("hostile")
        copies = [shutil.copy2(p, folder) for p in paths]
        for p, copy in zip(paths, copies):
            with open(p + ".meta", encoding="utf-8") as f, open(copy + ".meta", "w", encoding="utf-8") as out:
                for e in map(json.loads, f):
                    if e.get("collective") or e["ev"] == "communicator" and key != "count" and key in e:
                        e[key] = value
                    out.write(json.dumps(e) + "\n")
        done = world.call([world.tool("mt-extract"), "--sections=devices", *copies], code=3)
        same(f"{key} {value}", collected(json.loads(done.stdout)["devices"]), {})


def machines(world, app, count, turns):
    """Ranks that believe to be on machines of their own, over TCP: the same bytes, from machine to machine; and each machine's traces read by a rank of its own."""
    on = ["unshare", "--user", "--map-root-user", "--uts", "sh", "-c", 'hostname "host$1" && exec "$0" rank "$@"']
    if subprocess.run([*on[:-1], "hostname a"], capture_output=True, check=False).returncode:
        return  # libraries.nccl.machines is skipped then, and says so
    base, n = world.folder("machines"), 3
    folder = os.path.join(base, "all")
    same("machines", ranks_run(world, [*on, app], folder, {"MEMTRACE_FORMAT": "compact", "MEMTRACE_NETWORK": "lo"}, [0] * n), ["ok\n"] * n)
    os.unlink(os.path.join(folder, "id"))
    own = [os.path.join(base, str(r)) for r in range(n)]
    for r, to in enumerate(own):
        os.makedirs(to)
        for name in os.listdir(folder):
            if name.startswith(f"MemTrace-rank{r}-"):
                os.rename(os.path.join(folder, name), os.path.join(to, name))
    got = world.extract(own, "--sections=devices", "--collectives=ring")
    hand = {k: Counter({p: turns * v for p, v in pairs.items()}) for k, pairs in ways(n, count, "ring").items()}
    same("machines: ring", collected(got["devices"]), hand)
    links = Counter()
    for r in got["links"]:
        links[r["link"]] += r["bytes"]
    same("machines: network", links, Counter({f"network {way} host{r}": sum(INT * v for pairs in hand.values() for ends, v in pairs.items() if ends[way == "to"] == r)
                                              for way in ("from", "to") for r in range(n)}))
    if not shutil.which("mpirun") or not os.path.exists(os.path.join(os.path.dirname(world.tool("mt-extract")), "../libexec/memtrace/mt-extract-mpi")):
        return
    env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for options in ["--sections=quick,lines,coalescing,devices,sharing,conflicts,traffic"], ["--format=text", "--sections=quick,devices,coalescing"]:
        done = subprocess.run(["mpirun", "--oversubscribe", "-n", str(n), "sh", "-c", f'exec "$0" "$@" {base}/$OMPI_COMM_WORLD_RANK', world.tool("mt-extract"), *options],
                              env={**os.environ, **env}, capture_output=True, text=True, timeout=100, check=False)
        same(f"machines, apart: {done.stderr}", (done.returncode, done.stdout), (0, world.call([world.tool("mt-extract"), *options, *own]).stdout))


@case("devices.collectives")
def collectives(world):
    """NCCL between kernels: bytes by hand, three ways, over links; who wrote what is sent, and who reads what came; processes."""
    app, count, turns = world.compile(os.path.join(world.src, "collectives.cu"), "-O2", "-I" + os.path.join(world.source, "tests/libraries"), "-lnccl"), 1000, 2
    runs = []
    for n, form in (2, ""), (3, "compact"), (4, "compact"):
        result = world.run_ok([app, "group", str(n)], MEMTRACE_CPU_DEVICES="4", **({"MEMTRACE_FORMAT": form} if form else {}))
        runs.append((f"{n} {form}", n, traces(result)))
    for name, variables, devices in (("several", {"MEMTRACE_CPU_DEVICES": "3", "MEMTRACE_FORMAT": "compact"}, [0, 1, 2]), ("one", {}, [0, 0, 0])):
        folder = os.path.join(world.folder("collectives"), name)
        same(name, ranks_run(world, [app, "rank"], folder, variables, devices), ["ok\n"] * 3)
        os.unlink(os.path.join(folder, "id"))
        runs.append((name, 3, [folder]))
    for name, n, paths in runs:
        for way in "direct", "ring", "tree":
            got = world.extract(paths, "--sections=KCV,devices", "--collectives=" + way, "--topology=nvlink")
            hand = {k: Counter({p: turns * v for p, v in pairs.items()}) for k, pairs in ways(n, count, way).items()}
            same(f"{name} {way}", collected(got["devices"]), hand)
            links = Counter()
            for r in got["links"]:
                links[r["link"]] += r["bytes"] * (r["by"] == "collective")
            for r in range(n):
                same(f"{name} {way}: link from {r}", links[f"NVLink from {r}"], sum(INT * v for pairs in hand.values() for (a, _), v in pairs.items() if a == r))
        same(f"{name}: complete", got["complete"], True)
        loads = {k: sum(v["Load"] for v in steps.values()) for k, steps in got["KCV"].items()}
        sent = turns * count * INT
        # use reads twice what the last of several wrote; Reduce-Scatter reads n pieces, Broadcast of the root alone.
        same(f"{name}: loads", {k: loads.get(k, 0) for k in ("ncclAllReduce", "use", "ncclBroadcast", "ncclReduceScatter", "ncclSend", "ncclRecv")},
             {"ncclAllReduce": n * sent, "use": 2 * n * sent, "ncclBroadcast": sent, "ncclReduceScatter": n * n * sent, "ncclSend": n * sent, "ncclRecv": 0})
    paths = runs[1][2]
    with open(os.path.join(world.src, "collectives.cu"), encoding="utf-8") as f:
        places = {w.split("(")[0]: i for i, line in enumerate(f, 1) for w in line.split() if w.startswith("DO(nccl") for w in [w[3:]]}
    with open(os.path.join(runs[0][2][0] + ".meta"), encoding="utf-8") as f:
        lines_of = {e["kernel"]: e["line"] for e in map(json.loads, f) if e.get("collective")}
    same("lines", lines_of, {k: places[k] for k in lines_of})
    summary = world.call([world.tool("mt-extract"), "-f", "summary", *paths]).stdout
    holds(summary, "by collectives), most from" in summary)
    one = world.extract(paths, "--sections=devices", "--kernel=ncclAllReduce")
    same("one kernel", set(collected(one["devices"])), {"ncclAllReduce"})
    machines(world, app, count, turns)
    bad = world.call([world.tool("mt-extract"), "--collectives=star", *paths], code=2)
    holds(bad.stderr, "direct, ring or tree" in bad.stderr)
    hostile(world, runs[0][2])
    world.call([world.tool("mt-report"), *paths, "--collectives=ring", "-o", os.path.join(world.folder("page"), "r.html")])
