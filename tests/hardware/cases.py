"""The global memory instructions and the arithmetic of PTX made with and without the plugin, and both with the record calls: nothing may
differ that KNOWN does not name."""
import glob
import os
import re
import sys
from collections import Counter

import chance
import headers
import ptx
import shapes
from harness import BUILD, SOURCE, Failed, Skipped, call, case, clean, need, same, tool

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(SOURCE, "tests", "conformance"))
import rows  # noqa: E402

# What differs, and why: (source, level, function, reason), level and function as regular expressions. What no longer does is a
# failure, too.
DROPPED_ASM = "Inline asm without volatile, whose result nobody uses: LLVM alone drops it; nvcc does not, and the plugin keeps it."
KNOWN = [
    ("atomics.cu", "-O2", r"_ZL10kernel_\d+P6float[24]", DROPPED_ASM),
    ("ptx_memory.cu", "-O[02]", "_ZL12not_volatilePjS_Pi", DROPPED_ASM),
]
LEVELS = ("-O0", "-O1", "-O2", "-O3")  # in configuration `long`; the suite has -O0 and -O2
# Topics of the conformance rows whose subject is accesses are compared without optimisation, too.
CHANCES = 16  # kernels of a seed
ABOUT_ACCESSES = ("memory", "ptx_memory")
# Conformance topics that the suite compares; others are more about arithmetic: in configuration `long`.
SUITE = {"async", "atomics", "block", "cluster", "memory", "ptx_matrix", "ptx_memory", "tensor"}


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
    def __init__(self, world):
        self.work, self.long = world.work, world.long
        self.wrong, self.accesses, self.sums, self.functions, self.known = [], 0, 0, 0, 0
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
                self.wrong.append(f"{label} {level} {name}: {what}")

    def compiled(self, path, level, *flags):
        """Paths of the PTX without the plugin and with it."""
        label = os.path.basename(path)
        files = [os.path.join(self.work, f"{label}{level}.{kind}.ptx") for kind in ("plain", "traced")]
        mt_cc, words = tool("mt-cc"), ["-S", "--cuda-device-only", "-std=c++17", level, *flags]
        command = [mt_cc, *words, *headers.words(mt_cc, words, path), path, "-o"]
        call([*command, files[0], "--plain"])
        call([*command, files[1], "--mt-cpu-image=off", "--mt-gpu-trace=on"])
        return files

    def source(self, path, levels, *flags):
        label = os.path.basename(path)
        for level in levels:
            self.compare(label, level, *map(read, self.compiled(path, level, *flags)))
        self.stale(label)

    def stale(self, label):
        for i, known in enumerate(KNOWN):
            if known[0] == label and i not in self.hits:
                self.wrong.append(f"{label}: does not differ any more: {known}")

    def levels(self):
        return LEVELS if self.long else LEVELS[::2]

    def examples(self, name):
        folder = os.path.join(SOURCE, "examples")
        self.source(os.path.join(folder, name, name + ".cu"), self.levels(), "-I" + os.path.join(folder, "common"))

    def kernels(self, name):
        self.source(os.path.join(HERE, "kernels", name + ".cu"), self.levels())

    def random(self, seed):
        """Kernels by chance: none may differ that KNOWN does not name."""
        path = os.path.join(self.work, f"chance{seed}.cu")
        with open(path, "w", encoding="utf-8") as f:
            f.write(chance.text(int(seed), CHANCES))
        self.source(path, self.levels())

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
                self.wrong.append(f"selftest: {old} for {new}: {found}")

    def types(self, name):
        """IR for all types and forms: what the back end makes of it, and of what the pass has left to it."""
        opt, llc = need("opt-19"), need("llc-19")
        plugin = "-load-pass-plugin=" + os.path.join(BUILD, "lib", "libMemtrace-Pass.so")
        group = next(g for g in shapes.GROUPS if g.__name__ == name)
        source = os.path.join(self.work, name + ".ll")
        with open(source, "w", encoding="utf-8") as f:
            f.write(shapes.module(group))
        for level in "02":
            at = os.path.join(self.work, name + level)
            call([opt, plugin, "-passes=memtrace-device", source, "-S", "-o", f"{at}.device.ll"],
                 env=clean(MEMTRACE_PASS_OPTIONS=f"level={level};cpu-image=off;gpu-plain=off"))
            for kind, text in (("plain", source), ("device", f"{at}.device.ll")):
                call([llc, "-O" + level, "-mcpu=sm_90", "-mattr=+ptx85", text, "-o", f"{at}.{kind}.ptx"])
            self.compare(name, "-O" + level, read(f"{at}.plain.ptx"), read(f"{at}.device.ptx"))
        self.stale(name)

    def conformance(self, topic):
        path = os.path.join(SOURCE, "tests", "conformance", topic + ".cu")
        wish = rows.settings(path)
        include = os.path.join(BUILD, "cuda-overlay", "include")
        if not all(os.path.exists(os.path.join(include, h)) for h in wish["needs"].split()):
            raise Skipped(f"the CUDA toolkit has no {wish['needs']}")
        levels = ("-O2", "-O0") if topic in ABOUT_ACCESSES else ("-O2",)
        self.source(path, levels, "-I" + os.path.dirname(path), *wish["flags"].split())


def add(kind, name=None, **properties):
    @case(f"{kind}.{name}" if name else kind, **properties)
    def compared(world):
        run = Run(world)
        getattr(run, kind)(*[name] if name else [])
        print(f"{run.functions} functions, {run.accesses} accesses, {run.sums} sums and products, {run.known} known differences")
        same("what differs", run.wrong, [])


def names(*pattern):
    return sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(SOURCE, *pattern, "*.cu")))


for each in names("examples", "*"):
    if each != "managed":  # clang alone has no __managed__: there is nothing to compare with
        add("examples", each, whole=True)
for each in names("tests", "hardware", "kernels"):
    add("kernels", each, whole=True)
for each in names("tests", "conformance"):
    if each != "managed":
        add("conformance", each, long=each not in SUITE)
for each in shapes.GROUPS:
    add("types", each.__name__)
for each in "123":
    add("random", each, whole=True)
add("selftest")
