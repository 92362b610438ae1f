#!/usr/bin/env python3
"""comm.json fits docs/comm.schema.json, with every section, of raw, host and compact traces, sampled and whole; what is not in the
schema is refused by it. And addresses that nobody asked for do not make the file too large.

usage: schema_test.py BIN SOURCE GEN_HOST GEN_DEVICE [CASES]     77: there is no jsonschema (package python3-jsonschema)
"""
import copy
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("no jsonschema: the package python3-jsonschema has it")
    sys.exit(77)

sys.path.append(os.path.join(sys.argv[2], "tests/report"))
import host_traces
import property_test as cases
import spaces
import traces

BIN, SOURCE, GEN_HOST, GEN_DEVICE = sys.argv[1:5]
SEEN = set()  # members met, by name


def extract(*args):
    p = subprocess.run([os.path.join(BIN, "mt-extract"), *args], capture_output=True)
    assert p.returncode in (0, 3), p.stderr
    return json.loads(p.stdout)


def onchip(folder):
    """Bank conflicts and a hazard in shared memory."""
    path = os.path.join(folder, "onchip.mtc")
    with open(path, "wb") as f:
        f.write(spaces.container([("k", [(1, spaces.LOAD + spaces.SHARED, 4, 0xffffffff, 0, 64), (2, spaces.STORE + spaces.SHARED, 4, 3, 0, 4), (1, spaces.LOAD + spaces.SHARED, 4, 2, 0, 4)])],
                                 [("a.cu", 1 + i, "v") for i in range(4)]))
    return path


def check(validator, out):
    error = jsonschema.exceptions.best_match(validator.iter_errors(out))
    assert error is None, "%s at %s" % (error.message[:300], "/".join(map(str, error.absolute_path)))
    SEEN.update(out)


def random_case(folder, seed):
    rng = random.Random(seed)
    if seed % 3 == 0:
        path = os.path.join(folder, "t%d.mtc" % seed)
        subprocess.run([GEN_DEVICE, str(seed), "1", path, "64"], check=True, stdout=subprocess.DEVNULL)
        return [path]
    data, metas, _, _, accesses = cases.make_case(rng, seed % 3 == 1)
    paths = []
    for i, (d, m) in enumerate(zip(data, metas)):
        paths.append(os.path.join(folder, "t%d-%d" % (seed, i)))
        with open(paths[-1], "wb") as f:
            f.write(d)
        if m is not None:
            with open(paths[-1] + ".meta", "w") as f:
                f.write(m)
    if accesses is not None:
        paths.append(os.path.join(folder, "t%d-host.mtc" % seed))
        host_traces.write(GEN_HOST, paths[-1], host_traces.script(accesses))
    return paths


def sampled(folder):
    """One of two CTAs traced, with lanes that were taken apart, and a call of a library."""
    path = os.path.join(folder, "sampled")
    with open(path, "wb") as f:
        f.write(traces.trace([("k", [traces.record(0, 1, 4, 0x100, (0, 0, 0))]), ("cublasSgemm", [traces.record(0, 0, 4, 0x100, (0, 0, 0))])]))
    events = [{"ev": "launch", "seq": 1, "kernel": "k", "grid": [2, 1, 1], "records": 1, "traced": True, "ctas": [1, 2], "parted": 2},
              {"ev": "launch", "seq": 2, "kernel": "cublasSgemm", "grid": [1, 1, 1], "records": 1, "traced": True, "library": "cublas"}]
    with open(path + ".meta", "w") as f:
        f.write(traces.companion(events, end={"records_written": 2, "records_counted": 2}))
    return path


def threads(folder):
    """A host program of two threads."""
    path = os.path.join(folder, "threads.mtc")
    host_traces.write(sys.argv[3], path, host_traces.script([
        {"time": i, "seq": 1, "thread": i & 1, "place": "/a.c:1", "op": "atomic", "addr": 0x100, "size": 8} for i in range(1, 5)],
        [{"ev": "stack", "id": 7, "callers": ["/a.c:3 in make", "prog:main"]},
         {"ev": "alloc", "seq": 1, "id": 0, "base": "0x100", "bytes": 16, "kind": "malloc", "file": "/a.c", "line": 2, "stack": 7},
         {"ev": "alloc", "seq": 2, "id": 1, "base": "0x200", "bytes": 16, "kind": "calloc", "file": "", "line": 0}]), timed=True)
    return path


def devices(folder):
    """A load by device 1 from device 0's memory, a store into its own, and a copy between them; the bytes that the section has."""
    path = os.path.join(folder, "devices")
    with open(path, "wb") as f:
        f.write(traces.trace([("k", [traces.record(0, 0, 4, 0x100, (0, 0, 0)), traces.record(0, 1, 8, 0x200, (0, 0, 0))])]))
    events = [{"ev": "alloc", "seq": i, "id": i, "base": hex(0x100 * (i + 1)), "bytes": 64, "kind": "cudaMalloc", "name": "", "file": "", "line": 0,
               "device": i} for i in (0, 1)]
    events += [{"ev": "memcpy", "seq": 2, "kind": "d2d", "dst": "0x200", "src": "0x100", "bytes": 16, "stream": -1, "dst_device": 1, "src_device": 0},
               {"ev": "launch", "seq": 3, "kernel": "k", "device": 1, "grid": [1, 1, 1], "records": 2, "traced": True}]
    with open(path + ".meta", "w") as f:
        f.write(traces.companion(events, end={"records_written": 2, "records_counted": 2}))
    return path


def refused(validator, out):
    """A member more, one less, or of another type, anywhere: the schema sees it."""
    def change(value, way):
        if way == 0:
            value["more"] = 1
        elif way == 1:
            del value[next(iter(value))]
        else:
            value[next(iter(value))] = [[]]

    # objects with members of their own, not of kernels or numbers
    for path in ((), ("options",), ("reuse",), ("placement",), ("sharing",), ("lines",), ("placement", "policies")):
        for way in range(3):
            bad = copy.deepcopy(out)
            at = bad
            for step in path:
                at = at[step]
            change(at, way)
            assert not validator.is_valid(bad), (path, way)


def many_addresses(folder):
    """A million operations and one: left out, with a note, unless asked for; a million are listed."""
    for n, here in ((1000000, True), (1000001, False)):
        path = os.path.join(folder, "many")
        with open(path, "wb") as f:
            f.write(traces.trace([("w", [traces.record(0, 1, 4, 0x100, (0, 0, 0))]),
                                  ("r", [traces.record(0, 0, 4, 0x100, (1, 0, 0))]), ("x", [])])[:-24])
            f.write(traces.record(0, 0, 4, 0x100, (1, 0, 0)) * (n - 2) + traces.EOT)
        out = extract(path)
        assert ("addresses" in out) == here and any("addresses are left out" in x for x in out["notes"]) != here
        if here:
            assert len(out["addresses"]["0x100"]) == n
    assert len(extract("-s", "addresses", path)["addresses"]["0x100"]) == n


def main():
    with open(os.path.join(SOURCE, "docs/comm.schema.json"), encoding="utf-8") as f:
        schema = json.load(f)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    with tempfile.TemporaryDirectory(prefix="mt-schema-") as folder:
        many_addresses(folder)
        for seed in range(1, (int(sys.argv[5]) if len(sys.argv) > 5 else 12) + 1):
            paths = random_case(folder, seed)
            for more in ((), ("--sample=2", "--strict"), ("-k", "a", "-t", "0..2")):
                out = extract("-s", "all,more", *more, *paths)
                check(validator, out)
            check(validator, extract(*paths))
        out = extract("-s", "all,more", sampled(folder))
        assert out["apart"] == ["k"] and any("2 times (most in k) lanes of a warp were split" in x for x in out["gaps"]), out["gaps"]
        text = subprocess.run([os.path.join(BIN, "mt-extract"), "--format=text", "-s", "KDV,transfers", sampled(folder)], capture_output=True, text=True).stdout
        assert ["k", "1", "1", "2", "1", "0", "4", "0", "8"] in [x.split() for x in text.splitlines()], text  # one of two CTAs stored 4 bytes
        assert "count for an earlier writer" in text and "a sample" not in subprocess.run(
            [os.path.join(BIN, "mt-extract"), "--format=text", "-s", "transfers", "--no-companion", sampled(folder)], capture_output=True, text=True).stdout
        check(validator, out)
        check(validator, extract("-s", "all,more", threads(folder)))
        check(validator, extract("-s", "all,more,shared", onchip(folder)))
        several = extract("-s", "all,more", "--topology=pcie", devices(folder))
        check(validator, several)
        got = sorted((r["by"], r["from"], r["to"], r["bytes"], r["superstep"]) for r in several["devices"])
        assert got == [("copy", "0", "1", 16, None), ("load", "0", "1", 4, 0), ("store", "1", "1", 8, 0)], got
        refused(validator, out)
    missing = set(schema["properties"]) - SEEN - {"interrupted"}
    assert not missing, "no case has %s" % missing
    print("%d members" % len(SEEN))


if __name__ == "__main__":
    main()
