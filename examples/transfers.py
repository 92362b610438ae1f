#!/usr/bin/env python3
"""Draws who sends which bytes to whom: the `transfers` of a comm.json as DOT, one column per superstep, one row per CTA.

usage: transfers.py comm.json > transfers.dot; neato -n2 -Tsvg transfers.dot -o transfers.svg
Grey: a CTA reads what the same CTA id wrote; orange: what another one wrote; dashed blue: what the host wrote.
"""
import json
import sys

COLUMN, ROW = 260, 70  # points
LIMIT = 400            # boxes: more would not be readable


def cta_key(cta):
    return tuple(reversed([int(n) for n in cta.split(",")]))


def arrows(transfers):
    """Yields ((kernel, superstep, cta), (kernel, superstep, cta), bytes)."""
    for source, ctas in transfers.items():
        for cta, steps in ctas.items():
            for step, targets in steps.items():
                for target, to in targets.items():
                    for to_cta, at in to.items():
                        for to_step, leaf in at.items():
                            yield (source, step, cta), (target, to_step, to_cta), leaf["Size"]


def short(cta):
    """2,0,0 is CTA 2; 2,1,0 is CTA 2,1."""
    parts = cta.split(",")
    while len(parts) > 1 and parts[-1] == "0":
        parts.pop()
    return ",".join(parts)


def arrow(source, start, target, end, size, colour, text, more=""):
    """An arrow with its bytes on it, near its end and clear of the boxes, so that labels of crossing arrows do not
    meet."""
    near = 1 - 0.26 * COLUMN / max(abs(end[0] - start[0]), COLUMN)
    at = [s + near * (e - s) for s, e in zip(start, end)]
    print(f'  "{source}" -> "{target}" [color="{colour}", penwidth=1.4{more}];')
    print(f'  "bytes {source} {target}" [shape=plain, style=filled, fillcolor=white, fontsize=10, fontcolor="{text}", '
          f'label="{size} B", pos="{at[0]:.0f},{at[1]:.0f}"];')


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as f:
        comm = json.load(f)
    found = sorted(arrows(comm["transfers"]))
    boxes = {box for a, b, _ in found for box in (a, b) if box[0] != "<host>"}
    if not found:
        sys.exit(f"{sys.argv[1]}: no transfers")
    if len(boxes) > LIMIT:
        sys.exit(f"{sys.argv[1]}: {len(boxes)} CTA instances are too many for a picture (at most {LIMIT}); "
                 "extract fewer with --launches or --kernels")
    columns = sorted({(int(step), kernel) for kernel, step, _ in boxes})
    rows = sorted({cta for _, _, cta in boxes}, key=cta_key)
    x = {(kernel, str(step)): (k + 1) * COLUMN for k, (step, kernel) in enumerate(columns)}
    y = {cta: -k * ROW for k, cta in enumerate(rows)}

    print('digraph transfers {\n  bgcolor="white"; splines=line; outputorder=edgesfirst;')
    print('  node [shape=box, style="rounded,filled", fillcolor="#f4f4f4", color="#555555", fontname="DejaVu Sans", '
          'fontsize=12, width=0.9, height=0.4];')
    print('  edge [arrowsize=0.6];')
    for step, kernel in columns:
        print(f'  "head {kernel} {step}" [shape=plain, style="", fontsize=14, label="superstep {step}\\n{kernel}", '
              f'pos="{x[kernel, str(step)]},{ROW}"];')
    for kernel, step, cta in sorted(boxes):
        print(f'  "{kernel} {step} {cta}" [label="CTA {short(cta)}", pos="{x[kernel, step]},{y[cta]}"];')
    hosts = {}
    for a, b, size in found:
        if a[0] == "<host>":
            hosts[b] = hosts.get(b, 0) + size
        else:
            own = (a[0], a[2]) == (b[0], b[2])
            arrow(" ".join(a), (x[a[:2]], y[a[2]]), " ".join(b), (x[b[:2]], y[b[2]]), size,
                  *(("#bbbbbb", "#777777") if own else ("#d95f02", "#d95f02")))
    if hosts:
        place = (0, -(len(rows) - 1) * ROW // 2)
        print(f'  "<host>" [label="host", fillcolor="#e6f0fa", pos="{place[0]},{place[1]}"];')
        for b, size in sorted(hosts.items()):
            arrow("<host>", place, " ".join(b), (x[b[:2]], y[b[2]]), size, "#3b7dbd", "#3b7dbd", ", style=dashed")
    print("}")


if __name__ == "__main__":
    main()
