"""Nothing is called whole that is not: streams that are left out, or that got no file."""
import json
import os
import random
import shutil
import subprocess
import time

from harness import case, holds, same

STREAMS, LAUNCHES = 3, 5


def source(world):
    return os.path.join(world.src, "whole.cu")


def extract(world, *words, code, cwd=None):
    """comm.json and what memtrace extract says on stderr."""
    process = world.call([world.tool("mt-extract"), *words], code, cwd=cwd)
    return json.loads(process.stdout), process.stderr


def totals(comm):
    return sum(len(steps) for steps in comm["transfers"].values()), comm["meta"]["launches"]


@case("whole.streams")
def streams(world):
    """One of several traces is a part, and is called so; all of them, their folder and their pattern are the whole."""
    for variables in ({}, {"MEMTRACE_FORMAT": "compact"}):
        result = world.run_ok([world.compile(source(world), "-O1"), STREAMS, LAUNCHES], **variables)
        names = sorted(name for name in os.listdir(result.folder) if not name.endswith(".meta"))
        same("files", len(names), STREAMS)
        paths = [os.path.join(result.folder, name) for name in names]
        whole, said = extract(world, *paths, code=0)
        same("all: said", said, "")
        same("all: complete, launches", (whole["complete"], whole["launches"]), (True, STREAMS * LAUNCHES))
        part, said = extract(world, paths[0], code=3)
        same("one: complete, launches", (part["complete"], part["launches"]), (False, LAUNCHES))
        holds(f"one: it is said: {said}", "2 other streams" in said and names[1] in said)
        same("one: it is noted", [names[1] in note for note in part["notes"]], [True])
        part, said = extract(world, *paths[:2], code=3)
        holds(f"two: it is said: {said}", "another stream" in said and names[2] in said)
        pattern = names[0].replace("0", "?")
        for words, cwd in (([result.folder], None), ([os.path.join(result.folder, pattern)], None), ([pattern], result.folder),
                           (["."], result.folder), ([result.folder + "/"], None)):
            comm, said = extract(world, *words, code=0, cwd=cwd)
            same(f"{words}: said", said, "")
            same(f"{words}: the whole", {**comm, "inputs": 0}, {**whole, "inputs": 0})
        none = world.folder("empty")
        holds("an empty folder", "no trace" in world.call([world.tool("mt-extract"), none], 2).stderr)


@case("whole.folder")
def folder(world):
    """Every tool takes a folder. Of several runs in it the newest counts, and that is said."""
    app = world.compile(source(world), "-O1")
    both = world.folder("both")
    world.run_ok([app, STREAMS, 1], folder=both)
    older = extract(world, both, code=0)[0]
    world.run_ok([app, STREAMS - 1, LAUNCHES], folder=both)  # the third trace is left from before
    comm, said = extract(world, both, code=0)
    same("launches", (older["launches"], comm["launches"]), (STREAMS, (STREAMS - 1) * LAUNCHES))
    holds(f"it is said: {said}", "more than one run" in said)
    one = world.folder("one")
    world.run_ok([app, STREAMS, 1], folder=one)
    page = os.path.join(one, "page.html")
    for command in (["mt-dump", "--stat", one], ["mt-graph", one], ["mt-report", "-o", page, one], ["mt-compare", one, both],
                    ["mt-dump", one]):
        words = [world.tool(command[0]), *command[1:]]
        holds(f"{command}: output", world.call(words).stdout or os.path.getsize(page))
    stat = world.call([world.tool("mt-dump"), "--stat", one]).stdout
    same("mt-dump counts all launches", stat.splitlines()[-1].split()[:2], [str(STREAMS), str(STREAMS)])


@case("whole.no_file")
def no_file(world):
    """Streams whose file cannot be opened are counted in the others' traces: nothing of the run is lost in silence."""
    app = world.compile(source(world), "-O1")
    folder = world.folder("run")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
    environment.update(MEMTRACE_DIR=folder, MEMTRACE_DEVICE="cpu")
    streams = 20
    process = subprocess.run(["/bin/sh", "-c", 'ulimit -n 16; exec "$@"', "sh", app, str(streams), "2"], capture_output=True, text=True,
                             timeout=120, env=environment)
    same("exit code and output", (process.returncode, process.stdout), (0, f"{2 * streams} launches\n"))
    traced = len([name for name in os.listdir(folder) if not name.endswith(".meta")])
    holds(f"some are traced, not all: {traced}", 0 < traced < streams)
    holds(f"it is said once a stream, or that it is not: {process.stderr}", "too many open files" in process.stderr)
    comm, said = extract(world, folder, code=3)
    same("complete", comm["complete"], False)
    same("launches, and those without a trace", (comm["launches"], comm["untraced_launches"]),
         (2 * traced, 2 * (streams - traced)))
    holds(f"why: {comm['notes']}", any("too many open files" in note for note in comm["notes"]))
    missing = os.path.join(folder, "none")
    process = subprocess.run([app, "3", "2"], capture_output=True, text=True, timeout=120, env={**environment, "MEMTRACE_DIR": missing})
    same("a folder that is not there is said once, and is not made", (process.returncode, process.stderr, os.path.exists(missing)),
         (0, f"memtrace: {missing} does not exist; create this folder, or set MEMTRACE_DIR; nothing is traced\n", False))
    one = os.path.join(folder, "MemTrace-pipe-0")
    same("one trace knows them, too", extract(world, one, code=3)[0]["untraced_launches"], 2 * (streams - traced))


@case("whole.limit")
def limit(world):
    """A file that may not grow is reported while the kernel still runs."""
    app = world.compile(source(world), "-O1")
    for variables in ({}, {"MEMTRACE_FORMAT": "compact"}):
        folder = world.folder("run")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
        environment.update(MEMTRACE_DIR=folder, MEMTRACE_DEVICE="cpu", **variables)
        process = subprocess.Popen(["/bin/sh", "-c", 'ulimit -f 64; exec "$@"', "sh", app, "long"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=environment)
        said = process.stderr.readline()  # the kernel waits for a word of ours
        holds(f"it is said: {said}", "ends here and is incomplete" in said)
        same("the program still runs", process.poll(), None)
        out, rest = process.communicate("go on\n", timeout=120)
        same("its end", (process.returncode, out), (0, "1 launches\n"))
        same("it is said once", rest, "")
        [name] = [name for name in os.listdir(folder) if not name.endswith(".meta")]
        same("complete", extract(world, os.path.join(folder, name), code=3)[0]["complete"], False)


@case("whole.killed")
def killed(world):
    """300 programs are killed, each at another moment of its life: what they leave is called whole only if it is."""
    app = world.compile(source(world), "-O1")
    launches, kills = 60, 300
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    kinds = [{}, {"MEMTRACE_FORMAT": "compact"}]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
    command = [app, str(STREAMS), str(launches)]
    ends = {"none": 0, "part": 0, "whole": 0}
    for kind in kinds:
        began = time.monotonic()
        result = world.run_ok(command, **kind)
        longest = time.monotonic() - began
        whole = extract(world, result.folder, code=0)[0]
        same("the run that is not killed", (whole["complete"], whole["launches"]), (True, STREAMS * launches))
        for _ in range(kills // len(kinds)):
            folder = world.folder("killed")
            moment = chance.random() * longest * 0.8
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env={**clean, "MEMTRACE_DIR": folder, "MEMTRACE_DEVICE": "cpu", **kind})
            time.sleep(moment)
            process.kill()
            process.wait()
            left = subprocess.run([world.tool("mt-extract"), folder], capture_output=True, text=True, timeout=60)
            what = f"{kind}, killed after {moment:.4f} s: {left.stderr}"
            if left.returncode == 2 and "no trace" in left.stderr:
                ends["none"] += 1
                continue
            holds(f"mt-extract ends with {left.returncode}: {what}", left.returncode in (0, 3))
            comm = json.loads(left.stdout)
            same(f"complete as its exit code: {what}", comm["complete"], left.returncode == 0)
            ends["whole" if comm["complete"] else "part"] += 1
            if comm["complete"]:
                same(f"called whole: {what}", (comm["launches"], comm["records"]), (whole["launches"], whole["records"]))
            shutil.rmtree(folder)
    print(ends)
    holds("some were killed in the middle", ends["part"] > 0)
