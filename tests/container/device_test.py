"""Random containers of kernels' accesses: what the writer was given, what a decoder written from the specification finds
in the file, what libmemtrace-reader hands out (by launches, as records, as runs, through a pipe, without index) and what
memtrace convert makes of it must be one thing.

    device_test.py GEN_DEVICE READ_DEVICE MT_CONVERT MT_DUMP [CASES]
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mtc  # noqa: E402

gen, read, convert, dump = sys.argv[1:5]
cases = int(sys.argv[5]) if len(sys.argv) > 5 else 30
BEGIN, END = 1, 2


def run(*args, code=0, **more):
    p = subprocess.run(args, capture_output=True, timeout=120, check=False, **more)
    if p.returncode != code:
        raise SystemExit("%s: exit %d\n%s%s" % (" ".join(args), p.returncode, p.stdout[:500], p.stderr))
    return p.stdout.decode()


def launches(text):
    """[(seq, stream, kernel, [accesses])] of the words of gen_device."""
    out = []
    for line in text.splitlines():
        if line[0] == "l":
            _, seq, stream, kernel = line.split(" ", 3)
            out.append((int(seq), int(stream), kernel, []))
        elif line[0] == "a":
            out[-1][3].append(tuple(int(x) for x in line.split()[1:]))
        elif line[0] == "!":
            raise SystemExit(line)
    return out


def from_file(data):
    """The same, and the companion's lines, by the decoder of the specification."""
    names, found, lines = {}, {}, []
    for c in mtc.chunks(data):
        if c.type == mtc.META:
            for text in c.payload.splitlines():
                line = json.loads(text)
                if line["ev"] == "kernel":
                    names[line["id"]] = line["name"]
                else:
                    lines.append(text)
        if c.type != mtc.DEVICE:
            continue
        stream, kernel = c.key >> 32, c.key & 0xffffffff
        assert c.first == c.last and (c.first in found) == (not c.flags & BEGIN), "flags at %d" % c.offset
        launch = found.setdefault(c.first, [c.first, stream, names[kernel], [], False])
        accesses = mtc.device(c.payload)
        assert len(accesses) == c.items, "items of the chunk at %d" % c.offset
        assert not launch[4] and launch[1] == stream
        launch[3] += accesses
        launch[4] = bool(c.flags & END)
    assert all(x[4] for x in found.values())
    return [tuple(found[k][:4]) for k in sorted(found)], lines


def as_raw(all_launches):
    out = b"\x18"
    for _, _, kernel, accesses in all_launches:
        out += kernel.encode() + b"\n"
        for meta, cta, smid, _, _, _, address in accesses:
            out += struct.pack("<QQQ", smid << 32 | meta, address, cta)
        out += bytes(24)
    return out


def compare(what, seed, a, b):
    if a != b:
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                raise SystemExit("seed %d, %s: item %d: %s against %s" % (seed, what, i, str(x)[:500], str(y)[:500]))
        raise SystemExit("seed %d, %s: %d items against %d" % (seed, what, len(a), len(b)))


def slurp(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def there_and_back(seed, raw, meta, folder):
    """Raw to container and back: the same bytes; also through pipes."""
    path, packed, back = (os.path.join(folder, x) for x in ("r", "r.mtc", "back"))
    write(path, raw)
    write(path + ".meta", meta)
    run(convert, "-o", packed, path)
    compare("launches of a raw trace", seed, [(k, [a[:3] + a[6:] for a in x]) for _, _, k, x in from_file(slurp(packed))[0]],
            [(k, [a[:3] + a[6:] for a in x]) for _, _, k, x in launches_of_raw(raw)])
    run(convert, "-o", back, packed)
    compare("there and back", seed, slurp(back), raw)
    compare("there and back: companion", seed, slurp(back + ".meta"), meta)
    os.remove(back + ".meta")
    live = subprocess.run([convert, "--to", "mtc"], input=b"", capture_output=True, check=False)
    assert live.returncode == 2, live
    for args in (["--to", "mtc", "-o", packed, "-"], ["--to", "mtc", "-o", packed, "--no-companion", path]):
        run(convert, *args, input=raw)
        piped = run_bytes(convert, "--to", "raw", "-", data=slurp(packed))
        compare("through pipes", seed, piped, raw)
        run(convert, "-o", back, packed)
        assert slurp(back) == raw and not os.path.exists(back + ".meta")


def run_bytes(*args, data):
    p = subprocess.run(args, input=data, capture_output=True, timeout=120, check=False)
    assert p.returncode == 0, p.stderr
    return p.stdout


def shown(*paths):
    return [x for x in run(dump, *paths).splitlines() if not x.startswith("#")]


def several(seed, path, streams, folder):
    """One container, one for each stream, raw traces, or both kinds together: the same launches in the same order."""
    raw, packed = [], []
    for n in streams:
        raw.append(os.path.join(folder, "MemTrace-pipe-%d" % n))
        packed.append(raw[-1] + ".mtc")
        run(convert, "--stream", str(n), "-o", raw[-1], path)
        run(convert, "--stream", str(n), "-o", packed[-1], path)
    want = shown(path)
    compare("raw traces of all streams", seed, want, shown(*raw))
    compare("containers of all streams", seed, want, shown(*packed[::-1]))
    compare("both kinds", seed, want, shown(*packed[:1], *raw[1:]))


def launches_of_raw(raw):
    at, out = 1, []
    while at < len(raw):
        lf = raw.index(b"\n", at)
        accesses, kernel, at = [], raw[at:lf].decode(), lf + 1
        while raw[at:at + 24] != bytes(24):
            w0, w1, w2 = struct.unpack_from("<QQQ", raw, at)
            accesses.append((w0 & 0xffffffff, w2, w0 >> 32, 0, 0, 0, w1))
            at += 24
        at += 24
        out.append((len(out), 0, kernel, accesses))
    return out


def one(seed, folder):
    path = os.path.join(folder, "x.mtc")
    given = launches(run(gen, str(seed), str(seed % 3), path))
    data = slurp(path)
    found, lines = from_file(data)
    compare("specification", seed, given, found)
    plain = [(s, n, k, [(*a[:3], 0, 0, 0, a[6]) for a in x]) for s, n, k, x in given]
    cut = data[:[c for c in mtc.chunks(data) if c.type == mtc.INDEX][0].offset]
    for what, content in (("with index", data), ("without", cut)):
        write(path, content)
        compare("launches, " + what, seed, given, launches(run(read, "next", path)))
        compare("runs, " + what, seed, given, launches(run(read, "runs", path)))
        compare("records, " + what, seed, plain, launches(run(read, "source", path)))
    write(path, data)
    # Streams that take turns cannot be put in order without a file; one stream can.
    for stream in sorted({x[1] for x in given}):
        mine = [x for x in given if x[1] == stream]
        some, raw = os.path.join(folder, "s.mtc"), os.path.join(folder, "s")
        run(convert, "--stream", str(stream), "-o", some, path)
        compare("a stream", seed, mine, launches(run(read, "next", some)))
        compare("a stream, through a pipe", seed, mine,
                launches(run_bytes(read, "next", "-", data=slurp(some)).decode()))
        run(convert, "-o", raw, "--stream", str(stream), path)
        compare("a stream, raw", seed, slurp(raw), as_raw(mine))
        run(convert, "-o", raw, some)
        compare("a stream, raw in two steps", seed, slurp(raw), as_raw(mine))
    several(seed, path, sorted({x[1] for x in given}), folder)
    if len({x[1] for x in given}) > 1:
        run(convert, "-o", os.path.join(folder, "all"), path, code=2)
    # Chosen launches: as they were; the others count as not traced, and nothing is missing.
    first, last = len(given) // 3, max(len(given) * 2 // 3, len(given) // 3 + 1)
    some = os.path.join(folder, "some.mtc")
    run(convert, "--launches", "%d..%d" % (first, last - 1), "-o", some, path)
    compare("launches A..B", seed, given[first:last], launches(run(read, "next", some)))
    run(read, "runs", some)
    run(convert, "-k", "two", "-o", some, path)
    compare("kernels", seed, [x for x in given if "two" in x[2]], launches(run(read, "next", some)))
    run(read, "source", some)
    again = os.path.join(folder, "again.mtc")
    run(convert, "--level", "9", "-o", again, path)
    compare("packed anew", seed, (given, lines), from_file(slurp(again)))
    meta = b"".join(b'{"ev": "launch", "seq": %d, "traced": true, "kernel": %s, "records": %d}\n' %
                    (x[0], json.dumps(x[2]).encode(), len(x[3])) for x in given)
    there_and_back(seed, as_raw(given), meta, folder)
    return sum(len(x[3]) for x in given)


with tempfile.TemporaryDirectory() as scratch:
    total = sum(one(seed, scratch) for seed in range(cases))
print("%d containers, %d accesses" % (cases, total))
assert total > cases * 300
