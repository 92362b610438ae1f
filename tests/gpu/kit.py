"""A kit: what tests and benchmarks need on a machine with a GPU and no compiler. Made where clang and CUDA are, carried there
as one folder (programs, libmemtrace.so, the CUDA runtime, the tools with their libraries); the scripts are those of the
repository. Programs find the library beside them, wherever the folder lies."""
import ctypes
import glob
import os
import re
import shutil
import subprocess

import world as w

TOOLS = ("mt-extract", "mt-dump")
MACHINE = ("libc.so", "libm.so", "ld-linux", "linux-vdso", "libpthread", "libdl", "librt")


def key(source, flags):
    """The name of a program in a kit."""
    stem = os.path.splitext(os.path.basename(source))[0]
    return "-".join([os.path.basename(os.path.dirname(source)), stem, *(re.sub(r"\W+", "", f) for f in flags)])


def call(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, **more)
    if done.returncode:
        raise w.Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-4000:]}")
    return done.stdout


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


class Maker:
    """Puts programs into a kit. `flags`: words for mt-cc, such as the architecture; `standin`: a world's Standin, or None."""

    def __init__(self, folder, build, flags, standin=None):
        self.folder, self.build, self.flags, self.standin = folder, build, list(flags), standin
        for name in ("bin", "lib", "tools"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        shutil.copy(os.path.join(build, "lib", "libmemtrace.so"), os.path.join(folder, "lib"))
        for library in glob.glob(os.path.join(build, "cuda-overlay", "lib64", "libcudart.so.1?")):
            if "libmemtrace" not in os.path.realpath(library):
                shutil.copy(os.path.realpath(library), os.path.join(folder, "lib", os.path.basename(library)))
        for tool in TOOLS:
            path = os.path.join(build, "bin", tool)
            shutil.copy(path, os.path.join(folder, "tools"))
            for name, where in re.findall(r"(\S+) => (/\S+)", call(["ldd", path])):
                if not name.startswith(MACHINE):
                    shutil.copy(where, os.path.join(folder, "lib", name))

    def program(self, source, *flags, name=None):
        """Compiles and links against the kit's own library."""
        out = os.path.join(self.folder, "bin", name or key(source, flags))
        call([os.path.join(self.build, "bin", "mt-cc"), *self.flags, *flags, "-c", source, "-o", out + ".o"])
        call(["c++", out + ".o", "-o", out, "-L" + os.path.join(self.folder, "lib"), "-lmemtrace", "-lpthread",
              "-Wl,-rpath,$ORIGIN/../lib"])
        os.unlink(out + ".o")
        if self.standin:
            self.standin.images(out)
        return out


    def library(self, source, name):
        """Compiled without the plugin, with a CUDA runtime of its own that nobody sees."""
        overlay = os.path.join(self.build, "cuda-overlay")
        toolkit = os.path.dirname(os.path.dirname(os.path.realpath(os.path.join(overlay, "bin", "nvlink"))))
        folder = next(f for f in ("lib64", "lib") if os.path.exists(os.path.join(toolkit, f, "libcudart_static.a")))
        call(["clang++-19", "-Wno-unknown-cuda-version", "--cuda-path=" + overlay, *self.flags, "-O2", "-fPIC", "-fvisibility=hidden",
              "-shared", source, "-o", os.path.join(self.folder, "lib", name), os.path.join(toolkit, folder, "libcudart_static.a"),
              "-ldl", "-lrt", "-lpthread", "-Wl,--exclude-libs,ALL"])


class KitWorld(w.World):
    """The tests' World over a kit: nothing is compiled."""

    def __init__(self, folder, source, work, variables):
        lib = os.path.join(folder, "lib")
        given = {"LD_LIBRARY_PATH": lib, **variables}
        runtime = glob.glob(os.path.join(lib, "libcudart.so.1?"))
        if runtime and "MEMTRACE_CUDART" not in variables:
            given["MEMTRACE_CUDART"] = runtime[0]
        super().__init__(folder, source, work, variables=given)

    def tool(self, name):
        return os.path.join(self.build, "tools", name)

    def call(self, command, code=0, **more):
        env = dict(os.environ, LD_LIBRARY_PATH=self.variables["LD_LIBRARY_PATH"])
        return super().call(command, code, env=env, **more)

    def compile(self, sources, *flags, out=None, code=0):
        path = os.path.join(self.build, "bin", key(sources, flags))
        if not os.path.exists(path):
            raise w.Failed(f"the kit has no {os.path.basename(path)}")
        return path
