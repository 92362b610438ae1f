"""mt-cc as a linker of relocatable device code: what it runs, and what the link looks like to nvlink's own readers."""
import os
import shlex

import world
from world import Case, overlay

MAIN = """
#include <cstdio>
__device__ int twice(int);
__global__ void k(int *p) { p[threadIdx.x] = twice(threadIdx.x); }
int main() { int *p; cudaMallocManaged(&p, 128); k<<<1, 32>>>(p); printf("%d\\n", cudaDeviceSynchronize() + p[21]); }
"""
PART = "__device__ int twice(int i) { return 2 * i; }\n"
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(user CUDA)
add_library(part STATIC part.cu)
add_executable(app main.cu)
target_link_libraries(app PRIVATE part)
set_target_properties(part app PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
"""


def mt_cc():
    return os.path.join(world.build, "bin", "mt-cc")


class DeviceLink(Case):
    headers_once = True

    def setUp(self):
        super().setUp()
        world.need_runtime(self)
        self.write("main.cu", MAIN)
        self.write("part.cu", PART)

    def show(self, *arguments):
        return [shlex.split(line) for line in self.run_(mt_cc(), "--show", *arguments).stdout.splitlines()]

    def check_program(self, app="./app"):
        done = self.run_(app, MEMTRACE_DEVICE="cpu")
        self.assertEqual((done.stdout, done.stderr), ("42\n", ""))
        self.assertEqual(self.records(), 32)  # one store a thread

    def linked_entries(self, app):
        """(architecture, code) of the GPU code that the device link made: entries of kind ELF whose ELF type is EXEC (2)."""
        data, at = self.read(app), 0
        while (at := data.find(b"\x50\xed\x55\xba\x01\x00\x10\x00", at)) >= 0:
            entry, end = at + 16, at + 16 + int.from_bytes(data[at + 8:at + 16], "little")
            while entry < end:
                kind = int.from_bytes(data[entry:entry + 2], "little")
                header = int.from_bytes(data[entry + 4:entry + 8], "little")
                size = int.from_bytes(data[entry + 8:entry + 16], "little")
                if kind == 2 and data[entry + header + 16] == 2:
                    yield int.from_bytes(data[entry + 28:entry + 32], "little"), data[entry + header:entry + header + size]
                entry += header + size
            at += 8

    def linked_archs(self, app):
        return {arch for arch, _ in self.linked_entries(app)}

    def linked_code(self, app):
        return [code for _, code in self.linked_entries(app)]

    def test_steps(self):
        lines = self.show("-rdc=true", "-O2", "-arch=sm_80", "a.cu", "b.cpp", "c.c", "d.o", "-lm", "-o", "app")
        self.assertEqual([os.path.basename(line[0]) for line in lines],
                         ["clang++-19"] * 3 + ["nvlink", "fatbinary"] + ["clang++-19"] * 2)
        for line, source in zip(lines, ("a.cu", "b.cpp", "c.c")):
            self.assertEqual([w for w in line if w in ("a.cu", "b.cpp", "c.c", "d.o", "-o", "app", "-c")].count(source), 1)
            self.assertIn("-c", line)
            self.assertNotIn("app", line)
        self.assertIn("--arch=sm_80", lines[3])
        self.assertTrue({"d.o", "-lm", "app"} < set(lines[-1]))
        self.assertFalse([w for w in lines[-1] if w.endswith((".cu", ".cpp", ".c")) or w.startswith("-fplugin")])

    def test_other_links_are_one_step(self):
        self.run_(mt_cc(), "-c", "part.cu")
        self.assertEqual(len(self.show("part.o", "-o", "app")), 1)
        self.assertEqual(len(self.show("-dc", "main.cu")), 1)
        self.assertEqual(len(self.show("-rdc=true", "-S", "main.cu")), 1)
        self.assertEqual(len(self.show("-rdc=true", "-rdc=false", "main.cu")), 1)

    def test_architectures(self):
        """Those that all objects have; of these, the ones asked for if there are such."""
        self.run_(mt_cc(), "-dc", "-gencode", "arch=compute_75,code=sm_75", "-gencode", "arch=compute_80,code=sm_80",
                  "-gencode", "arch=compute_90,code=sm_90", "main.cu", "-o", "main.o")
        self.run_(mt_cc(), "-dc", "--offload-arch=sm_80", "--offload-arch=sm_90", "part.cu", "-o", "part.o")
        for options, archs in (((), {80, 90}), (("-arch=sm_90",), {90}), (("-arch=sm_75",), {80, 90})):
            self.run_(mt_cc(), *options, "main.o", "part.o", "-o", "app")
            self.assertEqual(self.linked_archs("app"), archs, options)
            self.check_program()
        self.check_no_temporaries()

    def test_sites(self):
        """Each file's code has the variable that its sites are counted from, and the CPU images say what it is called."""
        self.write("part.cu", "__device__ int v = 2; __device__ int twice(int i) { return v * i; }\n")
        for arch in ("sm_75", "sm_90"):
            self.run_(mt_cc(), "-rdc=true", "-arch=" + arch, "main.cu", "part.cu", "-o", "app")
            names = set()
            for code in self.linked_code("app"):
                self.write("linked.cubin", code)
                for line in self.run_("readelf", "-sW", "linked.cubin").stdout.splitlines():
                    word = line.split()
                    if word and word[-1].startswith("__mt_site_base_"):
                        self.assertEqual(word[2:5], ["4", "OBJECT", "WEAK"])
                        names.add(word[-1])
            self.assertEqual(len(names), 2, arch)
            data = self.read("app")
            for name in names:
                self.assertIn(name.encode() + b"\0", data)

    def test_no_gpu_code(self):
        self.run_(mt_cc(), "-rdc=true", "main.cu", "part.cu", "-o", "app", MEMTRACE_PTXAS="none")
        self.assertEqual(self.linked_archs("app"), set())
        self.check_program()
        self.check_no_temporaries()

    def test_dlink_without_device_code(self):
        self.write("host.cpp", "int f() { return 1; }")
        self.run_(mt_cc(), "-c", "host.cpp")
        self.run_(mt_cc(), "-dlink", "host.o")
        self.assertEqual(self.run_("nm", "a_dlink.o").stdout, "")

    def test_failure(self):
        """The first step that fails ends it; nothing is left."""
        self.write("part.cu", "__device__ int other(int i) { return i; }")
        done = self.run_(mt_cc(), "-rdc=true", "main.cu", "part.cu", "-o", "app", code=255)
        self.assertIn("twice", done.stderr)
        self.write("part.cu", "this is no C++")
        self.run_(mt_cc(), "-rdc=true", "main.cu", "part.cu", "-o", "app", code=1)
        self.assertFalse(os.path.exists(self.path("app")))
        self.check_no_temporaries()

    def test_whole_archive_and_groups(self):
        self.run_(mt_cc(), "-dc", "main.cu", "-o", "main.o")
        self.run_(mt_cc(), "-dc", "part.cu", "-o", "part.o")
        self.run_("ar", "rcs", "libpart.a", "part.o")
        for inputs in (["-Wl,--start-group,libpart.a,--end-group"], ["-Wl,--whole-archive", "libpart.a", "-Wl,--no-whole-archive"],
                       ["-L.", "-l:libpart.a"]):
            self.run_(mt_cc(), "main.o", *inputs, "-o", "app")
            self.check_program()

    def test_cmake(self):
        """A project with separable compilation that knows nothing of memtrace: CMake runs nvlink by itself."""
        self.write("CMakeLists.txt", PROJECT)
        self.run_("cmake", "-G", "Ninja", "-S", ".", "-B", "b", f"-DCMAKE_CUDA_COMPILER={mt_cc()}",
                  f"-DCUDAToolkit_ROOT={overlay()}", "-DCMAKE_CUDA_ARCHITECTURES=80")
        self.run_("ninja", "-C", "b")
        self.check_program("b/app")
