"""Shows how the bytes of tests/golden/container were made: make_golden.py FOLDER writes them. The committed files
count, not this; expected texts were written by hand from docs/trace-format.md."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mtc import DEVICE, HAS_BLOCKS, HAS_COPIES, HAS_DEVICE, HAS_FENCES, HAS_HOST, HAS_SPACES, HAS_TIMES, HOST, INDEX, META, chunk, head, leb, sleb, tail  # noqa: E402

TIMED = HAS_HOST | HAS_TIMES


def acc(site=None, address=None, size=None, time=None, second=False):
    """A token for one access; differences, not values."""
    given = (site, address, size, time)
    out = bytes([0x80 | sum(1 << i for i, g in enumerate(given) if g is not None) | (16 if second else 0)])
    for i, g in enumerate(given):
        if g is not None:
            out += leb(g) if i == 2 else sleb(g)
    return out


def run(n):
    return bytes([n - 1])


def event(kind, *args, time=None):
    return bytes([0xc0 | kind]) + (b"" if time is None else sleb(time)) + leb(len(args)) + b"".join(map(leb, args))


def meta(*lines):
    text = b"".join(json.dumps(x).encode() + b"\n" for x in lines)
    return chunk(META, text, len(lines))


def columns(*runs):
    """A device chunk's payload; a run is its token's four codes and what it takes from the four columns."""
    parts = [b""] * 5
    for context, slot, base, shape, *more in runs:
        parts[0] += bytes([context | slot << 2 | base << 4 | shape << 6])
        for i, b in enumerate(more):
            parts[i + 1] += b
    return struct.pack("<6I", *map(len, parts), 0) + b"".join(parts)


KERNEL = {"ev": "kernel", "id": 1, "name": "k<int>"}


def device(payload, items, seq=5, flags=3, key=1, **more):
    return chunk(DEVICE, payload, items, key=key, first=seq, last=seq, flags=flags, **more)


def u32(v):
    return struct.pack("<I", v)


END = {"ev": "end", "records_written": 0, "complete": True}


def closed(data):
    return data + tail(data)


def succeed():
    yield "head-only", head()
    yield "closed-empty", closed(head())
    # Every rule of the prediction, by hand; tokens.txt has the accesses.
    tokens = (acc(8, 1000, 4)          # site 8 at 1000, size 4
              + acc(4, 24)             # site 12, first seen: 1000 + 24
              + acc(-4, 0x10)          # site 8: stride 0 so far: 1016; successor of 12 is now 8
              + run(1)                 # 12 again, by stride 0: 1024; its offset was 24, now 8
              + acc(None, 16)          # 8: 1016 + 16 = 1032, the same step as before: stride 16
              + acc(None, 16)          # 12: 1024 + 16; 12's offset 8 was right: from now on relative
              + run(3)                 # 8: 1048, 12: 1056, 8: 1064
              + acc(13, -1064 - 1)     # site 21, first seen: at 2^64 - 1
              + acc(-9, 1)             # 12: relative (+8): 7, + 1 = 8
              + acc(None, None, 1)     # 8: 1080, size 1
              + acc(second=True)       # second successor of 8, which were 12 and then 21: 12, relative (+9): 1089
              + event(9, 77)           # sequence number 77
              + event(5))
    yield "tokens", closed(head() + chunk(HOST, tokens, 15, key=3, first=5, last=77))
    odd = (head(features=HAS_HOST | 1 << 40, first=128) + chunk(77, b"of the future") +
           chunk(HOST, acc(4, 5, 1) + event(60, 1, 2, 3), 2, key=1) +
           chunk(78, b"so is its codec", codec=0))
    yield "unknown-parts", closed(odd)
    yield "zstd", closed(head() + chunk(HOST, acc(4, 64, 8) + acc(0, 8) + run(128) * 30, 3842, codec=1))
    threads = (chunk(HOST, acc(4, 1, 1) + event(9, 4) + acc(0, 1), 3, key=1, first=0, last=4) +
               chunk(HOST, acc(4, 10, 1) + event(9, 2) + acc(0, 1) + event(9, 6) + acc(0, 1), 5, key=0, first=0, last=6) +
               chunk(HOST, acc(4, 3, 1), 1, key=1, first=5, last=5))
    yield "sequence", closed(head() + threads)
    sites = [{"ev": "site", "id": 8, "op": "load", "size": 4}, {"ev": "site", "id": 9, "op": "store", "size": 4},
             {"ev": "site", "id": 12, "op": "atomic", "size": 8}, {"ev": "site", "id": 16, "op": "cas-failed", "size": 8},
             {"ev": "site", "id": 20, "op": "load", "size": 8}, {"ev": "site", "id": 21, "op": "load", "size": 8},
             {"ev": "function", "id": 4, "name": "ns::f"}]
    one = (event(1, 7, time=1) + acc(8, 100, time=1) + acc(1, 8) + event(3, 4, 5, 6, 7, 8, time=1)
           + acc(3, 4) + event(4, 4, 5, 0, time=1) + event(2, time=1))
    two = (event(1, 9, time=1) + event(5, time=1) + acc(16, 5, time=2) + acc(4, 1) + acc(1, 1)
           + event(6, time=1) + event(7, time=0) + event(8, time=5))
    yield "atomic", (head(features=TIMED) + meta({"ev": "header", "version": 1, "mode": "atomic"}, *sites) +
                     chunk(HOST, one, 7, key=0) + chunk(HOST, two, 8, key=1) +
                     chunk(HOST, event(5, time=30), 1, key=2**64 - 1) + meta(END))
    lines = [{"ev": "header", "version": 1, "mode": "mat"},
             {"ev": "site", "id": 4, "op": "load", "size": 4, "ip": "0x1000", "file": "a b.c", "line": 3},
             {"ev": "site", "id": 8, "op": "store", "size": 8},
             {"ev": "site", "id": 12, "op": "atomic", "size": 2, "ip": "0x2000", "file": "c.c", "line": 9},
             {"ev": "alloc", "seq": 1, "id": 0, "base": "0x100", "bytes": 64, "kind": "malloc"},
             {"ev": "free", "seq": 3, "id": 0, "base": "0x100"},
             {"ev": "alloc", "seq": 4, "id": 1, "base": "0x110", "bytes": 16, "kind": "malloc"},
             {"ev": "alloc", "seq": 2, "id": 2, "base": "0x1000", "bytes": 4096, "kind": "mmap"}]
    body = (acc(4, 0x120) + event(9, 1) + acc(4, 0) + event(9, 2) + acc(4, 0x1fff - 0x120) + acc(0, -0x1fff + 0x100)
            + event(9, 3) + acc(-4, 0) + event(9, 4) + acc(0, -16) + acc(-4, 0))
    yield "mat", closed(head() + meta(*lines) + chunk(HOST, body, 11, key=0, first=0, last=4) + meta(END))
    lines = [{"ev": "header", "version": 1, "mode": "mat"},
             {"ev": "alloc", "seq": 1, "id": 0, "base": "0x1000", "bytes": 0x3000, "kind": "mmap"},
             {"ev": "cut", "seq": 2, "id": 0, "base": "0x2000", "bytes": 4096},
             {"ev": "alloc", "seq": 3, "id": 1, "base": "0x2800", "bytes": 2048, "kind": "mmap"},
             {"ev": "free", "seq": 4, "id": 0, "base": "0x1000"}]
    body, before = b"", 0
    for seq in (1, 2, 3, 4):  # the last byte before the hole, its first, one in the middle, the first after it
        body += event(9, seq)
        for address in (0x1fff, 0x2000, 0x2800, 0x3000):
            body += acc(4, address - before, 1)  # always a new site: predicted is the address before
            before = address
    yield "cut", closed(head() + meta(*lines) + chunk(HOST, body, 20, last=4) + meta(END))
    lines = [{"ev": "header", "version": 1, "mode": "insn"},
             {"ev": "site", "id": 4, "op": "exec", "ip": "0x401010", "text": "push rbp", "reads": "rbp rsp", "writes": "rsp"},
             {"ev": "site", "id": 5, "op": "store", "size": 8},
             {"ev": "site", "id": 8, "op": "exec", "ip": "0x401000", "text": "movaps xmm0, [rdi]", "reads": "rdi", "writes": "xmm0*"},
             {"ev": "site", "id": 9, "op": "load", "size": 16}]
    body = (acc(4, 0, time=-1) + acc(1, 0xff8) + acc(3, -0xff8) + acc(1, 0x40) + acc(-5, time=1) + acc(None, -8))
    other = acc(4, 0, time=1) + acc(1, 0x7f8)
    yield "insn", closed(head(features=TIMED) + meta(*lines) + chunk(HOST, body, 6, key=0) +
                         chunk(HOST, other, 2, key=1) + meta(END))
    # Every rule of the runs, by hand; device.device.txt has the accesses.
    yield "device", closed(head(features=HAS_DEVICE) + meta({"ev": "header", "version": 1, "format": "compact"}, KERNEL) + device(columns(
        # CTA 1,2,3, warp -1 + 6, SM 9; site 4, load of 4, mask 3, at 1000
        (3, 3, 3, 2, b"\x0e" + sleb(1) + sleb(2) + sleb(3) + sleb(6) + sleb(9), sleb(4) + leb(4) + b"\1" + u32(3), sleb(1000)),
        # site 8, store of 8, lanes 0 and 31, 16 down; a new slot's last is A
        (0, 3, 3, 2, b"", sleb(4) + leb(1 << 28 | 8) + b"\5" + u32(0x80000001) + sleb(-16), sleb(24)),
        (0, 2, 0, 0, leb(1)),  # slot 1 by number, its stride is 0
        (0, 0, 1, 0),  # its successor; A 1000 + offset 24
        (0, 0, 3, 2, b"", b"\2" + leb(3), sleb(64)),  # from its own 1000; three accesses without mask
        (0, 0, 3, 0, b"", b"", sleb(64)),
        (0, 0, 3, 1, b"", b"", sleb(64)),  # the second step of 64 makes a stride; the other shape
        (3, 0, 0, 0, b"\1"),  # CTA 2,2,3, warp 0; slot 1 follows the begin; 1128 + 64
        (2, 0, 2, 0, sleb(-1)),  # back; own 1088, one step of 64 is not a step yet
        # successor; anchor 1000 + 96; three lanes of 5 bits, eights: 0, 31, 1
        (1, 0, 1, 3, b"", b"", sleb(96), b"\5\3" + u32(7) + b"\xe0\x07"),
        (0, 2, 0, 3, leb(2), b"", b"", b"\xc0\0" + struct.pack("<3Q", 0, 2**64 - 1096, 8)),  # the same lanes, 64 bits
        (0, 1, 1, 1),  # second successor of slot 2; A 1096 + offset 64
        (3, 0, 1, 1, b"\4" + sleb(-2)),  # warp 1 - 2: not known
        (3, 3, 3, 2, b"\x08" + sleb(-9), sleb(-8) + leb(2 << 28 | 1) + b"\2" + leb(1), sleb(-1224)),  # still not known
        (0, 3, 1, 2, b"", sleb(0) + leb(3 << 28 | 2) + b"\0")),  # all 32 lanes, stride 2
        63) +
        device(columns(), 0, seq=9) +  # a launch that touched nothing
        # a launch in two chunks: the second one knows nothing of the first
        device(columns((3, 3, 3, 2, b"\0", sleb(1) + leb(4) + b"\2" + leb(2), sleb(16))), 2, seq=11, flags=1) +
        device(columns((3, 3, 0, 2, b"\0", sleb(1) + leb(4) + b"\2" + leb(1))), 1, seq=11, flags=2) +
        meta(*({"ev": "launch", "seq": s, "stream": 0, "kernel": "k<int>", "traced": True, "records": n}
               for s, n in ((5, 63), (9, 0), (11, 3))), {"ev": "end", "records_written": 66, "complete": True}))
    # Memory that is not global, and barriers; spaces.device.txt has what readers hand out unasked, spaces.all.txt all.
    yield "spaces", closed(head(features=HAS_DEVICE | HAS_SPACES, minor=2) + meta(
        {"ev": "header", "version": 1, "format": "compact"}, KERNEL,
        *({"ev": "site", "id": i, "file": "k.cu", "line": 10 + i, "column": 1, "function": "k", "op": op, "size": 4, "var": "", **more}
          for i, op, more in ((1, "load", {}), (2, "store", {"space": "shared"}), (3, "barrier", {}), (4, "load", {"space": "local"})))) +
        device(columns(
            (3, 3, 3, 2, b"\0", sleb(1) + leb(4) + b"\1" + u32(3), sleb(4096)),  # site 1, load of 4 by lanes 0 and 1
            (0, 3, 3, 2, b"", sleb(1) + leb(5 << 28 | 4) + b"\1" + u32(3), sleb(16 - 4096)),  # site 2, shared store at 16
            (0, 3, 3, 2, b"", sleb(1) + leb(12 << 28 | 1) + b"\5" + u32(3) + sleb(0), sleb(-16)),  # site 3, barrier 0
            (0, 3, 3, 2, b"", sleb(1) + leb(8 << 28 | 4) + b"\5" + u32(3) + sleb(0), sleb(8)),  # site 4, local load at 8
            (0, 2, 0, 0, leb(1)),  # site 1 again
            (0, 3, 3, 2, b"", sleb(-2) + leb(6 << 28 | 4) + b"\1" + u32(1), sleb(32 - 4096)),  # site 2, shared atomic at 32
            (0, 3, 3, 2, b"", sleb(1) + leb(14 << 28 | 1) + b"\5" + u32(3) + sleb(0), sleb(-32)),  # site 3, barrier of the warp
            (0, 3, 3, 2, b"", sleb(0) + leb(13 << 28 | 1) + b"\5" + u32(3) + sleb(0), sleb(1))),  # and one without waiting, 1
            15) +
        meta({"ev": "launch", "seq": 5, "stream": 0, "kernel": "k<int>", "traced": True, "records": 4, "others": 11},
             {"ev": "end", "records_written": 4, "others_written": 11, "complete": True}))
    # A copy, its group and the wait for it; copies.all.txt has all.
    yield "copies", closed(head(features=HAS_DEVICE | HAS_SPACES | HAS_COPIES, minor=3) + meta(
        {"ev": "header", "version": 1, "format": "compact"}, KERNEL,
        *({"ev": "site", "id": i, "file": "k.cu", "line": 10 + i, "column": 1, "function": "k", "op": op, "size": size, "var": "", **more}
          for i, op, size, more in ((1, "load", 4, {}), (2, "copy", 1, {}), (3, "store", 4, {"space": "shared"}), (4, "copy", 2, {}), (5, "copy", 4, {})))) +
        device(columns(
            (3, 3, 3, 2, b"\0", sleb(1) + leb(4) + b"\1" + u32(3), sleb(4096)),  # site 1, load of 4 by lanes 0 and 1
            (0, 3, 3, 2, b"", sleb(1) + leb(15 << 28 | 1) + b"\5" + u32(3) + sleb(0), sleb(-4096)),  # site 2, cp.async
            (0, 3, 3, 2, b"", sleb(1) + leb(5 << 28 | 4) + b"\1" + u32(3), sleb(16)),  # site 3, its shared store at 16
            (0, 3, 3, 2, b"", sleb(1) + leb(15 << 28 | 2) + b"\5" + u32(3) + sleb(0), sleb(-16)),  # site 4, the group is closed
            (0, 3, 3, 2, b"", sleb(1) + leb(15 << 28 | 4) + b"\5" + u32(3) + sleb(0), sleb(8))),  # site 5, all but two are waited for
            10) +
        meta({"ev": "launch", "seq": 5, "stream": 0, "kernel": "k<int>", "traced": True, "records": 2, "others": 8},
             {"ev": "end", "records_written": 2, "others_written": 8, "complete": True}))
    # Two stores with a fence between them; fences.all.txt has all.
    yield "fences", closed(head(features=HAS_DEVICE | HAS_SPACES | HAS_COPIES | HAS_FENCES, minor=4) + meta(
        {"ev": "header", "version": 1, "format": "compact"}, KERNEL,
        *({"ev": "site", "id": i, "file": "k.cu", "line": 10 + i, "column": 1, "function": "k", "op": op, "size": size, "var": "", **more}
          for i, op, size, more in ((1, "store", 4, {}), (2, "fence", 1, {"scope": "gpu", "order": "acq_rel"}),
                                    (3, "store", 4, {"strong": True, "scope": "sys", "order": "volatile"})))) +
        device(columns(
            (3, 3, 3, 2, b"\0", sleb(1) + leb(1 << 28 | 4) + b"\1" + u32(3), sleb(4096)),  # site 1, store of 4 by lanes 0 and 1
            (0, 3, 3, 2, b"", sleb(1) + leb(13 << 28 | 1) + b"\5" + u32(3) + sleb(0), sleb(0xf3 - 4096)),  # site 2, a fence of the GPU
            (0, 3, 3, 2, b"", sleb(1) + leb(1 << 28 | 4) + b"\1" + u32(1), sleb(8192 - 0xf3))),  # site 3, store of 4 by lane 0
            5) +
        meta({"ev": "launch", "seq": 5, "stream": 0, "kernel": "k<int>", "traced": True, "records": 3, "others": 2},
             {"ev": "end", "records_written": 3, "others_written": 2, "complete": True}))
    # Every rule of the blocks, by hand; blocks.device.txt has the accesses. Tokens e0 to e3 are (flags, 0, 2, 3), e4 is (0, 1, 2, 3).
    yield "blocks", closed(head(features=HAS_DEVICE | HAS_BLOCKS, minor=5) + meta({"ev": "header", "version": 1, "format": "compact"}, KERNEL) + device(columns(
        # region 0: site 5, load of 4, one row, 4 apart; site 6, store of 8, two rows, -8 apart. CTA 1,2,3, warp 3, SM 9, two warps
        # 128, 256 and -512 apart, two laps 1024 and 16 apart, from 4096, 8192 and 9000 on
        (3, 0, 2, 3, leb(0) + b"\xfe" + sleb(1) + sleb(2) + sleb(3) + sleb(3) + sleb(9) + leb(2) + leb(2),
         leb(2) + sleb(5) + leb(4) + b"\1" + sleb(4) + sleb(1) + leb(1 << 28 | 8) + b"\2" + sleb(-8) +
         sleb(128) + sleb(256) + sleb(-512) + sleb(1024) + sleb(16), sleb(4096) + sleb(8192) + sleb(9000)),
        (2, 0, 2, 3, b"\0", b"", sleb(-4000) + sleb(0) + sleb(1)),  # warps 5 and 6, from 4192, 16384 and 18001 on
        (3, 3, 3, 2, b"\0", sleb(7) + leb(4) + b"\1" + u32(3), sleb(24)),  # a run knows nothing of blocks: CTA 0, SM 0, its first site is 7
        (0, 1, 2, 3, leb(2) + leb(11)),  # CTAs 2,2,3 and 3,2,3, warp 0, SMs 10 and 0, 96, 8192 and 9001 further
        # region 1: site 4, load of 1, two rows of one address; in CTA 4,2,3 on SM 0, from 0 on
        (1, 0, 2, 3, leb(1) + b"\1", leb(1) + sleb(-2) + leb(1) + b"\2" + sleb(0)),
        (1, 0, 2, 3, leb(0) + b"\0" + b"", b"")),  # the same CTA, warp 0: the block before is another region's
        8 * 32 * 4 + 32 + 2 + 8 * 32) +
        meta({"ev": "launch", "seq": 5, "stream": 0, "kernel": "k<int>", "traced": True, "records": 1314},
             {"ev": "end", "records_written": 1314, "complete": True}))


def fail():
    h, good = head(), chunk(HOST, acc(4, 9, 1), 1)
    broken = bytearray(good)
    broken[65] ^= 1
    bad_head = bytearray(h)
    bad_head[40] ^= 1
    yield "empty", b"", 0, "is empty", 0
    yield "text", b"not a container at all", 0, "not a container", 0
    yield "head-cut", h[:63], 0, "ends inside its head", 0
    yield "head-damaged", bytes(bad_head), 0, "head of the container is damaged", 0
    yield "version", head(version=2), 0, "a newer memtrace", 0
    yield "feature", head(features=HAS_HOST | 1 << 31), 0, "a newer memtrace", 0
    yield "no-chunk", h + good + b"x" * 100 + good, 64 + len(good), "no chunk begins here", 1
    yield "check", h + good + bytes(broken) + good, 64 + len(good), "checksum", 2
    yield "check-closed", (h + good + bytes(broken) + good) + tail(h + good + good + good), 64 + len(good), "checksum", 2
    yield "cut-in-head", h + good + good[:63], 64 + len(good), "inside the head of a chunk", 1
    yield "cut-in-payload", h + good + good[:66], 64 + len(good), "inside a chunk (66 of", 1
    yield "stored-huge", h + chunk(HOST, acc(4, 9, 1), 1, stored=1 << 40) + good, 64, "more than any has", 1
    yield "plain-huge", h + chunk(HOST, acc(4, 9, 1), 1, plain=1 << 40, codec=1) + good, 64, "more bytes than any has", 1
    yield "plain-wrong", h + chunk(HOST, acc(4, 9, 1), 1, plain=9) + good, 64, "two lengths", 1
    yield "zstd-wrong", h + chunk(HOST, acc(4, 9, 1) + run(1) * 90, 1, plain=9, codec=1) + good, 64, "not as long as its head", 1
    yield "codec", h + chunk(HOST, acc(4, 9, 1), 1, codec=9) + good, 64, "does not know", 1
    yield "items-huge", h + chunk(HOST, acc(4, 9, 1), 1 << 21) + good, 64, "more than any has", 1

    def payload(name, body, words, before=0, items=None, features=HAS_HOST, last=0):
        n = before if items is None else items
        return name, head(features) + chunk(HOST, body, n, last=last) + good, 64, words, before + 1

    a = acc(4, 9, 1)
    yield payload("token", a + b"\xa5", "no meaning", 1)
    yield payload("run-unknown", a + run(2), "nothing is known", 1)
    yield payload("run-first", run(1), "nothing is known", 0)
    yield payload("no-site", acc(None, 4), "names no site", 0)
    yield payload("no-second", a + acc(second=True), "names no site", 1)
    yield payload("both-sites", a + acc(8) + acc(4) + b"\x91\x00", "names no site", 3)
    yield payload("site-low", acc(3, 1), "site that cannot be", 0)
    yield payload("site-high", a + acc(1 << 32), "site that cannot be", 1)
    yield payload("number-long", a + b"\x83\0" + b"\xff" * 9 + b"\x02", "more than 64 bits", 1)
    yield payload("number-cut", a + b"\x83\0\xff\xff", "ends inside a number", 1)
    yield payload("event-none", a + b"\xc0\x00", "event that cannot be", 1)
    yield payload("event-long", a + b"\xcc" + b"\x09" + bytes(9), "event that cannot be", 1)
    yield payload("event-short", a + event(3, 1), "event that cannot be", 1)
    yield payload("event-cut", a + b"\xc5", "ends inside a number", 1)
    yield payload("time", acc(4, 1, None, 5), "times", 0)
    yield payload("size", acc(4, 1, 1 << 32), "4 GiB", 0)
    yield payload("items-many", a, "its head says 5", 1, items=5)
    yield payload("items-few", a + acc(0, 1), "more items than its head says", 0, items=1)
    yield payload("last", a, "sequence number 0, its head says 1 and 3", 1, last=3)
    data = h + good
    yield "index-lies", data + tail(data, [(64, 0, 0, 0, 1, HOST), (1 << 50, 0, 0, 0, 1, HOST)]), len(data), "index is damaged", 1
    yield "index-other", data + tail(data, [(64, 5, 0, 0, 1, HOST)]), 64, "another chunk than the index says", 0
    t = bytearray(tail(data))
    yield "tail-damaged", data + bytes(t[:-20]) + b"y" + bytes(t[-19:]), len(data + t) - 32, "inside the head of a chunk", 1
    yield "index-type", data + tail(data)[-32:], len(data), "index is damaged", 1
    yield "meta-zstd", h + chunk(META, b"x" * 100, 1, codec=1, plain=99) + good, 64, "not as long", 1


def fail_device():
    """After the damage is a whole launch with one access."""
    good = device(columns((3, 3, 3, 2, b"\0", sleb(1) + leb(4) + b"\2" + leb(1), sleb(16))), 1, seq=6)
    start = head(features=HAS_DEVICE) + meta(KERNEL)
    one = (3, 3, 3, 2, b"\0", sleb(1) + leb(4) + b"\2" + leb(1), sleb(16))

    def bad(name, words, *runs, items=1, before=0, payload=None, **more):
        body = columns(*runs) if payload is None else payload
        return name, start + device(body, items, **more) + good, len(start), words, before + 1

    yield bad("device-short", "too short", payload=b"\0" * 23)
    yield bad("device-columns", "another length", payload=columns(one) + b"x")
    yield bad("device-first", "does not name", (0, 3, 3, 2))
    yield bad("device-successor", "does not name", one, (1, 0, 0, 0))
    yield bad("device-context", "not there yet", one, (2, 0, 0, 0, sleb(1)))
    yield bad("device-context-flags", "no meaning", (3, 3, 3, 2, b"\3"))
    yield bad("device-slot", "not there yet", one, (0, 2, 0, 0, leb(2)))
    yield bad("device-slot-0", "not there yet", one, (0, 2, 0, 0, leb(0)))
    yield bad("device-next", "not there yet", one, (0, 0, 0, 0))
    yield bad("device-second", "not there yet", one, (0, 1, 0, 0))
    yield bad("device-type", "no known type", (3, 3, 0, 2, b"\0", sleb(1) + leb(4 << 28 | 4) + b"\0"))
    for kind in (7, 11, 15):  # with the feature, too
        yield (f"spaces-type-{kind}", head(features=HAS_DEVICE | HAS_SPACES, minor=2) + meta(KERNEL) +
               device(columns((3, 3, 0, 2, b"\0", sleb(1) + leb(kind << 28 | 4) + b"\0")), 1) + good, len(start), "no known type", 1)
    yield bad("device-size", "0 bytes", (3, 3, 0, 2, b"\0", sleb(1) + leb(1 << 28) + b"\0"))
    yield bad("device-shape", "lanes that it does not name", one, (0, 2, 0, 1, leb(1)))
    yield bad("device-shape-flags", "no meaning", (3, 3, 0, 2, b"\0", sleb(1) + leb(4) + b"\3" + u32(1)))
    yield bad("device-count", "too many", (3, 3, 0, 2, b"\0", sleb(1) + leb(4) + b"\2" + leb(1 << 31)))
    yield bad("device-count-0", "no lanes", (3, 3, 0, 2, b"\0", sleb(1) + leb(4) + b"\1" + u32(0)))
    yield bad("device-width", "no known way", (3, 3, 0, 3, b"\0", sleb(1) + leb(4), b"", b"\x39\0" + u32(1) + bytes(8)))
    yield bad("device-shift", "no known way", (3, 3, 0, 3, b"\0", sleb(1) + leb(4), b"", b"\x01\x40" + u32(1) + bytes(1)))
    yield bad("device-gather-code", "no meaning", (3, 3, 2, 3, b"\0", sleb(1) + leb(4), b"", b"\1\0" + u32(1) + b"\0"))
    yield bad("device-gather-count", "too many", (3, 3, 0, 3, b"\0", sleb(1) + leb(4), b"", b"\0\0" + u32(0) + leb(33)))
    yield bad("device-gather-none", "no lanes", (3, 3, 0, 3, b"\0", sleb(1) + leb(4), b"", b"\x80\0"))
    yield bad("device-gather-cut", "inside a column", (3, 3, 0, 3, b"\0", sleb(1) + leb(4), b"", b"\x20\0" + u32(1) + b"\0"))
    yield bad("device-number", "more than 64 bits", (3, 3, 3, 2, b"\0", sleb(1) + leb(4) + b"\2\1", b"\xff" * 9 + b"\2"))
    yield bad("device-cut", "inside a column", (3, 3, 3, 2, b"\0", sleb(1) + leb(4) + b"\2\1"))
    yield bad("device-left", "other accesses", (*one[:-1], sleb(16) + b"\0"))
    yield bad("device-items", "other accesses", one, items=2)
    yield bad("device-items-huge", "more accesses than any", one, items=1 << 31)
    yield bad("device-accesses", "more accesses than any", *[(3, 3, 0, 2, b"\0", sleb(1) + leb(4) + b"\2" + leb(1 << 30))] * 2)
    # All of it is there, but the launch has no end, or no name.
    yield ("device-no-end", start + device(columns(one), 1, flags=1) + good, len(start) + 64 + len(columns(one)),
           "ends inside kernel 'k<int>'", 2)
    yield "device-no-name", start + device(columns(one), 1, key=2) + good, len(start), "name of this chunk's kernel", 2


if __name__ == "__main__":
    folder = sys.argv[1]
    for name, data in succeed():
        with open(os.path.join(folder, "succeed", name + ".mtc"), "wb") as f:
            f.write(data)
    expected = {}
    for name, data, offset, words, records in fail():
        with open(os.path.join(folder, "fail", name + ".mtc"), "wb") as f:
            f.write(data)
        expected[name] = {"offset": offset, "message": words, "records": records}
    for name, data, offset, words, records in fail_device():
        with open(os.path.join(folder, "fail", name + ".mtc"), "wb") as f:
            f.write(data)
        expected[name] = {"offset": offset, "message": words, "accesses": records}
    with open(os.path.join(folder, "fail", "expected.json"), "w") as f:
        f.write("{\n" + ",\n".join(f" {json.dumps(name)}: {json.dumps(one)}" for name, one in expected.items()) + "\n}\n")
