#!/usr/bin/env python3
"""What the command lines of all programs have in common. usage: alike_test.py BIN_FOLDER"""
import errno
import os
import re
import subprocess
import sys
import unittest

from tool_case import BIN, ToolCase, program
from traces import LOAD, record, trace

C0 = (0, 0, 0)


class Alike(ToolCase):
    """What all programs have in common."""

    def tools(self):
        return [t for t in sorted(os.listdir(BIN)) if t.startswith("mt-")]

    def test_letters(self):
        for tool in self.tools():
            listed = self.run_tool(tool, "--completion-options").stdout.decode().split()
            for option in ("--quiet", "--help", "--version"):
                self.assertIn(option, listed, tool)
            for option in ("-h", "-V", "--version"):
                r = self.run_tool(tool, option)
                self.assertEqual(r.returncode, 0, (tool, option, r.stderr))
            self.assertTrue(r.stdout.startswith(tool.encode() + b" (memtrace) "), r.stdout)

    def test_suggestions(self):
        for tool in self.tools():
            if tool != "mt-cc":  # whose other options are clang's
                r = self.run_tool(tool, "--verison")
                self.assertEqual(r.returncode, 2, tool)
                self.assertIn(b"did you mean --version?", r.stderr, tool)
            r = self.run_tool(tool, "--mt-xyzzy" if tool == "mt-cc" else "--xyzzy")
            self.assertEqual(r.returncode, 2, tool)
            self.assertNotIn(b"did you mean", r.stderr, tool)
        self.assertIn(b"did you mean --mt-kernels?", self.run_tool("mt-cc", "--mt-kernel=a", "x.cu").stderr)
        self.assertIn(b"did you mean 'transfers'?", self.run_tool("mt-extract", "-s", "KCV,transfer", "x").stderr)
        self.assertIn(b"did you mean 'sqlite'?", self.run_tool("mt-extract", "-f", "sqlit", "x").stderr)

    def test_bash(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/completion/memtrace.bash")
        for tool in self.tools():
            r = subprocess.run(["bash", "-c", f"""PATH={BIN}:$PATH; source "$1"; compopt() {{ :; }}
                                COMP_WORDS=({tool} --ver); COMP_CWORD=1; _memtrace {tool}; printf '%s\\n' "${{COMPREPLY[@]}}"
                                """, "bash", script], capture_output=True, text=True, timeout=60)
            self.assertIn("--version", r.stdout.split(), (tool, r.stderr))
        for words, want in (("mt-extract --format = sq", ["sqlite"]), ("mt-extract --format =", ["json", "perfetto"]), ("mt-convert -f ra", ["raw", "ramulator"]),
                            ("mt-extract -s KDV,transf", ["KDV,transfers"]), ("mt-extract --table = cta_", ["cta_volumes"]), ("mt-host at", ["atomic"]),
                            ("mt-host --engine = q", ["qemu"]), ("mt-run -f co", ["compact"]), ("mt-extract --output = sq", []), ("mt-extract -q sq", []),
                            ("mt-extract sq", []), ("memtrace extr", ["extract"]), ("memtrace extract --format = sq", ["sqlite"]), ("memtrace dump --hea", ["--head="])):
            with self.subTest(words):
                program(words.split()[0])
                r = subprocess.run(["bash", "-c", f"""PATH={BIN}:$PATH; source "$1"; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
                                    _memtrace "${{COMP_WORDS[0]}}"; printf '%s\n' "${{COMPREPLY[@]}}"
                                    """, "bash", script], capture_output=True, text=True, timeout=60)
                got = r.stdout.split()
                self.assertTrue(set(want) <= set(got) and (len(got) == len(want) or words.endswith("=")), (words, got, r.stderr))

    def test_memtrace(self):
        """memtrace COMMAND is mt-COMMAND, but for its name; what is no command is said to be none."""
        help_text = self.run_tool("memtrace").stdout.decode()
        self.assertEqual(help_text, self.run_tool("memtrace", "--help").stdout.decode())
        for tool in self.tools():
            word = tool[3:]
            self.assertRegex(help_text, f"(?m)^  {word} +[a-z]")
            own = self.run_tool(tool, "--help")
            for words in ((word, "--help"), ("help", word)):
                r = self.run_tool("memtrace", *words)
                self.assertEqual(r.returncode, 0, (words, r.stderr))
                self.assertEqual(r.stdout, own.stdout, words)
                self.assertIn(b"Usage: " + (tool if tool == "mt-cc" else "memtrace " + word).encode(), r.stdout)
            listed = self.run_tool("memtrace", word, "--completion-options").stdout
            self.assertEqual(listed, self.run_tool(tool, "--completion-options").stdout, tool)
        path = self.file("t", trace([("k", [record(0, LOAD, 4, 16, C0)])]))
        self.assertEqual(self.run_tool("memtrace", "dump", "--no-companion", path).stdout, self.run_tool("mt-dump", "--no-companion", path).stdout)
        for word, said in (("extrct", b"did you mean 'extract'?"), ("xyzzy", b"there is no command 'xyzzy'"), (path, b"is a file, not a command")):
            r = self.run_tool("memtrace", word)
            self.assertEqual((r.returncode, said in r.stderr), (2, True), (word, r.stderr))
        self.assertIn(b"memtrace extract: no-such-file: ", self.run_tool("memtrace", "extract", "no-such-file").stderr)

    def test_words(self):
        """Each word that a tool offers for an option is one that it takes."""
        for tool, option in (("mt-extract", "-f"), ("mt-extract", "-s"), ("mt-extract", "--table"), ("mt-convert", "--to"), ("mt-graph", "--node"),
                             ("mt-compare", "--format"), ("mt-dump", "-f"), ("mt-host", "--engine")):
            offered = self.run_tool(tool, "--completion-values", option).stdout.decode().split()
            self.assertGreater(len(offered), 1, (tool, option))
            for word in offered:
                said = self.run_tool(tool, option, word, *(["mat"] if tool == "mt-host" else []), "no-such-file").stderr.decode()
                self.assertNotRegex(said, "is not one of|is not a |is nothing for|unknown engine|did you mean", (tool, option, word))
            self.assertRegex(self.run_tool(tool, *(["mat"] if tool == "mt-host" else []), option, "xyzzy", "x").stderr.decode(),
                             "is not |is nothing |unknown engine", (tool, option))

    def test_ranges(self):
        path = self.file("t", trace([(f"k{i}", [record(0, LOAD, 4, 16, C0)]) for i in range(6)]))
        for text, want in (("1..3", "123"), ("2..2", "2"), ("4..", "45"), ("..2", "012"), ("3", "3")):
            out = self.run_tool("mt-dump", "--no-companion", "-t", text, path).stdout.decode()
            self.assertEqual("".join(re.findall(r"(?m)^launch (\d)", out)), want, text)
        for bad in ("3..1", "..", "1..x", "0..18446744073709551615", "1:3", "4:", ":2"):
            r = self.run_tool("mt-dump", "-t", bad, path)
            self.assertEqual((r.returncode, b"A:B ended before B" in r.stderr), (2, ":" in bad), bad)

    def test_waiting(self):
        """On a terminal, a FIFO without a writer is said to be waited for; not with -q, nor in a file."""
        fifo = os.path.join(self.dir, "fifo")
        os.mkfifo(fifo)
        for options, said in (([], True), (["-q"], False)):
            ours, theirs = os.openpty()
            p = subprocess.Popen([program("mt-convert"), "--order=time", *options, fifo], stdout=subprocess.DEVNULL, stderr=theirs)
            os.close(theirs)
            os.close(os.open(fifo, os.O_WRONLY))
            self.assertEqual(p.wait(60), 0)
            text = b""
            try:
                while more := os.read(ours, 4096):  # what is written comes in pieces, and then the terminal's end
                    text += more
            except OSError as e:
                self.assertEqual(e.errno, errno.EIO)
            self.assertEqual(b"waits until a program opens it" in text, said, text)
            os.close(ours)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
