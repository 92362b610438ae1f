#!/usr/bin/env python3
"""Calls of libraries: run.py BUILD WORK CASE CUDA. The program compares results with naive algorithms of its own, and prints what each
call must read and write; here that is compared with the trace, byte by byte, and with the transfers that mt-extract finds."""
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys

BLAS = "libopenblas.so.0"
BACKENDS = {"cublas": (BLAS,), "cublasLt": (BLAS,), "cufft": ("libfftw3.so.3", "libfftw3f.so.3"), "cusolver": (BLAS,), "cusolver_more": (BLAS,), "cusparse": (BLAS,), "cusparse_convert": (), "curand": (), "curand_all": (), "random": (), "gpu": (), "numpy": (BLAS, "libfftw3.so.3", "libfftw3f.so.3"), "linked": (BLAS,), "attached": (BLAS,),
            "missing": (), "failed": (BLAS, "libfftw3f.so.3")}
HERE = os.path.dirname(os.path.abspath(__file__))
failures = 0


def check(good, words):
    global failures
    if not good:
        failures += 1
        print(words, file=sys.stderr)


def run(build, work, program, *arguments, **more):
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    env = dict(os.environ, MEMTRACE_DEVICE="cpu", MEMTRACE_DIR=work, **more)
    return subprocess.run([os.path.join(build, "tests/bin", program), *arguments], env=env, text=True, capture_output=True, check=False)


def ranges(words):
    """{"r": bytes, "w": bytes} as sets of (begin, end), apart and ascending."""
    out = {"r": [], "w": []}
    for w in words:
        at, n = w[1:].split("+")
        out[w[0]].append((int(at, 16), int(at, 16) + int(n)))
    return {k: joined(v) for k, v in out.items()}


def joined(list_):
    out = []
    for begin, end in sorted(list_):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((begin, end))
    return out


def expected(text):
    """[(kernel, ranges)] in order; calls that touch nothing make no difference."""
    return [(w[1], ranges(w[2:])) for w in (line.split() for line in text.splitlines()) if w and w[0] == "call"]


def traced(build, traces, code=0):
    """The same of all traces of a run, by mt-dump; 3 is its exit code for those that are not complete."""
    p = subprocess.run([os.path.join(build, "bin/mt-dump"), *traces], text=True, capture_output=True, check=False)
    check(p.returncode == code, f"mt-dump: exit code {p.returncode}: {p.stderr}")
    text = p.stdout
    out, kinds = [], {"load": "r", "store": "w"}
    for line in text.splitlines():
        w = line.split()
        if w[:1] == ["launch"]:
            out.append((w[2], {"r": [], "w": []}))
        elif w and w[0] in kinds:
            at = int(w[2], 16)
            out[-1][1][kinds[w[0]]].append((at, at + int(w[1])))
    return [(name, {k: joined(v) for k, v in r.items()}) for name, r in out]


def launches(traces):
    out = []
    for t in traces:
        with open(t + ".meta", encoding="utf-8") as f:
            out += [e for e in map(json.loads, f) if e["ev"] == "launch"]
    return sorted(out, key=lambda e: e["seq"])


def compare(want, have, words):
    check([n for n, _ in want] == [n for n, _ in have], f"{words}: {len(have)} launches of {len(want)}, or in another order")
    for i, (w, h) in enumerate(zip(want, have)):
        for k in "rw":
            check(w[1][k] == h[1][k], f"{words}: call {i}, {w[0]}: {k} {h[1][k]}, expected {w[1][k]}")


def transfers(calls):
    """Bytes from call to call, by a last writer for each byte: {(writer's number, reader's number): bytes}."""
    last, out = {}, {}
    for n, (_, r) in enumerate(calls):
        for begin, end in r["r"]:
            for b in range(begin, end):
                if b in last:
                    out[last[b], n] = out.get((last[b], n), 0) + 1
        for begin, end in r["w"]:
            last.update((b, n) for b in range(begin, end))
    return out


def extracted(build, traces):
    j = json.loads(subprocess.run([os.path.join(build, "bin/mt-extract"), "--sections", "transfers", "--no-host", *traces],
                                  text=True, capture_output=True, check=True).stdout)
    check(j["complete"] is True, "the trace is not complete")
    check(j["libraries"] and all(k.startswith(v) for k, v in j["libraries"].items()), "libraries of mt-extract")
    return {(int(s), int(t)): cell["Size"] for by_cta in j["transfers"].values() for steps in by_cta.values()
            for s, readers in steps.items() for ctas in readers.values() for to in ctas.values() for t, cell in to.items()}


def test_library(build, work, program, *arguments):
    want = {}
    for form in ("raw", "compact"):
        p = run(build, work, program, *arguments, MEMTRACE_FORMAT=form)
        check(p.returncode == 0 and not p.stderr, f"{form}: exit code {p.returncode}\n{p.stderr}")
        traces = sorted(os.path.join(work, f) for f in os.listdir(work) if not f.endswith(".meta"))
        want = expected(p.stdout)
        events = [e for e in launches(traces) if e.get("library")]
        check([e["kernel"] for e in events] == [n for n, _ in want], f"{form}: launches of the companion")
        check(all(e["kernel"].startswith(e["library"]) and e["traced"] and not e["status"] for e in events),
              f"{form}: a launch that is none of a library, was not traced or failed")
        compare(want, traced(build, traces), form)
        # Operands that overlap are counted once here, and once each there: no case reads such from another call.
        check(transfers(want) == extracted(build, traces), f"{form}: transfers")
    return want


def test_missing(build, work):
    """Without OpenBLAS: what is missing is said, with its package, and the call fails."""
    fake = os.path.join(work, "fake")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(fake)
    with open(os.path.join(fake, "libopenblas.so.0"), "w", encoding="utf-8") as f:
        f.write("not a library\n")
    env = dict(os.environ, MEMTRACE_DEVICE="cpu", MEMTRACE_DIR=work, LD_LIBRARY_PATH=fake)
    p = subprocess.run([os.path.join(build, "tests/bin/test_library_missing")], env=env, text=True, capture_output=True, check=False)
    check(p.returncode == 0, f"exit code {p.returncode}")
    lines = [x for x in p.stderr.splitlines() if x.startswith("memtrace: ")]
    check(len(lines) == 3 and "cublasSaxpy" in lines[0] and "apt install libopenblas0-pthread" in lines[0],
          f"what is missing: {p.stderr}")
    check(len(lines) == 3 and "cublasSgemmGroupedBatched" in lines[1] and "status 15" in lines[1], f"what is not there: {p.stderr}")
    check(len(lines) == 3 and "curandCreateGenerator" in lines[2] and "libcurand.so.10" in lines[2], f"what is missing: {p.stderr}")


def test_failed(build, work):
    """A call that fails on the device: a launch with its status and without accesses, and nothing is done behind it."""
    for case, name, copies in (("f", "cufftExecC2C", 0), ("b", "cublasSgemmBatched", 1), ("c", "cusparseSpMV", 2), ("r", "cusparseSpMV", 2)):
        for form in ("raw", "compact"):
            p = run(build, work, "test_library_failed", case, MEMTRACE_FORMAT=form)
            check(p.returncode == 0 and p.stderr.count("\n") == 1 and name in p.stderr, f"{case} {form}: exit code {p.returncode}\n{p.stderr}")
            traces = sorted(os.path.join(work, f) for f in os.listdir(work) if not f.endswith(".meta"))
            check(traced(build, traces) == [(name, {"r": [], "w": []})], f"{case} {form}: accesses of a call that failed")
            have = [(e["kernel"], e["records"], e["status"]) for e in launches(traces)]
            check(have == [(name, 0, 700)], f"{case} {form}: launches {have}")
            with open(traces[0] + ".meta", encoding="utf-8") as f:
                events = [json.loads(line)["ev"] for line in f]
            check(events.count("memcpy") == copies and events.count("memset") == 3, f"{case} {form}: copies and fills behind it: {events}")


def start(work, command):
    """Runs it; the launches of its one trace."""
    env = dict(os.environ, MEMTRACE_DEVICE="cpu", MEMTRACE_DIR=work)
    p = subprocess.run(command, env=env, text=True, capture_output=True, check=False)
    check(p.returncode == 0 and not p.stderr, f"{command}: exit code {p.returncode}: {p.stderr}")
    return launches([os.path.join(work, "MemTrace-pipe-0")])


def test_linked(build, work):
    """mt-cc -lcublas: kernels and the call between them, with its line."""
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    app = os.path.join(work, "app")
    subprocess.run([os.path.join(build, "bin/mt-cc"), "-O1", os.path.join(HERE, "linked.cu"), "-lcublas", "-o", app], check=True)
    call = [e for e in start(work, [app]) if e["kernel"] == "cublasSaxpy"]
    check(len(call) == 1 and call[0]["line"] == 25 and call[0]["file"].endswith("linked.cu"), f"place of the call: {call}")
    # x in steps of two, and the first half of y
    have = extracted(build, [os.path.join(work, "MemTrace-pipe-0")])
    check(have == {(0, 2): 128, (1, 2): 128, (2, 3): 128, (1, 3): 128}, f"transfers: {have}")


def test_random(build, work):
    """Numbers of the host's and the device's functions, with a program that includes NVIDIA's headers."""
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    app = os.path.join(work, "app")
    subprocess.run([os.path.join(build, "bin/mt-cc"), "-O1", os.path.join(HERE, "curand_kernel.cu"), "-lcurand", "-o", app], check=True)
    events = [(e["kernel"], e.get("records")) for e in start(work, [app]) if e.get("library")]
    check(events == [("curandGenerate", 1)] * 3, f"launches: {events}")


def build_stub(work, soname, names, text=""):
    """A library with these names under its own version, as NVIDIA's have them."""
    stub = os.path.join(work, soname)
    source, versions = stub + ".c", stub + ".map"
    with open(source, "w", encoding="utf-8") as f:
        f.write(text + "".join(f"int {n}(void) {{ return 99; }}\n" for n in names))
    with open(versions, "w", encoding="utf-8") as f:
        f.write(soname + " { global: *; };\n")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", stub, "-Wl,-soname," + soname, "-Wl,--version-script=" + versions], check=True)
    return stub


# What the stand-in takes from the cuRAND that the program would have got.
RANDOM = """
int curandCreateGeneratorHost(void **g, int type) { *g = g; return type != 161; }
int curandGenerateUniformDouble(void *g, double *out, unsigned long n) { while (n) out[--n] = 1; return !g; }
"""


def test_attached(build, work):
    """Programs that NVIDIA's libraries were meant for, those of CUDA 13 and 12, under mt-run."""
    names = os.path.join(build, "lib/memtrace/cudart")
    for version in ("13", "12"):
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(work)
        app = os.path.join(work, "app")
        libraries = [build_stub(work, "libcublas.so." + version, ["cublasCreate_v2", "cublasDscal_v2"]),
                     build_stub(work, "libcurand.so.10", ["curandCreateGenerator"], RANDOM)]
        subprocess.run(["cc", os.path.join(HERE, "attached.c"), "-o", app, *libraries, "-Wl,-rpath," + work, "-L" + names, "-l:libcudart.so",
                        "-Wl,--allow-shlib-undefined"], check=True)
        have = [(e["kernel"], e.get("library"), e["records"]) for e in start(work, [os.path.join(build, "bin/mt-run"), app])]
        check(have == [("cublasDscal", "cublas", 8), ("curandGenerateUniformDouble", "curand", 1)], f"CUDA {version}: launches: {have}")
        said = subprocess.run([os.path.join(build, "bin/mt-run"), "--list", app], text=True, capture_output=True, check=True).stdout
        check(all(path + ": on the CPU device memtrace does what it does" in said for path in libraries), f"CUDA {version}: --list: {said}")


def test_gpu(build, work):
    """On a GPU's stand-in, with libraries that are fakes of NVIDIA's: the calls among the kernels of their stream, on the side
    of libmemtrace-libraries.so by mt-cc."""
    sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
    import world  # noqa: E402
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    app, standin = os.path.join(work, "app"), world.Standin(build)
    names = ("libcublas.so.13", "libcublasLt.so.13", "libcufft.so.12", "libcurand.so.10", "libcusparse.so.12", "libcusolver.so.12")
    for name in names:
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", os.path.join(HERE, "gpu/fake.c"), "-o", os.path.join(work, name), "-ldl"], check=True)
    subprocess.run([os.path.join(build, "bin/mt-cc"), "-O1", os.path.join(HERE, "gpu/calls.cu"), "-lcublas",
                    "-lcublasLt", "-lcufft", "-lcurand", "-lcusparse", "-lcusolver", "-o", app], check=True)
    standin.images(app)
    for form, unknown in (("raw", []), ("compact", []), ("compact", ["cublasSgelsBatched"]), ("compact", ["cublasLtMatmul", "2"]),
                          ("compact", ["cublasSaxpy", "2", "3"])):
        out = os.path.join(work, form)
        shutil.rmtree(out, ignore_errors=True)
        env = {**os.environ, **standin.variables, "MEMTRACE_DIR": out, "MEMTRACE_FORMAT": form}
        env["LD_LIBRARY_PATH"] += ":" + work
        os.makedirs(out)
        p = subprocess.run([app, *unknown], env=env, text=True, capture_output=True, check=False)
        # Of the stand-in's code no variable says which sites it has.
        said = [x for x in p.stderr.splitlines() if "sites of its program are not known" not in x]
        check(p.returncode == 0 and len(said) == bool(unknown) and all(unknown[0] in x for x in said),
              f"{form}: exit code {p.returncode}\n{p.stderr}")
        trace = next(os.path.join(out, f) for f in os.listdir(out) if not f.endswith(".meta"))
        want, have = expected(p.stdout), [(n, r) for n, r in traced(build, [trace], 3 if unknown else 0) if n.startswith("cu")]
        compare(want, have, form)
        events = [e["kernel"] for e in launches([trace])]
        check(events == ["fill"] * 4 + ["cublasSaxpy", "twice"] + ["fill"] * 2 + ["cublasSgemm"] +
              ["fill"] * 2 + ["cublasSgemm", "cublasSgemmBatched", "curandGenerateUniform", "cufftExecC2C", "cublasLtMatmul", "cusparseSpMV", "cusolverDnSpotrf", "twice"],
              f"{form}: launches {events}")
        j = json.loads(subprocess.run([os.path.join(build, "bin/mt-extract"), "--no-host", trace], text=True, capture_output=True,
                                      check=False).stdout)
        check(j["complete"] is not bool(unknown), f"{form} {unknown}: complete is {j['complete']}")


def python_with_numpy():
    """An interpreter that has it, or None: Debian's package is for Debian's Python alone."""
    return next((p for p in (sys.executable, "/usr/bin/python3")
                 if os.path.exists(p) and not subprocess.run([p, "-c", "import numpy"], capture_output=True, check=False).returncode), None)


def main():
    build, work, case, cuda = sys.argv[1:]
    random = next((f for d in ("lib64", "lib") for f in [f"{cuda}/{d}/libcurand.so.10"] if os.path.exists(f)), None)
    for library in BACKENDS[case]:
        try:
            ctypes.CDLL(library)
        except OSError:
            print(f"skipped: {library} is not installed")
            return 77
    if "rand" in case and not random:
        print("skipped: the toolkit has no libcurand.so.10")
        return 77
    numpy = python_with_numpy() if case == "numpy" else None
    if case == "numpy" and not numpy:
        print("skipped: no Python with NumPy (python3-numpy)")
        return 77
    tests = {"linked": test_linked, "missing": test_missing, "random": test_random, "gpu": test_gpu, "attached": test_attached, "failed": test_failed}
    if case in tests:
        tests[case](build, work)
    elif numpy:
        print(f"NumPy: {len(test_library(build, work, numpy, os.path.join(HERE, 'reference.py'), build))} calls")
    else:
        more = [random, "all"] if case == "curand_all" else [random] if case == "curand" else []
        want = test_library(build, work, f"{case.removesuffix('_all')}_cases", *more)
        print(f"{case}: {len(want)} calls")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
