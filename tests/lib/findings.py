"""What `memtrace check` has to find: programs with planted faults, whose remarks "!NAME: kind" stand in the lines where one is found
when the program runs under that name. Nothing else may be found in NAME, and nothing at all in NAME-right."""
import json
import re
import tempfile

from harness import call, holds, same, tool


def expected(source):
    """{name: {(kind, line)}} of the remarks."""
    found = {}
    with open(source, encoding="utf-8") as f:
        for number, text in enumerate(f, 1):
            remark = re.search("(?://|#)(.*)", text)
            for name, kind in re.findall(r"!([\w-]+): ([\w-]+)", remark[1]) if remark else ():
                found.setdefault(name, set()).add((kind, number))
    return found


def check(*words, code=None, **more):
    """What it says, as JSON, and its exit code."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:  # the program may print
        done = call([tool("memtrace"), "check", "--format=json", "-o", out.name, *words], code, **more)
        return json.load(open(out.name, encoding="utf-8")), done.returncode


def judge(command, twin, due, line=lambda finding: finding.get("line"), hints=False, **more):
    """The findings; they must be those that are due, (kind, line); hints are looked at only with `hints`."""
    said, code = check(*command, twin, **more)
    hard = [f for f in said["findings"] if hints or f["level"] != "hint"]
    same(f"{twin}: {[f['message'] for f in hard]}", {(f["kind"], line(f)) for f in hard}, due)
    same(f"{twin}: exit code", code, 1 if due and not hints else 0)
    holds(f"{twin}: complete", said["complete"])
    return said["findings"]
