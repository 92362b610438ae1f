"""Random atomic traces that keep the tracer's promises, and what GNU sort makes of them."""
import random
import subprocess


def lines(seed, threads, length, flush=8, lag=200, number=lambda i: i, text=None):
    """Yields lines as a tracer would write them: each thread's times grow, pieces of a few lines at a time;
    tr, tf and lines without a thread come after all threads were brought to the newest time."""
    rng = random.Random(seed)
    clock, waiting, live, unborn = {}, {}, [], list(range(threads))
    rng.shuffle(unborn)

    def flushed(t):
        out, waiting[t] = waiting[t], []
        return out

    def newest():
        return max(clock.values(), default=0)

    def level(time):
        for t in live:
            clock[t] = time

    clock[-1] = 0
    for _ in range(length):
        act = rng.random()
        if unborn and (not live or act < 0.02):
            t, time = unborn.pop(), newest() + 1
            live.append(t)
            waiting[t] = []
            level(time)
            yield from (f"{time}\t{number(t)}\ttr",)
        elif len(live) > 1 and act < 0.01:
            t = live[rng.randrange(len(live))]
            time = newest() + 1
            yield from flushed(t)
            level(time)
            live.remove(t)
            yield f"{time}\t{number(t)}\ttf"
        elif act < 0.03:
            time = newest() + 1
            level(time)
            clock[-1] = time
            yield f"{time}\t-1\t{rng.choice(['start_roi', 'fc' + chr(9) + 'f' + chr(9) + '1	2	3	4'])}"
        else:
            t = live[min(rng.randrange(len(live)), rng.randrange(len(live)))]  # some are slower
            clock[t] += rng.choice((1, 1, 1, 3))
            body = text(rng) if text else f"m\tr\t{rng.randrange(1 << 47)}\t{rng.choice((1, 4, 8))}"
            waiting[t].append(f"{clock[t]}\t{number(t)}\t{body}")
            if len(waiting[t]) >= rng.randrange(1, flush + 1):
                yield from flushed(t)
                for u in live:
                    if clock[t] - clock[u] > lag:
                        yield from flushed(u)
                        clock[u] = clock[t]
                        yield f"{clock[u]}\t{number(u)}\tthread_sync"
    for t in live:
        yield from flushed(t)


def sort(data, keep=False):
    """GNU sort's opinion of the bytes."""
    out = subprocess.run(["sort", "-s", "-t", "\t", "-k1,1n", "-k2,2n"], input=data, capture_output=True, check=True,
                         env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout
    rows = [r for r in out.split(b"\n")[:-1] if not r.endswith(b"\tthread_sync")]
    return b"".join((r if keep else r.split(b"\t", 1)[1]) + b"\n" for r in rows)
