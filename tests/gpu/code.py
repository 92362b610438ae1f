#!/usr/bin/env python3
"""Sites of machine code (runtime/gpu/inject/code.c) beside what others read in the same cubins: the line of each instruction is that of
llvm-dwarfdump, and each inlined call is one that a .loc of the PTX has.

usage: code.py --cuda ROOT --llvm BINDIR --tool test_gpu_code --work DIR [--more FILE.cu ...] CASE
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys

HEADER = """#pragma once
__device__ inline int helper_in_header(const int *p, int i) {
    return p[i] * 3;
}
template <typename T> __device__ T deep(const T *p, int i) {
    T a = helper_in_header((const int *)p, i);
    return a + p[i + 1];
}
"""
ONE = """#include "sub/../code.cuh"
__device__ __forceinline__ float leaf(const float *p) { return p[1]; }
__device__ __forceinline__ float mid(const float *p, int i) {
    float a = leaf(p + i);
    return a * leaf(p + 2 * i);
}
__device__ __noinline__ float outer(const float *p, int i) {
    float s = 0;
    for (int k = 0; k < i; k++)
        s += mid(p, k) +
             deep<float>(p, k);
    return s;
}
__device__ __noinline__ int second(const int *p, int i) {
    return deep<int>(p, i) + deep<int>(p,
                                       i + 7);
}
__global__ void kern(float *o, const float *p, int n) {
    o[0] = outer(p, n);
    o[1] = mid(p, n) + outer(p + 3, n);
    o[2] = second((const int *)p, n) + second((const int *)o, n + 1);
}
template <typename T> __global__ void two(T *out, const T *in) {
    out[threadIdx.x] = in[threadIdx.x] + deep<T>(in, 3);
}
template __global__ void two<float>(float *, const float *);
template __global__ void two<double>(double *, const double *);
namespace { __global__ void hidden(int *p) {
    atomicAdd(p, 1);
} }
void launch(int *p) { hidden<<<1, 1>>>(p); }
"""
FIRST = """#include "code.cuh"
extern __device__ int other(const int *p, int i);
__global__ void three(int *out, const int *in, int n) {
    int i = threadIdx.x;
    out[i] = other(in, i) + deep<int>(in, i + 1);
}
"""
LAST = """#include "code.cuh"
__device__ int other(const int *p, int i) {
    return deep<int>(p, i * 3) +
           p[4];
}
__global__ void four(float *out, const float *in, int n) {
    out[n] = deep<float>(in, n);
}
"""
MAIN = """
int main() {
    float *p, *q;
    cudaMalloc(&p, 4096);
    cudaMalloc(&q, 4096);
    cudaMemset(q, 0, 4096);
    kern<<<1, 1>>>(p, q, 8);
    two<<<1, 32>>>(p, q);
    launch((int *)p);
    return cudaDeviceSynchronize();
}
"""
# As Triton has it: lines of a Python file and of its own library, no option of the assembler's.
PYTHON = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry add_kernel(
    .param .u64 .ptr .global .align 1 add_kernel_param_0
)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<6>;
    .loc 1 12 0
    ld.param.u64 %rd1, [add_kernel_param_0];
    .loc 1 20 16
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    .loc 1 23 9
    ld.global.b32 %r2, [%rd4];
    .loc 2 291 36
    add.s32 %r3, %r2, 7;
    .loc 1 25 26
    st.global.b32 [%rd4], %r3;
    ret;
}
    .file 1 "/home/someone/add.py"
    .file 2 "/usr/lib/python3/triton/language/standard.py"
    .section .debug_abbrev
    {
.b8 1
.b8 0
    }
    .section .debug_info
    {
.b32 8
.b8 2
.b8 0
.b32 .debug_abbrev
.b8 8
.b8 1
    }
    .section .debug_macinfo { }
"""


def run(*cmd):
    done = subprocess.run(cmd, text=True, capture_output=True)
    if done.returncode:
        sys.exit("failed: %s\n%s%s" % (" ".join(cmd), done.stdout, done.stderr))
    return done.stdout


class Case:
    def __init__(self, o):
        self.o, self.failed = o, 0
        self.nvcc = os.path.join(o.cuda, "bin", "nvcc")
        os.makedirs(os.path.join(o.work, "sub"), exist_ok=True)
        for name, text in (("code.cuh", HEADER), ("one.cu", ONE), ("first.cu", FIRST), ("last.cu", LAST)):
            with open(self.path(name), "w") as f:
                f.write(text)

    def path(self, name):
        return os.path.join(self.o.work, name)

    def make(self, source, arch, *more, kind="-cubin"):
        name = os.path.splitext(os.path.basename(source))[0]
        out = self.path("%s.%s%s%s" % (name, arch, "".join(more), {"-cubin": ".cubin", "-ptx": ".ptx"}[kind]))
        run(self.nvcc, "-arch=" + arch, kind, "-lineinfo" if "-none" not in more else "-DNONE", *[m for m in more if m != "-none"],
            "-std=c++17", "-I", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"), source, "-o", out)
        return out

    def linked(self, arch):
        objects = []
        for name in ("first", "last"):
            objects.append(self.path("%s.%s.o" % (name, arch)))
            run(self.nvcc, "-arch=" + arch, "-lineinfo", "-dc", self.path(name + ".cu"), "-o", objects[-1])
        out = self.path("linked.%s.cubin" % arch)
        run(self.nvcc, "-arch=" + arch, "-dlink", "-cubin", *objects, "-o", out)
        return out

    def check(self, what, ok, say=""):
        if not ok:
            self.failed += 1
            print("FAILED: %s %s" % (what, say))

    def tool(self, *args):
        return run(self.o.tool, *args)

    def frames(self, cubin):
        """(section, offset) -> (function, [(file, line, function)...])"""
        out = {}
        for line in self.tool("frames", cubin).splitlines():
            section, offset, function, *rest = line.split("\t")
            frames = [(os.path.normpath(rest[i]), int(rest[i + 1]), rest[i + 2]) for i in range(0, len(rest), 3)]
            out[section, int(offset)] = function, frames
        return out

    # ---- other readers ----

    def relocations(self, cubin):
        """place in .debug_line -> symbol"""
        text = subprocess.run(["readelf", "-rW", cubin], text=True, capture_output=True).stdout
        part = re.search(r"'\.rela?\.debug_line'(.*?)(\n\n|$)", text, re.S)[1]
        return {int(at, 16): name for at, name in re.findall(r"^([0-9a-f]+)\s+[0-9a-f]+ unrecognized: 2\s+[0-9a-f]+\s+(\S+)", part, re.M)}

    def rows(self, cubin):
        """symbol -> [(address, file, line)...], by llvm-dwarfdump"""
        known, out, rows, folders, files = self.relocations(cubin), {}, None, {}, {}
        text = subprocess.run([os.path.join(self.o.llvm, "llvm-dwarfdump"), "--debug-line", "-v", cubin], text=True,
                              capture_output=True).stdout
        for line in text.splitlines():
            if line.startswith("debug_line["):
                folders, files = {}, {}
            m = re.match(r'include_directories\[ *(\d+)\] = "(.*)"', line)
            if m:
                folders[int(m[1])] = m[2]
            m = re.match(r"file_names\[ *(\d+)\]", line)
            if m:
                number = int(m[1])
            m = re.match(r' +name: "(.*)"', line)
            if m:
                files[number] = m[1]
            m = re.match(r" +dir_index: (\d+)", line)
            if m:
                files[number] = os.path.normpath(os.path.join(folders.get(int(m[1]), ""), files[number]))
            m = re.match(r"0x([0-9a-f]+): 00 DW_LNE_set_address", line)
            if m:
                rows = out.setdefault(known.get(int(m[1], 16) + 3), [])
            m = re.match(r"\s+0x([0-9a-f]{16})\s+(\d+)\s+\d+\s+(\d+)", line)
            if m:
                rows.append((int(m[1], 16), files.get(int(m[3])), int(m[2])))
        out.pop(None, None)
        return out

    def calls(self, ptx):
        """(file, line, function, file and line of the call), (file, line) of what was not inlined"""
        with open(ptx) as f:
            text = f.read()
        files = {n: os.path.normpath(name) for n, name in re.findall(r'\.file\s+(\d+)\s+"([^"]+)"', text)}
        strings = {}
        for label, body in re.findall(r"^\s*(\$L__info_string\d+):\n((?:\s*\.b8 .*\n)+)", text, re.M):
            codes = [int(n) for n in re.findall(r"\d+", body.replace(".b8", ""))]
            strings[label] = bytes(codes).split(b"\0")[0].decode()
        inlined, plain = set(), set()
        for file, line, rest in re.findall(r"\.loc\s+(\d+) (\d+) \d+(.*)", text):
            m = re.match(r", function_name (\S+?)(?:\+\d+)?, inlined_at (\d+) (\d+)", rest)
            if m:
                inlined.add((files[file], int(line), strings[m[1]], files[m[2]], int(m[3])))
            else:
                plain.add((files[file], int(line)))
        return inlined, plain

    # ---- what is compared ----

    def lines_alike(self, cubin, least):
        frames, rows, n = self.frames(cubin), self.rows(cubin), 0
        for (section, offset), (_, found) in frames.items():
            there = [r for r in rows.get(section, ())[:-1] if r[0] <= offset]
            # the last one at the highest address
            best = max((i for i in range(len(there))), key=lambda i: (there[i][0], i), default=None)
            want = there[best][1:] if best is not None and offset < rows[section][-1][0] else None
            got = found[0][:2] if found else None
            self.check("%s %s+0x%x" % (os.path.basename(cubin), section, offset), got == want, "%s, not %s" % (got, want))
            n += got is not None
        self.check(cubin, n >= least, "only %d instructions have lines" % n)
        return n

    def calls_alike(self, cubin, ptx, least):
        inlined, plain, deepest, n = *self.calls(ptx), 0, 0
        for (section, offset), (_, found) in self.frames(cubin).items():
            deepest = max(deepest, len(found))
            for inner, outer in zip(found, found[1:]):
                n += 1
                self.check("%s %s+0x%x" % (os.path.basename(cubin), section, offset), (*inner, *outer[:2]) in inlined,
                           "%s is not inlined at %s" % (inner, outer[:2]))
            if found:
                self.check("%s %s+0x%x" % (os.path.basename(cubin), section, offset), found[-1][2] == "-", str(found))
        self.check(cubin, n >= least, "only %d inlined calls" % n)
        return n, deepest

    def lines(self):
        there = run(self.nvcc, "--list-gpu-code").split()
        for arch in [a for a in ("sm_75", "sm_80", "sm_90", "sm_120") if a in there]:
            cubin = self.make(self.path("one.cu"), arch)
            print(arch, self.lines_alike(cubin, 300), "instructions,", "%d inlined calls, %d frames" %
                  self.calls_alike(cubin, self.make(self.path("one.cu"), arch, kind="-ptx"), 150))
        debug = self.make(self.path("one.cu"), "sm_90", "-G")
        print("-G:", self.lines_alike(debug, 300), "instructions")
        print("linked:", self.lines_alike(self.linked("sm_90"), 50), "instructions")
        for source in self.o.more:
            cubin = self.make(source, "sm_90")
            print(os.path.basename(source), self.lines_alike(cubin, 100), "instructions,", "%d inlined calls, %d frames" %
                  self.calls_alike(cubin, self.make(source, "sm_90", kind="-ptx"), 50))

    def sites_of(self, cubin, **env):
        text = subprocess.run([self.o.tool, "sites", cubin], text=True, capture_output=True, check=True, env={**os.environ, **env}).stdout
        events = [json.loads(line) for line in text.splitlines()]
        return [e for e in events if e["ev"] == "site"], [e for e in events if e["ev"] == "source"]

    def sites(self):
        here = os.path.realpath(self.o.work)
        sites, sources = self.sites_of(self.make(self.path("one.cu"), "sm_90"))
        places = {(os.path.relpath(s["file"], here), s["line"], s["function"], s["at"].split("+")[0]) for s in sites}
        one = ONE.splitlines()
        for wanted in (("one.cu", 2, "leaf", "kern"), ("one.cu", one.index("    float s = 0;") + 2, "outer", "kern"),
                       ("code.cuh", 3, "helper_in_header", "kern"), ("code.cuh", 7, "deep<float>", "two<float>"),
                       ("code.cuh", 7, "deep<double>", "two<double>"), ("code.cuh", 7, "deep<int>", "kern"),
                       # atomicAdd is CUDA's: the line that calls it
                       ("one.cu", one.index("    atomicAdd(p, 1);") + 1, "(anonymous namespace)::hidden", "(anonymous namespace)::hidden")):
            self.check("site", wanted in places, "%s is not among %s" % (wanted, sorted(places)))
        self.check("one file, one name", {os.path.relpath(s["file"], here) for s in sources} == {"one.cu", "code.cuh"}, sources)
        self.check("the toolkit", not any("/include/" in s["file"] for s in sites))
        self.check("columns", {s["column"] for s in sites} == {0})
        self.check("symbols", {s["symbol"] for s in sites} >= {"_Z4kernPfPKfi", "_Z3twoIfEvPT_PKS0_"})
        bare, sources = self.sites_of(self.make(self.path("one.cu"), "sm_90", "-none"))
        self.check("no lines", not sources and {(s["file"], s["line"]) for s in bare} == {("", 0)})
        self.check("functions", {"kern", "two<float>", "outer", "second"} <= {s["function"] for s in bare})
        self.check("places", len({s["at"] for s in bare}) == len(bare) and any(s["at"] == "two<float>+0x20" for s in bare))
        linked, _ = self.sites_of(self.linked("sm_90"))
        # of the second file nvlink leaves no name of what was inlined
        self.check("linked", {("code.cuh", "other"), ("code.cuh", "four"), ("code.cuh", "helper_in_header")} <=
                   {(os.path.basename(s["file"]), s["function"]) for s in linked}, sorted({(s["file"], s["function"]) for s in linked}))

    def cpu(self):
        """The CPU device's sites of the same code are among those of the machine code, in all but the column."""
        source, folder = self.path("whole.cu"), self.path("cpu")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with open(source, "w") as f:
            f.write(ONE + MAIN)
        program = self.path("whole")
        run(self.nvcc, "-arch=sm_90", "-lineinfo", source, "-o", program)
        subprocess.run([os.path.join(self.o.build, "bin", "mt-run"), program], check=True,
                       env={**os.environ, "MEMTRACE_DIR": folder, "MEMTRACE_FORMAT": "compact", "MEMTRACE_DEVICE": "cpu"})
        with open(os.path.join(folder, "MemTrace-pipe-0.mtc.meta")) as f:
            there = {self.place(e) for e in map(json.loads, f) if e["ev"] == "site"}
        here = {self.place(s) for s in self.sites_of(self.make(source, "sm_90"))[0]}
        self.check("places", len(there) > 6 and there <= here, "%s are not among %s" % (sorted(there - here), sorted(here)))

    @staticmethod
    def place(site):
        return site["file"], site["line"], site["function"]

    def python(self):
        ptx, cubin = self.path("add.ptx"), self.path("add.cubin")
        with open(ptx, "w") as f:
            f.write(PYTHON)
        run(os.path.join(self.o.cuda, "bin", "ptxas"), "-arch=sm_90a", ptx, "-o", cubin)
        places = {self.place(s) for s in self.sites_of(cubin)[0]}
        self.check("python", {("/home/someone/add.py", n, "add_kernel") for n in (20, 23, 25)} <= places, sorted(places))

    def sass(self):
        cubin, folder = self.make(self.path("one.cu"), "sm_90"), self.path("kept")
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        sites, _ = self.sites_of(cubin, MEMTRACE_DIR=folder)
        self.check("not asked for", not os.listdir(folder) and "code" not in sites[0])
        sites, _ = self.sites_of(cubin, MEMTRACE_DIR=folder, MEMTRACE_SASS="1")
        names = {s["code"] for s in sites}
        self.check("one file", names == set(os.listdir(folder)) and len(names) == 1, names)
        with open(cubin, "rb") as a, open(os.path.join(folder, names.pop()), "rb") as b:
            self.check("the same", a.read() == b.read())

    def readers(self):
        """What the tools say of sites: with lines, and without; from the companion, and from the lines inside the trace."""
        tool = lambda name, *args: run(os.path.join(self.o.build, "bin", name), *args)
        for more, place, none in (((), "code.cuh:7", "+0x"), (("-none",), "two<float>+0x40", ".cu")):
            folder = self.path("trace" + "".join(more))
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            subprocess.run([self.o.tool, "trace", self.make(self.path("one.cu"), "sm_90", *more)], check=True,
                           env={**os.environ, "MEMTRACE_DIR": folder, "MEMTRACE_FORMAT": "compact", "MEMTRACE_QUIET": "1"})
            trace = os.path.join(folder, "MemTrace-pipe-0.mtc")
            for alone in (False, True):
                if alone:
                    os.unlink(os.path.join(folder, "MemTrace-pipe-0.mtc.meta"))
                lines = json.loads(tool("mt-extract", "--sections", "lines", trace))["lines"]["lines"]
                self.check("lines", any(n.endswith(place) for n in lines) and "?" not in lines and not any(none in n for n in lines),
                           "%s: %s" % (more, sorted(lines)))
                total = sum(v["Load"] + v["Store"] for kernels in lines.values() for v in kernels.values())
                kernels = json.loads(tool("mt-extract", "--sections", "KCV", trace))["KCV"]
                self.check("kernels", {"kern", "two<float>", "two<double>"} <= set(kernels), kernels)
                self.check("bytes", total > 0 and total % 128 == 0, total)
                for name, text in (("text", tool("mt-extract", "--format", "text", "--sections", "more", trace)), ("runs", tool("mt-dump", "--runs", trace)), ("dump", tool("mt-dump", "--companion", "--head=0", trace)),
                                   ("page", tool("mt-report", "-o", "-", trace))):
                    self.check(name, place in text.replace("\\u003c", "<").replace("\\u003e", ">"), "" if name == "page" else text[:1000])
            tables = os.path.join(folder, "tables")
            tool("mt-extract", "--format", "csv", "-s", "more", "-o", tables, trace)
            with open(os.path.join(tables, "lines.csv")) as f:
                table = f.read()
            self.check("table", place.split(":")[0] in table, table)
            tool("mt-compare", folder, folder)

    def tests(self):
        print(self.tool("tests", self.make(self.path("one.cu"), "sm_90"), self.linked("sm_90")))

    def damaged(self):
        print(self.tool("damaged", self.make(self.path("last.cu"), "sm_80")))
        print(self.tool("damaged", self.linked("sm_80")))

    def speed(self):
        print(self.tool("speed", self.make(self.path("one.cu"), "sm_90")))


def main():
    p = argparse.ArgumentParser()
    for name in ("cuda", "llvm", "tool", "work"):
        p.add_argument("--" + name, required=True)
    p.add_argument("--build", help="for readers")
    p.add_argument("--more", nargs="*", default=[])
    p.add_argument("case")
    case = Case(p.parse_args())
    getattr(case, case.o.case)()
    sys.exit(bool(case.failed))


if __name__ == "__main__":
    main()
