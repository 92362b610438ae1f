"""A reader of Parquet files for tests, from the format's specification alone: github.com/apache/parquet-format (parquet.thrift,
Encodings.md) and Thrift's compact protocol. Flat columns, plain pages, zstd. What does not fit the specification is an
AssertionError."""
import ctypes
import struct

TYPES = {0: "boolean", 2: "int64", 5: "double", 6: "text"}


def unzstd(data, size):
    lib = ctypes.CDLL("libzstd.so.1")
    lib.ZSTD_decompress.restype = ctypes.c_size_t
    lib.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(max(size, 1))
    n = lib.ZSTD_decompress(out, size, data, len(data))
    assert n == size, "a page of %d bytes unpacks to %d" % (size, n)
    return out.raw[:size]


class Thrift:
    """A structure as {field number: value}."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value, shift = 0, 0
        while True:
            b = self.byte()
            value |= (b & 0x7F) << shift
            shift += 7
            if b < 0x80:
                return value

    def zigzag(self):
        v = self.varint()
        return v >> 1 ^ -(v & 1)

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 8:
            n = self.varint()
            self.at += n
            return self.data[self.at - n : self.at]
        if kind == 9:
            head = self.byte()
            n = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(head & 15) for _ in range(n)]
        assert kind == 12, "a field of kind %d" % kind
        return self.struct()

    def struct(self):
        out, number = {}, 0
        while True:
            head = self.byte()
            if not head:
                return out
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            assert number not in out, "field %d twice" % number
            out[number] = self.value(head & 15)


def levels(data, rows):
    """Definition levels of one bit, and where they end."""
    (n,) = struct.unpack_from("<I", data)
    t, out = Thrift(data, 4), []
    while t.at < 4 + n:
        head = t.varint()
        if head & 1:
            for _ in range(head >> 1):
                b = t.byte()
                out += [b >> i & 1 for i in range(8)]
        else:
            level = t.byte()
            assert level in (0, 1)
            out += [level] * (head >> 1)
    assert t.at == 4 + n and rows <= len(out) < rows + 8, "%d levels of %d rows" % (len(out), rows)
    return out[:rows], t.at


def plain(kind, data, n):
    if kind == "boolean":
        assert len(data) == (n + 7) // 8
        return [bool(data[i // 8] >> i % 8 & 1) for i in range(n)]
    if kind in ("int64", "double"):
        assert len(data) == 8 * n
        return list(struct.unpack("<%d%s" % (n, "q" if kind == "int64" else "d"), data))
    out, at = [], 0
    for _ in range(n):
        (size,) = struct.unpack_from("<I", data, at)
        out.append(data[at + 4 : at + 4 + size].decode())  # UTF-8, or an error
        assert len(data) >= at + 4 + size
        at += 4 + size
    assert at == len(data)
    return out


def column(data, chunk, kind, optional, rows):
    meta = chunk[3]
    assert TYPES[meta[1]] == kind and meta[4] == 6 and meta[5] == rows and set(meta[2]) == {0, 3}
    t = Thrift(data, meta[9])
    head = t.struct()
    assert head[1] == 0 and head[5][1] == rows and head[5][2] == 0 and head[5][3] == 3
    assert meta[7] == t.at - meta[9] + head[3] and meta[6] == t.at - meta[9] + head[2], "sizes of a chunk"
    page = unzstd(data[t.at : t.at + head[3]], head[2])
    present, at = levels(page, rows) if optional else ([1] * rows, 0)
    values = iter(plain(kind, page[at:], sum(present)))
    return [next(values) if p else None for p in present], t.at + head[3]


def read(path):
    """(column names, kinds, rows, row groups) of a file."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:4] == data[-4:] == b"PAR1"
    (n,) = struct.unpack("<I", data[-8:-4])
    t = Thrift(data, len(data) - 8 - n)
    meta = t.struct()
    assert t.at == len(data) - 8, "the footer has other bytes"
    root, *leaves = meta[2]
    assert root[5] == len(leaves) and 1 not in root
    names = [e[4].decode() for e in leaves]
    kinds = [TYPES[e[1]] for e in leaves]
    for e, kind in zip(leaves, kinds):
        assert e[3] in (0, 1) and ((e.get(6) == 0 and e.get(10) == {1: {}}) if kind == "text" else 6 not in e)
    rows, at = [], 4
    for group in meta[4]:
        parts = []
        for e, kind, name, chunk in zip(leaves, kinds, names, group[1]):
            assert chunk[3][3] == [name.encode()] and chunk[3][9] == at, "chunks follow each other"
            values, at = column(data, chunk, kind, e[3] == 1, group[3])
            parts.append(values)
        assert len(group[1]) == len(leaves) and group[2] == sum(c[3][6] for c in group[1])
        rows += zip(*parts)
    assert len(rows) == meta[3] and at == len(data) - 8 - n
    return names, kinds, rows, len(meta[4])
