"""Calls of libraries. The program compares results with naive algorithms of its own, and prints what each call must read and write; here
that is compared with the trace, byte by byte, and with the transfers that memtrace extract finds."""
import ctypes
import json
import os
import shutil
import subprocess
import sys

import harness
from cuda import Standin
from harness import BUILD, Skipped, call, case, clean, expect, tool

BLAS, FFT = ("libopenblas.so.0",), ("libfftw3.so.3", "libfftw3f.so.3")
HERE = os.path.dirname(os.path.abspath(__file__))


def run(work, program, *arguments, **more):
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    return harness.run([program if os.path.isabs(program) else os.path.join(BUILD, "tests/bin", program), *arguments],
                       env=clean(MEMTRACE_DEVICE="cpu", MEMTRACE_DIR=work, **more))


def ranges(words):
    """{"r": bytes, "w": bytes} as sets of (begin, end), apart and ascending."""
    out = {"r": [], "w": []}
    for w in words:
        at, n = w[1:].split("+")
        out[w[0]] += [(int(at, 16), int(at, 16) + int(n))] if int(n) else []
    return {k: joined(v) for k, v in out.items()}


def joined(list_):
    out = []
    for begin, end in sorted(list_):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((begin, end))
    return out


def expected(text):
    """[(kernel, ranges)] in order; calls that touch nothing make no difference."""
    return [(w[1], ranges(w[2:])) for w in (line.split() for line in text.splitlines()) if w and w[0] == "call"]


def traced(traces, code=0):
    """The same of all traces of a run, by memtrace dump; 3 is its exit code for those that are not complete."""
    text = call([tool("mt-dump"), *traces], code).stdout
    out, kinds = [], {"load": "r", "store": "w"}
    for line in text.splitlines():
        w = line.split()
        if w[:1] == ["launch"]:
            out.append((w[2], {"r": [], "w": []}))
        elif w and w[0] in kinds:
            at = int(w[2], 16)
            out[-1][1][kinds[w[0]]].append((at, at + int(w[1])))
    return [(name, {k: joined(v) for k, v in r.items()}) for name, r in out]


def launches(traces):
    out = []
    for t in traces:
        with open(t + ".meta", encoding="utf-8") as f:
            out += [e for e in map(json.loads, f) if e["ev"] == "launch"]
    return sorted(out, key=lambda e: e["seq"])


def compare(want, have, words):
    expect([n for n, _ in want] == [n for n, _ in have], f"{words}: {len(have)} launches of {len(want)}, or in another order")
    for i, (w, h) in enumerate(zip(want, have)):
        for k in "rw":
            expect(w[1][k] == h[1][k], f"{words}: call {i}, {w[0]}: {k} {h[1][k]}, expected {w[1][k]}")


def transfers(calls):
    """Bytes from call to call, by a last writer for each byte: {(writer's number, reader's number): bytes}."""
    last, out = {}, {}
    for n, (_, r) in enumerate(calls):
        for begin, end in r["r"]:
            for b in range(begin, end):
                if b in last:
                    out[last[b], n] = out.get((last[b], n), 0) + 1
        for begin, end in r["w"]:
            last.update((b, n) for b in range(begin, end))
    return out


def extracted(traces):
    j = json.loads(call([tool("mt-extract"), "--sections", "transfers", "--no-host", *traces]).stdout)
    expect(j["complete"] is True, "the trace is not complete")
    expect(j["libraries"] and all(k.startswith(v) for k, v in j["libraries"].items()), "libraries of mt-extract")
    return {(int(s), int(t)): cell["Size"] for by_cta in j["transfers"].values() for steps in by_cta.values()
            for s, readers in steps.items() for ctas in readers.values() for to in ctas.values() for t, cell in to.items()}


def test_library(work, program, *arguments):
    want = {}
    for form in ("raw", "compact"):
        p = run(work, program, *arguments, MEMTRACE_FORMAT=form)
        expect(p.returncode == 0 and not p.stderr, f"{form}: exit code {p.returncode}\n{p.stderr}")
        traces = sorted(os.path.join(work, f) for f in os.listdir(work) if not f.endswith(".meta"))
        want = expected(p.stdout)
        events = [e for e in launches(traces) if e.get("library")]
        expect([e["kernel"] for e in events] == [n for n, _ in want], f"{form}: launches of the companion")
        expect(all(e["kernel"].startswith(e["library"]) and e["traced"] and not e["status"] for e in events),
              f"{form}: a launch that is none of a library, was not traced or failed")
        compare(want, traced(traces), form)
        # Operands that overlap are counted once here, and once each there: no case reads such from another call.
        expect(transfers(want) == extracted(traces), f"{form}: transfers")
    return want


def test_missing(work):
    """Without OpenBLAS: what is missing is said, with its package, and the call fails."""
    fake = os.path.join(work, "fake")
    os.makedirs(fake)
    with open(os.path.join(fake, "libopenblas.so.0"), "w", encoding="utf-8") as f:
        f.write("not a library\n")
    p = call([os.path.join(BUILD, "tests/bin/test_library_missing")], env=clean(MEMTRACE_DEVICE="cpu", MEMTRACE_DIR=work, LD_LIBRARY_PATH=fake))
    lines = [x for x in p.stderr.splitlines() if x.startswith("memtrace: ")]
    expect(len(lines) == 3 and "cublasSaxpy" in lines[0] and "apt install libopenblas0-pthread" in lines[0],
          f"what is missing: {p.stderr}")
    expect(len(lines) == 3 and "cublasSgemmGroupedBatched" in lines[1] and "status 15" in lines[1], f"what is not there: {p.stderr}")
    expect(len(lines) == 3 and "curandCreateGenerator" in lines[2] and "libcurand.so.10" in lines[2], f"what is missing: {p.stderr}")


def test_failed(work):
    """A call that fails on the device: a launch with its status and without accesses, and nothing is done behind it."""
    for which, name, copies in (("f", "cufftExecC2C", 0), ("b", "cublasSgemmBatched", 1), ("c", "cusparseSpMV", 2), ("r", "cusparseSpMV", 2)):
        for form in ("raw", "compact"):
            p = run(work, "test_library_failed", which, MEMTRACE_FORMAT=form)
            expect(p.returncode == 0 and p.stderr.count("\n") == 1 and name in p.stderr, f"{which} {form}: exit code {p.returncode}\n{p.stderr}")
            traces = sorted(os.path.join(work, f) for f in os.listdir(work) if not f.endswith(".meta"))
            expect(traced(traces) == [(name, {"r": [], "w": []})], f"{which} {form}: accesses of a call that failed")
            have = [(e["kernel"], e["records"], e["status"]) for e in launches(traces)]
            expect(have == [(name, 0, 700)], f"{which} {form}: launches {have}")
            with open(traces[0] + ".meta", encoding="utf-8") as f:
                events = [json.loads(line)["ev"] for line in f]
            expect(events.count("memcpy") == copies and events.count("memset") == 3, f"{which} {form}: copies and fills behind it: {events}")


def start(work, command):
    """Runs it; the launches of its one trace."""
    p = call(command, env=clean(MEMTRACE_DEVICE="cpu", MEMTRACE_DIR=work))
    expect(not p.stderr, f"{command}: {p.stderr}")
    return launches([os.path.join(work, "MemTrace-pipe-0")])


def test_linked(work):
    """mt-cc -lcublas: kernels and the call between them, with its line."""
    app = os.path.join(work, "app")
    call([tool("mt-cc"), "-O1", os.path.join(HERE, "linked.cu"), "-lcublas", "-o", app])
    made = [e for e in start(work, [app]) if e["kernel"] == "cublasSaxpy"]
    expect(len(made) == 1 and made[0]["line"] == 25 and made[0]["file"].endswith("linked.cu"), f"place of the call: {made}")
    # x in steps of two, and the first half of y
    have = extracted([os.path.join(work, "MemTrace-pipe-0")])
    expect(have == {(0, 2): 128, (1, 2): 128, (2, 3): 128, (1, 3): 128}, f"transfers: {have}")


def test_random(work):
    """Numbers of the host's and the device's functions, with a program that includes NVIDIA's headers."""
    app = os.path.join(work, "app")
    call([tool("mt-cc"), "-O1", os.path.join(HERE, "curand_kernel.cu"), "-lcurand", "-o", app])
    events = [(e["kernel"], e.get("records")) for e in start(work, [app]) if e.get("library")]
    expect(events == [("curandGenerate", 1)] * 3, f"launches: {events}")


def build_stub(work, soname, names, text=""):
    """A library with these names under its own version, as NVIDIA's have them."""
    stub = os.path.join(work, soname)
    source, versions = stub + ".c", stub + ".map"
    with open(source, "w", encoding="utf-8") as f:
        f.write(text + "".join(f"int {n}(void) {{ return 99; }}\n" for n in names))
    with open(versions, "w", encoding="utf-8") as f:
        f.write(soname + " { global: *; };\n")
    call(["cc", "-shared", "-fPIC", source, "-o", stub, "-Wl,-soname," + soname, "-Wl,--version-script=" + versions])
    return stub


# What the stand-in takes from the cuRAND that the program would have got.
RANDOM = """
int curandCreateGeneratorHost(void **g, int type) { *g = g; return type != 161; }
int curandGenerateUniformDouble(void *g, double *out, unsigned long n) { while (n) out[--n] = 1; return !g; }
"""


def test_attached(work):
    """Programs that NVIDIA's libraries were meant for, those of CUDA 13 and 12, under memtrace run."""
    names = os.path.join(BUILD, "lib/memtrace/cudart")
    for version in ("13", "12"):
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(work)
        app = os.path.join(work, "app")
        libraries = [build_stub(work, "libcublas.so." + version, ["cublasCreate_v2", "cublasDscal_v2"]),
                     build_stub(work, "libcurand.so.10", ["curandCreateGenerator"], RANDOM)]
        call(["cc", os.path.join(HERE, "attached.c"), "-o", app, *libraries, "-Wl,-rpath," + work, "-L" + names, "-l:libcudart.so",
                        "-Wl,--allow-shlib-undefined"])
        have = [(e["kernel"], e.get("library"), e["records"]) for e in start(work, [tool("mt-run"), "-f", "raw", app])]
        expect(have == [("cublasDscal", "cublas", 8), ("curandGenerateUniformDouble", "curand", 1)], f"CUDA {version}: launches: {have}")
        said = call([tool("mt-run"), "--list", app], text=True, capture_output=True, check=True).stdout
        expect(all(path + ": on the CPU device memtrace computes its results" in said for path in libraries), f"CUDA {version}: --list: {said}")


def test_gpu(work):
    """On a GPU's stand-in, with libraries that are fakes of NVIDIA's: the calls among the kernels of their stream, on the side
    of libmemtrace-libraries.so by mt-cc."""
    app, standin = os.path.join(work, "app"), Standin(BUILD)
    names = ("libcublas.so.13", "libcublasLt.so.13", "libcufft.so.12", "libcurand.so.10", "libcusparse.so.12", "libcusolver.so.12")
    for name in names:
        call(["cc", "-shared", "-fPIC", "-O1", os.path.join(HERE, "gpu/fake.c"), "-o", os.path.join(work, name), "-ldl"])
    call([tool("mt-cc"), "-O1", "--mt-gpu-trace=on", os.path.join(HERE, "gpu/calls.cu"), "-lcublas",
                    "-lcublasLt", "-lcufft", "-lcurand", "-lcusparse", "-lcusolver", "-o", app])
    standin.images(app)
    for form, unknown in (("raw", []), ("compact", []), ("compact", ["cublasSgelsBatched"]), ("compact", ["cublasLtMatmul", "2"]),
                          ("compact", ["cublasSaxpy", "2", "3"])):
        out = os.path.join(work, form)
        shutil.rmtree(out, ignore_errors=True)
        env = {**os.environ, **standin.variables, "MEMTRACE_DIR": out, "MEMTRACE_FORMAT": form}
        env["LD_LIBRARY_PATH"] += ":" + work
        os.makedirs(out)
        p = harness.run([app, *unknown], env=env)
        # Of the stand-in's code no variable says which sites it has.
        said = [x for x in p.stderr.splitlines() if "sites of its program are not known" not in x]
        expect(p.returncode == 0 and len(said) == bool(unknown) and all(unknown[0] in x for x in said),
              f"{form}: exit code {p.returncode}\n{p.stderr}")
        trace = next(os.path.join(out, f) for f in os.listdir(out) if not f.endswith(".meta"))
        want, have = expected(p.stdout), [(n, r) for n, r in traced([trace], 3 if unknown else 0) if n.startswith("cu")]
        compare(want, have, form)
        events = [e["kernel"] for e in launches([trace])]
        expect(events == ["fill"] * 4 + ["cublasSaxpy", "twice"] + ["fill"] * 2 + ["cublasSgemm"] +
              ["fill"] * 2 + ["cublasSgemm", "cublasSgemmBatched", "curandGenerateUniform", "cufftExecC2C", "cublasLtMatmul", "cusparseSpMV", "cusolverDnSpotrf", "twice"],
              f"{form}: launches {events}")
        j = json.loads(harness.run([tool("mt-extract"), "--no-host", trace]).stdout)
        expect(j["complete"] is not bool(unknown), f"{form} {unknown}: complete is {j['complete']}")


def python_with_numpy():
    """An interpreter that has it, or None: Debian's package is for Debian's Python alone."""
    return next((p for p in (sys.executable, "/usr/bin/python3")
                 if os.path.exists(p) and not harness.run([p, "-c", "import numpy"]).returncode), None)


def library(name, backends, test, **properties):
    """Registers a case that is skipped where one of the libraries that compute is not installed."""
    def run_it(world):
        for each in backends:
            try:
                ctypes.CDLL(each)
            except OSError as why:
                raise Skipped(f"{each} is not installed") from why
        test(world.work)
    case(name, **properties)(run_it)


def curand():
    found = [f for d in ("lib64", "lib") for f in [f"{harness.toolkit()}/{d}/libcurand.so.10"] if os.path.exists(f)]
    if not found:
        raise Skipped("the toolkit has no libcurand.so.10")
    return found[0]


def test_numpy(work):
    numpy = python_with_numpy()
    if not numpy:
        raise Skipped("no Python with NumPy (python3-numpy)")
    test_library(work, numpy, os.path.join(HERE, "reference.py"), BUILD)


for each, needed in {"cublas": BLAS, "cublasLt": BLAS, "cufft": FFT, "cusolver": BLAS, "cusolver_more": BLAS, "factors": BLAS, "cusparse": BLAS,
                     "cusparse_convert": ()}.items():
    library(each, needed, lambda work, name=each: test_library(work, name + "_cases"))
# ---- NCCL

NCCL, WRONG = (os.path.join(BUILD, "tests/bin", name) for name in ("nccl_cases", "nccl_wrong"))


def nccl(work, *words, said="", program=NCCL, **variables):
    """Runs it; what it says on stderr has these words, or there is nothing."""
    p = run(work, program, *map(str, words), MEMTRACE_CPU_DEVICES="8", **variables)
    expect(p.returncode == 0 and p.stdout.endswith("ok\n") and (said in p.stderr if said else not p.stderr),
           f"{words}: exit code {p.returncode}\n{p.stdout}{p.stderr}")
    return p


def shared_files():
    """Segments of processes; folders there are other tests'."""
    return {e.name for e in os.scandir("/dev/shm") if e.is_file()} if os.path.isdir("/dev/shm") else set()


ON_MACHINE = ["unshare", "--user", "--map-root-user", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"']


def start_ranks(work, n, how, *words, machines=(), **variables):
    """Processes, each with a folder of its own for traces: [(exit code, stdout, stderr)]. machines: names of those that the ranks believe to be on."""
    started = []
    for r in range(n):
        folder = os.path.join(work, f"rank{r}")
        os.makedirs(folder, exist_ok=True)
        env = clean(MEMTRACE_DEVICE="cpu", MEMTRACE_DIR=folder, MEMTRACE_CPU_DEVICES="8", MEMTRACE_FORMAT="compact", **variables)
        program = [*([*ON_MACHINE, machines[r]] if machines else []), WRONG if how in ("killed", "late", "gone", "uneven") else NCCL]
        started.append(subprocess.Popen([*program, how, str(r), str(n), os.path.join(work, "id"), *words], env=env, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True))
    return [(p.wait(100), p.stdout.read(), p.stderr.read()) for p in started]


def complete(folder):
    j = json.loads(call([tool("mt-extract"), "-s", "KCV", folder]).stdout)
    expect(j["complete"] is True, "the trace is not complete")


@case("nccl.group")
def nccl_group(world):
    """Each function, type and operation, on one to five devices of one thread; of one rank in each form."""
    for n in 1, 2, 3, 5:
        nccl(world.work, "group", n, 5 if n == 3 else 17, MEMTRACE_FORMAT="compact")
        complete(world.work)
    nccl(world.work, "group", 2, 41)
    complete(world.work)


@case("nccl.threads")
def nccl_threads(world):
    for n in 2, 5:
        nccl(world.work, "threads", n, 7, MEMTRACE_FORMAT="compact")
        complete(world.work)


@case("nccl.processes")
def nccl_processes(world):
    """Processes that know each other by a file; nothing is left behind."""
    before = shared_files()
    for n in 2, 4:
        work = os.path.join(world.work, str(n))
        expect(start_ranks(work, n, "rank", "13") == [(0, "ok\n", "")] * n, f"{n} processes")
    got = start_ranks(os.path.join(world.work, "killed"), 3, "killed")
    expect([g[:2] for g in got] == [(0, "ok\n")] * 2 + [(-9, "")], f"a killed one: {got}")
    expect(all("rank 2 has ended" in g[2] and g[2].count("\n") == 1 for g in got[:2]), f"a killed one: {got}")
    expect(not [f for f in shared_files() - before if "memtrace" in f.lower() or "nccl" in f.lower()], "files in /dev/shm")


@case("nccl.machines")
def nccl_machines(world):
    """Processes that believe to be on several machines, by their names: over TCP, with threads that have two ranks, and what goes wrong there."""
    probe = harness.run([*ON_MACHINE, "a", "true"])
    if probe.returncode:
        raise Skipped("no machine names of one's own: " + probe.stderr.strip())
    work = lambda name: os.path.join(world.work, name)
    net = {"MEMTRACE_NETWORK": "lo"}
    expect(start_ranks(work("each"), 3, "rank", "13", machines="abc", **net) == [(0, "ok\n", "")] * 3, "three machines")
    expect(start_ranks(work("two"), 4, "rank", "29", machines="aabb", **net) == [(0, "ok\n", "")] * 4, "two machines")
    expect(start_ranks(work("pairs"), 2, "pairs", "13", machines="ab", **net) == [(0, "ok\n", "")] * 2, "two ranks in each thread")
    got = start_ranks(work("killed"), 3, "killed", machines="abc", **net)
    expect([g[:2] for g in got] == [(0, "ok\n")] * 2 + [(-9, "")] and all("rank 2 at 127.0.0.1 has ended" in g[2] for g in got[:2]), f"a killed one: {got}")
    got = start_ranks(work("late"), 3, "late", machines="abc", MEMTRACE_NCCL_TIMEOUT="2", **net)
    expect([g[:2] for g in got] == [(0, "ok\n")] * 3 and all("nothing has come of rank 2 for 2 s" in g[2] for g in got[:2]), f"a late one: {got}")
    got = start_ranks(work("uneven"), 3, "uneven", machines="abc", MEMTRACE_NCCL_TIMEOUT="2", **net)
    expect([g[:2] for g in got] == [(0, "ok\n")] * 3 and "not all ranks have come" in got[1][2] and "another number" in got[2][2], f"another number of ranks: {got}")
    got = start_ranks(work("gone"), 2, "gone", machines="ab", **net)[1]
    expect(got[1] in ("status 2\nok\n", "status 6\nok\n") and ("cannot join at 127.0.0.1" in got[2] or "has ended" in got[2]), f"the process of the id has ended: {got}")
    got = start_ranks(work("off"), 2, "gone", machines="ab", MEMTRACE_NETWORK="off")[1]
    expect(got[1] == "status 4\nok\n" and "has no network (MEMTRACE_NETWORK)" in got[2], f"without a network: {got}")


@case("nccl.wrong")
def nccl_wrong(world):
    """Arguments that are wrong; a rank that does not come; ranks that call different things; memory that is none."""
    p = nccl(world.work, "errors", program=WRONG, said="ncclCommWindowRegister: the CPU device does not have this function; it returns status 5")
    expect("device 60 of 8; MEMTRACE_CPU_DEVICES=61" in p.stderr, p.stderr)
    p = nccl(world.work, "missing", program=WRONG, said="ncclAllReduce: rank 0 of 2 waits for rank 1, which did not come in 10 s")
    expect(p.stderr.count("\n") == 2 and "rank 1 of 2 gets no result: rank 0 has given up" in p.stderr, p.stderr)
    traces = sorted(os.path.join(world.work, f) for f in os.listdir(world.work) if not f.endswith(".meta"))
    events = launches(traces)
    expect([(e["kernel"], e["records"], e["status"]) for e in events] == [("ncclAllReduce", 0, 0)] * 2, f"given up: {events}")
    j = json.loads(call([tool("mt-extract"), "-s", "KCV", *traces], 3).stdout)
    expect(j["complete"] is False, "a trace without a result is complete")
    nccl(world.work, "early", program=WRONG)
    nccl(world.work, "different", program=WRONG, said="calls another function, or with another count")
    nccl(world.work, "outside", program=WRONG, said="reads 1 times 16 bytes from 0x1000 on")


@case("nccl.bytes")
def nccl_bytes(world):
    """What each call reads and writes, by rank, out of place and in place; lines of companions."""
    for form in "raw", "compact":
        p = nccl(world.work, "touches", 3, MEMTRACE_FORMAT=form)
        traces = sorted(os.path.join(world.work, f) for f in os.listdir(world.work) if not f.endswith(".meta"))
        seen = set()
        for t in traces:
            events = [e for e in launches([t]) if e.get("library")]
            ranks = {e["rank"] for e in events}
            expect(len(ranks) == 1 and all(e["ranks"] == 3 and e["device"] == e["rank"] and e["size"] in (4, 8) for e in events), f"{t}: ranks {ranks}")
            rank = ranks.pop()
            want = expected("".join(line[2:] + "\n" for line in p.stdout.splitlines() if line.startswith(f"{rank} ")))
            compare(want, traced([t], 3), f"{form} {rank}")
            expect([(e["collective"], e.get("root"), e.get("peer")) for e in events][-4:] ==
                   [("scatter", 2, None)] * 2 + [("recv", None, (rank + 2) % 3), ("send", None, (rank + 1) % 3)], f"{form} {rank}: lines")
            seen.add(rank)
        expect(seen == {0, 1, 2}, f"{form}: ranks {seen}")


@case("nccl.mpirun")
def nccl_mpirun(world):
    """As ranks of mpirun, where it is: read as one run."""
    if not shutil.which("mpirun"):
        raise Skipped("no mpirun")
    env = clean(MEMTRACE_DEVICE="cpu", MEMTRACE_FORMAT="compact", MEMTRACE_DIR=world.work, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    script = f'exec {NCCL} rank $OMPI_COMM_WORLD_RANK 3 {world.work}/id 61'
    p = harness.run(["mpirun", "--oversubscribe", "-n", "3", "sh", "-c", script], env={**env, "MEMTRACE_CPU_DEVICES": "8"})
    expect(p.returncode == 0 and p.stdout == "ok\n" * 3, f"exit code {p.returncode}\n{p.stdout}{p.stderr}")
    os.unlink(os.path.join(world.work, "id"))
    j = json.loads(call([tool("mt-extract"), "-s", "devices", world.work]).stdout)
    pairs = {(r["from"], r["to"]) for r in j["devices"] if r["by"] == "collective"}
    expect(j["complete"] is True and pairs == {(a, b) for a in "012" for b in "012"} - {(a, a) for a in "012"}, f"from device to device: {pairs}")


library("curand", (), lambda work: test_library(work, "curand_cases", curand()))
library("curand_all", (), lambda work: test_library(work, "curand_cases", curand(), "all"), long=True)  # some generators take seconds to begin
library("random", (), lambda work: curand() and test_random(work))
library("numpy", BLAS + FFT, test_numpy)
library("gpu", (), test_gpu)
library("linked", BLAS, test_linked)
library("attached", BLAS, test_attached)
library("missing", (), test_missing)
library("failed", BLAS + FFT[1:], test_failed)
