"""`memtrace check python3 script.py`: faults of Numba's, CuPy's, Triton's and PyTorch's kernels (programs/*_faults.py) are found with the
script's lines, also where arrays come from a pool; in their right twins nothing is."""
import os
import sys

from cases import HERE, environment, need_torch, python
from findings import check, expected, judge
from harness import case, expect, same

ARRAY = {"bytes": 4000, "distance": 0, "side": "after"}  # where each access that is out of bounds is


def place(finding):
    """The line in the script, or what file it is in."""
    path = finding.get("file", "")
    return finding["line"] if os.path.dirname(os.path.realpath(os.path.join(HERE, path))) == os.path.join(HERE, "programs") else path


def judge_script(name, **more):
    """The findings of the faulty one."""
    program = os.path.join(HERE, "programs", name)
    found, right = (judge([python(), program], twin, due, place, cwd=HERE, env=environment(**more))
                    for twin, due in (("all", expected(program)["all"]), ("all-right", set())))
    for f in found + right:
        expect(f["kind"] != "out-of-bounds" or {k: f["allocation"][k] for k in ARRAY} == ARRAY, f)
        expect(f["kind"] != "leak", f)
        expect("stack" not in f, "callers are the interpreter's:", f)
    return found


ASKING = """import ctypes
cu, context, table = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert (cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cu.cuCtxSetCurrent(context)) == (0, 0, 0)
assert cu.cuGetExportTable(ctypes.byref(table), bytes(16)) and cu.cuMemFree_v2(ctypes.c_uint64(64))
"""


@case("check.asking")
def asking():
    """Runtimes in packages ask the driver for tables that it may lack: no failed call, as that after it is. Without a package."""
    found, _ = check(sys.executable, "-c", ASKING, code=1, env=environment())
    same("failed calls", [(f["kind"], f["call"]) for f in found["findings"]], [("failed-call", "cuMemFree_v2")])


@case("check.numba")
def numba():
    judge_script("numba_faults.py")


@case("check.cupy")
def cupy():
    """The pools that the script makes are three."""
    found = judge_script("cupy_faults.py")
    same("launches on arrays of pools", [f["launches"] for f in found if f.get("allocation", {}).get("name") == "in_pool"], [3])


@case("check.triton")
def triton():
    judge_script("triton_faults.py")


@case("check.order", "numba", "cupy", "triton")
def order(world):
    """Between blocks, streams and the host: fences, atomics of other scopes, events that are recorded again, frees, unfinished copies."""
    judge_script(world.variant + "_order.py")


@case("check.torch", "plain", "segments")
def torch(world):
    """Also where the pool's own options are set."""
    need_torch()
    judge_script("torch_faults.py", **({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if world.variant == "segments" else {}))
