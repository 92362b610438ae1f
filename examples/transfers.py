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
                 "extract fewer with --supersteps or --kernels")
    columns = sorted({(int(step), kernel) for kernel, step, _ in boxes})
    rows = sorted({cta for _, _, cta in boxes}, key=cta_key)
    x = {(kernel, str(step)): (k + 1) * COLUMN for k, (step, kernel) in enumerate(columns)}
    y = {cta: -k * ROW for k, cta in enumerate(rows)}

    print('digraph transfers {\n  bgcolor="white"; splines=line; outputorder=edgesfirst;')
    print('  node [shape=box, style="rounded,filled", fillcolor="#f4f4f4", color="#555555", fontname="DejaVu Sans", '
          'fontsize=12, width=0.9, height=0.4];')
    print('  edge [fontname="DejaVu Sans", fontsize=10, arrowsize=0.6];')
    for step, kernel in columns:
        print(f'  "head {kernel} {step}" [shape=plain, style="", fontsize=14, label="superstep {step}\\n{kernel}", '
              f'pos="{x[kernel, str(step)]},{ROW}"];')
    for kernel, step, cta in sorted(boxes):
        print(f'  "{kernel} {step} {cta}" [label="CTA {short(cta)}", pos="{x[kernel, step]},{y[cta]}"];')
    hosts = {}
    for a, b, size in found:
        target = " ".join(b)
        if a[0] == "<host>":
            hosts[target] = hosts.get(target, 0) + size
            continue
        own = (a[0], a[2]) == (b[0], b[2])
        colour = "#bbbbbb" if own else "#d95f02"
        weight = 1.0 if own else 1.6
        # The label stands near its arrow's end, so that crossing arrows do not cover each other's labels.
        print(f'  "{" ".join(a)}" -> "{target}" [color="{colour}", fontcolor="{colour if not own else "#777777"}", '
              f'penwidth={weight}, headlabel="{size} B", labeldistance=5, labelangle={8 if own else 12}];')
    if hosts:
        middle = -(len(rows) - 1) * ROW // 2
        print(f'  "<host>" [label="host", fillcolor="#e6f0fa", pos="0,{middle}"];')
        for target, size in sorted(hosts.items()):
            print(f'  "<host>" -> "{target}" [color="#3b7dbd", fontcolor="#3b7dbd", style=dashed, '
                  f'headlabel="{size} B", labeldistance=5, labelangle=16];')
    print("}")


if __name__ == "__main__":
    main()
