#!/usr/bin/env python3
"""Runs the conformance programs: run.py --build DIR [--work DIR] [--write] [--compact] TOPIC...

Compiles tests/conformance/TOPIC.cu with mt-cc, runs its rows on the device that MEMTRACE_DEVICE names (default cpu), and
compares what each row expects with the trace. The rows with their results become DIR/docs/conformance/TOPIC.md. --write puts
their number into docs/conformance.md; without it the rows must be those that it says. --list prints the topics. Exit code 1 if a row fails."""
import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import compact  # noqa: E402
import headers  # noqa: E402
import trace  # noqa: E402
import table  # noqa: E402

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
                raise SystemExit(f"{source}: unknown setting {key}")
            found[key] = value
    return found


class Broken(Exception):
    """A program does not compile, run, or write a whole trace."""


def compile_program(build, source, flags, out):
    device = ["--mt-gpu-trace=off"] if os.environ.get("MEMTRACE_DEVICE", "cpu") == "cpu" else []  # half the time
    mt_cc, words = os.path.join(build, "bin", "mt-cc"), ["-std=c++17", "-I" + HERE, "-Xarch_host", "-O0", *device, *flags]
    command = [mt_cc, *words, *headers.words(mt_cc, words), source, "-o", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise Broken(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stderr[-6000:]}")
    return done.stderr


def run_program(program, folder, extra, rows=()):
    """Runs rows; returns [(fields of a result line, accesses of the row)]."""
    os.makedirs(folder)
    results = os.path.join(folder, "rows")
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_") or k == "MEMTRACE_DEVICE"}
    env.setdefault("MEMTRACE_DEVICE", "cpu")
    if COMPACT:
        env["MEMTRACE_FORMAT"] = "compact"
    env.update(MEMTRACE_DIR=folder, **dict(word.split("=", 1) for word in shlex.split(extra)))
    done = subprocess.run([program, "--out", results, *rows], capture_output=True, text=True, timeout=300, env=env,
                          errors="replace")
    if done.returncode != 0:
        raise Broken(f"{program} {shlex.join(rows)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    with open(results, encoding="utf-8") as f:
        lines = [line.rstrip("\n").split("\t") for line in f]
    untraced = run_untraced(program, results + ".untraced", env, rows)
    for line, other in zip(lines, untraced):
        if line[:4] != other[:4]:
            raise Broken(f"{program}: row {line[0]} is {line[2]} {line[3]}, but when it is not traced {other[2]} {other[3]}")
    accesses = read_accesses(folder)
    if len(accesses) != len(lines):
        raise Broken(f"{program} {shlex.join(rows)}: {len(lines)} rows, but {len(accesses)} marks in the trace")
    return list(zip(lines, accesses))


def run_untraced(program, results, env, rows):
    """The same rows by code without record calls: on the CPU device warps are vectors then."""
    done = subprocess.run([program, "--out", results, *rows], capture_output=True, text=True, timeout=300, errors="replace",
                          env={**env, "MEMTRACE_ENABLE": "0"})
    if done.returncode != 0:
        raise Broken(f"{program} {shlex.join(rows)}, not traced: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
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
            raise Broken(f"{path} is not complete: {companion.end()}, failed launches: {bad[:3]}")
        traced = [e for e in companion.all("launch") if e["traced"]]
        blobs = compact.read(path)[0] if COMPACT else trace.read(path)
        if len(blobs) != len(traced):
            raise Broken(f"{path}: {len(blobs)} launches, the companion has {len(traced)}")
        launches.update({e["seq"]: (launch, e) for launch, e in zip(blobs, traced)})
    rows = []
    for _, (launch, event) in sorted(launches.items()):
        if MARK.fullmatch(launch.kernel):
            rows.append([Counter(), 0])
            continue
        if not rows:
            raise Broken(f"launch of {launch.kernel} before the first row")
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


def run_topic(args, work, topic):
    """Rows of a topic as (name, what, verdict, accesses, note); the first level's are returned, all must hold."""
    source = os.path.join(HERE, topic + ".cu")
    wish = settings(source)
    include = os.path.join(args.build, "cuda-overlay", "include")
    missing = [h for h in wish["needs"].split() if not os.path.exists(os.path.join(include, h))]
    if missing:
        print(f"{topic}: skipped, the CUDA toolkit has no {', '.join(missing)}")
        return None
    first = None
    for level in wish["levels"].split()[:1 if getattr(args, "first", False) else None]:
        program = os.path.join(work, topic + level)
        compile_program(args.build, source, [level, *shlex.split(wish["flags"]), *getattr(args, "flag", ())], program)
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
                print(f"FAILED {topic} {level}: {fields[0]}: {verdict}")
                args.failed += 1
        double = [name for name, n in Counter(r[0] for r in rows).items() if n > 1]
        if double:
            raise Broken(f"{topic}: rows of the same name: {double}")
        print(f"{topic} {level}: {len(rows)} rows", flush=True)
        first = first or rows
    return first


def names_of(program, kind=None):
    done = subprocess.run([program, "--list"], capture_output=True, text=True, timeout=60, check=True)
    lines = [line.split("\t", 1) for line in done.stdout.splitlines()]
    return [name for how, name in lines if kind in (None, how)]


def has_plain(program):
    return bool(names_of(program, "row"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", help="build folder with bin/")
    parser.add_argument("--work", help="keep what is made here (default: a temporary folder, removed)")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--sections", action="store_true", help="only look for topics that are gone")
    parser.add_argument("--compact", action="store_true", help="into compact traces, whose accesses must be the same")
    parser.add_argument("--flag", action="append", default=[], help="one more word for mt-cc; may be given again")
    parser.add_argument("--first", action="store_true", help="only the first of each program's levels")
    parser.add_argument("topics", nargs="*")
    args = parser.parse_args()
    if args.compact:
        global COMPACT
        COMPACT = ".mtc"
    if args.list:
        print("\n".join(topics()))
        return 0
    if not args.build:
        parser.error("--build is missing")
    args.build, args.failed = os.path.realpath(args.build), 0
    work = os.path.realpath(args.work) if args.work else tempfile.mkdtemp(prefix="memtrace-conformance-")
    totals = table.Totals(os.path.join(HERE, "..", "..", "docs", "conformance.md"))
    try:
        for topic in [] if args.sections else args.topics or topics():
            if args.work:
                shutil.rmtree(work, ignore_errors=True)
                os.makedirs(work)
            if topic == "diagnostics":
                import diagnostics
                rows = diagnostics.run(args, work)
            else:
                rows = run_topic(args, work, topic)
            if rows is None:
                continue
            names = [row[0] for row in rows]
            if args.write:
                totals.put(topic, names)
            args.failed += totals.differs(topic, names)
            if not args.compact:
                table.write_section(args.build, topic, rows)
        if not args.topics:
            args.failed += totals.foreign(topics())
    except (Broken, trace.Malformed, subprocess.TimeoutExpired) as why:
        print(f"FAILED {why}")
        return 1
    finally:
        if not args.work:
            shutil.rmtree(work, ignore_errors=True)
    print(f"{args.failed} failures" if args.failed else "all rows hold")
    return 1 if args.failed else 0


if __name__ == "__main__":
    sys.exit(main())
