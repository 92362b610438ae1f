#!/usr/bin/env python3
"""Damaged traces and companions: no crash, no hang, a documented exit code, well-formed output.

usage: fuzz_test.py BIN_FOLDER GOLDEN_FOLDER [CASES]     most useful in the sanitizer builds
"""
import glob
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "container"))
sys.dont_write_bytecode = True
import mtc  # noqa: E402

BIN, GOLDEN = sys.argv[1:3]
CASES = int(sys.argv[3]) if len(sys.argv) > 3 else 400


def damage(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        what, at = rng.randrange(5), rng.randrange(len(data)) if data else 0
        if what == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif what == 1 and data:
            data[at] = rng.randrange(256)
        elif what == 2:
            data = data[:at]
        elif what == 3:
            data[at:at] = data[at : at + rng.randrange(60)]
        elif data:
            del data[at : at + rng.randrange(1, 30)]
    return bytes(data)


def damage_inside(rng, data):
    """A container whose checksums are right and whose payloads and chunk heads are not: these get past the readers' doors."""
    try:
        parts = list(mtc.chunks(data))
    except (mtc.Bad, struct.error, MemoryError):
        return damage(rng, data)
    out = bytearray(data[:64])
    for c in parts:
        payload, fields = c.payload, [c.items, c.key, c.first, c.last]
        if rng.random() < 1.5 / len(parts):
            if rng.random() < 0.8 and payload:
                payload = damage(rng, payload)
            else:
                fields[rng.randrange(4)] = rng.choice([0, 1, 2, 1 << 20, 1 << 32, (1 << 64) - 1, rng.getrandbits(64)])
        out += mtc.chunk(c.type, payload, *fields, flags=c.flags)
        if rng.random() < 0.05:
            out += mtc.chunk(c.type, payload, *fields, flags=rng.randrange(4))  # once more
    return bytes(out)


# Tools that read containers, too, with options that lead to different code. FILE: an output of its own.
OTHERS = [
    ("mt-extract", ["-s", "all"]), ("mt-extract", ["--sections", "more"]), ("mt-extract", ["--format", "csv"]),
    ("mt-extract", ["--format", "sqlite", "-o", "FILE"]), ("mt-extract", ["--format", "dot"]),
    ("mt-extract", ["--format", "summary"]), ("mt-extract", ["--format", "perfetto"]), ("mt-extract", ["--format", "sqlite", "-s", "more", "-o", "FILE"]),
    ("mt-extract", ["--format", "parquet", "--table", "ranges"]), ("mt-extract", ["--format", "csv", "--table", "conflicts"]),
    ("mt-extract", ["--format", "text", "--threads", "3"]), ("mt-graph", []), ("mt-graph", ["-f", "graphml"]), ("mt-dump", []),
    ("mt-dump", ["--runs"]), ("mt-dump", ["--head", "3"]), ("mt-report", ["-o", "FILE"]), ("mt-convert", ["--to", "mtc"]),
    ("mt-convert", ["--to", "raw", "-o", "FILE"]), ("mt-convert", ["--to", "mat"]), ("mt-convert", ["--to", "atomic"]),
    ("mt-convert", ["--to", "insn"]), ("mt-convert", ["--to", "mtc", "--level", "0", "--launches", "0..1", "-o", "FILE"]),
    ("mt-convert", ["--to", "drmemtrace"]), ("mt-convert", ["--to", "champsim"]), ("mt-convert", ["--to", "ramulator"]), ("mt-convert", ["--to", "gem5"]),
    ("mt-convert", ["--order", "file", "--to", "mat"]), ("mt-convert", ["--order=time"]), ("mt-compare", []),
]


def any_tool(cases):
    """Containers and raw traces, and every tool: it ends by itself, with a documented code, and says why when it is not 0."""
    seeds = sorted(glob.glob(GOLDEN + "/succeed/*.trace") + glob.glob(GOLDEN + "/container/*/*.mtc"))
    tools = [t for t in OTHERS if os.path.exists(os.path.join(BIN, t[0]))]
    codes = {}
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "t"), os.path.join(folder, "out")
        for case in range(cases):
            rng = random.Random(1000000 + case)
            seed = rng.choice(seeds)
            with open(seed, "rb") as f, open(path, "wb") as g:
                how = damage_inside if seed.endswith(".mtc") and rng.random() < 0.8 else damage
                g.write(how(rng, f.read()) if rng.random() < 0.95 else f.read())
            tool, options = rng.choice(tools)
            argv = [os.path.join(BIN, tool), *(out if o == "FILE" else o for o in options)]
            if "--order=time" in argv or (tool != "mt-compare" and rng.random() < 0.1):  # from standard input
                with open(path, "rb") as f:
                    r = subprocess.run([*argv, *([] if "--order=time" in argv else ["-"])], stdin=f, capture_output=True, timeout=60)
            else:
                r = subprocess.run([*argv, path, *([seed] if tool == "mt-compare" else [])], capture_output=True, timeout=60)
            where = "case %d: %s of %s: exit code %d: %s" % (case, argv, seed, r.returncode,
                                                           r.stderr.decode(errors="replace")[-3000:])
            assert r.returncode in (0, 1, 2, 3), where  # 2: of a file that is not a trace
            assert r.returncode == 0 or r.stderr.startswith(tool.encode() + b": "), where
            assert b"runtime error" not in r.stderr and b"Sanitizer" not in r.stderr, where
            codes[r.returncode] = codes.get(r.returncode, 0) + 1
    print("%d damaged inputs of any kind: exit codes %s" % (cases, codes))


def main():
    seeds = [p for p in glob.glob(GOLDEN + "/succeed/*.trace") + glob.glob(GOLDEN + "/fail/*.trace")]
    codes = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t")
        for case in range(CASES):
            rng = random.Random(case)
            seed = rng.choice(sorted(seeds))
            meta = seed + ".meta"
            with open(seed, "rb") as f, open(path, "wb") as g:
                g.write(damage(rng, f.read()) if rng.random() < 0.7 else f.read())
            if os.path.exists(path + ".meta"):
                os.unlink(path + ".meta")
            if os.path.exists(meta):
                with open(meta, "rb") as f, open(path + ".meta", "wb") as g:
                    g.write(damage(rng, f.read()) if rng.random() < 0.7 else f.read())
            tool = rng.choice(["mt-extract", "mt-extract", "mt-graph", "mt-dump"])
            options = {
                "mt-extract": rng.choice([["-s", "all"], ["--strict"], ["--same-cta=local"]]),
                "mt-graph": rng.choice([["-f", "json"], ["--node", "size,site"]]),
                "mt-dump": rng.choice([["--companion"], ["--stat"], []]),
            }[tool]
            r = subprocess.run([os.path.join(BIN, tool), *options, path], capture_output=True, timeout=60)
            where = "case %d: %s %s" % (case, tool, options)
            with open(path, "rb") as f:
                refused = f.read(1) >= b" "  # it does not begin like a trace: no analysis
            assert (r.returncode == 2) == refused and r.returncode in (0, 2, 3), (where, r.returncode, r.stderr.decode(errors="replace")[-3000:])
            if r.returncode != 2 and (tool == "mt-extract" or "json" in options):
                complete = json.loads(r.stdout.decode())["complete"]
                assert bool(complete) == (r.returncode == 0 and os.path.exists(path + ".meta")), where  # null: not known
            assert (r.returncode == 0) or r.stderr.startswith(tool.encode() + b": "), (where, r.stderr)
            codes[r.returncode] = codes.get(r.returncode, 0) + 1
    assert {0, 3} <= set(codes) <= {0, 2, 3}, codes
    print("%d damaged inputs: exit codes %s" % (CASES, codes))
    any_tool(CASES)


if __name__ == "__main__":
    main()
