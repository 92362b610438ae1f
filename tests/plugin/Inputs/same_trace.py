"""same_trace.py ONE TWO: both folders hold the same raw traces, addresses apart (as distances from the smallest), and
companions with the same sites. Prints what they hold."""
import json
import os
import struct
import sys


def read(folder):
    traces = {}
    for name in sorted(f for f in os.listdir(folder) if not f.endswith(".meta")):
        data = open(os.path.join(folder, name), "rb").read()
        at, kernels = 1, []
        while at < len(data):
            end = data.index(b"\n", at)
            kernel, records, at = data[at:end].decode(), [], end + 1
            while True:
                words = struct.unpack_from("<3Q", data, at)
                at += 24
                if words == (0, 0, 0):
                    break
                records.append(words)
            low = min((r[1] for r in records), default=0)
            kernels.append((kernel, [(a, b - low, c) for a, b, c in records]))
        sites = []
        for line in open(os.path.join(folder, name + ".meta")):
            event = json.loads(line)
            if event["ev"] == "site":
                event.pop("id")
                event["file"] = os.path.basename(event["file"])
                sites.append(sorted(event.items()))
        traces[name] = kernels, sorted(sites)
    return traces


one, two = read(sys.argv[1]), read(sys.argv[2])
if not one:
    sys.exit("no traces")
for name in sorted(set(one) | set(two)):
    equal = one.get(name) == two.get(name)
    kernels, sites = one.get(name, ([], []))
    count = sum(len(records) for _, records in kernels)
    print(f"{name}: {len(kernels)} kernels, {count} records, {len(sites)} sites: {'equal' if equal else 'different'}")
    if not equal:
        print([k for k, _ in kernels], [k for k, _ in two.get(name, ([], []))[0]])
        print(sites, two.get(name, ([], []))[1], sep="\n")
