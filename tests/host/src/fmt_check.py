#!/usr/bin/env python3
"""Accepts an atomic text trace (standard input) or says in which line it is not one: exit 1.

Written from the description of the format, not from a tracer. Checks every line's form, and over lines: times of
a thread never go back; tr comes before a thread's lines and tf after; a return matches a call of the same thread,
function and stack pointer; start_roi and end_roi alternate."""
import argparse
import collections
import re
import sys

N = r"(0|[1-9][0-9]{0,19})"
FORMS = {
    "m": re.compile(rf"\tr\t{N}\t{N}(?:\tr2\t{N})?(?:\tw\t{N}\t{N})?|\tw\t{N}\t{N}"),
    "fc": re.compile(rf"\t([^\t]+)\t{N}\t{N}\t{N}\t{N}"),
    "fr": re.compile(rf"\t([^\t]+)\t{N}\t{N}"),
    **{k: re.compile("") for k in ("tr", "tf", "start_roi", "end_roi", "ctxt_change", "thread_sync")},
}
HEAD = re.compile(rf"(?:{N}\t)?(-1|{N})\t([a-z_]+)(.*)", re.S)


class Bad(Exception):
    pass


class Check:
    def __init__(self, merged):
        self.merged = merged
        self.time = {}
        self.live = set()
        self.open = collections.Counter()
        self.roi = None
        self.kinds = collections.Counter()

    def form(self, text):
        if not text.endswith("\n"):
            raise Bad("no LF at the end")
        m = HEAD.fullmatch(text[:-1])
        if not m or (m[1] is None) != self.merged or m[4] not in FORMS:
            raise Bad("not 'timestamp TAB thread TAB event'" if not self.merged else "not 'thread TAB event'")
        rest = FORMS[m[4]].fullmatch(m[5])
        if not rest:
            raise Bad(f"wrong fields for {m[4]}")
        words = [x for x in rest.groups() if x is not None]
        numbers = [int(x) for x in words if x.isdigit()]
        if any(x >= 1 << 64 for x in numbers):
            raise Bad("a number of more than 64 bits")
        return m[1], int(m[2]), m[4], words

    def order(self, time, thread, kind, words):
        if time is not None and thread >= 0:
            if int(time) < self.time.get(thread, 0):
                raise Bad(f"thread {thread} goes back from {self.time[thread]}")
            self.time[thread] = int(time)
        if kind == "tr":
            if thread in self.live:
                raise Bad(f"thread {thread} was introduced before and has not ended")
            self.live.add(thread)
        elif thread >= 0 and thread not in self.live:
            raise Bad(f"thread {thread} was not introduced, or has ended")
        if thread < 0 and kind in ("m", "tr", "tf", "thread_sync"):
            raise Bad(f"{kind} without a thread")
        if kind == "tf":
            self.live.discard(thread)
        if kind == "thread_sync" and self.merged:
            raise Bad("thread_sync in a merged trace")
        if kind in ("start_roi", "end_roi"):
            if kind == self.roi or (self.roi is None and kind == "end_roi"):
                raise Bad(f"{kind} twice")
            self.roi = kind

    def call(self, thread, kind, words):
        if kind == "fc":
            self.open[thread, words[0], words[1]] += 1
        elif kind == "fr":
            key = thread, words[0], words[1]
            if self.open[key] == 0 and thread >= 0:
                raise Bad(f"a return of {words[0]} without a call at that stack pointer")
            self.open[key] -= 1

    def size(self, kind, text):
        if kind == "m" and re.search(r"\t(?:r|w)\t[0-9]+\t0(?:\t|\n)", text):
            raise Bad("an access of 0 bytes")

    def line(self, text, pairs):
        time, thread, kind, words = self.form(text)
        self.kinds[kind] += 1
        self.size(kind, text)
        self.order(time, thread, kind, words)
        if pairs:
            self.call(thread, kind, words)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--merged", action="store_true", help="without timestamps, as mt-convert --order=time writes")
    parser.add_argument("--no-pairs", action="store_true", help="calls and returns need not match")
    parser.add_argument("--all-ended", action="store_true", help="every thread has its tf")
    args = parser.parse_args()
    check, bad = Check(args.merged), 0
    for number, text in enumerate(sys.stdin, 1):
        try:
            check.line(text, not args.no_pairs)
        except Bad as e:
            print(f"line {number}: {e}: {text!r}", file=sys.stderr)
            bad += 1
            if bad == 20:
                break
    if args.all_ended and check.live:
        print(f"threads without tf: {sorted(check.live)}", file=sys.stderr)
        bad += 1
    print(" ".join(f"{k}={n}" for k, n in sorted(check.kinds.items())))
    return 1 if bad or not check.kinds else 0


if __name__ == "__main__":
    sys.exit(main())
