"""memtrace run: which engine traces. An installation of its own (programs and libraries are names only), NVIDIA's library a file;
MEMTRACE_DEVICE=gpu says that there is a GPU. Where versions matter, library, driver and GPU are those of tests/gpu/inject."""
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
        for name in ("libmemtrace-inject.so", "gpu-patch-12.fatbin", "gpu-patch-13.fatbin"):
            self.part("memtrace/" + name)
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

    def played(self, name):
        path = os.path.join(world.build, "tests/gpu/inject", name)
        if not os.path.exists(path):
            self.skipTest(f"{name} of tests/gpu is not built")
        return path

    def machine(self, driver, *libraries, **env):
        """The variables of a machine with a GPU and this driver, with these libraries where ./setup puts them."""
        for folder in libraries:
            path = self.part(f"../sanitizer/{folder}/{NAME}")
            shutil.copy(self.played(NAME), path)
        return {"LD_PRELOAD": self.played("machine/libcuda.so"), "MACHINE_DRIVER": driver, "MEMTRACE_DEVICE": "auto", **env}

    def chosen(self, got):
        return os.path.relpath(os.path.realpath(got["MEMTRACE_SANITIZER"]), os.path.join(os.path.realpath(self.root), "sanitizer"))

    def test_driver(self):
        """A driver gets the library of its CUDA version, and where there is none an older one, which it lets in."""
        for driver, libraries, must in (("535.183.01", ("13", "12"), "12"), ("580.65.06", ("13", "12"), "13"), ("580.65.06", ("12",), "12"), ("525.60", ("12",), "12")):
            env = self.machine(driver, *libraries)
            self.assertEqual(self.chosen(self.shown(**env)), f"{must}/{NAME}", driver)
            listed = self.run_mt("--list", **env).stdout
            self.assertRegex(listed, f"versions: driver {driver} .CUDA {driver[0:2] == '58' and 13 or 12}., library {must}[.].*{NAME}.*, patches gpu-patch-{must}.fatbin: they fit\n")
            self.assertIn("here: there is a GPU, and kernels run and are traced there", listed)
            shutil.rmtree(os.path.join(self.root, "sanitizer"))
        shutil.copy(self.played("machine/libcuda.so"), os.path.join(self.root, "libcuda.so.580.65.06"))  # newer than the kernel's module
        os.symlink("libcuda.so.580.65.06", os.path.join(self.root, "libcuda.so.1"))
        env = self.machine("535.183.01", "13", "12", LD_PRELOAD=os.path.join(self.root, "libcuda.so.1"))
        self.assertEqual(self.chosen(self.shown(**env)), f"13/{NAME}")

    def test_driver_without_files(self):
        """As under WSL: no file says the driver's version, so it is asked."""
        for cuda, must in (("12040", "12"), ("13010", "13"), ("", "13")):
            env = self.machine("", "13", "12", **({"MACHINE_CUDA": cuda} if cuda else {}))
            self.assertEqual(self.chosen(self.shown(**env)), f"{must}/{NAME}", cuda)
            fits = f"driver of CUDA {must}, .* they fit" if cuda else "driver of unknown version, .* not known whether they fit"
            self.assertRegex(self.run_mt("--list", **env).stdout, fits)

    def test_does_not_fit(self):
        """Driver, library and patches that do not go together are refused by their versions, with the way out."""
        env = self.machine("535.183.01", "13")
        words = ("driver 535.183.01 (CUDA 12)", "library 13.0", "patches gpu-patch-12", "a driver 580 or newer", "./setup gpu", "-api-cu12")
        done = self.run_mt("/bin/true", code=2, **env)
        for word in (*words, "-d cpu"):
            self.assertIn(word, done.stderr)
        listed = self.run_mt("--list", **env).stdout
        for word in (*words, "they do not go together", "programs are refused"):
            self.assertIn(word, listed)
        named = os.path.join(self.root, "sanitizer/13")  # the user wants this one
        self.assertEqual(self.chosen(self.shown(**env | {"MEMTRACE_SANITIZER": named})), f"13/{NAME}")
        self.assertIn("tried all the same", self.run_mt("--show", "/bin/true", **env | {"MEMTRACE_SANITIZER": named}).stderr)
        listed = self.run_mt("--list", **env | {"MEMTRACE_SANITIZER": named}).stdout
        self.assertRegex(listed, "on a GPU: .*" + NAME + " is tried, as MEMTRACE_SANITIZER names it: a library of CUDA 13 needs")
        self.assertIn("they do not go together", listed)
        self.assertNotIn("traced as it is", listed)
        self.assertNotIn("are traced there", listed)
        self.assertIn("too old: install 525 or newer", self.run_mt("/bin/true", code=2, **env | {"MACHINE_DRIVER": "470.82.01"}).stderr)
        env = self.machine("535.183.01", "12")
        os.unlink(os.path.join(self.root, "lib/memtrace/gpu-patch-12.fatbin"))
        done = self.run_mt("/bin/true", code=2, **env)
        for word in ("driver 535.183.01", "library 12.9", "patches none", "no patches that this driver loads", "./setup gpu"):
            self.assertIn(word, done.stderr)

    def test_not_silently_on_the_cpu(self):
        """A machine with a GPU whose kernels cannot be traced: refused, unless the user asks for the CPU device."""
        for name in ("libmemtrace-attach.so", "libmemtrace.so", "memtrace/driver/x", "memtrace/python/x"):
            self.part(name)
        env = self.machine("580.65.06")
        done = self.run_mt("--show", "/bin/true", code=2, **env)
        self.assertEqual(done.stdout, "")
        for word in ("nothing is traced on the GPU", NAME, "-d cpu"):
            self.assertIn(word, done.stderr)
        self.assertIn("libmemtrace-attach.so", self.shown("-d", "cpu", **env)["LD_AUDIT"])

    def test_preload(self):
        """MEMTRACE_ENGINE=preload: the dynamic linker loads the library, and the driver does not."""
        library = self.write("home/cuda/compute-sanitizer/" + NAME, "")
        got = self.shown(CUDA_PATH=self.path("home/cuda"), MEMTRACE_ENGINE="preload", LD_PRELOAD="")
        injection = os.path.realpath(os.path.join(self.root, "lib/memtrace/libmemtrace-inject.so"))
        self.assertEqual(os.path.realpath(got["LD_PRELOAD"]), injection)
        self.assertEqual((got["MEMTRACE_ENGINE"], got.get("CUDA_INJECTION64_PATH", "")), ("preload", ""))
        self.assertEqual(os.path.realpath(got["NVTX_INJECTION64_PATH"]), injection)
        self.assertTrue(os.path.exists(library))

    def test_engine_word(self):
        """A misspelt MEMTRACE_ENGINE is no injection."""
        self.write("home/cuda/lib/" + NAME, "")
        for word, say in (("prelaod", "did you mean preload?"), ("x", "inject, preload or none")):
            for more in (("/bin/true",), ("--list",)):
                self.assertIn(say, self.run_mt(*more, code=2, CUDA_PATH=self.path("home/cuda"), MEMTRACE_ENGINE=word).stderr)
        self.assertEqual(self.shown(CUDA_PATH=self.path("home/cuda"), MEMTRACE_ENGINE="none")["MEMTRACE_ENGINE"], "inject")

    def test_no_driver(self):
        """A GPU's device file without libcuda.so.1, as in a container: the driver is what is missing."""
        plain = os.path.join(self.root, "plain.so")  # not named as the driver's library
        for known in ("580.65.06", ""):
            env = self.machine(known, "13")
            shutil.copy(env["LD_PRELOAD"], plain)
            env["LD_PRELOAD"] = plain
            said = self.run_mt("/bin/true", code=2, **env).stderr
            for word in ("libcuda.so.1", "is not found", "install the driver", "-d cpu", "driver 580" if known else "no driver"):
                self.assertIn(word, said)
            listed = self.run_mt("--list", **env).stdout
            self.assertIn("on a GPU: nothing would be traced: there is a GPU's device file, but libcuda.so.1", listed)
            self.assertRegex(listed, "versions: .*: they do not go together" if known else "versions: no driver, .*: not all are here")
            self.assertNotIn("they fit", listed)
            self.assertEqual(self.chosen(self.shown("-d", "gpu", **env)), f"13/{NAME}")

    def test_missing(self):
        """A GPU without the library: refused, with the way out."""
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
        own = self.write("home/own/lib/" + NAME, "")  # the next one, of which nothing bad is said
        env = {"CUDA_PATH": self.path("home/cuda"), "CUDA_HOME": self.path("home/own")}
        self.assertEqual(os.path.realpath(self.shown(**env)["MEMTRACE_SANITIZER"]), os.path.realpath(own))
        self.assertNotIn("tried all the same", self.run_mt("--show", "/bin/true", **env).stderr)

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
        self.assertIn("here: the CPU device is asked for", listed)
        library = self.write("home/cuda/lib/" + NAME, "")
        listed = self.run_mt("--list", CUDA_PATH=self.path("home/cuda")).stdout
        self.assertRegex(listed, "on a GPU: all machine code that runs there is traced as it is, by .*" + NAME)
        there = os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")
        self.assertIn("here: there is a GPU, and kernels run and are traced there" if there
                      else "here: a GPU is asked for, but none was found", listed)
        self.assertTrue(os.path.exists(library))
