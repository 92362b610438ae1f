"""What tests in Python share: checks, a private folder for each case, programs that must end as expected, and the list of cases, which
tests/run.py runs."""
import collections
import json
import os
import shlex
import shutil
import subprocess
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUILD = os.path.join(SOURCE, "build")  # or what --build names: tests/run.py sets it before it loads the cases
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # for files of programs that write much


class Failed(Exception):
    """A check did not hold."""


class Skipped(Exception):
    """What the check needs is not on this machine."""


def same(what, got, want):
    """Raises Failed with both values, cut to a readable length, or with the differing keys of two dicts."""
    if got == want:
        return
    if isinstance(got, dict) and isinstance(want, dict):
        keys = [k for k in {**want, **got} if got.get(k) != want.get(k)]
        lines = [f"{k}: got {got.get(k)}, expected {want.get(k)}" for k in keys[:12]]
        raise Failed(f"{what}: {len(keys)} keys differ\n    " + "\n    ".join(lines))
    raise Failed(f"{what}: got {str(got)[:2000]}, expected {str(want)[:2000]}")


def holds(what, condition):
    if not condition:
        raise Failed(what)


def expect(condition, *words):
    """The same, the other way round: what was found is said in words, one after the other."""
    if not condition:
        raise Failed(" ".join(map(str, words)))


def need(program):
    path = shutil.which(program)
    if not path:
        raise Skipped(f"{program} is not installed")
    return path


def clean(**variables):
    """The environment without variables of memtrace but these."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
    return {**env, **{k: str(v) for k, v in variables.items()}}


def run(command, timeout=600, text=True, **more):
    more.setdefault("capture_output", not {"stdout", "stderr"} & more.keys())
    return subprocess.run([str(c) for c in command], timeout=timeout, **({"text": True, "errors": "replace"} if text else {}), **more)


def call(command, code=0, **more):
    """Runs a program; its exit code must be `code` (None: any)."""
    done = run(command, **more)
    if code is not None and done.returncode != code:
        raise Failed(f"{shlex.join(map(str, command))}\n  exit code {done.returncode}, not {code}\n{str(done.stdout)[-2000:]}{str(done.stderr)[-4000:]}")
    return done


def tool(name, build=None):
    """A program of ours: one that users call, or one that ours start."""
    path = os.path.join(build or BUILD, *(("libexec", "memtrace") if name in ("mt-ptx", "mt-extract-mpi") else ("bin",)), name)
    if not os.path.exists(path):
        raise Skipped(f"{name} is not built")
    return path


def toolkit(build=None):
    """The CUDA toolkit of a build."""
    with open(os.path.join(build or BUILD, "cuda-overlay", "bin", ".memtrace-overlay"), encoding="utf-8") as f:
        return dict(line.strip().split("=", 1) for line in f if "=" in line)["cuda"]


def nvcc_of(build=None):
    """nvcc, or None where the toolkit has none."""
    found = os.path.join(toolkit(build), "bin", "nvcc")
    return found if os.path.exists(found) else None


def until(what, event, process=None):
    """Waits for an event, which a function tells, however slow the machine is; Failed if it does not come, or cannot, the process being over."""
    end = time.monotonic() + 300
    while not event():
        over = process is not None and process.poll() is not None
        holds(f"{what}: it does not come", event() or not over and time.monotonic() < end)
        time.sleep(0.01)


def size(path):
    """A file's; 0 if it is not there."""
    return os.path.getsize(path) if os.path.exists(path) else 0


class World:
    """What a case gets: `work`, its private folder; `variant`: which of the case's; `long`: all of it, in as much time as it takes. Folders
    of tests whose cases need more have a World of their own. It keeps `build` and `source`, for those that run elsewhere."""
    parent = None  # where private folders are made, if not in the system's place

    def __init__(self, work, variant=None, build=None, source=None):
        self.work, self.variant, self.build, self.source = work, variant, build or BUILD, source or SOURCE
        self.counter, self.long = 0, False

    def tool(self, name):
        return tool(name, self.build)

    def call(self, command, code=0, **more):
        return call(command, code, **more)

    def path(self, name):
        """A new file's."""
        self.counter += 1
        return os.path.join(self.work, f"{self.counter:03}-{name}")

    def folder(self, name):
        path = self.path(name)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        return path

    def json(self, name, *words, code=0):
        """What a tool prints, as a Python object."""
        return json.loads(self.call([self.tool(name), *words], code).stdout)


Case = collections.namedtuple("Case", "function variant long whole properties")
CASES = {}


def case(name, *variants, long=False, whole=False, **properties):
    """Registers a function, under its own name if it is used without one; a variant's case is NAME.VARIANT. long: only in ctest's
    configuration `long`; whole: there as NAME.whole, too, where world.long is true. properties: ctest's, such as TIMEOUT=900."""
    if callable(name):
        return case(name.__name__.removeprefix("case_"))(name)

    def add(function):
        for variant in variants or (None,):
            full = f"{name}.{variant}" if variant else name
            for key, all_of_it in ((full, False), (full + ".whole", True))[:1 + whole]:
                if key in CASES:
                    raise ValueError(f"two cases are called {key}")
                CASES[key] = Case(function, variant, long or all_of_it, all_of_it, properties)
        return function
    return add
