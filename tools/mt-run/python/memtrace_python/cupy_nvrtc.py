"""CuPy: NVRTC makes PTX instead of machine code, with lines: those of the Python file where the source is a literal in one,
else those of a file that is written for it. Its cache lies in a folder of our own."""
import ast
import os
import sys
import sysconfig

from memtrace_python import Unknown, adjusted, cache_folder, need, source_file

PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy")
KNOWN = "cupy 14.2"
HERE = sys.modules[__name__]
WITH_LINES = {"-lineinfo", "--generate-line-info", "-G", "--device-debug"}


class Literals:
    """String literals of the program's own Python files: text -> (file, line)."""

    def __init__(self):
        self.known = {}
        self.read = set()
        self.others = tuple(os.path.realpath(sysconfig.get_path(p)) + os.sep for p in ("stdlib", "platstdlib", "purelib", "platlib"))

    def add(self, path):
        path = os.path.realpath(path)
        if path in self.read or path.startswith(self.others) or not path.endswith(".py"):
            return
        self.read.add(path)
        try:
            with open(path, encoding="utf-8") as f:
                tree = ast.parse(f.read())
        except (OSError, SyntaxError, ValueError):
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                # Not where escapes and joined strings make other lines than the file has.
                if node.end_lineno - node.lineno == node.value.count("\n"):
                    self.known.setdefault(node.value, (path, node.lineno))

    def find(self, text):
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str):
                self.add(path)
        return self.known.get(text)


def attach(compiler):
    compile_module = need(compiler, "_compile_module_with_cache", ("source", "options"))
    if not isinstance(getattr(compiler, "_use_ptx", None), bool):
        raise Unknown("there is no _use_ptx")
    literals, folder = Literals(), cache_folder("cupy")

    def with_lines(call):
        source = call["source"]
        if call.get("backend", "nvrtc") != "nvrtc" or call.get("to_ltoir") or not isinstance(source, str):
            return
        place = literals.find(source)
        if not place:
            path = source_file(folder, source)
            place = path and (path, 1)
        if place and '"' not in place[0] and "\\" not in place[0]:
            call["source"] = f'#line {place[1]} "{place[0]}"\n{source}'
        if not WITH_LINES & set(call["options"]):
            call["options"] = (*call["options"], "-lineinfo")

    compiler._use_ptx = True
    compiler._compile_module_with_cache = adjusted(HERE, compile_module, with_lines)
    if folder:
        os.environ["CUPY_CACHE_DIR"] = folder
    else:
        os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
