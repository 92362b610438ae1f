"""Triton: the PTX text takes the place of the cubin. Its cache is in a folder of our own."""
import os
import re
import sys

from memtrace_python import Unknown, need, package_folder, replaced

PACKAGES = ("triton",)
KNOWN = "triton 3.9"
HERE = sys.modules[__name__]
ARCH = "sm89"  # later ones use wgmma for matrix products, which the CPU device does not run
OUR_DRIVER = os.path.normpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "driver"))
ROUNDED = re.compile(r"\b(add|sub|mul)(\.ftz)?(\.f32|\.f64|\.f32x2)\b")
INLINE = re.compile(r"// begin inline asm\n.*?// end inline asm\n", re.S)
PLACE = re.compile(r"^[ \t]*\.loc[ \t][^\n]*\n", re.M)


def one_place(block):
    """Keeps the first line of inline assembly: the compiler counts on from it, but only the first is a source line."""
    first = PLACE.search(block[0])
    return block[0][:first.end()] + PLACE.sub("", block[0][first.end():]) if first else block[0]


def as_cubin(ptx, fused):
    """Marks products that must not become multiply-adds: ptxas fuses them by default; in the text the rounding forbids it."""
    ptx = INLINE.sub(one_place, ptx)
    if not fused:
        ptx = ROUNDED.sub(r"\1.rn\2\3", ptx)
    return ptx.encode() + b"\0"


def attach(compiler):
    backend = need(compiler, "CUDABackend")
    make = need(backend, "make_cubin", ("self", "src", "opt"))
    folder = package_folder("triton")

    def make_cubin(src, opt, **_):
        if not isinstance(src, str):
            raise Unknown("its PTX is no text")
        return as_cubin(src, getattr(opt, "enable_fp_fusion", True))

    backend.make_cubin = replaced(HERE, make, make_cubin)
    os.environ["TRITON_CACHE_DIR"] = folder
    os.environ.setdefault("TRITON_OVERRIDE_ARCH", ARCH)
    os.environ["TRITON_LIBCUDA_PATH"] = OUR_DRIVER  # linked to its launcher
