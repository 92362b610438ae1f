#!/usr/bin/env python3
"""The driver finds what is wrong: selftest/wrong.cu has rows named "wrong…" that must fail, and others that must hold;
a page without a row, with one too many, or with a section too many is stale."""
import os
import sys
import tempfile

sys.dont_write_bytecode = True
import run
import table


def main():
    build = os.path.realpath(sys.argv[sys.argv.index("--build") + 1])
    wrong = []
    with tempfile.TemporaryDirectory(prefix="memtrace-conformance-") as work:
        program = os.path.join(work, "wrong")
        run.compile_program(build, os.path.join(run.HERE, "selftest", "wrong.cu"), ["-O1"], program)
        for fields, found in run.run_program(program, program + ".run", ""):
            verdict, _ = run.compare(fields, found)
            print(f"{fields[0]}: {verdict}")
            if (verdict == "ok") != fields[0].startswith("right"):
                wrong.append(fields[0])
        page = table.Page(os.path.join(work, "page.md"))
        page.put("a", [("x | y", "", "ok", "", ""), ("`z`", "", "ok", "", "")])
        page.save(["a"])
        page = table.Page(page.path)
        rows = [("x | y",), ("`z`",)]
        for what, got, want in (("same rows", page.differs("a", rows), 0), ("one is gone", page.differs("a", rows[:1]), 1),
                                ("one is new", page.differs("a", rows + [("new",)]), 1), ("sections", page.foreign(["a"]), 0),
                                ("a section too many", page.foreign([]), 1)):
            if got != want:
                wrong.append(what)
    for name in wrong:
        print(f"FAILED {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
