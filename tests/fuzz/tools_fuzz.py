#!/usr/bin/env python3
"""The command-line tools on hostile input: no fault, no long wait, bounded memory, a documented exit code, words that
begin with the tool's name, nothing that commands a terminal, JSON that parses and calls whole only what is.

usage: tools_fuzz.py BIN SOURCE [--cases N | --seconds S] [--seed N] [--keep DIR]     most useful with sanitizers in BIN
A case that fails is kept in DIR with its command. Each file of corpus/tools goes through every tool first.
"""
import argparse
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mutate

TOOLS = [["mt-extract", "-s", "all"], ["mt-extract", "-s", "more"], ["mt-extract", "-s", "all,more", "--strict", "--same-cta=local"],
         ["mt-extract", "-s", "all,more", "--threads", "5", "--line-size", "32", "--sample", "2", "--devices", "7", "--top", "3"],
         ["mt-extract", "-s", "KCV,HCV", "--format", "csv"], ["mt-extract", "-s", "transfers", "--format", "csv"],
         ["mt-extract", "--format", "dot", "--by", "cta"], ["mt-extract", "--format", "dot", "--by", "launch", "--edges", "3"],
         ["mt-extract", "--format", "text", "-s", "all,more"], ["mt-extract", "--format", "sqlite", "-o", "OUT"], ["mt-report", "-o", "OUT"],
         ["mt-report", "--quick", "-o", "OUT"], ["mt-graph"], ["mt-graph", "-f", "json", "--sequence"],
         ["mt-graph", "-f", "graphml", "--node", "buffer,stride,type,size,site"], ["mt-dump"], ["mt-dump", "--companion"], ["mt-dump", "--stat"], ["mt-dump", "--runs"],
         ["mt-dump", "--counts"], ["mt-dump", "--chunks", "--sites"], ["mt-convert", "--to", "mtc", "-o", "OUT"],
         ["mt-convert", "--to", "raw", "-o", "OUT"], ["mt-convert", "--to", "mat"], ["mt-convert", "--to", "atomic"], ["mt-convert", "--to", "insn"],
         ["mt-compare", "-f", "json"], ["mt-compare", "-f", "csv"], ["mt-convert", "--order=time"], ["mt-extract", "-s", "shared"], ["mt-extract", "-s", "shared,KDV", "--format", "text"]]
FROM = [["mt-report", "-o", "OUT", "--from"]]
LIMIT, MEMORY = 30, 2000  # seconds and MiB of one case, under sanitizers and on a busy machine
SANITIZERS = {"ASAN_OPTIONS": f"detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb={MEMORY}:hard_rss_limit_mb={MEMORY}:exitcode=99",
              "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=98"}
MAT = b"4198400 140000 0 140000 1 8 4096\n4198404 140008 8 140000 2 8 4096\n4198400 a.c:3\n"
ATOMIC = b"1\t0\ttr\n2\t0\tm\tr 4096 8\tw 4096 8\n3\t1\ttr\n4\t1\tm\tr 4096 8\n5\t0\ttf\n6\t1\ttf\n"
COMMANDS = re.compile(rb"[\0-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


def run(argv, stdin):
    """-> exit code or a word, stdout, stderr"""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        p = subprocess.Popen(argv, stdin=stdin or subprocess.DEVNULL, stdout=out, stderr=err, env={**os.environ, **SANITIZERS})
        try:
            code = p.wait(LIMIT)
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            p.wait()
            code = "time"
        out.seek(0)
        err.seek(0)
        return code, out.read(4 << 20), err.read(1 << 20)


def no_doubles(pairs):
    if len({k for k, _ in pairs}) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def wrong(tool, code, out, err):
    """What is wrong with the result; None: nothing."""
    if code == "time":
        return "took too long"
    if b"Sanitizer" in err or b"runtime error" in err:
        return "sanitizer"
    if code not in (0, 1, 2, 3):
        return f"exit code {code}"
    if code == 1 and b"memory" in err:
        return "memory"
    for line in err.splitlines():
        if not line.startswith(tool[0].encode() + b": "):
            return "stderr has a line that is not the tool's"
    if code != 0 and not err and tool[0] not in ("mt-dump", "mt-report"):  # their output says it
        return "no word on what is wrong"
    if COMMANDS.search(err):
        return "stderr could command a terminal"
    binary = tool[0] == "mt-convert" and ("mtc" in tool or "raw" in tool) or len(out) >= 4 << 20
    if not binary and COMMANDS.search(out.replace(b"\r\n", b"\n")):
        return "stdout could command a terminal"
    if "json" in tool or (tool[0] == "mt-extract" and "--format" not in tool):
        try:
            o = json.loads(out, object_pairs_hook=no_doubles) if out and not binary else None
        except (ValueError, RecursionError) as e:
            return f"JSON: {e}"
        if o is None and code == 0 and not binary:
            return "no output"
        unknown = o and code == 0 and "without companion" in " ".join(o.get("notes", []))
        if o and tool[0] == "mt-extract" and o["complete"] is not (None if unknown else code == 0):
            return "complete and the exit code differ"
    return None


class World:
    def __init__(self, bin_, source, keep):
        self.bin, self.keep, self.failed, self.count, self.codes = bin_, keep, 0, 0, {}
        golden = os.path.join(source, "tests/golden/")
        self.raw = [self.read(p) for p in sorted(glob.glob(golden + "succeed/*.trace") + glob.glob(golden + "fail/*.trace"))]
        self.pairs = [(self.read(p), self.read(p + ".meta")) for p in sorted(glob.glob(golden + "succeed/*.trace")) if os.path.exists(p + ".meta")]
        self.containers = [self.read(p) for p in sorted(glob.glob(golden + "container/*/*.mtc")) if os.path.getsize(p) < 300000]
        self.stride = golden + "succeed/stride.trace"
        self.graph = self.make("mt-graph", "-f", "json", "--sequence", self.stride)
        self.comm = self.make("mt-extract", "-s", "all,more", golden + "succeed/worked-example.trace")
        self.folder = tempfile.mkdtemp(prefix="mt-fuzz-")

    @staticmethod
    def read(path):
        with open(path, "rb") as f:
            return f.read()

    def make(self, tool, *args):
        return subprocess.run([os.path.join(self.bin, tool), *args], capture_output=True, check=True).stdout

    def file(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def check(self, label, tool, inputs, stdin=None):
        tool_ = [os.path.join(self.folder, "out") if w == "OUT" else w for w in tool]
        argv = [os.path.join(self.bin, tool_[0]), *tool_[1:], *inputs]
        with open(stdin or os.devnull, "rb") as f:
            code, out, err = run(argv, f)
        self.count += 1
        self.codes[code] = self.codes.get(code, 0) + 1
        why = wrong(tool, code, out, err)
        if why:
            self.failed += 1
            kept = os.path.join(self.keep, re.sub(r"\W+", "-", label))
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(self.folder, kept)
            with open(os.path.join(kept, "command"), "w", encoding="utf-8") as f:
                f.write(f"{' '.join(argv)}{' < ' + stdin if stdin else ''}\n{why}\n")
            with open(os.path.join(kept, "stderr"), "wb") as f:
                f.write(err)
            print(f"{label}: {why}: {' '.join(argv)}\n    {err[:300]!r}\n    kept in {kept}", flush=True)

    def kept_inputs(self, corpus):
        """Every file that ever broke something, through every tool."""
        for path in sorted(glob.glob(os.path.join(corpus, "*"))):
            name = os.path.basename(path)
            if name.endswith(".meta"):
                continue
            for i, tool in enumerate(FROM if name.endswith(".json") else TOOLS):
                self.clear()
                if "--order=time" in tool:
                    self.check(f"{name} {i}", tool, [], stdin=path)
                elif tool[0] == "mt-compare":
                    self.check(f"{name} {i}", tool, [path, self.stride])
                else:
                    self.check(f"{name} {i}", tool, [path])

    def clear(self):
        shutil.rmtree(self.folder)
        os.mkdir(self.folder)

    def random_case(self, seed):
        rng = random.Random(seed)
        tool, kind, label = rng.choice(TOOLS), rng.randrange(20), f"seed {seed}"
        self.clear()
        if kind < 5:
            path = self.file("t", mutate.raw_trace(rng, rng.choice(self.raw)))
        elif kind < 10:
            trace, meta = rng.choice(self.pairs)
            path = self.file("t", trace if rng.random() < 0.6 else mutate.raw_trace(rng, trace))
            self.file("t.meta", mutate.lines(rng, meta))
        elif kind < 17:
            path = self.file("t", mutate.container(rng, rng.choice(self.containers)))
        elif kind == 17:
            path = self.file("t", mutate.raw_bytes(rng, rng.choice([MAT, ATOMIC]) * rng.randrange(1, 20)))
            tool = rng.choice([["mt-graph"], ["mt-graph", "-f", "json"], ["mt-convert", "--order=time"], ["mt-compare", "-f", "csv"], ["mt-dump"]])
        elif kind == 18:
            flat = self.comm.replace(b"\n", b" ")
            path = self.file("t", mutate.lines(rng, flat) if rng.random() < 0.5 else mutate.raw_bytes(rng, self.comm, 3))
            tool = FROM[0]
        else:
            flat = self.graph.replace(b"\n", b" ")
            path = self.file("t", mutate.lines(rng, flat) if rng.random() < 0.5 else mutate.raw_bytes(rng, self.graph, 4))
            tool = ["mt-compare", "-f", rng.choice(["json", "csv"])]
        inputs = [path]
        if kind < 17 and rng.random() < 0.12:
            inputs.append(self.file("u", mutate.container(rng, rng.choice(self.containers)) if rng.random() < 0.5
                                    else mutate.raw_trace(rng, rng.choice(self.raw))))
        if tool[0] == "mt-compare" and len(inputs) < 2:
            inputs.append(self.stride)
        if "--order=time" in tool:
            self.check(label, tool, [], stdin=path)
        elif len(inputs) == 1 and tool[0] in ("mt-extract", "mt-dump", "mt-graph") and rng.random() < 0.08:
            self.check(label, tool, ["-"], stdin=path)
        else:
            self.check(label, tool, inputs)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("bin")
    a.add_argument("source")
    a.add_argument("--cases", type=int, default=400)
    a.add_argument("--seconds", type=float)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--keep", default="found")
    o = a.parse_args()
    w = World(os.path.abspath(o.bin), os.path.abspath(o.source), os.path.abspath(o.keep))
    end = time.monotonic() + o.seconds if o.seconds else None
    w.kept_inputs(os.path.join(o.source, "tests/fuzz/corpus/tools"))
    seed = o.seed * 1000000
    while time.monotonic() < end if end else seed < o.seed * 1000000 + o.cases:
        w.random_case(seed)
        seed += 1
    shutil.rmtree(w.folder, ignore_errors=True)
    print(f"{w.count} runs, exit codes {dict(sorted(w.codes.items(), key=str))}, {w.failed} wrong")
    return 1 if w.failed else 0


sys.exit(main())
