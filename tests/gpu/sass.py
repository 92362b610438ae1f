#!/usr/bin/env python3
"""sass.py NVCC TOOL WORK NVDISASM FILE.cu...: which instructions a kernel has, as the library finds them (runtime/gpu/inject/sass.def),
beside nvdisasm's reading of the same cubins, on each architecture; and whether kernels have strong loads or atomics.

NVDISASM: a program, or "" (nvcc's folder and the path are searched). Without one only what is written here is compared."""
import os
import re
import shutil
import subprocess
import sys

nvcc, tool, work, nvdisasm, *files = sys.argv[1:]
NAMES = {"TEX", "TLD", "TLD4", "TXD", "SULD", "SUST", "SUATOM", "SURED", "LDGMC", "UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED"}
# By hand, of what the kernels are written in: on each architecture the same.
KINDS = {"plain": "", "texture_of": "TEX", "surface_of": "SUST", "calls": "TLD", "waits": "", "tensor": "UTMALDG UTMASTG UTMAREDG",
         "multicast": "LDGMC", "bulk": "UBLKCP UBLKRED", "cancels": "", "textures": "TEX", "texel": "TLD", "gathered": "TLD4", "gradient": "TXD",
         "surface_load": "SULD", "surface_store": "SUST", "surface_reduce": "SURED", "ordinary": "", "weak": "", "strong_atomic": "", "prefetches": ""}
POLLS = {"waits", "ordinary", "strong_volatile", "strong_relaxed", "strong_system", "strong_cta", "strong_acquire", "strong_atomic",
         "strong_lock", "strong_lock_wide", "strong_float", "strong_double", "wide_strong", "wide_volatile"}
LINE = re.compile(r"/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)((?:\.\w+)*)\s*([^;]*);")
failed = []


def check(what, found, must):
    if found != must:
        failed.append(f"{what}: {found!r}, must be {must!r}")


def disassembled(cubin):
    """Of each section .text.NAME: names of nvdisasm, whether an instruction orders threads or returns what it replaced, and calls."""
    text = subprocess.run([nvdisasm, cubin], capture_output=True, text=True, check=True).stdout
    out, name = {}, None
    for line in text.splitlines():
        section = re.match(r"\s*\.section\s+\.text\.([\w$]+)", line)
        name = section.group(1) if section else name
        found = LINE.search(line)
        if not found or name is None:
            continue
        op, more, _ = found.groups()
        kinds, facts = out.setdefault(name, (set(), set()))
        if op in NAMES:
            kinds.add(op)
        if op in ("LD", "LDG") and (".STRONG" in more or ".MMIO" in more) or op in ("ATOM", "ATOMG"):
            facts.add("polls")
        if op == "CALL":
            facts.add("calls")
        if op == "UGETNEXTWORKID":
            facts.add("cancels")
    return out


def said(cubin):
    out = {}
    for line in subprocess.run([tool, "facts", cubin], capture_output=True, text=True, check=True).stdout.splitlines():
        name, kernel, kinds, facts = line.split("\t")
        out[name] = (kernel == "1", set(kinds.split(", ")) - {""}, set(facts.split()))
    return out


def compare(arch, cubin, found):
    others, listing = (set(), set()), disassembled(cubin)
    for name, (kinds, facts) in listing.items():
        if name in found and not found[name][0]:
            others = (others[0] | kinds, others[1] | facts)
    for name, (kinds, facts) in listing.items():
        if name not in found or not found[name][0]:
            continue
        if "calls" in facts:
            kinds, facts = kinds | others[0], facts | others[1]
        if arch == "sm_75": # weak loads there have the number of strong ones elsewhere
            facts, found[name] = facts - {"polls"}, (found[name][0], found[name][1], found[name][2] - {"polls"})
        check(f"{arch}: {name}, beside nvdisasm", found[name][1:], (kinds, facts))
    return len(listing)


def main():
    global nvdisasm
    nvdisasm = next((p for p in (nvdisasm, os.path.join(os.path.dirname(nvcc), "nvdisasm"), shutil.which("nvdisasm") or "") if p and os.path.exists(p)), "")
    known = subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True, check=True).stdout.split()
    os.makedirs(work, exist_ok=True)
    compared = 0
    for arch in [a for a in ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a") if a.rstrip("a") in known]:
        for number, file in enumerate(files):
            cubin = os.path.join(work, f"{number}-{arch}.cubin")
            subprocess.run([nvcc, "-std=c++17", "-arch=" + arch, "-cubin", "-o", cubin, file], check=True, stderr=subprocess.DEVNULL)
            found = said(cubin)
            for name, (kernel, kinds, facts) in found.items():
                if kernel and name in KINDS:
                    check(f"{arch}: {name}", kinds, set(KINDS[name].split()))
                if kernel and arch != "sm_75":
                    check(f"{arch}: {name} polls", "polls" in facts, name in POLLS)
            compared += compare(arch, cubin, found) if nvdisasm else 0
    print(f"{compared} functions as nvdisasm reads them" if nvdisasm else "no nvdisasm: what is written here alone")
    print("\n".join(failed))
    return bool(failed)


sys.exit(main())
