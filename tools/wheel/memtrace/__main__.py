"""Executes the program in tree/bin for `python -m memtrace …` and for the commands that pip installs."""
import os
import sys

from memtrace import program


def main():
    called = os.path.basename(sys.argv[0])
    word = called if called.startswith("mt-") else "memtrace"
    path = program(word)
    os.execv(path, [word] + sys.argv[1:])


if __name__ == "__main__":
    main()
