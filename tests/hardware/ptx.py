"""Global memory instructions of a PTX file, function by function, and what its record calls say of them."""
import re
from collections import Counter

BITS = {"b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32, "u32": 32, "s32": 32,
        "f32": 32, "f16x2": 32, "bf16x2": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64, "b128": 128}
HEAD = re.compile(r"^\s*(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\b")
NAME = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
KINDS = ("load", "store", "atomic")
OURS = "__mt_gpu_"


def functions(text):
    """{name: [lines of its body]}."""
    found, lines, i = {}, text.splitlines(), 0
    while i < len(lines):
        if not HEAD.match(lines[i]):
            i += 1
            continue
        head = []
        while i < len(lines) and not lines[i].startswith("{") and not lines[i].rstrip().endswith(";"):
            head.append(lines[i])
            i += 1
        name = NAME.search(" ".join(head) if head else lines[i])
        if i == len(lines) or lines[i].rstrip().endswith(";"):
            i += 1
            continue
        body = []
        while i < len(lines) and lines[i] != "}":
            body.append(lines[i])
            i += 1
        if name:
            found[name.group(1)] = body
    return found


def access(opcode):
    """(kind, space, vector, bytes of one element, other words) of an instruction that may touch global memory, or None."""
    words = opcode.split(".")
    if words[0] not in ("ld", "ldu", "st", "atom", "red"):
        return None
    if {"param", "local", "shared", "const"} & {w.split("::")[0] for w in words}:
        return None
    vector = next((int(w[1]) for w in words if re.fullmatch(r"v[248]", w)), 1)
    bits = next((BITS[w] for w in reversed(words) if w in BITS), 0)
    kind = {"ld": "load", "ldu": "load", "st": "store"}.get(words[0], "atomic")
    rest = tuple(w for w in words[1:] if w not in BITS and w != "global" and not re.fullmatch(r"v[248]", w))
    return kind, "global" if "global" in words else "generic", vector, bits // 8, rest


def copy(opcode, operands):
    """The same of cp.async with a constant size."""
    words = opcode.split(".")
    if opcode.startswith("cp.async.c") and "global" in words:
        sizes = [o.strip() for o in operands.split(",")]
        return "load", "global", 1, int(sizes[2]) if sizes[2].isdigit() else 0, ("cp.async",)
    return None


def statements(body):
    """(operation, operands) of each, without predicates, labels, comments."""
    for line in body:
        line = re.sub(r"^(\{\s*)?(@!?%?\w+\s+)?", "", line.split("//")[0].strip())
        if line and not line.startswith((".", "{", "}")):
            words = line.rstrip(";").split(None, 1)
            yield words[0], words[1] if len(words) > 1 else ""


def instructions(body):
    """Counter of the accesses in a body, of (kind, space, bytes) of its record calls (None: bytes are an argument), and of the
    functions it calls. Accesses of the stack, of shared and of constant memory by a generic address are left out."""
    made, told, calls, arguments, stack = Counter(), Counter(), Counter(), {}, {"%SP", "%SPL"}
    for operation, operands in statements(body):
        stored = re.match(r"\[param(\d+)\+0\],\s*(.+)", operands)
        if operation.startswith("st.param") and stored:
            arguments[int(stored.group(1))] = stored.group(2)
        if re.match(r"(add|mov|or|cvta|selp)\b", operation):
            registers = [r for r in re.findall(r"%\w+", operands) if not r.startswith("%p")]
            sources = set(registers[1:])
            local = sources and (sources <= stack if operation.startswith("selp") else sources & stack)
            if local or re.match(r"cvta\.(shared|const|local)\b", operation):
                stack.add(registers[0])
        name = re.fullmatch(r"[A-Za-z_$][\w$]*,", operation)
        called = name and re.fullmatch(re.escape(OURS) + r"access_(global|generic)(_n)?", name.group(0)[:-1])
        if called and called.group(2):
            told[KINDS[int(arguments[2])], called.group(1), None] += 1
        elif called:
            meta = int(arguments[1])
            told[KINDS[meta >> 28 & 15], called.group(1), meta & 0xfffffff] += 1
        elif name:
            calls[name.group(0)[:-1]] += 1
        found = access(operation) or copy(operation, operands)
        address = re.search(r"\[(%\w+)", operands)
        if found and not (address and address.group(1) in stack):
            made[found] += 1
    return made, told, calls


def with_inlined(functions_, name, gone, depth=0):
    """The accesses of a function and of those that it calls and that are no longer functions elsewhere."""
    made, _, calls = instructions(functions_[name])
    for callee, times in calls.items():
        if callee in gone and callee in functions_ and depth < 8:
            for shape, count in with_inlined(functions_, callee, gone, depth + 1).items():
                made[shape] += count * times
    return made
