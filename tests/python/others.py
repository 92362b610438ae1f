"""Packages that stand in the place of known ones."""
# Packages whose functions take other arguments, and have other insides, than those that were tried. CuPy's are 12's and 13's.
OTHERS = {
    "cupy/cuda/compiler.py": """_use_ptx = False
def _compile_module_with_cache(source, options=(), arch=None, cache_dir=None, extra_source=None, backend="nvrtc", *, log_stream=None):
    return source.splitlines()[-1], options, arch, cache_dir, backend, _use_ptx
""",
    "triton/backends/nvidia/compiler.py": """class CUDABackend:
    def make_cubin(self, src, metadata, opt, capability):
        return "original", src, capability
""",
    "numba/cuda/dispatcher.py": """class CUDADispatcher:
    def __init__(self, py_func, targetoptions, *, pipeline=None):
        self.made = py_func, targetoptions, pipeline
    def enable_caching(self, where):
        return "cached"
""",
    "numba/cuda/codegen.py": """class CUDACodeLibrary:
    def _link_all(self, linker, cc, extra, ignore_nonlto):
        return "linked", cc, extra, ignore_nonlto
""",
    "numba/cuda/cudadrv/driver.py": """Linker = object
class _PendingDeallocs:
    def __init__(self):
        pass
    def clear(self):
        pass
class ObjectCode:
    from_cubin = None.__class__
class _Linker:
    def _get_linker_options(self, ptx):
        pass
    def close(self):
        pass
    def complete(self, how):
        return "completed", how
""",
    "numba/cuda/cudadrv/linkable_code.py": "class LTOIR:\n    pass\n",
    "torch/_inductor/utils.py": """def python_subprocess_env():
    return {"A": "B"}
""",
    "torch/_inductor/runtime/triton_heuristics.py": """class CachingAutotuner:
    def benchmark_all_configs(self, input_grid, *args):
        return "benched", input_grid, args
    def autotune_to_one_config(self):
        pass
"""}
OTHER_PROGRAM = """import cupy.cuda.compiler as c, triton.backends.nvidia.compiler as t, numba.cuda.dispatcher as d, torch._inductor.utils as u
import torch._inductor.runtime.triton_heuristics as h
from numba.cuda import codegen
from numba.cuda.cudadrv import driver
print(c._compile_module_with_cache("text", ("-O1",), "sm_80", "/cache", None, "nvrtc", log_stream=None))
print(c._compile_module_with_cache("text", backend="nvcc"))
try:
    c._compile_module_with_cache("text", nothing=1)
except TypeError as why:
    print(why)
print(t.CUDABackend().make_cubin(b"ptx", {}, None, capability=90))
print(t.CUDABackend().make_cubin("ptx", {}, None, 90))
one = d.CUDADispatcher("f", targetoptions={}, pipeline=2)
print(one.made, one.enable_caching("here"))
print(codegen.CUDACodeLibrary()._link_all(3, 4, 5, ignore_nonlto=6))
print(driver._Linker().complete(7))
print(u.python_subprocess_env()["A"], h.CachingAutotuner().benchmark_all_configs(8, 9))
"""
OTHER_OUTPUT = """('text', ('-O1', '-lineinfo'), 'sm_80', '/cache', 'nvrtc', True)
('text', (), None, None, 'nvcc', True)
_compile_module_with_cache() got an unexpected keyword argument 'nothing'
('original', b'ptx', 90)
b'ptx\\x00'
('f', {'lineinfo': True}, 2) None
('linked', 4, 5, 6)
('completed', 7)
B ('benched', 8, (9,))
"""

# What it allocates has as many bytes as the line's number says from which it is asked to.
PACKAGE = """
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
context, module, kernel = (ctypes.c_void_p() for _ in range(3))
PTX = b".version 8.0\\n.target sm_80\\n.address_size 64\\n.visible .entry k() { ret; }\\n"
def begin():
    assert not cu.cuInit(0) and not cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    assert not cu.cuCtxSetCurrent(context) and not cu.cuModuleLoadData(ctypes.byref(module), PTX)
    assert not cu.cuModuleGetFunction(ctypes.byref(kernel), module, b"k")
    assert not cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
def take(n):
    assert not cu.cuCtxSetCurrent(context) and not cu.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(n))
"""
ASKING = """import sys, threading
import cuda.bindings.driver  # what the hook waits for
from numpy import begin, take
here = lambda: sys._getframe(1).f_lineno
begin()
take(here())
def generate():
    take(here())
    yield [take(here()) for _ in range(2)]
class Body:
    take(here())
    def __call__(self):
        take(here())
list(generate())
Body()()
thread = threading.Thread(target=lambda: take(here()))
thread.start()
thread.join()
exec("take(%d)" % here())
sorted([2, 1], key=lambda _: take(here()) or 0)
"""

# A package whose arrays are allocations of a byte more each.
ARRAYS = PACKAGE + """
import sys
count = 0
class Array:
    def __init__(self):
        global count
        count += 1
        self.pointer = ctypes.c_uint64()
        assert not cu.cuMemAlloc_v2(ctypes.byref(self.pointer), ctypes.c_size_t(count))
    def __add__(self, other):
        return Array()
    __iadd__ = __add__
    def reshape(self, *_):
        return self
    def __getitem__(self, _):
        return self
    def reduce(self, _):
        return self
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def name(self, text):
        ctypes.CDLL(None).memtrace_name(self.pointer, text.encode())
        return self
take = lambda n: Array()
Parameter = lambda a: a
operators = sys.modules[__name__]
"""
