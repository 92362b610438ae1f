"""The tables of `memtrace extract --format sqlite` as frames."""
import builtins
import importlib
import os
import sqlite3
import subprocess
import tempfile
import warnings
import weakref

import memtrace

INCOMPLETE = 3  # exit code for incomplete results


class Error(Exception):
    """memtrace extract failed; the text is its message."""


def pandas_frame(pandas, names, kinds, rows):
    types = {"INTEGER": "Int64", "REAL": "Float64"}  # types with NULL and 64 bits
    columns = list(zip(*rows)) if rows else [()] * len(names)
    return pandas.DataFrame({name: pandas.Series(list(column), dtype=types.get(kind)) for name, kind, column in zip(names, kinds, columns)})


def polars_frame(polars, names, kinds, rows):
    types = {"INTEGER": polars.Int64, "REAL": polars.Float64, "TEXT": polars.String}
    columns = list(zip(*rows)) if rows else [()] * len(names)
    return polars.DataFrame([polars.Series(name, list(column), dtype=types.get(kind), strict=False)
                             for name, kind, column in zip(names, kinds, columns)])


MAKERS = {"pandas": pandas_frame, "polars": polars_frame}


def frames_library(wanted):
    """Returns the module, and its function above."""
    if wanted is not None and wanted not in MAKERS:
        raise ValueError(f"frames is 'pandas' or 'polars', not {wanted!r}")
    for name in [wanted] if wanted else MAKERS:
        try:
            return importlib.import_module(name), MAKERS[name]
        except ImportError:
            pass
    raise ImportError(f"memtrace.open needs {wanted or 'pandas or polars'}: pip install {wanted or 'pandas'}")


def extract(traces, sections, to, topology=None):
    links = [f"--topology={topology}"] if topology else []
    done = subprocess.run([memtrace.program(), "extract", "--format=sqlite", "-s", sections, "-o", to, *links, "--", *traces],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", errors="replace", check=False)
    said = done.stderr.strip()
    if done.returncode not in (0, INCOMPLETE) or not os.path.exists(to):
        raise Error(said or f"memtrace extract: exit code {done.returncode}")
    if done.returncode == INCOMPLETE:
        warnings.warn(said, stacklevel=4)


def is_database(path):
    if not os.path.isfile(path):
        return False
    with builtins.open(path, "rb") as f:
        return f.read(16) == b"SQLite format 3\0"


class Results:
    """Tables of a trace. `results.lines`, `results["lines"]` and `results.table("lines")` are the same frame; tables() names all."""

    def __init__(self, path, frames, folder=None):
        self._module, self._make = frames
        self._database = sqlite3.connect(f"file:{os.path.abspath(path).replace('%', '%25').replace('?', '%3f').replace('#', '%23')}?mode=ro", uri=True)
        self._close = weakref.finalize(self, Results._end, self._database, folder)
        self._kept = {}

    @staticmethod
    def _end(database, folder):
        database.close()
        if folder:
            folder.cleanup()

    def close(self):
        """Removes the temporary files; frames stay valid."""
        self._close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def tables(self):
        """Returns the names of the tables and views."""
        return [name for name, in self._database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")]

    def table(self, name):
        if name not in self._kept:
            if name not in self.tables():
                raise KeyError(f"there is no table {name}: {', '.join(self.tables())}")
            kinds = {row[1]: row[2] for row in self._database.execute(f'PRAGMA table_info("{name}")')}
            self._kept[name] = self._frame(f'SELECT * FROM "{name}"', (), kinds)
        return self._kept[name]

    def sql(self, query, *values):
        """Returns the result of an SQL statement with values for its question marks."""
        return self._frame(query, values, {})

    def _frame(self, query, values, kinds):
        answer = self._database.execute(query, values)
        names = [column[0] for column in answer.description]
        rows = answer.fetchall()
        return self._make(self._module, names, [kinds.get(name) or kind_of(rows, i) for i, name in enumerate(names)], rows)

    @property
    def complete(self):
        """True, False, or None if unknown."""
        found = dict(self._database.execute("SELECT key, value FROM meta")).get("complete")
        return {"1": True, "0": False}.get(found)

    @property
    def notes(self):
        """Returns remarks on the tables, as sentences."""
        return [value for value, in self._database.execute("SELECT value FROM meta WHERE key LIKE 'note %'")]

    def __getitem__(self, name):
        return self.table(name)

    def __getattr__(self, name):
        if not name.startswith("_"):
            try:
                return self.table(name)
            except KeyError as why:
                raise AttributeError(why.args[0]) from None
        raise AttributeError(name)

    def __dir__(self):
        return sorted(set(super().__dir__()) | set(self.tables()))


def kind_of(rows, i):
    """Returns the type of a query's column that belongs to no table."""
    types = {type(row[i]) for row in rows} - {type(None)}
    return "INTEGER" if types == {int} else "REAL" if types and types <= {int, float} else "TEXT"


def open(*traces, sections="all,more", topology=None, frames=None):  # noqa: A001
    """The results of a folder of traces, of traces, or of a database that memtrace extract --format sqlite made.

    sections: as memtrace extract -s. topology: as its --topology, for the table links. frames: "pandas" or "polars" (None: the first of them that is installed). Raises ImportError without
    them, Error where there are no results; warns where a trace is not complete."""
    library = frames_library(frames)
    paths = [os.fspath(trace) for trace in traces]
    if len(paths) == 1 and is_database(paths[0]):
        return Results(paths[0], library)
    folder = tempfile.TemporaryDirectory(prefix="memtrace-")
    try:
        path = os.path.join(folder.name, "tables.db")
        extract(paths, sections, path, topology)
        return Results(path, library, folder)
    except BaseException:
        folder.cleanup()
        raise
