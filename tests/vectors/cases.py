"""Kernels as vectors and with a fiber for each thread (--mt-vectors=off), traced and not: all must give the same, and the traces of both
must say that each thread accessed the same, in the same order."""
import base64
import os
import re
import shutil
import signal
import subprocess
import time

import arithmetic_kernels
import arithmetic_ways
import generate
import harness
import headers
from harness import SOURCE, Failed, Skipped, call, case, clean, holds, same, tool

HERE = os.path.dirname(os.path.realpath(__file__))
WAYS = {
    "untraced": {"MEMTRACE_ENABLE": "0"},
    "one worker": {"MEMTRACE_ENABLE": "0", "MEMTRACE_CPU_THREADS": "1"},
    "traced": {},
    "checked": {"MEMTRACE_CHECK": "1"},
}
WAITS = {"locks"}  # how often they look depends on who comes first


def ran(command, **variables):
    return call(command, timeout=1200, env=clean(MEMTRACE_DEVICE="cpu", **variables))


def build(source, program, *flags):
    """Compiles, and PROGRAM.threads; returns (kernels of which some launches are vectors, why not all of each)."""
    mt_cc, words = tool("mt-cc"), ["-std=c++17", "-w", "--mt-gpu-trace=off", "--mt-verbose=on", *flags]
    words += headers.words(mt_cc, words, source)
    ran([mt_cc, *words, "--mt-vectors=off", source, "-o", program + ".threads"])
    said = ran([mt_cc, *words, source, "-o", program]).stderr
    return said.count("warps are vectors"), re.findall(r"fibers?: (.*)", said)


def accesses(trace):
    """For each launch of a compact trace its kernel and what each thread accessed: {(CTA, thread): [(site, type, bytes, place)]}; a place is
    an allocation's number and an offset in it, as addresses differ from run to run."""
    launches, allocations = [], []
    for line in ran([tool("mt-dump"), "--runs", "--companion", trace]).stdout.splitlines():
        word = line.split()
        if word[0] == "launch":
            launches.append((word[2], {}))
        if word[0] == "alloc":
            allocations.append((int(word[2], 16), int(word[3])))
        found = re.match(r"(load|store|atomic) (\d+)(?: x (\d+))? (\S+)(?: ([+-]\d+))? cta (\S+) sm \d+ warp (\d+) mask (\S+) site (\d+)", line)
        if not found:
            continue
        kind, size, count, at, stride, cta, warp, mask, site = found.groups()
        lanes = [i for i in range(32) if int(mask, 16) >> i & 1]
        listed = [int(a, 16) for a in at.split(",")]
        if len(listed) == 1:
            listed = [listed[0] + i * int(stride or 0) for i in range(int(count or 1))]
        for lane, address in zip(lanes, listed, strict=True):
            place = next((i, address - base) for i, (base, length) in enumerate(allocations) if 0 <= address - base < length)
            launches[-1][1].setdefault((cta, int(warp) * 32 + lane), []).append((site, kind, size, place))
    return launches


def compare_accesses(program, folder):
    """Vectors and threads: what each thread did. Returns how many accesses were compared."""
    seen = []
    for way in program, program + ".threads":
        ran([way], MEMTRACE_DIR=folder, MEMTRACE_FORMAT="compact")
        seen.append(accesses(os.path.join(folder, "MemTrace-pipe-0.mtc")))
    if [name for name, _ in seen[0]] != [name for name, _ in seen[1]]:
        raise Failed(f"{program}: the traces of vectors and of threads have other launches")
    for (name, a), (_, b) in zip(*seen):
        for thread in () if name in WAITS else sorted(a.keys() | b.keys()):
            x, y = a.get(thread, []), b.get(thread, [])
            if x != y:
                at = next((i for i, (p, q) in enumerate(zip(x, y)) if p != q), min(len(x), len(y)))
                raise Failed(f"{program}: {name}, thread {thread}, access {at} of {len(x)} and {len(y)}: as vectors {x[at:at + 4]}, else {y[at:at + 4]}")
    return sum(len(seq) for _, threads in seen[0] for seq in threads.values())


def ways(program):
    """(name, variables, program)"""
    for way, variables in WAYS.items():
        yield way, variables, program
        yield way + ", threads", variables, program + ".threads"


def compare(program, folder):
    first = None
    for way, variables, path in ways(program):
        out = ran([path], MEMTRACE_DIR=folder, **variables).stdout
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        first = first or (way, out)
        for a, b in zip(first[1].splitlines(), out.splitlines()):
            if a != b:
                raise Failed(f"{program}: {first[0]}: {a}; {way}: {b}")
        if first[1] != out:
            raise Failed(f"{program}: {way} says less or more than {first[0]}")
    if compare_accesses(program, folder) < 1000:
        raise Failed(f"{program}: hardly any access was recorded")
    return first[1]


@case("shapes", whole=True, COST=20)  # not alone at the end: long ones begin first
def shapes(world):
    """Kernels whose results are known beforehand."""
    for level in ("-O2", "-O0") if world.long else ("-O2",):
        folder, (waits, shapes, calls) = world.folder("traces"), (world.path(name) for name in ("waits", "shapes", "calls"))
        have, lack = build(os.path.join(HERE, "waits.cu"), waits, level, "--cuda-gpu-arch=sm_90")
        # lanes that take turns, from one to the next (seven kinds), one of several locks, or a lock in two places; unoptimised, the other way that
        # cuda::barrier has; in CTAs of any shape, waits of threads whose threadIdx.x is in a range
        few = 1 + (level == "-O0")
        same(f"waits.cu {level}: kernels as vectors, and not", (have, lack), (14 - few, (few + 9) * ["lanes that may wait for others of their warp"]))
        for way, variables, path in ways(waits):
            said = ran([path], MEMTRACE_DIR=folder, **variables).stdout
            same(f"waits.cu {level}, {way}", said.splitlines()[-1], "all right")
        # one has a barrier that some lanes do not come to
        same(f"shapes.cu {level}: kernels as vectors, and not", build(os.path.join(HERE, "shapes.cu"), shapes, level),
             (15, ["a barrier that not all lanes come to"]))
        said = compare(shapes, folder)
        same(f"calls.cu {level}: kernels as vectors, and not", build(os.path.join(HERE, "calls.cu"), calls, level), (8, []))
        said += compare(calls, folder)
        holds(said, said.splitlines().count("all right") == 2)


def by_chance(world, kernels, seeds, make=generate.program):
    """Kernels made by chance (generate.py)."""
    folder, source, program = world.folder("traces"), world.path("chance.cu"), world.path("chance")
    for seed in seeds:
        with open(source, "w", encoding="utf-8") as f:
            f.write(make(seed, kernels))
        have, lack = build(source, program, "-O1")
        holds(f"seed {seed}: only {have} of {kernels} kernels run as vectors: {lack}", have >= 0.8 * kernels)
        compare(program, folder)
        print(f"seed {seed}: {have} of {kernels} kernels as vectors, the same in {2 * len(WAYS)} ways", flush=True)


@case("chance", COST=20)
def chance(world):
    by_chance(world, 3, [1])


@case("faults")
def faults(world):
    """Of a region that faults nothing is in the trace that was not accessed, and other warps have all of theirs."""
    program, folder = world.path("faults"), world.folder("traces")
    build(os.path.join(HERE, "faults.cu"), program, "-O2")
    for loop, before in ((0, 4), (1, 9 + 1)):
        same(f"loop {loop}", ran([program, str(loop)], MEMTRACE_DIR=folder, MEMTRACE_FORMAT="compact").stdout, "cudaErrorIllegalAddress\n")
        [(_, threads)] = accesses(os.path.join(folder, "MemTrace-pipe-0.mtc"))
        for thread in range(32):
            same(f"loop {loop}, thread {thread} of CTA 0", len(threads["0,0,0", thread]), before)
            # what the second CTA read before the fault may be missing with the rest of its region
            places = [place for _, _, _, place in threads.get(("1,0,0", thread), [])]
            holds(f"loop {loop}, thread {thread} of CTA 1: {places[-1:]}", all(p for p in places[:-1]) and len(places) <= 1 + (1 << 18) // 1024)


@case("killed")
def killed(world):
    """A kernel that is killed in a long loop leaves what it accessed, but for the last buffers."""
    program, folder = world.path("faults"), world.folder("traces")
    build(os.path.join(HERE, "faults.cu"), program, "-O2")
    variables = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
    process = subprocess.Popen([program, "2"], env={**variables, "MEMTRACE_DEVICE": "cpu", "MEMTRACE_DIR": folder, "MEMTRACE_FORMAT": "compact"})
    trace, runs = os.path.join(folder, "MemTrace-pipe-0.mtc"), 0
    for _ in range(300):  # as long as it takes on a busy machine
        time.sleep(0.1)
        if os.path.exists(trace) and os.path.getsize(trace) > 16384:
            break
    process.send_signal(signal.SIGINT)
    same("ended by the signal", process.wait(timeout=60), -signal.SIGINT)
    dump = subprocess.Popen([tool("mt-dump"), "--runs", trace], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in dump.stdout:
        runs += line.startswith(("load", "store"))
        if runs > 100000:
            break
    dump.kill()
    dump.wait()
    holds(f"{runs} runs", runs > 100000)


@case("walks")
def walks(world):
    """Rows that are only known at run time, before a loop."""
    program, folder = world.path("walks"), world.folder("traces")
    build(os.path.join(HERE, "walks.cu"), program, "-O2")
    for way, variables, path in ways(program):
        same(way, ran([path], MEMTRACE_DIR=folder, **variables).stdout, "walks: 0 wrong, no error\n")
    compare_accesses(program, folder)


@case("regular", COST=20)
def regular(world):
    by_chance(world, 5, range(1, 3), generate.regular)


@case("many", long=True, TIMEOUT=5400)
def many(world):
    """Twelve hundred kernels, half an hour."""
    by_chance(world, 30, range(1, 42))


@case("many_regular", long=True, TIMEOUT=5400)
def many_regular(world):
    """Six hundred with regular accesses."""
    by_chance(world, 10, range(4, 64), generate.regular)


@case("leaves")
def leaves(world):
    """Loops that are left in several ways at once, with a host reference."""
    program = world.path("leaves")
    for level in "-O0", "-O2":
        have, _ = build(os.path.join(HERE, "leaves.cu"), program, level)
        holds(f"{level}: {have} kernels as vectors", have >= 5)
        for way, variables, path in ways(program):
            same(f"{level}, {way}", ran([path], MEMTRACE_DIR=world.folder("traces"), **variables).stdout, "leaves: 0 wrong, 9 in the list\n")


@case("wide", whole=True)
def wide(world):
    """128-bit arithmetic and chains of carries beside the host's, by both compilers. LLVM 19 died of carries in long blocks (shim_backend.cpp)."""
    source, program, folder = os.path.join(HERE, "wide.cu"), world.path("wide"), world.folder("traces")
    each = ["-DEACH"] if world.long else []
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        cpus = ["x86-64-v3"] + ["x86-64-v4"] * ("avx512vl" in f.read())
    right = f"wide: 0 wrong of {8100 + 5400 * world.long}, error 0\n"
    for level in ("-O0", "-O1", "-O2", "-O3") if world.long else ("-O0", "-O2"):
        for cpu in cpus[:1] if level == "-O0" else cpus:
            build(source, program, level, f"--mt-cpu={cpu}", *each)
            for path in program, program + ".threads":
                same(f"{level}, {cpu}, {path}", ran([path], MEMTRACE_DIR=folder).stdout, right)
    if harness.nvcc_of():
        call([harness.nvcc_of(), "--cudart=shared", "-arch=sm_90", "-std=c++17", *each, source, "-o", program])
        for how in *(f"--mt-cpu={cpu}" for cpu in cpus), "--mt-vectors=off":
            same(f"nvcc, {how}", ran([tool("mt-run"), "-q", program], MEMTRACE_DIR=folder, MEMTRACE_PTX_OPTIONS=how).stdout, right)


@case("wrapped")
def wrapped(world):
    """Indices that wrap round, at 2^32 in shared and local memory and in 16 and 8 bits, by both compilers."""
    source, program, folder = os.path.join(HERE, "wrapped.cu"), world.path("wrapped"), world.folder("traces")
    right = "wrapped: 0 wrong of 320\n"
    for level in "-O1", "-O3":
        build(source, program, level)
        for way, variables, path in ways(program):
            same(f"{level}, {way}", ran([path], MEMTRACE_DIR=folder, **variables).stdout, right)
    if harness.nvcc_of():
        call([harness.nvcc_of(), "--cudart=shared", "-arch=sm_90", source, "-o", program])
        for how in "", "--mt-vectors=off":
            same(f"nvcc, {how}", ran([tool("mt-run"), "-q", program], MEMTRACE_DIR=folder, MEMTRACE_PTX_OPTIONS=how).stdout, right)


@case("life")
def life(world):
    """Kernels that have a host reference of their own: those of bench/life.cu (bench/life.h), and bounded.cu. All have code for vectors, and
    each gives what the host gives."""
    bench, programs = os.path.join(SOURCE, "bench"), [world.path("life"), world.path("bounded")]
    with open(os.path.join(bench, "life.def"), encoding="utf-8") as f:
        kernels = re.findall(r"^LIFE\((\w+)", f.read(), re.M)
    mt_cc, words = tool("mt-cc"), ["-O2", "-w", "--mt-gpu-trace=off", "--mt-verbose=on"]
    for program, sources in zip(programs, ([os.path.join(bench, n) for n in ("loops.cu", "life.cu")], [os.path.join(HERE, "bounded.cu")])):
        said = ran([mt_cc, *words, *headers.words(mt_cc, words, *sources), *sources, "-o", program]).stderr
        same("not as vectors", re.findall(r"kernel (.*?):.* fibers?: (.*)", said), [])
        holds(said, "warps are vectors" in said)
    for command in [[programs[0], kernel, "1"] for kernel in kernels] + [programs[1:]]:
        ran(command, MEMTRACE_ENABLE="0", MEMTRACE_DIR=world.work)


@case("narrow", whole=True)
def narrow(world):
    """Numbers that wrap round within a warp (narrow.cu) are what they are on the host: by both compilers, as vectors and by fibers."""
    source, traces = os.path.join(HERE, "narrow.cu"), world.folder("traces")
    level = [["-O2"], ["-O0"], ["-O3", "--mt-cpu=x86-64-v4"]]
    programs = {}
    for words in level if world.long else level[:1]:
        program = world.path("narrow")
        have, lack = build(source, program, *words)
        holds(f"{words}: {have} kernels as vectors, not {lack}", have >= 50 and not lack)
        programs[" ".join(words)], programs[" ".join(words) + ", fibers"] = [program], [program + ".threads"]
    nvcc, by_nvcc = harness.nvcc_of(), world.path("narrow.nvcc")
    if nvcc:
        call([nvcc, "-std=c++17", "-w", "-arch=sm_80", "-O2", source, "-o", by_nvcc])
        programs["nvcc"] = [tool("memtrace"), "run", "-q", "-o", world.folder("run"), by_nvcc]
    for name, command in programs.items():
        if "v4" in name and not v4():
            continue
        same(name, ran(command, MEMTRACE_DIR=traces).stdout, "narrow: 0 of 165 wrong\n")


def v4():
    """Does this processor run code for x86-64-v4?"""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= set(re.search(r"^flags\s*:(.*)", f.read(), re.M)[1].split())


def compare_arithmetic(world, seed, kernels, ways):
    """Kernels of one seed (arithmetic_kernels.py) beside the same text on the host."""
    ways = [way for way in ways if (v4() or "v4" not in way) and (harness.nvcc_of() or "nvcc" not in way)]
    print(f"seed {seed}: {kernels} kernels, {', '.join(ways)}", flush=True)
    bench = arithmetic_ways.Bench(world.folder("arithmetic"))
    hunt = arithmetic_ways.Hunt(bench)
    wrong = [arithmetic_ways.told(seed, kernel, what) for kernel, _, what in hunt.batch(arithmetic_kernels.kernels(seed, kernels), ways)]
    print(f"{hunt.count['runs']} runs, processor seconds { {k: round(v, 1) for k, v in bench.spent.items()} }", flush=True)
    holds(f"seed {seed}: {len(wrong)} differ (python3 tests/vectors/arithmetic_ways.py --seed {seed} --kernels {kernels})\n" + "\n".join(wrong[:3]), not wrong)
    holds(f"only {bench.vectors[0]} of {bench.vectors[1]} kernels run as vectors", bench.vectors[0] >= 0.9 * bench.vectors[1])


@case("arithmetic", whole=True, COST=20)
def arithmetic(world):
    """Kernels of narrow, wide and mixed numbers, each in one way: seventy-five, or three hundred."""
    for seed, (way, kernels) in enumerate((("v3-O2", 60), ("v4-O1", 60), ("nvcc-v3", 180)), 1):
        compare_arithmetic(world, seed, kernels if world.long else kernels // 4, [way])


@case("arithmetic_today", long=True, TIMEOUT=5400)
def arithmetic_today(world):
    """As many, in all ways; others each day."""
    for part in range(3):
        compare_arithmetic(world, int(time.time()) // 86400 * 10 + part, 100, arithmetic_ways.WAYS)


@case("short")
def short(world):
    """The code of an access with a mask is short: 1,080 bytes for a kernel that loads and stores once. Of a mask that goes from a number to a
    vector and back for each access, LLVM makes 64 more instructions (vpinsrb)."""
    source, assembly = world.path("short.cu"), world.path("short.s")
    with open(source, "w", encoding="utf-8") as f:
        f.write("__global__ void k(float *a, const float *b, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = b[i] * 1.5f; }\n")
    ran([tool("mt-cc"), "-O2", "--mt-gpu-trace=off", "--cuda-device-only", "-S", source, "-o", assembly])
    with open(assembly, encoding="utf-8") as f:
        image = base64.b64decode(max(f.read().splitlines(), key=len).split()[-1].rpartition(":")[2])
    object_file = world.path("image.o")
    with open(object_file, "wb") as f:
        f.write(image)
    code = ran(["objdump", "-d", "--no-show-raw-insn", object_file]).stdout
    for form in ("record.32", "record.any"):
        body = re.search(rf"^[0-9a-f]+ <mt\.warps\.\w+\.{form}>:\n(.*?)^$", code + "\n", re.S | re.M)[1]
        found = body.count("vpinsrb"), len(body.splitlines())
        holds(f"{form}: {found}", found[0] == 0 and found[1] < 300)


@case("kept")
def kept(world):
    """Functions that say that they keep all registers do: each takes back what it has put on the stack, and no more, and leaves vectors whole.
    LLVM 19 gets both wrong in some."""
    if not shutil.which("llc-19"):
        raise Skipped("no llc-19")
    for cpu in ("x86-64-v3", "x86-64-v4"):
        for name in ("access", "system"):
            source, assembly = os.path.join(harness.BUILD, "runtime", "cpu", name + ".ll"), world.path(name + ".s")
            call(["llc-19", f"-mcpu={cpu}", "-mattr=-vzeroupper", "-relocation-model=pic", source, "-o", assembly])
            with open(source, encoding="utf-8") as f:
                functions = re.findall(r"^define .*preserve_allcc .*@([\w.]+)\(", f.read(), re.M)
            with open(assembly, encoding="utf-8") as f:
                text = f.read()
            holds(f"{name}: {functions}", len(functions) >= 9)
            for function in functions:
                body = re.search(rf"^{re.escape(function)}:.*?^\.Lfunc_end", text, re.S | re.M)[0]
                put, taken = (set(re.findall(rf"{word}q\s+%(\w+)", body)) for word in ("push", "pop"))
                holds(f"{cpu}: {function}: {body}", taken <= put and "vzeroupper" not in body)
