#!/usr/bin/env python3
"""Inline assembly that is really used, against the front end.

  corpus.py headers   compiles headers.cu for several GPUs; all inline assembly of CUDA's number types, atomics,
                      cooperative groups and CUB that it holds must lower
  corpus.py opcodes   one line per family of opcodes (opcodes.txt): ptxas must know it, and the front end what it does
  corpus.py effects   asm without `volatile` (effects.cu): all versions of a kernel for the GPU keep its accesses
  corpus.py ptx       takes the asm statements out of CCCL's cuda::ptx and cuda::atomic headers; the accesses found must
                      be those that this script reads from the opcode; what lowers is counted

usage: corpus.py headers|opcodes|effects|ptx --corpus PROGRAM --builtins FILE.bc --plugin FILE.so --clang CLANG
                 --cuda OVERLAY --work DIR
"""
import argparse
import glob
import os
import re
import subprocess
import sys
from collections import Counter

HERE = os.path.dirname(os.path.abspath(__file__))
TYPE = {"r": "i32", "l": "i64", "h": "i16", "f": "float", "d": "double", "q": "i128", "n": "i32", "C": "ptr"}
BITS = {"f16x2": 32, "bf16x2": 32, "bf16": 16, "f16": 16, "tf32": 32}


def run(*cmd):
    done = subprocess.run(cmd, text=True, capture_output=True)
    if done.returncode:
        sys.exit("failed: %s\n%s%s" % (" ".join(cmd), done.stdout[-2000:], done.stderr[-4000:]))
    return done.stdout


# ---- what CUDA's headers hold, as clang makes it ----

def headers(o):
    for arch in ("sm_75", "sm_80", "sm_90"):
        ll = os.path.join(o.work, arch + ".ll")
        run(o.clang, "-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=" + arch, "--cuda-path=" + o.cuda, "-O1",
            "-std=c++17", "-S", "-emit-llvm", "-w", os.path.join(HERE, "headers.cu"), "-o", ll)
        said = run(o.corpus, "lower", o.builtins, ll)
        last = said.strip().splitlines()[-1]
        print(arch + ": " + last)
        done, total = map(int, re.fullmatch(r"lowered (\d+) of (\d+)", last).groups())
        if total < 800 or done != total:
            sys.exit(arch + ": not all lowered:\n" + said)


# ---- asm statements of headers, without compiling them ----

def literals(text):
    """The string literals at the start of text, joined, and what follows them."""
    out = []
    while True:
        m = re.match(r'\s*"((?:[^"\\]|\\.)*)"', text)
        if not m:
            return "".join(out).replace("\\n", "\n").replace("\\t", " "), text
        out.append(m[1])
        text = text[m.end():]


def statements(path):
    """(asm text, outputs, inputs) of each asm statement; operands as constraint strings."""
    with open(path, encoding="utf-8") as f:
        source = f.read()
    for m in re.finditer(r"\basm\s*(?:volatile|__volatile__)?\s*\(", source):
        body, rest = literals(source[m.end():])
        end = re.search(r"\)\s*;", rest)
        if not body or not end or "asm" in rest[:end.start()]:
            continue
        parts = re.split(r"(?<!:):(?!:)", re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)", "", rest[:end.start()]))
        operands = [re.findall(r'"([^"]*)"', p) for p in parts[1:3]] + [[], []]
        yield body, operands[0], operands[1]


def as_ir(number, body, outs, ins):
    """A function of LLVM IR around one asm statement; None when an operand is of a kind that clang would refuse."""
    args = []
    constraints = [o.replace("+", "=") for o in outs]
    for i, o in enumerate(outs):
        if "+" in o:
            args.append((str(i), TYPE.get(o[-1])))
    args = [(c, TYPE.get(c[-1])) for c in ins] + args
    results = [TYPE.get(o[-1]) for o in outs]
    if None in results or None in [t for _, t in args]:
        return None
    text = re.sub(r"%(%|\d+|=)", lambda m: "%" if m[1] == "%" else "${:uid}" if m[1] == "=" else "$" + m[1],
                  body.replace("$", "$$"))
    quoted = "".join(c if c.isprintable() and c not in '"\\' else "\\%02X" % ord(c) for c in text)
    result = "void" if not results else results[0] if len(results) == 1 else "{ %s }" % ", ".join(results)
    params = ", ".join("%s %%a%d" % (t, i) for i, (_, t) in enumerate(args))
    return "define void @f%d(%s) {\n  %scall %s asm sideeffect \"%s\", \"%s\"(%s)\n  ret void\n}\n" % (
        number, params, "%r = " if results else "", result, quoted,
        ",".join(constraints + [c for c, _ in args] + ["~{memory}"]), params)


def expected(body):
    """Accesses of a body as the opcodes say, in the program's words; None: not worked out here."""
    said = []
    body = re.sub(r"//[^\n]*", "", body)
    for s in re.split(r"[;{}]", re.sub(r"\{([^{};]*)\}", r"<\1>", body)):
        s = re.sub(r"^@!?%?\w+\s+", "", s.strip())
        if not s or s.startswith(".") or re.match(r"\w+:$", s):
            continue
        p = s.split()[0].split(".")
        op, mods = p[0], p[1:]
        other = any(re.match(r"shared|local|const|param", m) for m in mods)
        if op in ("ld", "st", "atom", "red") and "async" not in mods and "bulk" not in mods:
            kind = {"ld": "load", "st": "store"}.get(op, "atomic")
            types = [m for m in mods if re.fullmatch(r"[busf]\d+|b?f16x2|bf16", m)]
            lanes = [int(m[1:]) for m in mods if re.fullmatch(r"v\d", m)] + [1]
            bits = BITS.get(types[-1]) or int(types[-1][1:])
            if not other:
                said.append("%s %d %s" % (kind, bits * lanes[0] // 8, "global" if "global" in mods else "generic"))
        elif op in ("multimem", "tex", "call") or (op == "cp" and "tensor" in mods and "prefetch" not in mods):
            return "?"
        elif op == "tensormap":
            if mods[0] == "cp_fenceproxy":  # a warp copies 128 bytes together
                return "?"
            if "global" in [m.split("::")[0] for m in mods] and not other:
                return "?"
        elif op == "cp" and "bulk" in mods and "tensor" not in mods:
            if "cp_mask" in mods:  # only some of the bytes
                return "?"
            places = [m for m in mods if re.match(r"shared|global", m)]
            if places[:1] == ["global"]:
                said.append(("atomic" if "reduce" in mods else "store") + " n global")
            elif places[1:2] == ["global"]:
                said.append("load n global")
        elif op == "cp" and mods[:1] == ["async"] and "global" in mods:
            return None
    return " ".join(said)


def ptx(o):
    include = os.path.join(o.cuda, "include")
    names = glob.glob(os.path.join(include, "**", "__ptx", "instructions", "**", "*.h"), recursive=True)
    names += glob.glob(os.path.join(include, "**", "__atomic", "functions", "cuda_ptx_*.h"), recursive=True)
    seen, functions, wanted = set(), [], {}
    for name in sorted(names):
        for body, outs, ins in statements(name):
            key = (body, tuple(outs), tuple(ins))
            text = None if key in seen else as_ir(len(functions), *key)
            seen.add(key)
            if text:
                wanted["f%d" % len(functions)] = (expected(body), body)
                functions.append(text)
    ll = os.path.join(o.work, "ptx.ll")
    with open(ll, "w", encoding="utf-8") as f:
        f.write("\n".join(functions))
    wrong, kinds = [], Counter()
    for line in run(o.corpus, "accesses", ll).splitlines():
        name, _, got = line.partition(" ")
        want, body = wanted.pop(name)
        kinds[(got.split() or ["none"])[0]] += 1
        if want is not None and got != want:
            wrong.append("%s\n    got '%s', expected '%s'" % (body.strip(), got, want))
    print("%d different asm statements: %s" % (len(functions), ", ".join("%s %d" % k for k in sorted(kinds.items()))))
    if wrong or wanted or len(functions) < 1000:
        sys.exit("%d statements with wrong accesses, %d lost\n%s" % (len(wrong), len(wanted), "\n".join(wrong[:20])))
    said = run(o.corpus, "lower", o.builtins, ll).strip().splitlines()
    print(said[-1])
    families = Counter()
    for line in said[:-1]:
        count, why = line.split(" ", 1)
        families[why.split(".")[0]] += int(count)
    print("not lowered: " + ", ".join("%s %d" % f for f in families.most_common()))
    refused = set(families) - UNSUPPORTED
    if refused:
        sys.exit("these should lower:\n%s" % "\n".join(s for s in said[:-1] if s.split(" ", 1)[1].split(".")[0] in refused))


# ---- one line per family of opcodes ----

REGISTERS = (".reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<16>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<4>; "
             ".reg .b128 %q<2>; ")


def ptxas_refuses(o, arch, lines):
    """What ptxas says against each line: {number: all it says}. Each is in a kernel of its own, on one line."""
    name, refused = os.path.join(o.work, arch + ".ptx"), {}
    with open(name, "w", encoding="utf-8") as f:
        f.write(".version 9.0\n.target %s\n.address_size 64\n" % arch)
        f.writelines(".visible .entry k%d() { %s%s ret; }\n" % (i, REGISTERS, s) for i, s in enumerate(lines))
    said = subprocess.run([os.path.join(o.cuda, "bin", "ptxas"), "-arch=" + arch, name, "-o", os.devnull], text=True,
                          capture_output=True).stderr
    if "Unsupported .version" in said:
        print("ptxas is too old to be asked")
        return None
    for line, message in re.findall(r"line (\d+); (?:error|fatal)\s*: (.*)", said):
        refused[int(line) - 4] = refused.get(int(line) - 4, "") + message + " "
    return refused


def warned(o):
    """What is wrong with how an unknown opcode is reported: a warning with file and line, and a count at run time."""
    source, asm_file = os.path.join(o.work, "unknown.cu"), os.path.join(o.work, "unknown.s")
    with open(source, "w", encoding="utf-8") as f:
        f.write("__global__ void k(int *p)\n{\n    int v;\n"
                "    asm volatile(\"frobnicate.global.u32 %0, [%1];\" : \"=r\"(v) : \"l\"(p));\n}\n")
    said = subprocess.run([o.clang, "-fplugin=" + o.plugin, "--cuda-device-only", "--cuda-gpu-arch=sm_90", "-S", "-O1",
                           "-Wno-unknown-cuda-version", "--cuda-path=" + o.cuda, source, "-o", asm_file], text=True,
                          capture_output=True).stderr
    place = r"unknown\.cu:4:\d+: (?:in .*: )?memtrace: global memory access without a record .*frobnicate\.global\.u32"
    with open(asm_file, encoding="utf-8") as f:
        counted = re.search(r"^\s+__mt_gpu_untraced, *$", f.read(), re.M)
    return ["an unknown opcode: %s\n%s" % ("counted" if counted else "not counted", said)] if not counted or \
        not re.search(place, said) else []


def opcodes(o):
    sections, wrong = {}, []
    with open(os.path.join(HERE, "opcodes.txt"), encoding="utf-8") as f:
        for line in f.read().splitlines():
            if line.startswith("["):
                rows = sections.setdefault(line.strip("[]"), [])
            elif line and not line.startswith("#"):
                rows.append(line.split(": ", 1))
    for arch, rows in sections.items():
        refused = ptxas_refuses(o, "sm_90a" if arch == "invented" else arch, [s for _, s in rows])
        for i, (_, s) in enumerate(rows if refused is not None else []):
            if arch == "invented" and "Not a name of any known instruction" not in refused.get(i, ""):
                wrong.append("ptxas knows " + s)
            elif arch != "invented" and i in refused:
                wrong.append("ptxas refuses %s %s" % (s, refused[i]))
    rows = [row for section in sections.values() for row in section]
    ll = os.path.join(o.work, "opcodes.ll")
    with open(ll, "w", encoding="utf-8") as f:
        f.writelines(as_ir(i, "{ " + REGISTERS + s + " }", [], []) for i, (_, s) in enumerate(rows))
    got = [line.partition(" ")[2].replace(" inside", "") or "none" for line in run(o.corpus, "accesses", ll).splitlines()]
    wrong += ["%s\n    got '%s', expected '%s'" % (s, g, want) for g, (want, s) in zip(got, rows) if g != want]
    wrong += warned(o)
    print("%d instructions of %d families" % (len(rows), len({re.split(r"[. ;]", s)[0] for _, s in rows})))
    if wrong or len(got) != len(rows):
        sys.exit("\n".join(wrong))


# ---- asm that clang takes for a function of its operands ----

# Kernels of effects.cu: loads, stores and atomics that are left in each version, counted by hand.
EFFECTS = {"unused_atomics": (0, 0, 3), "two_atomics": (0, 2, 2), "unused_float2": (0, 0, 1), "unused_float4": (0, 0, 1),
           "unused_store": (0, 1, 0), "around_store": (2, 3, 0), "around_barrier": (2, 2, 0), "around_atomic": (2, 2, 1),
           "read_only": (1, 3, 0), "strong": (2, 2, 0), "unused_loads": (0, 1, 0), "shared_atomic": (0, 0, 1)}


def accesses_of_kernels(ptx_file):
    """{kernel: (loads, stores, atomics, record calls)} of a PTX file; parameters and local memory do not count."""
    found, name = {}, None
    with open(ptx_file, encoding="utf-8") as f:
        for line in f:
            begin = re.search(r"\.(entry|func)\b(?:\s*\([^)]*\))?\s*(\w+)", line)
            op = re.match(r"\s+(?:.*; )?(?:@!?%\w+ )?(ld|st|atom|red)\.(\S+)", line)
            if begin:
                name = begin[2] if begin[1] == "entry" else None
                found.setdefault(name, [0, 0, 0, 0])
            elif op and name and not re.match(r"param|local", op[2]):
                found[name][{"ld": 0, "st": 1}.get(op[1], 2)] += 1
            elif name and re.match(r"\s+__mt_gpu_access_\w+, *$", line):
                found[name][3] += 1
    return {re.sub(r"^_Z\d+([a-z_0-9]+?)P.*?(__memtrace_traced)?$", r"\1\2", n or ""): tuple(c) for n, c in found.items()}


def effects(o):
    wrong = []
    for level in ("-O1", "-O2", "-O3"):
        for trace in ("on", "off"):
            ptx_file = os.path.join(o.work, "effects%s.s" % level)
            run(o.clang, "-fplugin=" + o.plugin, "-fplugin-arg-memtrace-gpu-trace=" + trace, "--cuda-device-only",
                "--cuda-gpu-arch=sm_90", "--cuda-path=" + o.cuda, level, "-S", "-w", os.path.join(HERE, "effects.cu"),
                "-o", ptx_file)
            want = {}
            for kernel, left in EFFECTS.items():
                records = sum(left) if trace == "on" and kernel != "shared_atomic" else 0
                want[kernel] = left + (0,)
                if records:
                    want[kernel + "__memtrace_traced"] = left + (records,)
            found = {k: n for k, n in accesses_of_kernels(ptx_file).items() if k.split("__")[0] in EFFECTS}
            wrong += ["%s gpu-trace=%s %s: %s, expected %s" % (level, trace, k, found.get(k), want.get(k))
                      for k in sorted(found.keys() | want.keys()) if found.get(k) != want.get(k)]
            print("%s gpu-trace=%s: %d versions of %d kernels" % (level, trace, len(want), len(EFFECTS)))
    if wrong:
        sys.exit("\n".join(wrong))


# What the CPU device does not have: tensor memory, tensor copies that are not of tiles, multicast objects, device-side graphs.
UNSUPPORTED = {"tcgen05", "multimem", "clusterlaunchcontrol", "cp", "red", "st",
               "special register %current_graph_exec"}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("what", choices=("headers", "opcodes", "effects", "ptx"))
    for name in ("corpus", "builtins", "plugin", "clang", "cuda", "work"):
        ap.add_argument("--" + name, required=True)
    o = ap.parse_args()
    os.makedirs(o.work, exist_ok=True)
    globals()[o.what](o)


main()
