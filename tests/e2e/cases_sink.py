"""Where traces go: folders, patterns, planted links, folders that cannot be written, file modes."""
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess

import trace
from harness import case, holds, same


def app_of(world, name="vector_add"):
    return world.compile(world.example(name), "-O2")


@case("sink.planted_link")
def planted_link(world):
    """A symbolic link in the trace's place is not followed; the program is not disturbed."""
    app, folder = app_of(world), world.folder("link")
    victim = os.path.join(folder, "victim")
    with open(victim, "w") as f:
        f.write("precious")
    os.symlink(victim, os.path.join(folder, "MemTrace-pipe-0"))
    plain = world.run_ok(app, traced=False)
    result = world.run_ok(app, folder=folder)
    same("output", result.out, plain.out)
    with open(victim) as f:
        same("the link's target", f.read(), "precious")
    holds(f"one message that names the file and the link: {result.err!r}",
          result.err.startswith("memtrace: ") and "MemTrace-pipe-0" in result.err and "link" in result.err)
    same("lines said", len(result.err.splitlines()), 1)


@case("sink.planted_companion")
def planted_companion(world):
    app, folder = app_of(world), world.folder("link")
    victim = os.path.join(folder, "victim")
    with open(victim, "w") as f:
        f.write("precious")
    os.symlink(victim, os.path.join(folder, "MemTrace-pipe-0.meta"))
    result = world.run_ok(app, folder=folder)
    with open(victim) as f:
        same("the link's target", f.read(), "precious")
    holds(f"a message: {result.err!r}", result.err.startswith("memtrace: ") and ".meta" in result.err)


@case("sink.anothers_companion")
def anothers_companion(world):
    """A program that cannot write its companion leaves that of an earlier run beside its trace."""
    app, one, two = app_of(world), world.folder("one"), world.folder("two")
    traces = []
    for folder in (one, two):
        if folder == two:
            os.symlink(os.path.join(one, "MemTrace-pipe-0.meta"), os.path.join(two, "MemTrace-pipe-0.meta"))
        result = world.run_ok(app, folder=folder)
        with open(result.path(0), "rb") as f:
            traces.append(f.read())
    comm = world.extract([result.path(0)], code=3 * (traces[0] != traces[1]))
    same("complete only if both runs did the same at the same addresses", comm["complete"], traces[0] == traces[1])


@case("sink.unwritable")
def unwritable(world):
    """A folder that does not exist, or is a file: right result, one message, exit code 0."""
    app = app_of(world)
    plain = world.run_ok(app, traced=False)
    folder = world.folder("unwritable")
    blocker = os.path.join(folder, "file")
    with open(blocker, "w"):
        pass
    for place in (os.path.join(folder, "missing", "deep"), blocker):
        result = world.run_ok(app, MEMTRACE_DIR=place)
        same("output", result.out, plain.out)
        holds(f"messages that name the place: {result.err!r}",
              result.err.startswith("memtrace: ") and place in result.err)
        holds(f"it is said once: {result.err!r}", len(result.err.splitlines()) == 1)
    same("nothing was written", sorted(os.listdir(folder)), ["file"])


@case("sink.full")
def full(world):
    """No more room (a limit on file size stands for a full disk): the program ends well and is told once; what was
    written is whole up to the limit, and the companion, where there was room for it, does not say complete."""
    app, folder = app_of(world), world.folder("full")
    plain = world.run_ok(app, traced=False)
    limit = 1 << 20

    def little_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = subprocess.run([app], capture_output=True, text=True, preexec_fn=little_room,
                             env=dict(os.environ, MEMTRACE_DIR=folder, MEMTRACE_DEVICE="cpu"))
    same("exit code and output", (process.returncode, process.stdout), (0, plain.out))
    holds(f"one message that names the file: {process.stderr!r}",
          process.stderr.startswith("memtrace: ") and "MemTrace-pipe-0" in process.stderr)
    same("lines said", len(process.stderr.splitlines()), 1)
    holds("the file is not longer than there was room", os.path.getsize(os.path.join(folder, "MemTrace-pipe-0")) <= limit)
    meta = trace.Companion(os.path.join(folder, "MemTrace-pipe-0.meta"))
    same("the companion says that the trace is not complete", meta.end()["complete"], False)
    holds("and how much is lost", meta.all("lost"))
    truncated = world.call([world.tool("mt-extract"), os.path.join(folder, "MemTrace-pipe-0")], code=3)
    holds(f"mt-extract names the offset: {truncated.stderr!r}", re.search(r"byte \d+", truncated.stderr))
    same("and says so in its output", json.loads(truncated.stdout)["complete"], False)


@case("sink.pattern")
def pattern(world):
    """MEMTRACE_PATTERN names the files; ? is the stream."""
    app, folder = app_of(world, "producer_consumer"), world.folder("pattern")
    world.run_ok(app, folder=folder, MEMTRACE_PATTERN="mine-?.bin")
    same("files", sorted(os.listdir(folder)), ["mine-0.bin", "mine-0.bin.meta", "mine-1.bin", "mine-1.bin.meta"])
    same("kernels", {launch.kernel for launch in trace.read(os.path.join(folder, "mine-1.bin"))}, {"consume"})


@case("sink.overwrite")
def overwrite(world):
    """A second run replaces the first one's files; they are private to their owner."""
    app, folder = app_of(world), world.folder("overwrite")
    world.run_ok([app, 5000], folder=folder)
    result = world.run_ok([app, 100], folder=folder)
    same("records", [launch.count for launch in result.trace()], [300])
    for suffix in ("", ".meta"):
        mode = stat.S_IMODE(os.stat(result.path() + suffix).st_mode)
        same(f"mode of MemTrace-pipe-0{suffix}", oct(mode), oct(0o600))


@case("sink.executed")
def executed(world):
    """A process that executes another program keeps its number: the trace that goes is named. Other runs' go without a word."""
    app, folder = world.compile(os.path.join(world.src, "executed.cu")), world.folder("executed")
    for names in {}, {"MEMTRACE_PATTERN": "T-%p-?"}, {"MEMTRACE_FORMAT": "compact"}:
        result = world.run([app], folder=folder, **names)
        same("output", (result.code, result.out), (0, "first\nsecond\n"))
        same("said once", [result.err.count("\n"), "before an exec, and are replaced" in result.err], [1, True])
        same("of another process", world.run([app, "again"], folder=folder, **names).err, "")


@case("sink.default_place", RUN_SERIAL="TRUE")  # it uses /tmp's default names
def default_place(world):
    """Without variables the trace is /tmp/MemTrace-pipe-0, and the program needs no tool's environment.
    A trace that is there already is put aside and back."""
    app, aside = app_of(world), world.folder("aside")
    names = ["MemTrace-pipe-0", "MemTrace-pipe-0.meta"]
    kept = [n for n in names if os.path.lexists(f"/tmp/{n}")]
    for name in kept:
        shutil.move(f"/tmp/{name}", f"{aside}/{name}")
    try:
        process = world.call([app], env={"PATH": os.environ["PATH"]})
        same("last line", process.stdout.splitlines()[-1], "vector_add: passed")
        same("records", sum(launch.count for launch in trace.read("/tmp/MemTrace-pipe-0")), 300000)
    finally:
        for name in names:
            if os.path.lexists(f"/tmp/{name}"):
                os.unlink(f"/tmp/{name}")
        for name in kept:
            shutil.move(f"{aside}/{name}", f"/tmp/{name}")


@case("reader.cut")
def cut_trace(world):
    """The independent reader itself: cutting a trace anywhere but at a kernel's end is noticed."""
    result = world.run_ok([app_of(world), 40, 32, 2])
    with open(result.path(), "rb") as f:
        data = f.read()
    whole = 1 + len("vector_add\n") + 24 * (3 * 40 + 1)
    same("length", len(data), 2 * (whole - 1) + 1)
    for cut in range(0, len(data)):
        try:
            trace.parse(data[:cut])
            fine = True
        except trace.Malformed:
            fine = False
        same(f"cut at {cut}", fine, cut in (1, whole))
