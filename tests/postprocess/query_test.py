#!/usr/bin/env python3
"""memtrace query beside SQLite's own program: each table and view, and joins by chance, have the rows that Python's sqlite3 finds in
the database of memtrace extract; statements that would do more than read the trace are refused. Asked of that database, and of a comm.json with
the same sections, the answers are the same; files that nobody's memtrace extract wrote get a sentence.

usage: query_test.py BIN GEN_DEVICE [CASES] [SEED]
"""
import csv
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import property_test as cases

BIN, GEN_DEVICE = sys.argv[1:3]
QUERY = [os.path.join(BIN, "memtrace"), "query", "--quiet"]
SIZES = {"meta", "ranges", "kernels", "ctas", "kernel_buffers", "launch_buffers"}  # a file's own, or made by another pass


def ask(text, *args, ok=(0, 3)):
    p = subprocess.run([*QUERY, *args, text], capture_output=True, text=True)
    assert p.returncode in ok, (text, args, p.returncode, p.stderr)
    return p


def rows(text, *args):
    return [tuple(r.values()) for r in json.loads(ask(text, "--json", *args).stdout)]


def sure(list_):
    """Reals as JSON prints them; an order for what has none."""
    return sorted((tuple(round(v, 6) if isinstance(v, float) else v for v in r) for r in list_), key=repr)


def joins(rng, db, tables):
    """Statements that go by columns of numbers."""
    numbers = {t: [c for c, kind in db.execute("SELECT name, type FROM pragma_table_info(?)", (t,)) if kind == "INTEGER"] for t in tables}
    tables = [t for t in tables if numbers[t]]
    for _ in range(12):
        a, b = rng.choice(tables), rng.choice(tables)
        x, y, z = rng.choice(numbers[a]), rng.choice(numbers[b]), rng.choice(numbers[a])
        some = [v for v, in db.execute("SELECT DISTINCT %s FROM %s LIMIT 20" % (z, a))]
        value = rng.choice(some) if some and rng.random() < 0.8 else rng.choice([-1, 0, 2.0, "'1'", "NULL", 2**62])
        value = "NULL" if value is None else value
        yield rng.choice(("SELECT a.*, b.* FROM (SELECT * FROM {a} LIMIT 40) a JOIN {b} b ON a.{x} = b.{y} LIMIT 3000", "SELECT count(*), sum({x}) FROM {a} WHERE {z} = {value}",
                          "SELECT {z}, count(*) FROM {a} GROUP BY {z}", "SELECT count(*) FROM {a} a LEFT JOIN {b} b ON b.{y} = a.{x} AND b.{y} > 0 WHERE a.{z} IS {value}",
                          "SELECT {x} FROM {a} WHERE {z} IN (SELECT {y} FROM {b} WHERE {y} <> {value})", "SELECT * FROM {a} WHERE {z} = {value} AND {x} >= 0")).format(**locals())


# Statements whose tables SQLite names in other ways, and what is not a table of ours.
NAMED = ("SELECT count(*) FROM transfers a JOIN transfers b USING (src_launch, dst_launch, src_x)", "SELECT launch, count(*) FROM cta_volumes JOIN sharing USING (launch) GROUP BY launch",
         "SELECT count(*), sum(a.bytes), sum(b.bytes), sum(a.accesses = b.accesses) FROM transfers a JOIN transfers b ON b.rowid = a.rowid + 1", "SELECT count(*) FROM transfers WHERE rowid IN (-7, 1e9)",
         "SELECT count(*) FROM sharing LEFT JOIN reuse USING (launch)", "SELECT count(*) FROM lines NATURAL JOIN coalescing", "SELECT count(*) FROM LAUNCHES", "SELECT 1 WHERE EXISTS (SELECT 1 FROM Launches)",
         "WITH t(a) AS (VALUES (1), (2)) SELECT count(*) FROM t", "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 9) SELECT count(*) FROM r", "WITH t(a) AS (VALUES (1)) SELECT 1 FROM t, launches",
         "SELECT value FROM json_each('[1, 2]')", "SELECT 1; -- done", " ; SELECT 2; /* done */ ;", "SELECT count(*) FROM (SELECT 1 FROM reuse) x CROSS JOIN busiest_kernels")


# Tables of a comm.json, and what of them it has: all columns, some, or those of some rows.
OF_COMM = dict.fromkeys("sends samples sampled_launches apart lines variables buffers coalescing coalescing_sites lane_strides reuse reuse_distances footprint sharing shared_lines conflicts false_pairs devices links bounces misses heap heap_peak traffic "
                        "placement placement_ctas placed".split(), "SELECT * FROM %s")
OF_COMM.update(launches="SELECT id, kernel, selected FROM %s WHERE selected", allocations="SELECT id, bytes FROM %s WHERE id IN (SELECT allocation FROM traffic)",
               launch_volumes="SELECT launch, kernel, load, store, comm_load, comm_store, from_same_launch, from_earlier_launch, from_same_cta FROM %s",
               run="SELECT threads, host, local, strict, partial, launches, all_launches, records, host_accesses, onchip FROM %s")


def same_of_comm(folder, args, seed):
    """A comm.json of all sections has the rows of the trace. A table that it lacks is not known, or has none. How many are the same."""
    comm, same = os.path.join(folder, "comm.json"), 0
    p = subprocess.run([os.path.join(BIN, "memtrace"), "extract", "-q", "-s", "quick,more", "-o", comm, *args], capture_output=True, text=True)
    assert p.returncode in (0, 3), p.stderr
    for table, text in OF_COMM.items():
        got, want = ask(text % table, "--json", comm, ok=(0, 2, 3)), rows(text % table, *args)
        if got.returncode == 2:
            assert "the table %s is not " % table in got.stderr and comm in got.stderr and (not want or "is not known" in got.stderr), (seed, table, got.stderr, want)
            continue
        assert sure(tuple(r.values()) for r in json.loads(got.stdout)) == sure(want), (seed, table, got.stdout, want)
        assert got.returncode == p.returncode, (seed, table, got.stderr)
        same += want != []
    return same


def case(seed):
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="mt-query-", dir=os.environ.get("MT_TEST_TMP")) as folder:
        paths = [os.path.join(folder, "t.mtc")]
        if seed % 2:
            subprocess.run([GEN_DEVICE, str(seed), "1", paths[0], "64"], check=True, stdout=subprocess.DEVNULL)
        else:
            data, metas, _, _, _ = cases.make_case(rng, False)
            paths = cases.write_case(folder, data, metas)
        args = [*rng.choice([[], ["--no-host"], ["--strict"], ["--launches=1.."], ["--devices=3"], ["--same-cta=local", "--line-size=64"]]), *paths]
        name = os.path.join(folder, "db")
        p = subprocess.run([os.path.join(BIN, "memtrace"), "extract", "--format=sqlite", "-s", "more", "-o", name, *args], capture_output=True, text=True)
        assert p.returncode in (0, 3), p.stderr
        db = sqlite3.connect(name)
        there = [(n, kind) for n, kind in db.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')") if n not in SIZES]
        for table, kind in there:
            want, got = db.execute("SELECT * FROM " + table).fetchall(), rows("SELECT * FROM " + table, *args)
            assert sure(got) == sure(want), (seed, table, set(sure(got)) ^ set(sure(want)))
            assert sure(rows("SELECT * FROM " + table, name)) == sure(want), (seed, table)
            if kind == "table":
                assert [r[0] for r in got] == [r[0] for r in want], table  # in their order
        for text in NAMED:
            plain = text.strip(" ;").split(";")[0]
            assert sure(rows(text, *args)) == sure(db.execute(plain).fetchall()), (seed, text)
        for text in joins(rng, db, [n for n, kind in there if kind == "table"]):
            if "LIMIT" not in text or "JOIN" not in text:
                assert sure(rows(text, *args)) == sure(db.execute(text).fetchall()), (seed, text)
            else:
                assert len(rows(text, *args)) == len(db.execute(text).fetchall()), (seed, text)
        db.close()
        same_of_comm(folder, args, seed)


def golden():
    """Traces whose figures are derived by hand, and host threads beside each other."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/succeed")
    for paths in (["worked-example.trace"], ["stencil.trace"], ["stride.trace"], ["split.trace"], ["streams-a.trace", "streams-b.trace"], ["no-access.trace"]):
        for options in ([], ["-t", "1.."])[:1 + (paths[0] == "worked-example.trace")]:
            with tempfile.TemporaryDirectory(prefix="mt-query-", dir=os.environ.get("MT_TEST_TMP")) as folder:
                same = same_of_comm(folder, [*options, *(os.path.join(here, p) for p in paths)], paths)
                assert same >= (15 if paths == ["worked-example.trace"] and not options else 1), (paths, options, same)


VOLUME = {"KDV": {"k": {"0": {"Load": 8, "Store": 0}}}}
# A section, the statement, and the words that are wrong in it.
HOSTILE = (({"KDV": {"k": {"0": {"Load": "8", "Store": 0}}}}, "launch_volumes", "KDV"), ({"KDV": 5}, "launches", "'*' in 'KDV'"), ({"KDV": {"k": 5}}, "launches", "'k' in 'KDV'"),
           ({"KDV": {"k": {"x": {}}}}, "launches", "'x' in 'KDV'"), ({"KDV": {"k": {"99999999999999999999": {}}}}, "launches", "'99999999999999999999'"), ({"KDV": {"k": {"0": {}}, "l": {"0": {}}}}, "launches", "launches.id"),
           ({"transfers": {"k": {"0,0,0": {"0": {"k": {"0,0,0": {"1": {"Size": 1.5, "cnt": 1}}}}}}}}, "sends", "'Size' in 'transfers'"), ({"transfers": {"k": {"0,0,0": {"0": 7}}}}, "sends", "'0' in 'transfers'"),
           ({"transfers": {"k": {"0": {"0": {"k": {"0": {str(i): {"Size": 2**63 - 1, "cnt": 1} for i in range(2)}}}}}}}, "sends", "integer overflow"), ({"reuse": {"kernels": {"k": {"0": {"CTA": 5}}}}}, "reuse", "'CTA' in 'reuse'"),
           ({"conflicts": {"k": {"0": [{"a": {"type": 1}}]}}}, "conflicts", "'a.type' in 'conflicts'"), ({"conflicts": {"k": {"0": [{"address": "0xx"}]}}}, "conflicts", "'0xx' in 'conflicts'"),
           ({"placement": {"assignment": {"k": {"0": {"0,70000,0": 1}}}}}, "placement_ctas", "'0,70000,0' in 'placement'"), ({"apart": [["k"]]}, "apart", "'.' in 'apart'"), ({"apart": ["k", "k"]}, "apart", "apart.kernel"),
           ({"launches": "4"}, "run", "'launches' is not"), ({"devices": [5]}, "devices", "in 'devices'"), ({"links": [{"speed": "fast"}], "devices": []}, "links", "'speed' in 'links'"),
           ({"coalescing": None}, "coalescing", "is not known"), ({}, "sharing", "--sections=sharing"), ({}, "links", "--sections=devices"), ({}, "launches", "--sections=KDV"), ({}, "banks", "only the trace"))


def hostile():
    """Each gets a sentence that names the file and what is wrong in it; so do texts that are no JSON."""
    with tempfile.TemporaryDirectory(prefix="mt-query-", dir=os.environ.get("MT_TEST_TMP")) as folder:
        path = os.path.join(folder, "c.json")

        def asked(text, table, ok):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            p = ask("SELECT * FROM " + table, "--csv", path, ok=ok)
            assert p.returncode == 0 or path in p.stderr, p.stderr
            return p

        head = {"format": "memtrace-comm", "complete": True}
        for sections, table, words in HOSTILE:
            p = asked(json.dumps({**head, **sections}), table, (2, 3))
            assert words in p.stderr, (sections, p.stderr)
        for text, words in (('"KDV": {"a": {}, "a": {}}', "duplicate"), ('"x": %s%s' % ("[" * 3000, "]" * 3000), "depth"), ('"launches": 99999999999999999999', "too big"), ('"x": 1e999', "overflow"), ('"x": "\\u0000"', "\\u0000"), ('"x": ', "unexpected")):
            assert words in asked('{"format": "memtrace-comm", %s}' % text, "launches", (3,)).stderr, text
        assert "--from" not in ask("SELECT 1", "--strict", path, ok=(2,)).stderr
        deep = {"x": 1}
        for _ in range(300):
            deep = {"0": deep}
        good = {**head, "launches": 1, "records": 2, **VOLUME, "KCV": VOLUME["KDV"], "lines": {"lines": {"a.cu:7": {"k": {"Load": 8, "loads": 2}}}}, "reuse": {"kernels": {"k": {"0": {"uses": 4, "CTA": {"lines": 1, "histogram": {"0": 4}}}}}},
                "sharing": {"kernels": {"k": {"0": {"allocations": {"#1 a": {"false": {"lines": 1, "accesses": 2}}}, "top": [{"address": "0x10", "allocation": None}]}}}}, "traffic": {"launch_step": 1, "allocations": {"#1 a": {"id": 1, "bytes": 8, "launches": [[0, 1, 2, 3, 4, 5, 6]]}}},
                "transfers": {"k": {"0,0,0": {"0": {"k": {"0,0,0": {"1": {"Size": 4, "cnt": 1}}}}}}}, "placement": {"devices": 2, "load": 4, "kernels": {"k": {"0": {"load": 4, "block": 0, "distinct": {"block": 0}}}}}, "conflicts": {"k": {"0": [{"ctas": [[0, 0, 0], [1, 0, 0]]}]}}}
        rng = random.Random(1)
        for _ in range(40):  # one value of it is another one
            one, at = json.loads(json.dumps(good)), None
            at = one
            while True:
                key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
                if not isinstance(at[key], (dict, list)) or not at[key] or rng.random() < 0.2:
                    break
                at = at[key]
            if key != "format":
                at[key] = rng.choice((None, -1, 2**63 - 1, 1e308, "x", "", [], {}, True, deep, [[0]], {"a": {"b": {"c": {"d": {"e": {"f": {}}}}}}}))
            for table in rng.sample(sorted(OF_COMM), 4):  # the page reads all
                asked(json.dumps(one), table, (0, 2, 3))
            p = subprocess.run([QUERY[0], "report", "--from", path, "-o", os.path.join(folder, "r.html")], capture_output=True, text=True)
            assert p.returncode in (0, 2, 3) and (p.returncode == 0 or path in p.stderr or one["complete"] is not True), (one, p.returncode, p.stderr)
        db = os.path.join(folder, "other")
        sqlite3.connect(db).execute("CREATE TABLE a (b)").connection.close()
        assert "no table meta" in ask("SELECT 1", db, ok=(2,)).stderr
        with sqlite3.connect(db) as c:
            c.executescript("CREATE TABLE meta (key, value); CREATE VIEW launches AS SELECT load_extension('x') AS id; CREATE VIEW races AS SELECT b FROM a")
        for text in ("SELECT * FROM launches", "SELECT * FROM races", "SELECT * FROM a", "SELECT * FROM lines"):
            p = ask(text, db, ok=(1, 2))
            assert p.stderr and not p.stdout, (text, p)
        with open(db, "rb") as f:
            data = f.read()
        with open(db, "wb") as f:
            f.write(data[:100] + bytes(len(data) - 100))
        assert db in ask("SELECT 1", db, ok=(1, 2, 3)).stderr


def forms():
    """One answer in three forms; names and texts that a terminal would obey."""
    with tempfile.TemporaryDirectory(prefix="mt-query-", dir=os.environ.get("MT_TEST_TMP")) as folder:
        path = os.path.join(folder, "t.mtc")
        subprocess.run([GEN_DEVICE, "3", "1", path, "64"], check=True, stdout=subprocess.DEVNULL)
        text = "SELECT id, kernel, begin_ns IS NULL AS n, NULL AS none, 'a,\"b' AS c FROM launches"
        asked = json.loads(ask(text, "--json", path).stdout)
        head, *table = csv.reader(ask(text, "--csv", path).stdout.splitlines())
        assert asked and head == list(asked[0]) and table == [["" if v is None else str(v) for v in r.values()] for r in asked]
        box = ask(text, path).stdout.splitlines()
        assert len({len(line) for line in box}) == 1 and len(box) == len(asked) + 4
        assert [[c.strip() for c in line.split("│")[1:-1]] for line in box[3:-1]] == table
        p = ask("SELECT char(27, 10, 8238) || 'x' AS a, x'00ff' AS b", path)
        assert "\\x1b\\x0a" in p.stdout and "\x1b" not in p.stdout and "\u202e" not in p.stdout, p.stdout
        out = os.path.join(folder, "out.csv")
        ask(text, "--csv", "-o", out, path)
        with open(out, encoding="utf-8") as f:
            assert f.read() == ask(text, "--csv", path).stdout
        p = subprocess.run([QUERY[0], "query", path, "SELECT 1 WHERE 0"], capture_output=True, text=True)
        assert p.returncode == 0 and not p.stdout and "no rows" in p.stderr
        p = ask("SELECT 1e-9 AS a, 1.0 / 3 AS b, 1e300 AS c, 2.0 AS d, 1e999 AS e, x'00fe' AS f", path)
        got = json.loads(ask("SELECT 1e-9 AS a, 1.0 / 3 AS b, 1e300 AS c, 2.0 AS d, 1e999 AS e, x'00fe' AS f", "--json", path).stdout)[0]
        assert got == {"a": 1e-9, "b": 1.0 / 3, "c": 1e300, "d": 2.0, "e": None, "f": "00fe"} and isinstance(got["d"], float) and "00fe" in p.stdout, got
        old = os.path.join(folder, "old")
        for more in ([], ["--csv"], ["--json"]):  # what fails before its first row leaves the file
            with open(old, "w", encoding="utf-8") as f:
                f.write("old")
            ask("SELECT abs(-9223372036854775808)", *more, "-o", old, path, ok=(1,))
            with open(old, encoding="utf-8") as f:
                assert f.read() == "old", more
        assert "not both" in ask("SELECT 1", "--csv", "--json", path, ok=(2,)).stderr
        list_ = subprocess.run([*QUERY, "--list"], capture_output=True, text=True, check=True).stdout
        assert "\nlaunches:" in list_ and "Which lines waste most" in list_ and "  file, line, kernel, type, requests" in list_ and "ranges" not in list_


def refused():
    with tempfile.TemporaryDirectory(prefix="mt-query-", dir=os.environ.get("MT_TEST_TMP")) as folder:
        path, other = os.path.join(folder, "t.mtc"), os.path.join(folder, "other")
        subprocess.run([GEN_DEVICE, "3", "1", path, "64"], check=True, stdout=subprocess.DEVNULL)
        reads = "a query is a SELECT"
        for text, word in (("ATTACH '%s' AS o" % other, reads), ("VACUUM INTO '%s'" % other, ""), ("PRAGMA table_list", reads), ("SELECT * FROM pragma_table_list", "not authorized"),
                           ("SELECT load_extension('x')", "not authorized"), ("CREATE TABLE a (b)", reads), ("CREATE TEMP TABLE a AS SELECT 1", reads), ("INSERT INTO launches VALUES (1)", ""),
                           ("DELETE FROM launches", ""), ("DROP VIEW races", ""), ("BEGIN", reads), ("SELECT * FROM ranges", "extract -f sqlite"), ("SELECT * FROM kernel_buffers", "extract -f sqlite"),
                           ("SELECT 1; SELECT 2", "more than one"), ("SELECT ?", "no value"), ("SELECT fts3_tokenizer('simple')", ""), ("SELECT count(*) FROM ranges JOIN cta_volumes USING (launch)", "extract -f sqlite"), ("SELECT count(*) FROM pragma_database_list", ""), ("", "no statement"), ("SELECT nosuch FROM launches", "--list names"), ("SELEC 1", "syntax error"),
                           ("SELECT * FROM sqlite_dbpage", ""), ("SELECT readfile('/etc/passwd')", "no such function"), ("EXPLAIN SELECT 1", "")):
            p = ask(text, path, ok=(2,) if word else (0, 1, 2))
            assert word in p.stderr, (text, p.stderr)
            assert os.listdir(folder) == ["t.mtc"], text
        for words, word in ((["SELECT 1"], "no trace"), ([path], "no query"), ([], "no query"), ([other, "SELECT 1"], "cannot open")):
            p = subprocess.run([*QUERY, *words], capture_output=True, text=True)
            assert p.returncode == 2 and word in p.stderr, (words, p.stderr)
        p = subprocess.Popen([*QUERY, path, "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT sum(n) FROM a"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1)  # it would never end; a signal before it runs ends it, too
        p.send_signal(signal.SIGINT)
        assert p.wait(60) in (3, 1, 130) or p.returncode < 0, p.returncode


def kept():
    """No command writes over a trace that it finds in a folder, whatever the output is called."""
    with tempfile.TemporaryDirectory(prefix="mt-query-", dir=os.environ.get("MT_TEST_TMP")) as folder:
        path, link, hard = (os.path.join(folder, n) for n in ("run/MemTrace-pipe-0.mtc", "link", "hard"))
        os.mkdir(os.path.dirname(path))
        subprocess.run([GEN_DEVICE, "3", "1", path, "64"], check=True, stdout=subprocess.DEVNULL)
        os.symlink(path, link)
        os.link(path, hard)
        with open(path, "rb") as f:
            before = f.read()
        run = os.path.dirname(path)
        for name in (link, hard):
            for words in (["query", run, "-o", name, "SELECT 1"], ["extract", run, "-o", name], ["graph", run, "-o", name], ["compare", "--volumes", run, run, "-o", name]):
                p = subprocess.run([QUERY[0], *words], capture_output=True, text=True)
                assert p.returncode == 2 and "is one of the inputs" in p.stderr, (words, p.returncode, p.stderr)
                with open(path, "rb") as f:
                    assert f.read() == before, words


def main():
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    first = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    forms()
    refused()
    kept()
    golden()
    hostile()
    for seed in range(first, first + count):
        case(seed)
    print("%d cases" % count)


if __name__ == "__main__":
    main()
