"""memtrace from Python: `memtrace.open("run-1")` returns the tables of a trace as frames of pandas or polars. In a notebook
`%load_ext memtrace` adds %%memtrace, which traces a cell and shows its page."""
import os
import shutil

__all__ = ["Error", "Results", "load_ipython_extension", "open", "program"]


def program(name="memtrace"):
    """Returns the path of a program of memtrace, in this package or else in PATH. Commands of `memtrace` (mt-extract) give that
    program."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tree", "bin")
    for each in name, "memtrace":
        if os.path.exists(os.path.join(own, each)):
            return os.path.join(own, each)
    found = shutil.which(name)
    if not found:
        raise FileNotFoundError(f"there is no {name}, neither in {own} nor in PATH")
    return found


from memtrace.frames import Error, Results, open  # noqa: E402  they need program


def load_ipython_extension(shell):
    from memtrace import notebook
    notebook.load(shell)
