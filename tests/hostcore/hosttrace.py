"""Containers as the core writes them, decoded by tests/container/mtc.py: read(path) -> (meta lines, chunks, closed), a
chunk is (thread, first seq, last seq, items), an item ("access", site, address, size, time) or
("event", name, time, args)."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "container"))
import mtc  # noqa: E402


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    timed = mtc.read_head(data)["features"] & mtc.HAS_TIMES
    meta, chunks = [], []
    for c in mtc.chunks(data):
        if c.type == mtc.META:
            lines = mtc.lines(c)
            assert len(lines) == c.items
            meta += lines
        elif c.type == mtc.HOST:
            items = [("access", *i[1:]) if i[0] == "a" else ("event", mtc.EVENTS[i[1]], *i[2:])
                     for i in mtc.host(c.payload, timed)]
            assert len(items) == c.items
            chunks.append((c.key, c.first, c.last, items))
    return meta, chunks, data[-8:] == b"MTCEND\r\n"


def by_thread(chunks):
    """thread -> [(seq in force, item)]; checks what chunk heads say about sequence numbers."""
    out = {}
    for thread, first, last, items in chunks:
        seq = first
        for i in items:
            if i[0] == "event" and i[1] == "seq":
                assert i[3][0] > seq
                seq = i[3][0]
            out.setdefault(thread, []).append((seq, i))
        assert seq == last, (seq, last)
    return out


class Allocations:
    """From the alloc, free and cut lines: which allocation holds an address at a sequence number."""

    def __init__(self, meta):
        self.ranges = []  # [begin seq, end seq, low, high, line]
        for m in meta:
            if m["ev"] == "alloc":
                base = int(m["base"], 16)
                self.ranges.append([m["seq"], 1 << 64, base, base + m["bytes"], m])
            elif m["ev"] == "free":
                for r in self.ranges:
                    if r[4]["id"] == m["id"]:
                        r[1] = min(r[1], m["seq"])
            elif m["ev"] == "cut":
                low, high = int(m["base"], 16), int(m["base"], 16) + m["bytes"]
                for r in list(self.ranges):
                    if r[4]["id"] == m["id"] and r[1] > m["seq"] and r[2] < high and low < r[3]:
                        self.ranges.append([m["seq"], 1 << 64, r[2], low, r[4]])
                        self.ranges.append([m["seq"], 1 << 64, high, r[3], r[4]])
                        r[1] = m["seq"]

    def find(self, address, seq):
        best = None
        for begin, end, low, high, line in self.ranges:
            if begin <= seq < end and low <= address < high:
                layer = line["kind"] not in ("mmap", "brk")
                if best is None or (layer, line["id"]) > best[0]:
                    best = ((layer, line["id"]), line)
        return best and best[1]
