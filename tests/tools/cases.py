"""The methods test_x of the classes of test_y.py, as cases y.x."""
import glob
import importlib
import io
import os
import unittest

from harness import Failed, Skipped, case


def run(test):
    said = io.StringIO()
    result = unittest.TextTestRunner(stream=said, verbosity=0).run(test)
    if not result.wasSuccessful():
        raise Failed(said.getvalue())
    if result.skipped:
        raise Skipped(result.skipped[0][1])


for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "test_*.py"))):
    name = os.path.splitext(os.path.basename(path))[0]
    for group in unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(name)):
        for each in group:
            full = name.removeprefix("test_") + "." + each.id().rsplit(".", 1)[1].removeprefix("test_")
            # install.* share the build's install_manifest.txt
            case(full, **{"RUN_SERIAL": "TRUE"} if full.startswith("install.") else {})(lambda test=each: run(test))
