#!/usr/bin/env python3
"""costs.py FATBIN [CUDA]: what a patch costs a warp, counted in the machine code of each architecture.

A path is the shortest one through a function (and those that it calls) that passes the given instructions in this order; each
instruction on it counts, also where its predicate is false. Of these, stack operations (LDL, STL) are counted apart. Bounds are
the figures of docs/measurements.md with room for another compiler. Exit code 77: there is no nvdisasm (MEMTRACE_NVDISASM, PATH,
CUDA/bin, or nvdisasm/bin in the build folder, where ./setup puts it)."""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import patches  # noqa: E402

LABEL = re.compile(r"^(\.L\S*|\S+):$")
CODE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s*(?:\{\s*)?(@!?U?P\w+\s+)?([A-Z][\w.]*)(.*?);")
TARGET = re.compile(r"`\((?:\w+ \+ )?([^)+]+)\)")
# What is counted: name, function, instructions that its path passes, and most instructions and stack operations.
CAS = r"ATOMG?\..*CAS.*"
RESERVE, PACKET, CTA = r"ATOMG?\..*ADD\.64.*", r"STG?\.E\.(EF\.)?128.*SYS.*", r"S2U?R"
WAYS = (("regular access", "mt_patch_global", (RESERVE, PACKET), 310, 85),
        ("access of an untraced launch", "mt_patch_global", (), 24, 8),
        ("access of a CTA that is left out", "mt_patch_global", (CTA,), 125, 40),
        ("access for totals alone", "mt_patch_global_total", (r"REDG?\..*",) * 7, 345, 100),
        ("exit", "mt_patch_exit", (RESERVE,), 95, 22),
        ("poll", "mt_patch_global", (CAS,), 420, 130),
        ("access where polls are counted", "mt_patch_global", (CAS, RESERVE, PACKET), 500, 145))


class Function:
    def __init__(self):
        self.code, self.labels = [], {}  # (predicated, opcode, operands); label: index


def read(text):
    """Functions by name, from nvdisasm -c."""
    functions, now = {}, None
    for line in text.splitlines():
        if line.startswith("\t.section\t.text."):
            now = functions.setdefault(line.split(".text.", 1)[1].split(",")[0], Function())
        elif line.startswith("\t.section\t"):
            now = None
        elif now and (m := CODE.match(line)):
            now.code.append((bool(m[1]), m[2], m[3]))
        elif now and (m := LABEL.match(line)):
            now.labels[m[1]] = len(now.code)
    return functions


def follow(functions, name, i):
    """Where an instruction may lead: (function, index), with None for the end of the function."""
    f = functions[name]
    predicated, opcode, rest = f.code[i]
    word, target = opcode.split(".")[0], TARGET.search(rest)
    if word in ("EXIT", "RET"):
        return ([None] if word == "RET" else []) + ([i + 1] if predicated else [])
    if word in ("BRA", "JMP") and target:
        uniform = predicated or ".DIV" in opcode or re.match(r"\s*!?U?P\d", rest)
        return ([f.labels[target[1]]] if ".DIV" not in opcode else []) + ([i + 1] if uniform else [])
    return [i + 1]


def shortest(functions, name, must, memo):
    """Of each number of passed instructions at the start: {number at the end: (instructions, stack operations)}."""
    if name in memo:
        return memo[name]
    memo[name] = [{} for _ in range(len(must) + 1)]  # a function that calls itself adds nothing
    result = []
    for start in range(len(must) + 1):
        best, ends, queue = {(0, start): (0, 0)}, {}, collections.deque([(0, start)])
        while queue:
            at = queue.popleft()
            i, stage = at
            _, opcode, rest = functions[name].code[i]
            cost, stack = best[at]
            if stage < len(must) and re.fullmatch(must[stage], opcode):
                stage += 1
            steps = {stage: (cost + 1, stack + opcode.startswith(("LDL", "STL")))}
            target = TARGET.search(rest)
            if opcode.startswith("CALL") and target and target[1] in functions:
                inner = shortest(functions, target[1], must, memo)[stage]
                steps = {s: (cost + 1 + c, stack + k) for s, (c, k) in inner.items()}
            for to in follow(functions, name, i):
                for s, value in steps.items():
                    if to is None:
                        ends[s] = min(ends.get(s, value), value)
                    elif to < len(functions[name].code) and value < best.get((to, s), (1 << 30, 0)):
                        best[to, s] = value
                        queue.append((to, s))
        result.append(ends)
    memo[name] = result
    return result


def disassembler(fatbin, cuda):
    build = os.path.join(os.path.dirname(fatbin), "..", "..", "nvdisasm")
    places = (os.environ.get("MEMTRACE_NVDISASM"), shutil.which("nvdisasm"), *(os.path.join(p, "bin", "nvdisasm") for p in (cuda, build)))
    return next((p for p in places if p and os.access(p, os.X_OK)), None)


def costs(fatbin, nvdisasm):
    """Yields architecture, what, instructions, stack operations."""
    with open(fatbin, "rb") as f:
        images = sorted((arch, elf) for _, arch, elf in patches.entries(f.read()))
    for arch, elf in images:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as f:
            f.write(elf)
            f.flush()
            text = subprocess.run([nvdisasm, "-c", f.name], capture_output=True, text=True, check=True, timeout=200).stdout
        functions = read(text)
        for way in WAYS:
            name, function, must = way[:3]
            ends = shortest(functions, function, must, {})[0]
            yield arch, way, ends.get(len(must))


def main():
    nvdisasm = disassembler(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "/usr/local/cuda")
    if not nvdisasm:
        print("skipped: no nvdisasm")
        return 77
    failed = 0
    for arch, (name, _, _, most, most_stack), found in costs(sys.argv[1], nvdisasm):
        right = found and found[0] <= most and found[1] <= most_stack
        failed |= not right
        print(f"sm_{arch}: {name}: {found[0]} instructions, {found[1]} of the stack" if found else f"sm_{arch}: {name}: no path",
              "" if right else f"(at most {most}, {most_stack})")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
