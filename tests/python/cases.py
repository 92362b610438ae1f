"""Kernels of Numba, CuPy and Triton under memtrace run.

The programs in programs/ compare their results themselves. A comment "LINE kernel kind bytes [kind bytes]" in them says what
the line does in all launches together, "CALL" what the driver is asked for from there; sums over kernels are below. All are
counted by hand. Without the packages (./setup python-tests) they are skipped."""
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import others
import trace
from harness import BUILD, Skipped, call, case, expect, run, tool

HERE = os.path.dirname(os.path.realpath(__file__))
VENV = os.path.join(BUILD, "python-tests")
# kernel: accesses of threads by kind. Those of CuPy's own: an element each, and a sum of all.
NUMBA = {"add": {"load": 2048, "store": 1024}, "reverse": {"load": 1024, "store": 1024}, "histogram": {"load": 1024, "atomic": 1024},
         "turn": {"load": 5120, "store": 5120}}
TRITON = {"add": {"load": 2000, "store": 1000}, "softmax": {"load": 2800, "store": 2800}}
CUPY = {"add": {"load": 2048, "store": 1024}, "scale": {"load": 32, "store": 32},
        "cupy_multiply__float32_float32_float32": {"load": 2048, "store": 1024},
        "cupy_add__float32_float32_float32": {"load": 2048, "store": 1024},
        "cupy_sum": {"load": 1024, "store": 1}, "cupy_max": {"load": 1024, "store": 1}, "cupy_argmax": {"load": 1024, "store": 1}}
# CUB's kernels for the sums: the last one stores the place and the value, which a kernel of CuPy's copies.
CUB = [{"load": 1024, "store": 1}, {"load": 1024, "store": 1}, {"load": 1024, "store": 2}]


def environment(**more):
    base = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACE_", "LD_", "PYTHON", "CUPY_", "TRITON_", "NUMBA_", "TORCH"))}
    base.update(MEMTRACE_DEVICE="cpu", MEMTRACE_CACHE=os.path.join(BUILD, "tests", "python-cache"),
                TRITON_DEFAULT_FP_FUSION="1", NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS="0")
    return {**base, **more}


def mt_run(folder, *words, cwd=None, **env):
    return run([tool("mt-run"), "-o", folder, "-f", "raw", *words], 3000, env=environment(**env), cwd=cwd or folder)


def python():
    path = os.path.join(VENV, "bin", "python3")
    if not os.access(path, os.X_OK):
        raise Skipped(f"no {path}: ./setup python-tests makes it")
    return path


def accesses(folder):
    """kernel -> kind -> accesses, from the records by a reader of its own."""
    found = collections.defaultdict(collections.Counter)
    for path in glob.glob(os.path.join(folder, "MemTrace-pipe-*[0-9]")):
        expect(trace.Companion(path + ".meta").end()["complete"], path, "is not complete")
        for launch in trace.read(path):
            for sizes in launch.ctas().values():
                for (kind, _), n in sizes.items():
                    found[launch.kernel][kind] += n
    return {kernel: dict(kinds) for kernel, kinds in found.items()}


def marked(program):
    """(kernel, line, kind) -> bytes, as the comments have them."""
    found = {}
    with open(program, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            mark = re.search(r"LINE (\w+)((?: \w+ \d+)+)", line)
            for kind, size in re.findall(r"(\w+) (\d+)", mark[2]) if mark else []:
                found[mark[1], number, kind] = int(size)
    return found


def calls(folder, program, elsewhere=None):
    """(line, what) of all launches, by their kernel, and copies, by their kind; allocations must have a line, too. Variables of
    a module have none. What threads of a package do has a line `elsewhere`."""
    found = set()
    for path in glob.glob(os.path.join(folder, "MemTrace-pipe-*[0-9].meta")):
        for e in trace.Companion(path).events:
            what = {"launch": e.get("kernel"), "memcpy": e.get("kind"), "memset": "memset", "alloc": "alloc"}.get(e["ev"])
            if what and not (what == "alloc" and e["kind"] == "symbol"):
                inside = e["file"] == program
                expect(e["line"] > 0 and (inside or elsewhere and elsewhere in e["file"]), "no line of the program:", e)
                if what != "alloc" and inside:
                    found.add((e["line"], what))
    return found


def marked_calls(program):
    with open(program, encoding="utf-8") as f:
        marks = [(number, re.search(r"# CALL (.*)", line)) for number, line in enumerate(f, 1)]
    return {(number, what) for number, mark in marks if mark for what in mark[1].split()}


def by_line(folder, program):
    """The same, traced, for lines of this file; and kernel -> file for the other lines."""
    found, others = {}, {}
    for kernel, places in json.loads(call([tool("mt-extract"), "--sections", "coalescing", folder]).stdout)["coalescing"]["kernels"].items():
        for place, kinds in places.items():
            path, _, line = place.rpartition(":")
            if path != program:
                others[kernel] = path
                continue
            for kind, v in kinds.items():
                found[kernel, int(line), kind] = v["bytes"]
    return found, others


def run_both(name, counts, marks=set.__eq__, elsewhere=None, shown="LINE add load", names=(), **env):
    """Raw for the counts, compact for the lines and the page. What was said, and files of other lines."""
    program = os.path.join(HERE, "programs", name)
    with tempfile.TemporaryDirectory() as raw, tempfile.TemporaryDirectory() as compact:
        done = mt_run(raw, python(), program, **env)
        expect((done.returncode, done.stdout) == (0, "right\n"), name, done.returncode, done.stdout, done.stderr)
        found = accesses(raw)
        for kernel, kinds in counts.items():
            expect(found.get(kernel) == kinds, kernel, "has", found.get(kernel), "and not", kinds, "of", found)
        events = [e for path in glob.glob(os.path.join(raw, "*.meta")) for e in trace.Companion(path).events if e["ev"] == "name"]
        expect(set(names) <= {e["name"] for e in events}, "names", names, "and not", events)
        made = calls(raw, program, elsewhere) if marks else set()
        expect(not marks or marks(made, marked_calls(program)), "calls", sorted(made ^ marked_calls(program)))
        done = mt_run(compact, "-f", "compact", python(), program, **env)
        expect((done.returncode, done.stdout) == (0, "right\n"), name, done.returncode, done.stdout, done.stderr)
        lines, others = by_line(compact, program)
        expect(lines == marked(program), "lines", lines, "and not", marked(program))
        page = os.path.join(compact, "page.html")
        call([tool("mt-report"), compact, "-o", page])
        with open(page, encoding="utf-8") as f:
            text = f.read()
        expect(shown in text, "the page does not show the source")
        generated = {}
        for kernel, path in others.items():
            with open(path, encoding="utf-8") as f:
                generated[kernel] = f.read()
        return done.stderr, found, generated


@case
def case_numba():
    said, found, generated = run_both("numba_kernels.py", NUMBA, names=("a", "b", "c", "h"))
    expect(not generated and sum(sum(k.values()) for k in found.values()) == 17408, found, generated)
    expect("memtrace:" not in said, said)


@case
def case_triton():
    said, found, generated = run_both("triton_kernels.py", TRITON)
    expect(sorted(found) == ["add", "attention", "product", "remainder", "softmax"] and not generated, found, generated)
    expect("memtrace:" not in said, said)


@case
def case_cupy():
    _, found, generated = run_both("cupy_kernels.py", CUPY, names=("a", "b", "c"), CUPY_ACCELERATORS="")
    expect(set(found) == set(CUPY), found)
    expect("out0 = in0 * in1" in generated["cupy_multiply__float32_float32_float32"], generated)
    expect("a[threadIdx.x] *= 3" in generated["scale"], generated)


@case
def case_cub():
    """Of the library's hundreds of kernels those that are called are compiled."""
    own = {k: v for k, v in CUPY.items() if k not in ("cupy_sum", "cupy_max", "cupy_argmax")}
    own["cupy_copy__int32_int64"] = {"load": 1, "store": 1}
    _, found, _ = run_both("cupy_kernels.py", own, marks=None, CUPY_ACCELERATORS="cub")
    others = [kinds for kernel, kinds in found.items() if "cub::" in kernel]
    expect(len(found) == len(own) + len(CUB) and others == CUB, found)


def need_torch():
    if not glob.glob(os.path.join(VENV, "lib", "python*", "site-packages", "torch", "__init__.py")):
        raise Skipped("no torch: ./setup python-tests torch takes it")


# A thread has two floats of a row of 100, so 50 threads of each of 64 rows access two operands and the result; one stores a sum.
FUSED = "triton_per_fused__softmax_add_mul_prepare_softmax_online_sum_0"
TORCH = {FUSED: {"load": 2 * 50 * 64, "store": 50 * 64 + 64}}


@case
def case_torch():
    need_torch()
    said, found, generated = run_both("torch_compiled.py", TORCH, marks=set.issuperset, elsewhere="/torch/autograd/",
                                      shown="def work(x, y):")
    expect("tl.load(in_ptr0" in generated[FUSED] and "kernel" not in said, said)
    names = {re.sub("_[0-9]+$|^triton_(per|poi|red)_fused_+", "", k)[:15] for k in found}
    expect(len(found) > 8 and {"cublasLtMatmul", "cublasGemmEx", "native_layer_no"} <= names, names)


@case
def case_torch_names():
    """Each tensor has the name that the line which makes it says, in this order."""
    need_torch()
    program = os.path.join(HERE, "programs", "torch_names.py")
    with open(program, encoding="utf-8") as f:
        want = [name for line in f if "# NAME " in line for name in line.split("# NAME ")[1].split()]
    with tempfile.TemporaryDirectory() as folder:
        done = mt_run(folder, "-f", "compact", python(), program, PYTORCH_NO_CUDA_MEMORY_CACHING="1")
        expect((done.returncode, done.stdout) == (0, "right\n"), done)
        events = [e for path in glob.glob(os.path.join(folder, "*.meta")) for e in trace.Companion(path).events]
        names = {e["id"]: e["name"] for e in events if e["ev"] == "name"}
        found = [names.get(e["id"]) for e in events if e["ev"] == "alloc"]
        expect(found == want, found, want)


@case
def case_torch_eager():
    """What does not run is an error for the program, is named once, and is counted in the trace, which is not complete."""
    need_torch()
    with tempfile.TemporaryDirectory() as folder:
        done = mt_run(folder, "-f", "compact", python(), os.path.join(HERE, "programs", "torch_eager.py"))
        expect((done.returncode, done.stdout) == (0, "right\n"), done)
        lines = [line for line in done.stderr.splitlines() if "at::native::" in line]
        expect(len(lines) == 3 and sum("at::native::BinaryFunctor<" in line for line in lines) == 1, lines)  # the others' operators are long lambdas
        done = run([tool("mt-extract"), folder])
        found = json.loads(done.stdout)
        expect(done.returncode == 3 and not found["complete"] and found["untraced_launches"] == 4, done)
        expect(len(found["notes"]) == 1 and "did not run" in found["notes"][0] and list(found["libraries"].values()) == ["cublas"], found["notes"])


def write(folder, path, text):
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


SHOW = "import sys; print(sys.modules['sitecustomize'].__file__, [p for p in sys.path if 'memtrace' in p], flush=True)"


@case
def case_hook():
    """A sitecustomize that is there is found, a failing one is reported as without us, sys.path does not show ours, children of
    the program have the hook, too."""
    hook = os.path.join(BUILD, "lib", "memtrace", "python")
    with tempfile.TemporaryDirectory() as folder:
        done = mt_run(folder, sys.executable, "-c", SHOW.replace("'memtrace'", repr(hook)))
        expect(done.stdout == f"{hook}/sitecustomize.py []\n" or " []\n" in done.stdout, done)
        expect(done.returncode == 0 and not done.stderr, done)
        write(folder, "theirs/sitecustomize.py", "print('theirs', flush=True)\n")
        child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SHOW!r}])"
        done = mt_run(folder, sys.executable, "-c", child, PYTHONPATH=os.path.join(folder, "theirs"))
        expect(done.stdout == f"theirs\ntheirs\n{folder}/theirs/sitecustomize.py []\n", done)
        write(folder, "theirs/sitecustomize.py", "import nowhere_to_be_found\n")
        done = mt_run(folder, sys.executable, "-c", "print('runs')", PYTHONPATH=os.path.join(folder, "theirs"))
        expect(done.stdout == "runs\n" and "nowhere_to_be_found" in done.stderr and "memtrace" not in done.stderr, done)


@case
def case_packaged():
    """Who asks the process for a function of nvJitLink finds ours, which finds the library that pip installed: one that says its version
    is 77.5, for Python's packages that memtrace watches."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "nvidia/some/lib/j.c", "int nvJitLinkVersion(unsigned *a, unsigned *b) { *a = 77; *b = 5; return 0; }\n")
        lib = os.path.join(folder, "nvidia", "some", "lib")
        call(["cc", "-shared", "-fPIC", "j.c", "-o", "libnvJitLink.so.13"], cwd=lib)
        write(folder, "pycuda/__init__.py", "")
        write(folder, "pycuda/_driver.py", "")
        program = ("import ctypes, pycuda._driver; a, b = ctypes.c_uint(), ctypes.c_uint(); "
                   "print(ctypes.CDLL(None).nvJitLinkVersion(ctypes.byref(a), ctypes.byref(b)), a.value, b.value)")
        done = mt_run(folder, sys.executable, "-c", program)
        expect((done.stdout, done.stderr) == ("0 77 5\n", ""), done)


@case
def case_unknown():
    """Packages that are not what the hook knows: one sentence each, and the program goes on."""
    known = {"numba/cuda/dispatcher.py": "numba", "cupy/cuda/compiler.py": "cupy", "triton/backends/nvidia/compiler.py": "triton"}
    with tempfile.TemporaryDirectory() as folder:
        for path in known:
            parts = path.split("/")
            for i in range(1, len(parts)):
                write(folder, os.path.join(*parts[:i], "__init__.py"), "")
            write(folder, path, "")
        for name in "codegen", "cudadrv/__init__", "cudadrv/driver", "cudadrv/linkable_code":
            write(folder, f"numba/cuda/{name}.py", "")
        program = "import numba.cuda.dispatcher, cupy.cuda.compiler, triton.backends.nvidia.compiler; print('runs')"
        done = mt_run(folder, sys.executable, "-c", program)
        said = [line for line in done.stderr.splitlines() if re.match(r"memtrace: \S+ .* is not known \(there is no \w+\): ", line)]
        expect(done.returncode == 0 and done.stdout == "runs\n", done)
        expect(len(said) == 3 == len(done.stderr.splitlines()), done.stderr)
        # In a process without our driver nothing is looked at.
        done = mt_run(folder, "env", "-u", "LD_AUDIT", "-u", "LD_PRELOAD", "-u", "LD_LIBRARY_PATH", sys.executable, "-c", program)
        expect((done.stdout, done.stderr) == ("runs\n", ""), done)


def foreign_folders(top):
    """(what, folder for MEMTRACE_CACHE, what is said of it): the folders of others, and what they have left in ours."""
    def make(path, mode=0o700, owner=0):
        path = os.path.join(top, path)
        os.makedirs(path, mode=0o700)
        os.chmod(path, mode)
        os.chown(path, owner, owner)
        return path

    for at, below in enumerate(("python", "python/triton")):
        make(f"in-{at}/{below}", owner=65534)
        os.chmod(os.path.join(top, f"in-{at}"), 0o700)
        yield os.path.join(top, f"in-{at}"), below + " belongs to user 65534"
    yield make("theirs", owner=65534), "theirs belongs to user 65534"
    yield os.path.join(make("all", mode=0o777), "below"), "all (its mode is 0777)"
    write(top, "ours/python/triton/KEY/cuda_utils.so", "")
    os.chmod(os.path.join(top, "ours"), 0o700)
    os.chown(os.path.join(top, "ours/python/triton/KEY/cuda_utils.so"), 65534, 65534)
    yield os.path.join(top, "ours"), "cuda_utils.so belongs to user 65534"
    os.symlink(make("target"), os.path.join(top, "link"))
    os.lchown(os.path.join(top, "link"), 65534, 65534)
    yield os.path.join(top, "link"), "link is a symbolic link of user 65534"


@case
def case_foreign():
    """Folders that others own or can change are not what packages take code from, and a source's file is not one that is planted.
    As root, who alone can make such folders."""
    if os.geteuid() != 0:
        raise Skipped("not root: there are no folders of other users")
    program = ("import memtrace_python as m, sys; print(m.cache_folder('triton'), m.cache_folder('cupy'));"
               "print(*(m.source_file(f or None, t) for f, t in zip(sys.argv[1::2], sys.argv[2::2])), sep='\\n')")
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o711)
        for folder, why in foreign_folders(top):
            done = mt_run(top, sys.executable, "-c", program, MEMTRACE_CACHE=folder)
            expect(done.stdout == "None None\n\n" and done.stderr.count("memtrace: ") == 1 and f"{why}; set MEMTRACE_CACHE" in done.stderr, done)
        folder = os.path.join(top, "new")
        done = mt_run(top, sys.executable, "-c", program, "", "ours", folder, "theirs", MEMTRACE_CACHE=folder)
        expect(done.stderr == "" and done.stdout.startswith(f"{folder}/python/triton {folder}/python/cupy\n{top}/MemTrace-"), done)
        ours, theirs = done.stdout.split("\n")[1:3]
        expect(open(ours, encoding="utf-8").read() == "ours" and open(theirs, encoding="utf-8").read() == "theirs" and os.path.dirname(theirs) == folder, done)
        # What lies there by the name is another user's, or leads elsewhere.
        os.unlink(ours)
        os.symlink("/etc/passwd", ours)
        write(top, "new/" + os.path.basename(theirs), "planted")
        os.chown(theirs, 65534, 65534)
        mt_run(top, sys.executable, "-c", program, "", "ours", folder, "theirs", MEMTRACE_CACHE="off")
        expect(open(ours, encoding="utf-8").read() == "ours" and not os.path.islink(ours), ours)
        expect(open(theirs, encoding="utf-8").read() == "theirs" and os.stat(theirs).st_uid == 0, theirs)


PLANTED = """#include <stdio.h>
__attribute__((constructor)) static void f(void) { puts("planted"); fflush(stdout); }
"""


@case
def case_planted():
    """Triton loads what it finds in its cache: code of another user is not run."""
    if os.geteuid() != 0:
        raise Skipped("not root: there are no files of other users")
    program = os.path.join(HERE, "programs", "triton_kernels.py")
    with tempfile.TemporaryDirectory() as top:
        cache = os.path.join(top, "cache")
        for says in "", "belongs to user 65534":
            done = mt_run(top, python(), program, MEMTRACE_CACHE=cache)
            expect((done.returncode, done.stdout) == (0, "right\n") and says in done.stderr, done)
            libraries = glob.glob(os.path.join(cache, "python", "triton", "*", "*.so"))
            expect(libraries, "Triton keeps no library")
            for path in libraries:
                os.unlink(path)
                subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", path], input=PLANTED, text=True, check=True)
                os.chown(path, 65534, 65534)


@case
def case_other_versions():
    """What is called otherwise than in the versions tried goes on as without the hook, or is said once; no error is ours."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in others.OTHERS.items():
            parts = path.split("/")
            for i in range(1, len(parts)):
                write(folder, os.path.join(*parts[:i], "__init__.py"), "")
            write(folder, path, text)
        done = mt_run(folder, sys.executable, "-c", others.OTHER_PROGRAM)
        expect((done.returncode, done.stdout) == (0, others.OTHER_OUTPUT), done.stdout, done.stderr)
        said = [re.match(r"memtrace: (\S+) .* is not known \(.+\): it is left", line) for line in done.stderr.splitlines()]
        expect(all(said) and sorted(m[1] for m in said) == ["numba-cuda", "torch", "triton"], done.stderr)
        # The numba of before numba-cuda: a module of the three is not there.
        os.unlink(os.path.join(folder, "numba/cuda/cudadrv/linkable_code.py"))
        done = mt_run(folder, sys.executable, "-c", "import numba.cuda.dispatcher; print('runs')")
        expect(done.stdout == "runs\n" and re.fullmatch(r"memtrace: numba-cuda .* is not known \(ImportError: [^\n]*\n", done.stderr), done)


def allocations(folder):
    """(bytes, line, file); the launch, which has no bytes, is in line 5."""
    events = [e for path in glob.glob(os.path.join(folder, "*.meta")) for e in trace.Companion(path).events]
    return sorted((e["bytes"] if e["ev"] == "alloc" else 5, e["line"], e["file"]) for e in events if e["ev"] in ("alloc", "launch"))


@case
def case_lines():
    """Lines of calls, without a package but one of ours in the place of two that are known; how a frame's file name is stored
    depends on its letters. Where frames are not known this is said, and there are no lines."""
    if sys.version_info < (3, 11):
        raise Skipped("Python is older than 3.11: its frames are not known")
    with tempfile.TemporaryDirectory() as folder:
        for path, text in (("cuda/__init__.py", ""), ("cuda/bindings/__init__.py", ""), ("cuda/bindings/driver.py", ""),
                           ("numpy/__init__.py", others.PACKAGE)):
            write(folder, path, text)
        for at, name in enumerate(("plain.py", "caf\xe9.py", "\u4e2d.py", "\U0001f600.py")):
            out, program = os.path.join(folder, str(at)), os.path.join(folder, name)
            os.mkdir(out)
            write(folder, name, others.ASKING)
            done = mt_run(out, sys.executable, program)
            expect((done.returncode, done.stdout, done.stderr) == (0, "", ""), done)
            lines = [5, 6, 8, 9, 9, 11, 13, 16, 19, 20, 20]
            got = allocations(out)
            expect([g[0] for g in got] == lines and all(g[1:] == (g[0], program) for g in got), got)
        out = os.path.join(folder, "other")
        os.mkdir(out)
        write(folder, "other.py", "import sys\nsys.version_info = (3, 10)\n" + others.ASKING)
        done = mt_run(out, sys.executable, os.path.join(folder, "other.py"))
        expect(done.returncode == 0 and re.fullmatch(r"memtrace: Python \S+: its frames are not known \(.*\n", done.stderr), done)
        expect({g[1:] for g in allocations(out)} == {(0, "")}, allocations(out))


def names_wanted(program):
    """(line, name) of each allocation in the order in which they are made, None: none; lines whose name is known without columns."""
    found, alone = [], {}
    with open(program, encoding="utf-8") as f:
        for number, text in enumerate(f, 1):
            mark = re.search(r"# NAMES (.*?)( LINE)?$", text)
            for name in mark[1].split() if mark else ():
                name = None if name == "-" else name.replace("~", " ")
                found.append(name)
                if mark[2]:
                    alone[number] = name
    return found, alone


@case
def case_names():
    """What arrays are called: the names of the companion are those that the program's comments have. Without columns those of plain
    assignments; then no name is wrong."""
    program = os.path.join(HERE, "programs", "array_names.py")
    wanted, alone = names_wanted(program)
    hook = os.path.join(BUILD, "lib", "memtrace", "python")
    sys.path.insert(0, hook)
    from memtrace_python.names import Names
    got = {line: Names().find([(program, line, -1, -1, -1)]) for line in alone}
    expect(got == alone, got, "and not", alone)
    if sys.version_info < (3, 11):
        return
    with tempfile.TemporaryDirectory() as folder:
        for path, text in (("cuda/__init__.py", ""), ("cuda/bindings/__init__.py", ""), ("cuda/bindings/driver.py", ""),
                           ("numpy/__init__.py", others.ARRAYS), ("package.py", "import cuda.bindings.driver\nfrom numpy import *\n")):
            write(folder, path, text)
        for flags in (), ("-X", "no_debug_ranges"):
            out = tempfile.mkdtemp(dir=folder)
            done = mt_run(out, sys.executable, "-B", *flags, program, PYTHONPATH=folder)
            expect((done.returncode, done.stdout, done.stderr) == (0, "", ""), done)
            events = [e for path in glob.glob(os.path.join(out, "*.meta")) for e in trace.Companion(path).events]
            names = {e["id"]: e["name"] for e in events if e["ev"] == "name"}
            got = [names.get(e["id"]) for e in events if e["ev"] == "alloc"]
            expect(len(got) == len(wanted), len(got), "allocations, not", len(wanted))
            wrong = [(n, w, g) for n, (w, g) in enumerate(zip(wanted, got)) if g != w and (g or not flags)]
            expect(not wrong, "names (number, wanted, found)", flags, wrong)
            expect(not flags or got.count(None) < len(got) - len(alone), "without columns", got)
