"""run.py --build DIR --source DIR [--complete] [--list | CASE…]: runs the cases of the test_*.py files beside it.

A case is a method test_x of a class of test_y.py: its name is y.x. Exit 0 all passed, 1 one failed, 77 all skipped."""
import argparse
import importlib
import os
import sys
import unittest

import world

MODULES = ["wrappers", "cuobjdump", "toolkits", "mt_cc", "device_link", "nvcc_options", "nvcc_sources", "fast_math", "builds", "install", "setup", "engine"]


def cases():
    """Name -> TestCase instance."""
    found = {}
    for name in MODULES:
        module = importlib.import_module("test_" + name)
        for group in unittest.defaultTestLoader.loadTestsFromModule(module):
            for case in group:
                found[name + "." + case.id().rsplit(".", 1)[1].removeprefix("test_")] = case
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--complete", action="store_true", help="the build has plugin and runtime")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    world.build, world.source = os.path.abspath(args.build), os.path.abspath(args.source)
    world.expect_runtime = args.complete
    found = cases()
    if args.list:
        print("\n".join(found))
        return 0
    suite = unittest.TestSuite(found[name] for name in args.cases or found)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    if not result.wasSuccessful():
        return 1
    return 77 if result.testsRun == len(result.skipped) else 0


sys.exit(main())
