#!/usr/bin/env python3
"""The annotation library: run.py --cxx G++ --include DIR --shared FILE --static FILE. Every function is in the dynamic
symbol table; calls stay calls with link-time optimisation; no two functions are the same code."""
import argparse
import os
import re
import subprocess
import tempfile

NAMES = {"mt_register_thread", "mt_start_roi", "mt_end_roi", "atomic_trace::register_thread(long)",
         "atomic_trace::start_roi()", "atomic_trace::end_roi()", "atomic_trace::special_malloc(unsigned long)",
         "atomic_trace::special_free(void*)"}


def run(*args):
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("cxx", "include", "shared", "static"):
        parser.add_argument("--" + name, required=True)
    a = parser.parse_args()
    table = [x.split(None, 2) for x in run("nm", "-D", "-C", "--defined-only", a.shared).splitlines()]
    found = {x[2] for x in table}
    assert found == NAMES, found ^ NAMES
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.cpp")
    with tempfile.TemporaryDirectory() as d:
        for words in ([a.shared, "-Wl,-rpath," + os.path.dirname(a.shared)], [a.static], [a.static, "-flto", "-Wl,--gc-sections"]):
            program = os.path.join(d, "program")
            run(a.cxx, "-O3", "-I" + a.include, source, *words, "-o", program)
            run(program)
            calls = set(re.findall(r"call\s+[0-9a-f]+ <([^@>]+)", run("objdump", "-dC", "--no-show-raw-insn", program)))
            missing = {n for n in NAMES if n.split("(")[0] not in {c.split("(")[0] for c in calls}}
            assert not missing, (words, missing)
    listing = run("objdump", "-d", "--no-addresses", "--no-show-raw-insn", a.static)
    code = [x.split(">:", 1)[1].split("ret")[0] for x in re.split(r"\n(?=<)", listing) if ">:" in x]
    assert len(code) == len(NAMES) and len(set(code)) == len(code), code


if __name__ == "__main__":
    main()
