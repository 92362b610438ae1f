#!/usr/bin/env python3
"""Tests of the compile-time engine: run.py --build DIR [--dump PROGRAM] [--list] [CASE...]. Exit code 1 if one fails."""
import argparse
import os
import shutil
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True
import world  # noqa: E402
import cases_accesses  # noqa: E402,F401
import cases_threads  # noqa: E402,F401
import cases_process  # noqa: E402,F401
import cases_ends  # noqa: E402,F401


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build")
    parser.add_argument("--dump")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    if args.list:
        print("\n".join(world.CASES))
        return 0
    failed = 0
    for name in args.cases or world.CASES:
        work = tempfile.mkdtemp(prefix="mt-hostllvm-", dir=world.MEMORY)
        try:
            world.CASES[name](world.World(os.path.realpath(args.build), os.path.realpath(args.dump), work))
            print(f"ok {name}")
        except world.Failed as why:
            print(f"FAILED {name}: {why}")
            failed = 1
        except Exception:
            print(f"FAILED {name}:\n{traceback.format_exc()}")
            failed = 1
        finally:
            shutil.rmtree(work, ignore_errors=True)
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main())
