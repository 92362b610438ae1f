"""mt-cc: what command it makes (--show), and that the command works."""
import json
import os
import re
import shlex

import world
from world import Case, PROGRAM, PROGRAM_RECORDS, PROGRAM_SUM, overlay


def mt_cc():
    return os.path.join(world.build, "bin", "mt-cc")


SETS_REGISTERS = """
__global__ void __launch_bounds__(384, 1) specialised(float *p)
{
    if (threadIdx.x < 128)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    else
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    p[threadIdx.x] += 1;
}
"""
FULL = """
struct Full { char c[32752]; };
__global__ void full(Full f, float *p) { p[threadIdx.x] = f.c[threadIdx.x]; }
"""


class Lines(Case):
    def show(self, *arguments, code=0):
        done = self.run_(mt_cc(), "--show", *arguments, code=code)
        return shlex.split(done.stdout), done.stderr

    def middle(self, *arguments):
        """What is between mt-cc's own flags at the front and at the end, for link-only and compile-only calls."""
        words, _ = self.show(*arguments)
        end = words.index("-idirafter") if "-idirafter" in words else len(words)
        own = ("-Qunused-arguments", "-Wno-unknown-cuda", "-Wno-register", "-D__CUDA_ARCH_LIST__", "-Wno-error=", "--cuda-path=", "-fplugin=", "-fplugin-arg-memtrace-gpu-trace=off", "--cuda-gpu-arch=")
        level = {i + k for i in range(end - 1) if words[i : i + 2] == ["-Xarch_device", "-O3"] for k in (0, 1)}  # see test_device_level
        return [w for i, w in enumerate(words[:end])
                if i > 0 and i not in level and not w.startswith(own) and "-isystem" not in (w, words[i - 1])]

    def archs(self, *arguments):
        return [w.removeprefix("--cuda-gpu-arch=") for w in self.show(*arguments, "k.cu")[0] if "gpu-arch" in w]

    def test_compile_and_link(self):
        words, notes = self.show("k.cu", "-o", "my app")
        self.assertEqual(words[0], "clang++-19")
        for word in (f"--cuda-path={world.overlay().rstrip('/')}", "--cuda-gpu-arch=sm_90", "-Wno-unknown-cuda-version",
                     f"-fplugin={world.build}/lib/libMemtrace-AA.so", f"{world.build}/lib/libmemtrace.so", "my app"):
            self.assertIn(os.path.realpath(word) if word.startswith("/") else word, words)
        self.assertEqual(notes.count("note:"), 1)  # see below

    def test_traces_on_a_gpu(self):
        """Their code is made if the command names an architecture, or if there is a GPU (MEMTRACE_DEVICE stands for one); what is left out is said
        by --show only."""
        off, named = "-fplugin-arg-memtrace-gpu-trace=off", "--mt-gpu-trace=on"
        for left, device, words in ((1, "cpu", "-c k.cu"), (1, "cpu", "-arch=native k.cu"), (1, "cpu", "-rdc=true a.cu b.cpp"), (0, "gpu", "-c k.cu"),
                                    (0, "cpu", "-arch=sm_80 k.cu"), (0, "cpu", "-gencode arch=compute_80,code=sm_80 k.cu"), (0, "cpu", "-c k.cpp"),
                                    (0, "cpu", "--offload-arch=sm_90 k.cu"), (0, "cpu", f"{named} k.cu"), (0, "cpu", "--plain k.cu")):
            done = self.run_(mt_cc(), "--show", *shlex.split(words), MEMTRACE_DEVICE=device)
            self.assertEqual((off in done.stdout, named in done.stderr), (bool(left), bool(left)), words)
            self.assertEqual(named in self.run_(mt_cc(), "-q", "--show", *shlex.split(words), MEMTRACE_DEVICE=device).stderr, False)
        self.assertEqual(self.show("--mt-gpu-trace=off", "k.cu")[0].count(off), 1)

    def test_no_link_flags_without_link(self):
        for option in ("-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "-dc", "--ptx", "-cubin"):
            self.assertFalse([w for w in self.show(option, "k.cu")[0] if w.endswith("libmemtrace.so")], option)
        self.assertTrue([w for w in self.show("-MD", "k.cu")[0] if w.endswith("libmemtrace.so")])

    def test_no_compile_flags_for_links(self):
        words, _ = self.show("a.o", "b.a", "-lcublas", "-o", "app.cu")
        self.assertFalse([w for w in words if w.startswith(("-fplugin", "--cuda", "-idirafter"))])
        self.assertIn(f"{os.path.realpath(world.build)}/lib/libmemtrace.so", words)

    def test_values_are_no_files(self):
        words, _ = self.show("-c", "-MF", "x.cu", "-include", "y.cu", "-D", "z.cu", "main.cpp")
        self.assertFalse([w for w in words if w.startswith("--cuda")])

    def test_c_stays_c(self):
        self.assertEqual(self.middle("-c", "a.c", "b.cpp"), ["-c", "-x", "c", "a.c", "-x", "none", "b.cpp"])
        self.assertEqual(self.middle("-c", "a.c"), ["-c", "-x", "c", "a.c"])
        self.assertEqual(self.middle("-c", "-x", "cu", "a.c", "b.txt"), ["-c", "-x", "cuda", "a.c", "b.txt"])

    def test_c_has_no_cxx_standard(self):
        self.assertEqual(self.middle("-std=c++17", "-c", "a.c"), ["-c", "-x", "c", "a.c"])
        self.assertEqual(self.middle("-std=c++17", "-c", "-x", "c", "a.txt"), ["-c", "-x", "c", "a.txt"])
        self.assertEqual(self.middle("-std=c11", "-c", "a.c"), ["-std=c11", "-c", "-x", "c", "a.c"])
        text = self.run_(mt_cc(), "--show", "-std=gnu++20", "-O2", "b.cu", "a.c", "x.o", "-lm", "-o", "app").stdout
        first, second = (shlex.split(line) for line in text.splitlines())
        self.assertNotIn("-std=gnu++20", first)
        for word in ("-O2", "a.c", "-c"):
            self.assertIn(word, first)
        for word in ("b.cu", "x.o", "app"):
            self.assertNotIn(word, first)
            self.assertIn(word, second)
        self.assertIn("-std=gnu++20", second)
        self.assertNotIn("a.c", second)
        self.assertIn(first[first.index("-o") + 1], second)

    def test_driver_and_toolkit_headers_are_left_out(self):
        for library in ("-lcuda", "-l cuda", "/x/stubs/libcuda.so", "/x/libcuda.so.1"):
            self.assertEqual(self.middle("a.o", *library.split(), "-lcudadevrt")[:2], ["a.o", "-lcudadevrt"], library)
        toolkit = os.path.realpath(overlay("include/mt-toolkit"))
        self.assertEqual(self.middle("-c", "-I" + toolkit, "-I", toolkit + "/.", "-Iinc", "k.cu"), ["-c", "-Iinc", "k.cu"])

    def test_language_ends_before_the_runtime(self):
        words, _ = self.show("-x", "cu", "a.txt")
        self.assertEqual(words[words.index(f"{os.path.realpath(world.build)}/lib/libmemtrace.so") - 2 :][:2], ["-x", "none"])

    def test_architectures(self):
        self.assertEqual(self.archs(), ["sm_90"])
        self.assertEqual(self.archs("-arch=sm_80"), ["sm_80"])
        self.assertEqual(self.archs("-arch", "compute_86"), ["sm_86"])
        self.assertEqual(self.archs("--gpu-architecture=sm_90a"), ["sm_90a"])
        self.assertEqual(self.archs("--cuda-gpu-arch=sm_80", "--offload-arch=sm_89"), ["sm_80", "sm_89"])
        self.assertEqual(self.archs("-gencode", "arch=compute_80,code=sm_80", "-gencode=arch=compute_86,code=sm_86",
                                    "--generate-code=arch=compute_86,code=compute_86"), ["sm_80", "sm_86"])
        self.assertEqual(self.archs("-gencode", 'arch=compute_80,code="sm_80,compute_80"'), ["sm_80"])
        self.assertEqual(self.archs("-gencode", "arch=compute_80,code=[sm_80,sm_87]"), ["sm_80", "sm_87"])
        self.assertEqual(self.archs("--compute-capability", "8.6"), ["sm_86"])
        self.assertEqual(self.archs("--compute-capability=80"), ["sm_80"])
        self.assertEqual(self.archs("-arch=native"), ["sm_90"])

    def test_device_level(self):
        """As nvcc: device code is optimised unless the command says otherwise, the host's is as it says."""
        for words in ("k.cu", "-c -g k.cu", "-dc k.cu", "-ptx k.cu", "-E k.cu", "-lineinfo k.cu", "-G -dopt on k.cu", "-Xcompiler -O0 k.cu",
                      "-Xarch_host -O1 k.cu", "-x cu k.txt", "--plain k.cu", "-rdc=true -c a.cu", "-o -Ofile k.cu", "-Xptxas -v k.cu"):
            line, _ = self.show(*shlex.split(words))
            self.assertEqual(line.count("-Xarch_device") - ("-lineinfo" in words), 1, words)
            self.assertEqual(line[line.index("-O3") - 1], "-Xarch_device", words)
        for words in ("-O0 k.cu", "-O k.cu", "-O1 -g k.cu", "-Xarch_device -O1 k.cu", "-G k.cu", "--device-debug k.cu", "-O3 k.cu", "--optimize 2 k.cu",
                      "-c a.cpp", "-c a.c", "k.o -o app"):
            line, _ = self.show(*shlex.split(words))
            self.assertNotIn(["-Xarch_device", "-O3"], [line[i : i + 2] for i in range(len(line))], words)

    def test_unknown_architectures_are_replaced_aloud(self):
        words, notes = self.show("-arch=sm_120", "k.cu")
        self.assertIn("--cuda-gpu-arch=sm_90", words)
        self.assertIn("sm_120", notes)
        lowest = self.archs("-arch=sm_20")
        self.assertIn(lowest, (["sm_75"], ["sm_50"], ["sm_35"]))  # CUDA 13, 12, 11

    def test_nvcc_options(self):
        for given, made in {
            "-Xcompiler -fPIC": ["-fPIC"],
            "-Xcompiler=-Wall,-fPIC": ["-Wall", "-fPIC"],
            "--compiler-options '-O2 -march=native'": ["-Xarch_host", "-O2", "-Xarch_host", "-march=native"],
            "-Xcompiler '\"-Wl,-rpath,/a b\"'": ["-Wl,-rpath,/a b"],
            "-Xcompiler -DX=1\\\\,2": ["-DX=1,2"],
            "-Xlinker -rpath,/x": ["-Xlinker", "-rpath", "-Xlinker", "/x"],
            "-Xptxas -v,-O3": ["-Xcuda-ptxas", "-v", "-Xcuda-ptxas", "-O3"],
            "--ptxas-options=-v": ["-Xcuda-ptxas", "-v"],
            "-maxrregcount=32": ["-Xcuda-ptxas", "-maxrregcount=32"],
            "-G": ["-g", "--cuda-noopt-device-debug"],
            "-lineinfo": ["-Xarch_device", "-gline-tables-only"],
            "-rdc=true": ["-fgpu-rdc"],
            "-rdc=false": ["-fno-gpu-rdc"],
            "--relocatable-device-code true": ["-fgpu-rdc"],
            "-std c++17": ["-std=c++17"],
            "-std=c++17": ["-std=c++17"],
            "--expt-relaxed-constexpr --extended-lambda": ["-DMT_CUDA_RELAXED_CONSTEXPR", "-DMT_CUDA_EXTENDED_LAMBDA"],
            "--restrict -Wno-deprecated-gpu-targets -time t.csv --fdevice-time-trace x -jtd 50": [],
            "-compress-mode=size": ["-Xcuda-fatbinary", "--compress-mode=size"],
            "-rdc=true --offload-new-driver": ["-fgpu-rdc"],
            "-ccbin g++-12": [],
            "-ccbin=g++": [],
            "-cudart shared": [],
            "-Xcudafe --diag_suppress=1": [],
            "--threads 4": [],
            "--default-stream per-thread": ["-Xclang", "-fgpu-default-stream=per-thread",
                                            "-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1"],
            "-O3 -g -Wall -Iinc -lfoo": ["-O3", "-g", "-Wall", "-Iinc", "-lfoo"],
        }.items():
            with self.subTest(given=given):
                self.assertEqual(self.middle("-c", *shlex.split(given), "k.cu"), ["-c", *made, "k.cu"])

    def test_notes_on_what_was_dropped(self):
        _, notes = self.show("-ccbin", "g++", "--restrict", "-std=c++14", "-c", "k.cu")
        self.assertIn("-ccbin g++ dropped", notes)
        self.assertIn("--restrict dropped", notes)
        self.assertNotIn("c++14", notes)

    def test_arithmetic(self):
        """clang's words for nvcc's; test_fast_math.py has what they do."""
        fast = ["-Xarch_device", "-fgpu-approx-transcendentals", "-Xarch_device", "-fgpu-flush-denormals-to-zero", "-mllvm",
                "-nvptx-prec-divf32=0", "-mllvm", "-nvptx-prec-sqrtf32=0", "-DMT_CUDA_APPROX_SQRT"]
        for given, made in {"--use_fast_math": fast, "-use_fast_math -fmad=true": [*fast[:4], "-Xarch_device", "-ffp-contract=fast",
                                                                                   *fast[4:]],
                            "-prec-sqrt=true -ftz=false --use_fast_math": [*fast[:2], *fast[4:6]],
                            "-fmad=false": ["-Xarch_device", "-ffp-contract=off"], "-ftz true": fast[2:4], "-prec-sqrt=false": fast[6:],
                            "--prec-div=false": ["-mllvm", "-nvptx-prec-divf32=1"], "-prec-div=true": []}.items():
            self.assertEqual(self.middle(*given.split(), "-c", "k.cu"), [*made, "-c", "k.cu"], given)
        self.assertEqual(self.middle("--use_fast_math", "a.o"), self.middle("a.o"))

    def test_plugin_options(self):
        words, _ = self.show("--mt-kernels=^a|b c$", "--mt-only=loads,stores", "--mt-exclude=x", "-c", "k.cu")
        for word in ("-fplugin-arg-memtrace-kernels=^a|b c$", "-fplugin-arg-memtrace-only=loads,stores",
                     "-fplugin-arg-memtrace-exclude=x"):
            self.assertIn(word, words)
        self.assertFalse([w for w in self.show("--plain", "--mt-only=loads", "-c", "k.cu")[0] if "-fplugin" in w])

    def test_nvidias_runtime_is_left_out(self):
        for library in ("-lcudart", "-lcudart_static", "-l cudart", "/x/libcudart.so", "/x/libcudart.so.13",
                        "/x/libcudart_static.a"):
            self.assertEqual(self.middle("a.o", *library.split(), "-lcudadevrt")[:2], ["a.o", "-lcudadevrt"], library)

    def test_own_flags_given_by_others(self):
        plugin = f"-fplugin={os.path.realpath(world.build)}/lib/libMemtrace-AA.so"
        words, _ = self.show("--cuda-path=/usr/local/cuda", plugin, "-c", "k.cu")
        self.assertEqual(words.count(plugin), 1)
        self.assertNotIn("--cuda-path=/usr/local/cuda", words)

    def test_wrong_usage(self):
        self.assertIn("did you mean --mt-kernels?", self.run_(mt_cc(), "--mt-kernel=x", "k.cu", code=2).stderr)
        for option in ("-fatbin", "-cuda"):
            self.assertIn("-c", self.run_(mt_cc(), option, "k.cu", code=2).stderr)
        self.assertIn("needs a value", self.run_(mt_cc(), "k.cu", "-arch", code=2).stderr)
        self.assertIn("--help", self.run_(mt_cc(), code=2).stderr)

    def test_what_a_terminal_could_obey(self):
        name = "no\x1b[31mne\u202e"
        for line in ([mt_cc(), "--mt-kernel=" + name, "k.cu"], [mt_cc(), "-optf", name], [os.path.join(os.path.dirname(mt_cc()), "memtrace"), "run", name]):
            self.assertIn("no\\x1b[31mne\\xe2\\x80\\xae", self.run_(*line, code=2).stderr)

    def test_help_and_version(self):
        text = self.run_(mt_cc(), "--help").stdout
        with open(os.path.join(world.source, "docs", "man", "mt-cc.md"), encoding="utf-8") as f:
            manual = f.read()
        for word in text.split():
            if word.startswith("--"):
                self.assertIn(re.match("--[a-z-]+", word)[0], manual)
        self.assertIn("Cuda compilation tools", self.run_(mt_cc(), "--version").stdout)

    def test_no_overlay(self):
        import shutil

        os.makedirs(self.path("tree/bin"))
        shutil.copy(mt_cc(), self.path("tree/bin/mt-cc"))
        done = self.run_(self.path("tree/bin/mt-cc"), "k.cu", code=1)
        self.assertIn("mt-overlay", done.stderr)

    def test_compiler_missing(self):
        self.write("a.cpp", "int main() {}\n")
        done = self.run_(mt_cc(), "--plain", "-c", "a.cpp", code=1, MEMTRACE_CLANG="/no/clang")
        self.assertIn("MEMTRACE_CLANG", done.stderr)


class Programs(Case):
    headers_once = True

    def setUp(self):
        super().setUp()
        world.need_runtime(self)

    def mt_cc(self, *arguments, **more):
        done = self.run_(mt_cc(), *arguments, **more)
        self.assertNotIn("warning", done.stderr)
        return done

    def test_one_command(self):
        self.write("k.cu", PROGRAM)
        self.mt_cc("-O2", "k.cu", "-o", "app")
        self.assertEqual(self.run_("./app").stdout, PROGRAM_SUM)
        self.assertEqual(self.records(), PROGRAM_RECORDS)
        self.check_no_temporaries()

    def test_plain_has_no_image(self):
        self.write("k.cu", PROGRAM)
        self.mt_cc("--plain", "-O2", "-c", "k.cu")
        self.assertNotIn(b"MTCPUIM1", self.read("k.o"))
        self.mt_cc("k.o", "-o", "app")
        # No code for the CPU device: it is made of the PTX at run time, as of another compiler's.
        self.assertEqual(self.run_("./app", MEMTRACE_CACHE=self.path("cache")).stdout, PROGRAM_SUM)
        self.assertEqual(self.records(), PROGRAM_RECORDS)
        for name in os.listdir(self.work):
            if name.startswith("MemTrace"):
                os.remove(self.path(name))
        self.mt_cc("-O2", "k.cu", "-o", "app")
        self.assertEqual(self.run_("./app", MEMTRACE_ENABLE="0").stdout, PROGRAM_SUM)
        self.assertFalse([name for name in os.listdir(self.work) if name.startswith("MemTrace")])

    def test_device_code_is_optimised(self):
        """Of two stores to one place the optimiser leaves one."""
        self.write("k.cu", "__global__ void twice(int *y) { y[threadIdx.x] = 1; y[threadIdx.x] = 2; }\n"
                           "int main() { int *y; cudaMalloc(&y, 128); twice<<<1, 32>>>(y); return cudaDeviceSynchronize(); }\n")
        for flags, records in (([], 32), (["-g"], 32), (["-O0"], 64), (["-G"], 64)):
            self.mt_cc(*flags, "k.cu", "-o", "app")
            self.run_("./app")
            self.assertEqual(self.records(), records, flags)

    def test_one_path_for_a_file(self):
        """Host and device sites of a source that the command names by a way round are in one file."""
        self.write("k.cu", PROGRAM)
        self.write("sub/other", "")
        self.mt_cc("--host", "-O1", "sub/../k.cu", "-o", "app")
        self.run_("./app", MEMTRACE_FORMAT="compact")
        events = [json.loads(line) for line in self.read("MemTrace-pipe-0.mtc.meta").decode().splitlines()]
        files = {e["file"] for e in events if e.get("file")}
        host = self.run_(os.path.join(world.build, "bin", "mt-dump"), "--sites", "MemTrace-host.mtc").stdout
        self.assertEqual({os.path.realpath(f) for f in files}, {os.path.realpath(self.path("k.cu"))})
        self.assertFalse([f for f in files if "/../" in f])
        self.assertIn("k.cu:", host)
        self.assertNotIn("/../", host)

    def test_mixture_of_languages(self):
        self.write("k.cu", PROGRAM.replace("int main()", 'extern "C" int run()'))
        self.write("b.c", "int run(void); int helper(void); int main(void) { int class = helper(); return run() + class - 1; }\n")
        self.write("c.cpp", '#include <cuda_runtime.h>\nextern "C" int helper() { return cudaSuccess + 1; }\n')
        self.mt_cc("-O1", "-g", "k.cu", "b.c", "c.cpp", "-o", "app")
        self.assertEqual(self.run_("./app").stdout, PROGRAM_SUM)
        self.assertEqual(self.records(), PROGRAM_RECORDS)

    def test_mixture_with_a_cxx_standard(self):
        self.write("k.cu", PROGRAM.replace("int main()", "template <auto N> int half() { return N / 2; }\nint main()"))
        self.write("b.c", "int helper(void) { int class = 1; return class; }\n")
        self.mt_cc("-std=c++17", "k.cu", "b.c", "-o", "app")
        self.assertEqual(self.run_("./app").stdout, PROGRAM_SUM)
        self.mt_cc("-std=c++17", "-c", "k.cu", "b.c")
        self.mt_cc("k.o", "b.o", "-o", "app")
        self.write("b.c", "int helper(void) { return }\n")
        self.run_(mt_cc(), "-std=c++17", "k.cu", "b.c", "-o", "app2", code=1)
        self.assertFalse(os.path.exists(self.path("app2")))
        self.check_no_temporaries()

    def test_processors(self):
        """The CPU device's code is for the processor named, or for this one; what cannot be is said."""
        self.write("k.cu", PROGRAM.replace("*out, int n)", "*out, int n, float *f = 0)")
                   .replace("if (i < n) out", "if (f) f[i] = f[i] * 3.f + f[i + 1];\n    if (i < n) out"))
        for name in ("native", "haswell", "x86-64-v3"):
            self.mt_cc("-O2", f"--mt-cpu={name}", "k.cu", "-o", "app")
            self.assertEqual(self.run_("./app", MEMTRACE_DEVICE="cpu").stdout, PROGRAM_SUM)
            self.assertEqual(self.records(), PROGRAM_RECORDS)
        self.mt_cc("--mt-cpu=skylake-avx512", "k.cu", "-o", "app")
        self.assertIn(b"skylake-avx512 (x86-64-v4)", self.read("app"))  # what the runtime asks this processor for
        self.mt_cc("--mt-cpu=znver3", "k.cu", "-o", "app")
        self.assertIn(b"znver3 (x86-64-v3)", self.read("app"))
        for name, word in (("pentium-of-tomorrow", "knows no such"), ("core2", "AVX2"), ("x86-64-v2", "AVX2")):
            done = self.run_(mt_cc(), f"--mt-cpu={name}", "k.cu", "-o", "none", code=1)
            self.assertEqual(done.stderr.count("error: "), 1)
            self.assertIn(f"cpu={name}: ", done.stderr)
            self.assertIn(word, done.stderr)
            self.assertNotIn("recognized processor", done.stderr)
        self.assertFalse(os.path.exists(self.path("none")))

    def test_driver_library(self):
        self.write("k.cu", PROGRAM)
        self.mt_cc("k.cu", "-lcuda", "-o", "app")
        self.assertEqual(self.run_("./app").stdout, PROGRAM_SUM)
        self.mt_cc("-c", "k.cu")
        self.run_("gcc", "k.o", "-o", "app", f"-L{overlay('lib64')}", "-lcuda", "-lcudart", "-lstdc++")
        needed = self.run_("readelf", "-d", "app").stdout
        self.assertIn("libmemtrace.so]", needed)
        self.assertNotIn("libcuda", needed)
        self.assertEqual(self.run_("./app").stdout, PROGRAM_SUM)
        self.write("d.cu", "#include <cuda.h>\nint main() { return cuInit(0); }\n")
        self.mt_cc("d.cu", "-lcuda", "-o", "d")
        self.run_("./d")

    def test_openmp(self):
        self.write("k.cu", PROGRAM.replace("    for (int i = 0; i < n; i++) sum",
                                           "#pragma omp parallel for reduction(+:sum) num_threads(2)\n"
                                           "    for (int i = 0; i < n; i++) sum")
                   .replace("#include", "#include <omp.h>\n#include", 1)
                   .replace("return cuda", "return omp_get_max_threads() < 1 || cuda"))
        for option in (["-fopenmp"], ["-Xcompiler", "-fopenmp"]):
            self.mt_cc("-O2", *option, "k.cu", "-o", "app")
            self.assertIn("libomp", self.run_("readelf", "-d", "app").stdout)
            self.assertEqual(self.run_("./app").stdout, PROGRAM_SUM)
            self.assertEqual(self.records(), PROGRAM_RECORDS)

    def test_objects_then_link(self):
        self.write("k.cu", PROGRAM)
        self.mt_cc("-O2", "-c", "-arch=sm_80", "-lineinfo", "--expt-relaxed-constexpr", "k.cu", "-o", "k.o")
        for cudart in ([], ["-lcudart"], ["-lcudart_static", "-ldl", "-lrt", "-lpthread"]):
            self.mt_cc("k.o", *cudart, "-o", "app")
            needed = self.run_("readelf", "-d", "app").stdout
            self.assertEqual(needed.count("libmemtrace.so]"), 1)
            self.assertNotIn("libcudart", needed)
            self.assertEqual(self.run_("./app").stdout, PROGRAM_SUM)

    def test_filter(self):
        self.write("k.cu", PROGRAM)
        self.mt_cc("--mt-only=stores", "k.cu", "-o", "app")
        self.run_("./app")
        self.assertEqual(self.records(), PROGRAM_RECORDS // 2)


class Refused(Case):
    """Kernels that would not compile with record calls on a GPU compile, without them, and it is said."""

    headers_once = True

    def test_refused_on_gpu(self):
        world.need_runtime(self)
        for name, source, arch, why in (("registers.cu", SETS_REGISTERS, "sm_90a", "it sets the number of its registers"),
                                        ("full.cu", FULL, "sm_90", "its parameters leave no room for one more")):
            self.write(name, source)
            done = self.run_(mt_cc(), "--cuda-gpu-arch=" + arch, "-O2", "-c", name, "-o", name + ".o")
            self.assertIn("runs on a GPU without a trace: " + why, done.stderr)
