"""A decoder of compact containers (.mtc), written from docs/trace-format.md alone; slow and plain on purpose.

    for chunk in mtc.chunks(data): ...          whole files with good checksums only; else mtc.Bad
    mtc.host(chunk.payload, timed)              -> [("a", site, address, size, time) | ("e", kind, time, args)]
    mtc.device(chunk.payload)                   -> [(meta, cta, smid, warp, mask, site, address)], an item for each access
    mtc.device_runs(chunk.payload)              -> [(meta, cta, smid, warp, mask, site, [addresses])]
    mtc.head(...), mtc.chunk(...), mtc.tail(...)   build files for tests
"""
import ctypes
import json
import struct

M64 = (1 << 64) - 1
MAGIC = bytes([0x89]) + b"MTC\r\n\x1a\n"
META, HOST, INDEX, DEVICE = 1, 2, 3, 4
HAS_HOST, HAS_TIMES, HAS_DEVICE, HAS_SPACES, HAS_COPIES, HAS_FENCES, HAS_BLOCKS = 1, 2, 4, 8, 16, 32, 64

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
    """All chunks before the tail, each with .type .key .first .last .items .payload .offset; Bad where one is damaged."""
    for c in walk(data):
        if isinstance(c, Bad):
            raise c
        if isinstance(c, Chunk):
            yield c


def read_chunk(data, at):
    """The chunk at `at`, its payload not decoded yet; Bad: none that is whole begins there."""
    c = Chunk()
    c.offset = at
    if data[at:at + 4] != b"MTCK" or len(data) - at < 64:
        raise Bad("no chunk")
    (_, c.type, c.codec, c.flags, c.stored, c.plain, c.items, c.key, c.first, c.last, check) = struct.unpack_from("<4sHBBQQQQQQQ", data, at)
    c.payload = c.body = data[at + 64:at + 64 + c.stored]  # of a type that is not known it stays as it is stored
    if c.stored > 1 << 26 or len(c.body) != c.stored or check != xxh3(c.body, xxh3(data[at:at + 56])):
        raise Bad("chunk")
    c.end = at + 64 + (c.stored + 7) // 8 * 8
    return c


def open_chunk(c):
    """Decodes the payload."""
    if c.plain > 1 << 26 or c.codec > 1 or (c.type == HOST and c.items > 1 << 20) or (c.type == DEVICE and c.items > 1 << 30):
        raise Bad("a head that promises too much")
    c.payload = c.body if c.codec == 0 else unzstd(c.body, c.plain)
    if len(c.payload) != c.plain:
        raise Bad("length")
    return c


def walk(data):
    """What is in a file, whatever is wrong with it: chunks with payload, and Bad with .offset where something is damaged; last of all, whether the file
    has a good tail. After damage it goes on at the next place where a chunk begins whose checksum is right."""
    at = read_head(data)["first"]
    closed = False

    def bad(where, text):
        b = Bad(text)
        b.offset = where
        return b

    while at < len(data):
        tail_at = len(data) - 32
        if at == tail_at and data[-8:] == b"MTCEND\r\n" and struct.unpack_from("<Q", data, at + 16)[0] == xxh3(data[at:at + 16]):
            closed = True
            break
        try:
            c = read_chunk(data, at)
        except Bad:
            yield bad(at, "a chunk that is not whole")
            at += 8
            while at < len(data):
                try:
                    read_chunk(data, at)
                    break
                except Bad:
                    at += 8
            continue
        try:
            yield open_chunk(c) if c.type <= DEVICE else c
        except Bad as b:
            yield bad(c.offset, str(b))
        at = c.end
    yield closed


def lines(chunk):
    return [json.loads(line) for line in chunk.payload.split(b"\n") if line]


class Site:
    last = stride = difference = offset = size = relative = 0
    next = second = None
    seen = False


EVENTS = {1: "tr", 2: "tf", 3: "fc", 4: "fr", 5: "start_roi", 6: "end_roi", 7: "ctxt_change", 8: "thread_sync", 9: "seq", 10: "clock", 11: "lost"}
EVENT_ARGUMENTS = {1: 1, 3: 5, 4: 3, 9: 1, 10: 1, 11: 1}  # at least


def host(payload, timed, out=None, most=1 << 20):
    """Accesses and events of a host chunk's payload, at most so many; those before damage are in `out`."""
    out, at = [] if out is None else out, 0
    sites = {0: Site()}
    p, a, t = 0, 0, 0

    def number():
        nonlocal at
        v = shift = 0
        while at < len(payload):
            b = payload[at]
            at += 1
            v |= (b & 127) << shift
            shift += 7
            if v > M64:
                raise Bad("a number of more than 64 bits")
            if b < 128:
                return v
        raise Bad("a number that is cut")

    def signed():
        v = number()
        return (v >> 1) ^ -(v & 1)

    def one(bits):
        nonlocal p, a, t
        before = sites[p]
        if bits & 17 == 17 or (bits & 8 and not timed):
            raise Bad("token")
        if bits & 1:
            number_of = p + signed()
        elif bits & 16:
            number_of = before.second
        else:
            number_of = before.next
        if number_of is None or not 4 <= number_of < 1 << 32:
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
        if size >= 1 << 32:
            raise Bad("size")
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
        if len(out) + (token + 1 if token < 0x80 else 1) > most:
            raise Bad("more items than there are")
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
            arguments = number()
            if token == 0xc0 or not EVENT_ARGUMENTS.get(token & 63, 0) <= arguments <= 8:
                raise Bad("event")
            out.append(("e", token & 63, t, [number() for _ in range(arguments)]))
    return out


class Column:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if self.at + n > len(self.data):
            raise Bad("column")
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self):
        v = shift = 0
        while True:
            b = self.take(1)[0]
            v |= (b & 127) << shift
            shift += 7
            if v > M64:
                raise Bad("number")
            if b < 128:
                return v

    def signed(self):
        v = self.number()
        return (v >> 1) ^ -(v & 1)


class Warp:
    cta = (0, 0, 0)
    sm = 0
    warp = None
    A = 0
    previous = 0
    successor = None


class Slot:
    site = meta = 0
    last = stride = difference = step = own_difference = offset = anchor = 0
    next = second = None
    ran = False
    current = other = None  # (mask, differences from the first address)


TYPES = {0: "load", 1: "store", 2: "atomic", 3: "unknown", 4: "shared load", 5: "shared store", 6: "shared atomic", 8: "local load", 9: "local store",
         10: "local atomic", 12: "barrier", 13: "arrive", 14: "warp barrier", 15: "copy"}


def device(payload):
    """Accesses of a device chunk's payload."""
    return [(*run[:6], address) for run in device_runs(payload) for address in run[6]]


def device_runs(payload, features=HAS_SPACES | HAS_COPIES, most=1 << 30):
    """Its runs, of at most so many accesses."""
    types = set(TYPES) if features & HAS_COPIES else set(TYPES) - {15} if features & HAS_SPACES else {0, 1, 2, 3}
    if len(payload) < 24:
        raise Bad("columns")
    runs, *lengths = struct.unpack_from("<5I", payload)
    if runs > 1 << 20 or struct.unpack_from("<I", payload, 20)[0]:
        raise Bad("columns")
    columns, at = [], 24
    for n in [runs] + lengths:
        columns.append(Column(payload[at:at + n]))
        at += n
    if at != len(payload):
        raise Bad("columns")
    tokens, contexts, shapes, bases, lanes = columns
    warps, slots, places, out, now = [], [Slot()], {}, [], None
    newest_site = 0

    def new_warp():
        w, before = Warp(), warps[-1] if warps else Warp()
        flags = contexts.take(1)[0]
        if flags > 15 or flags & 3 == 3:
            raise Bad("context")
        x, y, z = before.cta
        if flags & 3 == 1:
            x += 1
        elif flags & 3 == 2:
            x, y, z = x + contexts.signed(), y + contexts.signed(), z + contexts.signed()
        w.cta = (x & 0xffffffff, y & 0xffff, z & 0xffff)
        expected = None if before.warp is None else before.warp + 1 if flags & 3 == 0 else 0
        w.warp = expected
        if flags & 4:
            w.warp = ((0xffffffff if expected is None else expected) + contexts.signed()) & 0xffffffff
        if w.warp == 0xffffffff:
            w.warp = None
        w.sm = (before.sm + (contexts.signed() if flags & 8 else 0)) & 0xffffffff
        w.A = warps[now].A if now is not None else 0
        warps.append(w)

    def one(token):
        nonlocal now, newest_site
        code, before = token & 3, now
        if now is None and code != 3:
            raise Bad("no context")
        if code == 1:
            now = warps[now].successor
        elif code == 2:
            now += contexts.signed()
        if code < 3 and (now is None or not 0 <= now < len(warps)):
            raise Bad("context")
        elif code == 3:
            new_warp()
            now = len(warps) - 1
        if before is not None and code:
            warps[before].successor = now
        w = warps[now]
        p, code = slots[w.previous], token >> 2 & 3
        if code == 3:
            s = Slot()
            s.site = newest_site = (newest_site + shapes.signed()) & 0xffffffff
            s.meta = shapes.number()
            s.last = s.anchor = w.A
            number = len(slots)
            if s.meta >= 1 << 32 or s.meta >> 28 not in types or not s.meta & 0xfffffff:
                raise Bad("type or size")
            slots.append(s)
        else:
            number = [p.next, p.second][code] if code < 2 else contexts.number()
            if number is None or not 0 < number < len(slots):
                raise Bad("slot")
        if p.next != number:
            p.second, p.next = p.next, number
        s = slots[number]
        if token >> 6 < 2 and not [s.current, s.other][token >> 6]:
            raise Bad("no shape")
        base_code, shape = token >> 4 & 3, token >> 6
        base = None
        if shape == 1:
            s.current, s.other = s.other, s.current
        elif shape == 2:
            flags = shapes.take(1)[0]
            if flags > 7 or flags & 3 == 3:
                raise Bad("shape")
            mask = struct.unpack("<I", shapes.take(4))[0] if flags & 1 else 0 if flags & 2 else 0xffffffff
            count = shapes.number() if flags & 2 else bin(mask).count("1")
            if not 1 <= count <= most:
                raise Bad("count")
            stride = shapes.signed() if flags & 4 else s.meta & 0xfffffff
            s.current, s.other = (mask, [i * stride for i in range(count)]), s.current
        elif shape == 3:
            if base_code > 1:
                raise Bad("gather")
            if base_code == 1:
                s.anchor = (s.anchor + bases.signed()) & M64
            width, shift = lanes.take(2)
            if 56 < width & 127 != 64 or shift > 63 or (width & 128 and not s.current):
                raise Bad("gather")
            if width & 128:
                mask, count = s.current[0], len(s.current[1])
            else:
                mask = struct.unpack("<I", lanes.take(4))[0]
                count = bin(mask).count("1") if mask else lanes.number()
            width &= 127
            if not 1 <= count <= 32:
                raise Bad("gather")
            bits = int.from_bytes(lanes.take((count * width + 7) // 8), "little")
            values = [s.anchor + ((bits >> i * width & ((1 << width) - 1)) << shift) for i in range(count)]
            base = values[0] & M64
            s.current, s.other = (mask, [v - values[0] for v in values]), s.current
        c = (now * 0x9e3779b1 + number * 0x85ebca6b & 0xffffffff) >> 18
        known, own = places.get(c, (None, None))
        own = own if known == (now, number) else None
        if base is None:
            base = [lambda: s.last + s.stride, lambda: w.A + s.offset,
                    lambda: s.last if own is None else own + s.step,
                    lambda: (s.last if own is None else own) + bases.signed()][base_code]() & M64
        if s.ran:
            d = (base - s.last) & M64
            if d == s.difference:
                s.stride = d
            s.difference = d
        if own is not None:
            d = (base - own) & M64
            if d == s.own_difference:
                s.step = d
            s.own_difference = d
        places[c] = ((now, number), base)
        s.offset, s.last, s.ran = (base - w.A) & M64, base, True
        w.A, w.previous = base, number
        cta = w.cta[0] << 32 | w.cta[1] << 16 | w.cta[2]
        warp = 0xffffffff if w.warp is None else w.warp
        out.append((s.meta, cta, w.sm, warp, s.current[0], s.site, [(base + d) & M64 for d in s.current[1]]))

    regions, last = [], {"region": None, "cta": (0, 0, 0), "sm": 0, "warp": 0, "site": 0}

    def new_region():
        n, accesses = shapes.number(), []
        if not 1 <= n <= 32 or len(regions) == 4096:
            raise Bad("region")
        for _ in range(n):
            last["site"] = (last["site"] + shapes.signed()) & 0xffffffff
            meta, rows, stride = shapes.number(), shapes.take(1)[0], shapes.signed()
            if meta >= 1 << 32 or meta >> 28 not in types or not meta & 0xfffffff or rows not in (1, 2):
                raise Bad("type, size or rows")
            accesses.append((last["site"], meta, rows, stride))
        bases_of = sum(a[2] for a in accesses)
        regions.append({"accesses": accesses, "warps": 1, "laps": 1, "base": [0] * bases_of, "difference": [0] * bases_of,
                        "apart": [0] * bases_of, "step": [0] * n})

    def block(token):
        nonlocal left
        if token & 0xf == 4:
            n, sms = contexts.number(), contexts.number()
            if last["region"] is None or not n or not 0 < sms < 1 << 32:
                raise Bad("repeats")
            g = regions[last["region"]]
            if 32 * n * g["warps"] * g["laps"] * len(g["accesses"]) > 1 << 30:
                raise Bad("repeats")
            for _ in range(n):
                last["cta"] = ((last["cta"][0] + 1) & 0xffffffff, *last["cta"][1:])
                last["sm"] = (last["sm"] + 1) % sms
                last["warp"] = 0
                g["base"] = [b + d for b, d in zip(g["base"], g["difference"])]
                runs_of(g)
            return
        if token & 0xc:
            raise Bad("token")
        if token & 1:
            last["region"] = contexts.number()
            if last["region"] == len(regions):
                new_region()
        if last["region"] is None or last["region"] >= len(regions):
            raise Bad("region")
        g, flags = regions[last["region"]], contexts.take(1)[0]
        x, y, z = last["cta"]
        if flags & 3 == 3:
            raise Bad("block")
        warp = last["warp"] + (0 if token & 1 else g["warps"]) if flags & 3 == 0 else 0
        if flags & 3 == 1:
            x += 1
        elif flags & 3 == 2:
            x, y, z = x + contexts.signed(), y + contexts.signed(), z + contexts.signed()
        last["cta"] = (x & 0xffffffff, y & 0xffff, z & 0xffff)
        last["warp"] = (warp + (contexts.signed() if flags & 4 else 0)) & 0xffffffff
        last["sm"] = (last["sm"] + (contexts.signed() if flags & 8 else 0)) & 0xffffffff
        g["warps"] = contexts.number() if flags & 16 else g["warps"]
        g["laps"] = contexts.number() if flags & 32 else g["laps"]
        n = g["warps"] * g["laps"] * len(g["accesses"])
        if not 0 < 32 * n <= 1 << 30:
            raise Bad("block")
        for name, bit in (("apart", 64), ("step", 128)):
            if flags & bit:
                g[name] = [shapes.signed() for _ in g[name]]
        for b in range(len(g["base"])):
            g["difference"][b] += bases.signed() if token & 2 else 0
            g["base"][b] += g["difference"][b]
        runs_of(g)

    def runs_of(g):
        nonlocal left
        left -= 32 * g["warps"] * g["laps"] * len(g["accesses"])
        if left < 0:
            raise Bad("more accesses than there are")
        cta = last["cta"][0] << 32 | last["cta"][1] << 16 | last["cta"][2]
        for w in range(g["warps"]):
            for lap in range(g["laps"]):
                b = 0
                for i, (site, meta, rows, stride) in enumerate(g["accesses"]):
                    addresses = []
                    for _ in range(rows):
                        first = g["base"][b] + w * g["apart"][b] + lap * g["step"][i]
                        addresses += [(first + k * stride) & M64 for k in range(32 // rows)]
                        b += 1
                    out.append((meta, cta, last["sm"], (last["warp"] + w) & 0xffffffff, 0xffffffff, site, addresses))

    left = most
    for token in tokens.data:
        if features & HAS_BLOCKS and token & 0xf0 == 0xe0:
            block(token)
            continue
        one(token)
        left -= len(out[-1][6])
        if left < 0:
            raise Bad("more accesses than there are")
    if any(c.at != len(c.data) for c in columns[1:]):
        raise Bad("bytes left in a column")
    return out


# ---- building files ----

def head(features=HAS_HOST, version=1, first=64, magic=MAGIC, minor=0):
    h = magic + struct.pack("<IHHQQQIIQ", first, version, minor, features, 1000, 2000, 42, 0, 0)
    return h + struct.pack("<Q", xxh3(h)) + bytes(max(0, first - 64))


def chunk(kind, payload, items=0, key=0, first=0, last=0, codec=0, plain=None, stored=None, flags=0):
    body = zstd(payload) if codec == 1 else payload
    h = struct.pack("<4sHBBQQQQQQ", b"MTCK", kind, codec, flags, len(body) if stored is None else stored,
                    len(payload) if plain is None else plain, items, key, first, last)
    return h + struct.pack("<Q", xxh3(body, xxh3(h))) + body + bytes(-len(body) % 8)


def tail(data, entries=None):
    """Index and tail for the chunks in `data`."""
    if entries is None:
        entries = [(c.offset, c.key, c.first, c.last, c.items, c.type, c.flags) for c in chunks(data)]
    index = b"".join(struct.pack("<QQQQQII", *(*e, 0)[:7]) for e in entries)
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
