"""Replays a merged atomic trace (standard input, no timestamps) of inc or cas and says what the program must
have printed. Knows only the trace: where the counter lies, which thread is which, and the order of accesses."""
import argparse
import collections
import sys


class Replay:
    def __init__(self, failed_writes):
        self.failed_writes = failed_writes  # -c 1: failed compare-and-swaps are in the trace as writes
        self.address = self.threads = self.total = None
        self.number = {}  # thread in the trace -> thread of the program
        self.value = 0
        self.changes = 0
        self.count = collections.Counter()
        self.even = collections.Counter()
        self.reads = collections.Counter()  # of the counter alone, without a write
        self.problems = []

    def problem(self, line, text):
        if len(self.problems) < 20:
            self.problems.append(f"line {line}: {text}")

    def access(self, line, thread, field):
        part = {}
        i = 1
        while i < len(field):
            n = 1 if field[i] == "r2" else 2
            part[field[i]] = [int(x) for x in field[i + 1:i + 1 + n]]
            i += 1 + n
        if "r2" in part:
            part["r2"].append(part["r"][1])
        touched = [k for k, (at, size) in part.items() if at < self.address + 8 and at + size > self.address]
        if not touched:
            return
        if any(part[k] != [self.address, 8] for k in touched):
            return self.problem(line, f"the counter is touched partly: {field}")
        if "w" not in touched:
            self.reads[thread] += len(touched)
            return
        if "r" not in touched and "r2" not in touched:
            return self.problem(line, f"a write to the counter that is no increment: {field}")
        self.even[thread] += self.value % 2 == 0
        self.count[thread] += 1
        self.value += 1

    def call(self, field):
        name, args = field[1], [int(x) for x in field[3:]]
        if name == "share_start":
            self.address, self.threads, self.total = args

    def feed(self, lines):
        for line, text in enumerate(lines, 1):
            field = text.rstrip("\n").split("\t")
            thread, kind = field[0], field[1]
            if kind == "m":
                if self.address is not None:
                    self.access(line, thread, field[1:])
            elif kind == "fc" and field[2] == "share_thread":
                self.number[thread] = int(field[4])
            elif kind == "fc":
                self.call(field[1:])
            elif kind == "fr" and field[2] == "share_finish" and int(field[4]) != self.total:
                self.problem(line, f"the program counted {field[4]}")
            elif kind == "ctxt_change":
                self.changes += 1

    def report(self, with_fails):
        """The lines that the program printed."""
        if self.address is None:
            return ["no call of share_start in the trace: was it run with -f inc_functions.txt?"]
        if self.value != self.total and not self.failed_writes:
            self.problems.append(f"{self.value} increments in the trace, {self.total} in the program")
        out = {}
        for thread in set(self.count) | set(self.number):
            if thread not in self.number:
                self.problems.append(f"thread {thread} of the trace increments, but is none of the program's")
                continue
            # Each increment begins with one plain load; what else was only read is a swap that failed.
            fails = self.reads[thread] - self.count[thread]
            cells = [self.count[thread], self.even[thread]] + ([fails] if with_fails else [])
            if self.failed_writes:  # then only the number of swaps is known: 1 load each increment
                cells = [self.reads[thread], self.count[thread] - self.reads[thread]]
            out[self.number[thread]] = cells
        return [f"thread {n}\t" + "\t".join(map(str, out[n])) for n in sorted(out)]


def main(with_fails):
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--expect", metavar="FILE", help="what the program printed; a difference is exit 1")
    if with_fails:
        parser.add_argument("--failed-writes", action="store_true", help="the trace was made with -c 1")
    args = parser.parse_args()
    replay = Replay(with_fails and args.failed_writes)
    replay.feed(sys.stdin)
    got = replay.report(with_fails)
    print("\n".join(got))
    if replay.changes:
        print(f"{replay.changes} context changes in the trace", file=sys.stderr)
    if args.expect:
        with open(args.expect) as f:
            want = [x.rstrip("\n") for x in f if x.startswith("thread ")]
        if replay.failed_writes:  # count and fails
            want = ["\t".join([c[0], c[1], c[3]]) for c in (x.split("\t") for x in want)]
        for g, w in zip(got + ["(nothing)"] * len(want), want + ["(nothing)"] * max(0, len(got) - len(want))):
            if g != w:
                replay.problems.append(f"trace: {g!r}  program: {w!r}")
        if not want:
            replay.problems.append(f"{args.expect} has no 'thread' line")
    for text in replay.problems:
        print(text, file=sys.stderr)
    return 1 if replay.problems else 0
