#!/usr/bin/env python3
"""The conformance programs through nvcc: conformance.py --build DIR [--work DIR] TOPIC...

nvcc compiles tests/conformance/TOPIC.cu, memtrace run runs it, and the rows must give what they give through clang: results and
accesses. Rows that cannot hold are in table.DIFFERENT, with the reason. All rows that docs/conformance.md counts must be
there, and none may be skipped. Exit code 1 if a row fails, 77 without nvcc."""
import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "conformance"))
import run  # noqa: E402


def nvcc_of(build):
    with open(os.path.join(build, "cuda-overlay", "bin", ".memtrace-overlay"), encoding="utf-8") as f:
        root = dict(line.strip().split("=", 1) for line in f if "=" in line)["cuda"]
    found = os.path.join(root, "bin", "nvcc")
    return found if os.path.exists(found) else None


def build_program(build, source, flags, out):
    """A shell script at `out` that runs the program under memtrace run."""
    optimise = ["-G"] if "-O0" in flags else ["-O3", "-lineinfo"]
    number = next((f.partition("=sm_")[2] for f in flags if f.startswith("-arch=")), "90")
    command = [nvcc_of(build), "-std=c++17", "--expt-relaxed-constexpr",
               f"-gencode=arch=compute_{number},code=[sm_{number},compute_{number}]", *optimise, "-Xcompiler=-O0",
               "-I" + os.path.dirname(source), *[f for f in flags if not f.startswith(("-O", "-arch="))], source,
               "-o", out + ".bin"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise run.Broken(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stderr[-4000:]}")
    with open(out, "w", encoding="utf-8") as f:
        f.write(f"""#!/bin/sh
export MEMTRACE_CACHE={shlex.quote(out + ".cache")}
exec {shlex.quote(os.path.join(build, "bin", "memtrace"))} run -f raw -- {shlex.quote(out + ".bin")} "$@"
""")
    os.chmod(out, 0o755)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--work")
    parser.add_argument("topics", nargs="+")
    args = parser.parse_args()
    args.build, args.failed = os.path.realpath(args.build), 0
    if not nvcc_of(args.build):
        print("skipped: this CUDA toolkit has no nvcc")
        return 77
    run.compile_program = lambda build, source, flags, out: build_program(build, source, flags, out)
    compare = run.compare
    different = run.table.DIFFERENT
    totals = run.table.Totals(os.path.join(HERE, "..", "..", "docs", "conformance.md"))
    work = os.path.realpath(args.work) if args.work else tempfile.mkdtemp(prefix="memtrace-ptx-")
    try:
        for topic in args.topics:
            def held(fields, found):
                verdict = compare(fields, found)
                return ("differs: " + different[topic, fields[0]], "") if (topic, fields[0]) in different else verdict
            run.compare = held
            os.makedirs(os.path.join(work, topic), exist_ok=True)
            rows = run.run_topic(args, os.path.join(work, topic), topic)
            for name, _, verdict, _, _ in rows or ():
                if verdict.startswith("skipped"):
                    print(f"FAILED {topic}: {name}: {verdict}")
                    args.failed += 1
            if rows:
                args.failed += totals.differs(topic, [row[0] for row in rows])
    except (run.Broken, subprocess.TimeoutExpired) as why:
        print(f"FAILED {why}")
        return 1
    finally:
        if not args.work:
            shutil.rmtree(work, ignore_errors=True)
    print(f"{args.failed} failures" if args.failed else "all rows hold")
    return 1 if args.failed else 0


if __name__ == "__main__":
    sys.exit(main())
