#!/usr/bin/env python3
"""Runs end-to-end cases: run.py --build DIR [--source DIR] [--work DIR] [--list] [CASE...]; exit code 1 if one fails."""
import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
import world  # noqa: E402
import cases_examples  # noqa: E402,F401
import cases_programs  # noqa: E402,F401
import cases_extract  # noqa: E402,F401
import cases_sink  # noqa: E402,F401
import cases_bits  # noqa: E402,F401
import cases_whole  # noqa: E402,F401
import cases_host  # noqa: E402,F401
import cases_selection  # noqa: E402,F401
import cases_ctas  # noqa: E402,F401
import cases_nvtx  # noqa: E402,F401
import cases_compact  # noqa: E402,F401
import cases_analyses  # noqa: E402,F401
import cases_rdc  # noqa: E402,F401
import cases_streams  # noqa: E402,F401
import cases_channel  # noqa: E402,F401
import cases_language  # noqa: E402,F401
import cases_pass  # noqa: E402,F401
import cases_lanes  # noqa: E402,F401
import cases_barriers  # noqa: E402,F401
import cases_onchip  # noqa: E402,F401
import cases_names  # noqa: E402,F401
import cases_versus  # noqa: E402,F401


def main():
    here = os.path.dirname(os.path.realpath(__file__))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", help="build folder with bin/ and lib/")
    parser.add_argument("--source", default=os.path.dirname(os.path.dirname(here)))
    parser.add_argument("--work", help="keep what the tests make here (default: a temporary folder, removed)")
    parser.add_argument("--flag", action="append", default=[], help="one more word for mt-cc; may be given again")
    parser.add_argument("--variable", action="append", default=[], metavar="NAME=VALUE",
                        help="set in each traced program's environment; may be given again")
    parser.add_argument("--standin", action="store_true",
                        help="what runs with MEMTRACE_DEVICE=standin runs the GPU's own code, read back from its PTX")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    if args.list:
        print("\n".join(world.CASES))
        return 0
    if not args.build:
        parser.error("--build is missing")
    unknown = [c for c in args.cases if c not in world.CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    work = os.path.realpath(args.work) if args.work else tempfile.mkdtemp(prefix="memtrace-e2e-")
    failed = 0
    for name in args.cases or world.CASES:
        begin = time.monotonic()
        folder = os.path.join(work, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        try:
            world.CASES[name](world.World(os.path.realpath(args.build), os.path.realpath(args.source), folder,
                                          args.flag, [v.split("=", 1) for v in args.variable], args.standin))
            verdict = "ok"
        except world.Failed as why:
            verdict = f"FAILED: {why}"
        except Exception:
            verdict = f"FAILED:\n{traceback.format_exc()}"
        failed += verdict != "ok"
        print(f"{name}: {verdict} ({time.monotonic() - begin:.1f} s)", flush=True)
        if not args.work:
            shutil.rmtree(folder, ignore_errors=True)
    if not args.work:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
