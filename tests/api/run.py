#!/usr/bin/env python3
"""Runs cases of cases.py: run.py --build DIR [--source DIR] [--list] [CASE...]; exit code 1 if one fails."""
import argparse
import os
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "e2e"))
import world  # noqa: E402
import cases  # noqa: E402,F401


def run(name, args, work):
    folder = os.path.join(work, name)
    os.makedirs(folder)
    try:
        world.CASES[name](world.World(os.path.realpath(args.build), os.path.realpath(args.source), folder))
        return "ok"
    except world.Failed as why:
        return f"FAILED: {why}"
    except Exception:
        return f"FAILED:\n{traceback.format_exc()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", help="build folder with bin/ and lib/")
    parser.add_argument("--source", default=os.path.dirname(os.path.dirname(HERE)))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    if args.list:
        print("\n".join(world.CASES))
        return 0
    failed = 0
    with tempfile.TemporaryDirectory(prefix="memtrace-api-") as work:
        for name in args.cases or world.CASES:
            verdict = run(name, args, work)
            failed += verdict != "ok"
            print(f"{name}: {verdict}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
