"""Threads, functions, signals, fork, exec and death."""
import collections
import signal

from harness import Skipped, case, holds, same, size, until
from world import accesses, atomic_lines, meta


def simulate(path, out):
    """What a simulator makes of the order in the trace, beside what the program counted."""
    lines = out.splitlines()
    counter, word = map(int, lines[0].split())
    want = sorted(tuple(map(int, l.split())) for l in lines[1:])
    have = collections.defaultdict(lambda: [0, 0, 0, 0])
    value, times = 0, collections.Counter()
    for time_, thread, words in atomic_lines(path):
        if words[0] != "m":
            continue
        for a in [accesses(words)]:
            kinds = {k for k, at, _ in a if at == counter}
            if kinds:
                times[time_] += 1
            if kinds == {"r", "w"}:
                have[thread][0] += 1
                have[thread][1] += value % 2 == 0
                value += 1
            kinds = {k for k, at, _ in a if at == word}
            if kinds:
                have[thread][2 if "w" in kinds else 3] += 1
    # Each round loads the word once on its own, too.
    mine = sorted((adds, even, swaps, reads - adds) for adds, even, swaps, reads in have.values() if adds)
    return mine == want and max(times.values()) == 1


@case("atomic.increments")
def increments(w):
    program = w.compile("inc.c", "-O1", "-pthread")
    for k in range(5):
        out = w.run("atomic", "atomic.out", program, "4", "40000")
        holds(f"run {k}: the trace's order gives other counts", simulate(w.path("atomic.out"), out))


@case("atomic.unlocked")
def unlocked(w):
    """The check can fail: without locks it does, sooner or later."""
    program = w.compile("inc.c", "-O1", "-pthread")
    for _ in range(20):
        out = w.run("atomic", "atomic.out", program, "4", "100000", test=1)
        if not simulate(w.path("atomic.out"), out):
            return
    raise Skipped("20 runs without locks were right: the threads never met")


@case("atomic.many")
def many(w):
    program = w.compile("inc.c", "-O1", "-pthread")
    out = w.run("atomic", "atomic.out", program, "64", "32000")
    holds("64 threads: the trace's order gives other counts", simulate(w.path("atomic.out"), out))


@case("functions")
def functions(w):
    program = w.compile("functions.c", "-O2", "-fno-inline", "-fno-ipa-cp", "-fno-ipa-ra", "-fno-ipa-sra")
    with open(w.path("list"), "w", encoding="utf-8") as f:
        f.write("factorial\nsum3\nhand_on\nleaves\n")
    w.run("atomic", "atomic.out", program, functions=w.path("list"))
    calls = [words for _, _, words in atomic_lines(w.path("atomic.out")) if words[0] in ("fc", "fr")]
    depth, have = [], []
    for words in calls:
        if words[0] == "fc":
            depth.append((words[1], words[2]))
            have.append(("fc", words[1], *map(int, words[3:6])))
        else:
            have.append(("fr", words[1], int(words[3])))
            while depth and depth[-1] != (words[1], words[2]):
                depth.pop()
            holds(f"return of {words[1]} goes with a call by its stack pointer", bool(depth))
            depth.pop()
    names = [h[:3] if h[1] in ("factorial", "leaves") else h for h in have]
    want = [("fc", "factorial", n) for n in (4, 3, 2, 1)] + [("fr", "factorial", r) for r in (1, 2, 6, 24)]
    want += [("fc", "sum3", 1, 2, 3), ("fr", "sum3", 6), ("fc", "hand_on", 10, 20, 30), ("fc", "sum3", 20, 30, 10),
             ("fr", "sum3", 60), ("fr", "hand_on", 60)]
    same("calls", names[:len(want)], want)
    rest = names[len(want):]
    same("no return of what longjmp left", [r for r in rest if r[:2] == ("fr", "leaves")], [])
    same("calls of it", collections.Counter(r[2] for r in rest if r[:2] == ("fc", "leaves")),
         collections.Counter({2: 3, 1: 3, 0: 3}))
    same("the last call", rest[-2:], [("fc", "sum3", 7, 8, 9), ("fr", "sum3", 24)])


def wait_for(p, text):
    line = p.stdout.readline()
    same("the program's first line", line.strip(), text)


def records(path):
    with open(path, encoding="utf-8") as f:
        return sum(1 for line in f if len(line.split()) == 7)


@case("signals.switch")
def switch(w):
    program = w.compile("switched.c", "-O1")
    p = w.start("mat", "mat.out", [program], signal="on")
    wait_for(p, "ready")
    p.send_signal(signal.SIGUSR1)
    until("records while on", lambda: size(w.path("mat.out")) > 100000, p)
    p.send_signal(signal.SIGUSR2)
    _, err = p.communicate("\n", timeout=300)
    same(f"exit code {err}", p.returncode, 0)
    on = records(w.path("mat.out"))
    holds(f"{on} records while on", on > 1000)
    p = w.start("mat", "mat.out", [program], signal="on")
    wait_for(p, "ready")
    p.communicate("\n", timeout=300)
    same("records while off", records(w.path("mat.out")), 0)


def blocks(lines):
    return sorted(l["bytes"] for l in lines if l["ev"] == "alloc" and l["file"].endswith("lives.c") and l["kind"] == "malloc")


def live(w, how, code=0, **options):
    program = w.compile("lives.c", "-g", "-O1", "-pthread")
    out = w.run("mat", "lives.mtc", program, how, code=code, level=0, **options)
    lines = meta(w.path("lives.mtc"))
    same("last line", lines[-1]["ev"], "end")
    return out, lines, lines[-1]


@case("lives.fork")
def fork(w):
    out, lines, end = live(w, "fork")
    same("output", out, "5\n")
    same("blocks of the parent", blocks(lines), [123, 321])
    same("complete", end["complete"], True)


@case("lives.exec")
def exec_(w):
    out, lines, _ = live(w, "exec")
    same("output", out, "other\n")
    same("blocks", blocks(lines), [123])
    _, lines, _ = live(w, "noexec")
    same("blocks after an exec that failed", blocks(lines), [123, 321])


@case("lives.threads")
def threads(w):
    _, lines, end = live(w, "thread")
    same("blocks", blocks(lines), [123] + [321] * 20)
    same("threads", len([l for l in lines if l["ev"] == "thread"]), 21)
    _, lines, end = live(w, "exit_thread")
    same("blocks", blocks(lines), [123, 321])
    same("complete", end["complete"], True)


@case("lives.death")
def death(w):
    for how, number in (("segv", signal.SIGSEGV), ("term", signal.SIGTERM), ("abort", signal.SIGABRT)):
        _, lines, end = live(w, how, code=-number)
        same(f"{how}: blocks", blocks(lines), [123])
        same(f"{how}: killed, complete", (end["killed"], end["complete"]), (True, False))


@case("lives.killed")
def killed(w):
    """From outside, twice at once, while four threads run."""
    program = w.compile("inc.c", "-O1", "-pthread")
    for mode in ("atomic", "mat"):
        trace = f"killed-{mode}.mtc"
        p = w.start(mode, trace, [program, "4", "400000000"], level=0)
        until("accesses", lambda: size(w.path(trace)) >= 100000, p)  # all of them at work, however busy the machine is
        p.send_signal(signal.SIGINT)
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=300)
        same(f"{mode}: exit code", p.returncode, -signal.SIGINT)
        end = meta(w.path(trace))[-1]
        same(f"{mode}: last line", (end["ev"], end.get("killed"), end.get("complete")), ("end", True, False))


@case("lives.handlers")
def handlers(w):
    """A program with a handler of SIGUSR1 of its own still gets it; SIGUSR2 without one does not kill."""
    out, _, end = live(w, "handlers", signal=1)
    same("output", out, "1\n")
    same("complete", end["complete"], True)


@case("lives.refusals")
def refusals(w):
    for given, words in (({"mode": None}, "mode=mat"), ({"treshold": 5}, "treshold"), ({"threshold": "x"}, "threshold")):
        mode = given.pop("mode", "mat")
        p = w.start("mat" if mode else "no", "t.out", ["/bin/true"], **given)
        _, err = p.communicate(timeout=300)
        holds(f"refused with {given}: {p.returncode} {err}", p.returncode != 0 and (words in err or mode is None))
