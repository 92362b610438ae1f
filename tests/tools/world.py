"""Paths, processes and file formats for the tests. Formats are read here from their description, not with the tools'
own code: fatbin header and payload as in format/image.h."""
import base64
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

import harness
import headers

build, source = harness.BUILD, harness.SOURCE
expect_runtime = False
OPTIONS = ((("--complete",), {"action": "store_true", "help": "the build has plugin and runtime: their absence is a failure, not a reason to skip"}),)

KERNEL = """
__global__ void scale(float *a, float f) { a[blockIdx.x * blockDim.x + threadIdx.x] *= f; }
__device__ int counter;
__global__ void count() { atomicAdd(&counter, 1); }
"""
PROGRAM = """
#include <cstdio>
__global__ void twice(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * in[i];
}
int main()
{
    int n = 1000, h[1000], *in, *out;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&in, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
    twice<<<4, 256>>>(in, out, n);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    long sum = 0;
    for (int i = 0; i < n; i++) sum += h[i];
    printf("%ld\\n", sum);
    return cudaDeviceSynchronize();
}
"""
PROGRAM_SUM = "999000\n"  # 2 * (0 + 1 + … + 999)
PROGRAM_RECORDS = 2000  # a load and a store for each i < n


class World(harness.World):
    def __init__(self, work, variant=None, complete=False):
        super().__init__(work, variant)
        global expect_runtime
        expect_runtime = complete


def overlay(name=""):
    return os.path.join(build, "cuda-overlay", name)


def need_runtime(case):
    """Skips the case in a build of the tools alone."""
    missing = [n for n in ("libmemtrace.so", "libMemtrace-AA.so") if not os.path.exists(os.path.join(build, "lib", n))]
    if missing and not expect_runtime:
        case.skipTest(f"not built: {', '.join(missing)}")
    case.assertEqual(missing, [], "missing in the build's lib/")


class Case(unittest.TestCase):
    """Each test gets a folder of its own (with a blank in its name) and an empty TMPDIR that must end up empty."""

    maxDiff = None
    headers_once = False  # mt-cc takes CUDA's headers from a file: for tests whose subject is not its command line, nor the headers

    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="memtrace test ")
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        self.tmp = os.path.join(self.work, "tmp dir")
        os.mkdir(self.tmp)
        self.env = harness.clean(TMPDIR=self.tmp, MEMTRACE_DIR=self.work, LC_ALL="C.UTF-8")

    def path(self, *names):
        return os.path.join(self.work, *names)

    def write(self, name, text, mode=0o644):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, mode)
        return path

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def run_(self, *words, code=0, **env):
        """Runs a command in the test's folder; fails when the exit code is another."""
        if self.headers_once and os.path.basename(words[0]) == "mt-cc":
            sources = [word for word in words if word.endswith(".cu")]
            words = [*words, *(headers.words(words[0], [w for w in words[1:] if w not in sources], *map(self.path, sources)) if sources else ())]
        done = harness.run(words, 280, cwd=self.work, env={**self.env, **env}, stdin=subprocess.DEVNULL)
        if code is not None and done.returncode != code:
            self.fail(f"{words}\nexit code {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}")
        return done

    def records(self, name="MemTrace-pipe-0"):
        """Records of a trace with one kernel, its end mark not counted; fails when that is not what the file is."""
        data = self.read(name)
        name_end = data.find(b"\n")
        if data[:1] != b"\x18" or name_end < 0 or (len(data) - name_end - 1) % 24 or data[-24:] != bytes(24):
            self.fail(f"{name}: no whole trace: {len(data)} bytes, {data[:60]!r}…; companion:\n"
                      + self.read(name + ".meta").decode(errors="replace"))
        return (len(data) - name_end - 1) // 24 - 1

    def check_no_temporaries(self):
        self.assertEqual(os.listdir(self.tmp), [], "temporary files were left behind")

    # ---- images and PTX -------------------------------------------------------------------------------------

    def object_file(self, name="image", value=42):
        """A relocatable object as the pass would emit it: bytes."""
        self.write(name + ".c", f"extern void mt_cpu_trap(void); int mt_image = {value};\n"
                                f"void kernel(void) {{ mt_cpu_trap(); }}\n")
        self.run_("gcc", "-O1", "-fPIC", "-c", name + ".c", "-o", name + ".o")
        return self.read(name + ".o")

    def ptx(self, arch, text=KERNEL, name=None):
        """PTX made by clang: str."""
        name = name or f"k-{arch}"
        self.write(name + ".cu", text)
        self.run_("clang++-19", "-Wno-unknown-cuda-version", f"--cuda-path={overlay()}", f"--cuda-gpu-arch={arch}",
                  "-O2", "--cuda-device-only", "-S", name + ".cu", "-o", name + ".ptx")
        return self.read(name + ".ptx").decode()


def image_line(data):
    return "// @memtrace-cpu-image " + base64.b64encode(data).decode() + "\n"


def with_image(ptx, data):
    """PTX with the image as its last line."""
    return ptx.rstrip("\n") + "\n" + image_line(data)


def fatbin_parts(data):
    """(fatbin, payload's image or None) of what fatbinary wrote."""
    magic, _, header, size = struct.unpack_from("<IHHQ", data)
    assert magic == 0xBA55ED50, hex(magic)
    end = header + size
    at = (end + 7) // 8 * 8
    if len(data) <= at:
        return data[:end], None
    # A fatbin of its own, with one entry that NVIDIA's tools do not know; what they read before that is as of the first one's.
    magic, version, header, size = struct.unpack_from("<IHHQ", data, at)
    assert (magic, version, header, at + header + size) == (0xBA55ED50, 1, 16, len(data)), (magic, version, header, size, len(data))
    kind, _, entry, contents = struct.unpack_from("<HHIQ", data, at + 16)
    assert (kind, entry, entry + contents) == (0x4D54, 64, size), (kind, entry, contents)
    assert data[at + 44 : at + 48] == (data[44:48] if end > 16 else b"\x4b\0\0\0"), "architecture"
    at += header + entry
    assert data[at : at + 8] == b"MTCPUIM1", data[at : at + 8]
    (length,) = struct.unpack_from("<Q", data, at + 8)
    assert len(data) == (at + 16 + length + 7) // 8 * 8, (len(data), at, length)
    return data[:end], data[at + 16 : at + 16 + length]
