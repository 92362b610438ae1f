"""The wheel: made of the build tree, installed where no tool of ours or of a compiler is in reach, and used as `pip install` users do."""
import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import harness
import world
from world import Case

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
VENV = os.path.join(harness.BUILD, "python-tests", "bin", "python3")
SYSTEM = re.compile(r"(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+)\.so")
# What lines of scale.py's PTX do: a load and a store of 4 bytes for each of 200 elements.
LINES = "sorted(zip(t.line, t.load, t.store, t.loads, t.stores)) == [(25, 800, 0, 200, 0), (27, 0, 800, 0, 200)]"
FRAMES = """
import memtrace
with memtrace.open("run", frames=FRAMES) as r:
    t = r.lines
    assert type(t).__module__.split(".")[0] == FRAMES, type(t)
    assert LINES, t
    assert r.table("lines") is t is r["lines"] and "uncoalesced_lines" in r.tables() and "launches" in dir(r) and r.complete is True
    assert list(r.sql("SELECT sum(loads) AS n FROM lines WHERE line > ?", 20)["n"]) == [200]
    assert r.launches["mangled"].dtype == r.launches["signature"].dtype and str(r.launches["stream"].dtype) == "Int64"
try:
    memtrace.open("none", frames=FRAMES)
except memtrace.Error as why:
    assert "none" in str(why)
else:
    raise SystemExit("there is no such folder")
assert list(memtrace.open("tables.db", frames=FRAMES).kernels["kernel"]) == ["scale"]
print("right")
""".replace("LINES", LINES)
# A stand-in for a notebook: register_magic_function and display are all that the magic uses.
NOTEBOOK = """
import sys, types
shown = []
sys.modules["IPython"], sys.modules["IPython.display"] = types.ModuleType("IPython"), types.ModuleType("IPython.display")
sys.modules["IPython.display"].display = lambda data, raw: shown.append(data)
magic = {}
class Shell:
    def register_magic_function(self, function, kind, name):
        magic[kind, name] = function
import memtrace
memtrace.load_ipython_extension(Shell())
run = magic["cell", "memtrace"]
cell = open(sys.argv[1]).read()
for _ in range(2):  # again, into the same folder
    run("-o kept", cell)
assert len(shown) == 2 and shown[0]["text/html"].startswith("<iframe srcdoc=") and "&lt;html" in shown[0]["text/html"], len(shown)
run("", "print('no kernel')\\nraise SystemExit(5)")
run("-k nothing.of.this", cell)
assert len(shown) == 2
run("--help", "")
"""


def install(wheel, folder):
    """As pip does: files, those of programs executable, and a program for each entry point."""
    if harness.run([sys.executable, "-m", "pip", "--version"]).returncode == 0:
        harness.call([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-cache-dir", "--root-user-action=ignore",
                      "--target", folder, wheel])
        return
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        for entry in archive.infolist():
            os.chmod(os.path.join(folder, entry.filename), 0o755 if entry.external_attr >> 16 & 0o111 else 0o644)


class Wheel(Case):
    def setUp(self):
        super().setUp()
        world.need_runtime(self)
        self.site = tempfile.mkdtemp(prefix="memtrace-")  # no blank in it: LD_AUDIT takes none
        self.addCleanup(shutil.rmtree, self.site, ignore_errors=True)
        if not os.path.exists(os.path.join(world.build, "libexec/memtrace/mt-ptx-whole")) or not shutil.which("patchelf"):
            self.skipTest("liblld-19-dev or patchelf is not installed")

    def python(self, *words, code=0, program=sys.executable, **env):
        """Python as a user has it who has nothing else: an empty PATH, and no cache."""
        return self.run_(program, *words, code=code, PATH=self.path("nothing"), PYTHONPATH=self.site, MEMTRACE_CACHE="off", **env)

    def test_wheel(self):
        os.mkdir(self.path("nothing"))
        said = self.run_(sys.executable, "-B", os.path.join(world.source, "tools/wheel/make_wheel.py"), world.build, self.path("made")).stdout
        wheel = re.match(r"(.*/memtrace-[\d.]+-py3-none-manylinux_2_\d\d_x86_64\.whl): [\d.]+ MB, installed [\d.]+ MB\n", said)[1]
        self.check_record(wheel)
        install(wheel, self.site)
        self.check_libraries(os.path.join(self.site, "memtrace", "tree"))
        self.check_programs()
        self.check_nvcc()
        self.check_frames()
        self.check_notebook()
        self.check_no_temporaries()

    def check_record(self, wheel):
        """Each file is in RECORD, with its length and hash; no link is among them, and only programs are executable."""
        with zipfile.ZipFile(wheel) as archive:
            record = [name for name in archive.namelist() if name.endswith("/RECORD")]
            rows = dict(line.split(",", 1) for line in archive.read(record[0]).decode().splitlines())
            self.assertEqual(sorted(rows), sorted(archive.namelist()))
            for entry in archive.infolist():
                data = archive.read(entry)
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
                self.assertEqual(rows[entry.filename], "," if entry.filename == record[0] else f"sha256={digest},{len(data)}")
                mode = entry.external_attr >> 16
                self.assertIn(mode, (0o100644, 0o100755), entry.filename)
                if "/tree/bin/" in entry.filename:
                    self.assertEqual(mode, 0o100755, entry.filename)

    def check_libraries(self, tree):
        """What the dynamic linker would take is the wheel's or the C library's; but for the plugin of clang."""
        for folder, _, files in os.walk(tree):
            for path in (os.path.join(folder, name) for name in files):
                with open(path, "rb") as f:
                    if f.read(4) != b"\x7fELF" or path.endswith("libMemtrace-AA.so") or os.path.basename(folder) == "needs":
                        continue
                for name, where in re.findall(r"^\t(\S+) => (.*?)(?: \(0x\w+\))?$", self.run_("ldd", path).stdout, re.M):
                    self.assertTrue(SYSTEM.match(name) or where.startswith(tree), f"{path}: {name} is {where}")

    def check_programs(self):
        done = self.python("-m", "memtrace", "run", "-o", "run", sys.executable, os.path.join(PROGRAMS, "scale.py"))
        self.assertEqual((done.stdout, done.stderr), ("39800.0\n", ""))
        comm = json.loads(self.python("-m", "memtrace", "extract", "-s", "KDV", "run").stdout)
        self.assertEqual((comm["complete"], comm["records"], comm["KDV"]), (True, 400, {"scale": {"0": {"Load": 800, "Store": 800}}}))
        self.python("-m", "memtrace", "report", "run", "-o", "page.html")
        self.python("-m", "memtrace", "extract", "--format=sqlite", "-o", "tables.db", "run")
        self.assertIn("</html>", self.read("page.html").decode())
        self.assertIn("clang-19", self.python("-m", "memtrace", "cc", "x.cu", code=1, MEMTRACE_CLANG="/nowhere/clang++").stderr)
        for name in ("memtrace", "mt-extract", "mt-run") if os.path.exists(os.path.join(self.site, "bin")) else ():
            said = self.python(os.path.join(self.site, "bin", name), "--version").stdout
            self.assertRegex(said, rf"^{name} \(memtrace\) \d")

    def check_nvcc(self):
        """A shared CUDA runtime is found by its name, which is a file in a wheel."""
        nvcc = harness.nvcc_of()
        if nvcc:
            self.write("k.cu", world.PROGRAM)
            self.run_(nvcc, "--cudart=shared", "-arch=compute_90", "k.cu", "-o", "app")
            done = self.python("-m", "memtrace", "run", "-f", "raw", "-o", ".", "./app")
            self.assertEqual((done.stdout, self.records()), (world.PROGRAM_SUM, world.PROGRAM_RECORDS), done)

    def check_frames(self):
        done = self.python("-S", "-c", "import memtrace; memtrace.open('run')", code=1)  # without site-packages
        self.assertIn("ImportError: memtrace.open needs pandas or polars: pip install pandas\n", done.stderr)
        for program in sys.executable, VENV:
            for frames in "pandas", "polars":
                if os.access(program, os.X_OK) and harness.run([program, "-c", f"import {frames}"], stderr=subprocess.DEVNULL).returncode == 0:
                    done = self.python("-c", FRAMES.replace("FRAMES", repr(frames)), program=program)
                    self.assertEqual((done.stdout, done.stderr), ("right\n", ""))

    def check_notebook(self):
        said = self.python("-c", NOTEBOOK, os.path.join(PROGRAMS, "scale.py"), TMPDIR=self.path("nothing")).stdout
        kept = f"39800.0\ntraces and page: {self.path('kept')}\n"
        self.assertTrue(said.startswith(kept + kept + "no kernel\nthe cell ended with exit code 5\nno kernel ran in the cell"), said)
        self.assertIn("no launch is traced", said)
        self.assertIn("%%memtrace [-o FOLDER]", said)
        self.assertEqual(self.read("kept/cell.py").decode().splitlines()[1], '"""A kernel from PTX through the driver, with what Python has alone. '
                         "4 CTAs of 64 threads; those below 200 load a float and store it twice")
