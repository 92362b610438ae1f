"""The first files of corpus/: make_corpus.py FOLDER. The committed files count, not this."""
import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "container"))
import mtc  # noqa: E402


def record(kind, size, address, cta=0, sm=0):
    return struct.pack("<QQQ", sm << 32 | kind << 28 | size, address, cta)


def launch(name, *records):
    return name + b"\n" + b"".join(records) + bytes(24)


raw = {
    "empty": b"",
    "nothing": b"\x18",
    "no-access": b"\x18" + launch(b"k"),
    "few": b"\x18" + launch(b"ns::k<int>", *(record(i % 3, 4, 4096 + 4 * i, i // 8 << 32, i) for i in range(30))) + launch(b"l"),
    "cut": b"\x18k\n" + record(0, 4, 1) + b"abc",
    "type": b"\x18k\n" + record(9, 4, 1),
    "size": b"\x18k\n" + record(1, 0, 1),
    "meta": b'{"ev": "header", "pid": 1}\n{"ev": "launch", "seq": 1, "kernel": "k", "grid": [1, 2, 3], "traced": true}\n'
            b'{"ev": "alloc", "id": 0, "seq": 2, "base": "0x100", "bytes": 9, "kind": "cudaMalloc"}\n'
            b'{"ev": "memcpy", "seq": 3, "kind": "h2d", "dst": "0x100", "src": "0x5", "width": 3, "height": 2, "dpitch": 4}\n'
            b'{"ev": "lost", "count": 1, "why": "x"}\n{"ev": "end", "records_written": 1}\n',
}
rng = random.Random(1)
name = mtc.chunk(mtc.META, b'{"ev": "kernel", "id": 1, "name": "k"}\n', 1)
# A warp of 32 lanes, new in all, and twice more as predicted.
columns = [bytes([0xbf, 8, 0]), b"\0\1", mtc.sleb(4) + b"\x04\0", mtc.sleb(4096), b""]
regular = struct.pack("<6I", 3, *map(len, columns[1:]), 0) + b"".join(columns)
device = mtc.head(features=mtc.HAS_DEVICE) + name + mtc.chunk(mtc.DEVICE, regular, 96, key=1, first=5, last=5, flags=3)
containers = {
    "device": device,
    "device-closed": device + mtc.tail(device),
    "runs": bytes([0x10]) + bytes(rng.randrange(256) for _ in range(16 * 12)),
    "columns": bytes([0x11, 100, 60, 120, 200, 1]) + b"".join(columns),
    "host": bytes([0x00, 3]) + b"\x87\x10\x80\x40\x04" * 3,
}
for folder, files in (("raw", raw), ("mtc", containers)):
    for key, data in files.items():
        with open(os.path.join(sys.argv[1], folder, key), "wb") as f:
            f.write(data)

# Whole inputs for the command-line tools: each made something overflow, grow without end, or say what is not so.
BIG = (1 << 28) - 1
one = b"\x18" + launch(b"k", record(0, 4, 4096))


def lines(*events):
    """A companion of a launch of k with one access, and these."""
    ends = [{"ev": "launch", "seq": 5, "kernel": "k", "traced": True, "records": 1},
            {"ev": "end", "records_written": 1, "records_counted": 1, "complete": True}]
    return "".join(json.dumps(e) + "\n" for e in [{"ev": "header", "version": 1, "pid": 1, "start_ns": 5, "stream": 0}, *events, *ends]).encode()


rows = {"ev": "memcpy", "seq": 1, "kind": "d2d", "dst": "0x0", "src": "0x100000000000", "bytes": 1 << 40, "width": 1, "height": 1 << 40}
tools = {
    "real.json": b'{"format": "memtrace-comm", "HCV": {"k": {"0": {"Load": 1e308, "Store": -1e308}}}}',
    "fill": one,
    "fill.meta": lines({"ev": "memset", "seq": 1, "dst": "0x0", "value": 0, "bytes": 1 << 47}),
    "copy": one,
    "copy.meta": lines({"ev": "memset", "seq": 1, "dst": "0x0", "value": 0, "bytes": 1 << 30},
                       {"ev": "memcpy", "seq": 2, "kind": "d2d", "dst": "0x100000000000", "src": "0x0", "bytes": 1 << 44}),
    "rows": one,
    "rows.meta": lines(dict(rows, dpitch=64, spitch=8), dict(rows, kind="h2d", dpitch=2, spitch=1), dict(rows, dpitch=1, spitch=4)),
    "minus": one,
    "minus.meta": lines({"ev": "alloc", "seq": 0, "id": 0, "base": "0x0", "bytes": -1, "kind": "cudaMalloc"},
                        {"ev": "memset", "seq": 1, "dst": "0xffffffffffffff00", "value": 0, "bytes": -1}),
    "long": b"\x18" + launch(b"k", *(record(i % 3, BIG, i // 3 << 28, i % 5 << 32) for i in range(90))),
    "names": b"\x18" + b"".join(launch(n.encode(), record(1, 4, 16)) for n in
                                ("\x1b]0;t\x07", "a\rb", "\u009b31m", "\u202e", "\ufffe", "=1+1", "@A1", "</script>", "__proto__", "n" * 3000)),
    "head.mtc": mtc.head(features=mtc.HAS_DEVICE),
    "lf.mtc": mtc.head(features=mtc.HAS_DEVICE) + mtc.chunk(mtc.META, b'{"ev":"kernel","id":1,"name":"a\\nlaunch 9 forged"}\n'
                                                           b'{"ev":"kernel","id":2,"name":"a\\u0000b"}\n', 2)
    + mtc.chunk(mtc.DEVICE, regular, 96, key=1, first=5, last=5, flags=3) + mtc.chunk(mtc.DEVICE, regular, 96, key=2, first=6, last=6, flags=3),
    "deep.json": b'{"a":' * 3000,
}
for key, data in tools.items():
    with open(os.path.join(sys.argv[1], "tools", key), "wb") as f:
        f.write(data)
