"""bin/ptxas and bin/fatbinary of the overlay, on PTX made by clang with a hand-made image, against the real tools."""
import os
import re
import signal
import stat
import subprocess
import time

from world import Case, KERNEL, fatbin_parts, image_line, overlay, with_image

REAL_PTXAS, REAL_FATBINARY = "bin/real/ptxas", "bin/real/fatbinary"


class Wrappers(Case):
    def assemble(self, ptx, out, arch="sm_90", code=0, **env):
        return self.run_(overlay("bin/ptxas"), "-m64", "-O2", "--gpu-name", arch, "--output-file", self.path(out),
                         self.path(ptx), code=code, **env)

    def clean_cubin(self, ptx, arch="sm_90"):
        """What the real ptxas makes of PTX without an image."""
        self.write("clean.ptx", ptx)
        self.run_(overlay(REAL_PTXAS), "-m64", "-O2", "--gpu-name", arch, "--output-file", "clean.cubin", "clean.ptx")
        return self.read("clean.cubin")

    def shared_object_facts(self, image):
        """Names that the linked image defines and needs."""
        self.write("linked.so", image)
        table = self.run_("nm", "-D", "linked.so").stdout
        return ({l.split()[-1] for l in table.splitlines() if " U " not in l},
                {l.split()[-1] for l in table.splitlines() if " U " in l})

    def test_ptxas_puts_the_object_behind_the_cubin(self):
        data, ptx = self.object_file(), self.ptx("sm_90")
        self.write("a b.ptx", with_image(ptx, data))
        self.assemble("a b.ptx", "a b.cubin")
        cubin, clean = self.read("a b.cubin"), self.clean_cubin(ptx)
        self.assertEqual(cubin[: len(clean)], clean, "the cubin itself is the real one's")
        self.assertEqual(cubin[len(clean) : -16], data)
        self.assertEqual(cubin[-16:], len(data).to_bytes(8, "little") + b"MTCPUOB1")
        self.check_no_temporaries()

    def test_image_goes_behind_the_fatbin(self):
        data, ptx = self.object_file(value=77), self.ptx("sm_90")
        self.write("k.s", with_image(ptx, data))
        self.assemble("k.s", "k.o")
        self.run_(overlay("bin/fatbinary"), "-64", "--create", self.path("k.fatbin"),
                  "--image=profile=sm_90,file=" + self.path("k.o"),
                  "--image=profile=compute_90,file=" + self.path("k.s"))
        fatbin, image = fatbin_parts(self.read("k.fatbin"))
        self.clean_cubin(ptx)
        self.run_(overlay(REAL_FATBINARY), "-64", "--create", "clean.fatbin",
                  "--image3=kind=elf,sm=90,file=clean.cubin", "--image3=kind=ptx,sm=90,file=clean.ptx")
        self.assertEqual(len(fatbin), len(self.read("clean.fatbin")))
        self.assertNotIn(b"@memtrace-cpu-image", fatbin)
        defined, needed = self.shared_object_facts(image)
        self.assertLessEqual({"mt_image", "kernel"}, defined)
        self.assertIn("mt_cpu_trap", needed)
        self.assertNotEqual(image, data, "linked, not the relocatable object")
        self.assertIn((77).to_bytes(4, "little"), image)
        self.check_no_temporaries()

    def test_without_image_nothing_changes(self):
        ptx = self.ptx("sm_90")
        clean = self.clean_cubin(ptx)
        self.write("k.ptx", ptx)
        self.assemble("k.ptx", "k.cubin")
        self.assertEqual(self.read("k.cubin"), clean)
        self.run_(overlay("bin/fatbinary"), "-64", "--create", "k.fatbin", "--image=profile=sm_90,file=k.cubin")
        self.run_(overlay(REAL_FATBINARY), "-64", "--create", "real.fatbin", "--image3=kind=elf,sm=90,file=k.cubin")
        self.assertEqual(self.read("k.fatbin"), self.read("real.fatbin"))
        self.check_no_temporaries()

    def test_todays_spelling_passes(self):
        data = self.object_file()
        self.write("k.ptx", with_image(self.ptx("sm_90"), data))
        self.assemble("k.ptx", "k.cubin")
        self.run_(overlay("bin/fatbinary"), "-64", "--create", "k.fatbin", "--image3=kind=elf,sm=90,file=k.cubin")
        self.assertIsNotNone(fatbin_parts(self.read("k.fatbin"))[1])
        self.run_(overlay("bin/fatbinary"), "--create=l.fatbin", "-64", "--image3", "kind=ptx,sm=90,file=k.ptx")
        self.assertIsNotNone(fatbin_parts(self.read("l.fatbin"))[1])

    def test_highest_architecture_gives_the_image(self):
        arguments = []
        for arch, value in (("sm_80", 0x11111111), ("sm_90a", 0x33333333), ("sm_90", 0x22222222)):
            self.write(arch + ".s", with_image(self.ptx(arch), self.object_file(arch, value)))
            self.assemble(arch + ".s", arch + ".o", arch)
            arguments += [f"--image=profile={arch},file={arch}.o"]
        self.run_(overlay("bin/fatbinary"), "-64", "--create", "k.fatbin", *arguments)
        fatbin, image = fatbin_parts(self.read("k.fatbin"))
        self.assertIn(b"\x22" * 4, image)  # the last of the highest
        self.assertNotIn(b"\x11" * 4, image)
        for value in (b"\x11" * 4, b"\x22" * 4, b"\x33" * 4):
            self.assertNotIn(value, fatbin)

    def test_image_in_the_middle_keeps_line_numbers(self):
        """An error after the image is reported with the line that it has in the PTX."""
        ptx = self.ptx("sm_90") + image_line(self.object_file()) + "this is no PTX;\n"
        self.write("k.ptx", ptx)
        wrapped = self.assemble("k.ptx", "k.cubin", code=None)
        line = ptx.count("\n", 0, ptx.index("this is no PTX")) + 1
        self.assertNotEqual(wrapped.returncode, 0)
        self.assertIn(f"line {line};", wrapped.stderr + wrapped.stdout)
        self.check_no_temporaries()

    def test_exit_codes_are_the_real_ones(self):
        self.write("bad.ptx", ".version 8.0\n.target sm_90\n.address_size 64\nnonsense\n")
        real = self.run_(overlay(REAL_PTXAS), "--gpu-name", "sm_90", "-o", "x.cubin", "bad.ptx", code=None)
        self.write("bad-image.ptx", self.read("bad.ptx").decode() + image_line(self.object_file()))
        for name in ("bad.ptx", "bad-image.ptx"):
            done = self.run_(overlay("bin/ptxas"), "--gpu-name", "sm_90", "-o", "x.cubin", name, code=None)
            self.assertEqual(done.returncode, real.returncode)
            self.assertIn("error", done.stderr + done.stdout)
        real = self.run_(overlay(REAL_FATBINARY), "--create", "x.fatbin", "--image3=kind=elf,sm=90,file=none", code=None)
        done = self.run_(overlay("bin/fatbinary"), "--create", "x.fatbin", "--image=profile=sm_90,file=none", code=None)
        self.assertNotEqual(real.returncode, 0)
        self.assertEqual(done.returncode, real.returncode)
        self.check_no_temporaries()

    def test_devices_stay(self):
        """What cannot be read back is not a reason to remove /dev/null."""
        node = self.path("null")
        try:
            os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
            open(node, "wb").close()
        except OSError:
            self.skipTest("no device nodes here")
        self.write("k.s", with_image(self.ptx("sm_90"), self.object_file()))
        self.assemble("k.s", "k.o", MEMTRACE_PTXAS="none")
        self.run_(overlay("bin/fatbinary"), "-64", "--create", node, "--image=profile=sm_90,file=k.o")
        self.run_(overlay("bin/ptxas"), "-arch=sm_90", "k.s", "-o", node, MEMTRACE_PTXAS="none")
        self.assertTrue(stat.S_ISCHR(os.lstat(node).st_mode))

    def test_version_and_help_pass(self):
        for tool in ("ptxas", "fatbinary"):
            self.assertEqual(self.run_(overlay("bin/" + tool), "--version").stdout,
                             self.run_(overlay("bin/real/" + tool), "--version").stdout)

    def test_called_through_a_link(self):
        os.symlink(overlay("bin/ptxas"), self.path("assembler"))
        self.assertIn("release", self.run_(self.path("assembler"), "--version").stdout)
        path = overlay("bin") + os.pathsep + os.environ["PATH"]
        self.assertIn("release", self.run_("fatbinary", "--version", PATH=path).stdout)

    def test_no_assembling(self):
        """MEMTRACE_PTXAS=none: PTX and image, no cubin; and nothing at all is an error."""
        self.write("k.s", with_image(self.ptx("sm_90"), self.object_file()))
        self.assemble("k.s", "k.o", MEMTRACE_PTXAS="none")
        self.run_(overlay("bin/fatbinary"), "-64", "--create", "k.fatbin", "--image=profile=sm_90,file=k.o",
                  "--image=profile=compute_90,file=k.s")
        fatbin, image = fatbin_parts(self.read("k.fatbin"))
        self.assertIsNotNone(image)
        self.assertNotIn(b"\x7fELF", fatbin)
        self.run_(overlay("bin/fatbinary"), "-64", "--create", "e.fatbin", "--image=profile=sm_90,file=k.o")
        fatbin, image = fatbin_parts(self.read("e.fatbin"))
        self.assertEqual(len(fatbin), 16)
        self.assertIn("mt_image", self.shared_object_facts(image)[0])
        self.write("none.s", self.ptx("sm_90"))
        self.assemble("none.s", "none.o", MEMTRACE_PTXAS="none")
        done = self.run_(overlay("bin/fatbinary"), "-64", "--create", "n.fatbin", "--image=profile=sm_90,file=none.o",
                         code=1)
        self.assertIn("nothing to put into n.fatbin", done.stderr)

    def test_another_ptxas(self):
        tool = self.write("my ptxas", '#!/bin/sh\necho "mine: $*" >&2\nexit 7\n', 0o755)
        self.write("k.s", with_image(self.ptx("sm_90"), self.object_file()))
        done = self.assemble("k.s", "k.o", code=7, MEMTRACE_PTXAS=tool)
        self.assertIn("mine: -m64", done.stderr)
        done = self.assemble("k.s", "k.o", code=1, MEMTRACE_PTXAS=self.path("none such"))
        self.assertIn("cannot run", done.stderr)

    def test_clusters(self):
        """A kernel's cluster size, which the compiler leaves in a line: the cubin is that of the directives by hand."""
        text = "__global__ void k(int *p) { *p = 1; }\n__global__ void kk(int *p) { *p = 2; }\n"
        ptx = self.ptx("sm_90", text, "clusters")
        kernel = re.search(r"\.visible \.entry _Z1kPi\([^)]*\)", ptx).group(0)
        line = "// @memtrace-cluster _Z1kPi 2 3 1\n"
        at = ptx.index(".visible")
        for i, lines in enumerate((ptx[:at] + line + ptx[at:], ptx + line, with_image(ptx + line, self.object_file()))):
            self.write("hand.s", ptx.replace(kernel, kernel + " .explicitcluster .reqnctapercluster 2, 3, 1"))
            self.assemble("hand.s", "hand.o")
            os.rename(self.path("hand.o"), self.path("want.o"))
            self.write("hand.s", lines)  # the same name: cubins may hold it
            self.assemble("hand.s", "hand.o")
            got, want = self.read("hand.o"), self.read("want.o")
            self.assertEqual(got[:len(want)], want, f"form {i}")
            self.assertNotEqual(got[:len(want)], b"")
        self.write("plain.s", ptx)
        self.assemble("plain.s", "plain.o")
        self.assertNotEqual(self.read("plain.o"), want)
        self.write("bad.s", ptx + "// @memtrace-cluster _Z1kPi 2\n")
        self.assertIn("damaged", self.assemble("bad.s", "bad.o", code=1).stderr)
        self.write("bad.s", ptx + "// @memtrace-cluster none 2 1 1\n")
        self.assertIn("not in the PTX", self.assemble("bad.s", "bad.o", code=1).stderr)
        self.check_no_temporaries()

    def test_damaged_images(self):
        ptx = self.ptx("sm_90")
        self.write("k.s", ptx + "// @memtrace-cpu-image AAAA*AAA\n")
        self.assertIn("damaged", self.assemble("k.s", "k.o", code=1).stderr)
        self.assertFalse(os.path.exists(self.path("k.o")))
        self.write("k.o", b"\x7fELF" + b"\0" * 100 + (1 << 40).to_bytes(8, "little") + b"MTCPUOB1")
        done = self.run_(overlay("bin/fatbinary"), "--create", "k.fatbin", "--image=profile=sm_90,file=k.o", code=1)
        self.assertIn("damaged", done.stderr)
        self.write("k.s", with_image(ptx, b"no object at all"))
        done = self.run_(overlay("bin/fatbinary"), "--create", "k.fatbin", "--image=profile=compute_90,file=k.s", code=1)
        self.assertIn("does not link", done.stderr)
        self.check_no_temporaries()

    def test_linkers(self):
        self.write("k.s", with_image(self.ptx("sm_90"), self.object_file()))
        for linker in ("ld", "ld.lld-19"):
            self.run_(overlay("bin/fatbinary"), "--create", "k.fatbin", "--image=profile=compute_90,file=k.s",
                      MEMTRACE_LD=linker)
            self.assertIn("mt_image", self.shared_object_facts(fatbin_parts(self.read("k.fatbin"))[1])[0])
        done = self.run_(overlay("bin/fatbinary"), "--create", "k.fatbin", "--image=profile=compute_90,file=k.s",
                         code=1, MEMTRACE_LD="no-such-linker")
        self.assertIn("MEMTRACE_LD", done.stderr)
        done = self.run_(overlay("bin/fatbinary"), "--create", "k.fatbin", "--image=profile=compute_90,file=k.s",
                         code=1, PATH=self.path("empty"))
        self.assertIn("lld-19", done.stderr)
        self.check_no_temporaries()

    def test_signals_leave_nothing(self):
        slow = self.write("slow", '#!/bin/sh\ntouch "$STARTED"\nexec sleep 60\n', 0o755)
        self.write("k.s", with_image(self.ptx("sm_90"), self.object_file()))
        jobs = {"ptxas": ([overlay("bin/ptxas"), "--gpu-name", "sm_90", "-o", "k.o", "k.s"], "MEMTRACE_PTXAS"),
                "fatbinary": ([overlay("bin/fatbinary"), "--create", "k.fb", "--image=profile=compute_90,file=k.s"],
                              "MEMTRACE_LD")}
        for tool, (command, variable) in jobs.items():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                started = self.path(f"started-{tool}-{number}")
                process = subprocess.Popen(command, cwd=self.work, env={**self.env, variable: slow, "STARTED": started})
                for _ in range(10000):
                    if os.path.exists(started):
                        break
                    time.sleep(0.01)
                self.assertNotEqual(os.listdir(self.tmp), [])
                process.send_signal(number)
                self.assertEqual(process.wait(200), -number)
                self.check_no_temporaries()

    def test_unwritable_temporary_folder(self):
        self.write("k.s", with_image(self.ptx("sm_90"), self.object_file()))
        done = self.assemble("k.s", "k.o", code=1, TMPDIR=self.path("no such folder"))
        self.assertIn("no temporary copy", done.stderr)

    def test_commas_in_paths(self):
        self.write("a,b/k.s", with_image(self.ptx("sm_90"), self.object_file()))
        self.run_(overlay("bin/fatbinary"), "--create", "k.fatbin", "--image=profile=compute_90,file=a,b/k.s")
        self.assertIsNotNone(fatbin_parts(self.read("k.fatbin"))[1])
        self.write("c,d/k.s", self.ptx("sm_90"))
        self.run_(overlay("bin/fatbinary"), "--create", "k.fatbin", "--image=profile=compute_90,file=c,d/k.s")
        self.check_no_temporaries()


class ThroughClang(Case):
    """The same with clang's driver. Inline asm in a kernel puts the image line into the PTX."""

    def source(self, data):
        line = image_line(data).rstrip("\n")
        return self.write("my kernel.cu", KERNEL + f'__global__ void carry() {{ asm volatile("{line}"); }}\n')

    def compile(self, data, *options):
        self.source(data)
        self.run_("clang++-19", "-Wno-unknown-cuda-version", f"--cuda-path={overlay()}", "-O2", *options, "-c",
                  "my kernel.cu", "-o", "my kernel.o")
        self.run_("objcopy", "-O", "binary", "--only-section=.nv_fatbin", "--set-section-flags", ".nv_fatbin=alloc",
                  "my kernel.o", "fatbin")
        self.check_no_temporaries()
        return fatbin_parts(self.read("fatbin"))

    def test_object_carries_the_image(self):
        for options in (["--cuda-gpu-arch=sm_90"], ["--cuda-gpu-arch=sm_80", "--cuda-gpu-arch=sm_90"],
                        ["--cuda-gpu-arch=sm_90", "--no-cuda-include-ptx=all"],
                        ["--cuda-gpu-arch=sm_90", "-Xcuda-ptxas", "-v", "-Xcuda-ptxas", "--maxrregcount=32"],
                        ["--cuda-gpu-arch=sm_90", "-g", "--cuda-noopt-device-debug"]):
            with self.subTest(options=options):
                fatbin, image = self.compile(self.object_file(value=0x7a7a7a7a), *options)
                self.assertIn(b"\x7a" * 4, image)
                self.assertNotIn(b"@memtrace-cpu-image", fatbin)

    def test_device_only_output_is_a_cubin(self):
        data = self.object_file()
        self.source(data)
        self.run_("clang++-19", "-Wno-unknown-cuda-version", f"--cuda-path={overlay()}", "--cuda-gpu-arch=sm_90",
                  "--cuda-device-only", "-c", "my kernel.cu", "-o", "k.cubin")
        self.assertTrue(self.read("k.cubin").startswith(b"\x7fELF"))
        self.run_("readelf", "-S", "k.cubin")

    def test_two_files_at_once(self):
        """Compilations do not share anything: eight at the same time give eight right objects."""
        line = image_line(self.object_file(value=0x5c5c5c5c)).rstrip("\n")
        running = []
        for i in range(8):
            self.write(f"f{i}.cu", f'__global__ void k{i}() {{ asm volatile("{line}"); }}\n')
            running.append(subprocess.Popen(["clang++-19", "-Wno-unknown-cuda-version", f"--cuda-path={overlay()}",
                                             "--cuda-gpu-arch=sm_90", "-c", f"f{i}.cu"], cwd=self.work, env=self.env))
        self.assertEqual([p.wait(120) for p in running], [0] * 8)
        for i in range(8):
            self.run_("objcopy", "-O", "binary", "--only-section=.nv_fatbin", "--set-section-flags",
                      ".nv_fatbin=alloc", f"f{i}.o", "fatbin")
            self.assertIn(b"\x5c" * 4, fatbin_parts(self.read("fatbin"))[1])
        self.check_no_temporaries()
