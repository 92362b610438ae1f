"""Conformance rows: a case for each topic (README.md); its table is in docs/conformance.md, which --write writes."""
import os

import diagnostics
import harness
import rows
import table
from harness import SOURCE, case, holds, same

PAGE = os.path.join(SOURCE, "docs", "conformance.md")
OPTIONS = (
    (("--write",), {"action": "store_true", "help": "put the topic's table into docs/conformance.md; without it the set of rows there must be the same"}),
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
    page = table.Page(PAGE)
    if world.write:
        page.put(topic, found)
        page.save(rows.topics())
    else:
        same("rows that the page lacks, or has too many", page.differs(topic, found), 0)


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
    same("sections of topics that are gone", table.Page(PAGE).foreign(rows.topics()), 0)


@case("selftest")
def selftest(world):
    """What is wrong is found: selftest/wrong.cu has rows named "wrong…" that must fail, and others that must hold; a page without a row,
    with one too many, or with a section too many is stale."""
    program = world.path("wrong")
    rows.compile_program(os.path.join(rows.HERE, "selftest", "wrong.cu"), ["-O1"], program)
    for fields, found in rows.run_program(program, program + ".run", ""):
        verdict, _ = rows.compare(fields, found)
        holds(f"{fields[0]}: {verdict}", (verdict == "ok") == fields[0].startswith("right"))
    page = table.Page(world.path("page.md"))
    page.put("a", [("x | y", "", "ok", "", ""), ("`z`", "", "ok", "", "")])
    page.save(["a"])
    page = table.Page(page.path)
    two = [("x | y",), ("`z`",)]
    for what, got, want in (("same rows", page.differs("a", two), 0), ("one is gone", page.differs("a", two[:1]), 1),
                            ("one is new", page.differs("a", two + [("new",)]), 1), ("sections", page.foreign(["a"]), 0),
                            ("a section too many", page.foreign([]), 1)):
        same(what, got, want)
