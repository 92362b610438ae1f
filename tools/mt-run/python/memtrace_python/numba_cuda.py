"""Numba: kernels are linked to PTX instead of machine code, with lines; nothing is taken from or put into its cache."""
import ctypes

from memtrace_python import Unknown, need

PACKAGES = ("numba-cuda", "numba")
KNOWN = "numba-cuda 0.30"


def with_lines(dispatcher):
    begin = need(dispatcher, "__init__", ("py_func", "targetoptions"))

    def __init__(self, py_func, targetoptions, *more, **named):
        if not targetoptions.get("debug"):
            targetoptions = {**targetoptions, "lineinfo": True}
        begin(self, py_func, targetoptions, *more, **named)

    def enable_caching(self):
        """What is cached is machine code."""

    need(dispatcher, "enable_caching")
    dispatcher.__init__ = __init__
    dispatcher.enable_caching = enable_caching


def link_in_driver(codes):
    """Several pieces of PTX as one, which only the driver links."""
    cuda = ctypes.CDLL("libcuda.so.1")
    state, out, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()

    def check(name, *args):
        code = getattr(cuda, name)(*args)
        if code:
            raise RuntimeError(f"{name}: CUDA error {code}")

    check("cuLinkCreate_v2", 0, None, None, ctypes.byref(state))
    try:
        for kind, name, data in codes:
            number = {"cubin": 0, "ptx": 1, "fatbin": 2}.get(kind)
            if number is None:
                raise RuntimeError(f"memtrace: {name}: code of the kind {kind} cannot be linked to a kernel on the CPU device")
            check("cuLinkAddData_v2", state, number, data, ctypes.c_size_t(len(data)), name.encode(), 0, None, None)
        check("cuLinkComplete", state, ctypes.byref(out), ctypes.byref(size))
        return ctypes.string_at(out, size.value)
    finally:
        cuda.cuLinkDestroy(state)


def link_as_ptx(library, linkable):
    """What is linked to a kernel besides LTO-IR is joined in the driver, which has what libcudadevrt is for."""
    link_all = need(library, "_link_all", ("linker", "ignore_nonlto"))

    def is_ltoir(code):
        return code.endswith(".ltoir") if isinstance(code, str) else isinstance(code, linkable.LTOIR)

    def _link_all(self, linker, cc, ignore_nonlto=False):
        devrt, self.needs_cudadevrt = self.needs_cudadevrt, False
        try:
            if not ignore_nonlto and not all(is_ltoir(code) for code in self._linking_files) or devrt:
                linker.lto = False
            link_all(self, linker, cc, ignore_nonlto)
        finally:
            self.needs_cudadevrt = devrt

    need(linkable, "LTOIR")
    library._link_all = _link_all


def attach(dispatcher):
    from numba.cuda import codegen
    from numba.cuda.cudadrv import driver, linkable_code
    linker = need(driver, "_Linker")
    lto, code_type = need(driver, "Linker"), need(driver, "ObjectCode")
    options = need(linker, "_get_linker_options", ("ptx",))
    need(linker, "close")

    def complete(self):
        self.lineinfo = True
        codes = self._object_codes
        if self._has_ltoir:
            self.linker = lto(*codes, options=options(self, ptx=True))
            result = self.linker.link("ptx")
            self.close()
        else:
            self.linker, self._info_log, self._error_log = self, "", ""
            result = codes[0] if len(codes) == 1 else code_type.from_cubin(
                link_in_driver([(c.code_type, c.name, bytes(c.code)) for c in codes]))
        self._complete = True
        return result

    if not hasattr(linker, "complete") or not hasattr(code_type, "from_cubin"):
        raise Unknown("there is no _Linker.complete")
    link_as_ptx(need(codegen, "CUDACodeLibrary"), linkable_code)
    with_lines(need(dispatcher, "CUDADispatcher"))
    linker.complete = complete
