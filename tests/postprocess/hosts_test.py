#!/usr/bin/env python3
"""Ranks on several machines are one run: random jobs with a true timeline, seen through clocks that differ from machine to machine. The order
that memtrace extract gives launches must be one that could have been: what a rank did before it gave data away comes before what another one did
with it. Devices of all machines are told apart, and what goes between machines is counted by hand.

usage: hosts_test.py BIN_FOLDER COUNT
"""
import csv
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter

import traces

BIN = sys.argv[1]
COLLECTIVES = {"allreduce": "all", "allgather": "all", "alltoall": "all", "reducescatter": "all", "broadcast": "from", "scatter": "from", "reduce": "to", "gather": "to"}
SIZE, DAY = 4, 86400 * 10**9


class Job:
    """Ranks with devices of their own on machines, what they did and when, in true time."""
    def __init__(self, rng, steps, machines=None, drift=0):
        self.rng, self.n = rng, rng.randrange(2, 9)
        self.machines = machines or rng.randrange(2, min(5, self.n) + 1)
        self.n = max(self.n, self.machines)
        places = [r % self.machines if rng.random() < 0.5 else r * self.machines // self.n for r in range(self.n)] if rng.random() < 0.3 \
            else [r * self.machines // self.n for r in range(self.n)]
        self.place = places if len(set(places)) == self.machines else [r * self.machines // self.n for r in range(self.n)]
        self.offset = [rng.randrange(1, 30 * DAY) for _ in range(self.machines)]
        self.rate = [1 + rng.uniform(-drift, drift) for _ in range(self.machines)]
        self.wall_error = [rng.randrange(-5000, 5000) for _ in range(self.machines)]  # ms: nobody keeps these clocks
        self.now = [rng.randrange(10**6) for _ in range(self.n)]
        self.launches = [[] for _ in range(self.n)]  # of a rank: (begin, end, name, call)
        self.before = []  # (kernel, kernel): the first comes before the second
        self.calls = []   # (op, root, peers, count)
        for step in range(steps):
            for r in range(self.n):
                self.kernel(r, step)
            self.exchange(step)
        for r in range(self.n):
            self.kernel(r, steps)

    def kernel(self, r, step):
        begin = self.now[r] + self.rng.randrange(1, 20000)
        self.now[r] = begin + self.rng.randrange(1, 10 ** self.rng.randrange(2, 7))
        self.launches[r].append((begin, self.now[r], f"k_{r}_{step}", None))

    def exchange(self, step):
        rng, count = self.rng, self.rng.randrange(1, 1000)
        if rng.random() < 0.3:
            a, b = rng.sample(range(self.n), 2)
            begin = {r: self.now[r] + rng.randrange(1, 5000) for r in (a, b)}
            end = {a: begin[a] + rng.randrange(1, 5000), b: max(begin.values()) + rng.randrange(1, 9000)}
            for r, op, peer in (a, "send", b), (b, "recv", a):
                self.launches[r].append((begin[r], end[r], "nccl", {"collective": op, "rank": r, "peer": peer, "count": count}))
                self.now[r] = end[r]
            self.before.append((f"k_{a}_{step}", f"k_{b}_{step + 1}"))
            self.calls.append(("send", None, (a, b), count))
            return
        op, root = rng.choice(sorted(COLLECTIVES)), rng.randrange(self.n)
        form = COLLECTIVES[op]
        begin = [t + rng.randrange(1, 5000) for t in self.now]
        for r in range(self.n):
            of = [s for s in range(self.n) if s == r or form == "all" or (form == "from" and s == root) or (form == "to" and r == root)]
            end = max(begin[s] for s in of) + rng.randrange(1, 9000)
            call = {"collective": op, "rank": r, "count": count, **({} if form == "all" else {"root": root})}
            self.launches[r].append((begin[r], end, "nccl", call))
            self.now[r] = end
            self.before += [(f"k_{s}_{step}", f"k_{r}_{step + 1}") for s in of if s != r]
        self.calls.append((op, root, None, count))

    def local(self, r, time):
        m = self.place[r]
        return self.offset[m] + int(time * self.rate[m])

    def write(self, folder, exchanges=True):
        """A folder for each machine, as if each had written to its own disk; all use the same addresses, and the same process numbers."""
        rng = random.Random(self.n)
        for r in range(self.n):
            own = os.path.join(folder, f"node{self.place[r]}")
            os.makedirs(own, exist_ok=True)
            m = self.place[r]
            header = {"pid": 100 + sum(p == m for p in self.place[:r]), "start_ns": self.offset[m] + 1, "wall_ms": 1700000000000 + self.wall_error[m],
                      "job": "job", "rank": r, "ranks": self.n, "host": f"node{m}", "device": "cpu"}
            events, launches, n = [{"ev": "communicator", "seq": 1, "comm": "0x7", "rank": r, "ranks": self.n}], [], 0
            for i, (begin, end, name, call) in enumerate(self.launches[r]):
                of = {"library": "nccl", "comm": "0x7", "ranks": self.n, "size": SIZE, **call} if call and exchanges else {}
                records = [traces.record(0, traces.LOAD, 4, 0x1000, (0, 0, 0)), traces.record(0, traces.STORE, 4, 0x1000, (0, 0, 0))]
                if not call:
                    records += [traces.record(rng.randrange(3), rng.randrange(3), rng.choice((1, 4, 8)), 0x1000 + 8 * rng.randrange(700), (rng.randrange(5), rng.randrange(2), 0))
                                for _ in range(rng.choice((0, 5, 50)))]
                if rng.random() < 0.3:
                    kind = rng.choice(("h2d", "d2h", "d2d"))
                    events.append({"ev": "memcpy", "seq": 3 + 2 * i, "kind": kind, "dst": "0x2000" if kind != "d2h" else "0x900000", "src": "0x1400" if kind != "h2d" else "0x900000",
                                   "bytes": 4 * rng.randrange(1, 400), "stream": 0, "begin_ns": self.local(r, begin)})
                events.append({"ev": "launch", "seq": 4 + 2 * i, "called": 4 + 2 * i, "stream": 0, "kernel": name, "begin_ns": self.local(r, begin),
                               "end_ns": self.local(r, end), "records": len(records), "traced": True, **of})
                launches.append((name, records))
                n += len(records)
            path = os.path.join(own, f"MemTrace-rank{r}-pipe-0")
            with open(path, "wb") as f:
                f.write(traces.trace(launches))
            with open(path + ".meta", "w", encoding="utf-8") as f:
                f.write(traces.companion(events, header, {"records_written": n, "records_counted": n}))
        return [os.path.join(folder, f"node{m}") for m in range(self.machines)]


def together(job, folder, *words, ranks=None):
    """memtrace extract under mpirun, where each rank has the traces of one machine."""
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks or job.machines), "sh", "-c",
                           'exec "$0" "$@" %s/node$OMPI_COMM_WORLD_RANK' % folder, os.path.join(BIN, "mt-extract"), *words], capture_output=True, text=True, timeout=100, env=env)


def check_together(job, folder, folders):
    for words in ("-s", "quick", "--collectives=ring"), ("-s", "quick,lines,sharing,conflicts,traffic,devices"), ("-f", "text", "-s", "quick,devices"), ("-s", "quick", "--kernel=k_1"), \
            ("-f", "csv", "--table=transfers"):
        r = together(job, folder, *words)
        assert (r.returncode, r.stdout) == (0, extract(*words, *folders)), (words, r.returncode, r.stderr, r.stdout[:2000])


def extract(*words):
    r = subprocess.run([os.path.join(BIN, "mt-extract"), *words], capture_output=True, text=True, timeout=100)
    assert r.returncode == 0, (words, r.returncode, r.stderr)
    return r.stdout


def table(name, folders):
    return list(csv.DictReader(io.StringIO(extract("-f", "csv", "--table=" + name, *folders))))


def order(folders):
    return {row["kernel"]: int(row["id"]) for row in table("launches", folders) if row["kernel"] != "nccl"}


def wrong(job, place):
    return [(a, b) for a, b in job.before if place[a] > place[b]]


def check_order(job, folders, notes):
    place = order(folders)
    assert len(place) == sum(name != "nccl" for rank in job.launches for _, _, name, _ in rank), place
    assert not wrong(job, place), (wrong(job, place), notes)
    kernels = {row["id"]: row["kernel"].split("_")[1] for row in table("launches", folders) if row["kernel"] != "nccl"}
    for row in table("transfers", folders):  # all ranks have written to the same address
        a, b = kernels.get(row["src_launch"]), kernels.get(row["dst_launch"])
        assert a is None or b is None or a == b, row


def drifting():
    """Clocks of different rates, so that no constant differences fit: the order is one that could have been, all the same."""
    said = 0
    for seed in range(12):
        job = Job(random.Random(seed), 40, drift=10 ** -(2 + seed % 4))
        with tempfile.TemporaryDirectory() as folder:
            folders = job.write(folder)
            notes = json.loads(extract("-s", "KCV", *folders))["notes"]
            check_order(job, folders, notes)
            said += any("run at different rates" in n for n in notes)
    assert said >= 4, said


def hostile():
    """Companions with numbers that cannot be: an end with an exit code, whatever they are."""
    odd = [0, 1, -1, 1 << 31, 1 << 57, 1 << 58, 1 << 60, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, -(1 << 63)]
    for seed in range(40):
        rng = random.Random(seed)
        job = Job(rng, 3)
        with tempfile.TemporaryDirectory() as folder:
            folders = job.write(folder)
            for name in (os.path.join(f, n) for f in folders for n in os.listdir(f) if n.endswith(".meta")):
                with open(name, encoding="utf-8") as f:
                    lines = [json.loads(line) for line in f]
                for e in lines:
                    for key in ("start_ns", "wall_ms", "begin_ns", "end_ns", "device", "peer", "root", "comm"):
                        if key in e and rng.random() < 0.1:
                            e[key] = rng.choice(odd)
                if rng.random() < 0.3:
                    lines[0]["host"] = rng.choice(("", "x" * 3000, "node0", "\u001b[2J"))
                with open(name, "w", encoding="utf-8") as f:
                    f.writelines(json.dumps(e) + "\n" for e in lines)
            for options in ("-s", "quick,devices", "--collectives=ring", "--topology=dgx-1"), ("-f", "text", "-s", "devices"):
                r = subprocess.run([os.path.join(BIN, "mt-extract"), *options, *folders], capture_output=True, timeout=100)
                assert r.returncode in (0, 2, 3), (seed, r.returncode, r.stderr)


def parts(count, n):
    return [len(range(k, count, n)) for k in range(n)]


def moved(op, root, count, ring):
    """{(from, to): elements} of a collective, step by step; ring: the ranks in its order."""
    n, out = len(ring), Counter()
    if op == "allreduce":
        for first in (0, 1):  # n - 1 steps in which parts grow, n - 1 in which they are handed on
            for step in range(n - 1):
                for i in range(n):
                    out[ring[i], ring[(i + 1) % n]] += parts(count, n)[(i - step - 1 + first) % n]
    elif op in ("allgather", "reducescatter"):
        for i in range(n):
            out[ring[i], ring[(i + 1) % n]] = (n - 1) * count
    elif op in ("broadcast", "reduce"):
        at = ring.index(root) + (op == "reduce")
        chain = [ring[(at + i) % n] for i in range(n)]
        out = Counter({pair: count for pair in zip(chain, chain[1:])})
    else:
        out = Counter({(a, b): count for a in range(n) for b in range(n) if a != b and (op == "alltoall" or (a if op == "scatter" else b) == root)})
    return out


def check_devices(job, got):
    """All that goes between devices and machines, by hand, over rings that enter each machine once."""
    names = [f"node{m}" for m in sorted(set(job.place), key=job.place.index)]
    ring = sorted(range(job.n), key=lambda r: (names.index(f"node{job.place[r]}"), r))
    device = {r: d for d, r in enumerate(ring)}  # one for each rank
    hand = Counter()
    for op, root, peers, count in job.calls:
        for (a, b), n in (Counter({peers: count}) if peers else moved(op, root, count, ring)).items():
            hand[a, b] += SIZE * n
    flows = Counter()
    for row in got["devices"]:
        if row["by"] == "collective":
            flows[ring[int(row["from"])], ring[int(row["to"])]] += row["bytes"]
    assert flows == +hand, (flows, hand)
    seen = max(device.values()) + 1 if len(got["machines"]) == job.n else len(got["machines"])
    assert got["machines"] == [{"device": str(device[r]), "machine": f"node{job.place[r]}", "number": sum(job.place[s] == job.place[r] for s in ring[:device[r]])}
                               for r in ring[:seen]], got["machines"]
    links = Counter()
    for row in got["links"]:
        if row["by"] == "collective":
            links[row["kind"], row["link"]] += row["bytes"]
    apart = {pair: n for pair, n in hand.items() if job.place[pair[0]] != job.place[pair[1]]}
    want = Counter()
    for (a, b), n in hand.items():
        if (a, b) in apart:
            want["NET", f"network from node{job.place[a]}"] += n
            want["NET", f"network to node{job.place[b]}"] += n
            want["PIX", f"PCIe from {device[a]}"] += n
            want["PIX", f"PCIe to {device[b]}"] += n
        else:
            want["NV", f"NVLink from {device[a]} to {device[b]}"] += n
    nets = Counter({k: n for k, n in want.items() if k[0] == "NET"})
    return links, want, nets


def one(seed):
    rng = random.Random(seed)
    job = Job(rng, rng.choice((1, 3, 10, 40)))
    with tempfile.TemporaryDirectory() as folder:
        folders = job.write(folder)
        got = json.loads(extract("-s", "KCV,devices", "--collectives=ring", *folders))
        if job.calls:
            links, _, nets = check_devices(job, got)
            assert links == nets, (links, nets)
            assert {row["speed"] for row in got["links"]} <= {50e9}, got["links"]
            text = extract("-f", "text", "-s", "devices", "--collectives=ring", *folders)
            assert ("Bytes from machine to machine" in text) == bool(nets) and text.count("network ") == len(nets), text
        if job.calls and seed % 4 == 0:
            with open(os.path.join(folder, "topology"), "w", encoding="utf-8") as f:  # NVLinks one by one, to see each pair
                f.write("\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\n" + "".join(
                    f"GPU{a}\t" + "\t".join("X" if a == b else "NV2" for b in range(8)) + "\n" for a in range(8)) + "speed NET 12.5\n")
            links, want, _ = check_devices(job, json.loads(extract("-s", "devices", "--collectives=ring", "--topology=" + os.path.join(folder, "topology"), *folders)))
            assert links == want, (links, want)
        assert got["complete"], got["notes"]
        assert any(f"{job.n} processes of job job" in n for n in got["notes"]), got["notes"]
        assert any(f"clocks of {job.machines} machines are put in order by" in n for n in got["notes"]) or not any(
            job.place[a] != job.place[b] for a in range(job.n) for b in range(job.n)) or len(job.calls) < 9, got["notes"]
        check_order(job, folders, got["notes"])


def apart():
    """Traces read where they are: the bytes of memtrace extract alone. And what cannot be."""
    for seed in (3, 4):
        job = Job(random.Random(seed), 10)
        with tempfile.TemporaryDirectory() as folder:
            folders = job.write(folder)
            check_together(job, folder, folders)
            if seed > 3:
                continue
            r = together(job, folder, "--stats", "-s", "quick,addresses")
            rows = {line.split()[0]: int(line.split()[2]) for line in r.stderr.splitlines() if line[:4].strip().isdigit()}
            assert "addresses left out" in r.stderr and len(rows) == job.machines and min(rows.values()) > 0, r.stderr
            assert sum(rows.values()) == json.loads(r.stdout)["records"], (rows, r.stderr)
            # Traces of one machine, in two ranks that have one each.
            one_of = next(f for f in folders if len(os.listdir(f)) > 3)
            for k, name in enumerate(sorted(n for n in os.listdir(one_of) if not n.endswith(".meta"))[:2]):
                os.makedirs(os.path.join(folder, "split", f"node{k}"))
                for ending in "", ".meta":
                    shutil.copy(os.path.join(one_of, name + ending), os.path.join(folder, "split", f"node{k}"))
            r = together(job, os.path.join(folder, "split"), "-s", "quick", ranks=2)
            assert r.returncode == 1 and "must be one for each machine" in r.stderr, (r.returncode, r.stderr)
            path = os.path.join(folders[1], sorted(os.listdir(folders[1]))[0])
            with open(path, "r+b") as f:
                f.truncate(os.path.getsize(path) - 30)
            r = together(job, folder, "-s", "quick")
            assert r.returncode == 3 and json.loads(r.stdout)["complete"] is False and os.path.basename(path) in r.stderr, (r.returncode, r.stderr)
            with open(path, "r+b") as f:
                f.truncate(os.path.getsize(path) // 3)
            r = together(job, folder, "-s", "quick")
            assert r.returncode == 1 and "the ranks know of different launches" in r.stderr, (r.returncode, r.stderr)


def alone():
    """Without calls of NCCL there is nothing but the real time; the twin of the others, in which an order comes out that could not have been."""
    found = 0
    for seed in range(10):
        job = Job(random.Random(seed), 10)
        with tempfile.TemporaryDirectory() as folder:
            folders = job.write(folder, exchanges=False)
            notes = json.loads(extract("-s", "KCV", *folders))["notes"]
            assert any("machines exchanged nothing that orders their clocks" in n for n in notes), notes
            found += bool(wrong(job, order(folders)))
    assert found == 10, found


def main():
    for seed in range(int(sys.argv[2])):
        try:
            one(seed)
        except AssertionError:
            print("seed", seed)
            raise
    alone()
    drifting()
    hostile()
    if shutil.which("mpirun") and os.path.exists(os.path.join(BIN, "../libexec/memtrace/mt-extract-mpi")):
        apart()
    print("ok")


if __name__ == "__main__":
    main()
