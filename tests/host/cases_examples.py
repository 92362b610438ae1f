"""The examples' figures."""
import os
import subprocess
import sys

from harness import case, holds, same
from world import ENGINES


def example(w, name):
    return os.path.join(w.source, "examples", name, name + ".c")


@case("examples.strides", *ENGINES)
def strides(w):
    n, rows, columns = 5000, 200, 150
    program = w.compile(example(w, "host_strides"), "-O1")
    result = w.host("mat", "--", program, n, rows, columns)
    graph = w.graph(result.trace)
    sizes = {b["id"]: b["size"] for b in graph["buffers"]}
    got = {(sizes.get(v["buffer"]), v["stride"]): v["count"] for v in graph["nodes"] if v["type"] == "read"}
    matrix = 8 * rows * columns
    for key, count in {(40 * n, 40): n - 1, (8 * n, 8): n - 1, (matrix, 8): rows * columns - 1,
                       (matrix, 8 * columns): columns * (rows - 1), (matrix, 8 - 8 * columns * (rows - 1)): columns - 1,
                       (matrix, 8 - matrix): 1}.items():
        same(f"reads of the buffer of {key[0]} bytes in strides of {key[1]}", got.get(key), count)


@case("examples.tickets", *ENGINES)
def tickets(w):
    program = w.compile(example(w, "host_tickets"), "-O1", atomic=True)
    pipe, merged = w.path("pipe"), w.path("merged")
    os.mkfifo(pipe)
    merge = subprocess.Popen(["sh", "-c", f"exec '{w.tool('mt-convert')}' --order=time < '{pipe}' > '{merged}'"])
    try:
        result = w.host("atomic", "--", program, 4, 2000, trace=pipe)
        same("exit code of mt-convert", merge.wait(300), 0)
    finally:
        merge.kill()
        merge.wait()
    counter = result.out.split()[1]
    with open(merged, encoding="ascii") as f:
        replay = w.call([sys.executable, "-B", os.path.join(os.path.dirname(example(w, "host_tickets")), "replay.py"),
                         counter, "2000"], stdin=f)
    same("sums", replay.stdout, result.out)
    holds(f"several threads drew: {result.out}", result.out.splitlines()[1:].count("0") < 3)
