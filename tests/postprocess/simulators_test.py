#!/usr/bin/env python3
"""memtrace convert --to drmemtrace, champsim, ramulator and gem5: each read back by a reader written here from the simulator's own definition
(docs/simulators.md names the files), and compared with the accesses that went in. usage: simulators_test.py BIN GEN_HOST"""
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

import host_traces
import traces

BIN, GEN_HOST = sys.argv[1:3]
# site: (instruction pointer, operation): 4 and 5 are the two operands of one instruction, as of a copy from memory to memory
SITES = {4: (0x401000, "load"), 5: (0x401000, "store"), 8: (0x401010, "atomic"), 12: (0x401020, "cas"), 16: (0x401030, "cas-failed"),
         20: (0, "load"), 24: (0x401040, "unknown"), 28: (0x401050, "exec")}


def convert(*args, code=0):
    p = subprocess.run([os.path.join(BIN, "mt-convert"), *args], capture_output=True)
    assert p.returncode == code, (args, p.returncode, p.stderr)
    return p.stdout, p.stderr.decode()


def reads(op):
    return op in ("load", "atomic", "cas", "cas-failed")


def writes(op):
    return op in ("store", "atomic", "cas")


def host(path, rng, threads):
    """A host trace, and its accesses (thread, site, address, size) in the order of the process."""
    lines = ["M " + json.dumps({"ev": "header", "version": 1, "pid": 77, "start_ns": 9, "mode": "mat"})]
    lines += ["M " + json.dumps({"ev": "site", "id": s, "op": op, "size": 0, "file": "a.c", "line": s, "column": 1, "ip": hex(ip)} if ip else
                                {"ev": "site", "id": s, "op": op, "size": 0, "file": "a.c", "line": s, "column": 1}) for s, (ip, op) in SITES.items()]
    lines += ["M " + json.dumps({"ev": "thread", "number": t, "native": 900 + t}) for t in range(threads)]
    out = []
    for t in range(threads):
        seq = 1
        lines.append("T %d %d" % (t, seq))
        for _ in range(rng.randint(20, 60)):
            if rng.random() < 0.2:
                seq += 1
                lines.append("S %d" % seq)
            site = rng.choice([4, 4, 5, 8, 12, 16, 20, 24, 28])
            address, size = 0x7F0000000000 + rng.randrange(0, 4096), rng.choice([1, 4, 8, 8, 16, 64, 100])
            if rng.random() < 0.02:
                size = rng.choice([40000, 300000])
            lines.append("A %d %d %d" % (site, address, size))
            out.append((seq, t, len(out), site, address, size))
    lines.append("M " + json.dumps({"ev": "end", "records_written": len(out), "records_counted": len(out), "complete": True}))
    host_traces.write(GEN_HOST, path, "\n".join(lines) + "\n")
    out = [(t, s, a, n) for _, t, _, s, a, n in sorted(out)]
    return [x for x in out if SITES[x[1]][1] not in ("unknown", "exec") and x[3] <= 262144], out


def blocks(address, size):
    """Pieces between the edges of blocks of 64 bytes."""
    while size:
        n = min(size, 64 - address % 64)
        yield address, n
        address, size = address + n, size - n


# ---- drmemtrace: clients/drcachesim/common/trace_entry.h, reader/reader.cpp ----

def drmemtrace(data):
    """(tid, pid, pc, write, address, size) of each data reference, as reader_t sees them."""
    assert len(data) % 12 == 0
    entries = [struct.unpack_from("<HHQ", data, i) for i in range(0, len(data), 12)]
    assert entries[0] == (25, 0, 4) and entries[1] == (28, 12, 4) and entries[2] == (28, 9, 0xC0) and entries[-1] == (26, 0, 0)
    tid = pid = pc = 0
    pids, out, ended = {}, [], set()
    for kind, size, value in entries[3:-1]:
        assert tid not in ended or kind in (22, 23)
        if kind == 22:  # THREAD
            tid, pid = value, pids.get(value, 0)
        elif kind == 24:  # PID
            pid = pids[tid] = value
        elif kind == 23:  # THREAD_EXIT
            assert value in pids and value not in ended
            ended.add(value)
        else:
            assert tid and pid, "the reader wants a thread first"
            if kind == 28:  # cache line, time, processor: one for each thread
                assert (size, value) in ((10, 64), (2, 1), (3, len(pids) - 1)) and not any(o[0] == tid for o in out)
            elif kind == 29:
                assert size == 0  # the pc of what follows
                pc = value
            else:
                assert kind in (0, 1) and size
                out.append((tid, pid, pc, kind, value, size))
    assert ended == set(pids)
    return out


def check_drmemtrace(path, accesses):
    want = []
    for t, site, address, size in accesses:
        ip, op = SITES[site]
        for write in (0, 1):
            if (writes if write else reads)(op):
                want += [(900 + t, 77, ip or site // 4, write, address + i, min(32768, size - i)) for i in range(0, size, 32768)]
    assert drmemtrace(convert("--to", "drmemtrace", path)[0]) == want


# ---- champsim: inc/trace_instruction.h ----

def champsim(data):
    assert len(data) % 64 == 0
    for i in range(0, len(data), 64):
        ip, branch, taken, *rest = struct.unpack_from("<QBB6B2Q4Q", data, i)
        assert not branch and not taken and not any(rest[:6])
        yield ip, [a for a in rest[6:8] if a], [a for a in rest[8:] if a]


def check_champsim(path, accesses, threads):
    for t in range(threads):
        want = []
        for thread, site, address, _ in accesses:
            ip, op = SITES[site]
            if thread != t:
                continue
            same = want and want[-1][3] == site // 4 and site not in want[-1][4]  # another operand of the instruction
            if not same or len(want[-1][1]) + writes(op) > 2 or len(want[-1][2]) + reads(op) > 4:
                want.append((ip or site // 4, [], [], site // 4, set()))
            want[-1][4].add(site)
            if writes(op):
                want[-1][1].append(address)
            if reads(op):
                want[-1][2].append(address)
        assert list(champsim(convert("--to", "champsim", "--thread", str(t), path)[0])) == [w[:3] for w in want]
    if threads == 1:
        return
    said = convert("--to", "champsim", path, code=2)
    assert said[0] == b"" and "--thread" in said[1]
    with open(path + ".old", "w", encoding="utf-8") as f:
        f.write("old")
    convert("--to", "champsim", "-o", path + ".old", path, code=2)
    assert open(path + ".old", encoding="utf-8").read() == "old"


# ---- ramulator: src/ramulator/frontend/impl/memory_trace/loadstore_trace.cpp ----

def ramulator(data):
    for line in data.decode().splitlines():
        op, address = line.split(" ")
        assert op in ("LD", "ST") and re.fullmatch("0x[0-9a-f]+", address)
        yield op == "ST", int(address[2:], 16)


# ---- gem5: src/proto/packet.proto, src/proto/protoio.cc, src/mem/packet.hh ----

def varint(data, at):
    value, shift = 0, 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def message(data):
    out, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        assert key & 7 in (0, 2) and key >> 3 not in out
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        out[key >> 3] = value
    return out


def gem5(data):
    assert data[:4] == b"gem5"
    at, messages = 4, []
    while at < len(data):
        n, at = varint(data, at)
        messages.append(message(data[at:at + n]))
        at += n
    assert at == len(data) and messages[0] == {1: b"memtrace", 3: 10**12}
    ticks = [m[1] for m in messages[1:]]
    assert ticks == sorted(ticks)
    for m in messages[1:]:
        assert set(m) in ({1, 2, 3, 4, 6}, {1, 2, 3, 4, 6, 7}) and m[2] in (1, 4) and m[3] // 64 == (m[3] + m[4] - 1) // 64
        yield m[1], m[2] == 4, m[3], m[4], m[6], m.get(7)


def check_memory(path, accesses, *options):
    """accesses: (thread, ip, reads, writes, address, size)."""
    want = [(i, w, a, n, t, ip) for i, (t, ip, r, wr, address, size) in enumerate(accesses) for w in (False, True) if (wr if w else r)
            for a, n in blocks(address, size)]
    assert list(ramulator(convert("--to", "ramulator", *options, path)[0])) == [(w, a) for _, w, a, _, _, _ in want]
    assert list(gem5(convert("--to", "gem5", *options, path)[0])) == [(1000 * i, w, a, n, t, ip or None) for i, w, a, n, t, ip in want]


def kernels(folder):
    path = os.path.join(folder, "raw")
    rng = random.Random(5)
    launches = [(k, [(rng.randrange(4), rng.randrange(4), rng.choice([4, 8, 16, 128]), 0x10000 + rng.randrange(4096)) for _ in range(50)])
                for k in ("a", "b", "a")]
    with open(path, "wb") as f:
        f.write(traces.trace([(k, [traces.record(sm, kind, size, at, (sm, 0, 0)) for sm, kind, size, at in rs]) for k, rs in launches]))
    convert("-o", path + ".mtc", path)
    for options, chosen in (((), launches), (("-k", "^a$"), [launches[0], launches[2]]), (("--launches", "1"), launches[1:2])):
        accesses = [(sm, 0, kind != 1, kind != 0, at, size) for _, rs in chosen for sm, kind, size, at in rs if kind < 3]
        for form in (path, path + ".mtc"):
            check_memory(form, accesses, *options)
    unknown = sum(kind == 3 for _, rs in launches for _, kind, _, _ in rs)
    assert "%d accesses are left out" % unknown in convert("--to", "ramulator", path)[1]
    for to in ("drmemtrace", "champsim"):
        assert "host code" in convert("--to", to, path, code=2)[1]


def streams(folder):
    """Launches of two streams take turns: one input for the simulator, in launch order, and a stream of it."""
    run = os.path.join(folder, "run")
    os.mkdir(run)
    rng = random.Random(6)
    launches = [(1 + i, i % 2 if i < 4 else 1, [(0, 0x10000 * (i + 1) + rng.randrange(4096)) for _ in range(20)]) for i in range(5)]
    says = [{"ev": "stream", "stream": s, "trace": "MemTrace-pipe-%d" % s} for s in (0, 1)]
    for s in (0, 1):
        mine = [(n, r) for n, stream, r in launches if stream == s]
        path = os.path.join(run, "MemTrace-pipe-%d" % s)
        with open(path, "wb") as f:
            f.write(traces.trace([("k", [traces.record(0, k, 4, at, (0, 0, 0)) for k, at in r]) for _, r in mine]))
        with open(path + ".meta", "w", encoding="utf-8") as f:
            f.write(traces.companion([{"ev": "launch", "seq": n, "kernel": "k", "stream": s, "traced": True, "records": len(r)} for n, r in mine] + says,
                                     {"stream": s, "trace": "MemTrace-pipe-%d" % s},
                                     {"records_written": 20 * len(mine), "records_counted": 20 * len(mine)}))
    both = [os.path.join(run, "MemTrace-pipe-%d" % s) for s in (0, 1)]

    def want(*chosen):
        return [(False, b) for n, s, r in launches if s in chosen for _, at in r for b, _ in blocks(at, 4)]

    for inputs in ([run], both, both[::-1], [b + end for b in both for end in ("", ".meta")]):
        for options, chosen in (([], (0, 1)), (["--stream=1"], (1,)), (["--stream=0"], (0,))):
            got, said = convert("--to", "ramulator", *options, *inputs)
            assert (list(ramulator(got)), said) == (want(*chosen), ""), (inputs, options, said)
    assert len(list(gem5(convert("--to", "gem5", "-t", "1..3", run)[0]))) == sum(len(list(blocks(at, 4))) for n, _, r in launches if 2 <= n <= 4 for _, at in r)
    got, said = convert("--to", "ramulator", both[1], code=3)
    assert list(ramulator(got)) == want(1) and "name it, too, or the folder" in said
    assert "no launch of stream 7" in convert("--to", "ramulator", "--stream=7", run)[1]
    assert "one trace at a time" in convert("--to", "mtc", "-o", os.path.join(folder, "no"), run, code=2)[1]
    assert "--thread is for host code" in convert("--to", "ramulator", "--thread=0", run, code=2)[1]


def one_of_two(folder):
    """Two threads, but one accesses memory: one trace for ChampSim."""
    path = os.path.join(folder, "one.mtc")
    lines = ["M " + json.dumps(x) for x in ({"ev": "header", "version": 1, "pid": 7, "start_ns": 9, "mode": "mat"}, {"ev": "site", "id": 4, "op": "load", "size": 8, "ip": "0x40"},
                                            {"ev": "site", "id": 8, "op": "exec", "size": 0, "ip": "0x50"})]
    lines += ["T 0 1", "S 2", "A 8 80 1", "T 1 1", "A 4 4096 8"]
    lines += ["M " + json.dumps({"ev": "end", "records_written": 2, "records_counted": 2, "complete": True})]
    host_traces.write(GEN_HOST, path, "\n".join(lines) + "\n")
    assert list(champsim(convert("--to", "champsim", path)[0])) == [(0x40, [], [4096])]


def full_disk(folder):
    """The output fails before all was read: nothing is said of the trace, which is whole."""
    path, n = os.path.join(folder, "large"), 200000
    with open(path, "wb") as f:
        f.write(traces.trace([("k", [traces.record(0, 0, 4, 4 * i, (0, 0, 0)) for i in range(n)])]))
    with open(path + ".meta", "w", encoding="utf-8") as f:
        f.write(traces.companion([{"ev": "launch", "seq": 1, "kernel": "k", "stream": 0, "traced": True, "records": n}], {}, {"records_written": n, "records_counted": n}))
    convert("-o", path + ".mtc", path)
    for form in (path, path + ".mtc"):
        for to in ("ramulator", "gem5") + ("raw",) * (form != path):
            said = convert("--to", to, "-o", "/dev/full", form, code=1)[1].splitlines()
            assert len(said) == 1 and "No space left" in said[0], (form, to, said)
    assert not os.path.exists("/dev/full.meta")  # nothing belongs beside a device


def main():
    with tempfile.TemporaryDirectory(prefix="mt-sim-") as folder:
        for seed in range(12):
            rng, path = random.Random(seed), os.path.join(folder, "h%d.mtc" % seed)
            threads = 1 + seed % 3
            accesses, every = host(path, rng, threads)
            check_drmemtrace(path, accesses)
            check_champsim(path, accesses, threads)
            check_memory(path, [(t, SITES[s][0] or s // 4, reads(SITES[s][1]), writes(SITES[s][1]), a, n) for t, s, a, n in accesses])
            left = sum(n > 262144 and SITES[s][1] not in ("unknown", "exec") for _, s, _, n in every)
            assert ("%d accesses are left out: they have more" % left in convert("--to", "ramulator", path)[1]) == bool(left)
            one = [x for x in accesses if x[0] == 0]
            assert len(drmemtrace(convert("--to", "drmemtrace", "--thread=0", path)[0])) >= len(one)
        assert "has host code" in convert("--to", "ramulator", "--stream=0", path, code=2)[1]
        kernels(folder)
        streams(folder)
        one_of_two(folder)
        full_disk(folder)


if __name__ == "__main__":
    main()
