#!/usr/bin/env python3
"""Makes the pictures of docs/gallery.md: parts of the reports that examples/demo.sh has made, as PNG files.

usage: make_pictures.py DEMO_FOLDER [OUT_FOLDER]     (OUT_FOLDER: docs/pictures of this checkout)
Needs Chromium. Colours are reduced to a palette, so that the files stay small."""
import collections
import os
import struct
import sys
import zlib

import chromium

DOCS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "docs", "pictures")
# file, page, dark, width, what to do first, element
PICTURES = [
    ("report-overview", "templated/report", False, 1240, "document.querySelector('#timeline [data-value=true]').click()", None),
    ("report-transfers", "stencil_2d/report", False, 1000, "memtraceReport.setState({superstep: 2})", "#transfers"),
    ("report-volumes", "stencil_2d/report", False, 1000, "document.querySelector('#volumes [data-value=cta]').click()", "#volumes"),
    ("report-buffers", "stencil_2d/report", False, 1000, "", "#buffers"),
    ("report-strides", "stencil_2d/report", True, 1000, "document.querySelector('#strides [data-value=lane_graph]').click()", "#strides"),
    ("report-caches", "histogram/report", False, 1100, "", "#plots"),
    ("report-lines", "histogram/report", False, 1000, "", "#lines"),
    ("report-devices", "halo_exchange/report", False, 1000, "", "#devices"),
    ("report-tables", "memcpy_forms/report", True, 1000, "document.querySelector('[data-table=Launches]').click()", "#tables"),
    ("report-shared", "tutorial/report", False, 1000, "", "#shared"),
    ("report-versus", "tutorial/both", False, 1240, "", None),
]


def pixels(png):
    """Returns width, height and rows of RGB of an 8-bit PNG without interlacing."""
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack_from(">IIBB", png, at + 8)
            assert depth == 8 and colour in (2, 6)
            step = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            data += png[at + 8:at + 8 + size]
        at += 12 + size
    raw, rows, above = zlib.decompress(data), [], bytearray(width * step)
    for y in range(height):
        line = bytearray(raw[y * (width * step + 1) + 1:(y + 1) * (width * step + 1)])
        method = raw[y * (width * step + 1)]
        for i in range(len(line)):
            left, up, corner = line[i - step] if i >= step else 0, above[i], above[i - step] if i >= step else 0
            if method == 1:
                line[i] = line[i] + left & 255
            elif method == 2:
                line[i] = line[i] + up & 255
            elif method == 3:
                line[i] = line[i] + (left + up) // 2 & 255
            elif method == 4:
                guess = left + up - corner
                near = min((left, up, corner), key=lambda v: abs(guess - v))
                line[i] = line[i] + near & 255
        rows.append([bytes(line[i:i + 3]) for i in range(0, len(line), step)])
        above = line
    return width, height, rows


def with_palette(png):
    """Returns the picture with its 256 most frequent colours; others become the nearest of these."""
    width, height, rows = pixels(png)
    counts = collections.Counter(c for row in rows for c in row)
    coarse, palette = collections.Counter(), {}
    for c, n in counts.items():
        coarse[bytes(v & 0xf0 for v in c)] += n
    best = {}
    for c, n in counts.items(): # each cell gets its most frequent colour
        cell = bytes(v & 0xf0 for v in c)
        if cell not in best or n > counts[best[cell]]:
            best[cell] = c
    chosen = [best[cell] for cell, _ in coarse.most_common(256)]
    number = {c: i for i, c in enumerate(chosen)}
    for c in counts:
        palette[c] = number.get(c, min(range(len(chosen)), key=lambda i: sum((a - b) ** 2 for a, b in zip(chosen[i], c))))
    raw = b"".join(b"\0" + bytes(palette[c] for c in row) for row in rows)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (png[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)) +
            chunk(b"PLTE", b"".join(chosen)) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    if not chromium.PROGRAM:
        sys.exit("there is no Chromium here")
    demo, out = sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else DOCS
    total = 0
    for name, html, dark, width, script, element in PICTURES:
        with chromium.Page(width, 720 if element else 940, dark) as page:
            page.open(os.path.join(demo, html + ".html"))
            if element: # the bar at the top would cover it
                page.run("document.querySelector('.top').style.position = 'static'")
            if script:
                page.run(script)
            page.settle()
            path = os.path.join(out, name + ".png")
            page.picture(path, element)
            if page.problems:
                sys.exit(f"{name}: {page.problems}")
        with open(path, "rb") as f:
            small = with_palette(f.read())
        with open(path, "wb") as f:
            f.write(small)
        total += len(small)
        print(f"{path}: {len(small):,} bytes")
    print(f"{total:,} bytes in all")


if __name__ == "__main__":
    main()
