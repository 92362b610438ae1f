#!/usr/bin/env python3
"""memtrace extract's Parquet files as others read them: DuckDB, PyArrow and pandas against the database of the same trace.

usage: tables_foreign.py BIN VENV    77: they are in neither VENV (./setup python-tests) nor this Python
"""
import os
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import traces  # noqa: E402


def take():
    """Imports, here or in the environment's Python."""
    python = os.path.join(sys.argv[2], "bin/python3")
    try:
        import duckdb  # noqa: F401
        import pandas  # noqa: F401
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        if os.path.exists(python) and not os.environ.get("MT_TEST_HERE"):
            os.environ["MT_TEST_HERE"] = "1"
            os.execv(python, [python, "-B", *sys.argv])
        print("no DuckDB, PyArrow and pandas: ./setup python-tests takes them")
        sys.exit(77)


def trace(path):
    """Two launches of 70,000 CTAs, so that there are several row groups; names with what may be in them."""
    kernels = ("wri\u00e9 \"te\", <int, 3>", "=read")
    launches = [(k, [traces.record(i % 5, n == 0, 4, 0x1000 + 4 * i, (i, i % 3, 0)) for i in range(70000)]) for n, k in enumerate(kernels)]
    events = [{"ev": "alloc", "seq": 0, "id": 0, "base": "0x1000", "bytes": 280000, "kind": "device", "name": "b", "file": "a.cu", "line": 1}]
    events += [{"ev": "launch", "seq": 1 + n, "kernel": k, "grid": [70000, 3, 1], "block": [1, 1, 1], "stream": 0, "records": 70000,
                "traced": True} for n, k in enumerate(kernels)]
    with open(path, "wb") as f:
        f.write(traces.trace(launches))
    with open(path + ".meta", "w") as f:
        f.write(traces.companion(events, end={"records_written": 140000, "records_counted": 140000}))


def main():
    take()
    import duckdb
    import pandas
    import pyarrow.parquet
    tool = os.path.join(sys.argv[1], "mt-extract")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t")
        trace(path)
        for form, name in (("sqlite", "db"), ("parquet", "tables")):
            subprocess.run([tool, "--format=" + form, "-s", "more", "--sample=2", "-o", os.path.join(folder, name), path], check=True)
        db = sqlite3.connect(os.path.join(folder, "db"))
        tables = sorted(n for n, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
        assert len(tables) > 15, tables
        rows = 0
        for table in tables:
            file = os.path.join(folder, "tables", table + ".parquet")
            want = db.execute("SELECT * FROM " + table)
            names, want = [d[0] for d in want.description], want.fetchall()
            rows += len(want)
            duck = duckdb.sql("SELECT * FROM '%s'" % file)
            assert duck.columns == names and duck.fetchall() == want, "DuckDB: " + table
            arrow = pyarrow.parquet.read_table(file)
            arrow.validate(full=True)
            assert arrow.column_names == names and [tuple(r.values()) for r in arrow.to_pylist()] == want, "PyArrow: " + table
            frame = pandas.read_parquet(file)
            assert list(frame.columns) == names and len(frame) == len(want), "pandas: " + table
            for i, c in enumerate(names):
                got = [None if pandas.isna(v) else v for v in frame[c]]
                assert got == [r[i] for r in want], "pandas: %s.%s" % (table, c)
        assert pyarrow.parquet.ParquetFile(os.path.join(folder, "tables/ranges.parquet")).num_row_groups > 1
        print("%d tables, %d rows" % (len(tables), rows))


if __name__ == "__main__":
    main()
