"""Programs that nvcc built, under memtrace run. The first case makes them all; each other runs some, with results and numbers of records
that are counted by hand (src/*.cu say them)."""
import collections
import glob
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

import trace
from harness import BUILD, Skipped, call, case, expect, nvcc_of, run, tool

HERE = os.path.dirname(os.path.realpath(__file__))
SRC = os.path.join(HERE, "src")
WORK = os.path.join(BUILD, "tests", "attach", "work")
APP = {("add", "load", 4): 1000, ("add", "store", 4): 1000}
LIB = {("twice", "load", 4): 32, ("twice", "store", 4): 32}


# Functions of the runtime: two that the program calls, one of 10 bytes, one that it does not call.
HOLES = "cudaLaunchKernel", "cudaMallocManaged", "__cudaLaunchKernel", "cudaMemcpy2DToArrayAsync_ptsz"


def by_nvcc(function):
    """A case whose programs are made with nvcc."""
    def run_it():
        if not os.path.exists(os.path.join(WORK, "app")):
            raise Skipped("this CUDA toolkit has no nvcc")
        function()
    return case(function.__name__.removeprefix("case_"), FIXTURES_REQUIRED="attach")(run_it)


def build(*words):
    call(words, cwd=WORK)


@case("build", FIXTURES_SETUP="attach", TIMEOUT=600)
def make():
    """All programs, with few runs of nvcc."""
    nvcc = nvcc_of()
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    cc, src = "cc", lambda name: os.path.join(SRC, name)
    build(cc, "-shared", "-fPIC", src("said.c"), "-o", "said.so")
    build(cc, "-shared", "-fPIC", src("names.c"), "-o", "names.so")
    build(cc, src("closed.c"), "-Wl,--dynamic-linker=" + os.path.join(WORK, "whole"), "-o", "foreign")
    build(cc, "-shared", "-fPIC", src("asks.c"), "-o", "libasks.so")
    build(cc, src("closed.c"), "-o", "closed")
    build(cc, "-static", "-x", "c", os.devnull, "-o", "whole", "-nostdlib", "-Wl,-e,0")
    with open(os.path.join(WORK, "node.map"), "w", encoding="utf-8") as f:
        f.write("libcudart.so.12 { global: cuda*; local: *; };\n")
    build(cc, "-shared", "-fPIC", src("fake_cudart.c"), "-Wl,--version-script=node.map,-soname,libcudart.so.12", "-o", "libcudart.so.12")
    build(cc, src("older.c"), "./libcudart.so.12", "-Wl,-rpath,$ORIGIN,--disable-new-dtags", "-o", "older")
    build(cc, "-shared", "-fPIC", src("reserve.c"), "-o", "libreserve.so")
    build(cc, src("linked.c"), "./libreserve.so", "-o", "reserve")
    build("as", "--32", src("exit32.s"), "-o", "exit32.o")
    build("ld", "-m", "elf_i386", "exit32.o", "-o", "exit32")
    if not nvcc:
        return
    flags = ["-O3", "-arch=sm_90", "-lineinfo", "-Xcompiler=-fPIC"]
    build(nvcc, *flags, "-DMISSING", "-c", src("app.cu"), "-o", "app.o")
    build(nvcc, *flags, "-c", src("lib.cu"), "-o", "lib.o")
    build(nvcc, "app.o", "-o", "app")
    build(nvcc, "app.o", "-o", "fixed", "-Xcompiler=-no-pie")
    build(nvcc, "app.o", "-o", "static-app", "-Xcompiler=-static")
    build(nvcc, "-gencode=arch=compute_90,code=sm_90", src("long.cu"), "-o", "long")
    build(nvcc, "-G", "-arch=sm_90", src("unoptimised.cu"), "-o", "unoptimised")
    build(nvcc, "--cudart=shared", "app.o", "-o", "shared", "-Xlinker=-rpath," + os.path.dirname(os.path.dirname(nvcc)) + "/lib64",
          "-Xlinker=--disable-new-dtags")
    build(nvcc, "-shared", "lib.o", "-o", "liblib.so")
    build(nvcc, "-shared", "-Xcompiler=-fPIC", "lib.o", src("early.c"), "-o", "libearly.so")
    build(cc, src("linked.c"), "./libearly.so", "-o", "linked")
    build(cc, src("opened.c"), "-o", "opened")
    same = [os.path.join(HERE, "..", "e2e", "src", "rdc", name) for name in ("same_one.cu", "same_two.cu")]
    build(nvcc, "-arch=sm_90", "--extended-lambda", *same, "-o", "same")
    build(nvcc, "-arch=sm_90", "--extended-lambda", "-rdc=true", *same, "-o", "same-rdc")
    cuda = os.path.dirname(os.path.dirname(nvcc))
    has = [all(os.path.exists(os.path.join(cuda, p)) for p in (f"lib64/lib{lib}.so", f"include/{lib}.h", "lib64/stubs/libcuda.so"))
           for lib in ("nvrtc", "nvJitLink")]
    if has[0]:
        words = [cc, src("nvrtc.c"), f"-I{cuda}/include", f"-L{cuda}/lib64/stubs", "-lcuda"]
        build(*words, f"-L{cuda}/lib64", "-lnvrtc", "-o", "nvrtc")
        build(*words, "-DOPENED", "-o", "nvrtc-opened")
        build(*words[:3], f"-L{BUILD}/cuda-overlay/lib64", "-lcuda", "-lnvrtc", f"-Wl,-rpath,{BUILD}/lib", "-o", "nvrtc-ours")
    if all(has):
        build(*words[:1], src("nvjitlink.c"), *words[2:], f"-L{cuda}/lib64", "-lnvrtc", "-lnvJitLink", "-o", "nvjitlink")
    for name in "app", "liblib.so":
        build("strip", name, "-o", "stripped-" + name)
    for name in HOLES:
        build("strip", "-N", name, "app", "-o", "app-" + name)


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def clean_environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACE_", "LD_"))}
    return {**env, "MEMTRACE_DEVICE": "cpu", "MEMTRACE_CACHE": os.path.join(WORK, "cache"), **more}


def mt_run(*words, stdin=None, lost="", **env):
    """What it does and says, and the accesses that it leaves: (kernel, kind, size) -> number. lost: why each trace is not whole."""
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        done = run([tool("mt-run"), "-o", folder, "-f", "raw", *words], cwd=WORK, env=clean_environment(**env), stdin=stdin)
        found = collections.Counter()
        for path in sorted(glob.glob(os.path.join(folder, "MemTrace-pipe-*[0-9]"))):
            companion = trace.Companion(path + ".meta")
            expect(companion.end()["complete"] == (not lost), path, "complete", not lost)
            expect(all(re.search(lost, e["why"]) for e in companion.all("lost")) and len(companion.all("lost")) == bool(lost), companion.all("lost"))
            for launch in trace.read(path):
                for sizes in launch.ctas().values():
                    for (kind, size), n in sizes.items():
                        found[launch.kernel, kind, size] += n
    return done, dict(found)


def check(done, found, out, counts, code=0, err=""):
    expect(done.returncode == code, "exit code", done.returncode, done.stdout, done.stderr)
    expect(sorted(done.stdout.split("\n")) == sorted(out.split("\n")), "prints", done.stdout, done.stderr)
    expect(re.fullmatch(err, done.stderr, re.S), "says", done.stderr)
    expect(found == counts, "accesses", found)


def times(counts, n):
    return {k: v * n for k, v in counts.items()}


@by_nvcc
def case_static():
    """nvcc's default, with and without a fixed address; the file stays as it is, the exit code is the program's."""
    for name in "app", "fixed":
        before = digest(os.path.join(WORK, name))
        check(*mt_run(f"./{name}", "7"), "sum 499500\n", APP, code=7)
        expect(digest(os.path.join(WORK, name)) == before, name, "has changed")


@by_nvcc
def case_shared():
    """The run path in the file names NVIDIA's library."""
    check(*mt_run("./shared"), "sum 499500\n", APP)


@by_nvcc
def case_fork():
    done, found = mt_run("./app", "99")
    expect(done.returncode == 0 and done.stdout == "sum 499500\n", done)


MEMFD = """import os, shutil
f = os.memfd_create("app")
with open("app", "rb") as i, open(f, "wb", closefd=False) as o:
    shutil.copyfileobj(i, o)
os.execve(f, ["app"], os.environ)
"""


@by_nvcc
def case_file():
    """Whatever the program's file is called, and whether it is there at all."""
    linker = subprocess.run(["readelf", "-l", "app"], cwd=WORK, capture_output=True, text=True).stdout
    linker = re.search(r"interpreter: (\S+)\]", linker)[1]
    names = ["libmemtrace-app", "libmemtrace.so", "app (deleted)", "a p:p", "app\nx \\012"]
    for name in names:
        shutil.copy(os.path.join(WORK, "app"), os.path.join(WORK, name))
        check(*mt_run("./" + name), "sum 499500\n", APP)
        check(*mt_run(linker, "--argv0", "x", "./" + name), "sum 499500\n", APP)
        os.unlink(os.path.join(WORK, name))
    check(*mt_run("sh", "-c", "cp app gone; exec 7<gone; rm gone; exec /proc/self/fd/7"), "sum 499500\n", APP)
    check(*mt_run(sys.executable, "-c", MEMFD), "sum 499500\n", APP)
    check(*mt_run(sys.executable, "-c", "import os; os.execve(os.open('app', 0), ['app'], os.environ)"), "sum 499500\n", APP)
    # Which libraries the program's own file has named is what tells it from one of ours.
    shutil.copy(os.path.join(WORK, "liblib.so"), os.path.join(WORK, "libmemtrace-lib.so"))
    check(*mt_run("./closed", "./libmemtrace-lib.so"), "0 992\n", LIB)


@by_nvcc
def case_long():
    """A kernel's name of thousands of letters takes a line of a message, not a screen; the file has it whole."""
    with open(os.path.join(WORK, "long"), "rb") as f:
        name = next(w.decode() for w in f.read().split(b"\0") if w.startswith(b"_Z4fillI"))
    whole = run(["c++filt", name]).stdout
    done, _ = mt_run("./long", lost="^kernel fill<[^ ]*Pair<\u2026>[^.]*> has no code for the CPU device and did not run")
    expect(done.returncode == 0 and done.stdout == "209\n" and len(whole) > 1000, done, whole)
    expect(re.match("memtrace: [^\n]*\\bfill<Pair<[^\n]*\u2026>", done.stderr) and len(done.stderr) < 700 and done.stderr.count("\n") == 1, done)


@by_nvcc
def case_unreadable():
    """A file that may be run and not read: it is said."""
    shutil.copy(os.path.join(WORK, "app"), os.path.join(WORK, "secret"))
    os.chmod(os.path.join(WORK, "secret"), 0o111)
    if os.access(os.path.join(WORK, "secret"), os.R_OK):
        raise Skipped("this user may read everything")
    done, _ = mt_run("sh", "-c", "./secret")
    expect(re.search(r"memtrace: \S*secret: it cannot be read \(Permission denied\)", done.stderr), done)


@by_nvcc
def case_closed():
    """Where a library lay whose runtime was left as it is, another one comes to lie; and there may be many."""
    done, found = mt_run("./closed", "./stripped-liblib.so", "./libasks.so", "./stripped-liblib.so", "./libasks.so")
    said = r"memtrace: \./stripped-liblib\.so: [^\n]*%s[^\n]*\n"
    check(done, found, "1 0\n0 0\n1 0\n0 0\n", {}, err=said % "symbols were stripped" + said % "its CUDA calls fail")
    names = [f"./stripped-{i}.so" for i in range(70)]
    for name in names:
        shutil.copy(os.path.join(WORK, "stripped-liblib.so"), os.path.join(WORK, name))
    done, found = mt_run("./closed", *names, KEEP="1")
    check(done, found, "1 0\n" * 70, {}, err=r"(memtrace: \./stripped-\d+\.so: [^\n]*symbols were stripped[^\n]*\n){70}")


@by_nvcc
def case_cleared():
    """The folder that -o names, for programs that clear or overwrite their environment before they use CUDA."""
    for how in 96, 97, 98:
        check(*mt_run("./app", str(how)), "sum 499500\n", APP, code=how)


@by_nvcc
def case_missing():
    """A function of three bytes that libmemtrace.so lacks: cudaErrorNotSupported, and its name, once."""
    check(*mt_run("./app", "0", "missing"), "missing 801 801\n", {}, err=r"memtrace: __cudaGetProcAddress: [^\n]*\n")


@by_nvcc
def case_library():
    """A runtime in a library, whose constructor launches: linked, and opened by seven threads at once."""
    check(*mt_run("./linked"), "early 0 992\nmain 0 992\n", times(LIB, 2))
    names = [f"./lib{i}.so" for i in range(6)]
    for name in names:
        shutil.copy(os.path.join(WORK, "liblib.so"), os.path.join(WORK, name))
    for _ in range(20):  # a constructor has the dynamic linker's lock: who waits for whom differs from run to run
        check(*mt_run("./opened", "./libearly.so", *names), "early 0 992\n" + "thread 0 992\n" * 7, times(LIB, 8))


@by_nvcc
def case_script():
    for name, text in ("script.py", f"#!{sys.executable}\nimport ctypes\nn = ctypes.c_int()\n"
                                    "print(ctypes.CDLL('./liblib.so').lib_run(ctypes.byref(n)), n.value)\n"), \
                      ("script", "./app; ./linked | cat; exit 3\n"):
        with open(os.path.join(WORK, name), "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(os.path.join(WORK, name), 0o755)
    check(*mt_run("./script.py"), "0 992\n", LIB)
    done, found = mt_run("./script", MEMTRACE_PATTERN="MemTrace-pipe-%p?")
    check(done, found, "sum 499500\nearly 0 992\nmain 0 992\n", {**APP, **times(LIB, 2)}, code=3)


@by_nvcc
def case_stripped():
    """The program is refused; as a child, or as a library, it is said and its calls fail: nothing is zero in silence."""
    done, found = mt_run("./stripped-app")
    check(done, found, "", {}, code=2, err=r'mt-run: [^\n]*symbols were stripped[^\n]*NVCC_APPEND_FLAGS="--cudart=shared"[^\n]*\n')
    for name in HOLES:  # one function's: it would be NVIDIA's still
        done, found = mt_run("./app-" + name)
        check(done, found, "", {}, code=2, err=r'mt-run: [^\n]*symbols were stripped[^\n]*--cudart=shared[^\n]*\n')
    said = r'memtrace: \S*stripped-\S*: [^\n]*symbols were stripped[^\n]*--cudart=shared[^\n]*\n'
    check(*mt_run("sh", "-c", "./stripped-app; echo $?"), "100\n", {}, err=said)
    for lost, err in (("LD_AUDIT",), "its CUDA calls fail"), (("LD_PRELOAD",), "was LD_PRELOAD changed"), (("LD_AUDIT", "LD_PRELOAD"), "calls fail"):
        words = [w for variable in lost for w in ("-u", variable)]  # a program on the way has changed them
        check(*mt_run("env", *words, "./app"), "", {}, code=100, err=rf"memtrace: \S*app: [^\n]*{err}[^\n]*\n")
    done, found = mt_run("./opened", "./stripped-liblib.so")
    expect(re.fullmatch(r"thread (35|100|999) 0\n", done.stdout) and re.fullmatch(said, done.stderr) and not found, done)
    done, found = mt_run("./opened", "./libearly.so", "./stripped-liblib.so", lost=r"stripped-liblib\.so: .* its CUDA calls are not traced")
    expect(done.stdout.count(" 0 992\n") == 2 and re.fullmatch(said, done.stderr) and found == times(LIB, 2), done, found)


@by_nvcc
def case_names():
    """Static kernels of two files, with relocatable device code and without: names of the source, and two kernels."""
    each = {("load", 4): 4, ("store", 4): 4}
    once = {("load", 4): 2, ("store", 4): 2}
    own = "(anonymous namespace)::own"
    wanted = {(kernel, *key): n * launches for kernel, counts, launches in (
        ("each<one(int*)::'lambda'(int)>", each, 1), ("each<main::'lambda'(int)>", each, 1), (own, once, 1), (own + "#2", once, 1),
        ("hid", once, 2), ("hid#2", once, 2)) for key, n in counts.items()}
    for name in "same", "same-rdc":
        check(*mt_run("./" + name), "1001 2025 6 9\n", wanted)
        check(*mt_run("./" + name, MEMTRACE_KERNELS="^hid$"), "1001 2025 6 9\n", {k: n for k, n in wanted.items() if k[0].startswith("hid")})


@by_nvcc
def case_unoptimised():
    """nvcc -G: what its PTX has, and ptxas keeps."""
    check(*mt_run("./unoptimised"), "4 256\n", {("unoptimised", "load", 4): 5 * 64, ("unoptimised", "store", 4): 3 * 64})


@by_nvcc
def case_debugger():
    """Names of CPU images lead to the process' own file while that is loaded, and nowhere later; gdb does not wait at a pipe."""
    names = os.path.join(WORK, "names.so")
    check(*mt_run("./app", LD_PRELOAD=names, LD_AUDIT=names), "sum 499500\nimages 1\n", APP)
    if shutil.which("gdb"):
        done, found = mt_run("gdb", "-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", "run", "./app", stdin=subprocess.DEVNULL)
        expect("ptrace" in done.stderr or "sum 499500\n" in done.stdout and "exited normally" in done.stdout and found == APP, done, found)


@case("refused", FIXTURES_REQUIRED="attach")
def case_refused():
    """What nothing can be loaded into; as children such programs just run."""
    check(*mt_run("./exit32"), "", {}, code=2, err=r"mt-run: [^\n]*32-bit x86[^\n]*\n")
    check(*mt_run("sh", "-c", "./exit32; echo $?"), "5\n", {})
    check(*mt_run("./foreign"), "", {}, code=2, err=r"mt-run: [^\n]*/whole, which has no auditors[^\n]*\n")
    suid = os.path.join(WORK, "suid")
    shutil.copy(shutil.which("true"), suid)
    if os.getuid() == 0:
        os.chown(suid, 65534, -1)
        os.chmod(suid, 0o755 | stat.S_ISUID)
        check(*mt_run("./suid"), "", {}, code=2, err=r"mt-run: [^\n]*set-user-id[^\n]*\n")
        check(*mt_run("sh", "-c", "./suid; echo $?"), "0\n", {})
    for words, code, err in (((), 2, "no program"), (("-x",), 2, "unknown option -x"), (("./nothing",), 2, "No such file"),
                             (("nothing-here",), 2, "in PATH"), (("-f", "text", "true"), 2, "text is not"),
                             (("-o", "/proc/none/x", "true"), 1, "/proc/none"), (("--list", "a", "b"), 2, "--list takes one")):
        done = run([tool("mt-run"), *words], cwd=WORK, env=clean_environment())
        expect(done.returncode == code and err in done.stderr and not done.stdout, words, done)


@case("environment", FIXTURES_REQUIRED="attach")
def case_environment():
    """What was preloaded stays; memtrace run twice is once; options become variables; thread-local storage has room."""
    check(*mt_run("./reserve"), "main 1 7\n", {}, code=1)
    said = os.path.join(WORK, "said.so")
    done, _ = mt_run("./older", LD_PRELOAD=said, LD_AUDIT=said)
    expect(done.stdout.endswith("auditor\nloaded\n" + OLDER), done)
    done, _ = mt_run(tool("mt-run"), "-k", "a b", "-d", "cpu", "-f", "compact", "--show", "env", "x y")
    words = done.stdout.split()
    expect(words[0].count("libmemtrace-attach.so") == 1 and words[1].count("libmemtrace.so") == 1, done)
    expect("MEMTRACE_KERNELS='a b'" in done.stdout and done.stdout.endswith("env 'x y'\n"), done)
    for bad in ("(", "!(", "a["):
        done, _ = mt_run("-k", bad, "echo", "ran")
        expect(done.returncode == 2 and not done.stdout and re.fullmatch(f"mt-run: '{re.escape(bad)}' is not a regular expression: [^\\n]+\n", done.stderr), bad, done)


@case("cache", FIXTURES_REQUIRED="attach")
def case_cache():
    """--cache: where a run keeps its images, also for a program that goes elsewhere; the same of --cache-list and --cache-clear."""
    with tempfile.TemporaryDirectory() as there:
        here = clean_environment(MEMTRACE_DIR=there)
        images = lambda: [n for n in os.listdir(there + "/kept") if n.endswith(".image")]
        said = lambda option: run([tool("mt-run"), "--cache=kept", option], cwd=there, env=here).stdout
        expect(said("--cache-list") == f"0 images, 0 bytes in {there}/kept\n" and not os.listdir(there), "nothing is made to look at")
        done = run([tool("mt-run"), "--cache=kept", "sh", "-c", f"cd / && {WORK}/app 0"], cwd=there, env=here)
        expect(done.returncode == 0 and images(), done, os.listdir(there))
        expect(f"{len(images())} images, " in said("--cache-list"), images())
        expect(f"in {there}/kept\n" in said("--cache-clear") and not images(), images())


OLDER = "malloc 0\nattributes 0\nproperties 0\nsynchronize 0 advise 0\ntype 3 same 1 beyond 0\nwarp 32 clock 1 major 1 minor 1\ngone 801 801\n"
GONE = r"memtrace: cudaSetDoubleForHost: of CUDA 12[^\n]*\n"


@case("older", FIXTURES_REQUIRED="attach")
def case_older():
    """A program of CUDA 12 gets the functions of CUDA 12, with no word from the dynamic linker."""
    check(*mt_run("./older"), OLDER, {}, err=GONE)


FINDERS = """import ctypes, ctypes.util, os, re
def scan():  # as tinygrad does
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            path = os.path.join(folder, name)
            if re.fullmatch(r"libcuda\\.so\\.?[0-9]*", name) and os.path.isfile(path) and open(path, "rb").read(4) == b"\\x7fELF":
                yield path
for name in "libcuda.so.1", "libcuda.so", ctypes.util.find_library("cuda"), *scan():
    library = ctypes.CDLL(name)
    print(os.path.basename(name), library.cuInit(0), hasattr(library, "mt_runtime_version"))
print(len(re.findall("lib/libmemtrace.so$", open("/proc/self/maps").read(), re.M)) > 0)
"""


@case("finders", FIXTURES_REQUIRED="attach")
def case_finders():
    """Programs look for the driver by name, by the linker's and objdump's words, and in folders."""
    names = ["libcuda.so.1", "libcuda.so", "libcuda.so.1", "libcuda.so", "libcuda.so.1"]
    out = "".join(f"{name} 0 True\n" for name in names) + "True\n"
    check(*mt_run(sys.executable, "-c", FINDERS), out, {})
    check(*mt_run("env", "-u", "LD_AUDIT", "-u", "LD_PRELOAD", sys.executable, "-c", FINDERS), out, {})
    empty = tempfile.mkdtemp(dir=WORK)
    done, _ = mt_run("sh", "-c", "echo $LD_LIBRARY_PATH", LD_LIBRARY_PATH=empty)
    expect(done.stdout.split(":")[1:] == [empty + "\n"], done)


def on_gpu():
    """The variables by which memtrace run takes this machine for one with a GPU, with the library that tests/gpu/inject plays."""
    library = os.path.join(BUILD, "tests", "gpu", "inject", "libsanitizer-public.so")
    if not os.path.exists(library) or not os.path.exists(os.path.join(BUILD, "lib", "memtrace", "libmemtrace-inject.so")):
        raise Skipped("the played library of tests/gpu is not built")
    return {"MEMTRACE_DEVICE": "gpu", "MEMTRACE_SANITIZER": library}


@by_nvcc
def case_list_on_gpu():
    """Nothing is judged by what the CPU device can run; long has machine code alone."""
    for name, runtime in (("shared", "shared"), ("stripped-app", "static"), ("long", "static")):
        done, _ = mt_run("--list", "./" + name, **on_gpu())
        kernels = re.findall("kernel .*", done.stdout)
        expect(done.returncode == 0 and f"{name}: {runtime} runtime\n" in done.stdout, done)
        expect(kernels and all(k.endswith(": can be traced") for k in kernels), kernels)
    done, _ = mt_run("--list", "./long")
    expect("cannot run: machine code alone" in done.stdout, done)
    for device in {}, on_gpu():
        ran, _ = mt_run("./static-app", **device)
        done, _ = mt_run("--list", "./static-app", **device)
        said = "is linked statically as a whole (-static)"
        expect(ran.returncode == 2 and said in ran.stderr and said in done.stdout and "taken over" not in done.stdout, ran, done)


@by_nvcc
def case_list():
    done, _ = mt_run("--list", "./linked")
    expect(done.returncode == 0 and re.search(r"libearly\.so: static runtime of CUDA \d+, is taken over\n", done.stdout) and
           "PTX for compute_90" in done.stdout and not done.stderr, done)
    done, _ = mt_run("--list", "./shared")
    expect("shared: shared runtime, is replaced\n" in done.stdout, done)
    done, _ = mt_run("--list", "./stripped-app")
    expect("cannot be traced" in done.stdout, done)
    done, _ = mt_run("--list", "true")
    expect(done.returncode == 0 and "no device code" in done.stdout and not done.stderr, done)


def nvrtc_texts():
    """The texts of nvrtc.c, as the compiler reads them there."""
    with open(os.path.join(SRC, "nvrtc.c"), encoding="utf-8") as f:
        found = dict(re.findall(r'(header|text) =((?:\s*"(?:\\.|[^"\\])*")+);', f.read()))
    return ["".join(re.findall(r'"((?:\\.|[^"\\])*)"', found[name])).encode().decode("unicode_escape") for name in ("header", "text")]


@by_nvcc
def case_nvrtc():
    """Machine code of NVRTC's, which is PTX here: linked, opened by its path, and without memtrace run. Lines are of the texts, which are
    kept."""
    if not os.path.exists(os.path.join(WORK, "nvrtc")):
        raise Skipped("this CUDA toolkit has no NVRTC")
    lib = os.path.join(os.path.dirname(os.path.dirname(nvcc_of())), "lib64")
    env = clean_environment(LD_LIBRARY_PATH=lib)
    for words in ([tool("mt-run"), "-f", "raw", "./nvrtc"], [tool("mt-run"), "-f", "raw", "./nvrtc-opened", lib + "/libnvrtc.so"], ["./nvrtc-ours"]):
        with tempfile.TemporaryDirectory(dir=WORK) as folder:
            done = run(words, cwd=WORK, env={**env, "MEMTRACE_DIR": folder})
            expect((done.returncode, done.stdout, done.stderr) == (0, "6 6 NVRTC_ERROR_COMPILATION\n", ""), words, done)
            path = os.path.join(folder, "MemTrace-pipe-0")
            counts = [sizes for launch in trace.read(path) for sizes in launch.ctas().values()]
            expect(counts == [{("load", 4): 64, ("store", 4): 64}], words, counts)
            sites = {s["op"]: (s["line"], open(s["file"], encoding="utf-8").read()) for s in trace.Companion(path + ".meta").all("site")}
            header, text = nvrtc_texts()
            expect(sites == {"load": (3, header), "store": (4, text)}, words, sites)


@by_nvcc
def case_nvjitlink():
    """Two parts that nvJitLink makes machine code of: PTX, and code for link-time optimisation."""
    if not os.path.exists(os.path.join(WORK, "nvjitlink")):
        raise Skipped("this CUDA toolkit has no nvJitLink")
    lib = os.path.join(os.path.dirname(os.path.dirname(nvcc_of())), "lib64")
    for way in "ptx", "lto":
        check(*mt_run("./nvjitlink", way, LD_LIBRARY_PATH=lib), "6 6\n", {("k", "load", 4): 64, ("k", "store", 4): 64})
