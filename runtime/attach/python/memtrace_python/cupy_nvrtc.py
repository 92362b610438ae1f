"""CuPy: NVRTC makes PTX instead of machine code, with lines: of the Python file if the source, or an expression in it, is a
literal there, else of a file written for it. Its cache is in a folder of our own."""
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
                # Not with escapes and joined strings, whose lines differ from the file's.
                if node.end_lineno - node.lineno == node.value.count("\n"):
                    self.known.setdefault(node.value, (path, node.lineno))

    def find(self, text):
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str):
                self.add(path)
        return self.known.get(text)

    def spots(self, text):
        """Yields the places where a literal forms whole lines of the text, as expressions do in CuPy's code: (begin, end, file, line)."""
        for literal, place in self.known.items():
            at = text.find(literal) if "=" in literal else -1
            begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at + len(literal)) + 1
            if at >= 0 and end and not text[begin:at].strip() and text[at + len(literal):end].strip() in ("", ";"):
                yield begin, end, *place

    def with_lines(self, text, path):
        """Returns the text of this file, with line directives for its literals."""
        parts, at = [directive(1, path)], 0
        for begin, end, file, line in sorted(self.spots(text)):
            if begin >= at and nameable(file):
                parts += [text[at:begin], directive(line, file), text[begin:end], directive(text.count("\n", 0, end) + 1, path)]
                at = end
        return "".join(parts) + text[at:]


def nameable(path):
    return '"' not in path and "\\" not in path


def directive(line, path):
    return f'#line {line} "{path}"\n'


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
        path = place[0] if place else source_file(folder, source)
        if path and nameable(path):
            call["source"] = directive(place[1], path) + source if place else literals.with_lines(source, path)
        if not WITH_LINES & set(call["options"]):
            call["options"] = (*call["options"], "-lineinfo")

    compiler._use_ptx = True
    compiler._compile_module_with_cache = adjusted(HERE, compile_module, with_lines)
    if folder:
        os.environ["CUPY_CACHE_DIR"] = folder
    else:
        os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
