"""memtrace from Python: `memtrace.open("run-1")` has the tables of a trace as frames of pandas or polars; in a notebook
`%load_ext memtrace` gives %%memtrace, which runs a cell traced and shows its page."""
import os
import shutil

__all__ = ["Error", "Results", "load_ipython_extension", "open", "program"]


def program(name="memtrace"):
    """The path of one of memtrace's programs: this package's, or where it has none the one in PATH. Those that are `memtrace` under
    another name (mt-extract) are that."""
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
