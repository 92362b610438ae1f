"""cas_pair.c: compare-and-swap of pairs of words. The program counts by the zero flag how many succeeded; each one that
did writes in the trace, each one that did not only reads."""
import collections

from harness import case, holds, same
from world import accesses, atomic_lines, insn_log

SIZES = (16, 8)


def told(out):
    """{(address, size): (swapped, kept)} as the program says."""
    lines = [[int(x) for x in line.split()] for line in out.splitlines()]
    return {(a, size): (swapped, kept) for (a, swapped, kept), size in zip(lines, SIZES)}


def by_hand():
    """20 rounds, twice: one of three succeeds."""
    return [(40, 80)] * 2


def counted(wanted, instructions):
    """instructions: each a list of (r | w, address, size); those of another shape read or write the variable alone."""
    have = {key: [0, 0] for key in wanted}
    for operands in instructions:
        for key in wanted:
            mine = [kind for kind, a, size in operands if (a, size) == key]
            if mine:
                have[key][0 if "w" in mine else 1] += 1
    return {key: tuple(v) for key, v in have.items()}


def build(w, words):
    program = w.compile("cas_pair.c", "-O1", "-pthread")
    same("as the program counts natively", sorted(told(w.native(program, *words).stdout).values()), by_hand())
    return program


def check(w, words):
    program = build(w, words)
    wanted = told(w.run("insn", "insn.out", program, *words))
    insns, executions = insn_log(w.path("insn.out"))
    same("insn mode", counted(wanted, [o for ip, o in executions.values() if "cmpxchg" in insns[ip][0]]), wanted)

    wanted = told(w.run("atomic", "atomic.out", program, *words))
    lines = [accesses(text) for _, _, text in atomic_lines(w.path("atomic.out")) if text[0] == "m"]
    have = counted(wanted, lines)
    for (a, size), (swapped, kept) in wanted.items():  # the program reads the words of 8 bytes by themselves, too
        same(f"atomic mode: swaps of {size} bytes", have[a, size][0], swapped)
        holds(f"atomic mode: {have[a, size][1]} reads of {size} bytes", have[a, size][1] >= kept)
    same("atomic mode: swaps of 16 bytes that failed", [have[k][1] for k in have if k[1] == 16], [80])

    wanted = told(w.run("mat", "mat.out", program, *words, all=1))
    have = collections.Counter()
    with open(w.path("mat.out"), encoding="utf-8") as f:
        for line in f:
            t = line.split()
            if len(t) == 7:
                have[int(t[1]), int(t[5]), t[4]] += 1
    for (a, size), (swapped, _) in wanted.items():
        same(f"mat mode: writes of {size} bytes", have[a, size, "2"], swapped)
    reads = [n for (a, size, kind), n in have.items() if (a, size) in wanted and size == 16 and kind == "1"]
    same("mat mode: reads of 16 bytes", reads, [120])


@case("cas.pair_alone")
def alone(w):
    check(w, [])


@case("cas.pair_threads")
def with_threads(w):
    check(w, ["threads"])


@case("cas.turns", whole=True)
def turns(w):
    """Threads that contend do so in the trace, whatever the turns: swaps fail as often as the program counts. How often
    they do is left to the machine."""
    program = w.compile("inc.c", "-O1", "-pthread")
    failures, rounds = {}, 200000 if w.long else 60000
    for turn in (None, 16, 16384):
        out = w.run("atomic", "turns.out", program, "4", str(rounds), **({"turn": turn} if turn else {}))
        rows = [[int(x) for x in line.split()] for line in out.splitlines()]
        counter, word = rows[0]
        failures[turn] = sum(r[3] for r in rows[1:])
        lines = [(thread, accesses(words)) for _, thread, words in atomic_lines(w.path("turns.out")) if words[0] == "m"]
        same(f"turn {turn}: additions", sum(("w", counter, 8) in a for _, a in lines), rounds)
        # Each round loads the word, and swaps it or not.
        reads = sum(a == [("r", word, 8)] for _, a in lines)
        same(f"turn {turn}: failed swaps in the trace", reads - rounds, failures[turn])
