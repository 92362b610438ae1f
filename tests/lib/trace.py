"""An independent reader of raw traces and companions, for the tests only: written from docs/trace-format.md, shares
nothing with the tools under test."""
import json
import struct
from collections import Counter

EOT = bytes(24)
KIND = {0: "load", 1: "store", 2: "atomic", 3: "unknown"}


class Malformed(Exception):
    """The bytes are not a whole trace."""


class Launch:
    """One kernel launch of a trace: `kernel`, and its records as `blob` (24 bytes each)."""

    def __init__(self, kernel, blob):
        self.kernel = kernel
        self.blob = blob
        self.count = len(blob) // 24

    def records(self):
        """Yields (smid, type, size, address, (x, y, z))."""
        for w0, w1, w2 in struct.iter_unpack("<QQQ", self.blob):
            yield w0 >> 32, KIND[w0 >> 28 & 15], w0 & 0xfffffff, w1, cta_id(w2)

    def ctas(self):
        """{cta: {(type, size): accesses}}."""
        out = {}
        for (meta, w2), n in Counter(struct.iter_unpack("<I12xQ", self.blob)).items():
            out.setdefault(cta_id(w2), {})[KIND[meta >> 28], meta & 0xfffffff] = n
        return out

    def sms(self):
        """{cta: set of SM ids}."""
        out = {}
        for smid, w2 in set(struct.iter_unpack("<4xI8xQ", self.blob)):
            out.setdefault(cta_id(w2), set()).add(smid)
        return out

    def spans(self):
        """Set of (address, size)."""
        return {(address, meta & 0xfffffff) for meta, address in set(struct.iter_unpack("<I4xQ8x", self.blob))}

    def cta_sequences(self):
        """{cta: [(type, size, address) in file order]}."""
        out = {}
        for _, kind, size, address, cta in self.records():
            out.setdefault(cta, []).append((kind, size, address))
        return out


def cta_id(w2):
    return w2 >> 32, w2 >> 16 & 0xffff, w2 & 0xffff


def parse(data):
    """Launches of a raw trace given as bytes; raises Malformed unless it is whole."""
    if not data:
        raise Malformed("empty")
    if data[0] != 24:
        raise Malformed(f"record size {data[0]}")
    launches, at = [], 1
    while at < len(data):
        newline = data.find(b"\n", at)
        if newline < 0:
            raise Malformed(f"offset {at}: kernel name without an end")
        kernel = data[at:newline].decode("utf-8")
        start = end = newline + 1
        while True:  # the first 24 zero bytes that are at a record's place
            hit = data.find(EOT, end)
            if hit < 0:
                raise Malformed(f"offset {start}: kernel {kernel} has no end mark")
            end = start + -(-(hit - start) // 24) * 24
            if data[end:end + 24] == EOT:
                break
        launches.append(Launch(kernel, memoryview(data)[start:end]))
        at = end + 24
    return launches


def read(path):
    with open(path, "rb") as f:
        return parse(f.read())


class Companion:
    """Events of one .meta file, in file order; with `cut` its last line may be broken off."""

    def __init__(self, path, cut=False):
        self.path = path
        self.events = []
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                if cut and not line.endswith("\n"):
                    break
                try:
                    self.events.append(json.loads(line))
                except ValueError as why:
                    raise Malformed(f"{path}:{number}: {why}: {line!r}") from why

    def all(self, what):
        return [e for e in self.events if e["ev"] == what]

    def one(self, what):
        found = self.all(what)
        if len(found) != 1:
            raise Malformed(f"{self.path}: {len(found)} events \"{what}\", not one")
        return found[0]

    def end(self):
        """The last `end` counts: events of the process may follow an earlier one."""
        found = self.all("end")
        if not found:
            raise Malformed(f"{self.path}: no event \"end\"")
        return found[-1]

    def allocations(self):
        """[(base, bytes, id, first seq, last seq or None)] by id."""
        ends = {e["id"]: e["seq"] for e in self.all("free")}
        return [(int(e["base"], 16), e["bytes"], e["id"], e["seq"], ends.get(e["id"])) for e in self.all("alloc")]


class Places:
    """Finds the allocation of an address at a given event number."""

    def __init__(self, companion):
        self.spans = sorted(companion.allocations())

    def find(self, address, size, seq):
        """(allocation id, offset), or None."""
        for base, length, ident, first, last in self.spans:
            if base <= address and address + size <= base + length and first < seq and (last is None or seq < last):
                return ident, address - base
        return None
