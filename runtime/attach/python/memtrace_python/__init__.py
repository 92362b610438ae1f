"""Makes Python packages that compile kernels pass PTX to memtrace's driver, so that the kernels run on its CPU device.

A watched module is changed in memory after its import; nothing is changed on a GPU, or in a process without our driver.
A package that differs from the version that its file here expects is left unchanged, with a message. So functions are
replaced only through `adjusted` and `replaced`, which accept the same calls as the package's own function."""
import functools
import importlib
import importlib.util
import os
import sys

# Watched imports: file here whose attach(module) is called after the import. None: only for lines of calls.
WATCHED = {
    "numba.cuda.dispatcher": "numba_cuda",
    "cupy.cuda.compiler": "cupy_nvrtc",
    "cupy.cuda": "cupy_memory",
    "triton.backends.nvidia.compiler": "triton_nvidia",
    "torch._C": "torch_inductor",
    "torch._inductor.config": "torch_inductor",
    "torch._inductor.utils": "torch_inductor",
    "torch._inductor.runtime.triton_heuristics": "torch_inductor",
    "cuda.bindings.driver": None,
    "pycuda._driver": None,
}


class Unknown(Exception):
    """The package lacks something that this hook changes, or has it in another form."""


def say(text):
    sys.stderr.write(f"memtrace: {text}\n")
    sys.stderr.flush()


def driver_is_ours():
    import ctypes
    try:
        return hasattr(ctypes.CDLL("libcuda.so.1"), "mt_runtime_version")
    except OSError:
        return False


def memory_is_checked():
    """Returns whether each array must be an allocation of its own, with an exact end, and not part of a pool. It is allocated and freed
    in stream order, as in a pool: cudaFree would wait for all streams, and hide missing waits."""
    return os.environ.get("MEMTRACE_CHECK", "0") in ("1", "stop")


def version_of(package):
    from importlib import metadata
    for name in package:
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            pass
    return f"{package[0]} of unknown version"


def signature(function):
    import inspect
    return inspect.signature(function)


def need(thing, name, parameters=None):
    """Returns the attribute; raises Unknown if it is missing, or does not take these parameters."""
    found = getattr(thing, name, None)
    if found is None:
        raise Unknown(f"there is no {name}")
    if parameters and not set(parameters) <= set(signature(found).parameters):
        raise Unknown(f"{name} takes other arguments")
    return found


def ask(name, *args):
    """Returns the path given by a function of memtrace's library, which checks files, or None."""
    import ctypes
    path = ctypes.create_string_buffer(4096)  # PATH_MAX
    for library in None, "libcuda.so.1":
        function = getattr(ctypes.CDLL(library), name, None)
        if function:
            return os.fsdecode(path.value) if function(*args, path, ctypes.c_size_t(len(path))) == 0 else None
    return None


said = set()


def unknown(hook, why):
    """Prints a message once per package."""
    if hook.__name__ not in said:
        said.add(hook.__name__)
        say(f"{version_of(hook.PACKAGES)} is not known ({why}): it is left as it is, and kernels that it loads as machine code do not "
            f"run on the CPU device; known: {hook.KNOWN}")


def wrong(why):
    return str(why) if isinstance(why, Unknown) else f"{type(why).__name__}: {why}"


def bound(known, args, named):
    """Returns the arguments by name, or None: the function itself will report what is wrong with them."""
    try:
        call = known.bind(*args, **named)
    except TypeError:
        return None
    call.apply_defaults()
    return call


def adjusted(hook, original, change):
    """Wraps the original: `change` may change its arguments, given by name; a function that it returns is called afterwards."""
    known = signature(original)

    @functools.wraps(original)
    def function(*args, **named):
        call, after = bound(known, args, named), None
        try:
            after = change(call.arguments) if call else None
            args, named = (call.args, call.kwargs) if call else (args, named)
        except Exception as why:
            unknown(hook, wrong(why))
        try:
            return original(*args, **named)
        finally:
            if after:
                after()
    return function


def replaced(hook, original, ours):
    """Wraps `ours`, which gets the arguments by name; falls back to the original if ours does not recognise its input."""
    known = signature(original)

    @functools.wraps(original)
    def function(*args, **named):
        call = bound(known, args, named)
        try:
            if call:
                return ours(**call.arguments)
        except (AttributeError, KeyError, TypeError, Unknown) as why:
            unknown(hook, wrong(why))
        return original(*args, **named)
    return function


def cache_folder(package):
    """Returns a cache folder for the package, separate from that for a GPU, or None: nothing is cached."""
    return ask("__mt_cache_folder", package.encode())


def package_folder(package):
    """Same, but if nothing is cached, returns a folder that is removed at process exit."""
    import atexit
    import shutil
    import tempfile
    folder = cache_folder(package)
    for place in () if folder else (None, "/tmp", "/var/tmp"):
        made = tempfile.mkdtemp(prefix=f"memtrace-{package}-", dir=place)
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        if ask("__mt_trusted_folder", os.fsencode(made)):
            return made
    if not folder:
        raise Unknown("there is no folder for its files")
    return folder


def source_file(folder, text):
    """Writes a file with this text, named after its contents, to the folder, or beside the traces if it is None."""
    import ctypes
    text = text.encode()
    return ask("__mt_source_file", folder and os.fsencode(folder), text, ctypes.c_size_t(len(text)))


def tell_packages():
    """Tells memtrace the folders of NVIDIA's libraries installed by pip, for those that it intercepts."""
    import ctypes
    tell = getattr(ctypes.CDLL(None), "__mt_python_packages", None)
    for folder in sys.path if tell else ():
        if os.path.isdir(os.path.join(folder, "nvidia")):
            tell(os.fsencode(os.path.abspath(folder)))
            break


def attach(which, module):
    tell_packages()
    importlib.import_module("memtrace_python.lines").on()
    if not which or not driver_is_ours():
        return
    hook = importlib.import_module("memtrace_python." + which)
    try:
        hook.attach(module)
    except Exception as why:
        unknown(hook, wrong(why))


class Watch:
    """A finder that delegates to the others, and notices the end of an import."""

    def __init__(self):
        self.waiting = dict(WATCHED)

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting:
            return None
        which = self.waiting.pop(name)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec:
                break
        else:
            return None
        run = getattr(spec.loader, "exec_module", None)
        if run:
            def then(module):
                run(module)
                if module.__name__ == name:  # some loaders have several
                    attach(which, module)
            try:
                spec.loader.exec_module = then
            except (AttributeError, TypeError):
                say(f"{name} is loaded by a {type(spec.loader).__name__}: it is left as it is")
        return spec


def watch():
    if memory_is_checked():  # PyTorch reads this as soon as its library is loaded
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
    sys.meta_path.insert(0, Watch())
