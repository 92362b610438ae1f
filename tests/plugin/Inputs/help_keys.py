"""help_keys.py HELP COMMAND: the keys in the help text are those that the error message of COMMAND names."""
import re
import shlex
import subprocess
import sys

text = open(sys.argv[1]).read()
listed = re.findall(r"^  ([a-z-]+)(?:=\S+)?\s", text, re.M)
error = subprocess.run(shlex.split(sys.argv[2]), stderr=subprocess.PIPE, text=True).stderr
known = re.search(r"known are (.*)", error).group(1)
known = re.findall(r"[a-z][a-z-]*", re.sub(r"\([^)]*\)", "", known))
if sorted(listed) != sorted(set(known) | {"help"}):
    sys.exit(f"help lists {listed}, the error message {known}")
