"""CUDA's and C++'s headers, parsed once for many compilations: half of a short kernel's compilation is reading them. Clang's precompiled
headers have no part in what is made: the test e2e.headers compares outputs with and without. A file is for the compiler and toolkit of its time:
after an update of the C++ library remove build/tests/headers."""
import contextlib
import fcntl
import hashlib
import os
import re
import shlex
import subprocess

FOLLOW = {"-I", "-o", "-L", "-l", "-Xarch_host", "-Xarch_device"}  # the next word belongs to it
DECIDES = re.compile(r"-O|-std=|-fgpu-rdc$|-rdc=|-dc$|--cuda-gpu-arch=|-arch=|--offload-arch=|--cuda-device-only$|-Xarch_|--std=")  # what headers become
IGNORED = re.compile(r"-D(?!_|CUDA|CUB|THRUST|NDEBUG)|-l|-L|-I|-w$|-W|--?mt-|-fplugin-arg-memtrace-|--plain$|-lineinfo$|-v$|-fmad=|-ftz=|-prec-\w+=true|-ffp-contract=|-Xarch_\w+ -O[0-3]$")
STOPS = {"-c": "-c", "-S": "-c", "-ptx": "-c"}  # where a compilation ends decides whether -pthread reaches the headers


def lines(*names):
    return "".join(f"#include <{name}>\n" for name in names)


STANDARD = lines("cstdint", "cstdio", "cstdlib", "cstring", "vector")
SLOW = re.compile(r"^ *# *include <(cooperative_groups|cuda/|cuda_pipeline)", re.M)  # a source with one of these gets all of them:
CUDA = lines("cooperative_groups.h", "cooperative_groups/memcpy_async.h", "cuda/atomic", "cuda/barrier", "cuda/pipeline", "cuda_pipeline.h",
             "cuda_fp16.h", "cuda_bf16.h")


def text_of(sources):
    """#include lines of system headers that these sources, or most sources, have."""
    for path in sources:
        with open(path, encoding="utf-8") as f:
            if SLOW.search(f.read()):
                return STANDARD + CUDA
    return STANDARD


def words(mt_cc, flags, *sources):
    """Words for mt-cc before sources in CUDA that are compiled with `flags`: with them the headers come from a file made before, or now. Empty
    where one of the flags is not known to leave headers alone."""
    key, rest = [], iter(flags)
    for word in rest:
        if word in FOLLOW:
            word += " " + next(rest, "")
        if word in STOPS:
            key.append(STOPS[word])
        elif DECIDES.match(word) and (not word.startswith("-Xarch_") or IGNORED.fullmatch(word)):
            key.append(re.sub(r"-O[123]$", "-O1", word))  # they differ behind the parser
        elif not IGNORED.match(word) and not word.startswith("-o "):
            return []
    key, text = sorted(set(key), key=key.index), text_of(sources)
    folder = headers_folder(mt_cc, key, text)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = os.path.join(folder, "made")
        if not os.path.exists(made):
            halves = headers_make(mt_cc, key, text, folder)
            with open(made, "w", encoding="utf-8") as f:
                f.write(" ".join(halves))
        with open(made, encoding="utf-8") as f:
            return f.read().split()


def headers_folder(mt_cc, key, text):
    """One for each set of words, text, compiler and toolkit."""
    build = os.path.dirname(os.path.dirname(os.path.realpath(mt_cc)))
    h = hashlib.sha256(repr((key, text, build)).encode())
    include = os.path.join(build, "cuda-overlay", "include")
    for path in (mt_cc, os.environ.get("MEMTRACE_CLANG", "/usr/bin/clang++-19"), include, os.path.join(include, "cuda_runtime.h"),
                 os.path.join(include, "crt", "host_config.h")):
        with contextlib.suppress(OSError):
            at = os.stat(path)
            h.update(repr((path, os.path.realpath(path), at.st_size, at.st_mtime_ns)).encode())
    return os.path.join(build, "tests", "headers", h.hexdigest()[:16])


def headers_make(mt_cc, key, text, folder):
    """Makes the files; returns the words. The commands are those of clang's driver for an empty program, without the plugin."""
    source = os.path.join(folder, "empty.cu")
    with open(source, "w", encoding="utf-8") as f:
        f.write(text)
    said = subprocess.run([mt_cc, *(w for k in key for w in k.split()), "-###", source, "-o", os.path.join(folder, "out")], capture_output=True, text=True,
                          timeout=60).stderr
    extra = []
    for line in said.splitlines():
        if not re.match(r' "[^"]*" "-cc1" ', line):
            continue
        command = shlex.split(line)
        half = "device" if "-fcuda-is-device" in command else "host"
        if f"-Xarch_{half}" in extra:
            return []  # several architectures: there would be a file for each
        for i in reversed([i for i, word in enumerate(command) if word in ("-load", "-fcuda-include-gpubinary")]):
            del command[i:i + 2]
        command = ["-emit-pch" if word in ("-S", "-emit-obj", "-emit-llvm", "-emit-llvm-bc") else word for word in command if not word.startswith("-cuid=")]
        header = os.path.join(folder, half + ".h")
        command[command.index("-o") + 1] = header + ".pch"
        if subprocess.run(command, capture_output=True, timeout=120).returncode:
            return []  # the compilation itself says why
        extra += [f"-Xarch_{half}", f"--include={header}"]
    return extra
