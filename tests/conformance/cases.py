"""Conformance rows: a case for each topic (README.md). Rows with their results become BUILD/docs/conformance/TOPIC.md; how many there are
stands in docs/conformance.md, which --write writes."""
import os

import diagnostics
import harness
import rows
import table
from harness import SOURCE, case, holds, same

PAGE = os.path.join(SOURCE, "docs", "conformance.md")
OPTIONS = (
    (("--write",), {"action": "store_true", "help": "put the number of rows into docs/conformance.md; without it the rows must be those that it says"}),
    (("--flag",), {"action": "append", "default": [], "dest": "flags", "help": "one more word for mt-cc; may be given again"}),
)
# Warps as vectors are most of the compilation of these, and what takes as long again without optimisation: both in configuration `long`.
BY_FIBERS = set(rows.topics()) - {"api", "atomics", "block", "diagnostics", "groups", "integer", "math_float", "memory", "warp"}
FIRST_LEVEL = {"atomics", "block", "cluster", "memory", "ptx_matrix", "ptx_memory", "range", "warp"}


class World(harness.World):
    def __init__(self, work, variant=None, write=False, flags=()):
        super().__init__(work, variant)
        self.write, self.flags = write, flags


def check(world, topic, *flags, first=False, compact=False):
    rows.COMPACT = ".mtc" if compact else ""
    found = diagnostics.run(world.work) if topic == "diagnostics" else rows.run_topic(world.work, topic, [*flags, *world.flags], first)
    totals, names = table.Totals(PAGE), [row[0] for row in found]
    if world.write:
        totals.put(topic, names)
    same("rows that the page does not count", totals.differs(topic, names), 0)
    if not compact:
        table.write_section(harness.BUILD, topic, found)


def add(name, topic, long=False, **how):
    fibers = how.pop("fibers", False)
    case(name, long=long)(lambda world: check(world, topic, *["--mt-vectors=off"] * fibers, **how))


for each in rows.topics():
    add(each, each, fibers=each in BY_FIBERS, first=each in FIRST_LEVEL)
    if each in BY_FIBERS:
        add(each + ".vectors", each, long=True)
    if each in FIRST_LEVEL:
        add(each + ".levels", each, long=True)
for each in "memory", "atomics", "block", "warp":
    add(each + ".compact", each, long=each in ("memory", "atomics"), first=each in ("block", "warp"), compact=True)
for each in "block", "warp":
    add(each + ".compact.levels", each, long=True, compact=True)


@case("page")
def page_has_topics():
    same("topics that are gone", table.Totals(PAGE).foreign(rows.topics()), 0)


@case("selftest")
def selftest(world):
    """What is wrong is found: selftest/wrong.cu has rows named "wrong…" that must fail, and others that must hold; a page that counts a row
    less, one more, or another one, or that has a topic too many, is stale."""
    program = world.path("wrong")
    rows.compile_program(os.path.join(rows.HERE, "selftest", "wrong.cu"), ["-O1"], program)
    for fields, found in rows.run_program(program, program + ".run", ""):
        verdict, _ = rows.compare(fields, found)
        holds(f"{fields[0]}: {verdict}", (verdict == "ok") == fields[0].startswith("right"))
    page = world.path("page.md")
    with open(page, "w", encoding="utf-8") as f:
        f.write("| [b](../b.cu) | what | 0 | `0` |\n\nWords.\n")
    names = ["x | y", "`z`"]
    table.Totals(page).put("a", names)
    table.Totals(page).put("b", ["w"])
    page = table.Totals(page)
    for what, got, want in (("same rows", page.differs("a", names[::-1]), 0), ("one is gone", page.differs("a", names[:1]), 1),
                            ("one is new", page.differs("a", names + ["new"]), 1), ("another one", page.differs("a", ["x | y", "z"]), 1),
                            ("the other topic", page.differs("b", ["w"]), 0), ("topics", page.foreign(["a", "b"]), 0),
                            ("a topic too many", page.foreign(["a"]), 1), ("the text around", page.text.endswith("|\n\nWords.\n"), True)):
        same(what, got, want)
