#!/usr/bin/env python3
"""Reads a merged atomic trace of host_tickets and says what each thread must have added up.

usage: memtrace convert --order=time memory_trace.out | replay.py COUNTER TICKETS      (COUNTER: the address that the program printed)
"""
import collections
import sys


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    counter, tickets = sys.argv[1], int(sys.argv[2])
    sums, drawn = collections.Counter(), 0
    for line in sys.stdin:
        words = line.rstrip("\n").split("\t")  # thread m r ADDRESS SIZE w ADDRESS SIZE
        if words[1:4] == ["m", "r", counter] and words[5:7] == ["w", counter]:
            sums[words[0]] += drawn if drawn < tickets else 0
            drawn += 1
    print(f"counter {counter}")
    for total in sorted(sums.values()):
        print(total)


if __name__ == "__main__":
    main()
