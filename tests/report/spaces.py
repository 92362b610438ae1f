"""Containers with records of shared and local memory, as docs/trace-format.md says: for tests."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../container"))
from make_golden import columns, device, meta
from mtc import HAS_DEVICE, HAS_SPACES, head, leb, sleb, tail

LOAD, STORE, SHARED, LOCAL = 0, 1, 4, 8  # a type is a sum of the two


def runs(accesses):
    """A device chunk's payload: CTA 0,0,0, warp 0; each run with a slot of its own."""
    out, last_site, last = [], 0, 0
    for i, (site, kind, size, mask, address, stride) in enumerate(accesses):
        shape = sleb(site - last_site) + leb(kind << 28 | size) + b"\5" + struct.pack("<I", mask) + sleb(stride)
        context = (3, b"\4" + sleb(1)) if i == 0 else (0, b"")  # the first one: warp -1 + 1
        out.append((context[0], 3, 3, 2, context[1], shape, sleb(address - last)))
        last_site, last = site, address
    return columns(*out)


def container(launches, sites, parted=()):
    """launches: (kernel, [(site, type, bytes, mask of lanes, address, stride)]); sites: (file, line, variable), from 1 on; parted: kernels whose
    lanes were taken apart."""
    kernels = sorted({kernel for kernel, _ in launches})
    data = head(features=HAS_DEVICE | HAS_SPACES, minor=2)
    data += meta({"ev": "header", "version": 1, "format": "compact"}, *({"ev": "kernel", "id": 1 + i, "name": k} for i, k in enumerate(kernels)),
                 *({"ev": "site", "id": 1 + i, "file": f, "line": n, "column": 1, "function": "k", "op": "load", "size": 4, "var": v} for i, (f, n, v) in enumerate(sites)))
    written, others = 0, 0
    for seq, (kernel, accesses) in enumerate(launches):
        lanes = sum(bin(a[3]).count("1") for a in accesses)
        data += device(runs(accesses), lanes, seq=seq, key=1 + kernels.index(kernel))
        plain = sum(bin(a[3]).count("1") for a in accesses if a[1] < SHARED)
        written, others = written + plain, others + lanes - plain
        data += meta({"ev": "launch", "seq": seq, "stream": 0, "kernel": kernel, "traced": True, "records": plain, "others": lanes - plain, "parted": 3 * (kernel in parted)})
    data += meta({"ev": "end", "records_written": written, "records_counted": written, "others_written": others, "complete": True})
    return data + tail(data)
