"""Other ways to the same program: clang by itself, clang's configuration file, CMake's find_package."""
import os

import world
from world import Case, PROGRAM, PROGRAM_RECORDS, PROGRAM_SUM, overlay

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES {languages})
find_package(memtrace 0.1 REQUIRED)
add_executable(app kernel.cu main.cpp)
memtrace_target(app {arguments})
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
