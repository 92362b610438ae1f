"""Tells the driver the memory layout of Python's frames, so that it finds the line of a launch, an allocation or a copy.

Offsets that differ between versions are found by searching known objects for known values. Then the driver is tested
with a known line: lines are on only if it finds that one."""
import atexit
import ctypes
import importlib.util
import os
import sys
import types

from memtrace_python import Unknown, answers, cache_folder, say

DIRECT = 0xffffffff
# Offset in the thread state of the holder of its frame, and of the frame in the holder; later versions have no holder.
HOLDERS = {(3, 11): (56, 8), (3, 12): (56, 0)}
# Packages whose lines are not the program's.
PACKAGES = ("numba", "numba_cuda", "llvmlite", "cupy", "cupyx", "cupy_backends", "triton", "torch", "functorch", "cuda", "pycuda", "numpy")
kept = []  # objects that the driver points to

class Layout(ctypes.Structure):
    """struct mt_python of runtime/trace/site.h."""
    _fields_ = [(name, ctypes.c_uint32) for name in (
        "bytes", "thread_frame", "holder_frame", "frame_code", "frame_previous", "frame_instruction", "code_file", "code_instructions",
        "string_length", "string_state", "state_ascii", "state_kind", "string_ascii", "string_other")] + [
        (name, ctypes.c_void_p) for name in ("code_type", "thread", "line", "place", "skip")]

def words(address, n):
    return (ctypes.c_uint64 * n).from_address(address)[:]

def place(found, value, what):
    """Returns the offset in bytes of the word with this value. The low bits of a pointer may be in use."""
    for at, word in enumerate(found):
        if value in (word, word & ~7):
            return at * 8
    raise Unknown(f"there is no {what}")

def add_strings(layout):
    """Finds the layout of a string's state: three bits for the bytes of a character, one that is always set here, one for ASCII."""
    length = layout.bytes + 1  # no constants: those are interned
    samples = [character * length for character in ("x", "\xe9", "\u0100", "\U00010000")]
    states = [words(id(s), 5)[4] & 0xffffffff for s in samples]
    layout.string_length, layout.string_state = 16, 32
    # New strings: older ones may have a cached second form, which changes the size.
    layout.string_ascii, layout.string_other = (sys.getsizeof(s) - length - 1 for s in samples[:2])
    for shift in range(28):
        if [v >> shift & 31 for v in states] == [25, 9, 10, 12] and words(id(samples[0]), 3)[2] == length:
            layout.state_kind, layout.state_ascii = shift, shift + 4
            return
    raise Unknown("strings are others")

def add_frames(layout, state):
    """This function's frame is running; its caller's frame does not change."""
    inner = sys._getframe()
    outer = inner.f_back
    frame, caller = words(id(inner), 4)[3], words(id(outer), 4)[3]
    code = outer.f_code
    layout.code_instructions = types.CodeType.__basicsize__
    layout.code_file = place(words(id(code), layout.code_instructions // 8), id(code.co_filename), "file")
    layout.frame_code = place(words(caller, 8), id(code), "code")
    layout.frame_previous = place(words(frame, 10), caller, "caller")
    layout.frame_instruction = place(words(caller, 12), id(code) + layout.code_instructions + outer.f_lasti, "instruction")
    holder = HOLDERS.get(sys.version_info[:2])
    # Read here: a called function would have the running frame.
    if holder:
        layout.thread_frame, layout.holder_frame = holder
        there = words(state + holder[0], 1)[0] + holder[1]
        place((ctypes.c_uint64 * 1).from_address(there)[:], frame, "frame")
    else:
        layout.holder_frame = DIRECT
        layout.thread_frame = place((ctypes.c_uint64 * 24).from_address(state)[:], frame, "frame")

def add_skipped(layout):
    paths = [os.path.dirname(os.path.abspath(__file__)) + os.sep]
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        paths += [os.path.join(p, "") for p in spec.submodule_search_locations or ()] if spec else []
    generated, here = cache_folder("torch"), os.path.dirname(os.__file__)
    if generated:
        paths.append(os.path.join(generated, ""))
    paths += ["!" + os.path.join(here, name, "") for name in ("site-packages", "dist-packages")]
    paths += [os.path.join(here, ""), "<frozen", "<string>", "<shim", "<eval_with_key", "<__array_function__"]
    skip = (ctypes.c_char_p * (len(paths) + 1))(*(os.fsencode(p) for p in paths))
    kept.append(skip)
    layout.skip = ctypes.addressof(skip)

def tried(driver):
    """Returns the line of the call below, as found by the driver."""
    file = ctypes.create_string_buffer(4096)
    line, known = driver.__mt_python_line(file, 4096), sys._getframe().f_lineno
    return os.fsdecode(file.value) == __file__ and line == known

def make(driver):
    if sys.version_info < (3, 11) or sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise Unknown("it is older than 3.11, or of another kind")
    layout = Layout(bytes=ctypes.sizeof(Layout), code_type=id(types.CodeType))
    kept.append(layout)
    python = ctypes.pythonapi
    python.PyGILState_GetThisThreadState.restype = ctypes.c_void_p
    state = python.PyGILState_GetThisThreadState()
    layout.thread, layout.line, layout.place = (ctypes.cast(f, ctypes.c_void_p).value for f in (
        python.PyGILState_GetThisThreadState, python.PyCode_Addr2Line, python.PyCode_Addr2Location))
    add_strings(layout)
    add_frames(layout, state)
    driver.__mt_python_set(ctypes.byref(layout))
    if not tried(driver):
        raise Unknown("a known line is not found")
    add_skipped(layout)

def on():
    """Runs once in a process."""
    driver = ctypes.CDLL(None)
    if kept or not hasattr(driver, "__mt_python_set") or os.environ.get("MEMTRACE_ENABLE") == "0":
        return
    try:
        make(driver)
        atexit.register(driver.__mt_python_set, None)
        answers.begin(driver)
    except Exception as why:
        driver.__mt_python_set(None)
        say(f"Python {sys.version.split()[0]}: its frames are not known ({why}): launches, allocations and copies have no line; "
            "known: CPython 3.11 to 3.13")
