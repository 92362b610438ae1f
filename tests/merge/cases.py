"""memtrace convert --order=time against GNU sort."""
import collections
import os
import random
import select
import subprocess
import sys
import tempfile
import time

import trace
from harness import case, tool

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "host", "src")


def merge_tool():
    return [tool("mt-convert"), "--order=time"]


def unended(data):
    """How many threads have no tf."""
    count = collections.Counter()
    for line in data.splitlines():
        words = line.split(b"\t")
        if words[2:] in ([b"tr"], [b"tf"]):
            count[words[1]] += 1 if words[2] == b"tr" else -1 if count[words[1]] else 0
    return sum(count.values())


def merge(data, *args, code=0, read=None):
    p = subprocess.run([*merge_tool(), *args], input=data, capture_output=True, timeout=120)
    words, open_threads = p.stderr.decode(), unended(read or data)
    if code == 0 and open_threads:
        assert f"{open_threads} threads have no end" in words, words
        code = 3
    assert p.returncode == code, (p.returncode, p.stderr)
    return p.stdout, words


def same(got, want):
    if got != want:
        for i, (a, b) in enumerate(zip(got.split(b"\n"), want.split(b"\n"))):
            assert a == b, f"line {i + 1}: {a!r}, sort: {b!r}"
        raise AssertionError(f"{len(got)} bytes, sort: {len(want)}")


def encode(rows):
    return "".join(r + "\n" for r in rows).encode()


@case
def case_sort():
    """The output is sort's, for all kinds of traces."""
    for seed in range(150):
        rng = random.Random(seed)
        data = encode(trace.lines(seed, rng.choice((1, 2, 3, 8, 64)), rng.choice((1, 10, 300, 3000)),
                                  flush=rng.choice((1, 4, 64)), lag=rng.choice((1, 50, 10**9))))
        same(merge(data)[0], trace.sort(data))
        same(merge(data, "--keep-timestamps")[0], trace.sort(data, keep=True))


@case
def case_ties():
    """Equal times: by thread, then by input; also when one thread repeats a time."""
    for seed in range(100):
        rng = random.Random(seed)
        clock, rows = [0] * 5, [f"0\t{t}\ttr" for t in range(5)]
        for i in range(400):
            t = rng.randrange(5)
            clock[t] += rng.choice((0, 0, 1))
            rows.append(f"{clock[t]}\t{t}\tm\tw\t{i}\t4")
        data = encode(rows)
        same(merge(data)[0], trace.sort(data))


@case
def case_numbers():
    """Thread numbers and times up to 2^63 and 2^64; many threads that end."""
    data = encode(trace.lines(5, 3000, 60000, number=lambda t: (t * 0x9E3779B97F4A7C15) % (1 << 63)))
    same(merge(data)[0], trace.sort(data))
    big = (1 << 64) - 1
    data = encode(["0\t0\ttr", f"{big - 1}\t0\tm\tw\t{big}\t1", f"{big}\t{(1 << 63) - 1}\ttr"])
    same(merge(data)[0], trace.sort(data))


@case
def case_long_lines():
    """Lines of any length, also longer than every buffer."""
    def text(rng):
        return "fc\t" + "x" * rng.choice((1, 120, 127, 128, 129, 5000, 70000, 300000)) + "\t1\t2\t3\t4"
    data = encode(trace.lines(1, 4, 150, text=text)) + encode(["999999999\t7\tfc\t" + "y" * 3000000 + "\t1\t2\t3\t4"])
    same(merge(data)[0], trace.sort(data))


@case
def case_bad_lines():
    """Bad lines are named, the rest is merged, exit 3."""
    good = list(trace.lines(3, 4, 500))
    rng = random.Random(1)
    bad = ["", "x", "1", "1\t", "1\t2", "1\t2\t", "\t1\tm", "-5\t1\tm", "1\t-2\tm", "1x\t2\tm", "18446744073709551616\t1\tm",
           "1\t9223372036854775808\tm", " 1\t1\tm", "1 1 m", "1\t1\t7"]
    for b in bad:
        at = rng.randrange(len(good) + 1)
        out, words = merge(encode(good[:at] + [b] + good[at:]), code=3)
        same(out, trace.sort(encode(good)))
        assert f"line {at + 1}:" in words and words.count("\n") == 1, words
    out, words = merge(encode(good) + b"999999\t1\tm\tr\t12", code=3)
    same(out, trace.sort(encode(good)))
    assert f"line {len(good) + 1}: does not end" in words, words
    out, words = merge(encode(["x"] * 1000 + good), code=3)
    same(out, trace.sort(encode(good)))
    assert words.count("\n") == 11 and "1000 lines" in words, words


@case
def case_late_lines():
    """A line that comes too late is in the output all the same, and named."""
    rows = ["1\t0\ttr", "2\t0\tm\tw\t1\t1", "3\t0\tm\tw\t2\t1", "2\t9\tm\tw\t3\t1", "4\t0\tm\tw\t4\t1"]
    out, words = merge(encode(rows), code=3)
    assert sorted(out.split(b"\n")) == sorted(trace.sort(encode(rows)).split(b"\n")), out
    assert "line 4: older" in words, words
    # Not late: lines that belong after it still wait.
    rows = ["1\t0\ttr", "2\t1\ttr", "5\t0\tm\tw\t1\t1", "3\t0\tm\tw\t2\t1", "9\t1\tm\tw\t3\t1", "9\t0\tm\tw\t3\t1"]
    same(merge(encode(rows))[0], trace.sort(encode(rows)))


@case
def case_live():
    """Through a pipe: what may go out is there before the input ends, and nothing else."""
    p = subprocess.Popen(merge_tool(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def feed(text, want):
        p.stdin.write(text.encode())
        p.stdin.flush()
        got, end = b"", time.monotonic() + 300
        while len(got) < len(want) and time.monotonic() < end and select.select([p.stdout], [], [], 300)[0]:
            got += os.read(p.stdout.fileno(), 4096)
        assert got == want.encode(), (text, got)
        assert not select.select([p.stdout], [], [], 0.05)[0], "more than may be known"

    feed("1\t0\ttr\n", "0\ttr\n")
    feed("2\t1\ttr\n", "")  # thread 0 may still come with 2
    feed("4\t0\tm\tr\t1\t1\n", "1\ttr\n")
    feed("3\t1\tm\tr\t2", "")
    feed("\t1\n", "1\tm\tr\t2\t1\n")
    feed("9\t1\tthread_sync\n", "0\tm\tr\t1\t1\n")
    feed("8\t0\tm\tr\t3\t1\n10\t-1\tstart_roi\n", "0\tm\tr\t3\t1\n")
    feed("11\t0\tm\tr\t4\t1\n11\t1\ttf\n", "-1\tstart_roi\n0\tm\tr\t4\t1\n")
    p.stdin.write(b"20\t0\tm\tr\t5\t1\n21\t0\ttf\n")
    out, _ = p.communicate(timeout=300)
    assert out == b"1\ttf\n0\tm\tr\t5\t1\n0\ttf\n" and p.returncode == 0, (out, p.returncode)


def finish_memory(p):
    """Ends the input; peak memory so far in KiB (not wait4's, which counts the parent's before exec)."""
    p.stdin.flush()
    with open(f"/proc/{p.pid}/status") as f:
        peak = next(int(x.split()[1]) for x in f if x.startswith("VmHWM"))
    p.stdin.close()
    assert p.wait(timeout=60) == 0
    return peak


def feed_memory(threads, count, lag):
    """Peak memory in KiB for a trace whose threads take turns of `lag` lines."""
    p = subprocess.Popen(merge_tool(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    p.stdin.write(encode(f"{t}\t{t}\ttr" for t in range(threads)))
    now = threads
    while now < count:
        for t in range(threads):
            p.stdin.write(encode(f"{now + i}\t{t}\tm\tr\t{140000000000000 + i}\t8\tw\t{t}\t8" for i in range(lag)))
        now += lag
    p.stdin.write(encode(f"{now}\t{t}\ttf" for t in range(threads)))
    return finish_memory(p)


@case
def case_memory():
    """Memory follows the lag, not the trace."""
    short, long = feed_memory(4, 4000, 500), feed_memory(4, 400000, 500)
    assert long < short + 1000 and long < 6000, (short, long)
    wide = feed_memory(4, 400000, 20000)
    assert wide < 12000, wide  # 80,000 lines of 50 bytes and 24 for each
    # Threads that come and go leave nothing behind.
    p, now = subprocess.Popen(merge_tool(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL), 0
    for t in range(100000):
        p.stdin.write(encode([f"{now + 1}\t{t}\ttr", f"{now + 2}\t{t}\tm\tw\t1\t1", f"{now + 3}\t{t}\ttf"]))
        now += 3
    ended = finish_memory(p)
    assert ended < 20000, ended


@case
def case_files():
    """Files are read one after the other; what cannot be read is said."""
    with tempfile.TemporaryDirectory() as d:
        data = encode(trace.lines(9, 3, 2000))
        cut = data.index(b"\n", len(data) // 2) + 1
        for name, part in (("a", data[:cut]), ("b", data[cut:])):
            with open(os.path.join(d, name), "wb") as f:
                f.write(part)
        a, b = os.path.join(d, "a"), os.path.join(d, "b")
        same(merge(b"", a, b, read=data)[0], trace.sort(data))
        same(merge(data[cut:], a, "-", read=data)[0], trace.sort(data))
        same(merge(data[:0])[0], b"")
        _, words = merge(b"", os.path.join(d, "none"), code=2)
        assert "none: cannot read" in words, words
        _, words = merge(b"", d, code=1)
        assert "cannot read" in words, words
        assert "--help" in merge(b"", "--nonsense", code=2)[1]
        assert b"Usage: memtrace convert" in merge(b"", "--help")[0]
        with open("/dev/full", "wb") as full:
            p = subprocess.run([*merge_tool(), a], stdout=full, stderr=subprocess.PIPE)
        assert p.returncode == 1 and b"cannot write" in p.stderr, p.stderr


@case
def case_interrupt():
    """SIGINT: what waits goes out, exit 3. A reader that leaves ends us."""
    p = subprocess.Popen(merge_tool(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdin.write(encode(["1\t0\ttr", "2\t1\ttr", "9\t0\tm\tr\t1\t1"]))
    p.stdin.flush()
    assert os.read(p.stdout.fileno(), 100)
    p.send_signal(2)
    out, words = p.communicate(timeout=300)
    assert p.returncode == 3 and out.endswith(b"0\tm\tr\t1\t1\n") and b"interrupted" in words, (p.returncode, out)
    p = subprocess.Popen(merge_tool(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdout.close()
    try:
        p.communicate(encode(trace.lines(1, 2, 50000)), timeout=300)
    except BrokenPipeError:
        pass
    assert p.wait(timeout=300) != 0


def simulated(program, rng, threads, total, shuffle=False, failed_writes=False):
    """A trace of a machine that runs inc or cas, and what the program would print."""
    at = 0x555555558040
    count, even, fails = [0] * threads, [0] * threads, [0] * threads
    now, value, rows = 1, 0, [f"1\t{threads}\ttr", f"2\t{threads}\tfc\tshare_start\t140\t{at}\t{threads}\t{total}"]
    now = 2
    names = list(range(threads))
    rng.shuffle(names)  # the trace calls them something else
    for t in range(threads):
        rows += [f"{now + 1}\t{names[t]}\ttr", f"{now + 2}\t{names[t]}\tfc\tshare_thread\t99\t{t}\t0\t0",
                 f"{now + 3}\t{names[t]}\tfr\tshare_thread\t99\t0"]
        now += 3
    rows.append(f"{now + 1}\t{threads}\tstart_roi")
    now += 1
    swap = f"m\tr\t{at}\t8\tw\t{at}\t8"
    seen = [None] * threads
    while value < total:
        t = rng.randrange(threads)
        now += 1
        if program == "cas" and seen[t] is None:
            seen[t] = value
            rows.append(f"{now}\t{names[t]}\tm\tr\t{at}\t8")
            continue
        if program == "cas" and seen[t] != value:
            fails[t] += 1
            seen[t] = value
            rows.append(f"{now}\t{names[t]}\t" + (swap if failed_writes else f"m\tr\t{at}\t8"))
            continue
        even[t] += value % 2 == 0
        count[t] += 1
        value += 1
        seen[t] = None
        rows.append(f"{now}\t{names[t]}\t{swap}")
        if rng.random() < 0.3:
            now += 1
            rows.append(f"{now}\t{names[t]}\tm\tr\t{at + 64}\t4\tr2\t7\tw\t{at - 8}\t8")
    for t in range(threads):  # loads that no swap followed
        if seen[t] is not None:
            rows.remove(next(r for r in reversed(rows) if r.split("\t", 1)[1] == f"{names[t]}\tm\tr\t{at}\t8"))
    rows += [f"{now + 1}\t{threads}\tend_roi", f"{now + 2}\t{threads}\tfc\tshare_finish\t140\t{value}\t0\t0",
             f"{now + 3}\t{threads}\tfr\tshare_finish\t140\t{value}"]
    said = "".join(f"thread {t}\t{count[t]}\t{even[t]}" + (f"\t{fails[t]}" if program == "cas" else "") + "\n"
                   for t in range(threads))
    return rows, said


@case
def case_simulators():
    """The acceptance tests' own tools: right traces pass, traces in a wrong order fail."""
    with tempfile.TemporaryDirectory() as d:
        expect = os.path.join(d, "said")

        def simulate(program, rows, *args):
            tool = [sys.executable, "-B", os.path.join(SOURCE, program + "_sim.py"), "--expect", expect, *args]
            return subprocess.run(tool, input=merge(encode(rows))[0], capture_output=True).returncode

        def check(data, *args):
            tool = [sys.executable, "-B", os.path.join(SOURCE, "fmt_check.py"), *args]
            return subprocess.run(tool, input=data, capture_output=True).returncode

        for seed, program in enumerate(("inc", "cas", "cas")):
            rng = random.Random(seed)
            failed = ["--failed-writes"] if seed == 2 else []
            rows, said = simulated(program, rng, 4, 2000, failed_writes=bool(failed))
            with open(expect, "w") as f:
                f.write(said)
            assert simulate(program, rows, *failed) == 0
            assert check(encode(rows)) == 0 and check(merge(encode(rows))[0], "--merged") == 0
            at = [i for i, r in enumerate(rows) if "\tw\t" in r and "r2" not in r]
            drop = rows[:at[5]] + rows[at[5] + 1:]
            assert simulate(program, drop, *failed) == 1
            if not failed:  # two increments of different threads change places
                i = next(i for i in range(100, 1000) if rows[at[i]].split("\t")[1] != rows[at[i + 1]].split("\t")[1])
                a, b = (rows[at[k]].split("\t", 2) for k in (i, i + 1))
                swapped = list(rows)
                swapped[at[i]] = "\t".join([a[0], b[1], b[2]])
                swapped[at[i + 1]] = "\t".join([b[0], a[1], a[2]])
                assert simulate(program, swapped) == 1
        base = ["1\t0\ttr"]
        for bad in ("2\t0\tm", "2\t0\tm\tw\t1", "2\t0\tm\tr2\t1", "2\t0\tm\tw\t1\t4\tr\t1\t4", "2\t0\tm\tr\t01\t4", "2\t0\tm\tr\t1\t0",
                    "2\t0\tm\tr\t0x1\t4", "2\t0\tM\tr\t1\t4", "2\t1\tm\tr\t1\t4", "0\t0\tm\tr\t1\t4", "2\t0\ttr", "2\t0\ttf\t1",
                    "2\t0\tfr\tf\t1\t2", "2\t0\tfc\tf\t1\t2\t3", "2\t-1\tm\tr\t1\t4", "2\t0\tend_roi", "0\ttr", "2\t-2\tstart_roi",
                    "2\t0\tm\tr\t18446744073709551616\t4", "2\t0\tm\tr\t1\t4 "):
            assert check(encode(base)) == 0 and check(encode(base + [bad])) == 1, bad
        assert check(encode(base + ["2\t0\tm\tr\t1\t4\tr2\t9\tw\t1\t4", "3\t0\ttf", "4\t0\ttr", "5\t-1\tstart_roi"])) == 0
