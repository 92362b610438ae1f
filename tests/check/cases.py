"""memtrace check: faulty programs and their right twins."""
import json
import os
import re
import shutil

from harness import Skipped, case, holds, run, same

HERE = os.path.dirname(os.path.realpath(__file__))
OF_HOST = {"uninitialised-copy", "unordered", "failed-call", "double-free"}
ALSO = {"handed_on": "tail"}  # found at the line of another one


def expected(source):
    """{name: {(kind, line)}} of the remarks."""
    found = {}
    with open(source, encoding="utf-8") as f:
        for number, text in enumerate(f, 1):
            for name, kind in re.findall(r"!([\w-]+): ([\w-]+)", text.partition("//")[2]):
                found.setdefault(name, set()).add((kind, number))
    return {**found, **{name: found[of] for name, of in ALSO.items() if of in found}}


def check(world, *words, code=None):
    """What it says, as JSON, and its exit code."""
    done = run([world.tool("memtrace"), "check", "--format=json", *words], cwd=world.work)
    holds(f"{words}: exit code {done.returncode}: {done.stderr}", code is None or done.returncode == code)
    return json.loads(done.stdout), done.returncode


def judge(world, program, source, host_lines=True):
    """host_lines: those of the program's own calls are known."""
    want = expected(source)
    for name in run([program]).stdout.split():
        for twin in name, name + "-right":
            said, code = check(world, program, twin)
            hard = [f for f in said["findings"] if f["level"] != "hint"]
            due = {(kind, line if host_lines or kind not in OF_HOST else None) for kind, line in want[name]} if twin == name else set()
            same(f"{twin}: {[f['message'] for f in hard]}", {(f["kind"], f.get("line")) for f in hard}, due)
            same(f"{twin}: exit code", code, 1 if due else 0)
            holds(f"{twin}: complete", said["complete"])


def faults():
    return os.path.join(HERE, "faults.cu")


@case("mt_cc")
def mt_cc(world):
    judge(world, world.compile(faults(), "-O1", "--mt-spaces=global,shared"), faults())


@case("nvcc")
def nvcc(world):
    if not shutil.which("nvcc"):
        raise Skipped("no nvcc")
    program = world.path("faults")
    run(["nvcc", "-O1", "-arch=sm_90", "-lineinfo", faults(), "-o", program])
    judge(world, program, faults(), host_lines=False)
