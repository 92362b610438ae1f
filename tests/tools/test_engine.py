"""memtrace run: which engine traces. An installation of its own (programs and libraries are names only), NVIDIA's library a file;
MEMTRACE_DEVICE=gpu says that there is a GPU."""
import os
import shlex
import shutil
import tempfile

import world
from world import Case

NAME = "libsanitizer-public.so"


class Engine(Case):
    def setUp(self):
        super().setUp()
        self.root = tempfile.mkdtemp(dir="/var/tmp")  # no blank in its name: the auditor's path may have none
        self.addCleanup(shutil.rmtree, self.root)
        os.makedirs(os.path.join(self.root, "bin"))
        self.part("memtrace/libmemtrace-inject.so")
        shutil.copy(os.path.join(world.build, "bin", "mt-run"), os.path.join(self.root, "bin"))

    def part(self, name):
        path = os.path.join(self.root, "lib", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8"):
            return path

    def run_mt(self, *words, code=0, **env):
        clean = {"MEMTRACE_DEVICE": "gpu", "MEMTRACE_SANITIZER": "", "CUDA_PATH": "", "CUDA_HOME": "", "VIRTUAL_ENV": "",
                 "CUDA_INJECTION64_PATH": "", "PATH": "/usr/bin:/bin", **env}
        return self.run_(os.path.join(self.root, "bin", "mt-run"), *words, code=code, **clean)

    def shown(self, *words, **env):
        """The variables that --show prints."""
        line = shlex.split(self.run_mt(*words, "--show", "/bin/true", **env).stdout)
        return dict(word.split("=", 1) for word in line if "=" in word)

    def test_injection(self):
        library = self.write("home/cuda/compute-sanitizer/" + NAME, "")
        got = self.shown("--spaces", "global,shared", CUDA_PATH=self.path("home/cuda"))
        injection = os.path.join(self.root, "lib/memtrace/libmemtrace-inject.so")
        self.assertEqual(os.path.realpath(got["CUDA_INJECTION64_PATH"]), os.path.realpath(injection))
        self.assertEqual(got["NVTX_INJECTION64_PATH"], got["CUDA_INJECTION64_PATH"])
        self.assertEqual(os.path.realpath(got["MEMTRACE_SANITIZER"]), os.path.realpath(library))
        self.assertEqual((got["MEMTRACE_ENGINE"], got["MEMTRACE_SPACES"], got["MEMTRACE_FORMAT"]),
                         ("inject", "global,shared", "compact"))
        for name in ("LD_AUDIT", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "GLIBC_TUNABLES"):
            self.assertNotIn("libmemtrace", got.get(name, ""), name)
            self.assertNotIn("memtrace/", got.get(name, ""), name)

    def test_places(self):
        """Each place where the library may be, the first of them first."""
        places = [("MEMTRACE_SANITIZER", "named", ""), (None, "home/memtrace/sanitizer", "lib/"),
                  ("CUDA_PATH", "a", "compute-sanitizer/"), ("CUDA_HOME", "b", "extras/Sanitizer/"),
                  ("VIRTUAL_ENV", "c", "lib/python3.12/site-packages/nvidia/cu13/lib/"),
                  ("VIRTUAL_ENV", "d", "lib/python3.9/site-packages/nvidia/cuda_sanitizer_api/lib/"),
                  ("VIRTUAL_ENV", "e", "lib/python3.9/site-packages/nvidia/cu13/compute-sanitizer/")]
        for variable, folder, below in places:
            path = self.write(f"{folder}/{below}{NAME}", "") if variable else self.part("../sanitizer/lib/" + NAME)
            env = {variable: self.path(folder)} if variable else {}
            got = self.shown(**env)["MEMTRACE_SANITIZER"]
            self.assertEqual(os.path.realpath(got), os.path.realpath(path), folder)
            os.unlink(path)
        env = {}
        for variable, folder, below in reversed(places[:4]):  # each one goes before those that are there
            path = self.write(f"{folder}/{below}{NAME}", "") if variable else self.part("../sanitizer/lib/" + NAME)
            env.update({variable: self.path(folder)} if variable else {})
            self.assertEqual(os.path.realpath(self.shown(**env)["MEMTRACE_SANITIZER"]), os.path.realpath(path), folder)

    def test_missing(self):
        """A GPU without the library: -d gpu refuses and says the way out, auto goes to the CPU device with a word."""
        done = self.run_mt("/bin/true", code=2)
        for word in (NAME, "./setup gpu", "pip install nvidia-cuda-sanitizer-api", "MEMTRACE_SANITIZER"):
            self.assertIn(word, done.stderr)
        done = self.run_mt("/bin/true", code=2, MEMTRACE_SANITIZER="/nowhere")
        self.assertIn(f"there is no {NAME} at /nowhere", done.stderr)
        os.unlink(os.path.join(self.root, "lib/memtrace/libmemtrace-inject.so"))
        self.assertIn("built without", self.run_mt("/bin/true", code=2).stderr)

    def test_foreign_library(self):
        """Code of others is not taken, wherever it lies."""
        if os.getuid() != 0:
            self.skipTest("only root can give a file away")
        library = self.write("home/cuda/lib/" + NAME, "")
        os.chown(library, 12345, 12345)
        self.assertIn(NAME, self.run_mt("/bin/true", code=2, CUDA_PATH=self.path("home/cuda")).stderr)

    def test_other_tool(self):
        self.write("home/cuda/lib/" + NAME, "")
        done = self.run_mt("/bin/true", code=2, CUDA_PATH=self.path("home/cuda"), CUDA_INJECTION64_PATH="/opt/other.so")
        self.assertIn("already names /opt/other.so", done.stderr)
        self.assertIn("-d cpu", done.stderr)

    def test_cpu(self):
        """-d cpu, and a machine without a GPU: as ever, and nothing is injected."""
        self.write("home/cuda/lib/" + NAME, "")
        for name in ("libmemtrace-attach.so", "libmemtrace.so", "memtrace/driver/x", "memtrace/python/x"):
            self.part(name)
        for words, device in ((["-d", "cpu"], "gpu"), ([], "auto")):
            if device == "auto" and (os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")):
                continue
            got = self.shown(*words, CUDA_PATH=self.path("home/cuda"), MEMTRACE_DEVICE=device)
            self.assertEqual(got.get("CUDA_INJECTION64_PATH", ""), "")
            self.assertIn("libmemtrace-attach.so", got["LD_AUDIT"])

    def test_list(self):
        listed = self.run_mt("--list", MEMTRACE_DEVICE="cpu").stdout
        self.assertIn("on a GPU: nothing would be traced: NVIDIA's libsanitizer-public.so is not found", listed)
        library = self.write("home/cuda/lib/" + NAME, "")
        listed = self.run_mt("--list", CUDA_PATH=self.path("home/cuda")).stdout
        self.assertRegex(listed, "on a GPU: all machine code that runs there is traced as it is, by .*" + NAME)
        there = os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")
        self.assertIn("here: there is a GPU, and kernels run and are traced there" if there
                      else "here: a GPU is asked for, but none was found", listed)
        self.assertTrue(os.path.exists(library))
