"""`python -m memtrace …`, and the commands that pip puts into bin: become the program of that name in tree/bin."""
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
