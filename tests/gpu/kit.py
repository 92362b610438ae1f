"""A kit: what tests and benchmarks need on a machine with a GPU and no compiler. Made where clang and CUDA are, carried there
as one folder (programs, libmemtrace.so, the CUDA runtime, the tools with their libraries); the scripts are those of the
repository. Programs find the library beside them, wherever the folder lies."""
import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys

import cuda
import harness
from harness import Failed, toolkit

TOOLS = ("mt-extract", "mt-dump", "mt-run", "mt-env")
ARCHES = "sm_80", "sm_90", "sm_100", "sm_120"  # what a kit is compiled for: A100, H100, B200 and their likes
SCRIPTS = "tests/lib", "tests/e2e", "tests/container", "tests/gpu", "tests/conformance", "tests/python", "examples", "bench/gpu"
NO_PROBE = os.path.join("probe", "missing")  # of a kit: why it has none
WORDS = "cases.txt"  # of a kit: the cases that it was made for, one word a line; empty: all
RUN = """#!/bin/sh
# Runs all cases on the GPU of this machine; words as for tests/gpu/run-gpu. The log is run.log, unless --log FILE says otherwise.
here=$(cd "${0%/*}" && pwd)
exec python3 "$here/source/tests/gpu/run-gpu" --kit "$here" "$@"
"""
MACHINE = ("libc.so", "libm.so", "ld-linux", "linux-vdso", "libpthread", "libdl", "librt")


def key(source, flags):
    """The name of a program in a kit."""
    stem = os.path.splitext(os.path.basename(source))[0]
    return "-".join([os.path.basename(os.path.dirname(source)), stem, *(re.sub(r"\W+", "", f) for f in flags)])


def progress(words):
    """On a terminal: what is being made, which takes minutes."""
    if sys.stderr.isatty():
        print(f"\r\033[Krun-gpu: {words}", end="", file=sys.stderr, flush=True)


def call(command, **more):
    return harness.call(command, timeout=1800, **more).stdout


def said(command):
    """What a command prints, or nothing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
    except OSError:
        return ""


def loaded(name):
    """The path of a library that the linker finds by its name."""
    ctypes.CDLL(name)
    with open("/proc/self/maps", encoding="utf-8") as file:
        return next(line.split()[-1] for line in file if os.path.basename(line.split()[-1]).startswith(name))


def built(build, targets):
    """Builds targets of tests/, which ./setup build leaves out. Returns why they cannot be built, in words; "": they are there."""
    if not shutil.which("ninja"):
        return f"there is no ninja, which builds {' and '.join(targets)}"
    progress(f"building {' '.join(targets)}")
    done = subprocess.run(["ninja", "-C", build, *targets], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return f"ninja -C {build} {' '.join(targets)}: {' '.join(done.stdout.splitlines()[-3:])}" if done.returncode else ""


def find_sanitizer(build, named):
    """NVIDIA's libsanitizer-public.so, or None: `named` (file or folder), that of the build's headers, of the build, of the toolkit."""
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
        headers = re.search(r"^MEMTRACE_SANITIZER_INCLUDE:\w+=(.+)$", file.read(), re.M)
    root = os.path.dirname(headers.group(1)) if headers else ""
    places = [named] if named else [root, root and os.path.join(root, "lib"), os.path.join(build, "sanitizer", "*"),
                                    os.path.join(toolkit(build), "compute-sanitizer")]
    found = [f for p in places if p for f in sorted(glob.glob(p if p.endswith(".so") else os.path.join(p, "libsanitizer-public.so")))]
    return found[0] if found else None


def find_sanitizers(build):
    """All that ./setup brought: one for each major version of CUDA."""
    return sorted({os.path.realpath(p) for p in glob.glob(os.path.join(build, "sanitizer", "**", "libsanitizer-public.so"), recursive=True)})


def find_gpu():
    """(name, compute capability * 10), or a sentence that says why there is none."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "libcuda.so.1, NVIDIA's driver, is not installed"
    count, device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0):
        return "the driver does not start"
    if cuda.cuDeviceGetCount(ctypes.byref(count)) or not count.value or cuda.cuDeviceGet(ctypes.byref(device), 0):
        return "the driver sees no device"
    name = ctypes.create_string_buffer(128)
    cuda.cuDeviceGetName(name, 128, device)
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    return name.value.decode(), major.value * 10 + minor.value


def words_of(folder):
    with open(os.path.join(folder, WORDS), encoding="utf-8") as file:
        return file.read().splitlines()


def size(folder):
    """In MiB."""
    return sum(os.lstat(os.path.join(at, name)).st_size for at, _, names in os.walk(folder) for name in names) / 2**20


class Maker:
    """Puts programs into a kit. `flags`: words for mt-cc, such as the architecture; `standin`: a world's Standin, or None."""

    def __init__(self, folder, build, flags, standin=None):
        self.folder, self.build, self.flags, self.standin = folder, build, list(flags), standin
        self.sanitizers = []  # NVIDIA's libraries that are in the kit
        self.codes = True  # nvcc makes machine code, which the CPU device does not need
        for name in ("bin", "lib", "tools"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        shutil.copy(os.path.join(build, "lib", "libmemtrace.so"), os.path.join(folder, "lib"))
        for library in glob.glob(os.path.join(toolkit(build), "lib*", "libcudart.so.1?")):
            shutil.copy(os.path.realpath(library), os.path.join(folder, "lib", os.path.basename(library)))
        for tool in TOOLS:
            path = os.path.join(build, "bin", tool)
            shutil.copy(path, os.path.join(folder, "tools"))
            self.find_own(os.path.join(folder, "tools", tool))
            for name, where in re.findall(r"(\S+) => (/\S+)", call(["ldd", path])):
                if not name.startswith(MACHINE):
                    shutil.copy(where, os.path.join(folder, "lib", name))
        for name in ("libxxhash.so.0", "libzstd.so.1", "libstdc++.so.6", "libgcc_s.so.1"):  # of the scripts and the programs
            shutil.copy(loaded(name), os.path.join(folder, "lib", name))

    @staticmethod
    def find_own(tool):
        """The tool finds the kit's libraries, and what it starts does not. As DT_RPATH, which holds for the libraries' own needs, too."""
        if shutil.which("patchelf"):
            call(["patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../lib", tool])
        else:
            print(f"run-gpu: there is no patchelf: {os.path.basename(tool)} will need libdw, jansson and SQLite of the machine", file=sys.stderr)

    def injection(self, source, sanitizer=None, probe=True):
        """What traces programs as they are, and programs that nvcc builds; returns what is missing, in words. sanitizer: NVIDIA's
        library, or its folder; None: those of the build."""
        missing = []
        for name in ("lib/libmemtrace-attach.so", "lib/memtrace/libmemtrace-inject.so", "lib/memtrace/gpu-patch-12.fatbin",
                     "lib/memtrace/gpu-patch-13.fatbin"):
            if not self.copy(os.path.join(self.build, name), os.path.dirname(name)):
                missing.append(name)
        self.sanitizers = self.nvidia(sanitizer)
        if not self.sanitizers:
            missing.append("libsanitizer-public.so")
        nvcc = os.path.join(toolkit(self.build), "bin", "nvcc")
        if os.path.exists(nvcc):
            self.injected(nvcc, os.path.join(source, "tests", "gpu", "inject"))
            why = self.probe(nvcc, os.path.join(source, "tests", "gpu", "probe")) if probe else ""
        else:
            why = f"there is no {nvcc}"
            missing.append(f"programs by nvcc: {why}")
        if probe and why:
            missing.append(f"the probe: {why}")
            os.makedirs(os.path.join(self.folder, "probe"), exist_ok=True)
            with open(os.path.join(self.folder, NO_PROBE), "w", encoding="utf-8") as file:
                file.write(why)
        return missing

    def nvidia(self, named):
        """Copies each libsanitizer-public.so with what it loads; their paths. They lie as under build/sanitizer, where memtrace run finds them."""
        root, found = os.path.realpath(os.path.join(self.build, "sanitizer")), find_sanitizers(self.build)
        if named or not found:
            library = find_sanitizer(self.build, named)
            root, found = (None, [library]) if library else (None, [])
        for library in found:
            folder = os.path.relpath(os.path.dirname(library), root) if root else "lib"
            for path in glob.glob(os.path.join(os.path.dirname(library), "*.so")):
                if not path.endswith("-collection.so"):  # of the program compute-sanitizer
                    self.copy(path, os.path.join("sanitizer", folder))
        return found

    def probe(self, nvcc, source):
        """The probe's library, program and patches (../probe); returns why there are none, in words."""
        made = os.path.join(self.build, "tests", "gpu", "probe")
        if not (os.path.exists(os.path.join(made, "libmt-probe.so")) and glob.glob(os.path.join(made, "*.fatbin"))):
            why = built(self.build, ("mt-probe", "mt-probe-patches"))
            if why:
                return why
        self.copy(os.path.join(made, "libmt-probe.so"), "probe")
        progress("compiling the probe")
        call([*self.nvcc(nvcc), os.path.join(source, "program.cu"), "-o", os.path.join(self.folder, "probe", "program"), "-ldl"])
        for path in glob.glob(os.path.join(made, "*.fatbin")):
            self.copy(path, "probe")
        return ""

    def copy(self, path, folder):
        if os.path.exists(path):
            os.makedirs(os.path.join(self.folder, folder), exist_ok=True)
            shutil.copy(path, os.path.join(self.folder, folder))
        return os.path.exists(path)

    def nvcc(self, nvcc):
        known = re.findall(r"sm_(\d+)", call([nvcc, "--list-gpu-code"]))
        codes = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in (f.rpartition("_")[2] for f in self.flags) if n in known and self.codes]
        return [nvcc, "-O3", "-std=c++17", "-lineinfo", "-diag-suppress=550", *codes, "-gencode=arch=compute_90,code=compute_90",
                "-Xlinker=-rpath=$ORIGIN/../lib"]

    def injected(self, nvcc, source):
        words = self.nvcc(nvcc)
        for name in ("basic", "kinds", "ways"):
            progress(f"compiling inject-{name}")
            call([*words, os.path.join(source, name + ".cu"), "-o", os.path.join(self.folder, "bin", "inject-" + name), "-ldl"])
        call([*words, "-shared", "-Xcompiler=-fPIC", os.path.join(source, "module.cu"), "-o",
              os.path.join(self.folder, "lib", "libinject-module.so")])

    def scripts(self, source, words):
        """The kit needs no checkout: the cases' scripts, `run`, what it was made of, and for which cases (`words`)."""
        for name in SCRIPTS:
            shutil.copytree(os.path.join(source, name), os.path.join(self.folder, "source", name), dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("__pycache__"))
        path = os.path.join(self.folder, "run")
        with open(path, "w", encoding="ascii") as file:
            file.write(RUN)
        os.chmod(path, 0o755)
        with open(os.path.join(self.folder, WORDS), "w", encoding="utf-8") as file:
            file.write("".join(word + "\n" for word in words))
        with open(os.path.join(self.folder, "versions.txt"), "w", encoding="utf-8") as file:
            file.write(f"kit of {said(['date', '-u'])}, commit {said(['git', '-C', source, 'rev-parse', 'HEAD'])}\n"
                       f"{said([os.path.join(toolkit(self.build), 'bin', 'nvcc'), '--version'])}\n"
                       f"NVIDIA's libraries: {', '.join(self.sanitizers)}\n")

    def program(self, source, *flags, name=None, since=0):
        """Compiles and links against the kit's own library; for GPUs that are not older than `since`, unless all are."""
        out = os.path.join(self.folder, "bin", name or key(source, flags))
        progress("compiling " + os.path.basename(out))
        newer = [f for f in self.flags if int(re.sub(r"\D", "", f.rpartition("_")[2])) >= since] or self.flags
        call([os.path.join(self.build, "bin", "mt-cc"), *newer, *flags, "-c", source, "-o", out + ".o"])
        call(["c++", out + ".o", "-o", out, "-L" + os.path.join(self.folder, "lib"), "-lmemtrace", "-lpthread",
              "-Wl,-rpath,$ORIGIN/../lib"])
        os.unlink(out + ".o")
        if self.standin:
            self.standin.images(out)
        return out

    def library(self, source, name):
        """Compiled without the plugin, with a CUDA runtime of its own that nobody sees."""
        overlay, cuda = os.path.join(self.build, "cuda-overlay"), toolkit(self.build)
        known = [f for f in self.flags if not re.search(r"sm_1\d\d", f)]  # clang 19 knows no later ones; the fatbin has PTX
        folder = next(f for f in ("lib64", "lib") if os.path.exists(os.path.join(cuda, f, "libcudart_static.a")))
        call(["clang++-19", "-Wno-unknown-cuda-version", "--cuda-path=" + overlay, *known, "-O2", "-fPIC", "-fvisibility=hidden",
              "-shared", source, "-o", os.path.join(self.folder, "lib", name), os.path.join(cuda, folder, "libcudart_static.a"),
              "-ldl", "-lrt", "-lpthread", "-Wl,--exclude-libs,ALL"])


class KitWorld(cuda.World):
    """The tests' World over a kit: nothing is compiled."""

    def __init__(self, folder, source, work, variables):
        lib = os.path.join(folder, "lib")
        given = {"LD_LIBRARY_PATH": lib, **variables}
        runtime = glob.glob(os.path.join(lib, "libcudart.so.1?"))
        if runtime and "MEMTRACE_CUDART" not in variables:
            given["MEMTRACE_CUDART"] = runtime[0]
        super().__init__(work, build=folder, source=source, variables=given)
        self.mt_run = self.tool("mt-run")

    def tool(self, name):
        return os.path.join(self.build, "tools", name)

    def call(self, command, code=0, **more):
        env = dict(os.environ, LD_LIBRARY_PATH=self.variables["LD_LIBRARY_PATH"])
        return super().call(command, code, env=env, **more)

    def compile(self, sources, *flags, out=None, code=0):
        path = os.path.join(self.build, "bin", key(sources, flags))
        if not os.path.exists(path):
            raise Failed(f"the kit has no {os.path.basename(path)}")
        return path
