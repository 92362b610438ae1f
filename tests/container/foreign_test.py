#!/usr/bin/env python3
"""A reader of others: docs/trace-format.md alone says what is in the files (mtc.py and below), and all golden ones give the lines that memtrace dump shows.

usage: foreign_test.py BIN_FOLDER GOLDEN_FOLDER"""
import json
import os
import struct
import subprocess
import sys

import mtc

DUMP, GOLDEN = os.path.join(os.path.abspath(sys.argv[1]), "mt-dump"), os.path.abspath(sys.argv[2])


class Trace:
    """Of one file: lines, where it is damaged, and whether something is missing."""

    def __init__(self):
        self.out, self.damage, self.missing, self.readable = [], [], False, True


def access(kind, size, address, cta, sm):
    return f"{mtc.TYPES[kind]} {size} {address:#x} cta {cta >> 32},{cta >> 16 & 0xffff},{cta & 0xffff} sm {sm}"


# ---- raw traces ----

def raw(data, t):
    """Records until the first one that cannot be."""
    at, launch = 1, 0
    if not data or data[0] != 24:
        return t.damage.append(0)
    while at < len(data):
        name = data[at:].partition(b"\n")[0]
        try:
            text = name.decode()
        except UnicodeDecodeError as e:
            return t.damage.append(at + e.start)
        if at + len(name) == len(data):
            return t.damage.append(at)
        t.out.append(f"launch {launch} {text}")
        at += len(name) + 1
        while True:
            if at + 24 > len(data):
                return t.damage.append(at)
            w = struct.unpack_from("<QQQ", data, at)
            if w == (0, 0, 0):
                break
            if w[0] >> 28 & 15 > 3 or not w[0] & 0xfffffff:
                return t.damage.append(at)
            t.out.append(access(w[0] >> 28 & 15, w[0] & 0xfffffff, w[1], w[2], w[0] >> 32))
            at += 24
        at += 24
        launch += 1
    return None


# ---- containers ----

class Lines:
    """What meta chunks say so far."""

    def __init__(self):
        self.sites, self.functions, self.kernels, self.end, self.any = {}, {}, {}, None, False

    def take(self, chunk):
        for e in mtc.lines(chunk):
            self.any |= e["ev"] in ("header", "end")
            if e["ev"] in ("site", "function", "kernel"):
                getattr(self, e["ev"] + "s")[e["id"]] = e
            self.end = e if e["ev"] == "end" else self.end


def host_access(lines, thread, item, seq, timed):
    _, site, address, size, time = item
    s = lines.sites.get(site, {})
    op = s.get("op", "unknown")
    what = f"exec {s['ip'] if isinstance(s['ip'], str) else hex(s['ip'])} {s['text']}" if op == "exec" else f"{op} {size or s.get('size', 0)} {address:#x}"
    return (f"{thread} {what}" + (f" time {time}" if timed else "") + f" seq {seq} site {site}" + (f" of {s['var']}" if s.get("var") else "") +
            (f" at {s['file']}:{s['line']}" if s.get("file") else ""))


def host_event(lines, thread, item, seq, timed):
    _, kind, time, arguments = item
    words = [str(a) for a in arguments]
    if kind in (3, 4):
        words[0] = lines.functions.get(arguments[0], {}).get("name", "?")
        words = words[:5 if kind == 3 else 3]
    return " ".join([str(thread), mtc.EVENTS.get(kind, "?"), *words]) + (f" time {time}" if timed else "") + f" seq {seq}"


def host_chunk(t, lines, chunk, timed):
    items, seq = [], chunk.first
    thread = "-1" if chunk.key == mtc.M64 else chunk.key
    try:
        mtc.host(chunk.payload, timed, items, chunk.items)
        bad = len(items) != chunk.items
    except mtc.Bad:
        bad = True
    for item in items:
        if item[0] == "e" and item[1] == 9:
            seq = item[3][0]
        t.out.append((host_event if item[0] == "e" else host_access)(lines, thread, item, seq, timed))
    if bad or seq != chunk.last:
        t.damage.append(chunk.offset)


def device_chunk(t, lines, chunk, features, launches):
    """Into launches: seq -> [kernel, stream, runs, has an end]."""
    kernel = chunk.key & 0xffffffff
    try:
        runs = mtc.device_runs(chunk.payload, features, chunk.items)
        if sum(len(r[6]) for r in runs) != chunk.items:
            raise mtc.Bad("items")
    except mtc.Bad:
        t.damage.append(chunk.offset)
        return
    if kernel not in lines.kernels:
        t.damage.append(chunk.offset)
    name = lines.kernels.get(kernel, {}).get("name", f"kernel-{kernel}-without-name")
    launch = launches.setdefault((chunk.first, chunk.key), [name, [], 0])
    launch[1] += runs
    launch[2] |= chunk.flags


def container(data, t, all_memory=False):
    try:
        head = mtc.read_head(data)
    except mtc.Bad:
        t.readable = False
        return
    if head["features"] & 0xffffff80:
        t.readable = False
        return
    lines, launches, timed, entries = Lines(), {}, head["features"] & mtc.HAS_TIMES, []
    for c in mtc.walk(data):
        if isinstance(c, mtc.Bad):
            t.damage.append(c.offset)
        elif isinstance(c, bool):
            closed = c
        elif c.type == mtc.META:
            lines.take(c)
        elif c.type == mtc.HOST:
            host_chunk(t, lines, c, timed)
        elif c.type == mtc.DEVICE:
            device_chunk(t, lines, c, head["features"], launches)
        elif c.type == mtc.INDEX:
            keep = 7 if head["minor"] else 6  # flags
            index = [struct.unpack_from("<QQQQQII", c.payload, 48 * i)[:keep] for i in range(len(c.payload) // 48)]
            if index != [e[:keep] for e in entries]:
                t.damage.append(c.offset)
        if isinstance(c, mtc.Chunk):
            entries.append((c.offset, c.key, c.first, c.last, c.items, c.type, c.flags))
    for n, (_, (kernel, runs, flags)) in enumerate(sorted(launches.items())):
        t.out.append(f"launch {n} {kernel}")
        for meta, cta, sm, warp, mask, site, addresses in runs:
            if meta >> 28 < 4 or all_memory:
                t.out += [access(meta >> 28, meta & 0xfffffff, a, cta, sm) + (f" {warp} {mask:#x} {site}" if all_memory else "") for a in addresses]
        t.missing |= flags & 3 != 3
    if head["features"] & mtc.HAS_DEVICE:
        t.missing |= bool(lines.end and not lines.end.get("complete", True)) or (lines.any and not lines.end) or not (lines.any or closed)
    else:
        t.missing |= not lines.end or not lines.end.get("complete", True)


def read(path, **more):
    t = Trace()
    with open(path, "rb") as f:
        data = f.read()
    if data[:8] == mtc.MAGIC or (path.endswith(".mtc") and data):
        container(data, t, **more)
    else:
        raw(data, t)
    return t


# ---- beside memtrace dump ----

def dumped(path, *options):
    p = subprocess.run([DUMP, *options, path], capture_output=True, text=True, check=False)
    lines = [line for line in p.stdout.splitlines() if not line.startswith(("#", "container ", "end ", "lost "))]
    return lines, p.returncode, p.stderr


def runs_of(lines):
    """memtrace dump --runs, an access a line, with warp, mask and site."""
    out = []
    for line in lines:
        if line.startswith("launch"):
            out.append(line)
            continue
        left, _, right = line.partition(" cta ")
        what, count, *addresses = left.replace(" x ", "|").replace(",", " ").split("|")[0:1] + left.split(" x ")[1].replace(",", " ").split()
        words = right.split()
        named = {words[i]: words[i + 1] for i in range(1, len(words) - 1, 2)}
        first = int(addresses[0], 16)
        if len(addresses) == int(count) > 1 and not addresses[1].startswith(("+", "-")):
            each = [int(a, 16) for a in addresses]
        else:
            each = [(first + i * int(addresses[1] if len(addresses) > 1 else 0)) % 2**64 for i in range(int(count))]
        out += [f"{what} {a:#x} cta {words[0]} sm {named['sm']} {named.get('warp', 0xffffffff)} {int(named.get('mask', '0'), 16):#x} {named.get('site', 0)}"
                for a in each]
    return out


def check(what, got, want):
    assert got == want, f"{what}:\n{got}\nnot\n{want}"


def succeed(path):
    t = read(path)
    lines, code, words = dumped(path)
    check(path, t.out, lines)
    check(f"{path}: damage {words}", t.damage, [])
    check(f"{path}: exit code {words}", 3 if t.missing else 0, code)
    with open(path, "rb") as f:
        device = f.read(24)[16:17] in (b"\x04", b"\x0c") and path.endswith(".mtc")
    if device:
        check(path + ", runs", read(path, all_memory=True).out, runs_of(dumped(path, "--runs")[0]))


def fail(path, want):
    """`want`: the offset that expected.json says."""
    t = read(path)
    lines, code, words = dumped(path)
    if not t.readable:
        check(f"{path}: {words}", (lines, code in (2, 3)), ([], True))
        return
    if "index-other" in path:  # the index is not needed to find the chunks: memtrace dump goes by it
        check(path, bool(t.damage), True)
        return
    # Of a chunk with too many items memtrace dump keeps none.
    check(path, t.out[1:] if "items-few" in path else t.out, lines)
    check(f"{path}: exit code, {words}", code in (2, 3), bool(t.damage or t.missing))
    if t.damage:
        check(f"{path}: damage at, {words}", t.damage[0], want)


def main():
    done = 0
    for folder, ending in (("container", ".mtc"), (".", ".trace")):
        here = os.path.join(GOLDEN, folder)
        with open(os.path.join(here, "fail", "expected.json"), encoding="utf-8") as f:
            expected = json.load(f)
        for kind in ("succeed", "fail"):
            for name in sorted(os.listdir(os.path.join(here, kind))):
                if not name.endswith(ending):
                    continue
                path = os.path.join(here, kind, name)
                if kind == "succeed":
                    succeed(path)
                else:
                    fail(path, expected[name[:-len(ending)]].get("offset", 0))
                done += 1
    print(f"{done} golden files: the same lines as mt-dump's")
    assert done > 100


if __name__ == "__main__":
    main()
