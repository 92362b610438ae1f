#!/usr/bin/env python3
"""Runs one case of the qemu plugin's tests: run.py --plugin X.so CASE; --list names them. Exit 77: skipped."""
import argparse
import sys

from world import CASES, Failed, Skipped, World, say
import cases_accesses  # noqa: F401 (each registers its cases)
import cases_cas  # noqa: F401
import cases_heap  # noqa: F401
import cases_insn  # noqa: F401
import cases_lives  # noqa: F401


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--plugin")
    p.add_argument("--compiler", default="gcc")
    p.add_argument("--list", action="store_true")
    p.add_argument("case", nargs="?")
    a = p.parse_args()
    if a.list:
        print("\n".join(CASES))
        return 0
    w = None
    try:
        w = World(a.plugin, a.compiler)
        CASES[a.case](w)
        return 0
    except Skipped as e:
        say(f"skipped: {e}")
        return 77
    except Failed as e:
        say(f"failed: {e}\n{w.stderr[-2000:]}")
        return 1
    finally:
        if w:
            w.close()


if __name__ == "__main__":
    sys.exit(main())
