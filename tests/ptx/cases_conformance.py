"""The conformance programs through nvcc.

nvcc compiles tests/conformance/TOPIC.cu, memtrace run runs it, and the rows must give what they give through clang: results and
accesses. Rows that cannot hold are in table.DIFFERENT, with the reason. All rows that docs/conformance.md counts must be
there, and none may be skipped."""
import os
import shlex
import sys

from harness import SOURCE, Skipped, call, case, nvcc_of, same, tool

sys.path.append(os.path.join(SOURCE, "tests", "conformance"))
import rows  # noqa: E402
import table  # noqa: E402

# rounding: its reference wants host code of clang's; memory and range: nvcc refuses them.
TOPICS = """api async atomics bfloat16 block carry cluster device fp8 groups half integer libcudacxx managed math_double math_float matrix ptx_bits
ptx_matrix ptx_memory random simd tensor warp""".split()
SUITE = {"block", "managed", "ptx_memory", "warp"}  # the others take minutes
LEVELS = {"block", "ptx_memory", "warp"}  # the suite has the first


def build_program(source, flags, out):
    """A shell script at `out` that runs the program under memtrace run."""
    optimise = ["-G"] if "-O0" in flags else ["-O3", "-lineinfo"]
    number = next((f.partition("=sm_")[2] for f in flags if f.startswith("-arch=")), "90")
    command = [nvcc_of(), "-std=c++17", "--expt-relaxed-constexpr",
               f"-gencode=arch=compute_{number},code=[sm_{number},compute_{number}]", *optimise, "-Xcompiler=-O0",
               "-I" + os.path.dirname(source), *[f for f in flags if not f.startswith(("-O", "-arch="))], source,
               "-o", out + ".bin"]
    call(command, timeout=900)
    with open(out, "w", encoding="utf-8") as f:
        f.write(f"""#!/bin/sh
export MEMTRACE_CACHE={shlex.quote(out + ".cache")}
exec {shlex.quote(tool("mt-run"))} -f raw -- {shlex.quote(out + ".bin")} "$@"
""")
    os.chmod(out, 0o755)


def topic(world, name, first):
    def held(fields, found):
        verdict = rows.compare(fields, found)
        return ("differs: " + table.DIFFERENT[name, fields[0]], "") if (name, fields[0]) in table.DIFFERENT else verdict

    if not nvcc_of():
        raise Skipped("this CUDA toolkit has no nvcc")
    found = rows.run_topic(world.work, name, first=first, compile_program=build_program, compare=held)
    same("rows that were skipped", [row[0] for row in found if row[2].startswith("skipped")], [])
    same("rows that the page does not count", table.Totals(os.path.join(SOURCE, "docs", "conformance.md")).differs(name, [row[0] for row in found]), 0)


for each in TOPICS:
    case("conformance." + each, long=each not in SUITE)(lambda world, name=each: topic(world, name, name in LEVELS))
    if each in LEVELS:
        case(f"conformance.{each}.levels", long=True)(lambda world, name=each: topic(world, name, False))
