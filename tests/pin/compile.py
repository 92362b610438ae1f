#!/usr/bin/env python3
"""Builds the Pin tool against a kit, as far as the kit goes: a whole kit gives mt-host.so, headers and makefiles
give objects. Then every symbol that the objects need must be one that the kit offers.
Without a kit only that the tool's C has all of its own functions.

compile.py SOURCE; the kit: $PIN_ROOT, else $PIN_HEADERS. Without either: skipped (77)."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

# What a glibc would offer, and the names by which its headers betray that they were used.
FOREIGN = re.compile(r"pthread_|__tls_get_addr|__errno_location|__isoc\d+_|_chk$|__stack_chk|atexit|__libc_|__ctype_b_loc")
COMPILER = {"_GLOBAL_OFFSET_TABLE_", "__dso_handle", "_DYNAMIC"}


def run(*args, **more):
    p = subprocess.run(args, capture_output=True, text=True, **more)
    if p.returncode != 0:
        sys.exit(f"{' '.join(args)[:300]}\n{p.stdout[-2000:]}{p.stderr[-4000:]}")
    return p.stdout


def flags(kit, language):
    """The kit's own, for kits of which only headers are there."""
    p = lambda *x: os.path.join(kit, *x)
    crt = p("extras/crt/include")
    f = ("-Wall -Werror -Wno-unknown-pragmas -DPIN_CRT=1 -fno-stack-protector -fno-exceptions -funwind-tables "
         "-fasynchronous-unwind-tables -DTARGET_IA32E -DHOST_IA32E -fPIC -DTARGET_LINUX -fabi-version=2 -O3 "
         "-fomit-frame-pointer -fno-strict-aliasing -fvisibility=hidden -c").split()
    f += ["-I" + p("source/include/pin"), "-I" + p("source/include/pin/gen"), "-I" + p("extras/components/include"),
          "-I" + p("extras/xed-intel64/include/xed")]
    f += sum((["-isystem", x] for x in ([p("extras/cxx/include")] if language == "c++" else []) +
              [crt, crt + "/arch-x86_64", crt + "/kernel/uapi", crt + "/kernel/uapi/asm-x86"]), [])
    return f + (["-fno-rtti", "-faligned-new"] if language == "c++" else ["-std=c11"])


def sources(source):
    """As the makefile has them."""
    host = os.path.join(source, "host")
    with open(os.path.join(host, "pin", "makefile.rules"), encoding="utf-8") as f:
        rules = f.read()
    names = [os.path.join(host, "pin", x) for x in sorted(os.listdir(os.path.join(host, "pin"))) if x.endswith(".cpp")]
    names += [os.path.join(host, "core", x) for x in sorted(os.listdir(os.path.join(host, "core"))) if x.endswith(".c")]
    names += [os.path.join(source, "format/container", x + ".c") for x in re.search(r"\(OBJ_SUFFIX\),([a-z_ ]+)\)", rules)[1].split()]
    return names + [os.path.join(source, room, x + ".c") for room, x in re.findall(r"\(OBJDIR\)(base|format)_(\w+)\$", rules)]


def without_kit(source, work):
    """The tool's C alone, natively: no function of ours is missing."""
    for i, name in enumerate(x for x in sources(source) if x.endswith(".c")):
        run("gcc", "-std=c11", "-c", "-DMT_CONTAINER_STORED", '-DMEMTRACE_VERSION="test"',
            *("-I" + os.path.join(source, x) for x in ("include", ".", "host/core")), name, "-o", os.path.join(work, f"{i}.o"))
    missing = sorted(x for x in undefined(source, work) if x.startswith("mt_"))
    if missing:
        sys.exit(f"host/pin/makefile.rules lacks the files that have {', '.join(missing)}")


def by_hand(kit, source, work):
    include = ["-I" + os.path.join(source, x) for x in ("include", ".", "host/core")]
    for i, name in enumerate(sources(source)):
        cpp = name.endswith(".cpp")
        run("g++" if cpp else "gcc", *flags(kit, "c++" if cpp else "c"), "-DMT_CONTAINER_STORED",
            '-DMEMTRACE_VERSION="test"', *include, name, "-o", os.path.join(work, f"{i}.o"))
    return work


def by_makefile(kit, source, work):
    """In a copy, so that the source tree stays as it is."""
    tree = os.path.join(work, "tree")
    for part in ("base", "format", "host", "include"):
        shutil.copytree(os.path.join(source, part), os.path.join(tree, part),
                        ignore=shutil.ignore_patterns("obj-*", "*.o"))
    shutil.copy(os.path.join(source, "CMakeLists.txt"), tree)
    pin = os.path.join(tree, "host", "pin")
    whole = os.path.exists(os.path.join(kit, "intel64/lib/libpin.a"))
    run("make", "-C", pin, f"PIN_ROOT={kit}", "obj-intel64/mt-host.so" if whole else "mt-objects")
    print("made " + ("mt-host.so" if whole else "objects (the kit has no libpin.a)") + " by the kit's makefiles")
    return os.path.join(pin, "obj-intel64")


def undefined(source, work):
    objects = [os.path.join(work, x) for x in sorted(os.listdir(work)) if x.endswith(".o")]
    if len(objects) < sum(x.endswith(".c") for x in sources(source)):
        sys.exit(f"only {len(objects)} objects were made")
    whole = os.path.join(work, "whole.relocatable")
    run("ld", "-r", "-o", whole, *objects)
    return {x.split()[-1] for x in run("nm", "-u", whole).splitlines()} - COMPILER


def words_of(folder):
    words = set()
    for at, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(at, name), errors="replace") as f:
                words.update(re.findall(r"[A-Za-z_]\w+", f.read()))
    return words


def offered_by_crt(kit):
    """Names in the kit's C and C++ libraries, None if it has none."""
    folder = next((os.path.join(kit, x) for x in ("intel64/pinrt/lib", "intel64/runtime/pincrt")
                   if os.path.isdir(os.path.join(kit, x))), None)
    if not folder:
        return None
    names = set()
    for lib in os.listdir(folder):
        if ".so" in lib:
            out = subprocess.run(["nm", "-D", "--defined-only", os.path.join(folder, lib)], capture_output=True, text=True)
            names |= {x.split()[-1].split("@")[0] for x in out.stdout.splitlines()}
    return names if "malloc" in names else None


def check(kit, names):
    crt = offered_by_crt(kit)
    declared = words_of(os.path.join(kit, "source/include/pin"))
    library = words_of(os.path.join(kit, "extras/crt/include")) | words_of(os.path.join(kit, "extras/cxx/include"))
    readable = dict(zip(sorted(names), run("c++filt", *sorted(names)).splitlines()))
    wrong, pin = [], 0
    for name in sorted(names):
        text = re.sub(r"<.*?>(?=\()|\[abi:\w+\]", "", readable[name])
        last = re.findall(r"[A-Za-z_]\w+", text.split("(")[0])[-1]
        if crt is not None and name in crt:
            continue
        if "LEVEL_" in readable[name] or name.startswith("xed_") or last.startswith("PIN_"):
            pin += 1
            if last not in declared:
                wrong.append(f"{readable[name]}: not in the kit's headers")
        elif FOREIGN.search(name):
            wrong.append(f"{name}: glibc's, not PinCRT's")
        elif crt is not None or (last not in library and not name.startswith("_Z")):
            wrong.append(f"{readable[name]}: nobody in the kit has it")
    print(f"{len(names)} symbols, {pin} of them Pin's; C and C++ libraries "
          + ("checked against the kit's" if crt is not None else "not in the kit: names checked against headers"))
    return wrong


def main():
    kit = os.environ.get("PIN_ROOT") or os.environ.get("PIN_HEADERS")
    if not kit:
        with tempfile.TemporaryDirectory() as work:
            without_kit(sys.argv[1], work)
        print("neither PIN_ROOT nor PIN_HEADERS is set: skipped")
        return 77
    kit, source = os.path.abspath(kit), os.path.abspath(sys.argv[1])
    if not os.path.exists(os.path.join(kit, "source/include/pin/pin.H")):
        sys.exit(f"{kit} is no Pin kit: source/include/pin/pin.H is not there")
    with tempfile.TemporaryDirectory() as work:
        made = os.path.exists(os.path.join(kit, "source/tools/Config/makefile.config"))
        objects = by_makefile(kit, source, work) if made else by_hand(kit, source, work)
        wrong = check(kit, undefined(source, objects))
    for w in wrong:
        print(w)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
