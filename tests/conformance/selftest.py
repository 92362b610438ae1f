#!/usr/bin/env python3
"""The driver finds what is wrong: selftest/wrong.cu has rows named "wrong…" that must fail, and others that must hold;
a page that counts a row less, one more, or another one, or that has a topic too many, is stale."""
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
        page = os.path.join(work, "page.md")
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
            if got != want:
                wrong.append(what)
    for name in wrong:
        print(f"FAILED {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
