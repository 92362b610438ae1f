"""memtrace convert and memtrace dump on containers as users meet them: exit codes, messages, FIFOs, full disks.

    cli_test.py BIN GOLDEN [--live]     --live: BIN has memtrace host and the qemu engine, too"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mtc  # noqa: E402

folder, golden = sys.argv[1:3]
convert, dump = os.path.join(folder, "mt-convert"), os.path.join(folder, "mt-dump")
bad = 0


def run(*args, **more):
    return subprocess.run(args, capture_output=True, text=True, timeout=120, check=False, **more)


def expect(what, p, code, words="", out=None):
    global bad
    ok = p.returncode == code and words in p.stderr and (out is None or out == p.stdout)
    if code == 0 and not words:
        ok = ok and p.stderr == ""
    if not ok:
        bad += 1
        print("%s: exit %d (wanted %d)\n%s---\n%s---\n%s" % (what, p.returncode, code, p.stderr, p.stdout[:600], words))


def slurp(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return path


def feed(fifo, data):
    def go():
        try:
            with open(fifo, "wb") as f:
                f.write(data)
        except BrokenPipeError:
            pass
    t = threading.Thread(target=go)
    t.start()
    return t


def ok(name):
    return os.path.join(golden, "succeed", name)


def usage():
    expect("no input", run(convert), 2, "no trace given")
    expect("two inputs", run(convert, "a", "b"), 2, "one trace at a time")
    expect("format", run(convert, "--to", "dot", "a"), 2, "'dot' is not a format")
    expect("raw", run(convert, "--to", "raw", ok("mat.mtc")), 2, "hold accesses of kernels")
    expect("level", run(convert, "--level", "20", "a"), 2, "'20' is not a level")
    expect("order", run(convert, "--order", "random", "a"), 2, "'random' is not an order")
    expect("option", run(convert, "--nonsense", "a"), 2, "unknown")
    expect("missing", run(convert, "/nowhere/x.mtc"), 2, "/nowhere/x.mtc: cannot open")
    expect("folder", run(convert, "--to", "mat", "/"), 2, "this directory has no trace")
    expect("no container", run(convert, "--to", "mat", __file__), 2, "not a compact trace")
    expect("to mtc of no container", run(convert, "--to", "mtc", __file__), 2, "not a compact trace")
    expect("no times", run(convert, "--to", "atomic", ok("mat.mtc")), 2, "can become --to mat")
    expect("no times, insn", run(convert, "--to", "insn", ok("mat.mtc")), 2, "can become --to mat")
    expect("no mode", run(convert, ok("tokens.mtc")), 2, "give --to")
    expect("help", run(convert, "--help"), 0, out=run(convert, "-h").stdout)
    expect("kinds", run(dump, ok("mat.mtc"), __file__), 2, "one kind at a time")
    expect("kernels", run(dump, "-k", "x", ok("mat.mtc")), 2, "no kernels")
    expect("sites of a raw trace", run(dump, "--sites", __file__), 2, "is for host traces")


def damage(tmp):
    data = open(ok("atomic.mtc"), "rb").read()
    chunks = list(mtc.chunks(data))
    text = slurp(ok("atomic.atomic.txt"))
    end = text.splitlines(True)[-1]  # of the thread that had not ended: only of a whole trace is it known
    text = text[:-len(end)]
    killed = write(os.path.join(tmp, "killed.mtc"), data[:chunks[-1].offset])
    expect("no end", run(convert, killed), 3, "has no end", text)
    expect("dump, no end", run(dump, killed), 3, "incomplete")
    cut = write(os.path.join(tmp, "cut.mtc"), data[:chunks[-2].offset + 66])
    expect("cut", run(convert, cut), 3, "byte %d: the container ends inside a chunk" % chunks[-2].offset,
           "".join(x for x in text.splitlines(True) if "\t-1\t" not in x))
    flipped = bytearray(data)
    flipped[chunks[1].offset + 70] ^= 4
    flipped = write(os.path.join(tmp, "flip.mtc"), flipped)
    second = "".join(x for x in text.splitlines(True) if x.split("\t")[1] != "7")
    expect("flipped", run(convert, flipped), 3, "byte %d: the checksum" % chunks[1].offset, second)
    again = os.path.join(tmp, "again.mtc")
    expect("packed anew", run(convert, "-o", again, flipped), 3, "the checksum")
    expect("the rest of it", run(convert, again), 3, "incomplete: memtrace convert could not read all of " + flipped, second)
    lost = b'{"ev": "header", "version": 1, "mode": "mat"}\n{"ev": "lost", "count": 5, "why": "full"}\nnonsense\n'
    lost = write(os.path.join(tmp, "lost.mtc"), mtc.head() + mtc.chunk(mtc.META, lost, 3) + mtc.chunk(
        mtc.META, b'{"ev": "end", "records_written": 0, "complete": false}\n', 1))
    expect("lost", run(convert, lost), 3, "5 accesses are missing: full", "0 <end>:5\n")
    expect("bad line", run(convert, lost), 3, "1 meta lines cannot be read", "0 <end>:5\n")


def numbers(tmp):
    """Launches with the highest numbers there are, with an index and without: every command ends, and says which is none."""
    made = os.path.join(tmp, "made.mtc")
    expect("a container", run(convert, "--to", "mtc", "-o", made, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/succeed/worked-example.trace")), 0)
    with open(made, "rb") as f:
        good = f.read()
    for number, code in (((1 << 64) - 1, 3), ((1 << 64) - 2, 0)):
        data = mtc.head(features=mtc.read_head(good)["features"])
        for c in mtc.chunks(good):
            first = number if c.type == mtc.DEVICE else c.first
            data += mtc.chunk(c.type, c.payload, c.items, c.key, first, c.last, flags=c.flags)
        for name, text in (("with.mtc", data + mtc.tail(data)), ("without.mtc", data)):
            path, out = write(os.path.join(tmp, name), text), os.path.join(tmp, "numbers")
            for words in ((convert, "--to", "raw", "-o", out), (convert, "--to", "mtc", "-o", out + ".mtc"), (convert, "--to", "gem5", "-o", out), (dump,), (dump, "--stat"),
                          (os.path.join(folder, "mt-extract"), "-s", "all,more"), (os.path.join(folder, "mt-report"), "-o", out), (os.path.join(folder, "mt-graph"),),
                          (os.path.join(folder, "memtrace"), "check")):
                p = run(*words, path)  # 120 s at most
                if code == 3:
                    expect(f"launch {number}: {words}", p, 3, "a launch without a number")
                elif "without a number" in p.stderr:
                    expect(f"launch {number}: {words}", p, -1)


def outputs(tmp):
    text = slurp(ok("atomic.atomic.txt"))
    out = os.path.join(tmp, "out.txt")
    expect("to a file", run(convert, "-o", out, ok("atomic.mtc")), 0, "", "")
    assert slurp(out) == text
    with open(out, "rb") as f:
        before = f.read()
    expect("input is output", run(convert, "--to", "mtc", "-o", ok("mat.mtc"), ok("mat.mtc")), 2, "one of the inputs")
    assert before
    raw = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/succeed/stencil.trace")
    with open(raw, "rb") as f:
        expect("a choice from a pipe", subprocess.run([convert, "-t", "0..0", "-o", out + ".mtc", "-"], stdin=f, capture_output=True, text=True), 2,
               "launches are selected from a compact trace")
    if os.path.exists("/dev/full"):
        for form in (["--to", "mtc"], ["--to", "atomic"]):
            expect("full disk", run(convert, *form, "-o", "/dev/full", ok("atomic.mtc")), 1, "No space left")
        expect("dump, full disk", run("sh", "-c", "'%s' '%s' > /dev/full" % (dump, ok("mat.mtc"))), 1, "No space left")
    expect("no folder for temporary files", run(convert, ok("insn.mtc"), env={**os.environ, "TMPDIR": "/nowhere"}), 1, "/nowhere")
    fifo = os.path.join(tmp, "x.mtc")
    os.mkfifo(fifo)
    data = open(ok("atomic.mtc"), "rb").read()
    t = feed(fifo, data)
    expect("FIFO by time", run(convert, "--to", "atomic", fifo), 2, "file order")
    t.join()
    t = feed(fifo, data)
    p = run(convert, "--to", "atomic", "--order", "file", fifo)
    t.join()
    expect("FIFO", p, 0, "")
    assert sorted(p.stdout) == sorted(text)
    t = feed(fifo, data)
    p = run(dump, "--stat", fifo)
    t.join()
    expect("dump of a FIFO", p, 0)
    t = feed(fifo, data)
    closed = os.path.join(tmp, "closed.mtc")
    expect("FIFO packed", run(convert, "-o", closed, fifo), 0)
    t.join()
    expect("FIFO packed, then text", run(convert, closed), 0, "", text)
    assert open(closed, "rb").read()[-8:] == b"MTCEND\r\n"


def dumps():
    expect("dump", run(dump, "--head", "1", ok("mat.mtc")), 0, "",
           "container %s version 1.0 host pid 42 start_ns 1000 wall_ns 2000\n# mat of  by engine , tool \n"
           "0 load 4 0x120 seq 0 site 4 at a b.c:3\n# 6 more records of thread 0\n"
           "end complete: 0 records written, 0 counted\n" % ok("mat.mtc"))
    p = run(dump, "--sites", "--head", "0", ok("insn.mtc"))
    expect("sites", p, 0)
    assert "site 8 exec 0 bytes ip 0x401000 'movaps xmm0, [rdi]' reads 'rdi' writes 'xmm0*'\n" in p.stdout
    p = run(dump, "--stat", ok("mat.mtc"))
    # 2 loads of 4, 3 stores of 8, 2 atomics of 2 bytes
    assert p.stdout.splitlines()[-2].split() == ["0", "7", "4", "2", "3", "2", "0", "12", "28", "0x100", "0x2000"], p.stdout
    p = run(dump, "--chunks", "--head", "0", ok("sequence.mtc"))
    assert "chunk 64 host items 3 thread 1 seq 0..4 bytes 10 of 10\n" in p.stdout and p.returncode == 3


def record(kind, size, address, cta=0):
    return struct.pack("<QQQ", kind << 28 | size, address, cta)


def kernels(tmp):
    """Raw traces and containers of kernels: both ways, cut off, killed, through FIFOs."""
    device = ok("device.mtc")
    expect("text of kernels", run(convert, "--to", "mat", device), 2, "can become --to raw or mtc")
    expect("raw to text", run(convert, "--to", "mat", write(os.path.join(tmp, "empty"), b"\x18")), 2, "can become --to mtc")
    expect("stream", run(convert, "--stream", "x", device), 2, "'x' is not a stream")
    expect("launches", run(convert, "--launches", "3..1", device), 2, "is not a range")
    for bad in ("(", "(" * 50000, "a" + "{1,255}" * 4):
        expect("kernels", run(convert, "-k", bad, device), 2, "is not a regular expression")
    expect("choosing from raw", run(convert, "-k", "k", "-o", os.path.join(tmp, "o.mtc"), os.path.join(tmp, "empty")), 2, "convert it first")
    # To standard output there is no companion.
    raw = subprocess.run([convert, device], capture_output=True, check=False)
    text = slurp(ok("device.device.txt")).splitlines()
    assert raw.returncode == 0 and len(raw.stdout) == 1 + sum(24 if x[0] in "ae" else 7 for x in text)
    p = run(dump, "--stat", device)
    expect("dump", p, 0)
    # loads of 4, stores of 8, an atomic of 1, unknown ones of 2: counted in the text beside the golden file
    of = [[x for x in text if x.startswith("a %d " % m)] for m in (4, 1 << 28 | 8, 2 << 28 | 1, 3 << 28 | 2)]
    assert p.stdout.splitlines()[1].split()[2:7] == [str(x) for x in [sum(map(len, of)), *map(len, of)]], p.stdout
    p = run(dump, "--runs", "--head", "1", device)
    first = "load 4 x 2 0x3e8 +4 cta 1,2,3 sm 9 warp 5 mask 0x00000003 site 4"
    grid = "# grid 1,1,1 block 1,1,1\n"
    expect("runs", p, 0, "", ("launch 0 k<int>\n%s%s\n# 14 more runs\nlaunch 1 k<int>\n%slaunch 2 k<int>\n%s"
                              "load 4 x 2 0x10 +4 cta 0,0,0 sm 0 site 1\n# 1 more runs\n") % (grid, first, grid, grid))
    p = run(dump, "--chunks", "--head", "0", device)
    assert "device items 63 stream 0 kernel 1 begin end seq 5..5 bytes" in p.stdout, p.stdout
    # A terminal gets no bytes of a path that it would interpret.
    odd = os.path.join(tmp, "odd\x1b[31m\u202e")
    os.mkdir(odd)
    kernels_odd, host_odd = shutil.copy(device, os.path.join(odd, "k.mtc")), shutil.copy(ok("insn.mtc"), os.path.join(odd, "h.mtc"))
    for words in ((dump, "--head", "0", host_odd), (os.path.join(folder, "mt-compare"), "--volumes", kernels_odd, kernels_odd)):
        p = run(*words)
        assert "odd\\x1b" in p.stdout and not {"\x1b", "\u202e"} & set(p.stdout), p.stdout
    # Cut inside the second of two launches: what is whole, and the same end of it on the way back.
    body = b"\x18k\n" + record(0, 4, 64) + bytes(24) + b"l\n" + record(1, 4, 64) + record(1, 4, 68)
    cut, packed, back = write(os.path.join(tmp, "cut"), body + b"abc"), os.path.join(tmp, "cut.mtc"), os.path.join(tmp, "cut.back")
    expect("cut raw", run(convert, "-o", packed, cut), 3, "byte %d: the trace ends inside a record" % len(body))
    expect("cut, back", run(convert, "-o", back, packed), 3, "ends inside kernel 'l'")
    assert open(back, "rb").read() == body
    expect("cut, dumped", run(dump, packed), 3, "ends inside kernel 'l'", run(dump, cut).stdout)
    killed = write(os.path.join(tmp, "killed.mtc"), open(packed, "rb").read()[:-32])
    expect("no tail", run(dump, killed), 3, "ends inside kernel 'l'", run(dump, cut).stdout)
    # A companion whose launches go backwards would turn the trace around.
    good = write(os.path.join(tmp, "good"), b"\x18k\n" + bytes(24) + b"l\n" + record(1, 4, 64) + bytes(24))
    lines = b'{"ev": "launch", "seq": %d, "traced": true, "kernel": "%s"}\n'
    write(good + ".meta", lines % (9, b"k") + lines % (3, b"l"))
    expect("backwards", run(convert, "-o", packed, good), 3, "not in order")
    write(good + ".meta", lines % (3, b"k") + lines % (9, b"l"))
    expect("forwards", run(convert, "-o", packed, good), 0)
    assert [c.first for c in mtc.chunks(open(packed, "rb").read()) if c.type == mtc.DEVICE] == [3, 9]
    write(packed + ".meta", b"not looked at")
    expect("dump of it", run(dump, packed), 3, "has no end")  # says the companion
    expect("no companion", run(convert, "--companion", "/nowhere", "-o", packed, good), 2, "/nowhere")
    # FIFOs, of either kind, read by either program.
    fifo = os.path.join(tmp, "pipe")
    os.mkfifo(fifo)
    data = open(good, "rb").read()
    for kind, sent in (("raw", data), ("container", None)):
        if sent is None:
            expect("for a FIFO", run(convert, "--no-companion", "-o", packed, good), 0)
            sent = open(packed, "rb").read()
        t = feed(fifo, sent)
        expect(kind + " FIFO, dumped", run(dump, fifo), 0, "nothing says whether", run(dump, "--no-companion", good).stdout)
        t.join()
        t = feed(fifo, sent)
        expect(kind + " FIFO, packed", run(convert, "--to", "mtc", "-o", os.path.join(tmp, "live.mtc"), fifo), 0)
        t.join()
        expect(kind + " FIFO, back", run(convert, "-o", back, os.path.join(tmp, "live.mtc")), 0)
        assert open(back, "rb").read() == data
    named = os.path.join(tmp, "kernels.mtc")  # so MEMTRACE_FORMAT=compact names them
    os.mkfifo(named)
    sent = open(device, "rb").read()
    for args, words in ((["--runs", "--head", "1", "-k", "k<"], run(dump, "--runs", "--head", "1", device)),
                        (["--stat"], run(dump, "--stat", device)), ([], run(dump, "--no-companion", device))):
        t = feed(named, sent)
        expect("FIFO named .mtc", run(dump, *args, named), 0, "", "".join(
            x for x in words.stdout.splitlines(True) if not x.startswith("# grid")))
        t.join()
    t = feed(named, open(ok("mat.mtc"), "rb").read())
    expect("FIFO of host accesses", run(dump, "--runs", named), 2, "no kernels to select")
    t.join()
    if os.path.exists("/dev/full"):
        expect("full disk", run(convert, "--to", "mtc", "-o", "/dev/full", good), 1, "No space left")
        expect("full disk, raw", run(convert, "--to", "raw", "-o", "/dev/full", "--no-companion", packed), 1, "No space left")


def terminal():
    """Bytes that no person reads do not go to a terminal; text does."""
    main, end = os.openpty()
    for args, words in (([], "a raw trace is not written to a terminal"), (["--to", "mtc"], "a container is not written to a terminal")):
        p = subprocess.run([convert, *args, ok("device.mtc")], stdout=end, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        p.stdout = ""
        expect("to a terminal", p, 2, words)
    os.close(end)
    os.close(main)


def incomplete(tmp):
    """A whole trace of a program that was killed, or that lost records: everything is converted, and whoever converts
    hears of it, each way: raw to container, container to raw, container to container, from a pipe."""
    example = os.path.join(golden, "..", "succeed", "worked-example.trace")
    with open(example + ".meta", encoding="utf-8") as f:
        lines = f.readlines()
    assert '"ev": "end"' in lines[-1]
    lost = ['{"ev": "lost", "count": 5, "why": "disk full"}\n', '{"ev": "end", "complete": false, "records_written": 8, "records_counted": 13}\n']
    for what, tail, words in (("killed", [], "has no end: the program was killed"), ("lost", lost, "5 accesses are missing: disk full"),
                              ("incomplete", [lost[1]], "says that it is incomplete")):
        raw, packed, again, back = (os.path.join(tmp, what + x) for x in ("", ".mtc", "2.mtc", ".back"))
        shutil.copy(example, raw)
        write(raw + ".meta", "".join(lines[:-1] + tail).encode())
        expect(what + ", to mtc", run(convert, "-o", packed, raw), 3, words)
        expect(what + ", to mtc again", run(convert, "-o", again, packed), 3, words)
        expect(what + ", some launches", run(convert, "-k", "fill", "-o", again, packed), 3, words)
        expect(what + ", to raw", run(convert, "-o", back, packed), 3, words)
        for name in ("", ".meta"):
            assert open(back + name, "rb").read() == open(raw + name, "rb").read(), what
        with open(packed, "rb") as f:
            expect(what + ", from a pipe", run(convert, "--to", "mtc", "-o", again, "-", stdin=f), 3, words)
        expect(what + ", nothing known", run(convert, "--no-companion", "-o", packed, raw), 0)
    # Cut between two chunks: no byte is wrong, and only the companion beside it knows that there were more.
    whole, cut, again = (os.path.join(tmp, x + ".mtc") for x in ("whole", "between", "copy"))
    expect("whole", run(convert, "-o", whole, example), 0)
    with open(whole, "rb") as f:
        data = f.read()
    first, second, *_, index = mtc.chunks(data)
    write(cut, data[:first.offset] + mtc.chunk(mtc.META, "".join(lines[:-1]).encode(), len(lines) - 1) + data[second.offset:index.offset])
    shutil.copy(example + ".meta", cut + ".meta")
    for to in ("mtc", "raw"):
        expect("cut between chunks", run(convert, "--to", to, "-o", again, cut), 3, "%s: is cut off at byte %d" % (cut, os.path.getsize(cut)))
    expect("no companion beside", run(convert, "--no-companion", "-o", again, cut), 3, "has no end")


def live(tmp):
    """What the core prints at once and what becomes of its container are the same bytes."""
    host = os.path.join(folder, "mt-host")
    for mode in ("mat", "atomic", "insn"):
        for form in ("txt", "mtc"):
            p = run(host, "--engine=qemu", mode, "-o", os.path.join(tmp, "live." + form), "--", "/bin/true")
            assert p.returncode == 0, p.stderr
        p = run(convert, os.path.join(tmp, "live.mtc"))
        expect("live " + mode, p, 0, "", slurp(os.path.join(tmp, "live.txt")))
        assert len(p.stdout) > 1000


with tempfile.TemporaryDirectory() as scratch:
    usage()
    damage(scratch)
    outputs(scratch)
    numbers(scratch)
    dumps()
    kernels(scratch)
    incomplete(scratch)
    terminal()
    if "--live" in sys.argv:
        live(scratch)
sys.exit(bad != 0)
