"""What NVIDIA's library does on this machine, asked without memtrace (probe/): which library and which image of patches go with the
driver, how libraries get into a program, and the questions of docs/design/gpu-path.md, "What only hardware can answer". The answers
are lines, in the log and beside it in probe.txt; a case fails where an answer is not the documented one.

cases_probe.py LIBRARY: says what that libsanitizer-public.so has; this needs no GPU."""
import ctypes
import glob
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib")]
import kit  # noqa: E402
import timed  # noqa: E402
from harness import Failed, holds  # noqa: E402

CASES = {}
FUNCTIONS = ("Subscribe", "EnableCallback", "EnableDomain", "GetResultString", "Alloc", "AllocHost", "MemcpyHostToDeviceAsync", "MemcpyDeviceToHost",
             "StreamSynchronize", "GetStreamHandle", "AddPatches", "PatchInstructions", "PatchModule", "SetLaunchCallbackData", "GetFunctionPcAndSize",
             "GetCallbackPcAndSize")
VERSIONS = {753: "12.4", 783: "12.9", 806: "13.0", 872: "13.5"}  # by the callbacks of the driver's functions: no function says it
SECONDS = 6  # for one run of the program, which takes less than one


def case(name):
    def add(function):
        CASES[name] = function
        return function
    return add


# ---- a library, without a GPU ----------------------------------------------------------------------


def ranges(numbers):
    """[1, 2, 3, 5] as "1-3, 5"."""
    found = []
    for n in numbers:
        if found and found[-1][1] == n - 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found) or "none"


def look(path):
    """Lines about a libsanitizer-public.so, in a process that has no other. It needs a library that programs of C++ have."""
    needed = os.path.join(HERE, "..", "..", "..", "lib", "libgcc_s.so.1")
    if os.path.exists(needed):
        ctypes.CDLL(needed)
    library = ctypes.CDLL(path)
    missing = [name for name in FUNCTIONS if not hasattr(library, "sanitizer" + name)]
    yield f"functions that memtrace calls: {'all' if not missing else 'without ' + ', '.join(missing)}"
    handle = ctypes.c_void_p()
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)(lambda *_: None)
    yield f"Subscribe: {library.sanitizerSubscribe(ctypes.byref(handle), callback, None)}"
    domains = [d for d in range(1, 30) if not library.sanitizerEnableDomain(1, handle, d)]
    known = {d: [i for i in range(1, 1500) if not library.sanitizerEnableCallback(1, handle, d, i)] for d in domains}
    yield f"version: {VERSIONS.get(len(known.get(1, [])), 'unknown')}"
    yield f"callbacks of domains: {'; '.join(f'{d}: {ranges(ids)}' for d, ids in known.items())}"


def looked(path):
    """The lines of look, in a process of its own."""
    process = timed.call([sys.executable, os.path.realpath(__file__), path], SECONDS)
    return process.stdout.splitlines() + ([f"ended with {process.returncode}: {process.stderr[-300:]}"] if process.returncode else [])


def libraries(folder):
    return sorted(glob.glob(os.path.join(folder, "sanitizer", "**", "libsanitizer-public.so"), recursive=True))


@case("probe: NVIDIA's libraries")
def what_libraries(world):
    found = {os.path.relpath(path, world.build): looked(path) for path in libraries(world.build)}
    if not found:
        raise timed.Skipped("the kit has no libsanitizer-public.so")
    for path, lines in found.items():
        print(path, *lines, sep="\n  ")
        holds(f"{path}: {lines}", "functions that memtrace calls: all" in lines and "Subscribe: 0" in lines)
    return ", ".join(f"{path} is {next((w for w in lines if w.startswith('version')), '?')}" for path, lines in found.items())


def program_of(world):
    """The probe's program; skips the case where the kit has none, and says why it has none."""
    path = os.path.join(world.build, "probe", "program")
    if not os.path.exists(path):
        try:
            with open(os.path.join(world.build, kit.NO_PROBE), encoding="utf-8") as file:
                why = file.read()
        except OSError:
            why = "it was made for other cases"
        raise timed.Skipped(f"the kit has no probe: {why}")
    return path


@case("probe: programs start")
def start(world):
    """Without a driver they say so; they need no libraries but the machine's."""
    path = program_of(world)
    for name in (path, os.path.join(world.build, "bin", "inject-basic"), os.path.join(world.build, "bin", "inject-ways")):
        process = timed.call([name, "refused" if name == path else "turns"], SECONDS)
        holds(f"{name}: {process.returncode} {process.stdout}{process.stderr}", process.returncode == 0 or "cudaError" in process.stdout)


# ---- the program, on a GPU -------------------------------------------------------------------------


def notes(world):
    return os.path.join(world.work, "probe.json")


def noted(world):
    """[library, image, entry, state] of what an earlier case found to go with the driver, or nothing."""
    try:
        with open(notes(world), encoding="utf-8") as file:
            return json.load(file)
    except OSError:
        return []


def fit(world):
    if not noted(world):
        raise timed.Skipped("no library goes with the driver, or that was not asked")
    return noted(world)[:3]


def environment(world, library, image, entry, out):
    injection = os.path.join(world.build, "probe", "libmt-probe.so")
    words = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACE_", "CUDA_INJECTION", "PROBE_"))}
    words.update(PROBE_LIBRARY=library, PROBE_PATCHES=image, PROBE_OUT=out)
    words.update({"CUDA_INJECTION64_PATH": injection} if entry == "injection" else {"LD_PRELOAD": injection, "PROBE_ENTRY": "constructor"})
    return words


def ask(world, combination, what, **more):
    """(lines of the probe, the program's words, exit code or "hangs"). All is kept."""
    if not world.injects:
        raise timed.Skipped("on a GPU alone")
    out = os.path.join(world.folder("probe"), "lines")
    words = [program_of(world), what, os.path.join(world.build, "lib", "libinject-module.so")]
    try:
        process = timed.call(words, SECONDS, env={**environment(world, *combination, out), **more})
        said, code = process.stdout + process.stderr, process.returncode
    except timed.Hung:
        said, code = "", "hangs"
    with open(out, "a+", encoding="utf-8", errors="replace") as file:
        file.seek(0)
        lines = file.read().splitlines()
    head = f"{what}, {os.path.relpath(combination[0], world.build)}, {os.path.basename(combination[1])}, {combination[2]} {more or ''}: {code} {said.strip()}"
    keep(world, [head, *("  " + line for line in lines)])
    return lines, said, code


def keep(world, lines):
    text = "\n".join(lines)
    print(text, flush=True)
    with open(os.path.join(world.build, "probe.txt"), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def answers(lines, *begins):
    return [line for line in lines if line.startswith(begins)]


def exits(lines):
    """{(how, kernel): (ended, threads, accesses)} of the last line of each."""
    found = {}
    for line in answers(lines, "exits: "):
        how, rest = line[len("exits: "):].split(", ", 1)
        kernel, numbers = rest.split(": ")
        words = numbers.replace(",", "").split()
        found[how, kernel] = int(words[0]), int(words[2]), int(words[4])
    return found


def traced(lines):
    return [v for v in exits(lines).values() if v[0] == v[1] == v[2] > 0] != []


def state(lines, code):
    """In a word, or by the first line that is not good."""
    refused = [line for line in lines if "good" not in line and line.startswith(("library", "entry", "AddPatches", "PatchInstructions"))]
    silent = any("none was made" in line for line in lines)
    accesses = any(v[2] for v in exits(lines).values())
    return ("hangs" if code == "hangs" else "traces" if traced(lines) else "no exits" if accesses else refused[0] if refused else "no callback" if silent
            else "no accesses" if lines else "not loaded")


def combinations(world, entry):
    """(library, image, entry), the newest first; images for the library's own version of CUDA before others."""
    images = sorted(glob.glob(os.path.join(world.build, "probe", "*.fatbin")), reverse=True)
    return [(library, image, entry) for library in reversed(libraries(world.build)) for image in images]


def note(world, one, word):
    """Keeps the first that traces, before it the first that sees accesses."""
    kept = noted(world)
    if word in ("traces", "no exits") and (not kept or (word, kept[-1]) == ("traces", "no exits")):
        with open(notes(world), "w", encoding="utf-8") as file:
            json.dump([*one, word], file)


def which(world, entry):
    """Tries all; one that traces, or at least sees accesses, is kept for the questions, at once, as others may hang. Those for which no time is left are
    not asked."""
    if not world.injects:
        raise timed.Skipped("on a GPU alone")
    program_of(world)
    found, begin = {}, time.monotonic()
    if not libraries(world.build):
        raise timed.Skipped("the kit has no libsanitizer-public.so")
    for one in combinations(world, entry):
        if time.monotonic() - begin > world.seconds - SECONDS:
            found[one] = "not asked"
            continue
        lines, _, code = ask(world, one, "plain")
        found[one] = state(lines, code)
        note(world, one, found[one])
    words = "; ".join(f"{os.path.relpath(c[0], world.build)} with {os.path.basename(c[1])}: {w}" for c, w in found.items())
    if "traces" not in found.values():
        raise Failed(f"none: {words}")
    return words


@case("probe: which library and patches go with the driver")
def injected(world):
    return which(world, "injection")


@case("probe: which do so if they subscribe in a constructor")
def preloaded(world):
    return which(world, "constructor")


def asked(world, what, begins, right, **more):
    """The chosen lines of one run; fails where `right` says so."""
    lines, said, code = ask(world, fit(world), what, **more)
    found = answers(lines, *begins)
    holds(f"{code} {said} {found}", code == 0 and right(lines))
    return "; ".join(found)


@case("probe: order of callbacks, streams, copies")
def order(world):
    return asked(world, "plain", ("order", "a stream's", "a recorded", "default", "copy", "fill", "pc", "patches", "a kernel whose"), traced)


@case("probe: functions loaded lazily and eagerly")
def lazily(world):
    return "; ".join(f"{how}: {asked(world, 'plain', ('pc', 'functions'), traced, CUDA_MODULE_LOADING=how)}" for how in ("LAZY", "EAGER"))


@case("probe: ends of threads")
def ends(world):
    """2 CTAs of 33 threads, 12 of 11 by 3; of 33 (11) threads, 22 (7) store, 11 (3) of them again. The launches differ in their lines."""
    def right(lines):
        words = [line.split(": ")[-1] for line in answers(lines, "exits: ")]
        return "66 of 66 threads, 66 accesses" in words and "396 of 396 threads, 360 accesses" in words
    return asked(world, "ends", ("exits",), right)


@case("probe: ends of threads in clusters, and with cluster launch control")
def clusters(world):
    """Of the second kernel fewer end than there were, where CTAs take the place of others."""
    return asked(world, "clusters", ("exits",), lambda lines: True)


@case("probe: a graph launched three times")
def graph(world):
    """Each launch of each node has counters of its own: no line but those of 64 and of 33 threads."""
    def right(lines):
        return ({v[:2] for (how, _), v in exits(lines).items() if how == "node"} == {(64, 64), (33, 33)} and len(answers(lines, "exits: node, ")) == 2)
    return asked(world, "graph", ("order", "nodes", "exits"), right)


@case("probe: a launch that the driver refuses")
def refused(world):
    return asked(world, "refused", ("order", "exits"), lambda lines: any("}=" in line for line in answers(lines, "order")))


@case("probe: after a fault")
def fault(world):
    return asked(world, "fault", ("copy to the host after", "exits", "order"), lambda lines: bool(answers(lines, "copy to the host after")))


@case("probe: memory of the host and a module, beside a kernel that runs")
def beside(world):
    return asked(world, "beside", ("memory", "PatchModule beside", "patching"), lambda lines: any("is seen" in w for w in answers(lines, "memory of AllocHost: a"))
                 and not any("has ended" in w for w in lines))


@case("probe: instructions that can be patched")
def instructions(world):
    return "; ".join(f"{os.path.relpath(library, world.build)}: {'; '.join(answers(ask(world, (library, *fit(world)[1:]), 'plain', PROBE_IDS='1')[0], 'instructions'))}"
                     for library in libraries(world.build))


if __name__ == "__main__":
    for said_of_it in look(sys.argv[1]):
        print(said_of_it, flush=True)
