"""MEMTRACE_CHECK, and programs of src/ that check the API themselves."""
import os
import re

from harness import case, holds, same


def source(world, name):
    return os.path.join(world.source, "tests", "api", "src", name)


def line_of(world, name, mark):
    """The line of src/NAME that ends with `// MARK`."""
    with open(source(world, name)) as f:
        return next(i for i, text in enumerate(f, 1) if text.rstrip().endswith("// " + mark))


# what: (how the program is called, mark of the line, op, size, CTA, thread, count, error, words on the place)
ILLEGAL, MISALIGNED = (700, "cudaErrorIllegalAddress"), (716, "cudaErrorMisalignedAddress")
MISTAKES = [
    ("beyond", "BEYOND", "store", 4, (1, 0, 0), (36, 0, 0), 1, ILLEGAL, "right after the 400 bytes of device memory"),
    ("many", "BEYOND", "store", 4, None, None, 901, ILLEGAL, "after the 400 bytes of device memory"),
    ("before", "BEFORE", "store", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "16 bytes in front of the 400 bytes"),
    ("freed", "READ", "load", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "inside freed memory: 400 bytes"),
    ("null", "READ", "load", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "a null pointer"),
    ("host", "READ", "load", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "memory of the host program"),
    ("wild", "ADD", "atomic", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "no allocation is near"),
    ("odd", "ADD", "atomic", 4, (0, 0, 0), (0, 0, 0), 1, MISALIGNED, "byte 2 of 400 bytes"),
    ("wide", "WIDE", "store", 8, (0, 0, 0), (0, 0, 0), 1, MISALIGNED, "byte 4 of 400 bytes"),
    ("end", "WIDE", "store", 8, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "byte 396 of 400 bytes"),
    ("symbol", "SYMBOL", "store", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "right after the 32 bytes of a device variable"),
    ("meets", "MEETS", "store", 4, None, (5, 0, 0), 2, ILLEGAL, "right after the 256 bytes of device memory"),
    ("lock", "LOCK", "store", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "right after the 400 bytes of device memory"),
    ("late", "LATE", "store", 4, (0, 0, 0), (0, 0, 0), 1, ILLEGAL, "8 bytes that a kernel allocated"),
]


def judge(world, app, level, mistake):
    how, mark, op, size, cta, thread, count, (number, error), words = mistake
    result = world.run_ok([app, how], MEMTRACE_CHECK="1")
    name = f"check {how} {level}"
    said = dict(line.split() for line in result.out.splitlines())
    same(f"{name}: what the program sees", [said["wait"], said["after"], said["reset"]], [error, error, "cudaSuccess"])
    place = f"check.cu:{line_of(world, 'check.cu', mark)} "
    first = [line for line in result.err.splitlines() if "memtrace: check: kernel" in line and " bytes through" in line]
    holds(f"{name}: {place}, {words!r} on stderr: {result.err!r}",
          first and place in first[0] + " " and words in first[0] and f"{op} of {size} bytes" in first[0])
    same(f"{name}: reports in full", len(first), min(count, 3))
    lines = result.companion().all("check")
    same(f"{name}: lines in the companion", len(lines), 1)
    got = lines[0]
    same(f"{name}: companion", [got[k] for k in ("op", "size", "count", "line", "why")],
         [op, size, count, line_of(world, "check.cu", mark), "misaligned" if number == 716 else "illegal"])
    holds(f"{name}: near: {got['near']}", words in got["near"])
    for key, want in (("cta", cta), ("thread", thread)):
        holds(f"{name}: {key} {got[key]}", want is None or got[key] == list(want))
    launch = [e for e in result.companion().all("launch") if e["seq"] == got["launch"]]
    same(f"{name}: the launch's status", [e["status"] for e in launch], [number])


@case("check.mistakes")
def mistakes(world):
    """Each kind of bad access is reported with its place, counted, and becomes CUDA's sticky error."""
    app = world.compile(source(world, "check.cu"), "-O2")
    for mistake in MISTAKES:
        judge(world, app, "-O2", mistake)


@case("check.levels")
def levels(world):
    """The same without optimisation, and with tracing off: then there is no companion."""
    app = world.compile(source(world, "check.cu"), "-O0")
    for mistake in MISTAKES[:6]:
        judge(world, app, "-O0", mistake)
    result = world.run_ok([app, "beyond"], traced=False, MEMTRACE_CHECK="1")
    holds(f"untraced: {result.err!r}", "right after the 400 bytes" in result.err)
    same("untraced: files", os.listdir(result.folder), [])


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
            same(f"{level}: verdict", world.run_ok(app, traced=traced).out, "as CUDA\n")


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
