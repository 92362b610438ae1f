#!/usr/bin/env python3
"""tables.py SOURCE BUILD CUDA CC: the tables of runtime/libraries say what NVIDIA's headers say, and have all names that its
libraries export, where the toolkit has these; each call is in docs/libraries.md."""
import glob
import os
import re
import subprocess
import sys

source, build, cuda, cc = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(source, "runtime/libraries"))
import gen_libraries  # noqa: E402

bad = []
libraries, names, calls = gen_libraries.read(sorted(glob.glob(os.path.join(source, "runtime/libraries/*.def"))))
if os.path.exists(f"{cuda}/include/nccl.h"):  # in angle brackets it is NVIDIA's
    p = subprocess.run([cc, "-std=gnu11", "-fsyntax-only", "-isystem", f"{cuda}/include", "-iquote", here, f"{here}/declared_nccl.c"], text=True,
                       capture_output=True, check=False)
    if p.returncode:
        bad.append(p.stderr)
if os.path.exists(f"{cuda}/include/cublas_v2.h") and os.path.exists(f"{cuda}/include/cusolverDn.h"):
    p = subprocess.run([cc, "-std=gnu11", "-fsyntax-only", "-isystem", f"{cuda}/include", f"-I{build}/runtime/libraries",
                        f"{here}/declared.c"], text=True, capture_output=True, check=False)
    if p.returncode:
        bad.append(p.stderr)
else:
    print("no header of cuBLAS and cuSOLVER to compare with")
ours = {n for n, *_ in names}
refused = {n for n, there, _ in names if not there}  # a later version of the library may have more of them
for library, soname, _, _ in libraries:
    paths = [f for d in ("lib64", "lib") for f in [f"{cuda}/{d}/{soname}"] if os.path.exists(f)]
    if not paths:
        print(f"no {soname} to compare with")
        continue
    text = subprocess.run(["nm", "-D", "--defined-only", paths[0]], text=True, capture_output=True, check=True).stdout
    theirs = {re.sub("@.*", "", w[2]) for w in map(str.split, text.splitlines()) if w[1] in "TtWi" and w[2].startswith(library)}
    mine = {n for n in ours if gen_libraries.library_of(libraries, n) == [l for l, *_ in libraries].index(library)}
    if theirs - mine:
        bad.append(f"{soname} has what the table lacks: " + " ".join(sorted(theirs - mine)))
    if mine - theirs - refused:
        bad.append(f"{soname} has no " + " ".join(sorted(mine - theirs - refused)))
with open(os.path.join(source, "docs/libraries.md"), encoding="utf-8") as f:
    page = f.read()
told = {e for word in re.findall(r"`([\w{}]+)`", page) for e in gen_libraries.expand(word)}
for c in calls:
    for name, _, _, _ in c.variants():
        if c.library + name not in told:
            bad.append(f"docs/libraries.md does not name {c.library}{name}")
print("\n".join(bad))
sys.exit(bool(bad))
