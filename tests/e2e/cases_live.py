"""MEMTRACE_SINK=extract: the result is byte for byte that of mt-extract on the trace of the same program, and the program
does not notice. The program is src/live.cu; with one worker thread it does the same in each run."""
import json
import os
import subprocess
import time

from world import case, holds, same


def program(world):
    return world.compile(os.path.join(world.src, "live.cu"), "-O2")


def both(world, command, *words, **env):
    """(comm.json of mt-extract on the trace, of MEMTRACE_SINK), as bytes, and the result of the second run."""
    env.setdefault("MEMTRACE_CPU_THREADS", 1)
    folder, out = world.folder("same"), os.path.join(world.folder("out"), "comm.json")
    plain = world.run_ok(command, folder=folder, **env)
    sections = [] if any(w.startswith("--sections") for w in words) else ["-s", "quick"]
    want = world.call([world.tool("mt-extract"), *sections, *words, *(plain.path(n) for n in plain.streams())]).stdout
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    live = world.run_ok(command, folder=folder, MEMTRACE_SINK=" ".join([f"extract:{out}", *words]), **env)
    same("files left", os.listdir(folder), [])
    same("output", live.out, plain.out)
    with open(out, encoding="utf-8") as f:
        return want, f.read(), live


@case("live.examples")
def examples(world):
    for name, args in (("stencil_1d", [5, 64, 4]), ("reduction", []), ("histogram", [])):
        if not os.path.exists(world.example(name)):
            continue
        app = world.compile(world.example(name), "-O2")
        want, got, _ = both(world, [app, *map(str, args)])
        same(name, got, want)


@case("live.streams")
def streams(world):
    """Launches that overlap, copies between, an address that is used again, a stream that goes away."""
    app = program(world)
    # As a rank of an MPI program: mt-extract is not.
    want, got, live = both(world, [app, "streams", "10"], MEMTRACE_CPU_THREADS=2, OMPI_COMM_WORLD_SIZE=2, OMPI_COMM_WORLD_RANK=1)
    same("comm.json", got, want)
    comm = json.loads(got)
    same("inputs", [os.path.basename(p) for p in comm["inputs"]], ["MemTrace-pipe-0", "MemTrace-pipe-1", "MemTrace-pipe-2"])
    same("order", (list(comm["KDV"]["slow"]), list(comm["KDV"]["fast"]), comm["complete"], comm["launches"]), (["0"], ["1"], True, 9))
    holds("host copies", "<host>" in comm["transfers"])
    same("words", live.err, "")
    for words in (["--strict", "--same-cta=local"], ["--sections=KCV,transfers", "--no-host"], ["--kernels=^shift", "--supersteps=2:5"]):
        want, got, _ = both(world, [app, "streams", "10"], *words, MEMTRACE_CPU_THREADS=2)
        same(str(words), got, want)


@case("live.held")
def held(world):
    """More records wait for an earlier launch than fit into the memory set aside (256 MiB): 256 * 50,000 of 24 bytes."""
    app = program(world)
    out = os.path.join(world.folder("out"), "comm.json")
    world.run_ok([app, "streams", "50000"], MEMTRACE_SINK=f"extract:{out} --sections=KDV", MEMTRACE_CPU_THREADS=2)
    with open(out, encoding="utf-8") as f:
        comm = json.load(f)
    same("all of it", (comm["complete"], comm["KDV"]["fast"]["1"]["Store"], comm["KDV"]["slow"]["0"]), (True, 256 * 50000 * 4, {"Load": 256, "Store": 512}))


@case("live.samples")
def samples(world):
    app = world.compile(os.path.join(world.src, "ctas.cu"), "-O2")
    want, got, _ = both(world, [app, "4"], MEMTRACE_SAMPLE="launch:2,cta:8")
    same("comm.json", got, want)
    holds("with estimates", "estimates" in json.loads(got))
    want, got, _ = both(world, [app, "2"], MEMTRACE_KERNELS="waits|loop", MEMTRACE_BUFFER="4K")
    same("comm.json", got, want)
    same("left out", json.loads(got)["untraced_launches"], 4)


@case("live.killed")
def killed(world):
    """Nothing is written, what was there before stays, and mt-extract goes away."""
    app = program(world)
    folder = world.folder("out")
    out = os.path.join(folder, "comm.json")
    for before in (None, "old"):
        if before:
            with open(out, "w", encoding="ascii") as f:
                f.write(before)
        result = world.run([app, "killed"], MEMTRACE_SINK=f"extract:{out}")
        same("killed", result.code, -9)
        for _ in range(100):
            if out.encode() not in subprocess.run(["ps", "ax", "-o", "args"], capture_output=True, check=True).stdout:
                break
            time.sleep(0.1)
        else:
            holds("mt-extract has ended", False)
        same("files", os.listdir(folder), ["comm.json"] if before else [])
    with open(out, encoding="ascii") as f:
        same("old", f.read(), "old")


@case("live.children")
def children(world):
    """The program has no child that it does not know, no signal of one; its own may outlive it."""
    app = program(world)
    out = os.path.join(world.folder("out"), "comm-%p.json")
    begin = time.monotonic()
    result = world.run_ok([app, "children"], MEMTRACE_SINK=f"extract:{out}")
    holds("it did not wait for its own child", time.monotonic() - begin < 15)
    same("children", result.out, "0 children, 0 signals\n")
    names = os.listdir(os.path.dirname(out))
    holds(f"one result, with the process's number: {names}", len(names) == 1 and names[0][5:-5].isdigit())


@case("live.failures")
def failures(world):
    app = program(world)
    folder = world.folder("out")
    out = os.path.join(folder, "comm.json")
    for sink, why in ((f"extract:{out} --bogus", "mt-extract has ended"), (f"extract:{out} -s addresses", "mt-extract has ended"),
                      (f"extract:{folder}/none/comm.json", "mt-extract has ended")):
        # Whether the end is met by a launch or at exit depends on who is faster.
        result = world.run_ok([app, "streams", "10"], MEMTRACE_SINK=sink)
        holds(f"{sink}: {result.err}", why in result.err or "has written no result" in result.err)
        same("nothing is written", (os.listdir(folder), result.streams()), ([], []))
    result = world.run_ok([app, "streams", "10"], MEMTRACE_SINK="file:x")
    holds(f"said: {result.err}", "MEMTRACE_SINK=file:x: " in result.err and "traces go to files" in result.err)
    same("and they do", result.streams(), [0, 1, 2])
    result = world.run_ok([app, "untraced"], MEMTRACE_SINK=f"extract:{out}")
    same("no launch, no result, no words", (os.listdir(folder), result.err), ([], ""))
