"""MEMTRACE_CHECK, and programs of src/ that check the API themselves."""
import os
import re

from harness import Skipped, call, case, holds, nvcc_of, same, tool


def source(world, name):
    return os.path.join(world.source, "tests", "api", "src", name)


def line_of(world, name, mark):
    """The line of src/NAME that ends with `// MARK`."""
    with open(source(world, name)) as f:
        return next(i for i, text in enumerate(f, 1) if text.rstrip().endswith("// " + mark))


# what: (how the program is called, mark of the line, op, size, CTA, thread, count, error, words on the place, and: where
# the access is, seen from the allocation, line where that was made, bytes apart)
ILLEGAL, MISALIGNED = (700, "cudaErrorIllegalAddress"), (716, "cudaErrorMisalignedAddress")
MISTAKES = [
    ("beyond", "BEYOND", "store", 4, (1, 0, 0), (36, 0, 0), 1, ILLEGAL, "right after the 400 bytes of device memory", "after", 400, 0),
    ("far", "BEFORE", "store", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "7600 bytes after the 400 bytes of device memory", "after", 400, 7600),
    ("many", "BEYOND", "store", 4, None, None, 901, ILLEGAL, "after the 400 bytes of device memory", "after", 400, None),
    ("before", "BEFORE", "store", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "16 bytes in front of the 400 bytes", "before", 400, 12),
    ("freed", "READ", "load", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "inside freed memory: 400 bytes", "freed", 400, 0),
    ("null", "READ", "load", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "a null pointer", "null", None, None),
    ("host", "READ", "load", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "memory of the host program", "host", None, None),
    ("wild", "ADD", "atomic", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "no allocation is near", "none", None, None),
    ("odd", "ADD", "atomic", 4, (0, 0, 0), (0, 0, 0), 1, MISALIGNED, "byte 2 of 400 bytes", "inside", 400, 2),
    ("wide", "WIDE", "store", 8, (0, 0, 0), (0, 0, 0), 1, MISALIGNED, "byte 4 of 400 bytes", "inside", 400, 4),
    ("end", "WIDE", "store", 8, (0, 0, 0), (0, 0, 0), 1, MISALIGNED, "byte 396 of 400 bytes", "after", 400, 0),
    ("symbol", "SYMBOL", "store", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "0 bytes after `table` (32 bytes of device memory)", "after", 32, 0),
    ("meets", "MEETS", "store", 4, None, (5, 0, 0), 2, ILLEGAL, "right after the 256 bytes of device memory", "after", 256, 0),
    ("lock", "LOCK", "store", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "right after the 400 bytes of device memory", "after", 400, 0),
    ("late", "LATE", "store", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "8 bytes that a kernel allocated", "freed", 8, 0),
]


def judge_place(name, companion, got, side, size, distance):
    """Where an access lies: side, the allocation by its id, and how far it is."""
    same(f"{name}: side", got["side"], side)
    made = [e for e in companion.all("alloc") if e["id"] == got.get("alloc", -1)]
    same(f"{name}: bytes of the allocation", [e["bytes"] for e in made], [] if size is None else [size])
    holds(f"{name}: distance {got.get('distance')}", distance is None or got["distance"] == distance)


def places_of(companion):
    """The `check` lines of each launch and place as one, with the sum of their counts."""
    found = {}
    for e in companion.all("check"):
        one = found.setdefault(tuple(e.get(k) for k in ("launch", "site", "line", "why", "near")), {**e, "count": 0})
        one["count"] += e["count"]
    return list(found.values())


def judge(world, app, level, mistake, check):
    how, mark, op, size, cta, thread, count, (number, error), words, *place_of = mistake
    result = world.run_ok([app, how], MEMTRACE_CHECK=check)
    name, stops = f"check {how} {level} {check}", check == "stop"
    said = dict(line.split() for line in result.out.splitlines())
    same(f"{name}: what the program sees", [said["wait"], said["after"], said["reset"]],
         [error, error, "cudaSuccess"] if stops else 3 * ["cudaSuccess"])
    place = f"check.cu:{line_of(world, 'check.cu', mark)} "
    first = [line for line in result.err.splitlines() if "memtrace: check: kernel" in line and " bytes through" in line]
    holds(f"{name}: {place}, {words!r} on stderr: {result.err!r}",
          first and place in first[0] + " " and words in first[0] and f"{op} of {size} bytes" in first[0])
    same(f"{name}: reports in full", len(first), min(count, 3))
    lines = places_of(result.companion())
    same(f"{name}: places in the companion", len(lines), 1)
    got = lines[0]
    same(f"{name}: companion", [got[k] for k in ("op", "size", "count", "line", "why")],
         [op, size, count, line_of(world, "check.cu", mark), "misaligned" if number == 716 else "illegal"])
    holds(f"{name}: near: {got['near']}", words in got["near"])
    for key, want in (("cta", cta), ("thread", thread)):
        holds(f"{name}: {key} {got[key]}", want is None or got[key] == list(want))
    judge_place(name, result.companion(), got, *place_of)
    launch = [e for e in result.companion().all("launch") if e["seq"] == got["launch"]]
    same(f"{name}: the launch's status", [e["status"] for e in launch], [number if stops else 0])
    same(f"{name}: failed calls", result.companion().all("failed"), [])


@case("check.mistakes")
def mistakes(world):
    """Each kind of bad access is reported with its place and counted, and the program goes on."""
    app = world.compile(source(world, "check.cu"), "-O2")
    for mistake in MISTAKES:
        judge(world, app, "-O2", mistake, "1")


@case("check.stop")
def stop(world):
    """Under MEMTRACE_CHECK=stop it becomes CUDA's sticky error."""
    app = world.compile(source(world, "check.cu"), "-O2")
    for mistake in MISTAKES:
        judge(world, app, "-O2", mistake, "stop")


@case("check.levels")
def levels(world):
    """The same without optimisation, and with tracing off: then there is no companion."""
    app = world.compile(source(world, "check.cu"), "-O0")
    for mistake in MISTAKES[:6]:
        judge(world, app, "-O0", mistake, "1")
    result = world.run_ok([app, "beyond"], traced=False, MEMTRACE_CHECK="1")
    holds(f"untraced: {result.err!r}", "right after the 400 bytes" in result.err)
    same("untraced: files", os.listdir(result.folder), [])


def nvcc_program(world, name):
    """src/NAME by nvcc, or None."""
    nvcc = nvcc_of()
    out = os.path.join(world.folder("nvcc"), name.removesuffix(".cu"))
    if nvcc:
        call([nvcc, "-arch=compute_80", "-cudart=static", "-o", out, source(world, name)])
    return out if nvcc else None


@case("check.again")
def again(world):
    """What each launch does is said once, and how often; under a check nobody is told to set it."""
    app = world.compile(source(world, "again.cu"), "-O1")
    said = [line for line in world.run_ok([app], MEMTRACE_CHECK="1").err.splitlines() if "kernel beyond" in line]
    full = [line for line in said if " bytes through" in line]
    same("in full", len(full), 6)
    same("sums", sorted(re.sub(r".*: (\d+ .*)", r"\1", line) for line in said if line not in full and "times more" not in line),
         ["4 bad accesses in all", "64 bad accesses in all"])
    same("of later launches", [line.split(":")[1].strip() for line in said if "times more" in line], ["99 times more"] * 2)
    for check, told in ("0", True), ("1", False):
        err = world.run_ok([app, "far"], MEMTRACE_CHECK=check).err
        same(f"{check}: {err}", ("MEMTRACE_CHECK=1 says which" in err, "illegal address" in err), (told, True))


@case("check.skipped")
def skipped(world):
    """Bad lanes are left out of each kind of access, by vectors and threads, with results that are computed by the program."""
    for flags in (("-O2",), ("-O0",), ("-O2", "--mt-vectors=off"), ("-O2", "--mt-cpu=native")):
        app = world.compile(source(world, "skip.cu"), *flags)
        result = world.run_ok(app, MEMTRACE_CHECK="1")
        same(f"{flags}: {result.out}", result.out, "0 wrong\n")
        same(f"{flags}: launches", {e["status"] for e in result.companion().all("launch")}, {0})
    app = nvcc_program(world, "skip.cu")
    for options in ("", "--mt-vectors=off") if app else ():
        same(f"nvcc, {options}", world.run_ok([tool("memtrace"), "run", "-f", "raw", app], MEMTRACE_CHECK="1", MEMTRACE_PTX_OPTIONS=options).out, "0 wrong\n")


# how the program is called: why, count (None: as many as there are), thread, words
WAITS = {
    "mask": ("mask", None, (3, 0, 0), "lane 3 is not in the mask of its warp function"),
    "gone": ("mask", 31, (0, 0, 0), "lane 0 shuffles from lane 3, which has exited"),
    "part": ("barrier", 2, (0, 0, 0), "come to barrier 1, and others never do"),
    "heap": ("heap", 64, (0, 0, 0), "malloc of 1073741824 bytes gives NULL"),
    "stack": ("stack", 1, None, "uses more than its 65536 bytes of stack"),
    "sites": ("barrier", 2, None, "at another place of the code"),
    "rounds": ("barrier", None, None, ""),
}
ENDS = {"part": "cudaErrorLaunchTimeout", "stack": "cudaErrorIllegalAddress"}


def judge_wait(name, result, how):
    why, count, thread, words = WAITS[how]
    same(f"{name}: end", result.out, ENDS.get(how, "cudaSuccess") + "\n")
    lines = [e for e in result.companion().all("check") if e["why"] == why and words in e["near"]]
    holds(f"{name}: {result.companion().all('check')}", lines and lines[0]["kernel"] == how)
    holds(f"{name}: count {lines[0]['count']}", count is None or sum(e["count"] for e in lines) == count)
    holds(f"{name}: thread {lines[0]['thread']}", thread is None or lines[0]["thread"] == list(thread))
    holds(f"{name}: on stderr: {result.err!r}", f"memtrace: check: kernel {how}" in result.err)
    same(f"{name}: failed", result.companion().all("failed"), [])


@case("check.waits")
def waits(world):
    """Masks, barriers, the kernels' heap and stacks: each wrong use is found, and nothing where all is right."""
    for flags in (("-O2",), ("-O2", "--mt-vectors=off")):
        app = world.compile(source(world, "sync.cu"), *flags)
        for how in WAITS:
            if how == "rounds" and len(flags) == 1:
                continue  # of warps as vectors it is not known where lanes are that have left a loop
            judge_wait(f"{how} {flags}", world.run_ok([app, how], MEMTRACE_CHECK="1"), how)
        result = world.run_ok([app, "right"], MEMTRACE_CHECK="1")
        same(f"right {flags}", (result.out, result.err, result.companion().all("check")), ("cudaSuccess\n", "", []))
    app = nvcc_program(world, "sync.cu")
    for how in set(WAITS) - {"rounds"} if app else ():
        judge_wait(f"{how} nvcc", world.run_ok([tool("memtrace"), "run", "-f", "raw", app, how], MEMTRACE_CHECK="1"), how)


# call, mark of its line (None: not known), error, how often, words on why
FAILED = [
    ("cudaMalloc", "MEMORY", "cudaErrorMemoryAllocation", 1, "1152921504606846976 more are asked for"),
    ("cudaMemcpy", "COPY", "cudaErrorInvalidValue", 1, "source: 5000 bytes starting at byte 0 of 4096 bytes of device memory"),
    ("cudaMemset", "FILL", "cudaErrorInvalidValue", 7, "destination: 4097 bytes starting at byte 0 of 4096 bytes of device memory"),
    ("cudaMemcpy", "TURNED", "cudaErrorInvalidValue", 1, "cudaMemcpyDeviceToHost, but its destination is byte 0 of 4096 bytes of device memory"),
    ("cudaMemcpy", "BACK", "cudaErrorInvalidValue", 1, "cudaMemcpyHostToDevice, but its destination is memory of the host program"),
    ("cudaMemcpyAsync", "BEHIND", "cudaErrorInvalidValue", 1, "destination: right after the 4096 bytes of device memory"),
    ("cudaLaunchKernel", "LAUNCH", "cudaErrorInvalidConfiguration", 1, "kernel fill: grid (1,1,1), block (2000,1,1) of at most 1024 threads"),
    ("cudaFreeHost", "MIDDLE", "cudaErrorInvalidValue", 1, "not its beginning: byte 1 of 10 bytes of pinned host memory"),
    ("cudaFree", "KIND", "cudaErrorInvalidValue", 1, "not what this call frees: byte 0 of 10 bytes of pinned host memory"),
    ("cudaFree", "TWICE", "cudaErrorInvalidValue", 1, "already freed: 4096 bytes"),
    ("cudaFree", "HOST", "cudaErrorInvalidValue", 1, "memory of the host program"),
    ("cudaFreeAsync", "ASYNC", "cudaErrorInvalidValue", 1, None),
    ("cuMemFree_v2", None, "CUDA_ERROR_INVALID_VALUE", 1, "a null pointer"),
    ("cudaLaunchKernel", "TRAP", "cudaErrorLaunchFailure", 1, "CTA (0,0,0), thread (0,0,0): trap instruction"),
]


def failures(lines):
    """Lines of the same call, code and place: [the first one, the sum of counts]."""
    out = {}
    for e in lines:
        key = e["call"], e["code"], e.get("line"), e.get("at") if "line" not in e else None
        out.setdefault(key, [e, 0])[1] += e["count"]
    return list(out.values())


@case("check.failed")
def failed(world):
    """CUDA calls that return an error are written down, with place and reason; others, and calls after a launch that failed, are not."""
    app = world.compile(source(world, "failed.cu"), "-O2")
    result = world.run_ok(app, MEMTRACE_CHECK="1")
    found = failures(result.companion().all("failed"))
    lines = {mark: line_of(world, "failed.cu", mark) for _, mark, *_ in FAILED if mark}
    same("failed calls", [(e["call"], e.get("line"), e["error"], count) for e, count in found],
         [(name, lines.get(mark), error, count) for name, mark, error, count, _ in FAILED])
    for (name, mark, _, _, words), (e, _) in zip(FAILED, found):
        holds(f"{name} {mark}: {e.get('why')}", words is None or words in e["why"])
        holds(f"{name} {mark}: at {e.get('at')}", mark == "TRAP" or re.fullmatch(re.escape(os.path.realpath(app)) + "[+]0x[0-9a-f]+", e["at"]))
    twice, = [e for e, _ in found if e.get("line") == lines["TWICE"]]
    made, = [e for e in result.companion().all("alloc") if e["id"] == twice["freed"]]
    same("allocated", made["line"], line_of(world, "failed.cu", "ALLOC"))
    holds(f"where: {twice['why']}", f"allocated at failed.cu:{made['line']}, freed at failed.cu:{line_of(world, 'failed.cu', 'FREED')}" in twice["why"])
    holds(f"no words for it on stderr: {result.err!r}", "check" not in result.err)
    same("without the variable", world.run_ok(app).companion().all("failed"), [])
    alone, aborts = world.run_ok([app, "no launch"], MEMTRACE_CHECK="1"), world.run([app, "abort"], MEMTRACE_CHECK="1")
    for result, mark, launches in (alone, "ALONE", 0), (aborts, "ABORT", 1):
        companion = result.companion()
        same(mark, [e["line"] for e in companion.all("failed")], [line_of(world, "failed.cu", mark)])
        same(f"{mark}: launches", len(companion.all("launch")), launches)
    same("a trace without launches", alone.trace(), [])


def function_of(app, at):
    """The function that a return address belongs to, of the program."""
    path, offset = at.rsplit("+", 1)
    if path != os.path.realpath(app):
        return path
    return call(["addr2line", "-f", "-e", path, hex(int(offset, 16) - 1)]).stdout.split()[0]


@case("check.failed.nvcc")
def failed_nvcc(world):
    """The same of a program of nvcc: there, `at` leads to the line."""
    app = nvcc_program(world, "failed.cu")
    if not app:
        raise Skipped("this CUDA toolkit has no nvcc")
    found = failures(world.run_ok([tool("memtrace"), "run", "-f", "raw", app], MEMTRACE_CHECK="1").companion().all("failed"))
    same("failed calls", [(e["call"], e["error"], count) for e, count in found],
         [(name, error, count) for name, _, error, count, _ in FAILED if not name.startswith("cu") or name.startswith("cuda")])
    for e, _ in found:
        holds(f"{e['call']}: no line, at {e.get('at')}", e.get("line", 0) == 0)
        if "kernel" not in e:
            names = [function_of(app, at) for at in (e["at"], *e["callers"])]
            inner = [n for n in names[:names.index("main")] if n[:2] != "_Z"]
            holds(f"{e['call']}: in main, or CUDA's own functions that main calls: {names}", not inner)


@case("check.fine")
def fine(world):
    """A program without a mistake: nothing is said, and the trace has the same accesses as without the check."""
    for level in ("-O0", "-O2"):
        app = world.compile(source(world, "check.cu"), level)
        plain, checked = world.run_ok([app, "fine"]), world.run_ok([app, "fine"], MEMTRACE_CHECK="1")
        same(f"{level}: words", (checked.err, checked.out), ("", plain.out))
        holds(f"{level}: fine: {plain.out}", plain.out.count("cudaSuccess") == 4)
        same(f"{level}: accesses", [launch.ctas() for launch in checked.trace()],
             [launch.ctas() for launch in plain.trace()])
    app = world.compile(world.example("stencil_1d"), "-O2")
    plain, checked = world.run_ok([app, "5", "64", "4"]), world.run_ok([app, "5", "64", "4"], MEMTRACE_CHECK="1")
    same("stencil: accesses", [launch.ctas() for launch in checked.trace()],
         [launch.ctas() for launch in plain.trace()])
    same("stencil: output", (checked.out, checked.err), (plain.out, plain.err))


@case("check.off")
def off(world):
    """Without the variable a fault of the hardware is reported with kernel, thread and address."""
    app = world.compile(source(world, "check.cu"), "-O2")
    for how, words in (("null", "illegal address 0x0: a null pointer"), ("wild", "illegal address beyond")):
        result = world.run_ok([app, how])
        holds(f"{how}: {result.out}", "wait cudaErrorIllegalAddress\nafter cudaErrorIllegalAddress" in result.out)
        holds(f"{how}: {result.err!r}", re.search(r"memtrace: kernel \w+: CTA \(0,0,0\), thread \(0,0,0\): " + words,
                                                  result.err))


@case("errors")
def errors(world):
    """Wrong use gives CUDA's codes: launches, functions, symbols, copies, handles, and errors that stay."""
    for level in ("-O0", "-O2"):
        app = world.compile(source(world, "errors.cu"), level)
        for traced in (True, False):
            for check in "0", "stop":
                same(f"{level} {check}: verdict", world.run_ok(app, traced=traced, MEMTRACE_CHECK=check).out, "as CUDA\n")


@case("order")
def order(world):
    """cudaFreeAsync does not wait; the memory lives until its turn comes, and the companion has the same order."""
    app = world.compile(source(world, "order.cu"), "-O2")
    for check in "0", "1":
        result = world.run_ok(app, timeout=60, MEMTRACE_CHECK=check)
        same(f"check {check}", result.out.split(),
             f"query cudaErrorNotReady again cudaErrorInvalidValue free cudaErrorInvalidValue sum {32 * 33 // 2}".split())
        same("words", result.err, "")
        companion = result.companion()
        launch, = companion.all("launch")
        alloc, = [e for e in companion.all("alloc") if e["kind"] == "async"]
        free, = [e for e in companion.all("free") if e["id"] == alloc["id"]]
        holds("allocated, launched, freed", alloc["seq"] < launch["seq"] < free["seq"])


def builds(world, name):
    """How src/NAME is called when mt-cc has built it, and nvcc."""
    yield "mt-cc -O2", [world.compile(source(world, name), "-O2")]
    yield "mt-cc -O0", [world.compile(source(world, name), "-O0")]
    app = nvcc_program(world, name)
    if app:
        yield "nvcc", [tool("memtrace"), "run", "-f", "raw", app]


@case("devices")
def devices(world):
    """MEMTRACE_CPU_DEVICES=4: what belongs to a device, and what its peers may do."""
    for build, app in builds(world, "devices.cu"):
        for check in "0", "1":
            result = world.run_ok(app, timeout=120, MEMTRACE_CPU_DEVICES="4", MEMTRACE_CHECK=check)
            same(f"{build}, check {check}", result.out, "0 wrong\n")
            same(f"{build}, check {check}: findings", result.companion().all("check"), [])


@case("devices.foreign")
def devices_foreign(world):
    """Memory of a device that is no peer: the launch fails, traced or not; under MEMTRACE_CHECK=1 the accesses are skipped."""
    line = line_of(world, "devices.cu", "FOREIGN")
    for build, app in builds(world, "devices.cu"):
        for check, how in ("0", "foreign"), ("1", "skipped"), ("stop", "foreign"):
            for traced in True, False:
                name = f"{build}, check {check}, traced {traced}"
                result = world.run_ok([*app, how], traced=traced, timeout=120, MEMTRACE_CPU_DEVICES="4", MEMTRACE_CHECK=check)
                same(name, result.out, "0 wrong\n")
                holds(f"{name}: {result.err!r}", "device memory of GPU 1" in result.err and "which GPU 0 does not reach" in result.err)
                if traced:
                    found = places_of(result.companion())
                    same(f"{name}: finding", [(e["why"], e["op"], e["line"] if build != "nvcc" else line) for e in found], [("illegal", "load", line)])
                    same(f"{name}: times", found[0]["count"], 256 if check == "1" else found[0]["count"])
