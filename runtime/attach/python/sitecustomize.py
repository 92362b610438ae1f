"""What Python imports first in a program under memtrace run: puts memtrace's hook in place, then the sitecustomize that is there
without it. memtrace run names this folder in PYTHONPATH; the program does not see it in sys.path."""
import os
import sys


def hook():
    """Nothing of ours may end the interpreter's start."""
    try:
        import memtrace_python
        memtrace_python.watch()
    except Exception as why:
        sys.stderr.write("memtrace: the hook for Python packages does not work: %s: %s\n" % (type(why).__name__, why))


def next_one():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ImportError as why:
        if getattr(why, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)


if sys.version_info >= (3, 8):
    hook()
next_one()
