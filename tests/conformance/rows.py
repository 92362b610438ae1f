"""Compiles a topic's program with mt-cc, runs its rows on the device that MEMTRACE_DEVICE names (default cpu), and compares what each row
expects with the trace."""
import os
import re
import shlex
from collections import Counter

import compact
import harness
import headers
import trace
from harness import Failed, call, tool

HERE = os.path.dirname(os.path.realpath(__file__))
COMPACT = ""  # the suffix of compact traces, where those are wanted
MARK = re.compile(r"(.*::)?conf_mark$")


def topics():
    names = sorted(os.path.splitext(n)[0] for n in os.listdir(HERE) if n.endswith(".cu"))
    return names + ["diagnostics"]


def settings(source):
    """Lines "// conformance: KEY VALUE" of a program: levels, flags, needs, environment."""
    found = {"levels": "-O1", "flags": "", "needs": "", "environment": ""}
    with open(source, encoding="utf-8") as f:
        for key, value in re.findall(r"^// conformance: (\w+) +(.*)$", f.read(), re.M):
            if key not in found:
                raise Failed(f"{source}: unknown setting {key}")
            found[key] = value
    return found


def compile_program(source, flags, out):
    device = ["--mt-gpu-trace=off"] if os.environ.get("MEMTRACE_DEVICE", "cpu") == "cpu" else []  # half the time
    words = ["-std=c++17", "-I" + HERE, "-Xarch_host", "-O0", *device, *flags]
    return call([tool("mt-cc"), *words, *headers.words(tool("mt-cc"), words, source), source, "-o", out], timeout=900).stderr


def run_program(program, folder, extra, rows=()):
    """Runs rows; returns [(fields of a result line, accesses of the row)]."""
    os.makedirs(folder)
    results = os.path.join(folder, "rows")
    env = harness.clean(MEMTRACE_DEVICE=os.environ.get("MEMTRACE_DEVICE", "cpu"))
    if COMPACT:
        env["MEMTRACE_FORMAT"] = "compact"
    env.update(MEMTRACE_DIR=folder, **dict(word.split("=", 1) for word in shlex.split(extra)))
    lines = result_lines(program, results, env, rows)
    # By code without record calls: on the CPU device warps are vectors then.
    untraced = result_lines(program, results + ".untraced", {**env, "MEMTRACE_ENABLE": "0"}, rows)
    for line, other in zip(lines, untraced):
        if line[:4] != other[:4]:
            raise Failed(f"{program}: row {line[0]} is {line[2]} {line[3]}, but when it is not traced {other[2]} {other[3]}")
    accesses = read_accesses(folder)
    if len(accesses) != len(lines):
        raise Failed(f"{program} {shlex.join(rows)}: {len(lines)} rows, but {len(accesses)} marks in the trace")
    return list(zip(lines, accesses))


def result_lines(program, results, env, rows):
    call([program, "--out", results, *rows], timeout=300, env=env)
    with open(results, encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f]


def read_accesses(folder):
    """What the trace has between two marks: per row a Counter of (kind, size), and the number without a record."""
    launches = {}
    for name in os.listdir(folder):
        if not re.fullmatch(r"MemTrace-pipe-\d+" + COMPACT, name):
            continue
        path = os.path.join(folder, name)
        companion = trace.Companion(path + ".meta")
        if not companion.end()["complete"]:
            bad = [e for e in companion.all("launch") if e.get("status")]
            raise Failed(f"{path} is not complete: {companion.end()}, failed launches: {bad[:3]}")
        traced = [e for e in companion.all("launch") if e["traced"]]
        blobs = compact.read(path)[0] if COMPACT else trace.read(path)
        if len(blobs) != len(traced):
            raise Failed(f"{path}: {len(blobs)} launches, the companion has {len(traced)}")
        launches.update({e["seq"]: (launch, e) for launch, e in zip(blobs, traced)})
    rows = []
    for _, (launch, event) in sorted(launches.items()):
        if MARK.fullmatch(launch.kernel):
            rows.append([Counter(), 0])
            continue
        if not rows:
            raise Failed(f"launch of {launch.kernel} before the first row")
        for sizes in launch.ctas().values():
            rows[-1][0].update(sizes)
        rows[-1][1] += event["untraced"]
    return rows


def expected(text):
    """("load:4=32 load:4=1 store:8>=2") as [(kind, size, least, exact)]."""
    exact, least = Counter(), Counter()
    for word in text.split():
        kind, size, sign, n = re.fullmatch(r"(\w+):(\d+)(>?=)(\d+)", word).groups()
        (exact if sign == "=" else least)[kind, int(size)] += int(n)
    return +exact, least


def kind_bytes(counts):
    out = Counter()
    for (kind, size), n in counts.items():
        out[kind] += n * size
    return +out


def say(counts, untraced):
    words = [f"{n} {kind}{'s' * (n != 1)} of {size}" for (kind, size), n in sorted(counts.items())]
    return ", ".join(words + [f"{untraced} untraced"] * (untraced != 0)) or "none"


def compare(fields, found):
    """(verdict, accesses in words): verdict "ok", "skipped: why" or what is wrong."""
    name, _, state, text, _, counts, untraced, mode = fields
    got, got_untraced = found
    if state == "skipped":
        return "skipped: " + text, "–"
    if state != "ok":
        return text, say(got, got_untraced)
    exact, least = expected(counts)
    rest = Counter(got)
    for key in least:
        least[key] += exact.pop(key, 0)
        if rest[key] < least[key]:
            return f"accesses: {say(got, got_untraced)}; expected at least {least[key]} of {key}", ""
        del rest[key]
    same = kind_bytes(rest) == kind_bytes(exact) if mode == "bytes" else rest == exact
    if not same or int(untraced) != got_untraced:
        return f"accesses: {say(got, got_untraced)}; expected {say(exact, int(untraced))} ({mode})", ""
    if least:
        words = [f"at least {n} {kind}s of {size}" for (kind, size), n in sorted(least.items())]
        return "ok", ", ".join([say(exact, got_untraced)] * bool(exact or got_untraced) + words)
    if mode == "bytes":
        return "ok", ", ".join(f"{n} bytes of {kind}s" for kind, n in sorted(kind_bytes(got).items()))
    return "ok", say(got, got_untraced)


def run_topic(work, topic, flags=(), first=False, compile_program=compile_program, compare=compare):
    """Rows of a topic as (name, what, verdict, accesses, note), those of the first level; at each level, or the first alone, all must
    hold. Skipped where the CUDA toolkit has not what the topic needs."""
    source = os.path.join(HERE, topic + ".cu")
    wish = settings(source)
    include = os.path.join(harness.BUILD, "cuda-overlay", "include")
    missing = [h for h in wish["needs"].split() if not os.path.exists(os.path.join(include, h))]
    if missing:
        raise harness.Skipped(f"the CUDA toolkit has no {', '.join(missing)}")
    of_first, failed = None, []
    for level in wish["levels"].split()[:1 if first else None]:
        program = os.path.join(work, topic + level)
        compile_program(source, [level, *shlex.split(wish["flags"]), *flags], program)
        pairs = run_program(program, program + ".run", wish["environment"]) if has_plain(program) else []
        for number, name in enumerate(names_of(program, "alone")):
            pairs += run_program(program, f"{program}.alone{number}", wish["environment"], [name])
        order = {name: at for at, name in enumerate(names_of(program))}
        pairs.sort(key=lambda pair: order[pair[0][0]])
        rows = []
        for fields, found in pairs:
            verdict, words = compare(fields, found)
            rows.append((fields[0], fields[1], verdict, words, fields[4]))
            if verdict != "ok" and not verdict.startswith(("skipped", "differs")):
                failed.append(f"{level}: {fields[0]}: {verdict}")
        double = [name for name, n in Counter(r[0] for r in rows).items() if n > 1]
        if double:
            raise Failed(f"{topic}: rows of the same name: {double}")
        print(f"{topic} {level}: {len(rows)} rows", flush=True)
        of_first = of_first or rows
    harness.same("rows that fail", failed, [])
    return of_first


def names_of(program, kind=None):
    lines = [line.split("\t", 1) for line in call([program, "--list"]).stdout.splitlines()]
    return [name for how, name in lines if kind in (None, how)]


def has_plain(program):
    return bool(names_of(program, "row"))

