"""The topic "diagnostics": what cannot work says so at compile time. Each program of diagnostics/ is compiled; a line
that ends in

    // row NAME | WHAT | error REGEX            or warning REGEX

is a row, and must get that diagnostic at its own line of its own file."""
import os
import re
import subprocess

HERE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "diagnostics")
ROW = re.compile(r"// row (.+?) \| (.+?) \| (error|warning) (.+)$")


def run(args, work):
    rows = []
    for name in sorted(n for n in os.listdir(HERE) if n.endswith(".cu")):
        rows += run_program(args, work, os.path.join(HERE, name))
    return rows


def run_program(args, work, source):
    with open(source, encoding="utf-8") as f:
        lines = f.read().splitlines()
    done = subprocess.run([os.path.join(args.build, "bin", "mt-cc"), "-std=c++17", "-O1", "-ferror-limit=0", "--cuda-device-only", "-S", source,
                           "-o", os.path.join(work, "out.s")], capture_output=True, text=True, timeout=300)
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
        print(f"FAILED diagnostics: {os.path.basename(source)}:{number}: {name}: no {kind} {words!r}; said: {said}")
        if not said:
            print(done.stderr[-1500:])
        args.failed += 1
    if not rows:
        print(f"FAILED diagnostics: {source} has no rows")
        args.failed += 1
    return rows
