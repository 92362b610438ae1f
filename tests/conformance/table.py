"""What the conformance programs give: the rows of a topic, each with its result, become DIR/docs/conformance/TOPIC.md of the build;
how many they are, and a sum over their names, stand in docs/conformance.md, by which the tests see that none went."""
import hashlib
import html
import os
import re

COLUMNS = "| row | checks | accesses, expected = found | result |\n|---|---|---|---|\n"
# (topic, row): why nvcc's code is not held to it
DIFFERENT = {
    ("atomics", "atomicCAS of unsigned short"): "nvcc has an instruction for it, clang a loop",
    ("ptx_memory", "asm without volatile"): "nvcc leaves out what nobody uses",
    ("random", "curand, Sobol64"): "unrolled, so that loads of vectors that no thread needs are left out",
    ("random", "curand, scrambled Sobol64"): "unrolled, so that loads of vectors that no thread needs are left out",
}


def cell(text):
    return html.escape(text, quote=False).replace("|", "&#124;").replace("*", "&#42;").replace("_", "&#95;")


def code(text):
    return "`` " + text.replace("|", "\\|") + " ``" if "`" in text else "`" + text.replace("|", "\\|") + "`"


def write_section(build, topic, rows):
    """rows: (name, what, verdict, accesses, note)."""
    folder = os.path.join(build, "docs", "conformance")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, topic + ".md"), "w", encoding="utf-8") as f:
        f.write(f"# {topic}\n\n{len(rows)} rows.\n\n" + COLUMNS)
        for name, what, verdict, accesses, note in rows:
            result = verdict + (", " + note if note else "")
            if (topic, name) in DIFFERENT:
                result += "; by nvcc it differs: " + DIFFERENT[topic, name]
            f.write(f"| {code(name)} | {cell(what)} | {cell(accesses)} | {cell(result)} |\n")


class Totals:
    """The table of docs/conformance.md: a line for each topic."""

    LINE = re.compile(r"^(\| \[(\w+)\]\([^)]*\) \| .*\|) (\d+) \| `(\w+)` \|$", re.M)

    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8") as f:
            self.text = f.read()

    @staticmethod
    def of(names):
        return str(len(names)), hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:6]

    def said(self):
        return {m[2]: (m[3], m[4]) for m in self.LINE.finditer(self.text)}

    def put(self, topic, names):
        """Its numbers, in its line, or in a new one at the end of the table."""
        numbers = "{} | `{}` |".format(*self.of(names))
        if topic in self.said():
            self.text = self.LINE.sub(lambda m: f"{m[1]} {numbers}" if m[2] == topic else m[0], self.text)
        else:
            last = list(self.LINE.finditer(self.text))[-1].end()
            self.text = f"{self.text[:last]}\n| [{topic}](../tests/conformance/{topic}.cu) | | {numbers}{self.text[last:]}"
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(self.text)

    def differs(self, topic, names):
        """1 and a word on stdout when the table does not say this of these rows."""
        here, there = self.of(names), self.said().get(topic)
        if here == there:
            return 0
        print(f"FAILED {topic}: {here[0]} rows, docs/conformance.md says {there[0] if there else 'nothing'}"
              + (", of the same number with other names" if there and here[0] == there[0] else ""))
        print("If that is meant: python3 tests/run.py conformance --write " + topic)
        return 1

    def foreign(self, topics):
        names = set(self.said()) - set(topics)
        for name in names:
            print(f"FAILED docs/conformance.md has the topic {name}, which has no program")
        return len(names)
