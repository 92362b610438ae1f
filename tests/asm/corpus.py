#!/usr/bin/env python3
"""Inline assembly that is really used, against the front end.

  corpus.py headers   compiles headers.cu for several GPUs; all inline assembly of CUDA's number types, atomics,
                      cooperative groups and CUB that it holds must lower
  corpus.py ptx       takes the asm statements out of CCCL's cuda::ptx and cuda::atomic headers; the accesses found must
                      be those that this script reads from the opcode; what lowers is counted

usage: corpus.py headers|ptx --corpus PROGRAM --builtins FILE.bc --clang CLANG --cuda OVERLAY --work DIR
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


# What the CPU device does not have: tensor memory and maps, multicast objects, device-side graphs.
UNSUPPORTED = {"tcgen05", "multimem", "tensormap", "clusterlaunchcontrol", "cp", "red", "st",
               "special register %current_graph_exec"}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("what", choices=("headers", "ptx"))
    for name in ("corpus", "builtins", "clang", "cuda", "work"):
        ap.add_argument("--" + name, required=True)
    o = ap.parse_args()
    os.makedirs(o.work, exist_ok=True)
    (headers if o.what == "headers" else ptx)(o)


main()
