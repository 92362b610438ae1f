#!/usr/bin/env python3
"""patches.py FATBINS PATCH_DEF NVCC PATCH_CU INCLUDE...: the images of the patches, joined by colons.

There is machine code for each architecture that nvcc names from sm_75 on, for CUDA 12 for those that it has, in the ELF format that its
drivers load; each has all functions of patch.def; what they need of
registers and stack stands in its .nv.info. Where an INCLUDE has NVIDIA's header, the table's numbers are those of its names. Their PTX has neither match.sync nor redux.sync nor shared memory, no calls but of a patch's second part and the functions named here, and a fence only where a launch ends."""
import os
import re
import struct
import subprocess
import sys
import tempfile

EM_CUDA, SYMTAB, FUNC = 190, 2, 2
INNER = ("patch_ended", "patch_polled", "patch_over", "patch_block_of")  # functions that several patches, or few calls of one, call
STACK_MAX = 192  # bytes: patches may use the ABI's least registers alone, so some of their values lie on the stack


def entries(data):
    """(kind, architecture, payload) of a fatbin that is not compressed."""
    magic, _, header, size = struct.unpack_from("<IHHQ", data, 0)
    assert magic == 0xBA55ED50, hex(magic)
    at = header
    while at < header + size:
        kind, _, head, bytes_, packed = struct.unpack_from("<HHIQI", data, at)
        arch, = struct.unpack_from("<I", data, at + 28)
        assert not packed, "the image is compressed"
        yield kind, arch, data[at + head:at + head + bytes_]
        at += head + bytes_


def functions(elf):
    """Names of the functions that are defined, and the largest frame that .nv.info says (EIATTR_FRAME_SIZE: 0x11)."""
    assert elf[:4] == b"\x7fELF" and struct.unpack_from("<H", elf, 18)[0] == EM_CUDA
    offset, size, count, strings = *struct.unpack_from("<Q", elf, 40), *struct.unpack_from("<HHH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + i * size) for i in range(count)]
    text = lambda table, at: elf[sections[table][4] + at:elf.index(b"\0", sections[table][4] + at)].decode()
    names, frames = set(), {}
    for section in sections:
        if section[1] == SYMTAB:
            for at in range(section[4], section[4] + section[5], section[9]):
                name, info, _, where, _, _ = struct.unpack_from("<IBBHQQ", elf, at)
                if info & 15 == FUNC and where:
                    names.add(text(section[6], name))
        if text(strings, section[0]) == ".nv.info":
            at, end = section[4], section[4] + section[5]
            while at < end:
                form, attribute, value = struct.unpack_from("<BBH", elf, at)
                if form == 4 and attribute == 0x11:
                    symbol, frame = struct.unpack_from("<II", elf, at + 4)
                    frames[symbol] = frame
                at += 4 + (value if form == 4 else 0)
    return names, max(frames.values(), default=0)


def header_says(rows, include):
    """What differs between the table and NVIDIA's header, if an include folder has it: rows that it does not know must be newer."""
    for folder in include:
        path = os.path.join(folder, "sanitizer_patching.h")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                named = dict(re.findall(r"\bSANITIZER_INSTRUCTION_(\w+)\s*=\s*(\d+)", f.read()))
            for name, number, _, _, since in rows:
                if named.get(name, number) != number or (name not in named and since == "0"):
                    yield f"patch.def: {name} is {number} since {since}, the header says {named.get(name)}"


# What `readelf -h` says of the machine code of ptxas 12.4, 12.9 and 13.0: OS/ABI and its version. CUDA 12's for Blackwell is as CUDA 13's.
FORMATS = {12: lambda arch: (0x33, 7) if arch < 100 else (0x41, 8), 13: lambda arch: (0x41, 8)}
NOT_IN_12 = {88, 110}


def image_says(path, known, rows):
    with open(path, "rb") as f:
        images = list(entries(f.read()))
    major = int(re.search(r"-(\d+)\.fatbin$", path).group(1))
    must = {n for n in known if n >= 75} - (NOT_IN_12 if major == 12 else set())
    if {arch for _, arch, _ in images} != must or {kind for kind, *_ in images} != {2}:
        yield f"{path}: architectures: {sorted(arch for _, arch, _ in images)}, must be {sorted(must)}"
    for _, arch, elf in images:
        names, frame = functions(elf)
        missing = {function for _, _, function, _, _ in rows} - names
        if missing:
            yield f"{path}: sm_{arch} lacks {sorted(missing)}"
        if frame > STACK_MAX:
            yield f"{path}: sm_{arch}: a frame of {frame} bytes, must be at most {STACK_MAX}"
        if tuple(elf[7:9]) != FORMATS[major](arch):
            yield f"{path}: sm_{arch}: OS/ABI {elf[7]:#x}, version {elf[8]}"
        print(f"CUDA {major}, sm_{arch}: {len(names)} functions, frames of {frame} bytes at most")


def main():
    fatbins, table, nvcc, source, *include = sys.argv[1:]
    with open(table, encoding="utf-8") as f:
        rows = re.findall(r"^MT_PATCH\((\w+), (\d+), (\w+), (GLOBAL|SHARED|LOCAL|ON_CHIP), (\d+)\)$", f.read(), re.M)
    known = {int(n) for n in re.findall(r"sm_(\d+)$", subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True, check=True).stdout, re.M)}
    failed = list(header_says(rows, include))
    for path in fatbins.split(":"):
        failed += image_says(path, known, rows)
    with tempfile.TemporaryDirectory() as folder:
        ptx = folder + "/patch.ptx"
        subprocess.run([nvcc, "-std=c++17", "--ptx", "--compile-as-tools-patch", "-arch=sm_90", *("-I" + i for i in include), source, "-o", ptx],
                       check=True, timeout=200)
        with open(ptx, encoding="utf-8") as f:
            text = f.read()
    for word in (r"match\.", r"redux\.", r"\.shared", r"membar"):
        if re.search(word, text):
            failed.append(f"PTX: {word} is in it")
    for name, body in re.findall(r"^(?:\.visible )?\.func [^\n]*?(\w+)\(\n(.*?)^}", text, re.M | re.S):
        calls = re.findall(r"\bcall\b[^;]*?(\w+),\s*\(", body)
        if [c for c in calls if not re.search(f"{name}_(traced|polled)", c) and not any(inner in c for inner in INNER)]:
            failed.append(f"PTX: {name} calls {calls}")
        if re.search(r"fence\S*\.(gpu|sys)", body) and "patch_ended" not in name:
            failed.append(f"PTX: a fence is in {name}")
    for number in {n for _, n, *_ in rows}:
        if len([n for _, n, *_ in rows if n == number]) > 1:
            failed.append(f"patch.def: two rows for {number}")
    print("\n".join(failed) or f"{len(rows)} patches")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
