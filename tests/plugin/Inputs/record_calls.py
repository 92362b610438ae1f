"""Prints for each function of an IR file its name and how often it calls a record function (__mt_gpu_access_*)."""
import re
import sys

text = open(sys.argv[1]).read()
for name, body in re.findall(r'^define [^@\n]*@"?([^"(]+)"?\(.*?$(.*?)^\}', text, re.M | re.S):
    print(name, len(re.findall(r"call void @__mt_(?:gpu_)?access_(?:global|generic)", body)))
