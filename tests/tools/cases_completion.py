"""Completion in the shells themselves, where they are."""
import os
import shutil
import subprocess

import harness
from harness import case, need, same

SOURCE = os.path.join(harness.SOURCE, "tools", "completion")
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


@case("completion", "fish", "zsh")
def completion(world):
    shell = need(world.variant)
    for typed, wanted in WANTED.items():
        folder = world.folder("typed")
        open(os.path.join(folder, "unique-file"), "w", encoding="utf-8").close()
        env = {**os.environ, "PATH": os.path.join(world.build, "bin") + os.pathsep + os.environ["PATH"], "HOME": folder, "TERM": "dumb"}
        try:
            done = harness.run({"fish": fish, "zsh": zsh}[world.variant](typed, folder), 60, cwd=folder, env=env)
            got = done.stdout.split()
        except subprocess.TimeoutExpired:
            got = ["(nothing)"]
        same(f"{shell}: {typed!r} becomes", got, [wanted if world.variant == "fish" else "found"])
