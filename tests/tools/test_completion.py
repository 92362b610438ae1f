#!/usr/bin/env python3
"""Completion in the shells themselves: test_completion.py BIN SOURCE SHELL. 77: the shell is not there."""
import os
import shutil
import subprocess
import sys
import tempfile

BIN, SOURCE, SHELL = sys.argv[1:]
WANTED = {"mt-extract --sect": "--sections=", "mt-dump --qui": "--quiet", "mt-extract unique": "unique-file",
          "mt-extract --format=sq": "--format=sqlite", "mt-extract -f sq": "sqlite", "mt-extract -s KDV,transf": "KDV,transfers", "mt-host at": "atomic",
          "mt-extract -o unique": "unique-file"}
# zsh completes only at a terminal, which zpty is: what is typed after "@" is shown with what it becomes.
ZSH = """zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1=; fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D; echo rea""dy'
zpty -r -m z seen '*ready*'
zpty -w -n z $'%s\\t'
zpty -r -m z seen '*%s*' && print found
"""


def fish(typed, folder):
    tool = typed.split()[0]
    shutil.copy(os.path.join(SOURCE, "memtrace.fish"), os.path.join(folder, tool + ".fish"))
    return ["fish", "--no-config", "-c", f"set -p fish_complete_path {folder}; complete -C '{typed}'"]


def zsh(typed, folder):
    return ["zsh", "-f", "-c", ZSH % (SOURCE, typed, WANTED[typed])]


def main():
    if not shutil.which(SHELL):
        print("no", SHELL)
        return 77
    wrong = 0
    for typed, wanted in WANTED.items():
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "unique-file"), "w", encoding="utf-8").close()
            env = {**os.environ, "PATH": BIN + os.pathsep + os.environ["PATH"], "HOME": folder, "TERM": "dumb"}
            try:
                done = subprocess.run({"fish": fish, "zsh": zsh}[SHELL](typed, folder), cwd=folder, env=env, capture_output=True, timeout=60)
                got = done.stdout.decode(errors="replace").split()
            except subprocess.TimeoutExpired:
                got = ["(nothing)"]
        if got != [wanted if SHELL == "fish" else "found"]:
            print(f"{SHELL}: {typed!r} becomes {got}, not {wanted}")
            wrong = 1
    return wrong


sys.exit(main())
