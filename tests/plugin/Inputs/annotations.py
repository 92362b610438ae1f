"""Prints "function: annotation" for each entry of llvm.global.annotations in an IR file, TABs as '|'."""
import re
import sys

text = open(sys.argv[1]).read()
strings = {name: re.sub(r"\\([0-9A-F]{2})", lambda m: chr(int(m.group(1), 16)), body)
           for name, body in re.findall(r'^(@\S+) = .*constant \[\d+ x i8\] c"(.*?)"', text, re.M)}
table = re.search(r"^@llvm.global.annotations = .*$", text, re.M)
for function, string in re.findall(r"\{ ptr (@\S+), ptr (@[^,]+),", table.group(0) if table else ""):
    print(function.strip("@").strip('"') + ": " + strings[string].rstrip("\0").replace("\t", "|"))
