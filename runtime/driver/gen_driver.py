#!/usr/bin/env python3
"""Makes the entry layer of the driver API from CUDA's own headers and driver.def.

usage: gen_driver.py --cc CC --include DIR --def driver.def --out DIR

Reads the declarations of cuda.h with all versions of each function, and those of cuda_runtime_api.h, and writes into --out:
  driver_entries.h   an index per function, and the declarations of drv_<name> and gpu_<name>, which the files of this folder may define
  driver_entries.c   the table; the exported functions; same_<name> for each SAME row of driver.def
  driver_errors.inc  MT_DRIVER_ERROR(code, name)
  driver_versions.inc  MT_VERSION(base name, version, index of the function, of its per-thread variant): cuGetProcAddress's table
"""
import argparse
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "api"))
import gen_entries  # noqa: E402

DECL = re.compile(r"^\s*CUresult\s+(?P<name>cu[A-Z]\w*)\s*\((?P<args>.*)\)\s*$")
ROW = re.compile(r"^(SAME|LIKE|NEED|NOW|FREE|BOTH)\((\w+)(?:,\s*(\w+))?\)")
HEADERS = "cuda.h", "cudaProfiler.h"
COMMENTED = re.compile(r"/\*\*((?:[^*]|\*(?!/))*)\*/\s*(?:#[^\n]*\n\s*|__CUDA_DEPRECATED\s*)*CUresult\s+(?:CUDAAPI\s+)?(cu\w+)\s*\(")
PER_THREAD = re.compile(r"_pt[ds][sz]$")


def preprocess(cc, include, headers, *defines):
    text = "".join(f"#include <{h}>\n" for h in headers)
    return subprocess.run([cc, "-E", "-P", "-x", "c", "-I", include, *defines, "-"], input=text, text=True, check=True,
                          capture_output=True).stdout


def declarations(text):
    """name -> [parameter]."""
    out = {}
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", text, flags=re.S)
    for statement in text.split(";"):
        m = DECL.search(" ".join(statement.split()))
        if m:
            args = m["args"].strip()
            out.setdefault(m["name"], [] if args in ("", "void") else args.split(","))
    return out


def documented(include):
    """name -> whether the header lists CUDA_ERROR_INVALID_CONTEXT among its errors; without functions that list none."""
    text = "".join(open(os.path.join(include, h), encoding="utf-8").read() for h in HEADERS)
    out = {name: "CUDA_ERROR_INVALID_CONTEXT" in comment for comment, name in COMMENTED.findall(text) if "CUDA_ERROR_" in comment}
    for name, other in re.findall(r"#\s*define\s+(cu\w+)\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+)", text):
        if name in out:
            out.setdefault(other, out[name])
    return out


def needs(name, rows_of, says):
    """enum mt_driver_needs."""
    if name in rows_of:
        return rows_of[name]
    return 0 if says.get(name, says.get(base_of(name), True)) else 1


def is_narrow(args):
    """Functions with 32-bit device pointers: exported, since programs look for them, but not supported."""
    text = ",".join(args).replace("CUdevice_v1", "").replace("CUmemLocation_v1", "")
    return "_v1 *" in text or "CUdeviceptr_v1" in text


def rows(path):
    same, like, now, both = {}, {}, {}, set()
    for line in open(path, encoding="utf-8"):
        m = ROW.match(line)
        if m and m[1] == "SAME":
            same[m[2]] = m[3]
        elif m and m[1] == "LIKE":
            like[m[2]] = m[3]
        elif m and m[1] == "BOTH":
            both.add(m[2])
        elif m:
            now[m[2]] = ("NEED", "NOW", "FREE").index(m[1])
    return same, like, now, both


def base_of(name):
    return re.sub(r"_v\d+$", "", PER_THREAD.sub("", name))


def versions(path, names):
    """(base, version, name) from the pointer types of cudaTypedefs.h: the n-th version of a base name is its n-th symbol."""
    of_base, found = {}, {}
    text = open(path, encoding="utf-8").read()
    for base, version in re.findall(r"\*PFN_(cu\w+?)_v(\d+)\)", text):
        of_base.setdefault(base, set()).add(int(version))
    for n in names:
        if not PER_THREAD.search(n):
            number = re.search(r"_v(\d+)$", n)
            found.setdefault(base_of(n), []).append((int(number[1]) if number else 1, n))
    for base, symbols in sorted(found.items()):
        symbols.sort()
        numbers = sorted(of_base.get(base, {0}))
        # Matched from the end: first versions may be missing (32-bit pointers).
        for (_, name), version in zip(reversed(symbols), reversed(numbers)):
            yield base, version, name


def exported(f, name, args, plain):
    call = ", ".join(gen_entries.argument(a) for a in args)
    per_thread = name != plain
    f.write(f"MT_EXPORT CUresult {name}({', '.join(args) or 'void'})\n{{\n"
            + ("    mt_driver_asks(__builtin_return_address(0));\n" if name == "cuGetExportTable" else "") +
            f"    struct mt_driver_call mt_c;\n    __typeof__(&{plain}) mt_f = (__typeof__(mt_f))mt_driver_enter(&mt_c, "
            f"MT_D_{plain}, {per_thread:d}, __builtin_return_address(0));\n"
            f"    return mt_driver_leave(&mt_c, mt_f ? mt_f({call}) : mt_c.result);\n}}\n")


def same(f, name, args, target, wanted):
    if len(args) != len(wanted):
        return False
    parts = []
    for i, (a, w) in enumerate(zip(args, wanted)):
        array = re.search(r"\[\s*\]\s*$", w)
        kind = re.sub(r"\b\w+\s*(\[\s*\])?\s*$", "", w).strip() if gen_entries.argument(w) else w
        parts.append(f"MT_AS({kind + (' *' if array else '')}, {gen_entries.argument(a)})")
    f.write(f"static CUresult same_{name}({', '.join(args) or 'void'})\n{{\n"
            f"    return mt_driver_result({target}({', '.join(parts)}));\n}}\n")
    return True


def main():
    ap = argparse.ArgumentParser()
    for o in ("--cc", "--include", "--def", "--out"):
        ap.add_argument(o, required=True, dest=o.strip("-") + "_")
    o = ap.parse_args()
    text = preprocess(o.cc_, o.include_, HEADERS, "-D__CUDA_API_VERSION_INTERNAL")
    functions = declarations(text)
    runtime = gen_entries.declarations(gen_entries.preprocess(o.cc_, o.include_, None, []))
    plain = [n for n in functions if not PER_THREAD.search(n)]
    if len(plain) < 300 or len(runtime) < 150:
        sys.exit(f"gen_driver.py: only {len(plain)} functions found in {o.include_}/cuda.h: its layout is not understood")
    same_rows, like, now, both = rows(o.def_)
    says = documented(o.include_)
    if len(says) < 200:
        sys.exit(f"gen_driver.py: the comments of {o.include_}/cuda.h name the errors of {len(says)} functions: they are not understood")
    for n in [*same_rows, *like, *now, *both]:
        if n not in functions:
            print(f"gen_driver.py: {n} of driver.def is not in cuda.h", file=sys.stderr)

    with open(os.path.join(o.out_, "driver_entries.h"), "w") as f:
        f.write("/* Made by gen_driver.py. */\nenum mt_driver_index {\n")
        f.writelines(f"    MT_D_{n},\n" for n in plain)
        f.write("    MT_DRIVER_ENTRIES\n};\n#pragma GCC visibility push(hidden)\n")
        f.writelines(f"__typeof__({n}) drv_{n} __attribute__((weak)), gpu_{n} __attribute__((weak));\n" for n in plain)
        f.write("#pragma GCC visibility pop\n")

    with open(os.path.join(o.out_, "driver_entries.c"), "w") as f:
        f.write('/* Made by gen_driver.py. */\n#include "driver.h"\n'
                "#define MT_EXPORT __attribute__((visibility(\"default\")))\n"
                "#define MT_AS(type, value) \\\n    __extension__({ \\\n        _Static_assert(sizeof(type) == sizeof(value), \"the same size: \" #type \" \" #value); \\\n"
                "        type as_; \\\n        __builtin_memcpy(&as_, &value, sizeof as_); \\\n        as_; \\\n    })\n")
        done = [n for n, target in same_rows.items() if n in functions and target in runtime
                and same(f, n, functions[n], target, runtime[target][1])]
        for n in set(same_rows) - set(done):
            print(f"gen_driver.py: {n} and {same_rows[n]} differ in this version of CUDA: not supported", file=sys.stderr)
        f.write("struct mt_driver_entry mt_driver_entries[MT_DRIVER_ENTRIES] = {\n")
        for n in plain:
            own = f"same_{n}" if n in done else f"drv_{like.get(n, n)}"
            f.write(f'    {{"{n}", (void (*)(void)){own}, (void (*)(void)){own if n in both else f"gpu_{n}"}, (void (*)(void)){n}, {{0, 0}}, 0, {needs(n, now, says)}}},\n')
        f.write("};\n")
        f.writelines(f'_Static_assert(__builtin_types_compatible_p(__typeof__({n}), __typeof__({to})), "{n} is like {to}");\n'
                     for n, to in like.items() if n in functions)
        for n, args in functions.items():
            if PER_THREAD.sub("", n) in functions:
                exported(f, n, args, PER_THREAD.sub("", n))

    with open(os.path.join(o.out_, "driver_errors.inc"), "w") as f:
        f.write("/* Made by gen_driver.py. */\n")
        f.writelines(f"MT_DRIVER_ERROR({v}, {n})\n"
                     for n, v in re.findall(r"\b(CUDA_(?:SUCCESS|ERROR_\w+))\s*=\s*(\w+)", text))

    with open(os.path.join(o.out_, "driver_versions.inc"), "w") as f:
        f.write("/* Made by gen_driver.py. */\n")
        for base, version, n in versions(os.path.join(o.include_, "cudaTypedefs.h"),
                                         [n for n in plain if not is_narrow(functions[n])]):
            variant = next((n + s for s in ("_ptsz", "_ptds") if n + s in functions), None)
            f.write(f"MT_VERSION({base}, {version}, {n}, {variant or n})\n")


if __name__ == "__main__":
    main()
