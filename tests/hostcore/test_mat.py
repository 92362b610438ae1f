#!/usr/bin/env python3
"""Mat mode of the core, with prog_mat as program and engine in one. usage: test_mat.py PROGRAM CASE"""
import collections
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

import hosttrace

PROGRAM = sys.argv[1]


def run(what, threads, count, *options, env=None, seconds=300):
    done = subprocess.run([PROGRAM, what, str(threads), str(count), "mat", *options], text=True, timeout=seconds,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def lines(path):
    with open(path) as f:
        return f.read().splitlines()


BASIC = """11 prog.c:11
11 1000 0 1000 1 4 100
12 prog.c:12
12 1099 99 1000 2 1 100
13 prog.c:13
13 8192 0 8192 1 8 8192
13 8192 0 8192 2 8 8192
11 9010 10 9000 1 4 50
11 9050 858 8192 1 2 8192
11 12287 4095 8192 1 1 8192
{site} 9010 818 8192 1 4 8192
11 1100 100 1000 1 4 200
0 <end>:0""".splitlines()


def basic():
    """By hand: half-open ranges, innermost first, parts unmapped, realloc in place."""
    _, err = run("basic", 1, 1, "-o", "t.txt")
    assert "memtrace: 2 accesses outside" in err and err.count("\n") == 1, err
    want = [w.format(site=16) for w in BASIC]  # the site whose ip is not known is the fourth: 4 * 4
    assert lines("t.txt") == want, lines("t.txt")
    _, err = run("basic", 1, 1, "-o", "t.txt", "--all")
    assert not err
    got = [w for w in lines("t.txt") if w not in want]
    assert got == ["11 1100 0 0 1 4 0", "11 12288 0 0 1 1 0"], got
    run("basic", 1, 1, "-o", "t.txt", "--threshold", "101")
    assert [w.split()[1] for w in lines("t.txt") if ":" not in w] == ["8192", "8192", "9050", "12287", "9010", "1100"]
    for threshold, addresses in ((0, [1000, 1099, 1100, 8192, 9010, 9050, 12287, 12288, 9010, 1100]),
                                 (101, [8192, 9050, 12287, 9010, 1100])):
        run("basic", 1, 1, "-o", "t.mtc", "--threshold", str(threshold))
        meta, chunks, tail = hosttrace.read("t.mtc")
        items = hosttrace.by_thread(chunks)[0]
        assert [i[2] for _, i in items if i[0] == "access"] == addresses
        assert [i[1] for _, i in items if i[0] == "event" and i[1] != "seq"] == ["tr", "clock", "tf", "clock"]
        kinds = [(m["ev"], m.get("kind"), m.get("line")) for m in meta if m["ev"] in ("alloc", "free", "cut")]
        assert kinds == [k for k in [("alloc", "malloc", 7), ("alloc", "mmap", 8), ("alloc", "new", 9),
                                     ("cut", None, None), ("free", None, None), ("free", None, None),
                                     ("alloc", "realloc", 7)]
                         if not threshold or k not in (("alloc", "malloc", 7), ("alloc", "new", 9),
                                                       ("free", None, None))], kinds
        assert meta[0]["ev"] == "header" and meta[-1]["ev"] == "end" and meta[-1]["complete"] and tail


def truth(out):
    got = collections.defaultdict(list)
    for line in out.splitlines():
        thread, serial, offset = map(int, line.split())
        got[thread].append((serial, offset))
    return got


def pool():
    """Memory that threads hand to each other and that is used again: each access belongs to the allocation that was
    there, whatever the other threads do meanwhile."""
    for env in ({}, {"SYN_SPAWN": "1"}, {"SYN_SEQUENCE": "1"}):
        for options in ((), ("--threshold", "5")):
            out, _ = run("pool", 4, 300, "-o", "t.mtc", *options, env=env)
            meta, chunks, tail = hosttrace.read("t.mtc")
            assert tail and meta[-1]["complete"] is True
            where = hosttrace.Allocations(meta)
            site = {m["id"]: int(m.get("ip", "0"), 16) for m in meta if m["ev"] == "site"}
            got = collections.defaultdict(list)
            for items in hosttrace.by_thread(chunks).values():
                for seq, i in items:
                    if i[0] == "access":
                        a = where.find(i[2], seq)
                        assert a, "%#x at %d" % (i[2], seq)
                        got[site[i[1]] - 100].append((a["bytes"], i[2] - int(a["base"], 16)))
            want = truth(out)
            if options:
                want = {t: [w for w in v if w[0] >= 5] for t, v in want.items()}
            assert got == want, [(t, len(got[t]), len(want[t])) for t in want]
    out, err = run("pool", 8, 300, "-o", "t.txt")
    assert not err, err
    got = collections.defaultdict(list)
    for line in lines("t.txt"):
        word = line.split()
        if len(word) == 7:
            ip, address, offset, base, kind, size, bytes_ = map(int, word)
            assert address == base + offset and kind == 1 and size == 1
            got[ip - 100].append((bytes_, offset))
    assert got == truth(out)


def stream():
    """Threads that outrun the worker, or have none, work on chunks together: all is there, in each thread's order."""
    count = 120000
    for env, level in (({"SYN_SPAWN": "1"}, 9), ({"SYN_SPAWN": "1"}, 1), ({}, 1)):
        run("stream", 4, count, "-o", "t.mtc", "--all", "--level", str(level), env=env)
        meta, chunks, tail = hosttrace.read("t.mtc")
        assert tail and meta[-1]["complete"] and meta[-1]["records_written"] > 4 * count
        seen = set()
        for items in hosttrace.by_thread(chunks).values():
            got = [i[2] for _, i in items if i[0] == "access"]
            me = got[0] >> 40
            seen.add(me)
            assert got == [me << 40 | i * i * 40503 & 0xffffff for i in range(count)], (env, level, me, len(got))
        assert seen == {1, 2, 3, 4}


def calls():
    """Numbers that the CUDA runtime gives: known at once where the call was made, elsewhere at the next access."""
    run("calls", 1, 500, "-o", "t.mtc", env={"SYN_SEQUENCE": "1"})
    threads = hosttrace.by_thread(hosttrace.read("t.mtc")[1])
    for items in threads.values():
        got = [(seq, i[2]) for seq, i in items if i[0] == "access"]
        # the listener's access comes after call i, and may already see the next one's number
        assert [a for _, a in got] == list(range(500))
        assert all(seq in (1003 + 3 * a, 1006 + 3 * a) for seq, a in got), got[:5]
    first = [(seq, i[2]) for seq, i in threads[0] if i[0] == "access"]
    assert all(seq == 1003 + 3 * a for seq, a in first)


def switch():
    """What the switch, the routine and the region let through, one by one and together, in text and container."""
    n = 2000

    def expected(signal, routine, roi):
        on, depth, region, out = not signal, 0, False, []
        for i in range(n):
            on = True if i % 5 == 1 else on
            on = False if i % 7 == 5 else on
            depth += i % 11 in (3, 4)
            depth = max(0, depth - (i % 11 in (6, 9)))
            region = True if i % 13 == 2 else region
            region = False if i % 13 == 8 else region
            if on and (depth or not routine) and (region or not roi):
                out.append((1 << 20) + i)
        return out

    for case in range(8):
        options = []
        options += ["--signal"] if case & 1 else []
        options += ["--routine", "main"] if case & 2 else []
        options += ["--roi", "1"] if case & 4 else []
        want = expected(case & 1, case & 2, case & 4)
        for env in ({}, {"SYN_SPAWN": "1"}):
            run("switch", 1, n, "-o", "t.mtc", *options, env=env)
            _, chunks, _ = hosttrace.read("t.mtc")
            got = [i[2] for _, i in hosttrace.by_thread(chunks)[0] if i[0] == "access"]
            assert got == want, (case, len(got), len(want))
        run("switch", 1, n, "-o", "t.txt", *options)
        got = [int(w.split()[1]) for w in lines("t.txt") if ":" not in w]
        assert got == want, (case, len(got), len(want))


def running():
    for env in ({}, {"SYN_SPAWN": "1"}):
        run("running", 4, 1, "-o", "t.mtc", env=env)
        meta, chunks, tail = hosttrace.read("t.mtc")
        assert tail and meta[-1]["killed"] is True and meta[-1]["complete"] is False
        for items in hosttrace.by_thread(chunks).values():
            addresses = [i[2] for _, i in items if i[0] == "access"]
            want = [1000 + k % 1000 % 64 for k in range(len(addresses))]
            assert addresses == want
        run("running", 4, 1, "-o", "t.txt", env=env)
        assert all(len(w.split()) == 7 or ":" in w for w in lines("t.txt"))


def full():
    """A disk that is full, a reader that goes away: one line, tracing off, the program lives."""
    for env in ({}, {"SYN_SPAWN": "1"}):
        for name in ("t.mtc", "t.txt"):
            out, err = run("fill", 1, 1000000, "-o", name, env={**env, "SYN_FSIZE": "400000"})
            assert err.count("\n") == 1 and "File too large" in err and "tracing is off" in err, err
            assert "on 0" in out
            assert os.path.getsize(name) <= 400000
        for name in ("f.mtc", "f.txt"):
            if not os.path.exists(name):
                os.mkfifo(name)
            reader = threading.Thread(target=lambda: open(name, "rb").read(1000))
            reader.start()
            out, err = run("fill", 1, 1000000, "-o", name, env=env)
            reader.join()
            assert err.count("\n") == 1 and "reader closed" in err, err


def killed():
    """What was written before a kill is whole; readers see that the end is missing."""
    for env in ({}, {"SYN_SPAWN": "1"}):
        child = subprocess.Popen([PROGRAM, "fill", "1", "2000000000", "mat", "-o", "t.mtc"], env={**os.environ, **env})
        while not os.path.exists("t.mtc") or os.path.getsize("t.mtc") < 1000000:
            time.sleep(0.01)
        child.kill()
        child.wait()
        size = os.path.getsize("t.mtc")
        with open("t.mtc", "rb") as f:
            data = f.read()
        # the last chunk may be cut: its length says so
        at, chunks = 64, 0
        while at + 64 <= size and at + 64 + int.from_bytes(data[at + 8:at + 16], "little") <= size:
            at += 64 + (int.from_bytes(data[at + 8:at + 16], "little") + 7) // 8 * 8
            chunks += 1
        with open("whole.mtc", "wb") as f:
            f.write(data[:at])
        meta, got, tail = hosttrace.read("whole.mtc")
        assert chunks >= 2 and not tail and not any(m["ev"] == "end" for m in meta)
        os.remove("t.mtc")


def fifo():
    """A FIFO is waited for, with a word after two seconds, and gets everything."""
    os.mkfifo("f.mtc")
    start = time.time()
    child = subprocess.Popen([PROGRAM, "fill", "1", "300000", "mat", "-o", "f.mtc"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    word = child.stderr.readline()
    assert "waiting for a reader" in word and time.time() - start > 1.9, word
    with open("f.mtc", "rb") as f:
        data = f.read()
    out, err = child.communicate()
    assert child.returncode == 0 and "on 1" in out and not err, (child.returncode, out, err)
    with open("t.mtc", "wb") as f:
        f.write(data)
    meta, chunks, tail = hosttrace.read("t.mtc")
    assert tail and sum(i[0] == "access" for c in chunks for i in c[3]) == 300000


def paths():
    """What is not ours to overwrite is refused, with the reason."""
    with open("one.mtc", "w") as f:
        f.write("x")
    os.link("one.mtc", "two.mtc")
    os.symlink("one.mtc", "hard.mtc")
    os.symlink("loop.mtc", "loop.mtc")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("socket.mtc")
    refused = [("socket.mtc", "neither"), ("one.mtc", "hard links"), ("hard.mtc", "hard links"),
               ("loop.mtc", "Too many levels|too many symbolic"), ("no/where.mtc", "folder does not exist"),
               ("/", "cannot be written|neither"), ("/dev/fd/77", "not open for writing"),
               ("/dev/fd/0", "not open for writing")]
    if os.geteuid() == 0:  # somebody else's link, and one of ours that leads to it
        os.symlink("target.mtc", "theirs.mtc")
        os.lchown("theirs.mtc", 12345, 12345)
        os.symlink("theirs.mtc", "ours.mtc")
        refused += [("theirs.mtc", "symbolic link of user 12345"), ("ours.mtc", "symbolic link of user 12345")]
    for name, word in refused:
        with open("/dev/null") as null:
            done = subprocess.run([PROGRAM, "fill", "1", "10", "mat", "-o", name], capture_output=True, text=True, stdin=null)
        assert done.returncode == 1 and any(w in done.stderr for w in word.split("|")), (name, done.stderr)
        assert name in done.stderr or "link" in word or name in ("hard.mtc", "loop.mtc"), done.stderr  # or where it leads
    assert not os.path.exists("target.mtc")
    with open("one.mtc") as f:
        assert f.read() == "x"


def filled(name, **more):
    """300000 accesses to it, in a container or as text; what the process has left behind."""
    done = subprocess.run([PROGRAM, "fill", "1", "300000", "mat", "--level=0", "-o", name], stderr=subprocess.PIPE, **more)
    assert done.returncode == 0 and not done.stderr, (name, done.stderr)
    return done


def names():
    """Links of the user's own, devices, numbers of descriptors: the same bytes as in a file, but for what names it."""
    filled("t.out")
    with open("t.out", "rb") as f:
        want = f.read()
    os.mkdir("there")
    os.symlink("there/second.out", "first.out")
    os.symlink("../real.out", "there/second.out")
    filled("first.out")
    with open("real.out", "rb") as f:
        have = f.read()
    assert want.count(b"\n") >= 300000 and have.count(b"\n") == want.count(b"\n")
    filled("first.out")  # once more, over it
    assert os.path.islink("first.out") and os.path.getsize("real.out") == len(have)
    before = os.stat("/dev/null")
    filled("/dev/null")
    after = os.stat("/dev/null")
    assert stat.S_ISCHR(after.st_mode) and (after.st_mode, after.st_rdev) == (before.st_mode, before.st_rdev)
    full = subprocess.run([PROGRAM, "fill", "1", "300000", "mat", "-o", "/dev/full"], capture_output=True, text=True)
    assert "No space left" in full.stderr and "incomplete" in full.stderr, full.stderr
    for name in ("-", "/dev/stdout", "/proc/self/fd/1"):
        text = filled(name, stdout=subprocess.PIPE).stdout  # with the program's own words
        assert text.count(b"\n") == want.count(b"\n") + 1, (name, text.count(b"\n"), want.count(b"\n"))
    with open("kept.out", "w+b") as f:
        f.write(b"before\n")
        f.flush()
        filled(f"/dev/fd/{f.fileno()}", pass_fds=[f.fileno()], stdout=subprocess.DEVNULL)
        f.seek(0)
        text = f.read()
    assert text.startswith(b"before\n") and text.count(b"\n") == want.count(b"\n") + 1


OPTIONS = [(["mat", "-l", "4"], "--locks is for atomic, not for mat"), (["atomic", "-l", "3"], "'3' is not a power of two in 1"),
           (["atomic", "-b", "8192"], "'8192' is not a power of two in 1..4096"), (["atomic", "-b"], "wants a value"),
           (["atomic", "--lag=x"], "--lag (-d): 'x' is not 1..1000000000"), (["atomic", "-a", "0"], "'0' is not 1.."),
           (["mat", "--threshold", "-1"], "'-1' is not BYTES"), (["mat", "--threshold", "1q"], "'1q' is not BYTES"),
           (["mat", "--level=20"], "'20' is not 0..19"), (["mat", "--nothing"], "'--nothing' is not known"),
           (["mat", "word"], "'word' is not known"), (["mat", "--signal=2"], "'2' is not 0|1"),
           (["dance"], "mode 'dance' is not mat, insn or atomic"), (["insn", "-r"], "is for atomic, not for insn"),
           (["mat", "--routine="], "'' is not NAME"), (["atomic", "-f", "missing", "-o", "t.out"], "missing cannot be read"),
           (["mat", "--threshold", "99999999999999999999"], "is not BYTES"), (["atomic", "-l", "0"], "'0' is not a power")]


def options():
    for args, word in OPTIONS:
        done = subprocess.run([PROGRAM, "basic", "1", "1", *args], capture_output=True, text=True)
        assert done.returncode in (1, 2) and word in done.stderr, (args, done.stderr)
    for args in (["--threshold=4K"], ["--threshold", "0x10"], ["--signal", "0"], ["--roi"], ["--all=1", "--level", "0"],
                 ["--routine", "a", "--routine=b"]):
        run("basic", 1, 1, "-o", "t.mtc", *args)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        globals()[sys.argv[2]]()


main()
