"""Code that compilers made, through the reader and back: nvcc -O3 -lineinfo, nvcc -G, and clang++ -S without the plugin.

The kernels of the examples, of tests/conformance and of tests/hardware become PTX; mt-ptx reads each without a word, and llc makes PTX
of its IR again, which ptxas takes for sm_75, sm_80 and sm_90 where it took the first. The numbers of kernels are the same."""
import glob
import os
import re

from harness import BUILD, SOURCE, Skipped, case, expect, need, nvcc_of, run, same, tool, toolkit

SOURCES = ("examples/*/*.cu", "tests/conformance/*.cu", "tests/hardware/kernels/*.cu")
TARGETS = (75, 80, 90)


def to_ptx(kind, source, arch, out):
    """False: the compiler does not take this source for that architecture."""
    include = [f"-I{os.path.dirname(source)}", f"-I{os.path.join(SOURCE, 'include')}"]
    if kind == "clang":
        done = run([need("clang++-19"), "-S", "--cuda-device-only", f"--cuda-gpu-arch=sm_{arch}", "-std=c++17", "-O2",
                    "-gline-tables-only", "-Wno-unknown-cuda-version", f"--cuda-path={BUILD}/cuda-overlay", *include, source,
                    "-o", out])
    else:
        how = ["-G"] if kind == "debug" else ["-O3", "-lineinfo"]
        done = run([nvcc_of(), "-ptx", "-std=c++17", "--expt-relaxed-constexpr", *how,
                    f"-arch=sm_{arch}", *include, source, "-o", out])
    return done.returncode == 0


def check(kind, source, arch, stem):
    """A sentence about what is wrong, "" when nothing is, or None: there is nothing to check."""
    ptx, ir, again = stem + ".ptx", stem + ".ll", stem + ".again.ptx"
    ptxas = os.path.join(toolkit(), "bin", "ptxas")
    if not to_ptx(kind, source, arch, ptx):
        return None
    if run([ptxas, f"-arch=sm_{arch}", ptx, "-o", os.devnull]).returncode != 0:
        return None
    done = run([tool("mt-ptx"), "--emit-ir", ptx, "-o", ir])
    if done.returncode != 0 or done.stderr:
        return f"mt-ptx: exit code {done.returncode}: {done.stderr[:600]}"
    done = run([need("llc-19"), f"-mcpu=sm_{arch}", "-mattr=+ptx83", "-O2", ir, "-o", again])
    if done.returncode != 0:
        return f"llc: {done.stderr[:600]}"
    with open(ptx, encoding="utf-8", errors="replace") as f:
        before = f.read()
    with open(again, encoding="utf-8", errors="replace") as f:
        after = f.read()
    version = re.search(r"^\.version.*", before, re.M)[0]  # LLVM 19 ends at 8.5
    with open(again, "w", encoding="utf-8") as f:
        f.write(re.sub(r"^\.version.*", version, after, count=1, flags=re.M))
    done = run([ptxas, f"-arch=sm_{arch}", again, "-o", os.devnull])
    if done.returncode != 0:
        return f"ptxas: {done.stderr[:600]}"
    kernels = [sorted(re.findall(r"\.entry\s+([\w$]+)", text)) for text in (before, after)]
    return "" if kernels[0] == kernels[1] else f"kernels: {kernels[0]} became {kernels[1]}"


# They take minutes: ./setup test -C long -R '^ptx'
@case("corpus", "optimised", "debug", "clang", long=True)
def corpus(world):
    if not nvcc_of():
        raise Skipped("this CUDA toolkit has no nvcc")
    failed, checked, kind = [], 0, world.variant
    for number, source in enumerate(sorted(p for pattern in SOURCES for p in glob.glob(os.path.join(SOURCE, pattern)))):
        arch = TARGETS[-1 if kind == "debug" else number % 3]  # each file for one of them
        stem = os.path.join(world.work, os.path.basename(source)[:-3])
        found = check(kind, source, arch, stem)
        if found is None and arch != TARGETS[-1]:
            found = check(kind, source, TARGETS[-1], stem)
        checked += found is not None
        failed += [f"{source} sm_{arch}: {found}"] if found else []
    same("files that fail", failed, [])
    expect(checked >= 20, checked, "files were checked")
