"""An independent reader of compact traces of kernels, for the tests only: device chunks as docs/trace-format.md describes
them, slow and plain. Containers and checksums: tests/container/mtc.py."""
import os
import struct
import sys

import trace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "container"))
import mtc  # noqa: E402

M64 = (1 << 64) - 1
DEVICE, BEGIN, END = 4, 1, 2


class Column:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def take(self, n):
        if self.at + n > len(self.data):
            raise mtc.Bad("a column is too short")
        self.at += n
        return self.data[self.at - n:self.at]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def number(self):
        value = shift = 0
        while True:
            b = self.byte()
            value |= (b & 127) << shift
            shift += 7
            if b < 128:
                return value

    def signed(self):
        n = self.number()
        return n >> 1 ^ -(n & 1)


class Context:
    successor = None

    def __init__(self, cta, warp, smid, address):
        self.cta, self.warp, self.smid, self.address, self.slot = cta, warp, smid, address, 0


class Slot:
    def __init__(self, site, meta, address):
        self.site, self.meta, self.last, self.anchor = site, meta, address, address
        self.stride = self.difference = self.step = self.own_difference = self.offset = 0
        self.seen = False
        self.next = self.second = 0
        self.shape, self.other = None, None


def s32(x):
    return (x & 0xffffffff) - ((x & 0x80000000) << 1)


class Payload:
    def __init__(self, payload):
        runs, *sizes, zero = struct.unpack_from("<IIIIII", payload)
        if zero or 24 + runs + sum(sizes) != len(payload):
            raise mtc.Bad("columns")
        at, self.columns = 24, []
        for n in (runs, *sizes):
            self.columns.append(Column(payload[at:at + n]))
            at += n
        self.tokens, self.contexts, self.shapes, self.bases, self.lanes = self.columns
        self.count = runs
        self.known, self.slots, self.own = [], [Slot(0, 0, 0)], {}
        self.now = None
        self.newest_cta, self.newest_smid, self.newest_warp = (0, 0, 0), 0, 0xffffffff
        self.newest_site = 0

    def new_context(self):
        flags, warp, smid = self.contexts.byte(), self.newest_warp, self.newest_smid
        x, y, z = self.newest_cta
        if flags & 3 == 1:
            x += 1
        elif flags & 3 == 2:
            x += self.contexts.signed()
            y += self.contexts.signed()
            z += self.contexts.signed()
        cta = (x & 0xffffffff, y & 0xffff, z & 0xffff)
        if warp != 0xffffffff:
            warp = warp + 1 if cta == self.newest_cta else 0
        if flags & 4:
            warp = (warp + self.contexts.signed()) & 0xffffffff
        if flags & 8:
            smid = (smid + self.contexts.signed()) & 0xffffffff
        self.newest_cta, self.newest_smid, self.newest_warp = cta, smid, warp
        before = self.known[self.now].address if self.now is not None else 0
        self.known.append(Context(cta, warp, smid, before))
        return len(self.known) - 1

    def context(self, code):
        before = self.now
        if code == 0:
            now = before
        elif code == 1:
            now = self.known[before].successor
        elif code == 2:
            now = (before + self.contexts.signed()) & 0xffffffff
        else:
            now = self.new_context()
        if now != before and before is not None:
            self.known[before].successor = now
        self.now = now
        return self.known[now]

    def slot(self, c, code):
        p = self.slots[c.slot]
        if code < 2:
            n = p.second if code else p.next
        elif code == 2:
            n = self.contexts.number()
        else:
            site = (self.newest_site + self.shapes.signed()) & 0xffffffff
            meta = self.shapes.number()
            self.newest_site = site
            self.slots.append(Slot(site, meta, c.address))
            n = len(self.slots) - 1
        if n != p.next:
            p.second, p.next = p.next, n
        return n

    def regular(self, size):
        flags, mask, count = self.shapes.byte(), 0xffffffff, 32
        if flags & 1:
            mask = self.shapes.u32()
            count = bin(mask).count("1")
        elif flags & 2:
            mask, count = 0, self.shapes.number()
        stride = self.shapes.signed() if flags & 4 else size
        return mask, count, [i * stride for i in range(count)]

    def gather(self, s, before, code):
        if code:
            s.anchor = (s.anchor + self.bases.signed()) & M64
        width = self.lanes.byte()
        shift = self.lanes.byte()
        if width & 128:
            mask, count = before[:2]
        else:
            mask = self.lanes.u32()
            count = bin(mask).count("1") if mask else self.lanes.number()
        width &= 127
        bits = int.from_bytes(self.lanes.take((count * width + 7) // 8), "little")
        values = [(bits >> i * width & (1 << width) - 1) << shift for i in range(count)]
        return mask, count, [(s.anchor + v) & M64 for v in values]

    def run(self, token):
        c = self.context(token & 3)
        n = self.slot(c, token >> 2 & 3)
        s = self.slots[n]
        base_code, shape_code = token >> 4 & 3, token >> 6
        place = ((self.now * 0x9e3779b1 + n * 0x85ebca6b) & 0xffffffff) >> 18
        own = self.own.get(place)
        own = own if own and own[0] == (self.now, n) else None
        base = None
        if shape_code == 1:
            s.shape, s.other = s.other, s.shape
        elif shape_code >= 2:
            before, s.other = s.shape, s.shape
            if shape_code == 2:
                s.shape = self.regular(s.meta & 0xfffffff)
            else:
                mask, count, addresses = self.gather(s, before, base_code)
                base = addresses[0]
                s.shape = mask, count, [(a - base) & M64 for a in addresses]
        if base is None:
            if base_code == 0:
                base = s.last + s.stride
            elif base_code == 1:
                base = c.address + s.offset
            elif base_code == 2:
                base = own[1] + s.step if own else s.last
            else:
                base = (own[1] if own else s.last) + self.bases.signed()
            base &= M64
        if s.seen:
            d = (base - s.last) & M64
            s.stride = d if d == s.difference else s.stride
            s.difference = d
        if own:
            d = (base - own[1]) & M64
            s.step = d if d == s.own_difference else s.step
            s.own_difference = d
        self.own[place] = (self.now, n), base
        s.offset, s.last, s.seen = (base - c.address) & M64, base, True
        c.address, c.slot = base, n
        mask, count, offsets = s.shape
        return c, s.site, s.meta, mask, [(base + o) & M64 for o in offsets]

    def runs(self):
        for _ in range(self.count):
            yield self.run(self.tokens.byte())
        if any(c.at != len(c.data) for c in self.columns):
            raise mtc.Bad("a column has too much")


class Launch:
    """Like trace.Launch, with sites and threads: .kernel, .seq, .runs = [(context, site, meta, mask, addresses)]"""

    def __init__(self, kernel, seq):
        self.kernel, self.seq, self.runs = kernel, seq, []

    def accesses(self):
        """Yields (cta, thread, site, smid, type, size, address)."""
        for c, site, meta, mask, addresses in self.runs:
            lanes = [lane for lane in range(32) if mask >> lane & 1]
            if len(lanes) != len(addresses):
                raise mtc.Bad("mask and count")
            for lane, address in zip(lanes, addresses):
                yield c.cta, c.warp * 32 + lane, site, c.smid, trace.KIND[meta >> 28], meta & 0xfffffff, address

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
    launches, lines, current = [], [], {}
    names, sites = {}, set()
    for chunk in mtc.chunks(data):
        if chunk.type == mtc.META:
            new = mtc.lines(chunk)
            lines += new
            names.update((e["id"], e["name"]) for e in new if e["ev"] == "kernel")
            sites.update(e["id"] for e in new if e["ev"] == "site")
        elif chunk.type == DEVICE:
            if chunk.first != chunk.last:
                raise mtc.Bad("sequence numbers of a device chunk")
            if chunk.flags & BEGIN:
                if chunk.key >> 32 in current:
                    raise mtc.Bad("a launch within a launch")
                current[chunk.key >> 32] = Launch(names[chunk.key & 0xffffffff], chunk.first)
            launch = current[chunk.key >> 32]
            if launch.seq != chunk.first or launch.kernel != names[chunk.key & 0xffffffff]:
                raise mtc.Bad("a chunk of another launch")
            runs = list(Payload(chunk.payload).runs())
            if sum(len(r[4]) for r in runs) != chunk.items:
                raise mtc.Bad("items of a device chunk")
            if not all(r[1] in sites for r in runs if r[1]):
                raise mtc.Bad("a site without a line before it")
            launch.runs += runs
            if chunk.flags & END:
                launches.append(current.pop(chunk.key >> 32))
    if current:
        raise mtc.Bad("a launch without an end")
    if not data.endswith(b"MTCEND\r\n"):
        raise mtc.Bad("no tail")
    return launches, Events(path, lines)
