#!/usr/bin/env python3
"""Runs the cases of host tracing: run.py --build DIR [--source DIR] [--work DIR] [--list] [CASE...].
Exit code 1 if one fails, 77 if all were skipped. A case's name may be a beginning: `mat.` runs all of them."""
import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
import world  # noqa: E402
import cases_atomic  # noqa: E402,F401
import cases_cli  # noqa: E402,F401
import cases_engines  # noqa: E402,F401
import cases_examples  # noqa: E402,F401
import cases_globals  # noqa: E402,F401
import cases_insn  # noqa: E402,F401
import cases_lives  # noqa: E402,F401
import cases_mat  # noqa: E402,F401
import cases_programs  # noqa: E402,F401


def run(name, args, work):
    function, engine = world.CASES[name]
    folder = os.path.join(work, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    try:
        w = world.World(os.path.realpath(args.build), os.path.realpath(args.source), folder, engine)
        w.tool("mt-host")
        if engine and not w.has(engine):
            raise world.Skipped(f"engine {engine} is not here")
        function(w)
        return "ok"
    except world.Skipped as why:
        return f"skipped: {why}"
    except world.Failed as why:
        return f"FAILED: {why}"
    except Exception:
        return f"FAILED:\n{traceback.format_exc()}"
    finally:
        if not args.work:
            shutil.rmtree(folder, ignore_errors=True)


def main():
    here = os.path.dirname(os.path.realpath(__file__))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", help="build folder with bin/ and lib/")
    parser.add_argument("--source", default=os.path.dirname(os.path.dirname(here)))
    parser.add_argument("--work", help="keep what the tests make here (default: a temporary folder, removed)")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    if args.list:
        print("\n".join(world.CASES))
        return 0
    if not args.build:
        parser.error("--build is missing")
    names = [n for n in world.CASES if not args.cases or any(n == c or n.startswith(c) for c in args.cases)]
    if not names:
        parser.error(f"no such case: {', '.join(args.cases)}")
    work = os.path.realpath(args.work) if args.work else tempfile.mkdtemp(prefix="mt-host-test-", dir=world.MEMORY)
    verdicts = []
    for name in names:
        begin = time.monotonic()
        verdicts.append(run(name, args, work))
        print(f"{name}: {verdicts[-1]} ({time.monotonic() - begin:.1f} s)", flush=True)
    if not args.work:
        shutil.rmtree(work, ignore_errors=True)
    if any(v.startswith("FAILED") for v in verdicts):
        return 1
    return 77 if all(v.startswith("skipped") for v in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
