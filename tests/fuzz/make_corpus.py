"""The first files of corpus/: make_corpus.py FOLDER. The committed files count, not this."""
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
