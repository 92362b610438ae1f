"""Names of the arrays that a program allocates: the target of the assignment whose value is the allocating expression, as
written in the source. Only the source is read: no code of the program is evaluated."""
import ast
import linecache

# Methods and functions that return their array, or a view of it.
VIEWS = {"reshape", "view", "view_as", "ravel", "flatten", "squeeze", "unsqueeze", "transpose", "swapaxes", "permute", "expand",
         "detach", "contiguous", "requires_grad_", "to", "cuda", "Parameter", "asarray", "ascontiguousarray", "as_tensor"}
LONGEST = 120
BIGGEST = 4 << 20  # largest source, in bytes


class Source:
    """Expressions of a file by their ends, with their parents."""

    def __init__(self, text):
        self.lines, self.parents, self.ends, self.statements = text.encode().splitlines(), {}, {}, {}
        for node in ast.walk(ast.parse(text)):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            if isinstance(node, (ast.expr, ast.AugAssign)):
                self.ends.setdefault((node.end_lineno, node.end_col_offset), []).append(node)
            if isinstance(node, ast.stmt):
                # The innermost one comes last.
                self.statements.update(dict.fromkeys(range(node.lineno, node.end_lineno + 1), node))

    def text(self, node):
        first, last = node.lineno - 1, node.end_lineno - 1
        lines = self.lines[first:last + 1]
        lines[-1] = lines[-1][:node.end_col_offset]
        lines[0] = lines[0][node.col_offset:]
        text = " ".join(b" ".join(lines).decode().split())
        return text if len(text) <= LONGEST else text[:LONGEST - 3] + "..."

    def find(self, place):
        """Returns the expression evaluated there. For a method's call the interpreter gives the place of the method's name and
        the rest. Without columns (python3 -X no_debug_ranges): the value of the line's statement, if it is one call."""
        line, column, end_line, end_column = place
        if min(column, end_line, end_column) < 0:
            value = getattr(self.statements.get(line), "value", None)
            calls = [n for n in ast.walk(value) if isinstance(n, ast.Call)] if value else []
            return value if calls == [value] else None
        at_end = self.ends.get((end_line, end_column), ())
        for node in at_end:
            if (node.lineno, node.col_offset) == (line, column):
                return node
        for node in at_end:
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.end_lineno == line and \
                    called.end_col_offset - len(called.attr.encode()) == column:
                return node
        return None


def picked(target, path):
    """Returns the part of the target assigned from this path of the value, and the rest of the path."""
    while path and isinstance(target, (ast.Tuple, ast.List)):
        stars = [at for at, part in enumerate(target.elts) if isinstance(part, ast.Starred)]
        index = path[0][1:-1]
        if stars and stars[0] == len(target.elts) - 1 and index.isdigit() and int(index) >= stars[0]:
            return target.elts[-1].value, [f"[{int(index) - stars[0]}]"] + path[1:]
        if not index.isdigit() or int(index) >= len(target.elts) or stars and stars[0] <= int(index):
            return target, []  # one of them
        target, path = target.elts[int(index)], path[1:]
    return target, path


def is_view(node):
    function = node.func
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)) in VIEWS


def step(node, above):
    """Returns the path of the node's value in that of the node above, or None if it is not part of it."""
    if isinstance(above, (ast.Tuple, ast.List)):
        parts = above.elts[:above.elts.index(node) + 1]
        return ["[]"] if any(isinstance(p, ast.Starred) for p in parts) else [f"[{len(parts) - 1}]"]
    if isinstance(above, ast.Dict) and node in above.values:
        key = above.keys[above.values.index(node)]
        return [key and f"[{ast.unparse(key)}]"] if key else []
    if isinstance(above, ast.DictComp) and node is above.value or \
            isinstance(above, (ast.ListComp, ast.SetComp, ast.GeneratorExp)) and node is above.elt:
        return ["[]"]
    if isinstance(above, ast.Call) and node is not above.func and is_view(above) or \
            isinstance(above, ast.Attribute) and (above.attr in VIEWS or above.attr == "T") or \
            isinstance(above, ast.Call) and node is above.func and is_view(above) or \
            isinstance(above, ast.Subscript) and node is above.value and any(isinstance(n, ast.Slice) for n in ast.walk(above.slice)) or \
            isinstance(above, ast.IfExp) and node is not above.test or isinstance(above, (ast.BoolOp, ast.Await)):
        return []
    return None


def upwards(source, node, path):
    """Returns (name, None); (None, path) if the caller names it, as this part of its call's value; or (None, None) without a name."""
    while node in source.parents:
        above, targets = source.parents[node], ()
        if isinstance(above, ast.keyword) and above.arg and not is_view(source.parents[above]):
            return above.arg + "".join(path), None
        if isinstance(above, ast.Assign):
            targets = above.targets
        elif isinstance(above, (ast.AnnAssign, ast.NamedExpr)) and node is above.value:
            targets = [above.target]
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
        elif isinstance(above, ast.withitem) and above.optional_vars:
            targets = [above.optional_vars]
        elif isinstance(above, ast.Return) or isinstance(above, ast.Lambda) and node is above.body:
            return None, path
        if targets:
            target, rest = picked(targets[0], path)
            return source.text(target) + "".join(rest), None
        more = step(node, above)
        if more is None:
            break
        node, path = above, more + path
    return None, None


class Names:
    def __init__(self):
        self.sources = {}

    def source(self, file):
        if file not in self.sources:
            try:
                text = "".join(linecache.getlines(file))
                self.sources[file] = Source(text) if 0 < len(text) <= BIGGEST else None
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self.sources[file] = None
        return self.sources[file]

    def find(self, places):
        """Returns the name, or "". A place: file, and line, column, end line, end column of the running expression (columns in
        bytes from 0; -1: unknown). The innermost function comes first, then its callers."""
        path = []
        for file, *place in places:
            source = self.source(file)
            node = source.find(place) if source else None
            name, path = upwards(source, node, path) if node else (None, None)
            if path is None:
                return name or ""
        return ""
