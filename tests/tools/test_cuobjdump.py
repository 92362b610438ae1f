"""NVIDIA's own readers and our programs: their section of GPU code is fatbin after fatbin, images included."""
import os
import shutil
import struct

import world
from world import Case, PROGRAM, PROGRAM_RECORDS, PROGRAM_SUM, overlay

PART = '__global__ void other(float *p) { p[threadIdx.x] *= 2; }\n'
KINDS = {1: "PTX", 2: "ELF", 0x4D54: "image"}


class Cuobjdump(Case):
    headers_once = True

    def setUp(self):
        super().setUp()
        world.need_runtime(self)
        self.write("main.cu", PROGRAM)
        self.write("part.cu", PART)
        self.mt_cc = os.path.join(world.build, "bin", "mt-cc")

    def entries(self, file, section):
        """Walks a section as cuobjdump does: headers, entries, zeros in between; anything else is invalid. Kinds by fatbin."""
        self.run_("objcopy", "-O", "binary", f"--only-section={section}", "--set-section-flags", f"{section}=alloc", file, "section")
        data, at, found = self.read("section"), 0, []
        while at < len(data):
            if data[at:at + 8] == bytes(8):
                at += 8
                continue
            magic, version, header, size = struct.unpack_from("<IHHQ", data, at)
            self.assertEqual((hex(magic), version, header), ("0xba55ed50", 1, 16), f"{file}: {at} of {len(data)}")
            at, end, kinds = at + header, at + header + size, []
            while at < end:
                kind, _, header, size = struct.unpack_from("<HHIQ", data, at)
                self.assertIn(struct.unpack_from("<I", data, at + 28)[0], (80, 90), "architecture")
                kinds.append(KINDS[kind])
                at += header + size
            self.assertEqual(at, end)
            found.append(kinds)
        return found

    def check(self, file, fatbins, section=".nv_fatbin"):
        """The fatbins of a file; and the real tool's opinion, where there is one."""
        self.assertEqual(self.entries(file, section), fatbins)
        tool = shutil.which("cuobjdump", path=os.pathsep.join([overlay("bin"), self.env.get("PATH", "")]))
        for option in ("-lelf", "-lptx", "-all", "-elf", "-ptx") if tool else ():
            said = self.run_(tool, option, file)
            self.assertNotIn("fatal", said.stdout + said.stderr)
            if option == "-lelf":
                self.assertEqual(said.stdout.count("ELF file"), sum(kinds.count("ELF") for kinds in fatbins))

    def check_runs(self, app):
        self.assertEqual(self.run_(app, MEMTRACE_DEVICE="cpu").stdout, PROGRAM_SUM)
        self.assertEqual(self.records(), PROGRAM_RECORDS)

    def test_files(self):
        self.run_(self.mt_cc, "-O2", "--cuda-gpu-arch=sm_80", "--cuda-gpu-arch=sm_90", "main.cu", "part.cu", "-o", "app")
        self.check("app", 2 * [["ELF", "PTX", "ELF", "PTX"], ["image"]])
        self.check_runs("./app")

    def test_relocatable(self):
        self.run_(self.mt_cc, "-O2", "-fgpu-rdc", "-c", "main.cu", "part.cu")
        self.check("main.o", [["ELF", "PTX"], ["image"]], "__nv_relfatbin")
        self.run_(self.mt_cc, "-fgpu-rdc", "main.o", "part.o", "-o", "app")
        self.check("app", [["ELF"]])
        self.check_runs("./app")

    def test_clang(self):
        self.run_("clang++-19", f"-fplugin={world.build}/lib/libMemtrace-AA.so", f"--cuda-path={overlay()}", "--cuda-gpu-arch=sm_90",
                  "-O2", "-Wno-unknown-cuda-version", "main.cu", "-o", "app", f"-L{overlay('lib64')}", "-lcudart")
        self.check("app", [["ELF", "PTX"], ["image"]])
        self.check_runs("./app")
