"""Writing of traces and companions for tests: bytes from the format's definition, independent of the C code."""
import json
import struct

LOAD, STORE, ATOMIC, UNKNOWN = range(4)


def record(smid, kind, size, address, cta):
    x, y, z = cta
    return struct.pack("<QQQ", smid << 32 | kind << 28 | size, address, x << 32 | y << 16 | z)


EOT = bytes(24)


def trace(launches):
    """launches: list of (kernel name, [record bytes])."""
    out = bytearray([24])
    for name, records in launches:
        out += name.encode() + b"\n" + b"".join(records) + EOT
    return bytes(out)


def companion(events, header=None, end=None):
    lines = [dict({"ev": "header", "version": 1, "pid": 1, "start_ns": 5, "stream": 0}, **(header or {}))]
    lines += events
    if end is not None:
        lines.append(dict({"ev": "end", "complete": True}, **end))
    return "".join(json.dumps(line) + "\n" for line in lines)
