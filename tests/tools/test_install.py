"""cmake --install into a folder with a blank in its name, and staged with DESTDIR."""
import os
import re
import shutil
import tempfile

import world
from world import Case, PROGRAM, PROGRAM_RECORDS, PROGRAM_SUM


class Install(Case):
    def setUp(self):
        super().setUp()
        world.need_runtime(self)

    def install(self, prefix, **env):
        self.run_("cmake", "--install", world.build, "--prefix", prefix, **env)

    def test_installed_tree_works(self):
        prefix = self.path("in stalled")
        self.install(prefix)
        for name in ("bin/mt-cc", "bin/mt-extract", "include/memtrace/record.h", "share/man/man1/mt-cc.1", "share/man/man7/memtrace-environment.7",
                     "share/doc/memtrace/docs/internals.md", "share/bash-completion/completions/mt-dump",
                     "libexec/memtrace/mt-overlay"):
            self.assertTrue(os.path.exists(os.path.join(prefix, name)), name)
        self.write("k.cu", PROGRAM)
        self.run_(f"{prefix}/bin/mt-cc", "-O2", "k.cu", "-o", "app")
        line = self.run_(f"{prefix}/bin/mt-cc", "--show", "k.cu").stdout
        self.assertNotIn(world.build, line, "nothing of the build tree is used")
        needed = self.run_("readelf", "-d", "app").stdout
        self.assertRegex(needed, re.escape(os.path.realpath(prefix)) + r"/lib[^]]*/libmemtrace\.so\]")
        self.assertEqual(self.run_("./app").stdout, PROGRAM_SUM)
        self.assertEqual(self.records(), PROGRAM_RECORDS)
        comm = self.run_(f"{prefix}/bin/mt-extract", "MemTrace-pipe-0").stdout
        self.assertIn('"memtrace-comm"', comm)
        # clang's configuration file and the usual flags
        libdir = os.path.dirname(self.only(prefix, "libmemtrace.so"))
        self.run_("clang++-19", f"--config={libdir}/memtrace/memtrace.cfg", "-Wno-unknown-cuda-version", "k.cu", "-o", "app2")
        self.assertEqual(self.run_("./app2").stdout, PROGRAM_SUM)
        # a folder with a blank: clang's variable cannot hold it
        done = self.run_(f"{prefix}/bin/mt-cc", "--env", code=1)
        self.assertIn("blanks", done.stderr)
        self.cmake_package(prefix)

    def test_reader_and_uninstall(self):
        """A program built with pkg-config and one with find_package read a trace; then all is removed."""
        prefix = tempfile.mkdtemp(prefix="memtrace-")
        self.addCleanup(shutil.rmtree, prefix)
        self.install(prefix)
        self.write("r.c", '#include "memtrace/trace.h"\nint main(void) { struct mt_error e; '
                          'return mt_source_open(0, 0, 0, &e) != 0; }\n')
        pc = os.path.dirname(self.only(prefix, "memtrace-reader.pc"))
        flags = self.run_("pkg-config", "--cflags", "--libs", "memtrace-reader", PKG_CONFIG_PATH=pc).stdout.split()
        self.run_("cc", "r.c", "-o", "r", *flags)
        self.write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(user C)\nfind_package(memtrace REQUIRED)\n"
                                     "add_executable(r2 r.c)\ntarget_link_libraries(r2 memtrace::reader)\n")
        self.run_("cmake", "-G", "Ninja", "-S", ".", "-B", "b", f"-DCMAKE_PREFIX_PATH={prefix}")
        self.run_("ninja", "-C", "b")
        for app in ("./r", "b/r2"):
            self.run_(app, LD_LIBRARY_PATH=os.path.dirname(pc))
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/package/uninstall.cmake")
        self.run_("sh", "-ec", 'cd "$0"; cmake -P "$1"', world.build, script)
        self.assertEqual([f for _, _, files in os.walk(prefix) for f in files], [])

    def test_environment(self):
        prefix = tempfile.mkdtemp(prefix="memtrace-")  # no blank in it
        self.addCleanup(shutil.rmtree, prefix)
        self.install(prefix)
        self.write("k.cu", PROGRAM)
        self.run_("sh", "-ec", f'eval "$({prefix}/bin/mt-cc --env)"; clang++ -fplugin=libMemtrace-AA.so k.cu')
        self.assertEqual(self.run_("./a.out").stdout, PROGRAM_SUM)
        self.assertEqual(self.records(), PROGRAM_RECORDS)

    def only(self, folder, name):
        found = [os.path.join(d, name) for d, _, files in os.walk(folder) if name in files and "cuda-overlay" not in d]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def cmake_package(self, prefix):
        self.write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(user CXX)\n"
                                     "find_package(memtrace REQUIRED)\nadd_executable(app3 k.cu)\nmemtrace_target(app3)\n")
        self.run_("cmake", "-G", "Ninja", "-S", ".", "-B", "b", f"-DCMAKE_PREFIX_PATH={prefix}",
                  "-DCMAKE_CXX_COMPILER=clang++-19")
        self.run_("ninja", "-C", "b")
        self.assertEqual(self.run_("b/app3").stdout, PROGRAM_SUM)

    def test_staged(self):
        stage = self.path("stage")
        self.install("/opt/memtrace", DESTDIR=stage)
        script = self.only_in_overlay(stage, "libcudart.so")
        self.assertRegex(script, r'INPUT\("/opt/memtrace/lib[^"]*/libmemtrace\.so"\)')
        self.assertFalse(os.path.exists("/opt/memtrace"))

    def only_in_overlay(self, folder, name):
        found = [os.path.join(d, name) for d, _, files in os.walk(folder) if name in files and "cuda-overlay" in d]
        self.assertEqual(len(found), 1, found)
        with open(found[0], encoding="utf-8") as f:
            return f.read()
