"""Programs of arithmetic_kernels.py's kernels, built and run in several ways, and what the host makes of the same text.

    python3 tests/vectors/arithmetic_ways.py --seed 7 --kernels 100          all ways; says what differs
    python3 tests/vectors/arithmetic_ways.py --seed 7 --only 31 --ways v3-O2 --reduce"""
import argparse
import collections
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "lib")]
sys.dont_write_bytecode = True
import arithmetic  # noqa: E402
import arithmetic_kernels  # noqa: E402
import harness  # noqa: E402
import headers  # noqa: E402
from arithmetic import BITS, INPUTS, VECTORS  # noqa: E402
from arithmetic_kernels import GRID, REGIONS, SLOTS, THREADS  # noqa: E402

# Name: (compiler, its flags, what else the run gets). Each runs in all RUNS.
WAYS = {
    "v3-O2": ("mt-cc", ["-O2"], {}),
    "v4-O3": ("mt-cc", ["-O3", "--mt-cpu=x86-64-v4"], {}),
    "v3-O0": ("mt-cc", ["-O0"], {}),
    "v4-O1": ("mt-cc", ["-O1", "--mt-cpu=x86-64-v4"], {}),
    "v3-O1": ("mt-cc", ["-O1"], {}),
    "v4-O0": ("mt-cc", ["-O0", "--mt-cpu=x86-64-v4"], {}),
    "v3-O3": ("mt-cc", ["-O3"], {}),
    "fibers-O2": ("mt-cc", ["-O2", "--mt-vectors=off"], {}),
    "fibers-O0": ("mt-cc", ["-O0", "--mt-vectors=off"], {}),
    "nvcc-v3": ("nvcc", [], {}),
    "nvcc-v4": ("nvcc", [], {"MEMTRACE_PTX_OPTIONS": "--mt-cpu=x86-64-v4"}),
    "nvcc-fibers": ("nvcc", [], {"MEMTRACE_PTX_OPTIONS": "--mt-vectors=off"}),
    "nvcc-G-v3": ("nvcc", ["-G"], {}),
    "nvcc-G-fibers": ("nvcc", ["-G"], {"MEMTRACE_PTX_OPTIONS": "--mt-vectors=off"}),
}
RUNS = {"untraced": {"MEMTRACE_ENABLE": "0"}, "traced": {}, "checked": {"MEMTRACE_CHECK": "1"}}

COMMON = "\n".join(f"typedef {'un' * (k[0] == 'u')}signed {name} {k};" for k, name in
                   (("s8", "char"), ("u8", "char"), ("s16", "short"), ("u16", "short"), ("s32", "int"), ("u32", "int"), ("s64", "long long"),
                    ("u64", "long long"), ("s128", "__int128"), ("u128", "__int128"))) + """
typedef float f32;
typedef double f64;
#define PARAMETERS u64 *out, u64 *area""" + "".join(f", const {k} *in_{k}" for k in BITS if BITS[k][0] < 128) + """
#define ARGUMENTS out, area""" + "".join(f", (const {k} *)in + {INPUTS}" for k in BITS if BITS[k][0] < 128) + """
#define TID (TX + DX * (TY + DY * TZ))
#define LANE (TID & 31)
#define WARP (TID >> 5)
#define MX (BX * DX + TX)
#define ME (BX * (DX * DY * DZ) + TID)
""" + "".join(f"INLINE s32 field_{s}{n}(s32 x) {{ struct {{ {s}32 f : {n}; }} b; b.f = x; return b.f; }}\n" for s in "su" for n in (3, 5, 12, 24))

HOST = """#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define INLINE static inline
#define FUNCTION static __attribute__((noinline))
""" + COMMON + "".join(f"""INLINE {k} min_{k}({k} a, {k} b) {{ return a < b ? a : b; }}
INLINE {k} max_{k}({k} a, {k} b) {{ return a > b ? a : b; }}
INLINE {k} abs_{k}({k} a) {{ return {'a' if k[0] == 'u' else 'a < 0 ? -a : a'}; }}
""" for k in ("s32", "u32", "s64", "u64")) + "".join(f"""typedef struct {{ {kind} {', '.join('xyzw'[:n])}; }} {name};
INLINE {name} make_{name}({', '.join(f'{kind} {m}' for m in 'xyzw'[:n])}) {{ {name} v = {{{', '.join('xyzw'[:n])}}}; return v; }}
""" for name, (kind, n) in VECTORS.items()) + """INLINE s32 ones(u32 x) { return __builtin_popcount(x); }
INLINE s32 zeros(u32 x) { return x ? __builtin_clz(x) : 32; }
INLINE u32 mulhi_u32(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
INLINE s32 mulhi_s32(s32 a, s32 b) { return (s32)((s64)a * b >> 32); }
INLINE u32 bits_f32(f32 x) { u32 n; memcpy(&n, &x, 4); return n; }
INLINE u64 bits_f64(f64 x) { u64 n; memcpy(&n, &x, 8); return n; }
INLINE f32 half(f32 x) { return (f32)(_Float16)x; }
#define trunc_f32 truncf
#define trunc_f64 trunc
#define floor_f32 floorf
#define floor_f64 floor
#define fabs_f32 fabsf
#define fabs_f64 fabs
struct thread { u32 x, y, z, block, width, height, depth; };
#define TX (t->x)
#define TY (t->y)
#define TZ (t->z)
#define BX (t->block)
#define DX (t->width)
#define DY (t->height)
#define DZ (t->depth)
"""

DEVICE = """#include <cstdio>
#include <cstdlib>
#include <cstring>
#define INLINE __device__ static __forceinline__
#define FUNCTION __device__ static __noinline__
#define TX threadIdx.x
#define TY threadIdx.y
#define TZ threadIdx.z
#define BX blockIdx.x
#define DX blockDim.x
#define DY blockDim.y
#define DZ blockDim.z
""" + COMMON.replace("#define LANE (TID & 31)", """INLINE u32 lane() { u32 n; asm("mov.u32 %0, %%laneid;" : "=r"(n)); return n; }
#define LANE lane()""") + "".join(f"""INLINE {k} min_{k}({k} a, {k} b) {{ return min(a, b); }}
INLINE {k} max_{k}({k} a, {k} b) {{ return max(a, b); }}
""" for k in ("s32", "u32", "s64", "u64")) + """INLINE s32 abs_s32(s32 a) { return abs(a); }
INLINE s64 abs_s64(s64 a) { return llabs(a); }
INLINE s32 ones(u32 x) { return __popc(x); }
INLINE s32 zeros(u32 x) { return __clz((int)x); }
INLINE u32 mulhi_u32(u32 a, u32 b) { return __umulhi(a, b); }
INLINE s32 mulhi_s32(s32 a, s32 b) { return __mulhi(a, b); }
INLINE u32 bits_f32(f32 x) { return __float_as_uint(x); }
INLINE u64 bits_f64(f64 x) { return (u64)__double_as_longlong(x); }
INLINE f32 half(f32 x) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h)); return x; }
INLINE f32 trunc_f32(f32 x) { return truncf(x); }
INLINE f64 trunc_f64(f64 x) { return trunc(x); }
INLINE f32 floor_f32(f32 x) { return floorf(x); }
INLINE f64 floor_f64(f64 x) { return floor(x); }
INLINE f32 fabs_f32(f32 x) { return fabsf(x); }
INLINE f64 fabs_f64(f64 x) { return fabs(x); }
"""

# Bytes by chance, every third one a border.
FILL = f"""static void fill(u8 *in)
{{
    u64 x = 88172645463325252ull;
    for (u32 i = 0; i < {INPUTS * 16}u; i++) {{
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        in[i] = x % 3 ? (u8)(x >> 32) : "\\x00\\xff\\x7f\\x80\\x01"[x >> 40 & 3];
    }}
}}
"""
OUT, AREA = SLOTS * GRID * THREADS, REGIONS * 2 * GRID * THREADS  # u64 each


def reference(kernels):
    text = [HOST, FILL, *(k.host() for k in kernels), "int main(void)\n{\n"]
    text.append(f"    static u64 out[{OUT}], area[{AREA}];\n    void *in = aligned_alloc(256, {INPUTS * 16});\n    fill((u8 *)in);\n")
    for k in kernels:
        for x, y, z in k.shapes:
            text.append("    memset(out, 0, sizeof out);\n    memset(area, 0, sizeof area);\n")
            text.append(f"    for (u32 b = 0; b < {GRID}; b++) {{\n")
            for i in range(len(k.phases)):
                text.append(f"        for (u32 i = 0; i < {x * y * z}; i++) {{\n            struct thread t = {{i % {x}, i / {x} % {y}, i / {x * y}, b, {x}, {y}, {z}}};\n"
                            f"            k{k.number}_{i}(&t, ARGUMENTS{k.arguments()});\n        }}\n")
            text.append("    }\n    fwrite(out, 1, sizeof out, stdout);\n    fwrite(area, 1, sizeof area, stdout);\n")
    return "".join([*text, "    free(in);\n    return 0;\n}\n"])


def program(kernels):
    text = [DEVICE, FILL, *(k.device() for k in kernels), f"""static u64 *out, *area, host[{OUT + AREA}];
static void *in;
static void check(const char *what, cudaError_t e)
{{
    if (e == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\\n", what, cudaGetErrorString(e));
    exit(3);
}}
static void begin()
{{
    cudaMemset(out, 0, sizeof host);
}}
static void end(const char *kernel)
{{
    check(kernel, cudaGetLastError());
    check(kernel, cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    fwrite(host, 1, sizeof host, stdout);
}}
int main()
{{
    u8 *bytes = (u8 *)malloc({INPUTS * 16});
    fill(bytes);
    check("memory", cudaMalloc(&in, {INPUTS * 16}));
    check("memory", cudaMalloc((void **)&out, sizeof host));
    area = out + {OUT};
    check("copy", cudaMemcpy(in, bytes, {INPUTS * 16}, cudaMemcpyHostToDevice));
"""]
    for k in kernels:
        for x, y, z in k.shapes:
            text.append(f"    begin(), k{k.number}<<<{GRID}, dim3({x}, {y}, {z})>>>(ARGUMENTS{k.arguments()}), end(\"k{k.number}\");\n")
    return "".join([*text, "    free(bytes);\n    return 0;\n}\n"])


class Broken(harness.Failed):
    """A program that does not build or does not end as it should."""


def ran(command, env=None, timeout=900):
    done = subprocess.run(command, capture_output=True, env=env or harness.clean(), timeout=timeout)
    if done.returncode:
        raise Broken(f"{' '.join(command)}\n  exit code {done.returncode}: {(done.stdout if len(done.stdout) < 2000 else b'').decode(errors='replace')}"
                     f"{done.stderr[-3000:].decode(errors='replace')}")
    return done


class Bench:
    """Where programs are built and run, and how much processor time that took."""

    def __init__(self, folder):
        self.folder, self.spent, self.vectors = folder, collections.Counter(), [0, 0]

    def path(self, name):
        return os.path.join(self.folder, name)

    def timed(self, what, command, **more):
        begin = os.times()
        try:
            return ran(command, **more)
        finally:
            end = os.times()
            self.spent[what] += end.children_user + end.children_system - begin.children_user - begin.children_system

    def wanted(self, kernels):
        """What the host says, by gcc."""
        source = self.path("reference.c")
        with open(source, "w", encoding="utf-8") as f:
            f.write(reference(kernels))
        self.timed("reference", ["gcc", "-std=gnu11", "-O0", "-fwrapv", "-w", source, "-o", self.path("reference"), "-lm"])
        return self.timed("reference", [self.path("reference")]).stdout

    def defined(self, kernels, want):
        """That nothing in the reference is undefined, says clang, which gives the same."""
        source = self.path("reference.c")
        self.timed("sanitizer", ["clang-19", "-std=gnu11", "-O0", "-ffp-contract=off", "-fsanitize=undefined,float-cast-overflow",
                                 "-fno-sanitize-recover=all", "-w", source, "-o", self.path("defined"), "-lm"])
        got = self.timed("sanitizer", [self.path("defined")]).stdout
        if got != want:
            raise Broken("gcc and clang differ on the host: " + "; ".join(differing(kernels, got, want)[0][:3]))

    def build(self, way, kernels):
        compiler, flags, _ = WAYS[way]
        source, out = self.path("program.cu"), self.path(f"program-{compiler}{'-'.join(flags)}")
        with open(source, "w", encoding="utf-8") as f:
            f.write(program(kernels))
        if compiler == "nvcc":
            nvcc = harness.nvcc_of()
            if not nvcc:
                raise harness.Skipped("no nvcc")
            self.timed(way, [nvcc, "-std=c++17", "-w", "-fmad=false", "-gencode=arch=compute_80,code=compute_80", *flags, source, "-o", out])
            return out
        mt_cc, words = harness.tool("mt-cc"), ["-std=c++17", "-w", "-ffp-contract=off", "--mt-gpu-trace=off", "--mt-verbose=on", *flags]
        words += headers.words(mt_cc, words)
        said = self.timed(way, [mt_cc, *words, source, "-o", out]).stderr.decode(errors="replace")
        if "vectors=off" not in "".join(flags):
            self.vectors[0] += said.count("warps are vectors")
            self.vectors[1] += len(kernels)
        return out

    def run(self, way, path, how):
        compiler, _, variables = WAYS[way]
        env = harness.clean(MEMTRACE_DEVICE="cpu", MEMTRACE_DIR=self.folder, MEMTRACE_CACHE=self.path("cache"), **variables, **RUNS[how])
        return self.timed(way if compiler == "nvcc" else "run", [*([harness.tool("memtrace"), "run", "-q"] if compiler == "nvcc" else []), path], env=env).stdout

    def differences(self, way, kernels, want, runs=RUNS):
        """[(kernel, what)], where a program gives other numbers."""
        found = {}
        path = self.build(way, kernels)
        for how in runs:
            got = self.run(way, path, how)
            for k, what in differing(kernels, got, want)[1].items() if got != want else ():
                found.setdefault(k, f"{way}, {how}: {what}")
        return found


def differing(kernels, got, want):
    """Sentences, and for each kernel its first one."""
    by, size, at = {}, arithmetic_kernels.BYTES, 0
    if len(got) != len(want):
        return [f"{len(got)} bytes, not {len(want)}"], {kernels[0]: f"{len(got)} bytes, not {len(want)}"}
    for k in kernels:
        for x, y, z in k.shapes:
            a, b = got[at:at + size], want[at:at + size]
            at += size
            wrong = [i for i in range(size // 8) if a[i * 8:i * 8 + 8] != b[i * 8:i * 8 + 8]] if a != b else []
            if not wrong:
                continue
            i = wrong[0]
            values = [int.from_bytes(s[i * 8:i * 8 + 8], "little") for s in (a, b)]
            where = f"slot {i // (GRID * THREADS)}, thread {i % (GRID * THREADS)} of the grid" if i < OUT else f"8 bytes {i - OUT} of the area"
            by.setdefault(k, f"CTA {x}x{y}x{z}, {where}: got {values[0]:#x}, wanted {values[1]:#x}; {len(wrong)} numbers differ")
    return list(by.values()), by


def nodes(node):
    """Its own pieces, the largest first."""
    found = [node]
    for part in node.parts:
        if isinstance(part, arithmetic.Node):
            found += nodes(part)
    return found


def simpler(node):
    """What may stand in its place."""
    if node.fixed:
        return
    if node.kind is None:
        yield [""]
        return
    for part in node.parts:
        if isinstance(part, arithmetic.Node) and part.kind in BITS and node.kind in BITS and arithmetic.inside(part.range, node.range):
            yield [f"({node.kind})", part] if part.kind != node.kind else [part]
    if node.kind in BITS and len(str(node)) > 12:
        low, high = node.range
        for n in {low, high, min(max(low, 1), high)}:
            yield [arithmetic.constant(n, node.kind)]


def reduce(kernel, fails, tries=150):
    """Makes a kernel smaller as long as it fails."""
    done = False
    while not done and tries:
        done = True
        everything = [n for phase in kernel.phases for s in phase for n in nodes(s)] + [n for f in kernel.functions for n in nodes(f)]
        for node in sorted(everything, key=lambda n: -len(str(n))):
            keep = node.parts
            for parts in list(simpler(node)):
                if not tries:
                    return
                tries -= 1
                node.parts = parts
                if fails(kernel):
                    done = False
                    break
                node.parts = keep
            if not done:
                break


class Hunt:
    """Many kernels in many ways."""

    def __init__(self, bench, sanitize=True):
        self.bench, self.sanitize, self.count = bench, sanitize, collections.Counter()

    def fails(self, way):
        def check(kernel):
            try:
                want = self.bench.wanted([kernel])
                return bool(self.bench.differences(way, [kernel], want))
            except Broken:
                return False
        return check

    def broken(self, way, kernels, why):
        """Which kernel it is because of that a program does not build or run."""
        while len(kernels) > 1:
            for half in kernels[:len(kernels) // 2], kernels[len(kernels) // 2:]:
                try:
                    self.bench.differences(way, half, self.bench.wanted(half))
                except Broken as said:
                    kernels, why = half, said
                    break
            else:
                return None, why
        return kernels[0], why

    def batch(self, kernels, ways):
        """Yields (kernel, way, what)."""
        want = self.bench.wanted(kernels)
        if self.sanitize:
            self.bench.defined(kernels, want)
        for way in ways:
            try:
                found = self.bench.differences(way, kernels, want)
            except Broken as why:
                k, why = self.broken(way, kernels, why)
                yield k or kernels[0], way, f"{way}: {why}"
                continue
            self.count["runs"] += len(kernels) * len(RUNS)
            self.count["compiled"] += len(kernels)
            for k, what in found.items():
                yield k, way, what
        self.count["kernels"] += len(kernels)


def told(seed, kernel, what):
    return f"seed {seed}, kernel {kernel.number}: {what}\narguments{kernel.arguments()}\n{kernel.device()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=harness.BUILD)
    parser.add_argument("--seed", type=int, default=1, help="first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--kernels", type=int, default=100, help="of each seed")
    parser.add_argument("--only", type=int, help="one kernel of the seed")
    parser.add_argument("--ways", default=",".join(WAYS), help="of %(default)s")
    parser.add_argument("--reduce", action="store_true", help="make what fails smaller")
    parser.add_argument("--no-sanitizer", action="store_true")
    parser.add_argument("--work", help="keep programs here")
    args = parser.parse_args()
    harness.BUILD = os.path.realpath(args.build)
    wrong = 0
    with tempfile.TemporaryDirectory(dir=harness.MEMORY) as folder:
        if args.work:
            os.makedirs(args.work, exist_ok=True)
        hunt = Hunt(Bench(args.work or folder), not args.no_sanitizer)
        for seed in range(args.seed, args.seed + args.seeds):
            kernels = arithmetic_kernels.kernels(seed, args.kernels) if args.only is None else \
                arithmetic_kernels.kernels(seed, 1, args.only)
            for k, way, what in hunt.batch(kernels, args.ways.split(",")):
                wrong += 1
                print(told(seed, k, what), flush=True)
                if args.reduce:
                    small = arithmetic_kernels.kernels(seed, 1, k.number)[0]
                    reduce(small, hunt.fails(way))
                    print("smaller:\n" + small.device(), flush=True)
            print(f"seed {seed}: {dict(hunt.count)}, {wrong} wrong, vectors {hunt.bench.vectors}, seconds "
                  f"{ {k: round(v, 1) for k, v in hunt.bench.spent.items()} }", flush=True)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
