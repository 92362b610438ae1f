#!/usr/bin/env python3
"""Makes the entry points of the replacements for NVIDIA's libraries from tables.

usage: gen_libraries.py --out DIR TABLE.def…

cublas.def describes the format of a table. Writes into --out:
  calls.inc     shapes, parameters and function of each call; included by dense.c
  names.c       library of each name, and whether it exists
  entries.S     one jump per exported name, and the addresses of the functions
  exports.map   the names, under the version nodes of NVIDIA's libraries
  declare.h     calls as the library's own header declares them (tests compare the two)
"""
import argparse
import os
import re

KINDS = {"n": "n", "i": "i", "op": "t", "fill": "u", "side": "s", "diag": "d", "e": "e", "type": "y", "stype": "z", "compute": "c", "scalar": "A",
         "real": "R", "result": "X", "rresult": "Y", "iresult": "I", "stride": "S", "batch": "B",
         "work": "w", "lwork": "l", "eig": "j", "job": "b", "opaque": "v", "econ": "e", "buffer": "v", "bytes": "e", "wbuffer": "w", "wbytes": "l", "rscratch": "v", "syevj": "v", "gesvdj": "v", "scratch": "v", "lscratch": "e", "info": "F", "hostinfo": "v"}
INTS = ("lwork", "lscratch")
ENUMS = {"op": "cublasOperation_t", "fill": "cublasFillMode_t", "side": "cublasSideMode_t", "diag": "cublasDiagType_t",
         "e": "cublasGemmAlgo_t", "type": "cudaDataType", "stype": "cudaDataType", "compute": "cublasComputeType_t", "eig": "cusolverEigMode_t", "econ": "int"}
# Other types, passed as they are.
PLAIN = {"job": "signed char", "opaque": "cusolverDnParams_t", "buffer": "void *", "wbuffer": "void *", "bytes": "size_t", "wbytes": "size_t",
         "syevj": "syevjInfo_t", "gesvdj": "gesvdjInfo_t"}
ELEMENT = {"H": "__half", "S": "float", "D": "double", "C": "cuComplex", "Z": "cuDoubleComplex"}
# Handling of a call on a GPU (enum mt_lib_gpu in runtime/libraries/library.h).
FORWARD, OURS, UNKNOWN = range(3)
# Element types other than the call's (mt_blas_operand).
OWN_TYPES = {"int": -2, "real": -3, "int64": -4}
# Names of functions that access no memory of kernels.
QUIET = re.compile("Create(?!Identity|Poisson)|Destroy|Get|Set(?!up)|[bB]ufferSize|Logger|Host$|Version|Estimate|Debug|Init$|_internal$|^_")
MEMORY = re.compile(r"(in|out|io)(\*?)(?:/(\w+))?(?:([?!])(\w+))?=(\w+)\((.*)\)$")


def expand(word):
    m = re.match(r"(.*?)\{(\w+)\}(.*)$", word)
    return [x for c in m[2] for x in expand(m[1] + c + m[3])] if m else [word]


class Parameter:
    def __init__(self, word, where):
        self.name, _, rest = word.partition(":")
        self.memory = MEMORY.match(rest)
        if not self.memory and rest not in KINDS:
            raise SystemExit(f"{where}: {word}: no such kind")
        self.kind = rest if not self.memory else "memory"

    def letter(self):
        if self.memory:
            return ("PW", "MQ")[bool(self.memory[2])][self.memory[1] != "in"]
        return KINDS[self.kind]

    def type(self, wide):
        """Type in our own code."""
        if self.kind in ENUMS:
            return "int"
        if self.kind in ("n", "i", "batch"):
            return "int64_t" if wide else "int"
        if self.kind in ("job", "bytes", "wbytes"):
            return PLAIN[self.kind]
        return "int" if self.kind in INTS else "long long" if self.kind == "stride" else "const void *"

    def true_type(self, wide, letter, library):
        """Type in NVIDIA's header."""
        element = "void" if letter == "X" or self.memory and self.memory[3] else ELEMENT[letter]
        real = {"C": "float", "Z": "double"}.get(letter, ELEMENT.get(letter, element))
        if self.kind in ENUMS or self.kind in PLAIN:
            return ENUMS.get(self.kind) or PLAIN[self.kind]
        if self.kind in ("n", "i", "batch"):
            return "int64_t" if wide else "int"
        if self.kind in INTS:
            return "int"
        if self.memory and self.memory[3] in OWN_TYPES:
            element = {"int": "int", "int64": "int64_t", "real": real}[self.memory[3]]
        if self.memory:
            const, star = "const " if self.memory[1] == "in" else "", ("**" if library == "cusolver" else "*const *") if self.memory[2] else "*"
            return f"{const}{element} {star}"
        return {"stride": "long long int", "scalar": f"const {element} *", "real": f"const {real} *", "result": f"{element} *",
                "rresult": f"{real} *", "work": f"{element} *", "scratch": f"{element} *", "rscratch": f"{real} *", "info": "int *", "hostinfo": "int *", "iresult": "int64_t *" if wide else "int *"}[self.kind]


class Call:
    def __init__(self, library, words, where):
        self.library, self.where = library, where
        self.names, self.options, self.v2, self.narrow = [], {}, False, False
        for w in words:
            key, _, value = w.partition("=")
            if value:
                self.options[key] = value
            elif w == "v2":
                self.v2 = True
            elif w == "narrow":
                self.narrow = True
            else:
                self.names += expand(w)
        self.parameters = []
        self.id = re.sub(r":.*", "", self.names[0])

    def exported(self, name):
        base = f"{self.library}{name}{'_v2' if self.v2 else ''}"
        if self.library == "cublas":
            return [(base, False)] if self.narrow else [(base, False), (base + "_64", True)]
        return [(base, name.startswith("DnX"))]

    def variants(self):
        """(name, its type's letter, Fortran's name, [(exported, wide)])"""
        for each in self.names:
            name, _, letter = each.partition(":")
            bare = name.removeprefix("Dn") if self.library == "cusolver" else name
            letter = letter or re.search(r"[SDCZ]", bare)[0]
            fortran = letter.lower() + self.options["as"] if "as" in self.options else bare.lower()
            yield name, letter, fortran + "_", self.exported(name)


def on_gpu(word, name):
    return OURS if word == "both" else FORWARD if word == "own" or QUIET.search(name) else UNKNOWN


def read(paths):
    names, calls, libraries = [], [], []
    for path in paths:
        call = None
        with open(path, encoding="utf-8") as f:
            lines = f.read().split("\n")
        for i, line in enumerate(lines):
            words, where = line.split(), f"{path}:{i + 1}"
            if not words or line.startswith("#"):
                continue
            if line[0] == " ":
                call.parameters += [Parameter(w, where) for w in words]
            elif words[0] == "library":
                library = words[1]
                libraries.append((library, words[2], int(words[3]), words[4:]))
            elif words[0] == "call":
                call = Call(library, words[1:], where)
                calls.append(call)
            elif words[0] in ("own", "both", "cpu", "absent"):
                for w in words[1:]:
                    names += [(library + n, words[0] != "absent", on_gpu(words[0], n)) for n in expand(w)]
            else:
                raise SystemExit(f"{where}: {words[0]}: what is that?")
    for c in calls:
        names += [(e, True, OURS) for _, _, _, exported in c.variants() for e, _ in exported]
    all_names = [n for n, *_ in names]
    twice = {n for n in all_names if all_names.count(n) > 1} if len(names) < 3000 else set()
    if twice:
        raise SystemExit("gen_libraries.py: twice: " + " ".join(sorted(twice)))
    return libraries, names, calls


def shapes(c):
    """Returns the C function that walks through the memory of a call."""
    index = {p.name: i for i, p in enumerate(c.parameters)}
    out = [f"static void shapes_{c.id}(struct mt_blas_walk *w, const struct mt_blas *b)\n{{\n"]
    used = re.sub("'.'", "", " ".join(p.memory[7] for p in c.parameters if p.memory))
    for p in c.parameters:
        if re.search(rf"\b{p.name}\b", used):
            out.append(f"    const int64_t {p.name} = b->a[{index[p.name]}];\n")
    batched = "batchCount" in index
    indent = "    "
    if batched:
        out.append(f"    for (w->batch = 0; w->batch < b->a[{index['batchCount']}] && !(w->batch && (w->bad || w->pass == MT_BLAS_CHECK)); w->batch++) {{\n")
        indent = "        "
    for i, p in enumerate(c.parameters):
        if not p.memory:
            continue
        mode, array, typ, zero, scalar, shape, args = p.memory.groups()
        if typ and typ not in OWN_TYPES and typ not in index or scalar and scalar not in index:
            raise SystemExit(f"{c.where}: {p.name}: of which parameters?")
        of = f"{{{i}, {index.get('stride' + p.name, -1)}, {OWN_TYPES[typ] if typ in OWN_TYPES else index[typ] if typ else -1}, {index[scalar] if scalar else -1}, " \
             f"MT_BLAS_{mode.upper()}, {int(bool(array))}, {int(zero == '!')}}}"
        out.append(f"{indent}if (mt_blas_operand(w, b, &(const struct mt_blas_operand){of}))\n"
                   f"{indent}    mt_blas_{shape}(w, {args});\n")
    out.append("    }\n}\n" if batched else "}\n")
    return "".join(out)


def calls_inc(calls):
    out = ['/* Made by gen_libraries.py. */\n#pragma GCC visibility push(hidden)\n']
    for c in calls:
        o = c.options
        out.append("\n" + shapes(c))
        kinds = "".join(p.letter() for p in c.parameters)
        value = {"real": "MT_BLAS_REAL", "int": "MT_BLAS_INT"}.get(o.get("value"), "MT_BLAS_NONE")
        out.append(f'static const struct mt_blas_row row_{c.id} = {{"{kinds}", {value}, shapes_{c.id}, '
                   f'{o.get("run", "0")}, {o.get("prepare", "0")}}};\n')
        for name, letter, fortran, exported in c.variants():
            out.append(f'static const struct mt_blas_function f_{name} = {{"{c.library}{name}", "{c.library}", "{fortran}", \'{letter}\', '
                       f'&row_{c.id}}};\n')
            for e, wide in exported:
                args = ", ".join(f"{p.type(wide)}{'' if p.type(wide).endswith('*') else ' '}{p.name}" for p in c.parameters)
                values = ", ".join(f"(int64_t)(intptr_t){p.name}" if p.type(wide).endswith("*") else p.name for p in c.parameters)
                out.append(f"int impl_{e}(void *handle, {args});\nint impl_{e}(void *handle, {args})\n{{\n"
                           f"    return mt_blas_call(handle, &f_{name}, \"{e}\", {int(wide)}, (const int64_t[]){{{values}}});\n}}\n")
    return "".join(out) + "#pragma GCC visibility pop\n"


def names_c(libraries, names):
    out = ['/* Made by gen_libraries.py. */\n#include "library.h"\n']
    out += [f"static int none_{n}(void) {{ return {status}; }}\n" for n, _, status, _ in libraries]
    out.append("struct mt_lib_library mt_lib_libraries[] = {\n")
    out += [f'    {{"{n}", "{soname}", {status}, none_{n}, 0}},\n' for n, soname, status, _ in libraries]
    out.append("    {0, 0, 0, 0, 0},\n};\nstruct mt_lib_entry mt_lib_entries[] = {\n")
    for n, _, gpu in names:
        out.append(f'    {{"{n}", {library_of(libraries, n)}, {gpu}, 0}},\n')
    return "".join(out) + "};\n"


def library_of(libraries, name):
    """Returns the longest library prefix of the name: cublasLt before cublas."""
    fits = [(len(l), i) for i, (l, *_) in enumerate(libraries) if name.startswith(l)]
    return max(fits)[1]


def entries_s(libraries, names):
    out = ["/* Made by gen_libraries.py. */\n\t.text\n"]
    for i, (n, *_) in enumerate(names):
        out.append(f"\t.type {n}.entry, @function\n\t.p2align 4\n{n}.entry:\n\t.cfi_startproc\n\tendbr64\n"
                   f"\tjmp *mt_lib_slots+{8 * i}(%rip)\n{n}.first:\n\tmovl ${i}, %r11d\n\tjmp mt_lib_first\n\t.cfi_endproc\n"
                   f"\t.size {n}.entry, . - {n}.entry\n")
        _, soname, _, older = libraries[library_of(libraries, n)]
        for at, v in [("@@", soname)] + [("@", v) for v in older]:
            out.append(f"\t.globl {n}.{v}\n\t.set {n}.{v}, {n}.entry\n\t.symver {n}.{v}, {n}{at}{v}\n")
    out.append('\t.section .data.rel,"aw",@progbits\n\t.p2align 3\n\t.globl mt_lib_slots\n\t.hidden mt_lib_slots\n'
               "\t.type mt_lib_slots, @object\nmt_lib_slots:\n")
    out += [f"\t.quad {n}.first\n" for n, *_ in names]
    out.append("\t.size mt_lib_slots, . - mt_lib_slots\n\t.globl mt_lib_impls\n\t.hidden mt_lib_impls\n"
               "\t.type mt_lib_impls, @object\nmt_lib_impls:\n")
    out += [f"\t.quad impl_{n}\n" if there else "\t.quad 0\n" for n, there, _ in names]
    out.append('\t.size mt_lib_impls, . - mt_lib_impls\n\t.section .note.GNU-stack,"",@progbits\n')
    return "".join(out)


def exports(libraries, names):
    out = ["MEMTRACE_1 {\nglobal:\n    __mt_libraries;\nlocal:\n    *;\n};\n"]
    for i, (_, soname, _, older) in enumerate(libraries):
        mine = " ".join(n + ";" for n, *_ in names if library_of(libraries, n) == i)
        out += [f"{o} {{\n}};\n" for o in older]
        out.append(f"{soname} {{\nglobal:\n    {mine}\n}};\n")
    return "".join(out)


def declare_h(calls):
    out = ["/* Made by gen_libraries.py: what tests compare with the libraries' own headers. */\n"]
    for c in calls:
        for _, letter, _, exported in c.variants():
            kinds = {p.kind for p in c.parameters}
            for e, wide in exported:
                args = ", ".join(p.true_type(wide, "X" if kinds & {"compute", "stype"} or kinds & {"opaque"} else letter, c.library) for p in c.parameters)
                out.append(f"MT_DECLARED{'_HALF' if letter == 'H' else ''}({e}, {c.library}{'Dn' if c.library == 'cusolver' else ''}Handle_t, {args})\n")
    return "".join(out)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("tables", nargs="+")
    o = ap.parse_args()
    libraries, names, calls = read(o.tables)
    made = {"calls.inc": calls_inc(calls), "names.c": names_c(libraries, names), "entries.S": entries_s(libraries, names),
            "exports.map": exports(libraries, names), "declare.h": declare_h(calls)}
    for name, text in made.items():
        with open(os.path.join(o.out, name), "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
