"""A decoder of compact containers (.mtc), written from docs/trace-format.md alone; slow and plain on purpose.

    for chunk in mtc.chunks(data): ...          whole files with good checksums only; else mtc.Bad
    mtc.host(chunk.payload, timed)              -> [("a", site, address, size, time) | ("e", kind, time, args)]
    mtc.head(...), mtc.chunk(...), mtc.tail(...)   build files for tests
"""
import ctypes
import json
import struct

M64 = (1 << 64) - 1
MAGIC = bytes([0x89]) + b"MTC\r\n\x1a\n"
META, HOST, INDEX = 1, 2, 3
HAS_HOST, HAS_TIMES = 1, 2

_xxh = ctypes.CDLL("libxxhash.so.0")
_xxh.XXH3_64bits_withSeed.restype = ctypes.c_uint64
_xxh.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
_zstd = ctypes.CDLL("libzstd.so.1")
_zstd.ZSTD_decompress.restype = ctypes.c_size_t
_zstd.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
_zstd.ZSTD_compress.restype = ctypes.c_size_t
_zstd.ZSTD_compress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]


class Bad(Exception):
    pass


def xxh3(data, seed=0):
    return _xxh.XXH3_64bits_withSeed(bytes(data), len(data), seed)


def unzstd(data, size):
    room = ctypes.create_string_buffer(max(size, 1))
    if _zstd.ZSTD_decompress(room, size, bytes(data), len(data)) != size:
        raise Bad("zstd")
    return room.raw[:size]


def zstd(data, level=1):
    room = ctypes.create_string_buffer(len(data) * 2 + 1000)
    size = _zstd.ZSTD_compress(room, len(room), bytes(data), len(data), level)
    return room.raw[:size]


class Chunk:
    pass


def read_head(data):
    if len(data) < 64 or data[:8] != MAGIC:
        raise Bad("head")
    names = "first version minor features start_ns wall_ns pid reserved reserved2 check".split()
    h = dict(zip(names, struct.unpack_from("<IHHQQQIIQQ", data, 8)))
    if h["check"] != xxh3(data[:56]) or h["version"] != 1:
        raise Bad("head")
    return h


def chunks(data):
    """All chunks before the tail, each with .type .key .first .last .items .payload .offset"""
    at = read_head(data)["first"]
    while at < len(data):
        if len(data) - at == 32 and data[-8:] == b"MTCEND\r\n":
            return
        c = Chunk()
        c.offset = at
        (magic, c.type, c.codec, c.flags, stored, plain, c.items, c.key, c.first, c.last, check) = \
            struct.unpack_from("<4sHBBQQQQQQQ", data, at)
        body = data[at + 64:at + 64 + stored]
        if magic != b"MTCK" or len(body) != stored or check != xxh3(body, xxh3(data[at:at + 56])):
            raise Bad("chunk at %d" % at)
        c.payload = body if c.codec == 0 else unzstd(body, plain)
        if len(c.payload) != plain:
            raise Bad("length of the chunk at %d" % at)
        yield c
        at += 64 + (stored + 7) // 8 * 8


def lines(chunk):
    return [json.loads(line) for line in chunk.payload.split(b"\n") if line]


class Site:
    last = stride = difference = offset = size = relative = 0
    next = second = None
    seen = False


def host(payload, timed):
    """Accesses and events of a host chunk's payload."""
    out, at = [], 0
    sites = {0: Site()}
    p, a, t = 0, 0, 0

    def number():
        nonlocal at
        v = shift = 0
        while True:
            b = payload[at]
            at += 1
            v |= (b & 127) << shift
            shift += 7
            if b < 128:
                if v > M64:
                    raise Bad("number")
                return v

    def signed():
        v = number()
        return (v >> 1) ^ -(v & 1)

    def one(bits):
        nonlocal p, a, t
        before = sites[p]
        if bits & 1:
            number_of = p + signed()
        elif bits & 16:
            number_of = before.second
        else:
            number_of = before.next
        if number_of is None or number_of < 4:
            raise Bad("site")
        s = sites.setdefault(number_of, Site())
        if not s.seen:
            address = a
        elif s.relative:
            address = a + s.offset
        else:
            address = s.last + s.stride
        if bits & 2:
            address += signed()
        address &= M64
        size = number() if bits & 4 else s.size
        time = t + (number_of % 4 == 0) if timed else 0
        if bits & 8:
            time += signed()
        if before.next != number_of:
            before.second, before.next = before.next, number_of
        if s.seen:
            right = [(s.last + s.stride) & M64 == address, (a + s.offset) & M64 == address]
            if right[0] != right[1]:
                s.relative = right[1]
            d = (address - s.last) & M64
            if d == s.difference:
                s.stride = d
            s.difference = d
        s.offset = (address - a) & M64
        s.last, s.size, s.seen = address, size, True
        p, a, t = number_of, address, time & M64
        out.append(("a", p, a, size, t))

    while at < len(payload):
        token = payload[at]
        at += 1
        if token < 0x80:
            for _ in range(token + 1):
                one(0)
        elif token < 0xa0:
            one(token & 31)
        elif token < 0xc0:
            raise Bad("token")
        else:
            if timed:
                t = (t + signed()) & M64
            out.append(("e", token & 63, t, [number() for _ in range(number())]))
    return out


# ---- building files ----

def head(features=HAS_HOST, version=1, first=64, magic=MAGIC):
    h = magic + struct.pack("<IHHQQQIIQ", first, version, 0, features, 1000, 2000, 42, 0, 0)
    return h + struct.pack("<Q", xxh3(h)) + bytes(max(0, first - 64))


def chunk(kind, payload, items=0, key=0, first=0, last=0, codec=0, plain=None, stored=None):
    body = zstd(payload) if codec == 1 else payload
    h = struct.pack("<4sHBBQQQQQQ", b"MTCK", kind, codec, 0, len(body) if stored is None else stored,
                    len(payload) if plain is None else plain, items, key, first, last)
    return h + struct.pack("<Q", xxh3(body, xxh3(h))) + body + bytes(-len(body) % 8)


def tail(data, entries=None):
    """Index and tail for the chunks in `data`."""
    if entries is None:
        entries = [(c.offset, c.key, c.first, c.last, c.items, c.type) for c in chunks(data)]
    index = b"".join(struct.pack("<QQQQQII", *e, 0) for e in entries)
    t = struct.pack("<QQ", len(data), len(entries))
    return chunk(INDEX, index, len(entries)) + t + struct.pack("<Q", xxh3(t)) + b"MTCEND\r\n"


def leb(v):
    out = bytearray()
    while v > 127:
        out.append(v & 127 | 128)
        v >>= 7
    out.append(v)
    return bytes(out)


def sleb(v):
    return leb((v << 1 ^ v >> 63) & M64)
