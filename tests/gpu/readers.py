#!/usr/bin/env python3
"""readers.py FEED DUMP: what several readers make of rings. The packets of each launch are all there, and those of each CTA in the
order in which they were in their ring, whatever launches there are beside it; with one reader, those of all CTAs, which took turns. feed.c says
what each packet has."""
import collections
import os
import re
import subprocess
import sys
import tempfile

SLOTS, RINGS, CTAS = 1024, 32, 8
FIRST_LANE = re.compile(rb"(load|store) 4 0x([0-9a-f]*[08]0|0) cta (\d+),0,0 sm (\d+)")


def wrong(words, launch, packets):
    """Lines of first lanes of one launch; packets: {CTA: how many have come}."""
    kind, address, cta, sm = words
    j, cta = packets[cta], int(cta)
    packets[words[2]] += 1
    expected = (b"store" if (j + 1) % 3 == 0 else b"load", cta << 24 | j << 7, cta % RINGS)
    found = (kind, int(address, 16), int(sm))
    return "" if found == expected else f"launch {launch}, CTA {cta}, packet {j}: {found}, expected {expected}"


def check(feed, dump, readers, launches):
    with tempfile.TemporaryDirectory() as folder:
        more = {"MEMTRACE_GPU_READERS": str(readers), "MEMTRACE_FORMAT": "compact", "MEMTRACE_DIR": folder}
        subprocess.run([feed, str(SLOTS), str(launches)], check=True, stdout=subprocess.DEVNULL, env=os.environ | more)
        text = subprocess.run([dump, os.path.join(folder, "MemTrace-pipe-0.mtc")], check=True, capture_output=True).stdout
    parts = text.split(b"launch ")[1:]
    total, lanes = 0, 0
    ctas = [int(words[2]) for words in FIRST_LANE.findall(text)]
    if (readers, launches) == (1, 1) and ctas != [i % (RINGS * CTAS) for i in range(len(ctas))]:
        return "CTAs did not keep their order"
    for number, part in enumerate(parts):
        packets = collections.Counter()
        lanes += part.count(b" cta ")
        for words in FIRST_LANE.findall(part):
            why = wrong(words, number, packets)
            if why:
                return why
        total += sum(packets.values())
    found, expected = (len(parts), total, lanes), (launches, SLOTS * RINGS, 32 * SLOTS * RINGS)
    return "" if found == expected else f"launches, packets, accesses: {found}, expected {expected}"


def main():
    failed = 0
    for readers, launches in ((1, 1), (1, 3), (2, 1), (3, 4), (32, 64)):
        why = check(*sys.argv[1:], readers, launches)
        print(f"{readers} readers, {launches} launches: {why or 'right'}", flush=True)
        failed |= bool(why)
    return failed


if __name__ == "__main__":
    sys.exit(main())
