#!/usr/bin/env python3
"""Runs cases of the tests in Python: run.py KIND [CASE...], all of them if none is named; a name may be a beginning: `mat.` are all of
those. KIND: a folder beside this file; its cases are in cases*.py, and world.py has what they share (lib/harness.py: all kinds).
Exit code 0, 1 (one failed), 77 (all were skipped)."""
import argparse
import glob
import importlib
import inspect
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[0] = os.path.join(HERE, "lib")
import harness  # noqa: E402


def load(kind):
    """The module world.py, or the first of the cases; these have registered themselves."""
    folder = os.path.join(HERE, kind)
    sys.path.insert(0, folder)
    names = [os.path.splitext(os.path.basename(p))[0] for p in sorted(glob.glob(os.path.join(folder, "cases*.py")))]
    if os.path.exists(os.path.join(folder, "world.py")):
        names.insert(0, "world")
    if not names:
        sys.exit(f"run.py: tests/{kind} has no cases")
    return [importlib.import_module(name) for name in names][0]


def run(name, kind, folder, options):
    """What became of it, in words."""
    case, world = harness.CASES[name], None
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    try:
        world = getattr(kind, "World", harness.World)(folder, case.variant, **options)
        world.long = case.whole
        case.function(*[world] * len([p for p in inspect.signature(case.function).parameters.values() if p.default is p.empty]))
        return "ok"
    except harness.Skipped as why:
        return f"skipped: {why}"
    except harness.Failed as why:
        return f"FAILED: {why}"
    except Exception:
        return f"FAILED:\n{traceback.format_exc()}"
    finally:
        if hasattr(world, "close"):
            world.close()


def listed(name):
    """A case and its properties, as tests/CMakeLists.txt reads them."""
    case = harness.CASES[name]
    return " ".join([name, "long" if case.long else "suite", *(f"{k} {v}" for k, v in case.properties.items())])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", metavar="KIND")
    parser.add_argument("--build", default=harness.BUILD, help="build folder with bin/ and lib/ (%(default)s)")
    parser.add_argument("--work", help="keep what the tests make here (default: a temporary folder, removed)")
    parser.add_argument("--list", action="store_true", help="names of the cases, and when they run")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    args, _ = parser.parse_known_args()
    harness.BUILD = os.path.realpath(args.build)
    sys.pycache_prefix = os.path.join(harness.BUILD, "tests", "pycache")  # the cases are compiled once, not in each test
    sys.dont_write_bytecode = False
    kind = load(args.kind)
    options = [parser.add_argument(*words, **more).dest for words, more in getattr(kind, "OPTIONS", ())]
    args = parser.parse_intermixed_args()
    if args.list:
        print("\n".join(map(listed, harness.CASES)))
        return 0
    names = [n for n in harness.CASES if n in args.cases or not args.cases and not harness.CASES[n].long or
             any(n.startswith(c) for c in args.cases if c not in harness.CASES)]
    if not names or any(not any(n.startswith(c) for n in names) for c in args.cases):
        parser.error(f"no such case: {', '.join(args.cases)}")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    parent = getattr(getattr(kind, "World", None), "parent", None)
    work = os.path.realpath(args.work) if args.work else tempfile.mkdtemp(prefix=f"memtrace-{args.kind}-", dir=parent)
    verdicts = []
    for name in names:
        begin = time.monotonic()
        verdicts.append(run(name, kind, os.path.join(work, name), {o: getattr(args, o) for o in options}))
        print(f"{name}: {verdicts[-1]} ({time.monotonic() - begin:.1f} s)", flush=True)
        if not args.work:
            shutil.rmtree(os.path.join(work, name), ignore_errors=True)
    if not args.work:
        shutil.rmtree(work, ignore_errors=True)
    if any(v.startswith("FAILED") for v in verdicts):
        return 1
    return 77 if all(v.startswith("skipped") for v in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
