#!/usr/bin/env python3
"""Damaged traces and companions: no crash, no hang, a documented exit code, well-formed output.

usage: fuzz_test.py BIN_FOLDER GOLDEN_FOLDER [CASES]     most useful in the sanitizer builds
"""
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

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
                "mt-graph": rng.choice([["-f", "json"], ["-n", "size,site"]]),
                "mt-dump": rng.choice([["-c"], ["-s"], []]),
            }[tool]
            r = subprocess.run([os.path.join(BIN, tool), *options, path], capture_output=True, timeout=60)
            where = "case %d: %s %s" % (case, tool, options)
            assert r.returncode in (0, 3), (where, r.returncode, r.stderr.decode(errors="replace")[-3000:])
            if tool == "mt-extract" or "json" in options:
                complete = json.loads(r.stdout.decode())["complete"]
                assert complete == (r.returncode == 0), where
            assert (r.returncode == 0) or r.stderr.startswith(tool.encode() + b": "), (where, r.stderr)
            codes[r.returncode] = codes.get(r.returncode, 0) + 1
    assert set(codes) == {0, 3}, codes
    print("%d damaged inputs: exit codes %s" % (CASES, codes))


if __name__ == "__main__":
    main()
