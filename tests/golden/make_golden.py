#!/usr/bin/env python3
"""Writes the golden traces. usage: make_golden.py FOLDER (the committed files are its output for this folder)"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "postprocess"))
from traces import ATOMIC, EOT, LOAD, STORE, UNKNOWN, companion, record, trace

C0, C1, C2 = (0, 0, 0), (1, 0, 0), (2, 0, 0)


def launch(seq, kernel, records, **more):
    return dict({"ev": "launch", "seq": seq, "kernel": kernel, "traced": True, "records": records}, **more)


def end(records):
    return {"records_written": records, "records_counted": records}


def worked_example():
    fill = [
        record(0, LOAD, 4, 0x100, C0),
        record(0, STORE, 4, 0x200, C0),
        record(1, LOAD, 4, 0x104, C1),
        record(1, STORE, 4, 0x204, C1),
    ]
    add = [
        record(0, LOAD, 8, 0x200, C0),
        record(0, ATOMIC, 4, 0x300, C0),
        record(1, LOAD, 4, 0x204, C1),
        record(1, ATOMIC, 4, 0x300, C1),
    ]
    meta = [
        {"ev": "alloc", "seq": 0, "id": 1, "base": "0x100", "bytes": 8, "kind": "cudaMalloc"},
        {"ev": "alloc", "seq": 1, "id": 2, "base": "0x200", "bytes": 260, "kind": "cudaMalloc", "name": "out"},
        {"ev": "memcpy", "seq": 2, "kind": "h2d", "dst": "0x100", "src": "0x7ffc0000", "bytes": 8, "stream": 0},
        launch(3, "fill", 4),
        launch(4, "sum", 4, untraced=3),
        {"ev": "memcpy", "seq": 5, "kind": "d2h", "dst": "0x7ffc0100", "src": "0x300", "bytes": 4, "stream": 0},
    ]
    return {"trace": trace([("fill", fill), ("sum", add)]), "trace.meta": companion(meta, {}, end(8))}


def stencil():
    """Three CTAs of two cells of 4 bytes; out[i] = in[i-1] + in[i] + in[i+1], clamped; two launches, swapped buffers."""
    a, b, launches = 0x1000, 0x2000, []
    for _ in range(2):
        records = []
        for i in range(6):
            cta, sm = (i // 2, 0, 0), 5 + i // 2
            for k in (max(i - 1, 0), i, min(i + 1, 5)):
                records.append(record(sm, LOAD, 4, a + 4 * k, cta))
            records.append(record(sm, STORE, 4, b + 4 * i, cta))
        launches.append(("stencil<float, 1>", records))
        a, b = b, a
    return {"trace": trace(launches)}


def split():
    """A load that takes bytes of three CTAs and of itself; bytes overwritten in part; an unknown access."""
    write = [
        record(0, STORE, 3, 0xFFE, C0),  # 0xffe .. 0x1000, over the border of a page
        record(1, STORE, 1, 0x1001, C1),
        record(2, STORE, 4, 0x1002, C2),
        record(1, STORE, 2, 0x1004, C1),  # overwrites the half of it
        record(0, UNKNOWN, 8, 0x1000, C0),
    ]
    read = [record(0, STORE, 1, 0x1000, C0), record(0, LOAD, 8, 0xFFE, C0)]
    return {"trace": trace([("write", write), ("read", read)])}


def streams():
    """Two streams: a writes, b reads and writes, a reads; the companions' seq interleaves them."""
    a = [("a", [record(0, STORE, 4, 0x10, C0)]), ("a", [record(0, LOAD, 4, 0x10, C0)])]
    b = [("b", [record(1, LOAD, 4, 0x10, C0), record(1, STORE, 4, 0x10, C0)])]
    out = {}
    for name, launches, seqs, stream in (("-a", a, (10, 30), 0), ("-b", b, (20,), 1)):
        events = [launch(s, k, len(r), stream=stream) for s, (k, r) in zip(seqs, launches)]
        out[name + ".trace"] = trace(launches)
        out[name + ".trace.meta"] = companion(events, {"stream": stream}, end(sum(len(r) for _, r in launches)))
    return out


def stride():
    """Offsets 0 8 16 24 32 of one buffer, read."""
    records = [record(0, LOAD, 8, 0x5000 + o, C0) for o in (0, 8, 16, 24, 32)]
    meta = [{"ev": "alloc", "seq": 0, "id": 18, "base": "0x5000", "bytes": 40, "kind": "cudaMalloc"},
            launch(1, "walk", 5)]
    return {"trace": trace([("walk", records)]), "trace.meta": companion(meta, {}, end(5))}


SUCCEED = {
    "worked-example": worked_example,
    "stencil": stencil,
    "split": split,
    "streams": streams,
    "stride": stride,
    "empty": lambda: {"trace": trace([])},
    "no-access": lambda: {"trace": trace([("nothing", []), ("nothing", [])])},
}

ONE = [record(0, STORE, 4, 0x10, C0), record(0, STORE, 4, 0x14, C0), record(0, LOAD, 4, 0x10, C1)]
WHOLE = trace([("first", ONE)])
FAIL = {
    "empty": b"",
    "record-size": bytes([16]) + WHOLE[1:],
    "in-record": WHOLE[:1] + WHOLE[1:] + b"second\n" + ONE[0] + ONE[1][:7],
    "in-kernel": WHOLE + b"second\n" + ONE[0] + ONE[1],
    "after-name": WHOLE + b"second\n",
    "in-name": WHOLE + b"secon",
    "no-lf": bytes([24]) + b"kernel",
    "name-not-text": WHOLE + b"sec\xff\xfeond\n" + EOT,
    "reserved-type": WHOLE + b"second\n" + ONE[0] + record(0, 9, 4, 0x10, C0) + EOT,
    "zero-bytes": WHOLE + b"second\n" + ONE[0] + record(7, LOAD, 0, 0x10, C0) + EOT,
    "garbage": bytes((i * 197 + 55) % 256 for i in range(300)),
    "text": b"This is no trace.\n",
}


def main():
    folder = sys.argv[1]
    for kind in ("succeed", "fail"):
        os.makedirs(os.path.join(folder, kind), exist_ok=True)
    for name, make in SUCCEED.items():
        for ending, data in make().items():
            file = name + ending if ending.startswith("-") else name + "." + ending
            with open(os.path.join(folder, "succeed", file), "wb") as f:
                f.write(data if isinstance(data, bytes) else data.encode())
    for name, data in FAIL.items():
        with open(os.path.join(folder, "fail", name + ".trace"), "wb") as f:
            f.write(data)


if __name__ == "__main__":
    main()
