"""./setup: how it counts a suite, what it does about packages and CUDA wheels; on copies of its scripts with made-up
ctest, apt and pip."""
import hashlib
import os
import shlex
import shutil
import struct
import tarfile
import zipfile

import world
from world import Case

CTEST = """#!/bin/sh
case "$*" in *" -N"*) echo "Total Tests: $TOTAL"; exit 0;; esac
cat "$LINES_FILE"
exit $CODE
"""


RUN_SUITE = "build=b log=.\n. {}/tools/setup/suite.sh\nsuite_run\n"


class Product(Case):
    def test_all_that_is_installed_is_built(self):
        """Each folder that installs something is among what ./setup build makes."""
        installs = set()
        for folder, _, names in os.walk(world.source):
            top = os.path.relpath(folder, world.source).split(os.sep)[0]
            configured = os.path.exists(os.path.join(world.build, top, "cmake_install.cmake"))
            if configured and "CMakeLists.txt" in names and top not in (".", "tests", "examples", "bench", "build"):
                with open(os.path.join(folder, "CMakeLists.txt"), encoding="utf-8") as f:
                    if "install(" in f.read():
                        installs.add(top + "/all")
        script = "source_dir=%s build=%s\n" % (shlex.quote(world.source), shlex.quote(world.build))
        with open(os.path.join(world.source, "setup"), encoding="utf-8") as f:
            text = f.read()
        script += text[text.index("product_targets() {"):].split("\n}\n")[0] + "\n}\nproduct_targets\n"
        built = set(self.run_("bash", "-c", script).stdout.split())
        self.assertIn("runtime/all", installs)
        self.assertLessEqual(installs, built)
        self.assertFalse(built & {"tests/all", "examples/all", "bench/all"})


class Folder(Case):
    """Folders in which something in the build would go wrong late are refused at once, by both ways in."""

    def test_refused(self):
        bad = ("it's", "a(b", "a)b", "a&b", "a$b", 'a"b', "a;b", "a`b", "a\\b", "a<b", "a|b", "a*b", "a[b", "a\nb")
        for i, name in enumerate(bad):
            os.makedirs(self.path(name))
            shutil.copy(os.path.join(world.source, "setup"), self.path(name))
            done = self.run_("bash", os.path.join(self.path(name), "setup"), "help", code=1)
            self.assertIn("the folder's name has a character", done.stderr, name)
            self.assertEqual(os.listdir(self.path(name)), ["setup"])
            if "\\" in name:
                continue  # to cmake that is a slash
            shutil.copy(os.path.join(world.source, "CMakeLists.txt"), self.path(name))
            done = self.run_("cmake", "-S", self.path(name), "-B", self.path(f"build{i}"), code=1)
            self.assertIn("the folder's name has a character", " ".join(done.stderr.split()), name)

    def test_taken(self):
        for name in ("a b", "a+b=c,d@e", "\u00e4%2F#1"):
            os.makedirs(self.path(name))
            shutil.copy(os.path.join(world.source, "setup"), self.path(name))
            done = self.run_("bash", os.path.join(self.path(name), "setup"), "help", code=None)
            self.assertNotIn("the folder's name", done.stderr, name)


class Suite(Case):
    def suite(self, total, lines, ctest_code, code):
        """Last line that suite_run prints for what a ctest said."""
        self.write("bin/ctest", CTEST, 0o755)
        self.write("lines", "".join(line + "\n" for line in lines))
        script = self.write("go", RUN_SUITE.format(shlex.quote(world.source)))
        done = self.run_("bash", script, code=code, PATH=self.path("bin") + os.pathsep + os.environ["PATH"],
                         TOTAL=str(total), CODE=str(ctest_code), LINES_FILE=self.path("lines"))
        return done.stdout.splitlines()[-1]

    def test_all_pass(self):
        lines = ["1/2 Test #1: a.b ......   Passed    0.01 sec", " 2/2 Test  #12: c ...   Passed   10.00 sec"]
        self.assertEqual(self.suite(2, lines, 0, 0), "2 passed, 0 failed, 0 skipped")

    def test_each_kind(self):
        lines = ["1/6 Test #1: a ......   Passed    0.01 sec", "2/6 Test #2: b ......***Failed    0.01 sec",
                 "3/6 Test #3: c ......***Skipped   0.01 sec", "4/6 Test #4: d ......***Exception: SegFault  0.2 sec",
                 "5/6 Test #5: e ......***Timeout  1.00 sec", "6/6 Test #6: f ......***Not Run   0.00 sec"]
        self.assertEqual(self.suite(6, lines, 8, 1), "1 passed, 4 failed, 1 skipped")

    def test_words_of_a_test_do_not_count(self):
        lines = ["1/1 Test #1: a ......***Failed    0.01 sec", "Test said: Passed  1 sec", "   b Passed 0.1 sec"]
        self.assertEqual(self.suite(1, lines, 8, 1), "0 passed, 1 failed, 0 skipped")

    def test_ended_early(self):
        self.assertEqual(self.suite(3, ["1/3 Test #1: a ....   Passed    0.01 sec"], 8, 1), "1 passed, 0 failed, 0 skipped, 2 did not run: ctest was ended with 8")

    def test_failure_without_a_test(self):
        self.assertEqual(self.suite(1, ["1/1 Test #1: a ....   Passed    0.01 sec"], 8, 1), "1 passed, 1 failed, 0 skipped")

    def test_nothing_ran(self):
        self.assertEqual(self.suite(0, [], 0, 1), "0 passed, 0 failed, 0 skipped")
        self.assertEqual(self.suite(1, ["1/1 Test #1: a ....***Skipped  0.01 sec"], 0, 1), "0 passed, 0 failed, 1 skipped")

    def test_real_ctest(self):
        """The counting understands the ctest that is here."""
        self.write("CMakeLists.txt", """cmake_minimum_required(VERSION 3.25)
project(t NONE)
enable_testing()
add_test(NAME good.one COMMAND true)
add_test(NAME good.two COMMAND echo "1/1 Test #1: x ....   Passed    0.01 sec")
add_test(NAME bad COMMAND false)
add_test(NAME absent COMMAND /no/such/program)
add_test(NAME crash COMMAND sh -c "kill -SEGV $$")
add_test(NAME skips COMMAND sh -c "echo trying; echo no GPU here; exit 77")
set_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME left_out COMMAND sh -c "echo 'mt: the part x was left out of this build; y'; echo more; exit 77")
set_tests_properties(left_out PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME slow COMMAND sleep 30)
set_tests_properties(slow PROPERTIES TIMEOUT 1)
""")
        self.run_("cmake", "-S", ".", "-B", "b")
        script = self.write("go", RUN_SUITE.format(shlex.quote(world.source)))
        done = self.run_("bash", script, code=1)
        self.assertEqual(done.stdout.splitlines()[-3:], ["skipped: 1: no GPU here: skips", "skipped: 1: the part x was left out of this build: left_out",
                                                         "2 passed, 4 failed, 2 skipped"])


class Packages(Case):
    def tree(self, packages):
        shutil.copytree(os.path.join(world.source, "tools/setup"), self.path("tools/setup"))
        self.write("tools/setup/packages", packages)
        self.write("bin/dpkg-query", '#!/bin/sh\nfor p; do :; done\ngrep -qx "$p" installed 2>/dev/null && printf installed\n',
                   0o755)
        self.write("bin/apt-cache", '#!/bin/sh\ngrep -qx "$2" known 2>/dev/null && echo "$2 | 1"\n', 0o755)
        self.write("bin/apt-get", """#!/bin/sh
printf 'apt-get %s\\n' "$*" >>log
case " $* " in
*" update "*) cp all known ;;
*" install "*) for p; do grep -qx "$p" known && echo "$p" >>installed; done; [ -z "${APT_FAILS-}" ] ;;
esac
""", 0o755)
        self.write("bin/sudo", '#!/bin/sh\n"$@"\n', 0o755)
        self.write("all", "one\ntwo\nthree\n")
        self.write("log", "")

    def install(self, code=0, what="packages_install", **env):
        script = self.write("go", "log=.\nsay() { echo \"setup: $*\"; }\nfail() { echo \"setup: $*\" >&2; exit 1; }\n"
                                  f". tools/setup/apt.sh\n{what}\n")
        done = self.run_("bash", script, code=code, PATH=self.path("bin") + os.pathsep + os.environ["PATH"], **env)
        return done, self.read("log").decode()

    def test_nothing_missing(self):
        self.tree("# list\none  a reason\n")
        self.write("installed", "one\n")
        done, log = self.install()
        self.assertEqual((done.stdout, log), ("", ""))

    def test_missing_ones_are_named_and_installed(self):
        self.tree("one  a reason\ntwo  another reason\nthree  and one more\n")
        self.write("installed", "two\n")
        self.write("known", "one\ntwo\nthree\n")
        done, log = self.install()
        self.assertEqual(done.stdout, "setup: installing one: a reason\nsetup: installing three: and one more\n")
        self.assertEqual(log.count("apt-get"), 1, "no update when the lists know them")
        self.assertRegex(log, r"--no-install-recommends one three\n$")
        self.assertEqual(self.install()[0].stdout, "", "the second time there is nothing to do")

    def test_update_when_the_lists_are_empty(self):
        self.tree("one  a reason\n")
        done, log = self.install()
        self.assertIn("update", log.splitlines()[0])
        self.assertIn("install", log.splitlines()[1])

    def test_failure_is_one(self):
        self.tree("one  a reason\n")
        done, _ = self.install(code=1, APT_FAILS="yes")
        self.assertIn("could not install: one", done.stderr)

    def test_as_a_user(self):
        """Not root: with sudo; without it the command for the administrator is printed."""
        self.tree("one  a reason\n")
        self.write("known", "one\n")
        self.write("bin/id", "#!/bin/sh\necho 1000\n", 0o755)
        self.write("bin/sudo", '#!/bin/sh\necho sudo >>log\n"$@"\n', 0o755)
        self.assertTrue(self.install()[1].startswith("sudo\napt-get "))
        os.unlink(self.path("bin/sudo"))
        os.unlink(self.path("installed"))
        if shutil.which("sudo"):
            self.skipTest("this machine has a sudo")
        self.assertIn("apt-get install --no-install-recommends one", self.install(code=1)[0].stderr)

    def test_packages_of_tests(self):
        """Those that can be had are installed; the others are not a failure."""
        self.tree("")
        self.write("tools/setup/packages-tests", "# list\none  a reason\nfour  a browser\n")
        self.write("known", "one\n")
        done, log = self.install(what="packages_install_tests")
        self.assertEqual(log.count(" install "), 1)
        self.assertRegex(log, r"--no-install-recommends one\n$")
        self.assertIn("four cannot be had here: tests that need it will be skipped", done.stdout)
        done, log = self.install(what="packages_install_tests", APT_FAILS="yes")
        self.assertNotIn("installing one", done.stdout)

    def test_reasons(self):
        """Each package of the real lists has one."""
        for name in ("packages", "packages-tests", "packages-optional"):
            with open(os.path.join(world.source, "tools/setup", name), encoding="utf-8") as f:
                for line in f:
                    if line.strip() and not line.startswith("#"):
                        self.assertGreaterEqual(len(line.split()), 2, line)


class Wheels(Case):
    def test_unpacked_to_a_toolkit(self):
        os.mkdir(self.path("wheels"))
        with zipfile.ZipFile(self.path("wheels/nvidia_cuda_nvcc-13.0.1-py3-none-any.whl"), "w") as z:
            z.writestr("nvidia/cu13/bin/ptxas", "#!/bin/sh\n")
            z.writestr("nvidia/cu13/bin/fatbinary", "#!/bin/sh\n")
            z.writestr("nvidia/cu13/nvvm/libdevice/libdevice.10.bc", "")
            z.writestr("nvidia_cuda_nvcc-13.0.1.dist-info/License.txt", "words")
            z.writestr("../evil", "")
        with zipfile.ZipFile(self.path("wheels/nvidia_cuda_runtime_cu12-12.4-py3-none-any.whl"), "w") as z:
            z.writestr("nvidia/cuda_runtime/include/cuda_runtime_api.h", "")
            z.writestr("nvidia/cuda_runtime/lib/libcudart.so.12", "")
        self.write("cuda/old", "")
        self.run_("python3", os.path.join(world.source, "tools/setup/unpack_wheels.py"), "wheels", self.path("cuda"))
        for name in ("nvvm/libdevice/libdevice.10.bc", "include/cuda_runtime_api.h", "lib64/libcudart.so",
                     "lib/libcudart.so.12", "dist-info/nvidia_cuda_nvcc-13.0.1.dist-info/License.txt"):
            self.assertTrue(os.path.exists(self.path("cuda", name)), name)
        self.assertTrue(os.access(self.path("cuda/bin/ptxas"), os.X_OK))
        self.assertFalse(os.path.exists(self.path("cuda/old")))
        self.assertFalse(os.path.exists(self.path("evil")))

    def test_search_order(self):
        shutil.copytree(os.path.join(world.source, "tools/setup"), self.path("tools/setup"))
        for root in ("mine", "b/cuda"):
            for name in ("include/cuda_runtime_api.h", "bin/ptxas", "bin/fatbinary"):
                self.write(f"{root}/{name}", "")
        script = self.write("go", "build=b\n. tools/setup/cuda.sh\ncuda_find\n")
        self.assertEqual(self.run_("bash", script, CUDA_PATH="mine").stdout, "mine\n")
        os.unlink(self.path("mine/bin/ptxas"))
        self.assertNotEqual(self.run_("bash", script, CUDA_PATH="mine").stdout, "mine\n")


class Sanitizer(Case):
    """NVIDIA's library for GPUs: the toolkit's, or a package of PyPI that fits the toolkit; the build goes on without."""

    PIP = """#!/bin/sh
[ "$*" = "-m pip --version" ] && exit 0
case "$*" in
*"pip download"*)
    for word; do last=$word; [ "$before" = --dest ] && dest=$word; before=$word; done
    echo "$last" >>asked
    wheel="wheels/${last%%=*}"
    case $last in *13.5*) wheel=$wheel-13.5 ;; esac
    [ -e "$wheel" ] && mkdir -p "$dest" && cp "$wheel" "$dest/x-1-py3-none-any.whl" ;;
*) exec /usr/bin/python3 "$@" ;;
esac
"""
    LIBRARIES = ["nvidia-cuda-sanitizer-api==13.5.*", "nvidia-cuda-sanitizer-api-cu12==12.9.*"]

    def setUp(self):
        super().setUp()
        for name, files in (("nvidia-cuda-sanitizer-api-13.5", ["cu13/compute-sanitizer/libsanitizer-public.so", "cu13/compute-sanitizer/include/sanitizer.h",
                                                                "cu13/compute-sanitizer/libsanitizer-collection.so"]),
                            ("nvidia-cuda-sanitizer-api", ["cu13/lib/libsanitizer-public.so", "cu13/include/sanitizer.h"]),
                            ("nvidia-cuda-sanitizer-api-cu12", ["cuda_sanitizer_api/lib/libsanitizer-public.so", "cuda_sanitizer_api/include/sanitizer.h"]),
                            ("nvidia-cuda-nvcc-cu12", ["cuda_nvcc/bin/ptxas", "cuda_nvcc/nvvm/lib64/libnvvm.so"])):
            os.makedirs(self.path("wheels"), exist_ok=True)
            with zipfile.ZipFile(self.path("wheels/" + name), "w") as z:
                for file in files:
                    z.writestr("nvidia/" + file, name)
                z.writestr(name + ".dist-info/License.txt", "")

    def install(self, release, code=0):
        shutil.copytree(os.path.join(world.source, "tools/setup"), self.path("tools/setup"), dirs_exist_ok=True)
        self.write("bin/python3", self.PIP, 0o755)
        for name in ("include/cuda_runtime_api.h", "bin/fatbinary"):
            self.write("cuda/" + name, "")
        self.write("cuda/bin/ptxas", f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.88'\n", 0o755)
        os.makedirs(self.path("b"), exist_ok=True)
        script = self.write("go", "build=b log=b\nsay() { echo \"$*\"; }\n. tools/setup/cuda.sh\n. tools/setup/sanitizer.sh\n"
                                  "sanitizer_install || exit 3\nsanitizer_headers\n")
        return self.run_("bash", script, code=code, CUDA_PATH="cuda", PATH=self.path("bin") + os.pathsep + os.environ["PATH"])

    def asked(self):
        with open(self.path("asked"), encoding="utf-8") as f:
            return f.read().splitlines()

    def files(self):
        return sorted(os.path.relpath(os.path.join(at, name), self.path("b/sanitizer")) for at, _, names in os.walk(self.path("b/sanitizer"))
                      for name in names if name != "License.txt")

    def test_of_pypi(self):
        """Both libraries, and of the packages nothing that is not needed; headers of the toolkit's own release, as others do not go with it."""
        self.assertEqual(self.install("13.0").stdout.splitlines()[-1], "b/sanitizer/headers/include")
        self.assertEqual(self.files(), ["12/libsanitizer-public.so", "13/libsanitizer-public.so", "headers/include/sanitizer.h", "ptxas-12/ptxas"])
        with open(self.path("b/sanitizer/13/libsanitizer-public.so"), encoding="utf-8") as f:
            self.assertEqual(f.read(), "nvidia-cuda-sanitizer-api-13.5")
        self.assertTrue(os.access(self.path("b/sanitizer/ptxas-12/ptxas"), os.X_OK))
        self.assertTrue(os.path.isdir(self.path("b/sanitizer/12/dist-info")))
        self.assertEqual(self.install("13.0").stdout, "b/sanitizer/headers/include\n")  # it is there
        self.assertEqual(self.asked(), self.LIBRARIES + ["nvidia-cuda-nvcc-cu12==12.9.*", "nvidia-cuda-sanitizer-api==13.0.*"])

    def test_older_toolkit(self):
        self.assertEqual(self.install("12.4").stdout.splitlines()[-1], "b/sanitizer/headers/include")
        self.assertEqual(self.asked(), self.LIBRARIES + ["nvidia-cuda-sanitizer-api-cu12==12.4.*"])

    def test_of_the_toolkit(self):
        self.write("cuda/compute-sanitizer/include/sanitizer.h", "")
        self.assertEqual(self.install("13.0").stdout.splitlines()[-1], "cuda/compute-sanitizer/include")
        self.assertEqual(self.asked(), self.LIBRARIES + ["nvidia-cuda-nvcc-cu12==12.9.*"])

    def test_cannot_be_had(self):
        """Without a network the build goes on with what is there, and what is missing is said."""
        shutil.rmtree(self.path("wheels"))
        done = self.install("13.0", code=3)
        self.assertEqual([line.split(" ", 1)[0] for line in done.stdout.splitlines() if "cannot be had" in line],
                         self.LIBRARIES + ["nvidia-cuda-nvcc-cu12==12.9.*", "nvidia-cuda-sanitizer-api==13.0.*"])
        self.assertEqual(self.files(), [])
        self.write("b/sanitizer/include/sanitizer.h", "")
        self.assertEqual(self.install("13.0").stdout.splitlines()[-1], "b/sanitizer/include")


class DynamoRIO(Case):
    """./setup dynamorio FILE: a release goes to build/dynamorio, and what is none is refused with the reason. Made-up files of its layout."""

    PATHS = ("bin64/drrun", "cmake/DynamoRIOConfig.cmake", "lib64/release/libdynamorio.so", "ext/lib64/release/libdrmgr_static.a")

    def release(self, paths=PATHS, machine=62, name="DynamoRIO-Linux-11.3.0"):
        for path in paths:
            self.write(f"{name}/{path}", "")
        program = self.path(name, "bin64/drrun")
        if os.path.exists(program):
            with open(program, "wb") as f:
                f.write(b"\x7fELF" + bytes([2, 1, 1]) + bytes(9) + struct.pack("<HH", 3, machine) + bytes(44))
            os.chmod(program, 0o755)
        with tarfile.open(self.path(f"{name}.tar.gz"), "w:gz") as t:
            t.add(self.path(name), name)
        shutil.rmtree(self.path(name))
        return f"{name}.tar.gz"

    def install(self, *words, code=0):
        os.makedirs(self.path("b"), exist_ok=True)
        script = self.write("go", "build=b\nsay() { echo \"$*\"; }\nfail() { echo \"$*\" >&2; exit 1; }\n"
                                  f". {world.source}/tools/setup/dynamorio.sh\n"
                                  "dynamorio_install \"$@\"\ndynamorio_use\necho \"$DYNAMORIO_HOME\"\n")
        return self.run_("bash", script, *words, code=code, DYNAMORIO_HOME="")

    def test_dynamorio_release(self):
        file = self.release()
        with open(self.path(file), "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        for words in ([file], [file, digest], [file, "sha256:" + digest]):
            self.write("b/dynamorio/old", "")
            self.assertEqual(self.install(*words).stdout, f"unpacking {file} (SHA-256 {digest}) into b/dynamorio\nb/dynamorio\n")
            self.assertEqual(sorted(os.listdir(self.path("b"))), ["dynamorio"])
            self.assertEqual(sorted(os.listdir(self.path("b/dynamorio"))), ["bin64", "cmake", "ext", "lib64"])

    def test_dynamorio_refused(self):
        self.write("text.tar.gz", "no archive")
        self.write("b/dynamorio/bin64/kept", "")
        for words, says in (([], "./setup dynamorio FILE"), (["none.tar.gz"], "no file none.tar.gz"), (["text.tar.gz"], "is no .tar.gz"),
                            ([self.release(), "abcd"], "not abcd"), ([self.release(self.PATHS[1:], name="lacking")], "no bin64/drrun"),
                            ([self.release(["core/CMakeLists.txt"], name="source")], "DynamoRIO's source"),
                            ([self.release(machine=183, name="other")], "another processor"), ([self.release(self.PATHS[:2], name="part")], "lacks lib64/release/libdynamorio.so")):
            said = self.install(*words, code=1)
            self.assertIn(says, said.stderr)
            self.assertEqual((said.stdout, said.stderr.count("\n")), ("", 1))
            self.assertEqual(os.listdir(self.path("b/dynamorio/bin64")), ["kept"])
            self.assertEqual(os.listdir(self.path("b")), ["dynamorio"])
