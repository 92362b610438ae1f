#!/usr/bin/env python3
"""memtrace extract's tables: one thing in SQLite, CSV and Parquet (read by parquet_file.py, from its specification), the same figures
as comm.json, the views by hand, and the manual's lists of tables, columns and views.

usage: tables_test.py BIN SOURCE GEN_DEVICE [CASES] [SEED]
"""
import csv
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import parquet_file
import property_test as cases
import traces

BIN, SOURCE, GEN_DEVICE = sys.argv[1:4]
TOOL = os.path.join(BIN, "mt-extract")


def run(*args, ok=(0, 3)):
    p = subprocess.run([TOOL, *args], capture_output=True, text=True)
    assert p.returncode in ok, "%s: exit code %d: %s" % (" ".join(args), p.returncode, p.stderr)
    return p


def relations():
    """{table: [(column, type, presence)]} of relations.def, those that files have."""
    out = {}
    with open(os.path.join(SOURCE, "postprocess/output/rows/relations.def"), encoding="utf-8") as f:
        for table, column, kind, presence in re.findall(r"^MT_(?:RELATION\((\w+)|COLUMN\(\w+, (\w+), (\w+), (\w+))", f.read().split("\nMT_FACTS\n")[0], re.M):
            if table:
                out[table] = []
            else:
                out[list(out)[-1]].append((column, kind, presence))
    return out


def of_csv(path, columns):
    with open(path, encoding="utf-8", newline="") as f:
        head, *rows = csv.reader(f)
    take = {"INTEGER": int, "BOOLEAN": int, "REAL": float, "TEXT": str}
    return head, [tuple(None if v == "" and p == "MAYBE" else take[k](v) for v, (_, k, p) in zip(r, columns)) for r in rows]


def printed(v):
    """As CSV has it: what a spreadsheet would take for a formula gets an apostrophe."""
    return "'" + v if isinstance(v, str) and v[:1] in tuple("=+-@") else v


def near(a, b):
    return a == b or (isinstance(a, float) and isinstance(b, float) and abs(a - b) < 1e-5)


def tables(folder, args, sections):
    """All tables, and that they are one thing in all forms: {table: [{column: value}]}."""
    out = {}
    for form, name in (("sqlite", "db"), ("csv", "csv"), ("parquet", "parquet")):
        run("--format=" + form, "-s", sections, "--tag==a tag", "-o", os.path.join(folder, name), *args)
    db = sqlite3.connect(os.path.join(folder, "db"))
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)] and not db.execute("PRAGMA foreign_key_check").fetchall()
    there = {n for n, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for form, end in (("csv", ".csv"), ("parquet", ".parquet")):
        assert {n[: -len(end)] for n in os.listdir(os.path.join(folder, form))} == there
    for table, columns in relations().items():
        if table not in there:
            continue
        names = [c for c, _, _ in columns]
        want = db.execute("SELECT * FROM " + table)
        assert [d[0] for d in want.description] == names, table
        want = want.fetchall()
        head, rows = of_csv(os.path.join(folder, "csv", table + ".csv"), columns)
        shown = [tuple(map(printed, r)) for r in want]
        assert head == names and len(rows) == len(want) and all(near(a, b) for r, s in zip(rows, shown) for a, b in zip(r, s)), table
        head, kinds, rows, _ = parquet_file.read(os.path.join(folder, "parquet", table + ".parquet"))
        kind = {"INTEGER": "int64", "BOOLEAN": "boolean", "REAL": "double", "TEXT": "text"}
        assert head == names and kinds == [kind[k] for _, k, _ in columns] and rows == want, table
        out[table] = [dict(zip(names, r)) for r in want]
    return out, db, there


def place(line):
    return (None, None) if line == "?" else (line.rpartition(":")[0], int(line.rpartition(":")[2]))


def number(label):
    return None if label in ("?", None) else int(label[1:].split(" ")[0])


def of_json(out):
    """The rows of the further analyses as comm.json has them: {table: set}."""
    t = {n: set() for n in ("lines", "variables", "buffers", "coalescing", "lane_strides", "reuse", "reuse_distances", "sharing",
                            "shared_lines", "conflicts", "placement", "placement_ctas", "placement_traffic")}
    volume = lambda v: tuple(v[k] for k in ("Load", "Store", "loads", "stores", "atomics", "unknown"))
    for key, table, words in (("lines", "lines", place), ("variables", "variables", lambda v: (None if v == "?" else v,)),
                              ("allocations", "buffers", lambda a: (number(a), a))):
        for name, kernels in (out["lines"][key] or {}).items():
            t[table] |= {(k, *words(name), *volume(v)) for k, v in kernels.items()}
    for k, lines in (out["coalescing"] or {"kernels": {}})["kernels"].items():
        for line, kinds in lines.items():
            for kind, c in kinds.items():
                t["coalescing"].add((k, *place(line), kind, *(c[x] for x in ("requests", "accesses", "bytes", "distinct", "sectors", "lines",
                                                                             "efficiency", "single", "irregular"))))
                t["lane_strides"] |= {(k, *place(line), kind, int(s), n) for s, n in c["strides"].items()}
    t["coalescing_sites"] = {(*place(s["line"] or "?"), *(s[x] for x in ("column", "variable", "kernel", "type", "requests", "accesses", "bytes",
                                                                         "distinct", "sectors", "lines"))) for s in (out["coalescing"] or {"sites": []})["sites"]}
    for k, steps in out["reuse"]["kernels"].items():
        for step, r in steps.items():
            for level in ("CTA", "SM", "device"):
                c = r[level]
                t["reuse"].add((int(step), k, level, r["uses"], c["contexts"], c["lines"], c["largest"], c["cold"],
                                r.get("error_uses"), r.get("error_lines")))
                t["reuse_distances"] |= {(int(step), k, level, int(d), n) for d, n in c["histogram"].items()}
    for k, steps in out["sharing"]["kernels"].items():
        for step, s in steps.items():
            t["sharing"] |= {(int(step), k, number(a), a, kind, v["lines"], v["accesses"]) for a, kinds in s["allocations"].items()
                             for kind, v in kinds.items()}
            t["shared_lines"] |= {(int(step), k, signed(int(x["address"], 16)), number(x["allocation"]), x["allocation"] or "?",
                                   x["sharing"], x["accesses"], x.get("writers")) for x in s["top"]}
    for k, steps in out["conflicts"].items():
        for step, list_ in steps.items():
            t["conflicts"] |= {(int(step), k, c["a"]["type"], *place(c["a"]["line"] or "?"), *c["ctas"][0], c["b"]["type"],
                                *place(c["b"]["line"] or "?"), *c["ctas"][1], c["bytes"], signed(int(c["address"], 16)),
                                number(c["allocation"]), c["allocation"] or "?", int(c.get("cooperative", False))) for c in list_}
    p = out["placement"]
    for k, steps in p["kernels"].items():
        t["placement"] |= {(int(step), k, policy, v["load"], v[policy], v["distinct"][policy]) for step, v in steps.items() for policy in p["policies"]}
    for policy, v in p["policies"].items():
        t["placement_traffic"] |= {(policy, i, j, n, v["distinct_traffic"][i][j]) for i, row in enumerate(v["traffic"]) for j, n in enumerate(row)}
    for k, steps in p["assignment"].items():
        t["placement_ctas"] |= {(int(step), *map(int, cta.split(",")), d) for step, ctas in steps.items() for cta, d in ctas.items()}
    return t


def signed(v):
    return v - 2**64 if v >= 2**63 else v


def compare(args, sample=()):
    folder = tempfile.mkdtemp(prefix="mt-tables-", dir=os.environ.get("MT_TEST_TMP"))
    out = json.loads(run("-s", "quick,more", *sample, *args).stdout)
    got, db, there = tables(folder, [*sample, *args], "more")
    for table, want in of_json(out).items():
        rows = {tuple(r.values()) for r in got[table]}
        if table in ("lines", "variables", "buffers") and not want:  # comm.json has null where no place is known
            assert all(r[{"lines": "file", "variables": "variable", "buffers": "allocation"}[table]] is None for r in got[table])
            continue
        if table in ("reuse", "coalescing"):
            rows = {tuple(round(v, 6) if isinstance(v, float) else v for v in r) for r in rows}
        assert rows == want and len(got[table]) == len(want), (folder, table, rows ^ want)
    for view, in db.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall():
        db.execute("SELECT * FROM %s" % view).fetchall()
    one = {"transfers", "lines", "ranges", "conflicts"} & there
    for table in sorted(one):  # one table alone is that of all
        for form in ("csv", "parquet"):
            p = subprocess.run([TOOL, "--format=" + form, "--table=" + table, *sample, *args], capture_output=True)
            with open(os.path.join(folder, form, "%s.%s" % (table, form)), "rb") as f:
                assert p.stdout == f.read(), (folder, table, form)
    db.close()
    shutil.rmtree(folder)


def random_case(seed):
    rng = random.Random(seed)
    folder = tempfile.mkdtemp(prefix="mt-tables-", dir=os.environ.get("MT_TEST_TMP"))
    paths = []
    if seed % 2:
        paths.append(os.path.join(folder, "t.mtc"))
        subprocess.run([GEN_DEVICE, str(seed), "1", paths[0], "64"], check=True, stdout=subprocess.DEVNULL)
    else:
        data, metas, _, _, _ = cases.make_case(rng, False)
        paths = cases.write_case(folder, data, metas)
    try:
        compare([*paths, *rng.choice([[], ["--no-host"], ["--strict"], ["--launches=1.."], ["--devices=3", "--top=2"]])],
                rng.choice([(), (), ("--sample=2",), ("--line-size=32",)]))
    except Exception:
        print("seed %d, %s" % (seed, folder))
        raise
    shutil.rmtree(folder)


def many_rows():
    """More rows than a row group has, NULL here and there: 70,000 CTAs."""
    folder = tempfile.mkdtemp(prefix="mt-tables-", dir=os.environ.get("MT_TEST_TMP"))
    path = os.path.join(folder, "t")
    with open(path, "wb") as f:
        f.write(traces.trace([("many", [traces.record(i % 7, traces.STORE, 4, 0x1000 + 4 * i, (i, 0, 0)) for i in range(70000)]),
                              ("read", [traces.record(0, traces.LOAD, 4, 0x1000 + 4 * i, (i % 9, 0, 0)) for i in range(70000)])]))
    for table, n in (("cta_volumes", 70000 + 9), ("transfers", 70000)):
        out = os.path.join(folder, table)
        run("--format=parquet", "--table=" + table, "-o", out, path)
        names, _, rows, groups = parquet_file.read(out)
        assert groups == 2 and len(rows) == n, (table, len(rows), groups)
        x = names.index("x" if table == "cta_volumes" else "src_x")
        assert sorted(r[x] for r in rows) == sorted([*range(70000), *(range(9) if table == "cta_volumes" else ())])
        if table == "transfers":
            assert {r[names.index("src_host")] for r in rows} == {None}
    shutil.rmtree(folder)


def by_hand():
    """docs/definitions.md's worked example, with an allocation for each of its three places."""
    folder = tempfile.mkdtemp(prefix="mt-tables-", dir=os.environ.get("MT_TEST_TMP"))
    path = os.path.join(folder, "t")
    R, a, b = traces.record, (0, 0, 0), (1, 0, 0)
    with open(path, "wb") as f:
        f.write(traces.trace([("fill", [R(0, 0, 4, 0x100, a), R(0, 1, 4, 0x200, a), R(1, 0, 4, 0x104, b), R(1, 1, 4, 0x204, b)]),
                              ("sum", [R(0, 0, 8, 0x200, a), R(0, 2, 4, 0x300, a), R(1, 0, 4, 0x204, b), R(1, 2, 4, 0x300, b)])]))
    events = [{"ev": "alloc", "seq": i, "id": i, "base": hex(0x100 * (i + 1)), "bytes": 16, "kind": "device", "name": n, "file": "a.cu",
               "line": 10 + i} for i, n in enumerate(("in", "mid", "total"))]
    events += [{"ev": "launch", "seq": 3 + i, "kernel": k, "grid": [2, 1, 1], "block": [1, 1, 1], "stream": 0, "records": 4, "traced": True}
               for i, k in enumerate(("fill", "sum"))]
    events += [{"ev": "memcpy", "seq": 5, "kind": "d2h", "dst": "0x900", "src": "0x300", "bytes": 4, "stream": 0, "file": "a.cu", "line": 20},
               {"ev": "memset", "seq": 6, "dst": "0x200", "bytes": 8, "stream": -1}]
    with open(path + ".meta", "w") as f:
        f.write(traces.companion(events, end={"records_written": 8, "records_counted": 8}))
    out = os.path.join(folder, "comm.db")
    run("--format=sqlite", "-s", "more", "-o", out, path, ok=(0,))
    db = sqlite3.connect(out)
    q = lambda sql: db.execute(sql).fetchall()
    assert q("SELECT kernel, launches, load, store, comm_load, comm_store FROM busiest_kernels") == [("sum", 1, 20, 8, 16, 4), ("fill", 1, 8, 8, 0, 8)]
    assert q("SELECT typeof(load), load FROM kernel_volumes") == [("integer", 8), ("integer", 20)]
    assert set(q("SELECT source, reader, bytes, accesses FROM kernel_transfers")) == {("fill", "sum", 12, 3), ("sum", "sum", 4, 1)}
    assert q("SELECT source, source_cta, reader, cta, bytes FROM cta_transfers WHERE unordered") == [("sum", "0,0,0", "sum", "1,0,0", 4)]
    assert set(q("SELECT kernel, name, reads, writes FROM kernel_buffers")) == {
        ("fill", "in", 1, 0), ("fill", "mid", 0, 1), ("sum", "mid", 1, 0), ("sum", "total", 1, 1)}
    assert set(q("SELECT launch, name, read, written, ctas FROM launch_buffers")) == {
        (0, "in", 8, 0, 2), (0, "mid", 0, 8, 2), (1, "mid", 12, 0, 2), (1, "total", 8, 8, 2)}
    assert q("SELECT bytes FROM working_sets WHERE level = 'device'") == [(256,), (256,)]  # 0x100 and 0x200; 0x200 and 0x300
    assert q("SELECT count(*), max(cooperative) FROM races") == [(0, None)]
    assert q("SELECT policy, load, crossing, distinct_bytes FROM device_crossing WHERE policy = 'block'") == [("block", 16, 8, 8)]
    assert q("SELECT seq, kind, dst, src, bytes, rows, stream, begin_ns, file, line FROM copies") == [
        (5, "d2h", 0x900, 0x300, 4, 1, 0, None, "a.cu", 20), (6, "set", 0x200, None, 8, 1, None, None, None, None)]
    assert q("SELECT label FROM buffers WHERE kernel = 'sum' ORDER BY allocation") == [("#1 mid",), ("#2 total",)]
    with open(os.path.join(SOURCE, "docs/man/memtrace-extract.md"), encoding="utf-8") as f:
        man = f.read()
    text = run("--format=text", "-s", "transfers", path, ok=(0,)).stdout
    rows = [line.split() for line in text.splitlines()]
    assert ["fill", "sum", "12", "3", "3"] in rows and ["sum", "sum", "4", "1", "1"] in rows, text
    assert ["sum", "1", "0,0,0", "sum", "1", "1,0,0", "4", "1", "unordered"] in rows and "Bytes by kernel" not in text, text
    sql = re.search(r'"(SELECT DISTINCT [^"]*)"', man)[1]  # the manual's own: which kernel writes which buffer
    assert set(q(sql)) == {("fill", "mid", 11), ("sum", "total", 12)}, q(sql)
    with open(os.path.join(SOURCE, "postprocess/output/rows/views.def"), encoding="utf-8") as f:
        views = re.findall(r'^MT_VIEW\((\w+), \w+, "([^"]*)"', f.read().split("\nMT_FACTS\n")[0], re.M)
    assert {v for v, in q("SELECT name FROM sqlite_master WHERE type = 'view'")} == {v for v, _ in views}
    for view, question in views:
        assert not question or "| %s | `%s` |" % (question, view) in man, "memtrace-extract(1) lacks " + view
    for table, columns in relations().items():
        row = re.search(r"^\| `%s` \| (.*?) \|" % table, man, re.M)
        assert row, "memtrace-extract(1) lacks " + table
        assert re.findall(r"`(\w+)`", row[1]) == [c for c, _, _ in columns], (table, row[1])
    db.close()
    shutil.rmtree(folder)


def usage():
    for args, word in ((["--format=parquet", "x"], "FOLDER"), (["--format=csv", "--table=none", "x"], "not a table"),
                       (["--table=lines", "x"], "csv and parquet"), (["--format=sqlite", "--table=lines", "-o", "y", "x"], "all tables"),
                       (["--format=csv", "-s", "lines", "x"], "--table"), (["--format=csv", "-s", "more", "-o", "-", "x"], "FOLDER"), (["--format=parquet", "-o", "/dev/null", "x"], "folder"),
                       (["--format=dot", "-s", "lines", "x"], "transfers"), (["--format=sqlite", "-s", "addresses", "-o", "y", "x"], "ranges")):
        p = run(*args, ok=(2,))
        assert word in p.stderr, (args, p.stderr)


def main():
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 20
    first = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    usage()
    many_rows()
    for seed in range(first, first + count):
        random_case(seed)
    by_hand()
    print("%d cases" % count)


if __name__ == "__main__":
    main()
