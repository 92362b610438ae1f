"""Host traces for tests: accesses in dictionaries, and the script of gen_host that writes them as a container.

An access: seq, thread, place ("file:line" or None), op, addr, size; in traces with times also time. Each thread's
accesses ascend by seq and time.
"""
import json
import subprocess

READS = ("load", "atomic", "cas", "cas-failed")
WRITES = ("store", "atomic", "cas")


class Sites:
    """Site numbers: one instruction (four numbers) for each place, operation and size."""

    def __init__(self):
        self.known, self.lines = {}, []

    def of(self, access, sized):
        key = (access["place"], access["op"], access["size"] if sized else 0, access.get("strong", False))
        if key not in self.known:
            site = self.known[key] = 4 * (len(self.known) + 1)
            file, _, line = (access["place"] or ":0").rpartition(":")
            self.lines.append({"ev": "site", "id": site, "op": access["op"], "size": key[2], "file": file,
                               "line": int(line), "column": 1, **({"strong": True} if key[3] else {})})
        return self.known[key]


def script(accesses, events=(), header=None, end=None, chunk=lambda: False, sized=lambda: False, ends=None, begins=None):
    """`chunk()` true: a new chunk begins before this access; `sized()`: the site knows the size;
    `ends`, `begins`: {thread: time of its end, its start}."""
    sites, body = Sites(), []
    threads = sorted({a["thread"] for a in accesses})
    for t in threads:
        now = None
        if begins and t in begins:
            now = next(x["seq"] for x in accesses if x["thread"] == t)
            body += ["T %d %d" % (t, now), "C %d" % begins[t], "E 1 %d" % t]
        for a in (x for x in accesses if x["thread"] == t):
            if now is None or chunk():
                body.append("T %d %d" % (t, a["seq"] if now is None else now))
                now = a["seq"] if now is None else now
            if a["seq"] != now:
                body.append("S %d" % a["seq"])
                now = a["seq"]
            if "time" in a:
                body.append("C %d" % a["time"])
            known = sized()
            body.append("A %d %d %d" % (sites.of(a, known), a["addr"], 0 if known else a["size"]))
        if ends and t in ends:
            body += ["C %d" % ends[t], "E 2"]
    meta = [dict({"ev": "header", "version": 1, "pid": 1, "start_ns": 99, "mode": "mat"}, **(header or {}))]
    meta += sites.lines + [{"ev": "thread", "number": t, "native": 100 + t} for t in threads] + list(events)
    counted = {"records_written": len(accesses), "records_counted": len(accesses), "complete": True}
    tail = [dict({"ev": "end"}, **(counted if end is None else end))] if end is not False else []
    lines = ["M " + json.dumps(m) for m in meta]
    return "\n".join(lines + body + ["M " + json.dumps(m) for m in tail]) + "\n"


def write(gen_host, path, text, level=1, timed=False):
    subprocess.run([gen_host, path, str(level), *(["timed"] if timed else [])], input=text.encode(), check=True)
