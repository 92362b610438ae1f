"""The topic "diagnostics": what cannot work says so at compile time. Each program of diagnostics/ is compiled; a line
that ends in

    // row NAME | WHAT | error REGEX            or warning REGEX

is a row, and must get that diagnostic at its own line of its own file."""
import os
import re

from harness import run as run_command, same, tool

HERE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "diagnostics")
ROW = re.compile(r"// row (.+?) \| (.+?) \| (error|warning) (.+)$")


def run(work):
    rows, failed = [], []
    for name in sorted(n for n in os.listdir(HERE) if n.endswith(".cu")):
        rows += run_program(work, os.path.join(HERE, name), failed)
    same("rows that fail", failed, [])
    return rows


def run_program(work, source, failed):
    with open(source, encoding="utf-8") as f:
        lines = f.read().splitlines()
    done = run_command([tool("mt-cc"), "-std=c++17", "-O1", "-ferror-limit=0", "--mt-gpu-trace=on", "--cuda-device-only", "-S", source, "-o", os.path.join(work, "out.s")])
    rows = []
    for number, line in enumerate(lines, 1):
        row = ROW.search(line)
        if not row:
            continue
        name, what, kind, words = row.groups()
        said = [m.group(2) for m in re.finditer(rf"^{re.escape(source)}:{number}:\d+: (fatal )?{kind}: (.*)$", done.stderr,
                                                re.M)]
        said += re.findall(rf"^{kind}: (?:.*/)?{re.escape(os.path.basename(source))}:{number}:\d+: (.*)$", done.stderr, re.M)  # the pass
        if any(re.search(words, text) for text in said):
            rows.append((name, what, "ok", f"{kind} at compile time", ""))
            continue
        rows.append((name, what, f"no {kind} {words!r}", "", ""))
        failed.append(f"{os.path.basename(source)}:{number}: {name}: no {kind} {words!r}; said: {said or done.stderr[-1500:]}")
    same(f"{source} has rows", bool(rows), True)
    return rows
