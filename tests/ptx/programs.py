#!/usr/bin/env python3
"""The examples by nvcc and by mt-cc: programs.py --build DIR [--work DIR] [NAME...]

Both must print the same and have the same accesses: for each kernel as many of each kind and size. Exit code 1 if one
differs, 77 without nvcc."""
import argparse
import glob
import os
import subprocess
import sys
import tempfile
from collections import Counter

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
sys.path.insert(0, HERE)
import trace  # noqa: E402
import conformance  # noqa: E402


def run(program, folder):
    os.makedirs(folder)
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
    env.update(MEMTRACE_DIR=folder, MEMTRACE_DEVICE="cpu")
    done = subprocess.run([program], capture_output=True, text=True, timeout=300, env=env)
    if done.returncode != 0:
        raise conformance.run.Broken(f"{program}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    found = Counter()
    for path in sorted(glob.glob(os.path.join(folder, "MemTrace-pipe-*[0-9]"))):
        if not trace.Companion(path + ".meta").end()["complete"]:
            raise conformance.run.Broken(f"{path} is not complete")
        for launch in trace.read(path):
            for sizes in launch.ctas().values():
                for (kind, size), n in sizes.items():
                    found[launch.kernel, kind, size] += n
    return done.stdout, found


def check(args, name, work):
    source = os.path.join(ROOT, "examples", name, name + ".cu")
    ours, theirs = os.path.join(work, name + "-cc"), os.path.join(work, name + "-nvcc")
    subprocess.run([os.path.join(args.build, "bin", "mt-cc"), "-O2", "--mt-gpu-trace=off", source, "-o", ours], check=True,
                   capture_output=True, timeout=600)
    conformance.build_program(args.build, source, ["-I" + os.path.join(ROOT, "include")], theirs)
    (said, counts), (also, others) = run(ours, ours + ".run"), run(theirs, theirs + ".run")
    if said != also:
        return f"prints\n{also}and by mt-cc\n{said}"
    if not counts or counts != others:
        return "accesses: " + ", ".join(f"{key}: {others[key]}, by mt-cc {counts[key]}"
                                        for key in sorted({*counts, *others}) if counts[key] != others[key])
    print(f"{name}: {sum(counts.values())} accesses")
    return ""


def check_managed(args, work):
    """A program that clang does not take: what it prints and its accesses, by hand."""
    app = os.path.join(work, "managed")
    conformance.build_program(args.build, os.path.join(HERE, "managed.cu"), [], app)
    said, counts = run(app, app + ".run")
    want = {("mirror", kind, 4): 66 for kind in ("load", "store")}
    return "" if said == "11 2 3 4\n200 7 21\n" and counts == want else f"prints {said!r}, {dict(counts)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--work")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    args.build = os.path.realpath(args.build)
    if not conformance.nvcc_of(args.build):
        print("skipped: this CUDA toolkit has no nvcc")
        return 77
    names = args.names or sorted(os.path.basename(p)[:-3] for p in glob.glob(os.path.join(ROOT, "examples", "*", "*.cu"))) + ["managed"]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="memtrace-programs-") as work:
        for name in names:
            try:
                found = check_managed(args, args.work or work) if name == "managed" else check(args, name, args.work or work)
            except (conformance.run.Broken, subprocess.SubprocessError) as why:
                found = str(why)
            if found:
                print(f"FAILED {name}: {found}")
                failed += 1
    print(f"{len(names)} programs, {failed} failed")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
