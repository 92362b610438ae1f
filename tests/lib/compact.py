"""Compact traces of kernels as launches, like those of trace.py; what is in the chunks says tests/container/mtc.py."""
import os
import sys

import trace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "container"))
import mtc  # noqa: E402

BEGIN, END = 1, 2


class Launch:
    """Like trace.Launch, with sites and threads: .kernel, .seq, .runs as mtc.device_runs has them."""

    def __init__(self, kernel, seq):
        self.kernel, self.seq, self.runs = kernel, seq, []

    def accesses(self):
        """Yields (cta, thread, site, smid, type, size, address)."""
        for meta, cta, smid, warp, mask, site, addresses in self.runs:
            lanes = [lane for lane in range(32) if mask >> lane & 1]
            if len(lanes) != len(addresses):
                raise mtc.Bad("mask and count")
            for lane, address in zip(lanes, addresses):
                yield trace.cta_id(cta), warp * 32 + lane, site, smid, trace.KIND[meta >> 28], meta & 0xfffffff, address

    def records(self):
        for cta, _, _, smid, kind, size, address in self.accesses():
            yield smid, kind, size, address, cta

    def ctas(self):
        """{cta: {(type, size): accesses}}."""
        out = {}
        for _, kind, size, _, cta in self.records():
            counts = out.setdefault(cta, {})
            counts[kind, size] = counts.get((kind, size), 0) + 1
        return out

    def threads(self):
        """{(cta, thread): [(smid, type, size, address)] in order}"""
        out = {}
        for cta, thread, _, *what in self.accesses():
            out.setdefault((cta, thread), []).append(tuple(what))
        return out


class Events(trace.Companion):
    def __init__(self, path, events):
        self.path, self.events = path, events


def read(path):
    """(launches, Events of the meta chunks) of a whole file; raises mtc.Bad when something is wrong with it."""
    with open(path, "rb") as f:
        data = f.read()
    launches, lines, current, features = [], [], {}, mtc.read_head(data)["features"]
    names, sites = {}, set()
    for chunk in mtc.chunks(data):
        if chunk.type == mtc.META:
            new = mtc.lines(chunk)
            lines += new
            names.update((e["id"], e["name"]) for e in new if e["ev"] == "kernel")
            sites.update(e["id"] for e in new if e["ev"] == "site")
        elif chunk.type == mtc.DEVICE:
            if chunk.first != chunk.last:
                raise mtc.Bad("sequence numbers of a device chunk")
            if chunk.flags & BEGIN:
                if chunk.key >> 32 in current:
                    raise mtc.Bad("a launch within a launch")
                current[chunk.key >> 32] = Launch(names[chunk.key & 0xffffffff], chunk.first)
            launch = current[chunk.key >> 32]
            if launch.seq != chunk.first or launch.kernel != names[chunk.key & 0xffffffff]:
                raise mtc.Bad("a chunk of another launch")
            runs = mtc.device_runs(chunk.payload, features, chunk.items)
            if sum(len(r[6]) for r in runs) != chunk.items:
                raise mtc.Bad("items of a device chunk")
            if not all(r[5] in sites for r in runs if r[5]):
                raise mtc.Bad("a site without a line before it")
            launch.runs += runs
            if chunk.flags & END:
                launches.append(current.pop(chunk.key >> 32))
    if current:
        raise mtc.Bad("a launch without an end")
    if not data.endswith(b"MTCEND\r\n"):
        raise mtc.Bad("no tail")
    return launches, Events(path, lines)
