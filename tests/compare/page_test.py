#!/usr/bin/env python3
"""memtrace compare -f html: what stands on the page, by hand and against plain Python. usage: page_test.py BIN"""
import collections
import html.parser
import json
import os
import random
import re
import shutil
import sys
import tempfile

from compare_test import distance, flat, mat, random_walk, run, sequences


class Page(html.parser.HTMLParser):
    """Tags; the words of cells, by tables; leads and verdicts; of each map the numbers above it, the distances of its tree, and (of both) titles."""

    def __init__(self, data):
        super().__init__()
        self.tags, self.tables, self.titles, self.columns, self.paths = [], [], [], [], []
        self.open, self.verdicts, self.leads, self.pairs = [], [], [], 0
        self.feed(data)

    def handle_starttag(self, tag, attributes):
        known = dict(attributes)
        self.tags.append(tag)
        self.open.append((tag, known))
        self.pairs += tag == "details"
        if tag == "svg":
            self.columns.append([])
            self.paths.append([])
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td"):
            self.tables[-1][-1].append("")
        if tag == "p":
            {"verdict": self.verdicts, "lead": self.leads}.get(known.get("class", "").split(" ")[0], []).append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        inside = [t for t, _ in self.open]
        if "td" in inside or "th" in inside:
            self.tables[-1][-1][-1] += data
        classes = [k.get("class", "").split(" ")[0] for t, k in self.open if t == "p"]
        for name, texts in (("verdict", self.verdicts), ("lead", self.leads)):
            if name in classes:
                texts[-1] += data
        if self.open and self.open[-1][0] == "text" and "font-weight" in self.open[-1][1]:
            self.columns[-1].append(int(data))
        if "svg" in inside and "path" in inside and "title" in inside:
            self.paths[-1].append(float(data.split()[1]))
        if "svg" in inside and "g" in inside and "title" in inside:
            self.titles.append(data)


def page(*args, code=0):
    data = run("-f", "html", *args, code=code).stdout.decode()
    got = Page(data)
    assert not {"script", "img", "iframe"} & set(got.tags), got.tags
    assert "default-src 'none'" in data and "http" not in data.replace("http-equiv", "").replace('xmlns="http://www.w3.org/2000/svg"', "")
    return got


def rows(table):
    """{kind: (count in a, in b, share of a, of b, name, note)}; a stride has a real minus."""
    out = collections.OrderedDict()
    for kind, counts, shares, *_ in table[1:]:
        a, b = re.match(r"([\d,]+) → ([\d,]+)", counts).groups()
        x, y = re.match(r"(.*?%) → (.*?%)", shares).groups()
        node, _, only = kind.replace("\u00a0", " ").replace("−", "-").partition(" only in ")
        out[node.strip()] = (int(a.replace(",", "")), int(b.replace(",", "")), x, y, only.strip())
    return out


def by_hand(folder):
    """a: strides 8 8 8 4; b: strides 8 8 4 4."""
    one = mat(folder, "one", [(0, 0, x, "read") for x in (0, 8, 16, 24, 28)])
    two = mat(folder, "two", [(0, 3, x, "read") for x in (0, 8, 16, 20, 24)], at=1 << 40)
    got = page("--ngram", "2", one, two)
    _, nodes, grams = got.tables
    assert rows(nodes) == {"#0 +8 read": (3, 2, "75.0 %", "50.0 %", ""), "#0 +4 read": (1, 2, "25.0 %", "50.0 %", "")}, nodes
    assert [c[2].split("%")[-1].strip() for c in nodes[1:]] == ["−25.0 points", "+25.0 points"]
    assert [c[1].split(" ")[-1] for c in nodes[1:]] == ["−1", "+1"]
    # one has 88 88 84, two has 88 84 44: 84 is a third of both
    assert rows(grams) == {"#0 +8 read × 2": (2, 1, "66.7 %", "33.3 %", ""), "#0 +4 read × 2": (0, 1, "0 %", "33.3 %", "2")}, grams
    assert "1 is there as often in both." in got.leads
    assert got.verdicts == ["1 one and 2 two are not the same walk: Levenshtein 0.75, 2-grams 0.67, where 1 is the same and 0 nothing "
                            "in common. What differs most is #0\u00a0+8\u00a0read, 75.0 % of trace 1 and 50.0 % of trace 2."], got.verdicts
    assert got.columns == [[1, 2], [1, 2]] and got.paths == [[], []]
    assert sorted(got.titles) == sorted(["1 – 1: 1.0000", "2 – 2: 1.0000"] * 2 + ["1 – 2: 0.7500", "2 – 1: 0.7500"] + ["1 – 2: 0.6667", "2 – 1: 0.6667"])
    assert len(page("--ngram", "1", one, two).tables) == 2  # 1-grams are the nodes


def sameness(folder):
    """The same walk at other addresses; one that is the same as far as it was kept; one twice as long."""
    walk = [(0, 0, x, "write") for x in (0, 8, 16, 12, 8, 16)]
    one, two = mat(folder, "s1", walk), mat(folder, "s2", walk, at=1 << 33)
    got = page(one, two)
    assert "1 s1 and 2 s2 are the same walk, node by node: Levenshtein 1.00, 3-grams 1.00" in got.verdicts[0], got.verdicts
    assert "No kind of access differs." in got.leads and len(got.tables) == 1
    assert " are not known to be the same walk: Levenshtein 1.00" in page("--cap", "1", one, two).verdicts[0]
    long = mat(folder, "s3", [(0, 0, 8 * i, "write") for i in range(21)])
    short = mat(folder, "s4", [(0, 0, 8 * i, "write") for i in range(11)])
    got = page("--cap", "5", long, short)  # one run each
    assert " are not the same walk: Levenshtein 1.00" in got.verdicts[0], got.verdicts
    assert rows(got.tables[1]) == {"#0 +8 write": (20, 10, "100 %", "100 %", "")}


def many(folder):
    """Two of strides of 8, two of strides of 4, each with another one at the end or without: neighbours are alike."""
    walks = [[8] * 12, [4] * 12, [8] * 11 + [4], [4] * 11 + [8]]
    paths = [mat(folder, "m%d" % i, [(0, 0, sum(w[:k]), "read") for k in range(13)]) for i, w in enumerate(walks)]
    got = page(*paths)
    far = [[distance(a, b) / 12 for b in walks] for a in walks]
    assert far[0][2] == far[1][3] == 1 / 12  # joined first; then the mean of the four distances between these two groups
    last = (far[0][1] + far[0][3] + far[2][1] + far[2][3]) / 4
    assert got.columns == [[1, 3, 2, 4]] * 2, got.columns
    assert got.paths[1] == [] and all(abs(x - y) < 6e-5 for x, y in zip(got.paths[0], (1 / 12, 1 / 12, last))), got.paths
    assert "Most alike: 1 m0 and 3 m2 (Levenshtein 0.92, 3-grams " in got.verdicts[0] and "No two are the same walk." in got.verdicts[0]
    assert got.pairs == 3
    # each column of one map in that order, in each row
    assert [t.split(":")[0] for t in got.titles[:4]] == ["1 – 1", "1 – 3", "1 – 2", "1 – 4"]
    assert page("--measure", "ngrams", *paths).paths[1] == []
    got = page(*paths, *paths, *paths)
    assert got.pairs == 8 and "What differs is shown of trace 1 and the next 8." in got.leads
    assert "12 pairs are the same walk" in got.verdicts[0]  # three of each of four: three pairs each
    assert b"at most 100 traces" in run("-f", "html", *paths * 26, code=2).stderr
    assert b"memtrace report" in run("-f", "html", "--volumes", *paths[:2], code=2).stderr


def saved(folder, name, strides, buffer, **more):
    """A saved graph with its sequence: one buffer."""
    kinds = sorted(set(strides))
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"format": "memtrace-graph", "version": 1, "complete": True, "node": ["buffer", "stride", "type"], "buffers": [buffer],
                   "nodes": [{"id": i, "buffer": buffer["id"], "stride": s, "type": "read", "count": strides.count(s)} for i, s in enumerate(kinds)],
                   "edges": [], **({"sequence": [[0, kinds.index(s), 1] for s in strides]} if more.get("order", True) else {})}, f, indent=1)
    return path


def names(folder):
    """Names and places of buffers, and of files, are text, and short."""
    wild = "<script>alert(1)</script>&\""
    one = saved(folder, "<b>&'\".json", [8, 8, 4], {"id": 7, "name": wild, "file": "/src/<i>.cu", "line": 3})
    two = saved(folder, "b" * 200, [8, 4, 4], {"id": 2, "name": "ä" * 200, "file": "/src/new.cu", "line": 5})
    got = page(one, two)
    kind = got.tables[1][1][0].replace("\u00a0", " ")
    assert kind.startswith("#0 +8 read " + wild + " → " + "ä" * 7 + "…" + "ä" * 22), kind
    assert kind.endswith(" <i>.cu:3 → new.cu:5"), kind
    assert got.tables[0][1][0].startswith("1 " + one) and got.verdicts[0].startswith("1 <b>&'\".json and 2 " + "b" * 15 + "…" + "b" * 45)
    # without an order
    plain = saved(folder, "plain.json", [8, 8, 4], {"id": 7, "name": "a", "file": "", "line": 0}, order=False)
    got = page(plain, two)
    assert got.verdicts[0].startswith("1 plain.json and 2 bbb") and "are not known to be the same walk." in got.verdicts[0], got.verdicts
    assert "saved without --sequence" in got.tables[0][1][0]
    assert rows([[r[0].replace(" a → " + "ä" * 7 + "…" + "ä" * 22, ""), *r[1:]] for r in got.tables[1]])["#0 +8 read new.cu:5"][:2] == (2, 1)


def against_python(folder, rng):
    """The tables of random walks against plain Python."""
    walks = [random_walk(rng, rng.choice([2, 40, 150])) for _ in range(2)]
    paths = [mat(folder, "p%d" % i, w) for i, w in enumerate(walks)]
    actors = [sequences(w) for w in walks]
    got = page("--ngram", "2", *paths)
    said = lambda x: "#%d %+d %s" % x
    walked = lambda g: said(g[0]) + " × 2" if g[0] == g[1] else said(g[0]) + " → " + said(g[1])
    nodes = [collections.Counter(said(x) for x in flat(a)) for a in actors]
    grams = [collections.Counter(walked(tuple(x[i:i + 2])) for x in a for i in range(len(x) - 1)) for a in actors]
    tables = got.tables[1:]
    for a, b in (nodes, grams):
        all_a, all_b = sum(a.values()), sum(b.values())
        share = lambda k: abs((b[k] / all_b if all_b else 0) - (a[k] / all_a if all_a else 0))
        differ = {k for k in a | b if share(k) or a[k] != b[k]}
        if not differ:
            continue
        shown = rows(tables.pop(0))
        assert len(shown) == min(25, len(differ)) and set(shown) <= differ
        assert {k: v[:2] for k, v in shown.items()} == {k: (a[k], b[k]) for k in shown}
        assert all(v[4] == ("1" if not b[k] else "2" if not a[k] else "") for k, v in shown.items())
        order = [share(k) for k in shown]
        assert all(x >= y - 1e-12 for x, y in zip(order, order[1:])), order
        assert all(share(k) <= order[-1] + 1e-12 for k in differ - set(shown))


def main():
    folder = tempfile.mkdtemp(prefix="mt-page-")
    for case in (by_hand, sameness, many, names):
        case(folder)
    for seed in range(60):
        against_python(folder, random.Random(seed))
    shutil.rmtree(folder)
    print("the page says what plain Python says")


if __name__ == "__main__":
    main()
