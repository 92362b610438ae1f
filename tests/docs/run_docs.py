#!/usr/bin/env python3
"""run_docs.py BUILD SOURCE PAGE...: runs the commands of a page of docs/ ("    $ command") in one folder, and looks for the lines
that are shown after them, blanks put together, "…" for anything. Where marks ("! ") are shown, all are, but for a line "…". A section that says "Needs PROGRAM." is skipped, and counted, where
that is missing. Exit code: 0, 1 a command failed or did not show a line, 77 all was skipped."""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def blocks(path):
    """[(heading, what it needs, [(line number, command, [lines shown])])]"""
    out, needs = [], None
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if line.startswith("#"):
                out.append((line.lstrip("# "), needs := [], []))
            elif m := re.match(r"Needs (\S+)\.$", line):
                needs.append(m[1])
            elif line.startswith("    $ "):
                out[-1][2].append((number, line[6:], []))
            elif line.startswith("    ") and line.strip() and out and out[-1][2] and out[-1][2][-1][0] + len(out[-1][2][-1][2]) + 1 == number:
                out[-1][2][-1][2].append(line)
    return out


def shown(want, got):
    pattern = ".*".join(re.escape(" ".join(part.split())) for part in want.split("…"))
    return any(re.fullmatch(pattern.replace(r"\ .*", r".*").replace(r".*\ ", ".*"), " ".join(line.split())) for line in got.splitlines())


def marks(lines, said):
    """Marks of a summary that the page leaves out: readers count those that it shows."""
    if not any(line.strip().startswith("! ") for line in lines) or "…" in [line.strip() for line in lines]:
        return []
    return [line for line in said.splitlines() if line.startswith("! ") and not any(shown(want, line) for want in lines)]


def run(page, folder, env):
    ran = skipped = failed = 0
    for heading, needs, commands in blocks(page):
        missing = [n for n in needs if not shutil.which(n, path=env["PATH"])]
        if missing and commands:
            print(f"{heading}: skipped, no {missing[0]}")
            skipped += 1
            continue
        ran += bool(commands)
        for number, command, lines in commands:
            p = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
            said = p.stdout + p.stderr
            wrong = [f"exit code {p.returncode}"] if p.returncode else []
            wrong += [f"does not show {line.strip()!r}" for line in lines if line.strip() != "…" and not shown(line, said)]
            wrong += [f"does not tell of {line!r}" for line in marks(lines, said)]
            for why in wrong:
                print(f"{os.path.basename(page)}:{number}: {command}\n  {why}\n{said[-1500:]}")
            failed += bool(wrong)
    print(f"{os.path.basename(page)}: {ran} sections ran, {skipped} skipped, {failed} commands failed")
    return ran, failed


def main():
    build, source, *pages = sys.argv[1:]
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
    env.update(PATH=os.path.join(build, "bin") + os.pathsep + env["PATH"], MEMTRACE_DEVICE="cpu", MEMTRACE_CPU_THREADS="1", LC_ALL="C.UTF-8")
    results = []
    for page in pages:
        with tempfile.TemporaryDirectory(prefix="memtrace-docs-") as folder:
            for name in ("heat.cu", "bytes.c"):
                shutil.copy(os.path.join(source, "docs/tutorial", name), folder)
            with open(os.path.join(folder, "memtrace-reader.pc"), "w", encoding="utf-8") as f:  # as if it were installed
                f.write(f"Name: memtrace-reader\nDescription: of this build\nVersion: 0\nCflags: -I{source}/include\n"
                        f"Libs: -L{build}/lib -Wl,-rpath,{build}/lib -lmemtrace-reader\n")
            env["PKG_CONFIG_PATH"] = folder
            results.append(run(os.path.join(source, "docs", page), folder, {**env, "MEMTRACE_DIR": folder}))
    return 1 if any(failed for _, failed in results) else 0 if any(ran for ran, _ in results) else 77


sys.exit(main())
