"""Numba: kernels are linked to PTX instead of machine code, with lines; its cache is not used."""
import ctypes
import sys
import weakref

from memtrace_python import Unknown, adjusted, need, replaced

PACKAGES = ("numba-cuda", "numba")
KNOWN = "numba-cuda 0.30"
HERE = sys.modules[__name__]


def with_lines(dispatcher):
    begin, cache = need(dispatcher, "__init__", ("py_func", "targetoptions")), need(dispatcher, "enable_caching")

    def with_line(call):
        if not call["targetoptions"].get("debug"):
            call["targetoptions"] = {**call["targetoptions"], "lineinfo": True}

    def enable_caching(**_):
        """Does nothing: the cache would contain machine code."""

    return [(dispatcher, "__init__", adjusted(HERE, begin, with_line)),
            (dispatcher, "enable_caching", replaced(HERE, cache, enable_caching))]


def link_in_driver(codes):
    """Links several pieces of PTX, which only the driver can do."""
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
    """Lets the driver link everything but LTO-IR to a kernel; it has the functions of libcudadevrt."""
    link_all = need(library, "_link_all", ("self", "linker", "ignore_nonlto"))

    def is_ltoir(code):
        return code.endswith(".ltoir") if isinstance(code, str) else isinstance(code, linkable.LTOIR)

    def joined(call):
        self, devrt = call["self"], call["self"].needs_cudadevrt
        if not call["ignore_nonlto"] and not all(is_ltoir(code) for code in self._linking_files) or devrt:
            call["linker"].lto = False
        self.needs_cudadevrt = False
        return lambda: setattr(self, "needs_cudadevrt", devrt)

    need(linkable, "LTOIR")
    return [(library, "_link_all", adjusted(HERE, link_all, joined))]


def free_at_exit(pending):
    """Frees the last batch at exit: memory of dropped arrays is freed in batches, and the last one would look like a leak."""
    begin = need(pending, "__init__")
    need(pending, "clear")

    def registered(call):
        weakref.finalize(call["self"], call["self"].clear)  # called in reverse order: after those of arrays, which are created later

    return [(pending, "__init__", adjusted(HERE, begin, registered))]


def attach(dispatcher):
    from numba.cuda import codegen
    from numba.cuda.cudadrv import driver, linkable_code
    linker = need(driver, "_Linker")
    lto, code_type = need(driver, "Linker"), need(driver, "ObjectCode")
    options = need(linker, "_get_linker_options", ("ptx",))
    need(linker, "close")

    def complete(self, **_):
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

    link, _ = need(linker, "complete", ("self",)), need(code_type, "from_cubin")
    changes = link_as_ptx(need(codegen, "CUDACodeLibrary"), linkable_code) + with_lines(need(dispatcher, "CUDADispatcher"))
    changes += free_at_exit(need(driver, "_PendingDeallocs"))
    for thing, name, function in changes + [(linker, "complete", replaced(HERE, link, complete))]:
        setattr(thing, name, function)  # all or none
