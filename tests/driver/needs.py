#!/usr/bin/env python3
"""Which functions answer CUDA_ERROR_INVALID_CONTEXT where no context is current: needs.py BUILD INCLUDE

Those whose comment in cuda.h names this error, and no others: all are called, each in a process of its own, with zeros."""
import ctypes
import os
import re
import sys

INVALID_CONTEXT, NOT_SUPPORTED = 201, 801
ZEROS = (ctypes.c_void_p(0),) * 24
# What finds devices, contexts and pointers has the error for a context that is given, and here none is or is asked for.
NEVER = re.compile(r"cuDevice(?!PrimaryCtxRelease)|cuCtx(Create|SetCurrent|GetId|GetApiVersion)|cuPointer")
# Of the current context; the comments do not say it.
ALWAYS = {"cuCtxGetLimit", "cuCtxGetStreamPriorityRange", "cuCtxResetPersistingL2Cache"}


def comments(path):
    """(function, its comment), line by line."""
    comment, inside = [], False
    with open(path, encoding="utf-8") as f:
        for line in f:
            found = re.match(r"CUresult CUDAAPI (cu\w+)\(", line)
            if line.startswith("/**"):
                comment, inside = [], True
            elif inside:
                comment.append(line)
                inside = "*/" not in line
            elif found:
                yield found[1], "".join(comment)
                comment = []


def wanted(include):
    """function -> does it answer so? Of the current version of each function."""
    found = {}
    for name, comment in comments(os.path.join(include, "cuda.h")):
        errors = re.search(r"\\returns?\b(.*?)(\\note|\\sa|$)", comment, re.S)
        if errors and "CUDA_ERROR" in errors[1]:
            found[name] = name in ALWAYS or not NEVER.match(name) and "::CUDA_ERROR_INVALID_CONTEXT" in errors[1]
    return found


def newest(driver, name):
    names = [n for n in (f"{name}_v4", f"{name}_v3", f"{name}_v2", name) if hasattr(driver, n)]
    return getattr(driver, names[0])


def answer(driver, name):
    """Its result; less than 0: it ended the process."""
    out, to = os.pipe()
    child = os.fork()
    if not child:
        driver.cuInit(0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(to, str(newest(driver, name)(*ZEROS)).encode())
        os._exit(0)
    os.close(to)
    with open(out, encoding="ascii") as f:
        text = f.read()
    os.waitpid(child, 0)
    return int(text or "-1")


def main():
    os.environ["MEMTRACE_DEVICE"], os.environ["MEMTRACE_ENABLE"] = "cpu", "0"
    driver = ctypes.CDLL(os.path.join(sys.argv[1], "lib", "libmemtrace.so"))
    want = wanted(sys.argv[2])
    got = {name: answer(driver, name) for name in want}
    here = [name for name in want if got[name] != NOT_SUPPORTED]
    wrong = [f"{name}: {got[name]}" for name in here if (got[name] == INVALID_CONTEXT) != want[name] or got[name] < 0]
    print(len(here), "functions,", sum(want[name] for name in here), "need a context; wrong:", ", ".join(wrong) or "none")
    return len(here) < 200 or bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
