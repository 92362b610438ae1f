#!/usr/bin/env python3
"""The text that the core writes and the text that memtrace convert makes of the core's container are the same; --order=time
puts the core's lines in the order that sort does. usage: test_convert.py FOLDER-OF-PROGRAMS MT-CONVERT"""
import os
import subprocess
import sys
import tempfile

FOLDER, CONVERT = sys.argv[1:3]


def run(program, *args):
    subprocess.run([os.path.join(FOLDER, "hostcore_prog_" + program), *args], check=True, capture_output=True)


def lines(path):
    with open(path) as f:
        return f.read().splitlines()


def ordered(all_lines):
    return sorted(all_lines, key=lambda l: tuple(map(int, l.split("\t")[:2])))


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("names", "w") as f:
            f.write("lib::work\n")
        for sort, extra, program, args in (
                (True, [], "atomic", ["names", "1", "1", "atomic", "-r", "-f", "names"]),
                (True, [], "atomic", ["names", "1", "1", "atomic", "-f", "names", "-i"]),
                (True, [], "atomic", ["wide", "1", "1", "atomic"]),
                (False, [], "mat", ["basic", "1", "1", "mat"]),
                (False, ["--all"], "mat", ["basic", "1", "1", "mat", "--all"]),
                (False, [], "mat", ["basic", "1", "1", "mat", "--threshold", "101"]),
                (False, [], "mat", ["pool", "1", "500", "mat"]),
                (False, [], "mat", ["switch", "1", "500", "mat", "--signal", "--routine", "main"]),
                (False, [], "insn", ["1", "20000", "insn"])):
            run(program, *args, "-o", "t.txt")
            run(program, *args, "-o", "t.mtc")
            subprocess.run([CONVERT, *extra, "t.mtc", "-o", "converted.txt"], check=True)
            want, got = lines("t.txt"), lines("converted.txt")
            if sort:
                want, got = ordered(want), ordered(got)
            assert want == got, (args, [p for p in zip(want, got) if p[0] != p[1]][:3], len(want), len(got))
        run("atomic", "inc", "8", "5000", "atomic", "-o", "t.txt", "-d", "100")
        merged = subprocess.run([CONVERT, "--order=time", "t.txt"], check=True, capture_output=True, text=True).stdout.splitlines()
        assert merged == [l.split("\t", 1)[1] for l in ordered(lines("t.txt")) if not l.endswith("thread_sync")]


main()
