"""A test case of command-line tools: a folder of its own, and the programs of the folder that is the first argument."""
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.path.abspath(sys.argv[1])


def until_idle(p):
    """All threads of the program sleep: it has done what it can, and waits for somebody. A program that waits for a processor does not sleep."""
    while p.poll() is None:
        states = []
        for thread in os.listdir(f"/proc/{p.pid}/task"):
            try:
                with open(f"/proc/{p.pid}/task/{thread}/stat", encoding="utf-8", errors="replace") as f:
                    states.append(f.read().rsplit(")", 1)[1].split()[0])
            except (FileNotFoundError, ProcessLookupError):
                states.append("R")
        if set(states) == {"S"}:
            return
        time.sleep(0.01)


def program(tool):
    """A program of ours; without it the test is skipped."""
    path = os.path.join(BIN, tool)
    if not os.path.exists(path):
        raise unittest.SkipTest(f"{tool} is not built")
    return path


class ToolCase(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="mt-cli-")
        self.addCleanup(shutil.rmtree, self.dir)

    def file(self, name, data):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return path

    def run_tool(self, tool, *args, **more):
        more.setdefault("stdin", subprocess.DEVNULL) if "input" not in more else None
        return subprocess.run([program(tool), *args], capture_output=True, timeout=120, **more)
