"""shapes.S: every shape of memory operand, against what its comments say."""
import collections
import os
import re
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "container"))
import mtc
from harness import case, holds, same
from world import SOURCE, accesses, atomic_lines, insn_log, symbols


def value(expression, names):
    m = re.fullmatch(r"(\w+)([+-]\d+)?", expression)
    return names[m[1]] + int(m[2] or 0)


def touched(accesses_of_one):
    return {(kind, a + i) for kind, a, size in accesses_of_one for i in range(size)}


def expectations(names):
    """One list per instruction that accesses memory, in the order of the source, which is that of the addresses: its
    executions, each a list of (r | w, address, size); or of one that comes in pieces, the bytes."""
    found = []
    with open(os.path.join(SOURCE, "shapes.S"), encoding="utf-8") as f:
        for line in f:
            if "#@" in line:
                text = line.split("#@")[1]
                executions = [[(w[0][0], value(w[1], names), int(w[2])) for w in (x.split() for x in e.split(","))] for e
                              in text.removeprefix("*").split(";")]
                found.append([touched(e) for e in executions] if text[0] == "*" else executions)
    return found


def build(w):
    return w.compile("shapes.S", "-nostdlib", "-static", "-no-pie")


def dynamic(w, program):
    """[(ip, accesses)] in the order of execution, from the source's comments and the log of instructions."""
    w.run("insn", "insn.out", program)
    insns, executions = insn_log(w.path("insn.out"))
    per_ip = collections.defaultdict(list)
    for order in sorted(executions):
        ip, operands = executions[order]
        if operands:
            per_ip[ip].append(operands)
    want = expectations(symbols(program))
    same("instructions that access memory", len(per_ip), len(want))
    for ip, expected in zip(sorted(per_ip), want):
        got = [touched(e) for e in per_ip[ip]] if isinstance(expected[0], set) else per_ip[ip]
        if got != expected and isinstance(expected[0], set):
            got, expected = sorted(got[0] - expected[0]), sorted(expected[0] - got[0])
        same(f"{ip:#x} {insns[ip][0]}", got, expected)
    return [executions[o] for o in sorted(executions)]


@case("shapes.insn")
def shapes_insn(w):
    dynamic(w, build(w))


def merged(sequence):
    """Elements of one gather are one line of up to three; here they are taken apart."""
    return [a for _, operands in sequence for a in operands]


@case("shapes.atomic")
def shapes_atomic(w):
    program = build(w)
    want = merged(dynamic(w, program))
    w.run("atomic", "atomic.out", program)
    lines = [l for l in atomic_lines(w.path("atomic.out")) if l[2][0] == "m"]
    have = [a for _, _, words in lines for a in accesses(words)]
    same("number of accesses", len(have), len(want))
    for k, (h, x) in enumerate(zip(have, want)):
        same(f"access {k}", h, x)


@case("shapes.mat")
def shapes_mat(w):
    program = build(w)
    want = collections.Counter((ip, a) for ip, operands in dynamic(w, program) for a in operands)
    w.run("mat", "mat.out", program, all=1)
    have = collections.Counter()
    with open(w.path("mat.out"), encoding="utf-8") as f:
        for line in f:
            words = line.split()
            if len(words) == 7:
                have[int(words[0]), ({"1": "r", "2": "w"}[words[4]], int(words[1]), int(words[5]))] += 1
    same("accesses too many", have - want, collections.Counter())
    same("accesses missing", want - have, collections.Counter())


@case("shapes.operands")
def shapes_operands(w):
    """In a container operands 1 to 3 come behind a lower one, or their own, of the same instruction; xsave and enter read between writes."""
    program = build(w)
    for mode, more in (("insn", {}), ("mat", {"all": 1}), ("atomic", {})):
        w.run(mode, mode + ".mtc", program, **more)
        with open(w.path(mode + ".mtc"), "rb") as f:
            data = f.read()
        timed = mtc.read_head(data)["features"] & mtc.HAS_TIMES
        pieces = {e["id"] // 4 for chunk in mtc.chunks(data) if chunk.type == mtc.META for e in mtc.lines(chunk)
                  if re.match("xsave|enter", e.get("text", ""))}
        sites = [item[1] for chunk in mtc.chunks(data) if chunk.type == mtc.HOST for item in mtc.host(chunk.payload, timed) if item[0] == "a"]
        holds(f"{mode}: {len(sites)} accesses", len(sites) > 100)
        bad = [(before, site) for before, site in zip([0] + sites, sites)
               if site % 4 and (before // 4 != site // 4 or (site < before and site // 4 not in pieces))]
        same(f"{mode}: operands that come in front of their instruction's first one", bad, [])


@case("shapes.counts")
def shapes_counts(w):
    """A loop, counted by hand: n times load, load, add, store; n = 1000."""
    program = w.compile("loop.S", "-nostdlib", "-static", "-no-pie")
    w.run("mat", "mat.out", program, all=1)
    count = collections.Counter()
    with open(w.path("mat.out"), encoding="utf-8") as f:
        for line in f:
            words = line.split()
            if len(words) == 7:
                count[words[4], words[5]] += 1
    same("accesses", dict(count), {("1", "8"): 3000, ("2", "8"): 1000, ("1", "16"): 500, ("2", "16"): 500})
    holds("no words on standard error", "lost" not in w.stderr)
