"""docs/conformance.md: one section per topic, written by tests/run.py conformance --write, checked for its set of rows otherwise."""
import html
import os
import re

HEAD = """# Conformance

What CUDA programs may ask of a device, row by row: each row is a small kernel (tests/conformance/) whose results are
compared with values computed in another way, and whose accesses to global memory in the trace are compared with those
that CUDA's rules give. This page is written by a run on the CPU device:

    python3 tests/run.py conformance --write

The tests `conformance.*` fail when a row fails, or when the rows here are not those of the programs.
[tests/conformance/README.md](../tests/conformance/README.md) says how to add one.

The same programs built by `nvcc -O3 -arch=sm_90 -lineinfo` and run under mt-run must have the same results and accesses,
but where the result says otherwise. The tests `ptx.conformance.*` fail when they do not. *clang*: nvcc does not compile
the program, or it is about clang.

    python3 tests/run.py ptx --write conformance.TOPIC
"""
COLUMNS = "| row | checks | accesses, expected = found | result |\n|---|---|---|---|\n"
NOT_THERE = "clang"


def cell(text):
    return html.escape(text, quote=False).replace("|", "&#124;").replace("*", "&#42;").replace("_", "&#95;")


def code(text):
    return "`` " + text.replace("|", "\\|") + " ``" if "`" in text else "`" + text.replace("|", "\\|") + "`"


def joined(result, by_nvcc):
    """A result with what nvcc's program has, where that is not the same."""
    return result + {"ok": "", NOT_THERE: f" ({NOT_THERE})"}.get(by_nvcc, f"; by nvcc: {by_nvcc}")


def divided(text):
    """The two of a result."""
    result, said, by_nvcc = text.partition("; by nvcc: ")
    alone = text.removesuffix(f" ({NOT_THERE})")
    return (result, by_nvcc) if said else (alone, NOT_THERE) if alone != text else (text, "ok")


class Page:
    """The page as text per topic."""

    def __init__(self, path):
        self.path, self.sections = path, {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                parts = re.split(r"^## (.*)\n", f.read(), flags=re.M)
            self.sections = dict(zip(parts[1::2], parts[2::2]))

    def lines(self, topic):
        """The rows of a topic as lists of cells, the first one is the name as code."""
        return [line[2:-2].split(" | ") for line in re.findall(r"^\| `.*\|$", self.sections.get(topic, ""), re.M)]

    def by_nvcc(self, topic):
        """What the results say of nvcc's program, by the name's cell."""
        return {cells[0]: divided(cells[3])[1] for cells in self.lines(topic)}

    def put_by_nvcc(self, topic, words):
        """words: by the row's name."""
        words = {code(name): cell(text) for name, text in words.items()}
        rows = [cells[:3] + [joined(divided(cells[3])[0], words.get(cells[0], NOT_THERE))] for cells in self.lines(topic)]
        self.sections[topic] = f"\n{len(rows)} rows.\n\n" + COLUMNS + "".join("| " + " | ".join(r) + " |\n" for r in rows) + "\n"

    def nvcc_differs(self, topic, words):
        """1 and a word on stdout when the results do not say this."""
        there = self.by_nvcc(topic)
        stale = [name for name, text in words.items() if there.get(code(name)) != cell(text)]
        for name in stale[:5]:
            print(f"FAILED {topic}: {name}: docs/conformance.md says {there.get(code(name))} of nvcc's program, not {words[name]}")
        if stale:
            print("docs/conformance.md is stale: python3 tests/run.py ptx --write conformance." + topic)
        return int(bool(stale))

    def put(self, topic, rows):
        lines, by_nvcc = [], self.by_nvcc(topic)
        for name, what, verdict, accesses, note in rows:
            result = verdict + (", " + note if note else "")
            result = joined(cell(result), by_nvcc.get(code(name), NOT_THERE))
            lines.append(f"| {code(name)} | {cell(what)} | {cell(accesses)} | {result} |\n")
        self.sections[topic] = f"\n{len(rows)} rows.\n\n" + COLUMNS + "".join(lines) + "\n"

    def differs(self, topic, rows):
        """1 and a word on stdout when the page's rows are not these."""
        there = set(re.findall(r"^\| (`.*?`+) \| ", self.sections.get(topic, ""), re.M))
        here = {code(row[0]) for row in rows}
        for word, names in (("is not in", here - there), ("is only in", there - here)):
            for name in sorted(names)[:5]:
                print(f"FAILED {topic}: row {name} {word} docs/conformance.md")
        if here != there:
            print("docs/conformance.md is stale: python3 tests/run.py conformance --write " + topic)
        return int(here != there)

    def foreign(self, topics):
        names = set(self.sections) - set(topics)
        for name in names:
            print(f"FAILED docs/conformance.md has the section {name}, which has no program")
        return len(names)

    def save(self, topics):
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(HEAD)
            for topic in topics:
                if topic in self.sections:
                    f.write(f"\n## {topic}\n" + self.sections[topic].rstrip("\n") + "\n")
