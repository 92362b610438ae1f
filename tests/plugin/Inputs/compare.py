"""compare.py ONE TWO: both IR files have the same annotations and debug locations, file by file."""
import os
import re
import subprocess
import sys


def facts(name):
    text = open(name).read()
    annotations = subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "annotations.py"), name],
                                 stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
    unit = re.search(r"DICompileUnit\(.*?file: (![0-9]+)", text).group(1)
    files = {key: os.path.normpath(os.path.join(folder, file)) for key, file, folder in re.findall(
        r'^(![0-9]+) = !DIFile\(filename: "(.*?)", directory: "(.*?)"', text, re.M)}
    functions = [(linkage or plain, files[file], line) for plain, linkage, file, line in re.findall(
        r'DISubprogram\(name: "(.*?)"(?:, linkageName: "(.*?)")?, .*?file: (![0-9]+), line: (\d+)', text)]
    places = re.findall(r"DILocation\(line: (\d+), column: (\d+)", text)
    del files[unit]
    if len(annotations) < 5 or len(functions) < 5 or len(places) < 20:
        sys.exit(f"{name}: too few facts to compare")
    # An anonymous namespace has one name per file compiled; kernels in it get a suffix made from the file's name.
    strip = re.compile(r"__(intern|static)__[0-9a-f]+")
    return sorted(strip.sub("", a) for a in annotations), sorted(functions), sorted(places)


one, two = facts(sys.argv[1]), facts(sys.argv[2])
for what, a, b in zip(("annotations", "functions", "places"), one, two):
    if a != b:
        only = [x for x in a if x not in b], [x for x in b if x not in a]
        sys.exit(f"{what} differ: only in the first {only[0][:5]}, only in the second {only[1][:5]}")
