"""The annotation library: every function is in the dynamic symbol table; calls stay calls with link-time optimisation; no two functions
are the same code."""
import os
import re

from harness import BUILD, SOURCE, call, case

NAMES = {"mt_register_thread", "mt_start_roi", "mt_end_roi", "atomic_trace::register_thread(long)",
         "atomic_trace::start_roi()", "atomic_trace::end_roi()", "atomic_trace::special_malloc(unsigned long)",
         "atomic_trace::special_free(void*)"}


def run(*command):
    return call(command).stdout


@case
def functions(world):
    shared, static = (os.path.join(BUILD, "lib", "libmemtrace-annotation" + end) for end in (".so", ".a"))
    table = [x.split(None, 2) for x in run("nm", "-D", "-C", "--defined-only", shared).splitlines()]
    found = {x[2] for x in table}
    assert found == NAMES, found ^ NAMES
    source, program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.cpp"), world.path("program")
    for words in ([shared, "-Wl,-rpath," + os.path.dirname(shared)], [static], [static, "-flto", "-Wl,--gc-sections"]):
        run("c++", "-O3", "-I" + os.path.join(SOURCE, "include"), source, *words, "-o", program)
        run(program)
        calls = set(re.findall(r"call\s+[0-9a-f]+ <([^@>]+)", run("objdump", "-dC", "--no-show-raw-insn", program)))
        missing = {n for n in NAMES if n.split("(")[0] not in {c.split("(")[0] for c in calls}}
        assert not missing, (words, missing)
    listing = run("objdump", "-d", "--no-addresses", "--no-show-raw-insn", static)
    code = [x.split(">:", 1)[1].split("ret")[0] for x in re.split(r"\n(?=<)", listing) if ">:" in x]
    assert len(code) == len(NAMES) and len(set(code)) == len(code), code
