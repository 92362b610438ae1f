#!/usr/bin/env python3
"""Compares the global memory instructions of PTX made with and without the plugin, and both with the record calls:
run.py --build DIR --llvm DIR examples [NAME] | conformance TOPIC | kernels [NAME] | random SEED | types [GROUP] | selftest. Exit code 1 if something differs that KNOWN does not name."""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(HERE, "..", "conformance"), os.path.join(HERE, "..", "e2e")]
import chance  # noqa: E402
import headers  # noqa: E402
import ptx  # noqa: E402
import shapes  # noqa: E402

# What differs, and why: (source, level, function, reason), level and function as regular expressions. What no longer does is a
# failure, too.
DROPPED_ASM = "Inline asm without volatile, whose result nobody uses: LLVM alone drops it; nvcc does not, and the plugin keeps it."
KNOWN = [
    ("atomics.cu", "-O2", r"_ZL10kernel_\d+P6float[24]", DROPPED_ASM),
    ("ptx_memory.cu", "-O[02]", "_ZL12not_volatilePjS_Pi", DROPPED_ASM),
]
LEVELS = ("-O0", "-O1", "-O2", "-O3")
# Topics of the conformance rows whose subject is accesses are compared without optimisation, too.
CHANCES = 16  # kernels of a seed
ABOUT_ACCESSES = ("memory", "ptx_memory")


class Failed(Exception):
    """A tool does not do its work at all."""


def tool(*command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, **environment})
    if done.returncode:
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-3000:]}")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return ptx.File(f.read())


def words(counter):
    """A Counter of accesses in a line."""
    def one(shape):
        if isinstance(shape, ptx.Access):
            vector = f"v{shape.vector}." if shape.vector > 1 else ""
            rest = "".join("." + w for w in shape.words)
            return f"{shape.kind} {shape.space} {vector}{shape.bytes}{rest}{' if' * shape.conditional}"
        return f"{shape[0]} {shape[1]}"
    return ", ".join(f"{n} x {one(shape)}" for shape, n in sorted(counter.items(), key=str))


def shapes_of(made):
    """Accesses under a predicate are as those in a branch."""
    total = Counter()
    for access, count in made.items():
        total[access._replace(conditional=False)] += count
    return total


def differences(plain, traced, arithmetic=True):
    """[(function, what)]. In the traced file a function that records is itself or NAME_$_memtrace, without records
    NAME__memtrace_plain; a kernel is NAME__memtrace_traced, and without records itself. Each may have taken in functions
    that it calls otherwise. Arithmetic is not compared where variables of the stack were not values yet."""
    for name in plain:
        suffixes = ("_$_memtrace", "__memtrace_traced", "", "__memtrace_plain")
        versions = {suffix: traced.function(name + suffix) for suffix in suffixes}
        body = versions["_$_memtrace"] or versions["__memtrace_traced"] or versions[""]
        without = "" if versions["__memtrace_traced"] else "__memtrace_plain"
        for suffix, got in versions.items():
            if not got or suffix == "" and got != body and without:
                continue  # not there, or just a step to the traced version
            calls = Counter()
            for (callee, _), count in got.calls.items():
                calls[re.sub(r"(_\$_memtrace|__memtrace_(plain|traced))$", "", callee)] += count
            # What is taken in shows more of its accesses to be the stack's: equal with what shows so or without.
            *all_made, sums = plain.with_inlined(name, calls)
            pairs = [tuple(map(shapes_of, pair)) for pair in zip(all_made, (got.made, got.plain))]
            same = any(want == has for want, has in pairs)
            if not same:
                want, has = pairs[0]
                yield name, f"without the plugin {words(want - has) or '-'}; {suffix} {words(has - want) or '-'}"
            if sums != got.sums and arithmetic:
                yield name, f"arithmetic without the plugin {dict(sums - got.sums)}; {suffix} {dict(got.sums - sums)}"
        silent, empty = ptx.untold(body) if body else ({}, {})
        if silent or empty:
            yield name, f"accesses without a record: {words(silent) or '-'}; records without an access: {words(empty) or '-'}"


class Run:
    def __init__(self, args, work):
        self.build, self.llvm, self.work = os.path.realpath(args.build), args.llvm, work
        self.failed, self.accesses, self.sums, self.functions, self.known = 0, 0, 0, 0, 0
        self.hits = set()

    def compare(self, label, level, plain, traced):
        made = [sum(plain.function(name).made.values()) for name in plain]
        if not made:
            raise Failed(f"{label} {level}: no function in its PTX")
        self.functions += len(made)
        self.accesses += sum(made)
        self.sums += sum(sum(plain.function(name).sums.values()) for name in plain)
        for name, what in differences(plain, traced, level != "-O0"):
            known = [i for i, (file, at, function, _) in enumerate(KNOWN)
                     if file == label and re.fullmatch(at, level) and re.fullmatch(function, name)]
            self.hits.update(known)
            self.known += bool(known)
            if not known:
                print(f"FAILED {label} {level} {name}: {what}")
                self.failed += 1

    def compiled(self, path, level, *flags):
        """Paths of the PTX without the plugin and with it."""
        label = os.path.basename(path)
        files = [os.path.join(self.work, f"{label}{level}.{kind}.ptx") for kind in ("plain", "traced")]
        mt_cc, words = os.path.join(self.build, "bin", "mt-cc"), ["-S", "--cuda-device-only", "-std=c++17", level, *flags]
        command = [mt_cc, *words, *headers.words(mt_cc, words), path, "-o"]
        tool(*command, files[0], "--plain")
        tool(*command, files[1], "--mt-cpu-image=off")
        return files

    def source(self, path, levels, *flags):
        label = os.path.basename(path)
        for level in levels:
            self.compare(label, level, *map(read, self.compiled(path, level, *flags)))
        self.stale(label)

    def stale(self, label):
        for i, known in enumerate(KNOWN):
            if known[0] == label and i not in self.hits:
                print(f"FAILED {label}: does not differ any more: {known}")
                self.failed += 1

    def examples(self, *names):
        folder = os.path.join(SOURCE, "examples")
        for name in names or sorted(os.listdir(folder)):
            path = os.path.join(folder, name, name + ".cu")
            if os.path.exists(path):
                self.source(path, LEVELS, "-I" + os.path.join(folder, "common"))

    def kernels(self, *names):
        folder = os.path.join(HERE, "kernels")
        for name in names or sorted(n[:-3] for n in os.listdir(folder)):
            self.source(os.path.join(folder, name + ".cu"), LEVELS)

    def random(self, *seeds):
        """Kernels by chance: none may differ that KNOWN does not name."""
        for seed in seeds:
            path = os.path.join(self.work, f"chance{seed}.cu")
            with open(path, "w", encoding="utf-8") as f:
                f.write(chance.text(int(seed), CHANCES))
            self.source(path, LEVELS)

    def selftest(self):
        """A comparison of files with one line changed must find it."""
        paths = self.compiled(os.path.join(HERE, "kernels", "vectors.cu"), "-O2")
        texts = [open(path, encoding="utf-8").read() for path in paths]
        for which, old, new in ((0, None, ""), (0, "ld.global.v4.f32", "ld.global.v2.f32"), (0, "st.global.u8", "st.global.u16"),
                                (1, "ld.global.nc.f32", "ld.global.f32"), (1, "fma.rn.f32", "add.rn.f32"), (1, "mul.f32", "mov.f32"),
                                (1, "\t__mt_gpu_access_global,", "\tnothing,"), (0, "st.global", "st.shared"),
                                (1, "st.param.b32 \t[param1+0], 268435460;", "st.param.b32 \t[param1+0], 268435464;")):
            changed = list(texts)
            if old:
                if old not in texts[which]:
                    raise Failed(f"selftest: no {old} in {paths[which]}")
                changed[which] = texts[which].replace(old, new, 1)
            found = list(differences(*map(ptx.File, changed)))
            if bool(found) != bool(old):
                print(f"FAILED selftest: {old} for {new}: {found}")
                self.failed += 1

    def types(self, *groups):
        """IR for all types and forms: what the back end makes of it, and of what the pass has left to it."""
        opt, llc = (os.path.join(self.llvm, name) for name in ("opt", "llc"))
        plugin = "-load-pass-plugin=" + os.path.join(self.build, "lib", "libMemtrace-Pass.so")
        for group in (g for g in shapes.GROUPS if g.__name__ in groups or not groups):
            label = group.__name__
            source = os.path.join(self.work, label + ".ll")
            with open(source, "w", encoding="utf-8") as f:
                f.write(shapes.module(group))
            for level in "02":
                at = os.path.join(self.work, label + level)
                tool(opt, plugin, "-passes=memtrace-device", source, "-S", "-o", f"{at}.device.ll",
                     MEMTRACE_PASS_OPTIONS=f"level={level};cpu-image=off;gpu-plain=off")
                for name, text in (("plain", source), ("device", f"{at}.device.ll")):
                    tool(llc, "-O" + level, "-mcpu=sm_90", "-mattr=+ptx85", text, "-o", f"{at}.{name}.ptx")
                self.compare(label, "-O" + level, read(f"{at}.plain.ptx"), read(f"{at}.device.ptx"))
            self.stale(label)

    def conformance(self, topic):
        import run as rows
        path = os.path.join(SOURCE, "tests", "conformance", topic + ".cu")
        wish = rows.settings(path)
        include = os.path.join(self.build, "cuda-overlay", "include")
        if not all(os.path.exists(os.path.join(include, h)) for h in wish["needs"].split()):
            print(f"skipped, the CUDA toolkit has no {wish['needs']}")
            return
        levels = ("-O2", "-O0") if topic in ABOUT_ACCESSES else ("-O2",)
        self.source(path, levels, "-I" + os.path.dirname(path), *wish["flags"].split())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--llvm", help="folder with opt and llc")
    parser.add_argument("--work", help="keep what is made here")
    parser.add_argument("what", choices=("examples", "conformance", "kernels", "random", "types", "selftest"))
    parser.add_argument("topic", nargs="*")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memtrace-hardware-") as scratch:
        run = Run(args, args.work or scratch)
        try:
            getattr(run, args.what)(*args.topic)
        except Failed as why:
            print(f"FAILED {why}")
            return 1
    print(f"{run.functions} functions, {run.accesses} accesses, {run.sums} sums and products, {run.known} known differences, "
          f"{run.failed} failures")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
