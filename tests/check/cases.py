"""memtrace check: faulty programs and their right twins."""
import json
import os
import re
import shutil

from findings import check, expected, judge
from harness import Skipped, case, holds, run, same

HERE = os.path.dirname(os.path.realpath(__file__))
OF_HOST = {"uninitialised-copy", "unordered", "failed-call", "double-free"}
ALSO = {"handed_on": "tail"}  # found at the line of another one


def judge_all(program, source, host_lines=True):
    """host_lines: those of the program's own calls are known."""
    want = expected(source)
    want.update({name: want[of] for name, of in ALSO.items() if of in want})
    for name in run([program]).stdout.split():
        due = {(kind, line if host_lines or kind not in OF_HOST else None) for kind, line in want[name]}
        judge([program], name, due, cwd=HERE)
        judge([program], name + "-right", set(), cwd=HERE)


def faults():
    return os.path.join(HERE, "faults.cu")


@case("mt_cc")
def mt_cc(world):
    judge_all(world.compile(faults(), "-O1", "--mt-spaces=global,shared"), faults())


@case("nvcc")
def nvcc(world):
    if not shutil.which("nvcc"):
        raise Skipped("no nvcc")
    program = world.path("faults")
    run(["nvcc", "-O1", "-arch=sm_90", "-lineinfo", faults(), "-o", program])
    judge_all(program, faults(), host_lines=False)


def rows_of_kinds():
    """{kind: (group, level, rule)} of the table in the sources."""
    with open(os.path.join(HERE, "../../postprocess/analysis/check/kinds.def"), encoding="utf-8") as f:
        rows = re.findall(r'^FINDING\(\w+, "([\w-]+)", (\w+), (\w+), "(.*)"\)', f.read(), re.M)
    return {word: (group.lower(), level.lower(), rule) for word, level, group, rule in rows}


@case("kinds")
def kinds(world):
    """The manual has each kind as it is."""
    with open(os.path.join(HERE, "../../docs/man/memtrace-check.md"), encoding="utf-8") as f:
        manual = re.findall(r"^\| `([\w-]+)` \| (\w+) \| (\w+) \| (.*) \|$", f.read(), re.M)
    same("kinds in the manual", {word: tuple(rest) for word, *rest in manual}, rows_of_kinds())


@case("formats")
def formats(world):
    """The same findings in all formats; suppressions, choices and exit codes."""
    program = world.compile(faults(), "-O1", "--mt-spaces=global,shared")
    memtrace, folder = world.tool("memtrace"), world.path("kept")
    said, _ = check("--keep", folder, program, "total", code=1, cwd=HERE)
    message = next(f["message"] for f in said["findings"] if f["level"] == "error")
    again, _ = check(folder, code=1, cwd=HERE)
    same("a trace that was kept says the same", again["findings"], said["findings"])
    text = run([memtrace, "check", folder], cwd=HERE)
    holds(f"text: {text.stdout}", message in text.stdout and "shared-race: " in text.stdout and text.returncode == 1)
    sarif = world.path("out.sarif")
    same("sarif", run([memtrace, "check", "-f", "sarif", "-o", sarif, folder], cwd=HERE).returncode, 1)
    with open(sarif, encoding="utf-8") as f:
        log = json.load(f)
    driver, results = log["runs"][0]["tool"]["driver"], log["runs"][0]["results"]
    same("sarif: version and rules", (log["version"], [rule["id"] for rule in driver["rules"]]), ("2.1.0", list(rows_of_kinds())))
    first = results[0]
    place = first["locations"][0]["physicalLocation"]
    same("sarif: the first result", (first["message"]["text"], place["artifactLocation"]["uri"], first["ruleId"], first["level"]),
         (message, "faults.cu", "shared-race", "error"))
    same("sarif: its line", (place["region"]["startLine"], first["relatedLocations"][0]["physicalLocation"]["region"]["startLine"]),
         (said["findings"][0]["line"], said["findings"][0]["other"]["line"]))
    same("sarif: rules by number", {driver["rules"][r["ruleIndex"]]["id"] == r["ruleId"] for r in results}, {True})
    for lines, code, taken in (("shared-race\n", 0, 1), ("# all\n* total* */faults.cu\n", 0, 1), ("shared-race other\n", 1, 0), ("race\n", 2, None)):
        path = world.path("suppress")
        with open(path, "w", encoding="utf-8") as f:
            f.write(lines)
        done = run([memtrace, "check", "-f", "json", "--suppress", path, folder])
        same(f"suppress {lines!r}: {done.stderr}", done.returncode, code)
        if taken is not None:
            same(f"suppress {lines!r}: how many", json.loads(done.stdout)["suppressed"], taken)
    for words, code in ((["--kinds", "memory"], 0), (["--kinds", "race,init"], 1), (["--kinds", "!race"], 0), (["--kinds", "!shared-race"], 0),
                        (["--kinds", "rage"], 2), (["--kinds", ""], 2), (["--kinds", "race,!race"], 2), (["--format", "xml"], 2), ([], 1)):
        same(f"{words}", run([memtrace, "check", *words, folder]).returncode, code)
    same("freed after their streams", check("--kinds=leak", program, "streams-right", code=0, cwd=HERE)[0]["findings"], [])
    quiet = run([memtrace, "check", "-q", "--kinds=!race", program, "total"])
    same("quiet", (quiet.returncode, quiet.stderr), (0, ""))
    plain = world.compile(faults(), "-O1")
    holds("a program without records of shared memory", "--mt-spaces" in run([memtrace, "check", plain, "total"]).stderr)
    died = check(program, "end", "abort", code=1, cwd=HERE)[0]["findings"]
    same("a program that ends badly", [f["kind"] for f in died], ["out-of-bounds"])
    same("no folder", run([memtrace, "check", "--keep", faults(), program, "total"]).returncode, 2)
    never = run([memtrace, "check", "--suppress", "/no/file", program, "total"])
    same("a file that is not there", (never.returncode, never.stdout), (2, ""))
    for words, code in (([program, "nothing of that name"], 3), (["/no/program"], 2), ([], 2)):
        same(f"{words}", run([memtrace, "check", *words]).returncode, code)
