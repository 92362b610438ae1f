"""Atomic mode while one thread is alone, which takes no locks then: the trace's order is what the program saw."""
from harness import Failed, case, same


def traced(w, what, rounds, level="-O2"):
    """What the program printed, and the accesses by time."""
    r = w.run(w.compile("alone.c", level, host="--host=atomic"), what, str(rounds), words="atomic")
    complete, lost = w.end(r.trace)
    same(f"{what}: complete, lost", (complete, lost, r.stderr), (True, 0, ""))
    return r.stdout.split(), w.accesses(r.trace, "time")


def flags(w, what, rounds):
    """Main's loads of a flag in front of the thread's store are those that found it down, by its own count."""
    words, accesses = traced(w, what, rounds)
    flag, down = int(words[0], 16), [int(x) for x in words[2:]]
    for i in range(rounds):
        ops = [a.op for a in accesses if a.address == flag + 4 * i]
        same(f"{what}, round {i}: loads before and after the store", (ops.index("store"), ops.count("load")),
             (down[i], down[i] + 1))
    same("threads", len({a.thread for a in accesses}), rounds + 1)


@case
def alone_until_a_thread(w):
    for _ in range(2):
        flags(w, "create", 60)


@case
def alone_until_a_timer(w):
    """Threads of which no call of the program tells."""
    flags(w, "timer", 40)


@case
def alone_signals(w):
    """Each of the handler's loads sees as many of main's stores as are in front of it."""
    words, accesses = traced(w, "signals", 200)
    counter, ticks, total = int(words[0], 16), int(words[1]), int(words[2])
    seen, loads, value, wrong = [int(x) for x in words[3:]], 0, 0, 0
    for a in (a for a in accesses if a.address == counter):
        if a.op == "store":
            value += 1
        elif a.function == "alone_tick":
            wrong += seen[loads] != value
            loads += 1
    same("stores, loads of the handler, loads out of order", (value, loads, wrong), (total, ticks, 0))


@case
def alone_faults(w):
    """A store that faults is one access if it is made after all, behind the handler's, and none if it is not."""
    words, accesses = traced(w, "faults", 40)
    page, counter, ticks = (int(x, 16) for x in words)
    stores = [(a.op, a.address) for a in accesses if page <= a.address < page + 4096]
    same("stores that were made", stores, [("store", page + i) for i in range(1, 40, 2)])
    same("stores behind them", sum(a.op == "store" and a.address == counter for a in accesses), 40)
    places = [a.address for a in accesses if a.op == "store" and (a.address == ticks or page <= a.address < page + 4096)]
    same("handler, then store", [x == ticks for x in places], [True, True, False] * 20)


@case
def alone_forks(w):
    words, accesses = traced(w, "fork", 20)
    counter = int(words[0], 16)
    same("children that computed something else", words[1], "0")
    same("the parent's stores", sum(a.op == "store" and a.address == counter for a in accesses), 20)


@case
def alone_mat(w):
    """A build for atomic in mat mode, and one that is not traced, append, too."""
    program = w.compile("alone.c", "-O1", host="--host=atomic")
    r = w.run(program, "fork", "20", words="mat")
    counter = int(r.stdout.split()[0], 16)
    same("stores", sum(a.op == "store" and a.address == counter for a in w.accesses(r.trace)), 20)
    out = w.command([program, "signals", "20"], {"MEMTRACE_HOST": "off"}).stdout.split()
    if int(out[2]) < int(out[1]):
        raise Failed(f"not traced: {out[:3]}")
