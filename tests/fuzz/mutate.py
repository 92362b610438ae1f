"""Damage with a purpose, for the command-line tools: values that numbers and names should not have, in companions, raw
traces, containers whose checksums are right, and texts. Every function takes a random.Random and gives the same for the
same state."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "container"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "postprocess"))
sys.dont_write_bytecode = True
import mtc  # noqa: E402
import traces  # noqa: E402

ONES = (1 << 64) - 1
NUMBERS = [0, 1, 2, 3, 4, 7, 16, 31, 32, 33, 255, 256, 4095, 4096, 65535, 65536, 1 << 20, (1 << 28) - 1, 1 << 28, (1 << 31) - 1, 1 << 31,
           (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 44, 1 << 47, 1 << 48, (1 << 53) + 1, 1 << 62, (1 << 63) - 1, -1, -2, -(1 << 63)]
TEXTS = ["", "k", "k\0l", "\x1b]0;title\x07", "\x1b[2J", "first\nlaunch 7 forged", "over\rwritten", "tab\tbed", "\x9b31m", "\u202egnp.exe", "\u2028",
         "\ufffe", "=1+1", "@SUM(A1)", "-2+3", "+x", '"', "\\", "a,b", "</script><script>", "<!--", "%s%n", "__proto__", "constructor",
         "é" * 90, "n" * 3000, "/etc/hostname", "../up", "1e400", "NaN", "0x", "0x10000000000000000", "99999999999999999999999",
         "d2d", "h2d", "d2h", "cudaMalloc", "symbol", "realloc", "load", "store", "cas", "cta:3", "qemu", "pin", "llvm", "cpu", "gpu"]
EVENTS = ["header", "site", "source", "launch", "alloc", "free", "cut", "memcpy", "memset", "range", "sync", "check", "shared", "lost", "kernel",
          "function", "thread", "end", "nothing"]
KEYS = ("seq id base bytes kind name dst src width height dpitch spitch pitch stream kernel mangled signature grid block shared cooperative file line "
        "column begin_ns end_ns records untraced counted recorded traced left_out ctas status site size op var function ip module text reads writes "
        "begin domain thread open why count number native records_written records_counted complete version tool pid program device device_name sms "
        "trace format engine mode xxh128 value").split()


def value(rng, depth=0):
    kind = rng.randrange(12)
    if kind < 5:
        return rng.choice(NUMBERS)
    if kind < 9:
        return rng.choice(TEXTS)
    if kind == 9:
        return rng.choice([True, False, None, 0.5, -0.0, 1e308, -1e308, 5e-324])
    if depth > 2:
        return hex(rng.choice(NUMBERS) & ONES)
    if kind == 10:
        return [value(rng, depth + 1) for _ in range(rng.randrange(7))]
    return {rng.choice(TEXTS): value(rng, depth + 1) for _ in range(rng.randrange(4))}


def raw_bytes(rng, data, most=5):
    """Bits, bytes, numbers, cuts and repeats anywhere."""
    data = bytearray(data)
    for _ in range(rng.randint(1, most)):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(7)
        if not data:
            return b"\x18k\n"
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice([0, 1, 10, 0x1B, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 2:
            data[at:at + 8] = struct.pack("<Q", rng.choice(NUMBERS) & ONES)
        elif kind == 3:
            data[at:at + 4] = struct.pack("<I", rng.choice(NUMBERS) & 0xFFFFFFFF)
        elif kind == 4 and rng.random() < 0.3:
            del data[at:]
        elif kind == 5:
            data[at:at] = data[at:at + rng.randrange(120)]
        else:
            del data[at:at + rng.randrange(1, 40)]
    return bytes(data)


def dumps(o, rng):
    return json.dumps(o, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def change_object(rng, line):
    try:
        o = json.loads(line)
    except (ValueError, RecursionError):
        return b"{}"
    if not isinstance(o, dict):
        return b"[]"
    for _ in range(rng.randint(1, 3)):
        key = rng.choice([*o, rng.choice(KEYS)])
        if rng.random() < 0.15:
            o.pop(key, None)
        else:
            o[key] = value(rng)
    return dumps(o, rng)


def lines(rng, text):
    """JSON lines: events changed, forged, doubled, lost, in another order, no JSON, very deep."""
    out = text.split(b"\n")
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(len(out)), rng.randrange(12)
        if kind < 5:
            out[at] = change_object(rng, out[at])
        elif kind < 7:
            out.insert(at, dumps({"ev": rng.choice(EVENTS), **{rng.choice(KEYS): value(rng) for _ in range(rng.randrange(12))}}, rng))
        elif kind == 7:
            out.insert(at, out[rng.randrange(len(out))])
        elif kind == 8 and len(out) > 1:
            del out[at]
        elif kind == 9:
            out[at] = rng.choice([b"[", b'{"ev":', b'{"a":[']) * rng.choice([3, 2100, 50000]) + out[at]
        elif kind == 10:
            rng.shuffle(out)
        else:
            out[at] = out[at].replace(b'"', rng.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\0"]), 1)
    return b"\n".join(out)


def raw_trace(rng, data):
    """A raw trace damaged, or one of records that no program makes."""
    if rng.random() < 0.4:
        return raw_bytes(rng, data)
    launches = []
    for _ in range(rng.randrange(5)):
        name = rng.choice(TEXTS).replace("\n", "\x85").replace("\0", "") if rng.random() < 0.5 else rng.choice(["k", "ns::f<int>"])
        records = []
        for _ in range(rng.randrange(30)):
            size = rng.choice([1, 2, 4, 8, 16, 3, 128, 4096, 70000, 1 << 19, (1 << 28) - 1 if rng.random() < 0.3 else 4])
            cta = (rng.choice([0, 1, 2, 3, (1 << 32) - 1]), rng.choice([0, 1, 65535]), rng.choice([0, 65535]))
            address = rng.choice([0x1000, 0x1004, 0x2000, 0, ONES - 3, ONES, 1 << 47, rng.getrandbits(64)]) + rng.randrange(64) & ONES
            records.append(traces.record(rng.choice([0, 1, 7, (1 << 32) - 1]), rng.randrange(4), size, address, cta))
        launches.append((name, records))
    made = traces.trace(launches)
    return made if rng.random() < 0.6 else raw_bytes(rng, made, 2)


def container(rng, data):
    """A container whose checksums are right and whose contents are not."""
    try:
        parts, head = list(mtc.chunks(data)), mtc.read_head(data)
    except (mtc.Bad, struct.error, MemoryError):
        return raw_bytes(rng, data)
    if not parts or rng.random() < 0.1:
        return raw_bytes(rng, data)
    out = mtc.head(features=rng.choice([head["features"]] * 8 + [0, 1, 2, 3, 4, 5, 7, 1 << 32, 1 << 31]))
    victim = rng.randrange(len(parts))
    if rng.random() < 0.1:
        rng.shuffle(parts)
    for i, c in enumerate(parts):
        if c.type == mtc.INDEX:
            continue
        payload, fields, flags, type_, more = c.payload, [c.items, c.key, c.first, c.last], c.flags, c.type, {}
        if i == victim or rng.random() < 0.15:
            kind = rng.randrange(10)
            if c.type == mtc.META and kind < 8:
                payload = lines(rng, payload)
            elif kind < 6:
                payload = raw_bytes(rng, payload, 3)
            elif kind == 6:
                fields[rng.randrange(4)] = rng.choice(NUMBERS) & ONES
            elif kind == 7:
                flags = rng.randrange(256)
            elif kind == 8:
                more = rng.choice([{"plain": rng.choice(NUMBERS) & ONES}, {"codec": 1}, {"codec": rng.randrange(256)}])
            else:
                type_ = rng.randrange(6)
        out += mtc.chunk(type_, payload, *fields, flags=flags, **more)
        if rng.random() < 0.04:
            out += mtc.chunk(type_, payload, *fields, flags=rng.randrange(4))
        if rng.random() < 0.03:
            out += rng.randbytes(8 * rng.randrange(10))
    if rng.random() < 0.1:
        return out[:rng.randrange(len(out))]
    if rng.random() < 0.5:
        try:
            out += mtc.tail(out)
        except (mtc.Bad, struct.error, MemoryError):
            pass
    return out
