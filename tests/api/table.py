#!/usr/bin/env python3
"""docs/api.md: what becomes of each function of the toolkit's libcudart.so in libmemtrace.so.

usage: table.py --write|--check LIBMEMTRACE LIBCUDART DOCS/API.MD

--write makes the page anew, --check fails (1) when it is not what the two libraries say. 77: there is no libcudart.so,
or it is another version than the page's.
"""
import os
import re
import subprocess
import sys
import textwrap

# After its recorder each of these does its work on both devices: there is no impl_ of it.
BY_RECORDER = re.compile(r"cudaLaunch(Kernel|KernelExC|CooperativeKernel)$|__cuda(Register|Unregister|Push|Pop|Launch|Init"
                         r"|GetKernel)")
# What is there with a limit that a caller should know.
NOTES = {
    "cudaLaunchKernelExC": "clusters of up to 8 CTAs, or 16 where they are allowed",
    "cudaMemPoolCreate": "handle types: cudaErrorNotSupported, as the device's attribute says",
    "cudaMemGetDefaultMemPool": "pools of the device only",
    "cudaMemGetMemPool": "pools of the device only",
    "cudaMemSetMemPool": "pools of the device only",
    "cudaDeviceReset": "CPU device: streams and events that the program made are cudaErrorInvalidResourceHandle afterwards",
    "cudaDeviceSetLimit": "the heap of `malloc` in kernels ends there; others are kept, without effect",
    "cudaLogsRegisterCallback": "never called: what is wrong is said on stderr",
    "cudaMemAdvise": "kept for cudaMemRangeGetAttribute, no effect",
    "cudaMemPrefetchAsync": "kept for cudaMemRangeGetAttribute, no effect",
    "cudaMalloc3DArray": "block-compressed, sparse and deferred arrays: cudaErrorNotSupported",
    "cudaMallocArray": "block-compressed, sparse and deferred arrays: cudaErrorNotSupported",
    "cudaCreateTextureObject": "see textures.md",
    "cudaCreateSurfaceObject": "see textures.md",
}
GROUPS = [
    ("Launches and registration", r"__cuda|cudaLaunch(?!HostFunc)|cudaFunc|cudaGetFunc|cudaGetKernel|cudaOccupancy"
                                  r"|cudaKernel|cudaLibrary|cudaSetDoubleFor"),
    ("Graphs and capture", r"cudaGraph(?!ics)|cudaStream.*Captur|cudaThreadExchange|cudaUserObject|cudaDevice.*Graph"),
    ("Textures, surfaces, arrays", r"cuda.*(Texture|Surface|Array|Mipmapped|ChannelDesc)"),
    ("Graphics and external objects", r"cuda(Graphics|GL|EGL|VDPAU|Event.*EGL|.*External|.*NvSci)"),
    ("Memory", r"cuda(Malloc|Free|Mem|Host(Alloc|Reg|Unreg|Get)|Pointer|Ipc.*Mem|GetSymbol)"),
    ("Streams and events", r"cuda(Stream|Event|Launch|Ipc.*Event|CtxReset)"),
    ("Device", r"cuda(Device|GetDevice|SetDevice|Choose|Init|SetValid|.*Version|Profiler|IpcX)"),
    ("Errors and the rest", r""),
]


def symbols(path, *options):
    out = subprocess.run(["nm", *options, path], text=True, check=True, capture_output=True).stdout
    # One "@": for programs of older versions alone.
    return {line.split()[-1].split("@")[0] for line in out.splitlines() if re.search(r" [tTW] [^@]+(@@.*)?$", line)}


def version(lib):
    """The toolkit's version, as its own runtime gives it."""
    import ctypes
    number = ctypes.c_int(0)
    ctypes.CDLL(lib).cudaRuntimeGetVersion(ctypes.byref(number))
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


def row(name, ours, own):
    variants = [f"{name}_v2"] if name not in own["impl"] and f"{name}_v2" in ours else []
    known = variants[0] if variants else name
    recorded = known in own["rec"]
    here = known in own["impl"] or (recorded and BY_RECORDER.match(known))
    if known not in ours:
        cpu, gpu = "not exported", "not exported"
    else:
        cpu = "yes" if here else "cudaErrorNotSupported"
        gpu = "recorded" if recorded else "forwarded"
    note = NOTES.get(name, "") if here else ""
    return f"| `{name}` | {cpu} | {gpu} | {note} |", bool(here)


def page(ours_path, theirs_path):
    ours = symbols(ours_path, "-D", "--defined-only")
    theirs = {n for n in symbols(theirs_path, "-D", "--defined-only") if re.match(r"_*cuda", n)}
    local = symbols(ours_path, "--defined-only")
    own = {kind: {n[len(kind) + 1:] for n in local if n.startswith(kind + "_")} for kind in ("impl", "rec")}
    names = sorted({re.sub(r"_pt(ds|sz)$", "", n) for n in theirs}, key=lambda n: (n.lstrip("_").lower(), n))
    groups = {title: [] for title, _ in GROUPS}
    there = 0
    for name in names:
        text, here = row(name, ours, own)
        there += here
        groups[next(title for title, pattern in GROUPS if re.match(pattern, name))].append(text)
    lines = [
        "# The CUDA runtime API in libmemtrace.so",
        "",
        "For those who want to know whether a call works: each function that `libcudart.so` of CUDA"
        f" {version(theirs_path)} exports, without",
        "its per-thread-stream variant (`_ptds`, `_ptsz`), which behaves alike. Made by `tests/api/table.py --write` from the two",
        "libraries; the test `api.table` fails when it is stale.",
        "",
        "- CPU device: *yes*, or what it returns. A call that the device lacks says its name once on stderr.",
        "- GPU: *recorded* (into the companion, or as a launch) or *forwarded* to the real runtime as it came.",
        "",
        f"{there} of {len(names)} work on the CPU device. The driver API is at the [end](#the-driver-api).",
    ]
    for title, rows in groups.items():
        if rows:
            lines += ["", f"## {title}", "", "| function | CPU device | GPU | |", "|---|---|---|---|", *rows]
    return "\n".join(lines + driver(ours, local)) + "\n"


def driver(ours, local):
    """The driver API: what each function of cuda.h is on the CPU device."""
    own = {m[1] for n in local for m in [re.match(r"(?:drv|same)_(cu[A-Z]\w*)$", n)] if m}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../runtime/driver/driver.def")) as f:
        own |= {name for name, other in re.findall(r"^LIKE\((\w+), (\w+)\)", f.read(), re.M) if other in own}
    names = sorted(n for n in ours if re.match(r"cu[A-Z]", n) and not re.search(r"_pt(ds|sz)$", n))
    here, absent = [n for n in names if n in own], [n for n in names if n not in own]
    text = lambda these: textwrap.fill(", ".join(f"`{n}`" for n in these), 120, break_long_words=False)
    return ["", "## The driver API", "",
            f"`libmemtrace.so` has the {len(names)} functions of `cuda.h` under the names that `libcuda.so.1` exports (those for",
            "per-thread default streams not counted). On a GPU they are the real driver's: what a program of mt-cc launches by them runs untraced and is "
            "counted,\nand what it copies or fills by them is said to be missing; either makes the traces incomplete. `memtrace run ./app` traces such programs "
            "whole.",
            f"On the CPU device {len(here)} functions work, and are traced:", "", text(here), "",
            "The others say their name once on stderr and return `CUDA_ERROR_NOT_SUPPORTED`:", "", text(absent)]


def main():
    how, ours, theirs, out = sys.argv[1:]
    if not os.path.exists(theirs):
        print("no libcudart.so to compare with:", theirs)
        return 77
    text = page(ours, theirs)
    if how == "--write":
        with open(out, "w") as f:
            f.write(text)
        return 0
    with open(out) as f:
        old = f.read()
    if f"of CUDA {version(theirs)} " not in old:
        print("the page is for another version of CUDA")
        return 77
    if old == text:
        return 0
    import difflib
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), out, "the libraries"))
    print("\nnow: ninja -C build api-table")
    return 1


if __name__ == "__main__":
    sys.exit(main())
