"""mt-cc takes what nvcc takes: its options by its own help text, its macros and files, beside the real one where there is
one."""
import os
import re
import shlex

import world
from world import Case, PROGRAM, PROGRAM_RECORDS, PROGRAM_SUM, overlay

# Values that the options of nvcc's help take, where "2" is not one.
VALUES = {"output-file": "out.o", "pre-include": "h.h", "cudart": "shared", "optimize": "3", "std": "c++17", "x": "cu", "machine": "64",
          "gpu-architecture": "sm_80", "gpu-code": "sm_80", "generate-code": "arch=compute_80,code=sm_80",
          "relocatable-device-code": "true", "default-stream": "per-thread", "Werror": "all-warnings", "compress-mode": "size",
          "options-file": "more.opt", "define-macro": "A=1,B=2", "ftz": "true", "prec-div": "false", "prec-sqrt": "false",
          "fmad": "false", "optimization-info": "inline", "compiler-options": "-Wall,-fPIC", "linker-options": "-rpath,/x",
          "ptxas-options": "-v", "brief-diagnostics": "true", "dopt": "on", "dependency-output": "k.d",
          "dependency-target-name": "k.o"}
# These have no value in brackets in the help text, but take one; and the other way round.
TAKES = {"entries"}
MACROS = ["__CUDACC_EXTENDED_LAMBDA__", "__CUDACC_RELAXED_CONSTEXPR__", "__CUDA_ARCH_LIST__", "__CUDACC__", "__NVCC__",
          "__CUDACC_VER_MAJOR__", "__CUDACC_VER_MINOR__", "__CUDA_ARCH__"]
OLD_C = """
/* A compiler of 2022 warns. */
int later(void *p) { return *(char *)p; }
int main(argc, argv) int argc; char **argv;
{
    int class = undeclared(3), *ip = 5, new = 1;
    char *text = "x";
    unsigned *up = ip;
    return class + (up == 0) + new - later(text) - 3 + 'x' - 1;
}
int undeclared(int a) { return a; }
"""


def mt_cc():
    return os.path.join(world.build, "bin", "mt-cc")


def nvcc():
    """The toolkit's own, or NULL."""
    path = os.path.join(os.path.dirname(os.path.realpath(overlay("bin/real/ptxas"))), "nvcc")
    return path if os.path.exists(path) else None


class Options(Case):
    def show(self, *words, code=0):
        done = self.run_(mt_cc(), "--show", *words, code=code)
        return [shlex.split(line) for line in done.stdout.splitlines()], done.stderr

    def setUp(self):
        super().setUp()
        world.need_runtime(self)
        self.write("k.cu", PROGRAM)

    def help_options(self):
        """(long name, short name, takes a value) of each option in nvcc's help."""
        if not nvcc():
            self.skipTest("the toolkit has no nvcc")
        for line in self.run_(nvcc(), "--help").stdout.splitlines():
            found = re.match(r"--([\w-]+)( .*?)?\s+(?:\((-[\w-]+)\)|--no-align-double)\s*$", line)
            if found:
                value = bool(found[2] and re.search(r"[<{\[]", found[2])) or found[1] in TAKES
                yield found[1], found[3], value

    def test_every_option_of_the_help(self):
        """Taken, in both spellings, into a command that clang's driver finds no fault with; or refused with a reason."""
        self.write("h.h", "")
        self.write("more.opt", "-DMORE")
        answers = {"version", "list-gpu-code", "list-gpu-arch", "help"}
        seen, refused = 0, set()
        for long, short, takes in self.help_options():
            value = VALUES.get(long, "2")
            spellings = [[f"--{long}={value}"], [f"--{long}", value]] if takes else [[f"--{long}"]]
            if short:
                spellings.append([short, value] if takes else [short])
            for words in spellings:
                seen += 1
                if long in answers:
                    continue  # test_questions
                done = self.run_(mt_cc(), "--show", *words, "-c", "k.cu", code=None)
                if done.returncode == 2:
                    self.assertRegex(done.stderr, r"is not supported: \S+ \S+ \S+", words)
                    refused.add(long)
                    continue
                self.assertEqual(done.returncode, 0, (words, done.stderr))
                line = shlex.split(done.stdout.splitlines()[-1])
                self.assertTrue(words[0] in line or done.stderr or long == "options-file", words)
                checked = self.run_(line[0], "-###", *line[1:], code=None)
                self.assertNotIn("error:", checked.stderr, (words, line))
        self.assertGreater(seen, 250)
        self.assertEqual(refused, {"cuda", "fatbin", "optix-ir", "ltoir", "lib", "run", "run-args", "clean-targets",
                                   "fdevice-syntax-only", "output-directory", "compile-as-tools-patch", "sanitize",
                                   "entries",  # its short name alone
                                   "host-linker-script", "augment-host-linker-script"})

    def test_questions(self):
        for option in ("--version", "-V"):
            text = self.run_(mt_cc(), "-O2", option).stdout
            self.assertRegex(text, r"(?m)^clang version 19\.")
            self.assertRegex(text, r"release \d+\.\d+, V\d+\.\d+\.\d+")
        listed = self.run_(mt_cc(), "--list-gpu-code").stdout.split()
        self.assertEqual([name.replace("sm_", "compute_") for name in listed], self.run_(mt_cc(), "-arch-ls").stdout.split())
        self.assertIn("sm_90", listed)
        if nvcc():
            self.assertLessEqual(set(listed), set(self.run_(nvcc(), "-code-ls").stdout.split()))
        self.assertIn("#$ TOP=" + os.path.realpath(overlay()).rstrip("/"), self.run_(mt_cc(), "-v", "-c", "k.cu").stderr)

    def test_options_files(self):
        self.write("a.opt", '-O2 "-DX=a b"\n -DY=\\"s\\"\t-I"inc dir"\n')
        self.write("b.opt", "--options-file c.opt -DB\n")
        self.write("c.opt", "-DC")
        for words in (["-optf", "a.opt,b.opt"], ["--options-file=a.opt,b.opt"], ["-optf=a.opt", "--options-file", "b.opt"],
                      ["@a.opt", "@b.opt"]):
            (line,), _ = self.show(*words, "-c", "k.cu")
            at = line.index("-O2")
            self.assertEqual(line[at : at + 6], ["-O2", "-DX=a b", '-DY="s"', "-Iinc dir", "-DC", "-DB"], words)
        self.assertIn("nofile", self.show("-optf", "nofile", "k.cu", code=2)[1])
        self.assertIn("@nofile", self.show("-c", "@nofile", "k.cu")[0][0])
        self.write("self.opt", "-optf self.opt")
        self.assertIn("too many", self.show("-optf", "self.opt", "k.cu", code=2)[1])
        if nvcc():  # the same words
            line = self.run_(nvcc(), "--dryrun", "-optf", "a.opt", "-c", "-x", "c++", "k.cu").stderr
            self.assertIn('-D "X=a b"', line)

    def test_werror(self):
        for words, made in ((["-Werror", "all-warnings"], ["-Werror"]), (["-Werror=all-warnings"], ["-Werror"]),
                            (["--Werror", "reorder,deprecated-declarations"], ["-Werror=reorder", "-Werror=deprecated-declarations"]),
                            (["-Werror=cross-execution-space-call"], []), (["-Werror"], ["-Werror"]),
                            (["-Werror=shadow"], ["-Werror=shadow"]), (["-Werror", "default-stream-launch,reorder"], ["-Werror=reorder"])):
            (line,), _ = self.show(*words, "-c", "k.cu")
            self.assertEqual([w for w in line if w.startswith("-Werror")], made, words)
            self.assertIn("k.cu", line)

    def test_unknown_options_go_on(self):
        """As nvcc's dry run has it: to the compiler as they are, to the linker after -Xlinker."""
        for option, compiler, linker in (("-forward-unknown-to-host-compiler", 1, 0), ("--forward-unknown-to-host-linker", 0, 1),
                                         ("-forward-unknown-to-host-linker", 0, 1), ("--forward-unknown-opts", 1, 1),
                                         ("-forward-unknown-opts", 1, 1)):
            (line,), _ = self.show("-ffoo=bar", option, "-O2", "-Iinc", "-o", "app", "k.cu")
            (compile_only,), _ = self.show(option, "-ffoo=bar", "-c", "k.cu")
            behind = [w for i, w in enumerate(line) if line[i - 1] == "-Xlinker"]
            self.assertEqual(behind, ["-ffoo=bar"] * linker, option)
            self.assertEqual(line.count("-ffoo=bar"), compiler + linker, option)
            self.assertEqual(compile_only.count("-ffoo=bar"), compiler, option)
            self.assertTrue({"-O2", "-Iinc", "k.cu"} < set(line))

    def test_levels(self):
        for words, made in ((["-O", "3"], "-O3"), (["--optimize=2"], "-O2"), (["-O2"], "-O2"), (["-O"], "-O"), (["-Ofast"], "-Ofast")):
            (line,), _ = self.show(*words, "-c", "k.cu")
            self.assertEqual([w for w in line if w.startswith("-O")], [made])
        self.assertIn("--cuda-noopt-device-debug", self.show("-G", "-c", "k.cu")[0][0])
        self.assertIn("--no-cuda-noopt-device-debug", self.show("-dopt=on", "-G", "-c", "k.cu")[0][0])

    def test_device_link_or_not(self):
        self.assertGreater(len(self.show("-rdc=true", "k.cu")[0]), 2)
        self.assertEqual(len(self.show("-rdc=true", "-nodlink", "k.cu")[0]), 1)
        (line,), _ = self.show("-r", "a.o", "b.o", "-o", "c.o")
        self.assertFalse([w for w in line if "libmemtrace" in w])

    def test_as_the_overlays_nvcc(self):
        """By the name and the place at which make files and build systems look for it."""
        self.run_(overlay("bin/nvcc"), "-ccbin", "g++", "-m64", "--threads", "0", "--std=c++14", "-gencode",
                  "arch=compute_80,code=sm_80", "-I" + overlay("include"), "-c", "k.cu", "-o", "k.o")
        self.run_(overlay("bin/nvcc"), "-m64", "-gencode", "arch=compute_80,code=sm_80", "k.o", "-o", "app", "-L" + overlay("lib64"),
                  "-lcuda")
        self.assertEqual(self.run_("./app", MEMTRACE_DEVICE="cpu").stdout, PROGRAM_SUM)
        self.assertEqual(self.records(), PROGRAM_RECORDS)

    def test_values_are_no_options(self):
        """What goes to the linker or to ptxas does not change what mt-cc does."""
        (line,), _ = self.show("k.cu", "-Xlinker", "-E,-r,-M", "-Xptxas", "-c,-v")
        self.assertTrue([w for w in line if "libmemtrace.so" in w])
        self.assertNotIn("--cuda-device-only", line)
        self.assertNotIn("TOP=", self.run_(mt_cc(), "-c", "k.cu", "-Xptxas", "-v").stderr)

    def test_links_ignore_what_is_for_compiling(self):
        self.run_(mt_cc(), "-c", "k.cu")
        done = self.run_(mt_cc(), "-arch=sm_80", "-O3", "-lineinfo", "-G", "-use_fast_math", "--extended-lambda", "-Xptxas", "-v",
                         "-maxrregcount=32", "-Xcompiler", "-Wall,-march=native", "-std=c++17", "-compress-mode=size", "k.o",
                         "-o", "app")
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.run_("./app", MEMTRACE_DEVICE="cpu").stdout, PROGRAM_SUM)

    def sources_macros(self, compiler, source, *words):
        """Which of MACROS the compiler defines, with their values: found out by a file that it preprocesses."""
        text = "".join(f"#ifdef {m}\n@@{i} {m}\n#endif\n" for i, m in enumerate(MACROS))
        self.write(source, text)
        out = self.run_(compiler, "-E", *words, source).stdout
        return {MACROS[int(i)]: value.strip().replace(" ", "") for i, value in re.findall(r"@@ ?(\d+) ?(.*)", out)}

    def test_macros(self):
        archs = ["-gencode", "arch=compute_90,code=sm_90", "-gencode", "arch=compute_80,code=sm_80"]
        wanted = {"__CUDACC__": "1", "__NVCC__": "1", "__CUDA_ARCH_LIST__": "800,900"}
        for words in ([], ["--extended-lambda"], ["--expt-extended-lambda", "--expt-relaxed-constexpr"]):
            got = self.sources_macros(mt_cc(), "m.cu", *archs, *words)
            flags = {"__CUDACC_EXTENDED_LAMBDA__"} if words else set()
            flags |= {"__CUDACC_RELAXED_CONSTEXPR__"} if len(words) > 1 else set()
            self.assertEqual({m for m in got if "LAMBDA" in m or "CONSTEXPR" in m}, flags)
            self.assertEqual({m: got[m] for m in wanted}, wanted)
            # In files of other languages nvcc defines neither.
            other = self.sources_macros(mt_cc(), "m.cpp", *archs, *words)
            self.assertEqual(set(other) & flags, set())
            self.assertEqual(other["__CUDA_ARCH_LIST__"], "800,900")
        self.assertEqual(self.sources_macros(mt_cc(), "m.c")["__CUDA_ARCH_LIST__"], "900")
        if nvcc():
            for words in ([], ["--extended-lambda"], ["--expt-extended-lambda", "--expt-relaxed-constexpr", "-arch=sm_86"]):
                words = [*(archs if "-arch=sm_86" not in words else []), *words]
                ours, theirs = (self.sources_macros(c, "m.cu", *words) for c in (mt_cc(), nvcc()))
                ours["__CUDA_ARCH__"] = theirs["__CUDA_ARCH__"] = None  # of the first architecture: the order is ours
                self.assertEqual({**ours, "__NVCC__": ""}, {**theirs, "__NVCC__": ""})

    def test_lambdas_and_constexpr(self):
        """With the macros defined the toolkit's own headers ask for nvcc's built-in traits."""
        self.write("l.cu", "#include <thrust/device_vector.h>\n#include <thrust/transform_reduce.h>\n#include <cstdio>\n"
                           "#ifndef __CUDACC_EXTENDED_LAMBDA__\n#error\n#endif\n"
                           "constexpr int three() { return 3; }\ntemplate <class F> __global__ void k(F f, int *o) { *o = f(three()); }\n"
                           "int main()\n{\n    thrust::device_vector<int> v(100, 2);\n"
                           "    int s = thrust::transform_reduce(v.begin(), v.end(), [] __host__ __device__(int x) { return x * 3; }, 0,\n"
                           "                                     thrust::plus<int>());\n    int *o;\n    cudaMallocManaged(&o, 4);\n"
                           "    k<<<1, 1>>>([=] __device__(int x) { return x + s; }, o);\n    cudaDeviceSynchronize();\n"
                           "    printf(\"%d\\n\", *o);\n}\n")
        self.run_(mt_cc(), "-O1", "--mt-gpu-trace=off", "-std=c++17", "--extended-lambda", "--expt-relaxed-constexpr", "l.cu", "-o", "app")
        self.assertEqual(self.run_("./app", MEMTRACE_DEVICE="cpu").stdout, "603\n")


class Files(Case):
    """-E and -M, whose results are files that other programs read."""

    def setUp(self):
        super().setUp()
        world.need_runtime(self)
        self.write("device only.h", "__device__ int device_only;\n")
        self.write("host.h", "int host_only;\n")
        self.write("k.cu", '#ifdef __CUDA_ARCH__\n#include "device only.h"\n#else\n#include "host.h"\n#endif\n' + PROGRAM)

    def test_preprocess(self):
        for words in (["-E", "k.cu", "-o", "k.ii"], ["--preprocess", "-arch=sm_80", "-ok.ii", "k.cu"],
                      ["-E", "-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90", "k.cu", "-o", "k.ii"]):
            self.run_(mt_cc(), *words)
            text = self.read("k.ii").decode()
            self.assertIn("int device_only;", text)  # as nvcc: the device's side
            self.assertNotIn("int host_only;", text)
        self.assertIn("int host_only;", self.run_(mt_cc(), "-E", "--cuda-host-only", "k.cu").stdout)
        self.assertEqual(self.run_(mt_cc(), "-E", "k.cu").stdout.count("int main()"), 1)

    def rule(self, text):
        """Target and files of a make file with one rule."""
        target, files = text.replace("\\\n", " ").split(" : ", 1)
        self.assertEqual(files.count("\n"), 1)
        return target, [f.replace("\\ ", " ") for f in re.split(r"(?<!\\)\s+", files.strip())]

    def test_dependencies(self):
        for words in (["-M", "k.cu", "-o", "k.dep"], ["-MM", "-okd", "k.cu"], ["-M", "-MF", "k.dep", "k.cu"], ["-MM", "k.cu"],
                      ["--generate-dependencies", "k.cu", "-D__CUDACC__", "--output-file", "k.dep"]):
            out = self.run_(mt_cc(), *words).stdout
            text = out or self.read("kd" if "-okd" in words else "k.dep").decode()
            target, files = self.rule(text)
            self.assertEqual((target, files[0]), ("k.o", "k.cu"), words)
            self.assertTrue({"host.h", "device only.h"} <= set(files), words)
            self.assertEqual(len(files), len(set(files)))
            self.assertEqual(len(text.splitlines()), len(files), "a line for each file, as CMake's FindCUDA wants it")
            for f in files:
                self.assertTrue(os.path.exists(self.path(f)), f)
        if nvcc():
            theirs = self.rule(self.run_(nvcc(), "-MM", "k.cu").stdout)[1]
            mine = self.rule(self.run_(mt_cc(), "-MM", "k.cu").stdout)[1]
            self.assertLessEqual({f for f in theirs if not f.startswith("/")}, set(mine))
        self.run_(mt_cc(), "-M", "nothing.cu", "-o", "none.dep", code=1)
        self.assertFalse(os.path.exists(self.path("none.dep")))

    def test_target_name(self):
        self.assertEqual(self.rule(self.run_(mt_cc(), "-MM", "-MT", "dir/x.o", "k.cu").stdout)[0], "dir/x.o")


class HostC(Case):
    """.c files are the host C compiler's: what gcc takes with a warning is not an error."""

    def setUp(self):
        super().setUp()
        world.need_runtime(self)

    def test_old_c(self):
        self.write("old.c", OLD_C)
        self.run_(mt_cc(), "-w", "old.c", "-o", "app")
        self.assertEqual(self.run_("./app").returncode, 0)
        self.run_("gcc-12" if os.path.exists("/usr/bin/gcc-12") else "gcc", "-w", "-std=gnu17", "old.c", "-o", "gapp")
        self.assertEqual(self.run_("./gapp").returncode, 0)
        self.assertIn("warning: call to undeclared function", self.run_(mt_cc(), "-c", "old.c").stderr)

    def test_c_is_no_cxx(self):
        self.write("c.c", "#ifdef __cplusplus\n#error C++\n#endif\n#include <stdlib.h>\n"
                          "int *make(int n) { int *restrict p = malloc(n * sizeof *p); return p; }\n"
                          "typeof(int) value[3] = {[1] = 4};\nint main(void) { return value[1] - 4; }\n")
        self.run_(mt_cc(), "c.c", "-o", "app")
        self.run_("./app")

    def test_standards(self):
        """Each language's standard holds for its own files."""
        self.write("k.cu", PROGRAM.replace("int main()", 'template <auto N> int half() { return N / 2; }\nextern "C" int run()'))
        self.write("b.c", "#if __STDC_VERSION__ != 199901L || defined(__cplusplus)\n#error standard\n#endif\n"
                          "int run(void); int main(void) { return run(); }\n")
        self.run_(mt_cc(), "-std=c++17", "-Xcompiler", "-std=gnu99", "k.cu", "b.c", "-o", "app")
        self.assertEqual(self.run_("./app").stdout, PROGRAM_SUM)
        self.assertEqual(self.records(), PROGRAM_RECORDS)
        self.run_(mt_cc(), "-Xcompiler", "-std=c11", "-c", "k.cu")
