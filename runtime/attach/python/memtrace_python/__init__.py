"""Makes Python packages that compile kernels hand over PTX, where the driver is memtrace's and kernels run on its CPU device.

A module that is watched is changed in memory when its import has ended; on a GPU, and in a process without our driver,
nothing is. A package that is not what its file here was written for is left as it is, and that is said. So nothing here
takes a function's place but by `adjusted` and `replaced`, which are called as the package's own function is."""
import functools
import importlib
import importlib.util
import os
import sys

# The import that is waited for: the file here whose attach(module) is called then. None: only lines of calls are wanted.
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
    """The package lacks what this hook changes, or has it in another form."""


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
    """An array is then to be an allocation of its own, whose end is known to the byte, and not a piece of a pool's. It comes and goes in
    the order of a stream, as in a pool: cudaFree would wait for all streams, and hide what they lack."""
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
    """The attribute; Unknown if it is not there, or does not take these parameters."""
    found = getattr(thing, name, None)
    if found is None:
        raise Unknown(f"there is no {name}")
    if parameters and not set(parameters) <= set(signature(found).parameters):
        raise Unknown(f"{name} takes other arguments")
    return found


def ask(name, *args):
    """A function of memtrace's library that leaves a path; None: it has none. The rules for files are there."""
    import ctypes
    path = ctypes.create_string_buffer(4096)  # PATH_MAX
    for library in None, "libcuda.so.1":
        function = getattr(ctypes.CDLL(library), name, None)
        if function:
            return os.fsdecode(path.value) if function(*args, path, ctypes.c_size_t(len(path))) == 0 else None
    return None


said = set()


def unknown(hook, why):
    """Once for each package."""
    if hook.__name__ not in said:
        said.add(hook.__name__)
        say(f"{version_of(hook.PACKAGES)} is not known ({why}): it is left as it is, and kernels that it loads as machine code do not "
            f"run on the CPU device; known: {hook.KNOWN}")


def wrong(why):
    return str(why) if isinstance(why, Unknown) else f"{type(why).__name__}: {why}"


def bound(known, args, named):
    """The arguments by their names; None: the function will say itself what is wrong with them."""
    try:
        call = known.bind(*args, **named)
    except TypeError:
        return None
    call.apply_defaults()
    return call


def adjusted(hook, original, change):
    """The original, whose arguments `change` sees by their names, and may change; what it gives back is called afterwards."""
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
    """`ours`, which gets the arguments by their names; the original where ours does not know what it finds."""
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
    """A folder for what the package keeps, apart from what it keeps for a GPU; None: nothing is kept."""
    return ask("__mt_cache_folder", package.encode())


def package_folder(package):
    """The same; where nothing is kept, a folder that goes with this process."""
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
    """A file with this text, named by its contents, in the folder or, if that is None, beside the traces."""
    import ctypes
    text = text.encode()
    return ask("__mt_source_file", folder and os.fsencode(folder), text, ctypes.c_size_t(len(text)))


def tell_packages():
    """Where NVIDIA's libraries are that pip installed, for those before which memtrace stands."""
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
    """A finder that finds what the others find, and notices when it has been imported."""

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
