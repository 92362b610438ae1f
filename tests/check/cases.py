"""memtrace check: faulty programs and their right twins."""
import json
import os
import re
import shutil
import signal
import subprocess

from findings import check, expected, judge
from harness import Skipped, call, case, holds, run, same

HERE = os.path.dirname(os.path.realpath(__file__))
OF_HOST = {"uninitialised-copy", "unordered", "host-race", "failed-call", "double-free", "leak", "unused", "unread", "unread-copy"}
NEED_LINES = {"tiny-copies", "unchanged-copy"}
ALSO = {"handed_on": "tail", "most_set": "third_set"}  # found at the line of another one
QUIET = {"looks": set()}  # only with --strict


def due(source):
    """{name: {(kind, line)}} of the remarks."""
    found = expected(source)
    return {**QUIET, **found, **{name: found[of] for name, of in ALSO.items() if of in found}}


def judge_all(program, source, host_lines=True, hints=False, options=()):
    """host_lines: those of the program's own calls are known; hints: they are judged, too."""
    command = [*options, program]
    want = due(source)
    for name in run([program]).stdout.split():
        found = {(kind, line if host_lines or kind not in OF_HOST else None) for kind, line in want[name] if host_lines or kind not in NEED_LINES}
        judge(command, name, found, hints=hints, cwd=HERE)
        judge(command, name + "-right", set(), hints=hints, cwd=HERE)


def faults():
    return os.path.join(HERE, "faults.cu")


def built(world, source, spaces="global,shared"):
    return world.compile(os.path.join(HERE, source), "-O1", "-g", "-arch=sm_90", "--mt-spaces=" + spaces)


def by_mt_cc(world, source, spaces="global,shared", **how):
    judge_all(built(world, source, spaces), source, **how)


def nvcc_program(world, source):
    if not shutil.which("nvcc"):
        raise Skipped("no nvcc")
    program = world.path("program")
    run(["nvcc", "-O1", "-arch=sm_90", "-lineinfo", source, "-o", program, "-lcuda"])
    return program


def by_nvcc(world, source, spaces=None, **how):
    judge_all(nvcc_program(world, source), source, host_lines=False, **how)


def add(name, source, **how):
    source = os.path.join(HERE, source)
    case("mt_cc" + name)(lambda world: by_mt_cc(world, source, **how))
    case("nvcc" + name, long=name not in ("", ".races"))(lambda world: by_nvcc(world, source, **how))  # by day two programs go nvcc's way


add("", "faults.cu")
add(".races", "races.cu")
add(".scopes", "scopes.cu")
add(".sync", "sync.cu")
add(".memory", "memory.cu", spaces="global,shared,local")
add(".calls", "calls.cu")
add(".graphs", "graphs.cu")
add(".branches", "branches.cu")
add(".freed", "freed.cu")
add(".use", "use.cu", hints=True)
add(".host", "host.cu")
add(".functions", "functions.cu")
add(".strict", "strict.cu", hints=True, options=("--strict", "--kinds=memory,race,sync"))
add(".fences", "fences.cu", options=("--strict", "--kinds=memory,race,sync"))
add(".bounds", "bounds.cu", spaces="global,shared,local")
add(".pools", "pools.cu")


@case("on_request")
def on_request(world):
    """What GPUs run and CUDA forbids is looked for with --strict, or by its name; --stop changes nothing in that."""
    program = built(world, "strict.cu")
    for name, kind in (("early", "left-out"), ("pairs", "same-word")):
        for options, found in (((), False), (("--kinds=all",), False), (("--strict",), True), (("--strict", "--kinds=!" + kind), False),
                               (("--strict", "--stop"), True), ((f"--kinds=calls,{kind}",), True), (("--strict", "--kinds=calls"), False)):
            said, _ = check(*options, program, name, code=0, cwd=HERE)
            same(f"{name} {options}", kind in [f["kind"] for f in said["findings"]], found)


@case("local_memory")
def local_memory(world):
    """Accesses to local memory are checked, and not kept: 16 times a load and a store by 32 threads, and what fills and reads the array."""
    program = built(world, "bounds.cu", "global,shared,local")
    for on, kept in (("0", True), ("1", False)):
        folder = world.folder("kept" + on)
        call([program, "counts_of-right"], env={**os.environ, "MEMTRACE_CHECK": on, "MEMTRACE_DEVICE": "cpu", "MEMTRACE_DIR": folder, "MEMTRACE_FORMAT": "compact"})
        [name] = [n for n in os.listdir(folder) if n.endswith(".mtc")]
        meta = world.path("meta" + on)
        call([world.tool("memtrace"), "convert", "--to", "raw", "-o", world.path("raw" + on), "--companion", meta, os.path.join(folder, name)])
        with open(meta, encoding="utf-8") as f:
            [launch] = [x for x in map(json.loads, f) if "kernel" in x and "grid" in x]
        same(f"MEMTRACE_CHECK={on}", (launch.get("others", 0) >= 32 * 32, launch.get("others", 0) == 0, launch["records"]), (kept, not kept, 16 * 32 + 8 * 32))


@case("host_right")
def host_right(world):
    """Programs in which the host and kernels talk by flags, host functions and atomics, or use parts of their own."""
    program = built(world, "host.cu")
    names = run([program, "right"]).stdout.split()
    holds("eight of them", len(names) == 8)
    for name in names:
        judge([program, "right"], name, set(), cwd=HERE)


# name in unwatched.cu: after how many calls the host is not watched, of how many, and why; counted by hand
UNWATCHED = {"none": None, "threads": (2, 3, "another thread"), "masked": (1, 2, "a signal handler"), "small": (1, 2, "a signal handler"),
             "busy": (1, 1, "a launch did not end"), "old": (1, 1, "Linux before"), "called": (1, 2, "from a system call"),
             "large": (2, 5, "there is much"), "read_only": (1, 2, "registered memory"), "many": (1, 1, "more than 1,024")}


@case("unwatched")
def unwatched(world):
    """A note says how often the host was not watched, and why."""
    program = built(world, "unwatched.cu")
    same("names", run([program]).stdout.split(), list(UNWATCHED))
    def said(name, *options, **more):
        with_it = run([world.tool("memtrace"), "check", *options, program, name], **more).stderr
        return [line.split("note: ", 1)[1] for line in with_it.splitlines() if "were not watched" in line]
    for name, due in UNWATCHED.items():
        want = f"the host's accesses were not watched after {due[0]} of the {due[1]} calls that it did not wait for: {due[2]}" if due else ""
        got = said(name)
        same(f"{name}: {got}", [g[:len(want)] for g in got], [want] if due else [])
        holds(f"{name}: one reason", not due or got[0].endswith(f" ({due[0]})"))
        same(f"{name}: in the file", check(program, name)[0]["notes"], got)
    holds("a rank", "MPI" in said("none", env={**os.environ, "MEMTRACE_JOB": "job", "MEMTRACE_RANK": "0"})[0])
    same("other kinds", said("called", "--kinds=memory"), [])


@case("free_places")
def free_places(world):
    """Memory that is freed without order is one finding for each use, with the places of use, free and allocation, and no hint, whatever came first."""
    program, source = built(world, "freed.cu"), os.path.join(HERE, "freed.cu")
    with open(source, encoding="utf-8") as f:
        text = f.read().splitlines()
    for name in "freed_beside", "freed_first", "from_pool", "copied_late":
        first = next(i for i, line in enumerate(text, 1) if f"static void {name}(" in line)
        end = next(i for i in range(first, len(text)) if text[i] == "}")
        free = next(i for i in range(first, end) if "cudaFreeAsync" in text[i - 1] and "right)" not in text[i - 1])
        made = next(i for i, line in enumerate(text, 1) if "cudaMallocFromPoolAsync" in line) if name == "from_pool" else next(i for i, line in enumerate(text, 1) if "cudaMallocAsync" in line)
        for _ in range(3):
            said = check("--kinds=all", program, name, code=1, cwd=HERE)[0]["findings"]
            same(f"{name}: {said}", {(f["kind"], f["other"].get("line"), f["allocation"].get("line"), f["count"]) for f in said}, {("unordered", free, made, 4000)})
            same(f"{name}: uses", len(said), 2)


@case("pool_leak")
def pool_leak(world):
    """A piece that its pool does not get back is a leak, and so is a pool without pieces. NVTX's header is no place."""
    program, source = built(world, "pools.cu"), os.path.join(HERE, "pools.cu")
    with open(source, encoding="utf-8") as f:
        lines = {i for i, text in enumerate(f, 1) if "a leak of `lost`" in text or "// another one" in text}
    found = judge([program], "lost", {("leak", line) for line in lines}, hints=True, cwd=HERE)
    same("bytes", sorted(f["allocation"]["bytes"] for f in found), [64, 4096])
    judge([program], "lost-right", set(), hints=True, cwd=HERE)


@case("lives")
def lives(world):
    """System calls, processes, threads and signal handlers of the program find all as it is without a check."""
    program = world.compile(os.path.join(HERE, "lives.cu"), "-O1", "-g")
    env = {**os.environ, "MEMTRACE_DEVICE": "cpu", "MEMTRACE_DIR": world.path(".")}
    said = [run([program], env={**env, "MEMTRACE_CHECK": on}).stdout for on in ("0", "1")]
    same("output", said[1], said[0])
    holds("the last line", said[1].splitlines()[-1].startswith("at exit"))
    said = [run([program, "functions"], env={**env, "MEMTRACE_CHECK": on}).stdout for on in ("0", "1")]
    same("output of host functions", said[1], said[0])
    said = [run([program, "closed"], env={**env, "MEMTRACE_CHECK": on}).stdout.split() for on in ("0", "1")]
    same("without a check", said[0], ["memory:", "rw-", "handler:", "0"])
    same("with it", said[1], ["memory:", "---", "handler:", f"{1 << 30:x}"])
    found, _ = check(program, "first", code=1)  # pages were closed
    same("first", [f["kind"] for f in found["findings"] if f["level"] == "error"], ["host-race"])
    found, _ = check(program, "first", code=0, env={**os.environ, "MEMTRACE_JOB": "job", "MEMTRACE_RANK": "0"})
    same("of a rank, which is not watched", [f["kind"] for f in found["findings"] if f["level"] == "error"], [])


@case("reasons")
def reasons(world):
    """Two things wrong with one mask are two findings: of 16 lanes the mask lacks 8, and all want the value of one that does not come."""
    said, _ = check(built(world, "sync.cu"), "both", code=1, cwd=HERE)
    got = {re.sub(r".*: lane \d+ ([a-z ]+) .*", r"\1", f["message"]): f["count"] for f in said["findings"] if f["kind"] == "mask"}
    same("findings", got, {"is not in the mask of its warp function": 8, "shuffles from lane": 16})


# name in memory.cu: words that kernels read, or bytes that copies take, of what nothing wrote, counted by hand
UNWRITTEN = {"fill_in_word": 64 - 97 // 4, "fill_short": 2, "fill_in_quad": 4, "few_gaps": 4, "third_set": 667, "most_set": 5, "gaps_taken": 12 * 16,
             "fill_apart": 1, "copied_over": 64, "copied_hole": 1, "few_small": 1, "few_late": 1}


@case("bytes")
def bytes_in_words(world):
    """Words of which a part was written, and pieces that begin or end within one."""
    program = built(world, "memory.cu")
    for name, count in UNWRITTEN.items():
        said, _ = check("--kinds=init", program, name, code=1, cwd=HERE)
        same(name, [f["count"] for f in said["findings"]], [count])
        first = {"fill_in_word": 97, "fill_apart": 1}.get(name)
        holds(said["findings"][0]["message"], first is None or f"first at byte {first}:" in said["findings"][0]["message"])


# kernel of words.cu: of each race the kind, whether it is between CTAs, and its words
WORDS = {
    "sums<0>": [("shared-race", False, 127)],  # but for its own
    "sums<64>": [("shared-race", False, 127)],
    "both_sides": [("shared-race", False, 128)],
    "rounds": [("shared-race", False, 128)],
    "next_one<0>": [("global-race", False, 4 * 63), ("global-race", True, 4)],
    "next_one<1>": [("global-race", False, 4 * 64)],
    "next_one<2>": [("global-race", True, 4)],
    "next_byte": [("global-race", False, 4 * 8), ("global-race", True, 4 * 8)],  # half of the CTA's 16 words each
}


def words_of(program):
    found = {}
    for f in check("--kinds=race", program, code=1, cwd=HERE)[0]["findings"]:
        name = re.sub(r"\(.*|^void |int\)|\(int\)", "", f["kernel"].replace("(int)", ""))
        between = f["cta"] != f["other"]["cta"]
        holds(f"{name}: unit and sides: {f['message']}", f"{f['count']} word" in f["message"] and between == ("another CTA" in f["message"]))
        found.setdefault(name, []).append((f["kind"], between, f["count"]))
    return {name: sorted(races) for name, races in found.items()}


@case("words")
def words(world):
    """Races count each word once, in whatever order the two came and how often; those of a CTA's threads and of CTAs by themselves."""
    source = os.path.join(HERE, "words.cu")
    same("mt-cc", words_of(built(world, source)), WORDS)
    same("nvcc", words_of(nvcc_program(world, source)), WORDS)


@case("fences")
def fences(world):
    """A race between CTAs says whether a fence would do, or a wider scope, or nothing that is there."""
    program = built(world, "scopes.cu")
    fence, scope, nothing = "since no fence", "and the scope of one", "with nothing to order the two:"
    due = {"unfenced_lock": {fence}, "narrow_fence": {fence}, "fence_of_one": {fence}, "late_store": {fence}, "waves": {fence},
           "chain": {nothing}, "grid_steps": {nothing}, "tally": {scope}, "narrow_lock": {scope, nothing}}
    for name, words in due.items():
        said = [f["message"] for f in check("--kinds=race", program, name, code=1, cwd=HERE)[0]["findings"]]
        same(name, {w for m in said for w in (fence, scope, nothing) if w in m}, words)
    strict = built(world, "fences.cu")
    for name in ("untold", "told_one", "handed_on", "near_lock", "near_flag", "relaxed"):
        said = [f["message"] for f in check("--kinds=race", "--strict", strict, name, code=1, cwd=HERE)[0]["findings"]]
        same(name, {fence in m and "or after the one" in m for m in said}, {True})
        check("--kinds=race", strict, name, code=0, cwd=HERE)
    read = check("--kinds=race", "--strict", program, "looks", code=1, cwd=HERE)[0]["findings"]
    same("a plain load beside atomics of CTAs, and of threads", [(f["kind"], f["op"]) for f in read], 2 * [("global-race", "load")])
    check("--kinds=race", program, "looks", code=0, cwd=HERE)


@case("order")
def order(world):
    """Several workers may write a CTA's records before those of one that it waited for, as if it had read what nobody wrote."""
    program = world.compile(os.path.join(HERE, "hands_on.cu"), "-O1")
    rows = (((), "init", []), (("counts",), "init", [("uninitialised", 64)]), (("last",), "race", []), (("second",), "race", [("global-race", 64)]))
    for words, kinds, found in rows:
        folder = world.path("run" + "".join(words))
        os.mkdir(folder)
        call([program, *words], env={**os.environ, "MEMTRACE_CPU_THREADS": "1", "MEMTRACE_DIR": folder, "MEMTRACE_FORMAT": "raw"})
        path = os.path.join(folder, "MemTrace-pipe-0")
        with open(path + ".meta", "r+", encoding="utf-8") as f:
            lines = re.sub(r'"sample":"0x[0-9a-f]*",', "", f.read())  # it says of which records it was written
            holds("one worker", '"workers"' not in lines)
            lines = lines.replace('"sms":', '"workers":2,"sms":', 1)
            f.seek(0)
            f.truncate()
            f.write(lines)
        with open(path, "rb") as f:
            head, name, rest = re.fullmatch(rb"(.)([a-z_]+\n)(.*)", f.read(), re.S).groups()
        records = [rest[i:i + 24] for i in range(0, len(rest) - 24, 24)]
        turned = sorted(records, key=lambda record: -int.from_bytes(record[20:24], "little"))
        holds("records of two CTAs", {record[20] for record in records} == {0, 1} and turned != records)
        for some in records, turned:
            with open(path, "wb") as f:
                f.write(head + name + b"".join(some) + rest[-24:])
            said, _ = check("--kinds=" + kinds, path, code=1 if found else 0)
            same(f"{words}", [(f["kind"], f["count"]) for f in said["findings"]], found)


@case("places")
def places(world):
    """Launches and allocations of nvcc's programs have the lines of their calls, with -g, also where they are inlined; without it their
    addresses, and a word on it."""
    if not shutil.which("nvcc"):
        raise Skipped("no nvcc")
    source = os.path.join(HERE, "places.cu")
    with open(source, encoding="utf-8") as f:
        line = {text.split("// ")[1].strip(): i for i, text in enumerate(f, 1) if re.search("// [A-Z]+$", text)}
    for flags, known in (["-g"], True), (["-g", "-O2"], True), ([], False), (["-O2"], False):
        program = world.path("places" + "".join(flags))
        run(["nvcc", *flags, "-lineinfo", source, "-o", program])
        found = {f["kind"]: f for f in check(program, code=1, cwd=HERE)[0]["findings"]}
        unordered, leak = found["unordered"], found["leak"]
        got = [unordered.get("line"), unordered["other"].get("line"), unordered["allocation"].get("line"), leak.get("line")]
        same(f"{flags}", got, [line["GET"], line["PUT"], line["A"], line["LEAK"]] if known else [None] * 4)
        if not known:  # each call has its own
            same("addresses", len({f["at"] for f in (unordered, unordered["other"], leak) if "+0x" in f.get("at", "")}), 3)
        same("words", run([world.tool("memtrace"), "check", program]).stderr.count("build with -g"), 0 if known else 1)


@case("ptx_lines")
def ptx_lines(world):
    """A kernel without lines has those of its PTX, whose file can be opened if it is kept; a word says what to do. Text has one entry for the
    races of two lines, JSON each pair of accesses; and memory has no more bytes in a finding than it has."""
    if not shutil.which("nvcc"):
        raise Skipped("no nvcc")
    work = world.folder("turns")
    source = os.path.join(work, "turns.cu")
    with open(source, "w", encoding="utf-8") as f:
        f.write("""
__global__ void count(int *n) { n[0] += 1; }
int main()
{
    int *n;
    cudaStream_t a, b;
    cudaMalloc(&n, 4);
    cudaMemset(n, 0, 4);
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaDeviceSynchronize();
    for (int i = 0; i < 2; i++) {
        count<<<2, 64, 0, a>>>(n);
        count<<<2, 64, 0, b>>>(n);
    }
    cudaDeviceSynchronize();
    return 0;
}
""")
    for flags in [], ["-lineinfo"]:
        program, keep = os.path.join(work, "turns" + "".join(flags)), os.path.join(work, "kept" + "".join(flags))
        run(["nvcc", "-arch=sm_90", *flags, source, "-o", program])
        said = run([world.tool("memtrace"), "check", "--keep", keep, program], cwd=work)
        at = re.findall(r"^(.*):\d+: global-race:", said.stdout, re.M)
        same("notes", said.stderr.count("nvcc -lineinfo"), 0 if flags else 1)
        holds(f"{at}", at and all(os.path.exists(os.path.join(work, file)) for file in at))
        if flags:
            same("races of one line", (len(at), said.stdout.count("    and 3 more races of these lines")), (1, 1))
        said = check("--kinds=race", program, code=1)[0]["findings"]
        same("races", len([f for f in said if f["kind"] == "global-race"]), 4)
        bytes_of = {(f["count"], f["allocation"]["bytes"]) for f in said if f["kind"] == "unordered"}
        same("bytes", bytes_of, {(4, 4)})
        if not flags:
            said = run([world.tool("memtrace"), "check", "-q", program], cwd=work)
            files = re.findall(r"^(\S+\.ptx):", said.stdout, re.M)
            holds(f"names without the folder, which is gone: {files}", files and not any("/" in file for file in files))


def stack_of(side):
    """Lines of a call stack; the functions where a line is not known."""
    return [f.get("line", f.get("function")) for f in side.get("stack", [])]


@case("stacks")
def stacks(world):
    """Findings have the inlined calls in the kernel, and the callers of the launch and of the allocation; leaks are told apart by them."""
    source = os.path.join(HERE, "stacks.cu")
    with open(source, encoding="utf-8") as f:
        line = {text.split("// ")[1].strip(): i for i, text in enumerate(f, 1) if re.search("// [A-Z]+$", text)}
    inline, tail = [line["TWICE"], line["FILL"]], {}
    programs = [(how, world.compile(source, *how, "--mt-spaces=global,shared"), True) for how in (["-O0", "-g"], ["-O2", "-g"])]
    programs.append((["-O1"], world.compile(source, "-O1", "-g0", "--mt-spaces=global,shared"), False))
    if shutil.which("nvcc"):
        for flags in ["-g"], ["-g", "-O2"]:
            programs.append((["nvcc", *flags], world.path("stacks" + "".join(flags)), True))
            run(["nvcc", *flags, "-lineinfo", source, "-o", programs[-1][1]])
            tail["nvcc" + "".join(flags)] = "-O2" in flags  # launch() ends by a jump into the stub: it has no frame
    for how, program, lines in programs:
        said, _ = check(program, code=1, cwd=HERE)
        bad = next(f for f in said["findings"] if f["kind"] == "out-of-bounds")
        same(f"{how}: the access", (bad["line"], stack_of(bad)), (line["PUT"], inline))
        launched, made = bad["launched"], bad["allocation"]
        if not lines:
            same(f"{how}: callers", (stack_of(launched)[-2:], stack_of(made)), (["run", "main"], ["main"]))
        elif tail.get("".join(how)):
            same(f"{how}: the launch", (launched["line"], stack_of(launched)), (line["RUN"], [line["MAIN"]]))
        else:
            same(f"{how}: the launch", (launched["line"], stack_of(launched)), (line["LAUNCH"], [line["RUN"], line["MAIN"]]))
        if lines:
            same(f"{how}: the allocation", (made["line"], stack_of(made)), (line["MAKE"], [line["MAKES"]]))
            same(f"{how}: functions", [f["function"] for f in bad["stack"]] + [f["function"] for f in made["stack"]], ["put_twice", "fill", "main"])
        same(f"{how}: its right twin", [f for f in check(program, "fine", code=0, cwd=HERE)[0]["findings"] if f["level"] == "error"], [])
        leaks = [(f["total"], f.get("stack") and stack_of(f)) for f in check("--kinds=leak", program, "leak", code=0, cwd=HERE)[0]["findings"]]
        tails = [line["LEAKC"]] if "-O2" in how or not lines else [line["KEPT"], line["LEAKC"]]
        if lines:
            same(f"{how}: leaks", (leaks[0][0], leaks[0][1][-1:], sorted(leaks[1:])), (400, tails[-1:], [(40, [line["LEAKA"]]), (40, [line["LEAKB"]])]))
        else:
            same(f"{how}: leaks, whose callers have no lines", sum(n for n, _ in leaks), 480)
    said = run([world.tool("memtrace"), "check", programs[0][1]], cwd=HERE).stdout
    want = [f"    inlined into stacks.cu:{line['TWICE']} in put_twice", f"    inlined into stacks.cu:{line['FILL']} in fill", f"    launched at stacks.cu:{line['LAUNCH']}",
            f"      called from stacks.cu:{line['RUN']} in run", f"      called from stacks.cu:{line['MAIN']} in main", f"    allocated at stacks.cu:{line['MAKE']}",
            f"      called from stacks.cu:{line['MAKES']} in main"]
    at = said.find(want[0])
    holds(f"text: {said}", at > 0 and [x for x in said[at:].splitlines() if "launch<" not in x][:len(want)] == want)
    sarif = json.loads(run([world.tool("memtrace"), "check", "-f", "sarif", programs[0][1]], cwd=HERE).stdout)
    got = [[f["location"]["physicalLocation"]["region"]["startLine"] for f in s["frames"]] for s in sarif["runs"][0]["results"][0]["stacks"]]
    same("SARIF", got, [[line["PUT"], *inline], [line["LAUNCH"], line["RUN"], line["MAIN"]], [line["MAKE"], line["MAKES"]]])


@case("programs")
def programs(world):
    """Of several programs the findings of each; a pattern from outside changes nothing; what another process writes is written."""
    program = built(world, "programs.cu")
    py = world.path("calls.py")
    with open(py, "w", encoding="utf-8") as f:
        f.write("import subprocess, sys\nfor word in sys.argv[2:]:\n    subprocess.run([sys.argv[1], word], check=True)\n")
    calls = (["sh", "-c", f"{program} bad; {program} clean"], ["sh", "-c", f"{program} clean; {program} bad; {program} bad"],
             ["python3", py, program, "bad", "clean"], [program, "bad"])
    for words, times in zip(calls, (1, 2, 1, 1)):
        for env in ({}, {"MEMTRACE_PATTERN": "app-%p-?"}):
            found = check(*words, code=1, cwd=HERE, env={**os.environ, **env})[0]["findings"]
            same(f"{words[-2:]} {env}", [(f["kind"], f["count"], f["launches"]) for f in found if f["level"] != "hint"], [("out-of-bounds", 4 * times, times)])
    folder = world.path("kept")
    for _ in range(2):  # each time what ran then, and nothing else
        said, _ = check("--keep", folder, "sh", "-c", f"{program} bad; {program} clean", code=1, cwd=HERE)
        same("kept", [f["count"] for f in said["findings"]], [4])
    kept = {name for name in os.listdir(folder) if name.endswith(".mtc")}
    same("files that are kept", len(kept), 4)
    said = run([world.tool("memtrace"), "check", "--keep", folder, program, "clean"]).stderr
    same("what it says of them", set(re.findall("kept: (.*)", said)), {os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".mtc") and name not in kept})
    same("of two processes", check(program, "gives", code=0, cwd=HERE)[0]["findings"], [])


def null_and_constant(text):
    """{kernel: remark} of nothing.cu."""
    return dict(re.findall(r"__global__ void (\w+)\(int \*p\) // (\w+)", text))


@case("nothing")
def nothing(world):
    """Writes to null are accesses, which fail a launch and are findings; writes to constant memory trap; at all levels, traced or not."""
    source = os.path.join(HERE, "nothing.cu")
    with open(source, encoding="utf-8") as f:
        kernels = null_and_constant(f.read())
    for how in (["-O0"], ["-O2"], ["-O3", "--mt-vectors=off"]):
        program = world.compile(source, "-g", "-w", "-arch=sm_90", "--mt-spaces=global,shared", *how)
        for name, wrong in kernels.items():
            if name == "counted" and "-O0" in how:
                continue  # a call of atomicAdd there, which takes any pointer
            due = {"null": "cudaErrorIllegalAddress 0", "constant": "cudaErrorLaunchFailure 0", "right": "cudaSuccess 7"}[wrong]
            for env in {}, {"MEMTRACE_ENABLE": "0"}:
                out = call([program, name], env={**os.environ, "MEMTRACE_DIR": world.path("x"), **env}).stdout
                same(f"{how} {name} {env}", out.strip(), due)
            found = check("--kinds=memory,calls", program, name, code=wrong != "right")[0]["findings"]
            kinds = {f["kind"] for f in found if f["kind"] != "failed-call"}
            same(f"{how} {name}", kinds, {"null": {"out-of-bounds"}, "constant": {"failed-launch"}, "right": set()}[wrong])
            if wrong == "null" and name != "block":  # clang may copy in parts
                same(f"{how} {name}: accesses", [f["count"] for f in found if f["kind"] == "out-of-bounds"], [32])


@case("grid")
def grid(world):
    """Barriers of a grid that some CTAs never come to, on several workers, as vectors and as fibers; nothing hangs without a check, either."""
    for how in ("on", "off"):
        program = world.compile(os.path.join(HERE, "sync.cu"), "-O1", "--mt-spaces=global,shared", "--mt-vectors=" + how)
        for name in ("grid_half", "grid_but_first", "grid_again"):
            for workers in ("1", "3"):
                env = {**os.environ, "MEMTRACE_CPU_THREADS": workers}
                found = check("--kinds=sync", program, name, code=1, cwd=HERE, env=env)[0]["findings"]
                same(f"{name} {how} {workers}", [f["kind"] for f in found], ["barrier"])
                run([program, name], env=env, timeout=60)


@case("no_lines")
def no_lines(world):
    """What was freed at a line that is not known."""
    said, _ = check(nvcc_program(world, os.path.join(HERE, "calls.cu")), "owners", code=1, cwd=HERE)
    same("message", [f["message"] for f in said["findings"] if f["level"] == "error"],
         ["cudaFree returned cudaErrorInvalidValue: already freed: 256 bytes"])


@case("many")
def many(world):
    """Text ends after a thousand findings and says how many more there are; JSON has all."""
    source = world.path("many.cu")
    with open(source, "w", encoding="utf-8") as f:
        f.write("__global__ void k()\n{\n}\nint main()\n{\n    void *p;\n    k<<<1, 1>>>();\n" +
                "    cudaMalloc(&p, 4);\n" * 1100 + "    return cudaDeviceSynchronize();\n}\n")
    program = world.compile(source, "-O0", "--mt-spaces=global,shared")
    said, _ = check("--kinds=leak", program, code=0, cwd=HERE)
    same("JSON", len(said["findings"]), 1100)
    lines = run([world.tool("memtrace"), "check", "--kinds=leak", program]).stdout.splitlines()
    same("lines", (len(lines), lines[-1]), (1001, "100 more findings are not shown here: --format=json has all"))


@case("many_words")
def many_words(world):
    """Each of 258,048 words of shared memory that nothing wrote counts, and the time is not that of all pairs of them (minutes)."""
    source = world.path("words.cu")
    with open(source, "w", encoding="utf-8") as f:
        f.write("__global__ void k(int *out)\n{\n    __shared__ int s[4096];\n    int t = threadIdx.x, sum = 0;\n    s[t] = t;\n    __syncthreads();\n"
                "    for (int i = 0; i < 64; i++)\n        sum += ((volatile int *)s)[64 * i + t];\n    out[blockIdx.x * 64 + t] = sum;\n}\n"
                "int main()\n{\n    int *out;\n    cudaMalloc(&out, 64 * 64 * 4);\n    k<<<64, 64>>>(out);\n    return cudaFree(out);\n}\n")
    program = world.compile(source, "-O1", "-g", "--mt-spaces=global,shared")
    before = os.times().children_user
    said, _ = check("--kinds=init", program, code=1, cwd=HERE)
    same("words", [f["count"] for f in said["findings"]], [64 * (4096 - 64)])
    holds("processor time", os.times().children_user - before < 40)


@case("twins")
def twins(world):
    """Each kind has three faulty programs or more, but for launches that fail."""
    count = {}
    for name in sorted(f for f in os.listdir(HERE) if f.endswith(".cu")):
        for _, found in due(os.path.join(HERE, name)).items():
            for kind in {kind for kind, _ in found}:
                count[kind] = count.get(kind, 0) + 1
    same("kinds with fewer", {kind for kind in rows_of_kinds() if count.get(kind, 0) < 3}, {"failed-launch"})


def rows_of_kinds():
    """{kind: (group, level, rule)} of the table in the sources."""
    with open(os.path.join(HERE, "../../format/kinds.def"), encoding="utf-8") as f:
        rows = re.findall(r'^FINDING\(\w+, "([\w-]+)", (\w+), (\w+), "(.*)"\)', f.read(), re.M)
    return {word: (group.lower(), level.lower(), rule) for word, level, group, rule in rows}


@case("kinds")
def kinds(world):
    """The manual has each kind as it is."""
    with open(os.path.join(HERE, "../../docs/man/memtrace-check.md"), encoding="utf-8") as f:
        manual = re.findall(r"^\| `([\w-]+)` \| (\w+) \| (\w+) \| (.*) \|$", f.read(), re.M)
    same("kinds in the manual", {word: tuple(rest) for word, *rest in manual}, rows_of_kinds())
    groups = {group for group, _, _ in rows_of_kinds().values()}
    told = re.findall(r"^  (\w+) +(.*)$", run([world.tool("memtrace"), "check", "--help"]).stdout, re.M)
    told = {group: set(re.findall(r"[\w-]+", re.sub(r"hints:|\(hint\)", "", words))) for group, words in told if group in groups}
    same("kinds in --help", told, {g: {word for word, (group, *_) in rows_of_kinds().items() if group == g} for g in groups})


@case("carried")
def carried(world):
    """`check` lines say which kind it is, whatever their other words; those of older runtimes, which do not, are taken by these."""
    program = built(world, faults())
    for name, kind in (("end", "out-of-bounds"), ("freed", "use-after-free")):
        folder = world.path(name)
        os.makedirs(folder)
        run([program, name], env={**os.environ, "MEMTRACE_CHECK": "1", "MEMTRACE_DIR": folder, "MEMTRACE_DEVICE": "cpu"}, cwd=HERE)
        meta = next(os.path.join(folder, x) for x in os.listdir(folder) if x.endswith(".meta"))
        with open(meta, encoding="utf-8") as f:
            text = f.read()
        lines = [x for x in text.splitlines() if x.startswith('{"ev":"check"')]
        same(f"{name}: lines", {json.loads(x)["kind"] for x in lines}, {kind})
        for said, want in ((text, kind), (re.sub(r'"kind":"[a-z-]*",("count")', r"\1", text), kind),
                           (text.replace(f'"kind":"{kind}"', '"kind":"heap"'), "heap")):
            with open(meta, "w", encoding="utf-8") as f:
                f.write(said)
            found, _ = check("--kinds=memory", folder, code=None, cwd=HERE)
            same(f"{name}: {want}", {f["kind"] for f in found["findings"]}, {want})


@case("formats")
def formats(world):
    """The same findings in all formats; suppressions, choices and exit codes."""
    program = built(world, faults())
    memtrace, folder = world.tool("memtrace"), world.path("kept")
    said, _ = check("--keep", folder, program, "total", code=1, cwd=HERE)
    message = next(f["message"] for f in said["findings"] if f["level"] == "error")
    again, _ = check(folder, code=1, cwd=HERE)
    def bare(x):  # files that a trace names are opened only if the program has just run
        return {k: bare(v) for k, v in x.items() if k != "stack"} if isinstance(x, dict) else [bare(v) for v in x] if isinstance(x, list) else x

    same("a trace that was kept says the same, but for callers", again["findings"], bare(said["findings"]))
    text = run([memtrace, "check", folder], cwd=HERE)
    holds(f"text: {text.stdout}", message in text.stdout and "shared-race: " in text.stdout and text.returncode == 1)
    sarif = world.path("out.sarif")
    same("sarif", run([memtrace, "check", "-f", "sarif", "-o", sarif, folder], cwd=HERE).returncode, 1)
    with open(sarif, encoding="utf-8") as f:
        log = json.load(f)
    driver, results = log["runs"][0]["tool"]["driver"], log["runs"][0]["results"]
    same("sarif: version and rules", (log["version"], [rule["id"] for rule in driver["rules"]]), ("2.1.0", list(rows_of_kinds())))
    first = results[0]
    place = first["locations"][0]["physicalLocation"]
    same("sarif: the first result", (first["message"]["text"], place["artifactLocation"]["uri"], first["ruleId"], first["level"]),
         (message, "faults.cu", "shared-race", "error"))
    same("sarif: its line", (place["region"]["startLine"], first["relatedLocations"][0]["physicalLocation"]["region"]["startLine"]),
         (said["findings"][0]["line"], said["findings"][0]["other"]["line"]))
    same("sarif: rules by number", {driver["rules"][r["ruleIndex"]]["id"] == r["ruleId"] for r in results}, {True})
    for lines, code, taken in (("shared-race\n", 0, 1), ("# all\n* total* */faults.cu\n", 0, 1), ("shared-race other\n", 1, 0), ("race\n", 0, 1), ("rage\n", 2, None),
                              ("\ufeffshared-race\r\n", 0, 1), ("# all\r\n* total* */faults.cu\t \r\n", 0, 1), ("shared-race  \n\r\n \n", 0, 1)):
        path = world.path("suppress")
        with open(path, "w", encoding="utf-8", newline="") as f:
            f.write(lines)
        done = run([memtrace, "check", "-f", "json", "--suppress", path, folder])
        same(f"suppress {lines!r}: {done.stderr}", done.returncode, code)
        if taken is not None:
            same(f"suppress {lines!r}: how many", json.loads(done.stdout)["suppressed"], taken)
    for words, code in ((["--kinds", "memory"], 0), (["--kinds", "race,init"], 1), (["--kinds", "!race"], 0), (["--kinds", "!shared-race"], 0),
                        (["--kinds", "rage"], 2), (["--kinds", ""], 2), (["--kinds", "race,!race"], 2), (["--format", "xml"], 2), ([], 1)):
        same(f"{words}", run([memtrace, "check", *words, folder]).returncode, code)
    same("freed after their streams", check("--kinds=leak", program, "streams-right", code=0, cwd=HERE)[0]["findings"], [])
    quiet = run([memtrace, "check", "-q", "--kinds=!race", program, "total"])
    same("quiet", (quiet.returncode, quiet.stderr), (0, ""))
    plain = world.compile(os.path.join(HERE, "hands_on.cu"), "-O1")
    holds("a program without records of shared memory", "--mt-spaces" in run([memtrace, "check", plain]).stderr)
    holds("kernels without shared memory", "--mt-spaces" not in run([memtrace, "check", program, "end"]).stderr)
    died = check(program, "end", "abort", code=1, cwd=HERE)[0]["findings"]
    same("a program that ends badly", [f["kind"] for f in died], ["out-of-bounds"])
    same("no folder", run([memtrace, "check", "--keep", faults(), program, "total"]).returncode, 2)
    never = run([memtrace, "check", "--suppress", "/no/file", program, "total"])
    same("a file that is not there", (never.returncode, never.stdout), (2, ""))
    never = run([memtrace, "check", "--suppress", folder, program, "total"])
    same(f"a folder: {never.stderr}", (never.returncode, never.stdout, folder in never.stderr), (2, "", True))
    never = run([memtrace, "check", program, "total"], env={**os.environ, "TMPDIR": "/no/folder"})
    holds(f"no place for the trace: {never.stderr}", never.returncode == 2 and "TMPDIR" in never.stderr and "/no/folder" in never.stderr)
    never = run([memtrace, "check", "/no/program"])
    holds(f"whose words they are: {never.stderr}", never.stderr.startswith("memtrace check: /no/program"))
    for words, code in (([program, "nothing of that name"], 3), (["/no/program"], 2), ([], 2)):
        same(f"{words}", run([memtrace, "check", *words]).returncode, code)


@case("ends")
def ends(world):
    """Signals to memtrace check reach the program and end both; what has no end is never told as whole."""
    program, memtrace = world.compile(os.path.join(HERE, "ends.cu"), "-O1"), world.tool("memtrace")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        out = world.path("sarif")
        with subprocess.Popen([memtrace, "check", "-f", "sarif", "-o", out, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
            p.stdout.readline()
            p.send_signal(number)
            said = p.communicate(timeout=300)[1]
        same(f"signal {number}: {said}", p.returncode, 128 + number)
        with open(out, encoding="utf-8") as f:
            [invocation] = json.load(f)["runs"][0]["invocations"]
        same(f"signal {number}: sarif", (invocation["executionSuccessful"], "has no end" in str(invocation["toolExecutionNotifications"])), (False, True))
    with subprocess.Popen([memtrace, "check", program, "deaf"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        p.stdout.readline()
        p.terminate()
        heard, said = p.communicate(timeout=300)
    same(f"the program has heard it: {said}", (p.returncode, "its own end" in heard), (0, True))
    for how, whole, code in (("end", True, 0), ("leave", False, 0)):
        done = run([memtrace, "check", "-f", "sarif", "-o", out, program, how])
        with open(out, encoding="utf-8") as f:
            [invocation] = json.load(f)["runs"][0]["invocations"]
        same(f"{how}: {done.stderr}", (done.returncode, invocation["executionSuccessful"], "by _exit" in done.stderr), (code, whole, not whole))
    for how, code, words in (("exit 255", 255, []), ("kill -SEGV $$", 139, ["11"])):  # without a trace
        done = run([memtrace, "check", "sh", "-c", how])
        same(f"{how}: {done.stderr}", (done.returncode, done.stdout, re.findall(r"ended by signal (\d+)", done.stderr)), (code, "", words))


@case("unfinished")
def unfinished(world):
    """A bad access is known if the program is killed before its launch has ended."""
    source, memtrace, out = os.path.join(HERE, "unfinished.cu"), world.tool("memtrace"), world.path("found")
    with open(source, encoding="utf-8") as f:
        line = next(i for i, text in enumerate(f, 1) if text.endswith("// bad\n"))
    for flags in [], ["--mt-vectors=off"]:
        program = world.compile(source, "-O1", "-g", "-arch=sm_90", "--mt-spaces=global,shared", *flags)
        for count, kinds, number in (101, "memory,race", signal.SIGTERM), (101, "memory", signal.SIGINT), (100, "memory,race", signal.SIGTERM):
            with subprocess.Popen([memtrace, "check", "-f", "json", "-o", out, "--kinds=" + kinds, program, str(count)], stdout=subprocess.PIPE, text=True) as p:
                holds("it waits", p.stdout.readline() == "waits\n")
                p.send_signal(number)
                p.communicate(timeout=300)
            with open(out, encoding="utf-8") as f:
                found = json.load(f)
            same(f"{flags} {count} {kinds}", [(f["kind"], f["line"], f["count"]) for f in found["findings"]], [("out-of-bounds", line, 1)] * (count - 100))
            same(f"{flags} {count} {kinds}: whole", found["complete"], False)


@case("holes")
def holes(world):
    """A lost part of a trace may have had writes and barriers: no error is told that comes of it, and the exit code says that the trace is
    damaged."""
    program, memtrace, keep = built(world, "holes.cu"), world.tool("memtrace"), world.folder("kept")
    same("the whole trace", run([memtrace, "check", "--keep", keep, program]).returncode, 0)
    [path] = [os.path.join(keep, name) for name in os.listdir(keep) if name.endswith(".mtc")]
    with open(path, "rb") as f:
        whole = f.read()
    codes, noted = [], 0
    for part in range(1, 30):
        at = len(whole) * part // 30
        with open(path, "wb") as f:
            f.write(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1:])
        done = run([memtrace, "check", path])
        codes.append(done.returncode)
        noted += "races within launches were not looked for" in done.stderr
        same(f"byte {at}: errors", re.findall(r"^(?!.*: hint: )\S.*", done.stdout, re.M), [])
    holds(f"codes {codes}, {noted} notes", set(codes) == {3} and noted == len(codes))


@case("much")
def much(world):
    """Launches side by side whose memory is too much to compare are counted."""
    source = world.path("much.cu")
    with open(source, "w", encoding="utf-8") as f:
        f.write("""
__global__ void touch(char *p) { p[(blockIdx.x * 256ul + threadIdx.x) * 4096] = 1; }
int main(int, char **argv)
{
    unsigned ctas = 128 * (argv[1][0] - '0');
    char *p[2];
    for (int i = 0; i < 2; i++) {
        cudaStream_t s;
        cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
        cudaMalloc(&p[i], ctas * 256ul * 4096);
        touch<<<ctas, 256, 0, s>>>(p[i]);
    }
    return cudaDeviceSynchronize();
}
""")
    program = world.compile(source, "-O1", "--mt-spaces=global,shared")
    for count, told in ("1", 0), ("3", 1):
        said = run([world.tool("memtrace"), "check", "--kinds=unordered", program, count]).stderr
        same(f"{count}: {said}", said.count("was not compared completely"), told)


@case("output")
def output(world):
    """No command's output is a file that it reads, by whatever name; the file stays as it was."""
    program, memtrace = world.compile(os.path.join(HERE, "ends.cu"), "-O1"), world.tool("memtrace")
    folder = world.folder("kept")
    run([memtrace, "check", "--keep", folder, program, "end"])
    [name] = [n for n in os.listdir(folder) if n.endswith(".mtc")]
    trace, link, hard = os.path.join(folder, name), world.path("link.mtc"), world.path("hard.mtc")
    script, rules = world.path("script"), world.path("rules")
    os.symlink(trace, link)
    os.link(trace, hard)
    for path, text in ((script, "#!/bin/sh\n" + program + " end\n"), (rules, "leak\n")):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    os.chmod(script, 0o755)
    copy = world.path("copy.cu")
    shutil.copy(os.path.join(HERE, "ends.cu"), copy)
    for read, words in ((trace, ["check", "-o", trace, trace]), (trace, ["check", "-o", link, trace]), (trace, ["check", "-o", hard, trace]),
                        (trace, ["check", "-o", trace, folder]), (trace + ".meta", ["check", "-o", trace + ".meta", trace]),
                        (trace, ["graph", "-o", trace, folder]), (trace, ["graph", "--svg", trace, folder]), (trace, ["report", "-o", trace, folder]),
                        (trace, ["extract", "-o", trace, folder]), (trace, ["compare", "-o", trace, link, link]), (trace, ["convert", "--to", "mtc", "-o", hard, trace]),
                        (trace + ".meta", ["convert", "--to", "raw", "-o", world.path("raw"), "--companion", trace + ".meta", trace]),
                        (rules, ["check", "--suppress", rules, "-o", rules, trace]), (program, ["check", "-o", program, program, "end"]),
                        (rules, ["check", "-o", rules, program, "end", rules]), (program, ["host", "-o", program, "--", program, "end"]),
                        (script, ["host", "-o", script, "--", script]), (script, ["host", "-o", script, "--", "sh", script]),
                        (copy, ["cc", copy, "-o", copy]), (copy, ["cc", "-c", copy, "-o" + copy])):
        with open(read, "rb") as f:
            before = f.read()
        done = run([memtrace, *words])
        with open(read, "rb") as f:
            same(f"{words}: {done.stderr}", (done.returncode, f.read() == before, "one of the inputs" in done.stderr or "is run or read" in done.stderr), (2, True, True))
    same("a device is nobody's", run([memtrace, "check", "-o", "/dev/null", program, "end", "/dev/null"]).returncode, 0)
