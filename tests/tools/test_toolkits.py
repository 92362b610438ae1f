"""mt-overlay, and the wrappers over made-up toolkits of several versions that write down how they were called."""
import os

import world
from world import Case, overlay, with_image

RECORDER = '#!/bin/sh\nprintf "%s\\n" "$@" >>"$0.log"\nexit ${RECORDER_CODE-0}\n'


class Toolkits(Case):
    def script(self):
        return os.path.join(world.source, "tools", "overlay", "mt-overlay")

    def wrapper(self):
        return os.path.join(world.build, "libexec", "memtrace", "mt-cudabin")

    def toolkit(self, version, **files):
        """A toolkit that is as small as can be."""
        self.write("cuda/include/cuda.h", f"#define CUDA_VERSION {version}\n")
        self.write("cuda/include/cuda_runtime_api.h", "")
        self.write("cuda/nvvm/libdevice/libdevice.10.bc", "")
        self.write("cuda/lib64/libcudart.so.1", "")
        self.write("cuda/lib64/libcudart_static.a", "")
        self.write("cuda/lib64/libcublas.so", "")
        for tool in ("ptxas", "fatbinary", "nvlink"):
            self.write("cuda/bin/" + tool, RECORDER, 0o755)
        for name, text in files.items():
            self.write(name, text)

    def make(self, *more, code=0):
        return self.run_(self.script(), "--cuda", "cuda", "--out", "the overlay", "--wrapper", self.wrapper(),
                         "--runtime", "/some where/libmemtrace.so", *more, code=code)

    def log(self, tool):
        return self.read(f"cuda/bin/{tool}.log").decode().splitlines()

    def test_layout(self):
        self.toolkit(13000)
        self.write("cuda/include/cccl/cub/cub.cuh", "")
        self.write("cuda/bin/nvcc", RECORDER, 0o755)
        self.make("--compiler", "/some where/mt-cc")
        self.assertEqual(os.readlink(self.path("the overlay/bin/nvcc")), "/some where/mt-cc")
        for name in ("bin/ptxas", "bin/fatbinary", "bin/nvlink", "bin/real/ptxas", "include/cuda.h", "include/cub/cub.cuh",
                     "include/texture_fetch_functions.h", "nvvm/libdevice/libdevice.10.bc", "lib64/libcublas.so",
                     "include/mt-toolkit/cuda.h", "include/curand_mtgp32_kernel.h"):
            self.assertTrue(os.path.exists(self.path("the overlay", name)), name)
        self.assertEqual(os.readlink(self.path("the overlay/lib/libcudart.so.1")), "/some where/libmemtrace.so")
        self.assertTrue(os.path.islink(self.path("the overlay/bin/nvlink")))
        self.assertFalse(os.path.islink(self.path("the overlay/bin/ptxas")))
        for name in ("libcudart.so", "libcudart_static.a", "libcuda.so"):
            self.assertIn('INPUT("/some where/libmemtrace.so")', self.read("the overlay/lib64/" + name).decode())
        marker = self.read("the overlay/bin/.memtrace-overlay").decode()
        self.assertEqual(marker, f"cuda={os.path.realpath(self.path('cuda'))}\nversion=13000\n"
                                 "runtime=/some where/libmemtrace.so\n")

    def test_toolkits_own_header_stays(self):
        self.toolkit(12040)
        self.write("cuda/include/texture_fetch_functions.h", "// NVIDIA's\n")
        self.make()
        self.assertEqual(self.read("the overlay/include/texture_fetch_functions.h"), b"// NVIDIA's\n")

    def test_made_again(self):
        self.toolkit(13000)
        self.write("cuda/lib64/libnppc.so", "")
        self.make()
        self.assertTrue(os.path.lexists(self.path("the overlay/lib64/libnppc.so")))
        os.unlink(self.path("cuda/lib64/libnppc.so"))
        self.make()
        self.assertFalse(os.path.lexists(self.path("the overlay/lib64/libnppc.so")))
        self.assertEqual([n for n in os.listdir(self.work) if "new" in n], [])

    def test_someone_elses_folder_is_not_replaced(self):
        self.toolkit(13000)
        self.write("the overlay/thesis.tex", "years of work")
        self.assertIn("is not an overlay", self.make(code=1).stderr)
        self.assertEqual(self.read("the overlay/thesis.tex"), b"years of work")

    def test_errors(self):
        self.assertIn("is not a CUDA toolkit", self.make(code=1).stderr)
        self.toolkit(13000)
        self.write("cuda/include/cuda.h", "")
        self.assertIn("CUDA_VERSION", self.make(code=1).stderr)
        self.assertIn("unknown argument", self.make("--frob", code=2).stderr)
        self.assertIn("needs a value", self.make("--cuda", code=2).stderr)

    def fatbinary(self, *arguments, code=0, **env):
        return self.run_("the overlay/bin/fatbinary", "-64", "--create", "out.fatbin", *arguments, code=code, **env)

    def test_spelling_for_cuda_13(self):
        self.toolkit(13000)
        self.make()
        self.write("f.cubin", "\x7fELF")
        self.fatbinary("--image=profile=sm_90a,file=f.cubin", "--image=profile=compute_75,file=f.cubin", "--ident=x")
        self.assertEqual(self.log("fatbinary"), ["-64", "--create", "out.fatbin", "--image3=kind=elf,sm=90a,file=f.cubin",
                                                 "--image3=kind=ptx,sm=75,file=f.cubin", "--ident=x"])

    def test_spelling_for_cuda_12(self):
        self.toolkit(12040)
        self.make()
        self.write("f.cubin", "\x7fELF")
        self.fatbinary("--image=profile=sm_90,file=f.cubin", "--image3=kind=ptx,sm=90,file=f.cubin")
        self.assertEqual(self.log("fatbinary")[3:], ["--image=profile=sm_90,file=f.cubin",
                                                     "--image3=kind=ptx,sm=90,file=f.cubin"])

    def test_image_with_cuda_12(self):
        """Only the file's name changes."""
        self.toolkit(12040)
        self.make()
        self.write("f.ptx", with_image(".version 8.0\n", self.object_file()))
        done = self.fatbinary("--image=profile=compute_80,file=f.ptx", code=1)  # the recorder writes no fatbin
        self.assertIn("out.fatbin", done.stderr)
        self.assertRegex(self.log("fatbinary")[3], r"^--image=profile=compute_80,file=.*\.ptx$")
        self.assertNotEqual(self.log("fatbinary")[3], "--image=profile=compute_80,file=f.ptx")
        self.check_no_temporaries()

    def test_unknown_fatbin_layout_is_an_error(self):
        self.toolkit(13000)
        self.write("cuda/bin/fatbinary", '#!/bin/sh\necho no fatbin at all >"$3"\n', 0o755)
        self.make()
        self.write("f.ptx", with_image(".version 8.0\n", self.object_file()))
        done = self.fatbinary("--image=profile=compute_80,file=f.ptx", code=1)
        self.assertIn("layout", done.stderr)
        self.assertFalse(os.path.exists(self.path("out.fatbin")), "no half-made file is left")

    def test_toolkit_gone(self):
        self.toolkit(13000)
        self.make()
        os.rename(self.path("cuda"), self.path("moved"))
        self.assertIn("mt-overlay", self.run_("the overlay/bin/ptxas", "--version", code=1).stderr)
        os.unlink(self.path("the overlay/bin/.memtrace-overlay"))
        self.assertIn(".memtrace-overlay", self.run_("the overlay/bin/ptxas", "--version", code=1).stderr)

    def test_wrapper_alone_says_what_it_is(self):
        self.assertIn("mt-overlay", self.run_(self.wrapper(), code=1).stderr)

    def test_build_tree_has_one(self):
        with open(overlay("bin/.memtrace-overlay"), encoding="utf-8") as f:
            marker = dict(line.rstrip("\n").split("=", 1) for line in f)
        self.assertEqual(os.path.realpath(marker["runtime"]),
                         os.path.realpath(os.path.join(world.build, "lib", "libmemtrace.so")))
