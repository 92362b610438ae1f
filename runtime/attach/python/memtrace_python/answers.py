"""A thread that tells the driver the source's names for arrays allocated at a place. It is a separate thread because the program's
signal handlers must not run within this code: their exceptions would be lost here."""
import _thread
import atexit
import ctypes
import os

DEPTH = 4

class Place(ctypes.Structure):
    """struct mt_python_location of runtime/trace/site.h."""
    _fields_ = [("file", ctypes.c_char_p)] + [(name, ctypes.c_int) for name in ("line", "column", "end_line", "end_column")]

    def values(self):
        return os.fsdecode(self.file), self.line, self.column, self.end_line, self.end_column

class Asked(ctypes.Structure):
    """struct mt_python_asked there."""
    _fields_ = [("number", ctypes.c_uint64), ("places", ctypes.c_uint32), ("unused", ctypes.c_uint32), ("place", Place * DEPTH)]

def answer(driver, names, asked):
    try:
        name = names.find([asked.place[i].values() for i in range(asked.places)])
    except Exception:
        name = ""
    driver.__mt_python_answer(asked.number, name.encode("utf-8", "replace"))

def work(driver, ended):
    from memtrace_python.names import Names
    names, asked = Names(), Asked()
    while driver.__mt_python_ask(ctypes.byref(asked)):
        answer(driver, names, asked)
    ended.release()

def begin(driver):
    """`driver`: a library of ctypes. All questions are answered before the process ends."""
    ended, process = _thread.allocate_lock(), os.getpid()
    ended.acquire()
    driver.__mt_python_answer.argtypes = ctypes.c_uint64, ctypes.c_char_p

    def end():
        if os.getpid() == process:  # a child of fork has no such thread
            driver.__mt_python_close()
            ended.acquire(timeout=30)

    atexit.register(end)
    _thread.start_new_thread(work, (driver, ended))
