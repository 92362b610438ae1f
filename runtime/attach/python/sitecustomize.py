"""First import of Python under memtrace run: installs memtrace's hook, then imports the sitecustomize found without it.
memtrace run puts this folder into PYTHONPATH; the program does not see it in sys.path."""
import os
import sys


def hook():
    """Catches all errors, so that the interpreter starts in any case."""
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
