#!/usr/bin/env python3
"""Makes the entry layer of libmemtrace.so from CUDA's own header.

usage: gen_entries.py --cc CC --include DIR --crt crt.h --older older.def --exports exports.map --out DIR

Reads the declarations of cuda_runtime_api.h and cuda_profiler_api.h after preprocessing, once plainly and
once with per-thread default streams (names ending in _ptds, _ptsz), and writes into --out:
  entries.h   an index per entry point
  entries.c   the table, with weak references to impl_<name> (CPU device) and rec_<name> (recording, both devices),
              and the per-thread-stream variants
  entries.S   one jump per exported name
  errors.inc  MT_ERROR(code, name), ascending
  older.S     functions unchanged since older versions, under their nodes
  older.inc   MT_GONE(node, name) and MT_KEPT(node, name): rows of older.def, with their nodes
  exports.map --exports, with the version nodes of libcudart.so

Programs request cudaMalloc of libcudart.so.13, so the names have that node. It comes first, so that programs without
versions get it. With a CUDA 13 toolkit there are nodes of CUDA 12 and 11, too: the same functions, except for older.def.
"""
import argparse
import os
import re
import subprocess
import sys

DECL = re.compile(r"extern\s+(?P<type>[\w\s*]+?[\s*])(?P<name>(?:__)?cuda\w+)\s*\((?P<args>.*)\)\s*$")


def preprocess(cc, include, crt, defines):
    text = '#include <cuda_runtime_api.h>\n#include <cuda_profiler_api.h>\nMT_VERSION_IS CUDART_VERSION;\n'
    if crt:
        text += '#include "%s"\n' % os.path.abspath(crt)
    cmd = [cc, "-E", "-P", "-x", "c", "-I", include, *defines, "-"]
    return subprocess.run(cmd, input=text, text=True, check=True, capture_output=True).stdout


def declarations(text):
    """name -> (return type, [parameter]) in order of appearance."""
    out = {}
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", text, flags=re.S)
    for statement in re.split(r"[;{}]", text):
        m = DECL.search(" ".join(statement.split()))
        if m:
            args = m["args"].strip()
            out.setdefault(m["name"], (m["type"].strip(), [] if args in ("", "void") else args.split(",")))
    return out


def argument(parameter):
    name = re.search(r"(\w+)\s*(\[\s*\])?\s*$", parameter)
    return name[1]


def per_thread(name, base, kind, args):
    call = ", ".join(argument(a) for a in args)
    return (f"{base[0]} {name}({', '.join(args) or 'void'}) __attribute__((visibility(\"default\")));\n"
            f"{base[0]} {name}({', '.join(args) or 'void'})\n{{\n"
            f"    int outer = mt_per_thread_enter(__builtin_return_address(0));\n"
            f"    {base[0]} rc = ((__typeof__(&{kind}))mt_entry_slots[MT_I_{kind}])({call});\n"
            f"    mt_per_thread_leave(outer);\n    return rc;\n}}\n")


def node(major):
    return "libcudart.so.11.0" if major == 11 else f"libcudart.so.{major}"


def read_older(path):
    """major -> name -> "OLDER" or "GONE"."""
    out = {}
    with open(path, encoding="utf-8") as f:
        for kind, major, name in re.findall(r"^MT_(OLDER|GONE)\((\d+), (\w+)\)", f.read(), re.M):
            out.setdefault(int(major), {})[name] = kind
    return out


def older_jump(name, majors):
    """Returns assembly for the same function under older nodes, in a file without its own name, or ld drops that."""
    text = "".join(f"\t.globl v{m}.{name}\n\t.type v{m}.{name}, @function\n\t.symver v{m}.{name}, {name}@{node(m)}\n"
                   f"v{m}.{name}:\n" for m in majors)
    return f"\t.p2align 4\n{text}\tendbr64\n\tjmp {name}@PLT\n" if majors else ""


def main():
    ap = argparse.ArgumentParser()
    for o in ("--cc", "--include", "--crt", "--older", "--exports", "--out"):
        ap.add_argument(o, required=True)
    o = ap.parse_args()
    plain_text = preprocess(o.cc, o.include, o.crt, [])
    plain = declarations(plain_text)
    thread = declarations(preprocess(o.cc, o.include, None, ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]))
    variants = {n: re.sub(r"_pt[ds][sz]$", "", n) for n in thread if re.search(r"_pt(ds|sz)$", n)}
    variants["__cudaLaunchKernel_ptsz"] = "__cudaLaunchKernel"
    names = [n for n in plain if n not in variants]
    errors = sorted({(int(v, 0), n) for n, v in re.findall(r"\b(cuda(?:Success|Error\w+))\s*=\s*(\w+)", plain_text)})
    if len(names) < 150 or len(variants) < 30 or len(errors) < 80:
        sys.exit(f"gen_entries.py: only {len(names)} functions, {len(variants)} per-thread variants and {len(errors)} "
                 f"errors found in {o.include}/cuda_runtime_api.h: its layout is not understood")
    missing = [v for v, b in variants.items() if b not in plain]
    if missing:
        sys.exit("gen_entries.py: no plain declaration for " + " ".join(missing))
    pt_of = {b: v for v, b in variants.items()}
    own = int(re.search(r"MT_VERSION_IS (\d+)", plain_text)[1]) // 1000
    older = read_older(o.older) if own == 13 else {}
    macros = preprocess(o.cc, o.include, o.crt, ["-dM"])
    renamed = {a: b for a, b in re.findall(r"^#define (cuda\w+) (?:__CUDART_API_\w+\()?(cuda\w+)\)?$", macros, re.M) if b in names and a not in names}

    with open(os.path.join(o.out, "entries.h"), "w") as f:
        f.write("/* Made by gen_entries.py. */\nenum mt_entry_index {\n")
        f.writelines(f"    MT_I_{n},\n" for n in names)
        f.write("    MT_ENTRIES\n};\n")
        # The header's own types, so that a differing definition does not compile.
        f.write("#pragma GCC visibility push(hidden)\n")
        f.writelines(f"__typeof__({n}) impl_{n}, rec_{n};\n" for n in names)
        f.write("#pragma GCC visibility pop\n")
        # Sources define impl_cudaX even if the header renames cudaX to cudaX_v2.
        f.writelines(f"#define {kind}_{a} {kind}_{b}\n" for a, b in renamed.items() for kind in ("impl", "rec"))

    with open(os.path.join(o.out, "entries.c"), "w") as f:
        f.write('/* Made by gen_entries.py. */\n#include "api/entry.h"\n'
                "#pragma GCC visibility push(hidden)\n")
        for n in names:
            # Functions that cannot return "not supported" must exist.
            needed = plain[n][0].split()[-1] != "cudaError_t" and not n.startswith("__")
            weak = "" if needed else " __attribute__((weak))"
            f.write(f"extern __typeof__({n}) impl_{n}{weak};\nextern __typeof__({n}) rec_{n} __attribute__((weak));\n")
        f.write("struct mt_entry mt_entries[MT_ENTRIES] = {\n")
        for n in names:
            pt = f'"{pt_of[n]}"' if n in pt_of else "0"
            alone = plain[n][0].split()[-1] != "cudaError_t" or n.endswith("LastError")
            f.write(f'    {{"{n}", {pt}, (void (*)(void))impl_{n}, (void (*)(void))rec_{n}, 0, 0, 0, {alone:d}}},\n')
        f.write("};\n#pragma GCC visibility pop\n")
        for v, b in variants.items():
            f.write(per_thread(v, plain[b], b, plain[b][1]))

    with open(os.path.join(o.out, "entries.S"), "w") as f:
        f.write("/* Made by gen_entries.py. */\n\t.text\n")
        for i, n in enumerate(names):
            f.write(f"\t.globl {n}\n\t.type {n}, @function\n\t.p2align 4\n{n}:\n\t.cfi_startproc\n"
                    f"\tendbr64\n\tjmp *mt_entry_slots+{8 * i}(%rip)\n"
                    f"{n}.first:\n\tmovl ${i}, %r11d\n\tjmp mt_entry_first\n\t.cfi_endproc\n"
                    f"\t.size {n}, . - {n}\n")
        f.write('\t.section .data.rel,"aw",@progbits\n\t.p2align 3\n\t.globl mt_entry_slots\n'
                "\t.hidden mt_entry_slots\n\t.type mt_entry_slots, @object\nmt_entry_slots:\n")
        f.writelines(f"\t.quad {n}.first\n" for n in names)
        f.write("\t.size mt_entry_slots, . - mt_entry_slots\n"
                '\t.section .note.GNU-stack,"",@progbits\n')

    with open(os.path.join(o.out, "older.inc"), "w") as f:
        f.write("/* Made by gen_entries.py. */\n")
        f.writelines(f'MT_{"KEPT" if kind == "OLDER" else "GONE"}({major}, {n}, "{n}@{node(major)}")\n'
                     for major in older for n, kind in older[major].items())

    with open(os.path.join(o.out, "older.S"), "w") as f:
        f.write("/* Made by gen_entries.py. */\n\t.text\n")
        f.writelines(older_jump(n, [m for m in older if n not in older[m]]) for n in [*names, *variants])
        f.write('\t.section .note.GNU-stack,"",@progbits\n')

    with open(o.exports, encoding="utf-8") as f:
        exports = f.read().replace("@CUDART@", node(own))
    with open(os.path.join(o.out, "exports.map"), "w") as f:
        f.write(exports + "".join(f"{node(major)} {{\n}};\n" for major in older))

    with open(os.path.join(o.out, "errors.inc"), "w") as f:
        f.write("/* Made by gen_entries.py. */\n")
        seen = set()
        for code, n in errors:
            if code not in seen:
                f.write(f"MT_ERROR({code}, {n})\n")
            seen.add(code)


if __name__ == "__main__":
    main()
