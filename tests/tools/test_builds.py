"""Other ways to the same program: clang by itself, clang's configuration file, CMake's find_package."""
import os
import shutil

import world
from world import Case, PROGRAM, PROGRAM_RECORDS, PROGRAM_SUM, overlay

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES {languages})
find_package(memtrace 1.0 REQUIRED)
add_executable(app kernel.cu main.cpp)
memtrace_target(app {arguments})
"""

# CMake projects that know nothing of memtrace.
SEPARABLE = """cmake_minimum_required(VERSION 3.18)
project(user LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
add_library(part STATIC part.cu)
add_executable(app kernel.cu main.cpp)
target_link_libraries(app PRIVATE part CUDA::cudart)
set_target_properties(part app PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
file(WRITE ${CMAKE_BINARY_DIR}/found "${CMAKE_CUDA_COMPILER_ID} ${CUDAToolkit_VERSION} ${CUDAToolkit_BIN_DIR}")
"""
FIND_CUDA = """cmake_minimum_required(VERSION 3.10)
project(user CXX)
find_package(CUDA REQUIRED)
list(APPEND CUDA_NVCC_FLAGS -arch=sm_80 -O2 --expt-relaxed-constexpr)
include_directories(inc)
cuda_add_library(part part.cu)
cuda_add_executable(app kernel.cu main.cpp)
target_link_libraries(app part)
"""
# A CUDA runtime that is not memtrace's: what a program with a kernel that it does not launch needs of one.
FOREIGN = """
static void *handle;
void **__cudaRegisterFatBinary(void *w) { handle = w; return &handle; }
void __cudaRegisterFatBinaryEnd(void **h) {}
void __cudaUnregisterFatBinary(void **h) {}
int __cudaRegisterFunction(void **h, const char *f, char *d, const char *n, int t, void *a, void *b, void *c, void *e, int *w) { return 0; }
unsigned __cudaPopCallConfiguration(void *g, void *b, unsigned long *s, void *st) { return 0; }
unsigned __cudaPushCallConfiguration(unsigned long g, unsigned b, unsigned long s, void *st) { return 1; }
unsigned cudaLaunchKernel(const void *f, unsigned long g, unsigned b, void **a, unsigned long s, void *st) { return 1; }
"""


class Builds(Case):
    def setUp(self):
        super().setUp()
        world.need_runtime(self)
        self.write("k.cu", PROGRAM)

    def check_program(self, app="./app", records=PROGRAM_RECORDS):
        self.assertEqual(self.run_(app).stdout, PROGRAM_SUM)
        self.assertEqual(self.records(), records)

    def test_clang_alone(self):
        for link in (["-lcudart"], ["-lcudart_static", "-ldl", "-lrt", "-pthread"]):
            self.run_("clang++-19", f"-fplugin={world.build}/lib/libMemtrace-AA.so", f"--cuda-path={overlay()}",
                      "--cuda-gpu-arch=sm_90", "k.cu", "-o", "app", f"-L{overlay('lib64')}", *link)
            self.check_program()

    def test_configuration_file(self):
        done = self.run_("clang++-19", f"--config={world.build}/memtrace.cfg", "-Wno-unknown-cuda-version", "k.cu", "-o",
                         "app")
        self.assertEqual(done.stderr, "")
        self.check_program()
        done = self.run_("clang++-19", f"--config={world.build}/memtrace.cfg", "-Wno-unknown-cuda-version", "-c", "k.cu")
        self.assertEqual(done.stderr, "")
        self.run_("clang++-19", f"--config={world.build}/memtrace.cfg", "k.o", "-o", "app")
        self.check_program()

    def in_its_shell(self, commands, **env):
        """What `commands` print in a shell that mt-cc --env has set up."""
        return self.run_("sh", "-ec", f'eval "$({world.build}/bin/mt-cc --env)"\n{commands}', **env)

    def test_the_shortest_command(self):
        """clang itself, the plugin's bare name, and no other option."""
        self.in_its_shell("clang++ -fplugin=libMemtrace-AA.so k.cu")
        self.check_program("./a.out")
        self.in_its_shell("clang++ -fplugin=libMemtrace-AA.so -c k.cu -o k.o; clang++ k.o -o app")
        self.check_program()
        # Without it clang knows none of these, and other compilers are not touched.
        self.assertNotEqual(self.run_("clang++-19", "-fplugin=libMemtrace-AA.so", "k.cu", code=None).returncode, 0)
        self.write("plain.c", "int main(void) { return 0; }\n")
        self.in_its_shell("gcc plain.c -o plain")
        self.assertNotIn("memtrace", self.run_("ldd", "./plain").stdout)

    def test_mt_cc_in_its_shell(self):
        """mt-cc gives clang its flags once, there too."""
        done = self.in_its_shell("mt-cc -arch=sm_80 -c k.cu -o k.o && mt-cc k.o -o app && mt-extract --version")
        self.assertIn("mt-extract", done.stdout)
        self.check_program()
        text = self.in_its_shell("mt-cc -arch=sm_80 -ptx k.cu -o k.ptx; cat k.ptx").stdout
        self.assertIn(".target sm_80", text)

    def cuda(self):
        return [f"-DCMAKE_CUDA_COMPILER={world.build}/bin/mt-cc", f"-DCUDAToolkit_ROOT={overlay()}"]

    def cmake(self, languages, arguments="", *options):
        self.write("kernel.cu", PROGRAM.replace("int main()", 'extern "C" int run()'))
        self.write("main.cpp", '#include <cuda_runtime.h>\nextern "C" int run();\nint main() { return run() + cudaGetLastError(); }\n')
        self.write("CMakeLists.txt", PROJECT.format(languages=languages, arguments=arguments))
        self.run_("cmake", "-G", "Ninja", "-S", ".", "-B", "b", f"-Dmemtrace_DIR={world.build}/cmake",
                  "-DCMAKE_CXX_COMPILER=clang++-19", "-DCMAKE_BUILD_TYPE=Release", *options)
        self.run_("ninja", "-C", "b")

    def test_cmake_without_cuda_language(self):
        self.cmake("CXX")
        self.check_program("b/app")

    def test_cmake_arguments(self):
        self.cmake("CXX", "ONLY loads ARCHITECTURES 80 90 KERNELS ^twice$")
        self.check_program("b/app", PROGRAM_RECORDS // 2)

    def test_cmake_with_cuda_language(self):
        self.cmake("CXX CUDA", "ARCHITECTURES 90", *self.cuda())
        self.check_program("b/app")

    def test_cmake_with_cuda_language_alone(self):
        """A project that knows nothing of memtrace."""
        self.write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(user CUDA)\nadd_executable(app k.cu)\n")
        self.run_("cmake", "-G", "Ninja", "-S", ".", "-B", "b", *self.cuda(),
                  "-DCMAKE_CUDA_ARCHITECTURES=80")
        self.run_("ninja", "-C", "b")
        self.check_program("b/app")

    def separable(self):
        self.write("part.cu", "__device__ int factor() { return 2; }\n")
        self.write("kernel.cu", "extern __device__ int factor();\n" +
                   PROGRAM.replace("2 * in", "factor() * in").replace("int main()", 'extern "C" int run()'))
        self.write("main.cpp", 'extern "C" int run();\nint main() { return run(); }\n')

    def test_cmake_with_a_toolkit_in_the_path(self):
        """mt-cc is its own nvcc to CMake: CUDAToolkit is the overlay, and so are nvlink and fatbinary, whatever lies in PATH."""
        self.write("toolkit/bin/nvcc", "#!/bin/sh\necho wrong one >&2; exit 1\n", 0o755)
        self.write("toolkit/bin/fatbinary", "#!/bin/sh\necho \"fatbinary fatal   : Unknown option 'im'\" >&2; exit 1\n", 0o755)
        paths = [self.path("toolkit/bin") + ":" + os.environ["PATH"]]
        real = os.path.dirname(os.path.realpath(overlay("bin/real/ptxas")))
        if os.path.exists(os.path.join(real, "nvcc")):
            paths.append(real + ":" + os.environ["PATH"])
        self.separable()
        self.write("CMakeLists.txt", SEPARABLE)
        for i, path in enumerate(paths):
            self.run_("cmake", "-G", "Ninja", "-S", ".", "-B", f"b{i}", f"-DCMAKE_CUDA_COMPILER={world.build}/bin/mt-cc", PATH=path)
            found = self.read(f"b{i}/found").decode()
            self.assertRegex(found, r"^Clang \d+\.\d+\.\d+ .*/cuda-overlay/bin$")
            self.run_("ninja", "-C", f"b{i}", PATH=path)
            self.check_program(f"b{i}/app")

    def test_find_cuda(self):
        """CMake's old module: the overlay is the toolkit, mt-cc its nvcc."""
        self.write("part.cu", "__global__ void nothing() {}\nvoid part() { nothing<<<1, 1>>>(); }\n")
        self.write("inc/factor.h", "__device__ constexpr int factor() { return 2; }\n")
        self.write("kernel.cu", '#ifdef __CUDA_ARCH__\n#include "factor.h"\n#else\n__device__ int factor();\n#endif\n' +
                   PROGRAM.replace("2 * in", "factor() * in").replace("int main()", 'extern "C" int run()'))
        self.write("main.cpp", '#include <cuda_runtime.h>\nextern "C" int run();\nint main() { return run() + cudaGetLastError(); }\n')
        self.write("CMakeLists.txt", FIND_CUDA)
        done = self.run_("cmake", "-Wno-dev", "-S", ".", "-B", "b", f"-DCUDA_TOOLKIT_ROOT_DIR={overlay()}", code=None)
        if "FindCUDA" in done.stderr and done.returncode:
            self.skipTest("this CMake has no FindCUDA")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_("cmake", "--build", "b")
        self.check_program("b/app")
        # What its -M says is what a change is noticed by, of the device's headers, too.
        self.write("inc/factor.h", "__device__ constexpr int factor() { return 4; }\n")
        self.run_("cmake", "--build", "b")
        self.assertEqual(self.run_("b/app").stdout, f"{2 * int(PROGRAM_SUM)}\n")

    def test_another_runtime(self):
        """A program that was linked to another CUDA runtime says so once, and goes on."""
        self.write("k.cu", "#include <cstdio>\nint other();\n__global__ void k() {}\nint main() { if (other()) k<<<1, 1>>>(); puts(\"on\"); }\n")
        self.write("o.cu", "__global__ void j() {}\nint other() { return 0; }\n")
        self.write("foreign.c", FOREIGN)
        self.run_("gcc", "-w", "-shared", "-fPIC", "foreign.c", "-o", "libforeign.so")
        self.run_("gcc", "-w", "-c", "foreign.c")
        self.run_("ar", "rcs", "libstatic.a", "foreign.o")
        self.run_(world.build + "/bin/mt-cc", "-fPIC", "-c", "k.cu", "o.cu")
        runtimes = [["./libforeign.so", "-Wl,-rpath,."], ["libstatic.a"],
                    ["libstatic.a", "-Wl,--no-as-needed", f"{world.build}/lib/libmemtrace.so"]]
        real = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(overlay("bin/real/ptxas")))), "lib64")
        if os.path.exists(real + "/libcudart_static.a"):
            runtimes += [[f"-L{real}", "-lcudart_static"], [f"-L{real}", "-lcudart", f"-Wl,-rpath,{real}"]]
        for runtime in runtimes:
            self.run_("g++", "k.o", "o.o", *runtime, "-ldl", "-lrt", "-lpthread", "-o", "app")
            done = self.run_("./app")
            self.assertEqual((done.stdout, done.stderr.count("another CUDA runtime"), done.stderr.count("\n")), ("on\n", 1, 1), runtime)
            self.assertFalse(os.path.exists(self.path("MemTrace-pipe-0")))
        # With the right one, also beside a library that has another to itself, nothing is said; of the library it is.
        self.run_("g++", "k.o", "o.o", f"-L{overlay('lib64')}", "-lcudart", "-o", "app")
        self.assertEqual(self.run_("./app").stderr, "")
        self.run_("g++", "-shared", "o.o", "libstatic.a", "-Wl,--exclude-libs,ALL", "-o", "libo.so")
        self.run_("g++", "k.o", "./libo.so", f"-L{overlay('lib64')}", "-lcudart", "-Wl,-rpath,.", "-o", "app")
        self.assertEqual(self.run_("./app").stderr.count("another CUDA runtime"), 1)

    def test_another_runtime_after_a_device_link(self):
        self.separable()
        self.write("foreign.c", FOREIGN + "unsigned cudaMalloc(void **p, unsigned long n) { return 2; }\n"
                   "unsigned cudaMemcpy(void *a, void *b, unsigned long n, int k) { return 2; }\n"
                   "unsigned cudaDeviceSynchronize(void) { return 0; }\n")
        self.run_("gcc", "-w", "-c", "foreign.c")
        self.run_(world.build + "/bin/mt-cc", "-dc", "kernel.cu", "part.cu")
        self.run_(world.build + "/bin/mt-cc", "-dlink", "kernel.o", "part.o", "-o", "link.o")
        self.run_("g++", "main.cpp", "kernel.o", "part.o", "link.o", "foreign.o", "-o", "app")
        self.assertEqual(self.run_("./app", code=None).stderr.count("another CUDA runtime"), 1)
        self.run_("g++", "main.cpp", "kernel.o", "part.o", "link.o", f"-L{overlay('lib64')}", "-lcudart", "-o", "app")
        done = self.run_("./app", MEMTRACE_DEVICE="cpu")
        self.assertEqual((done.stdout, done.stderr), (PROGRAM_SUM, ""))

    def test_cmake_plain(self):
        self.cmake("CXX CUDA", "PLAIN", *self.cuda())
        with open(self.path("b/app"), "rb") as f:
            self.assertNotIn(b"MTCPUIM1", f.read())

    def test_cmake_names_the_wrong_compiler(self):
        self.write("CMakeLists.txt", PROJECT.format(languages="CXX", arguments=""))
        self.write("kernel.cu", "")
        self.write("main.cpp", "")
        done = self.run_("cmake", "-G", "Ninja", "-S", ".", "-B", "b", f"-Dmemtrace_DIR={world.build}/cmake",
                         "-DCMAKE_CXX_COMPILER=g++", code=1)
        self.assertIn("-DCMAKE_CXX_COMPILER=clang++-19", done.stderr)

    def test_a_part_of_the_tests(self):
        for folder in ("postprocess", "report", "gpu"):  # the first two need programs of another
            self.run_("cmake", "-G", "Ninja", "-S", world.source, "-B", "part", f"-DMEMTRACE_TESTS={folder}")
            self.assertIn(f"tests/{folder}/", self.read("part/build.ninja").decode())
            shutil.rmtree(self.path("part"))

    def test_bench_without_a_build(self):
        for part in "loops", "container", "start":
            done = self.run_(os.path.join(world.source, "bench", "run"), "--build", "nothing", "--quick", part, code=1)
            self.assertIn("ninja -C", done.stderr)
            self.assertNotIn("Traceback", done.stderr)
