"""Global memory accesses of the functions of a PTX file, and what their record calls say of them."""
import re
from collections import Counter, namedtuple

BITS = {"b1": 1, "s4": 4, "u4": 4, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32,
        "u32": 32, "s32": 32, "f32": 32, "tf32": 32, "f16x2": 32, "bf16x2": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64,
        "b128": 128}
HEAD = re.compile(r"^\s*(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\b")
NAME = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
KINDS = ("load", "store", "atomic")
VECTOR = re.compile(r"v[248]")
SUM = re.compile(r"(fma|mad|mul|add|sub)(?:\.(?:rn|relu|sat))*(\.ftz)?(?:\.(?:rn|relu|sat))*(\.b?f\d\w*)$")
RECORD = re.compile(r"__mt_gpu_access_(global|generic)(_n)?")

# load, store or atomic; global or generic address; elements; bytes of one element (None: a register says); the other words of
# the instruction; is it under a predicate?
Access = namedtuple("Access", "kind space vector bytes words conditional")


def bodies(text):
    """{name: text} of the functions of a file."""
    found, lines, i = {}, text.splitlines(), 0
    while i < len(lines):
        if not HEAD.match(lines[i]):
            i += 1
            continue
        begin = i
        while i < len(lines) and not lines[i].startswith("{") and not lines[i].split("//")[0].rstrip().endswith(";"):
            i += 1
        name = NAME.search(" ".join(lines[begin:i + 1]))
        begin = i + 1
        if i < len(lines) and lines[i].startswith("{"):
            while i < len(lines) and "-- End function" not in lines[i]:  # a brace alone may be inline asm's
                i += 1
            found[name.group(1)] = "\n".join(lines[begin:i])
        i += 1
    return found


def statements(text):
    """(instruction, operands, is it under a predicate) of each."""
    text = re.sub(r"//[^\n]*|^\s*\.loc\b[^\n]*", "", text, flags=re.M)
    for statement in text.split(";"):
        statement = re.sub(r"^(\s*([{}]|[$\w]+:(?!:)))*\s*", "", statement)
        predicate = re.match(r"@!?\s*[%$\w]+\s+", statement)
        words = statement[predicate.end() if predicate else 0:].split(None, 1)
        if words and not words[0].startswith("."):
            yield words[0], [o.strip() for o in re.split(r",(?![^{\[(]*[}\])])", "".join(words[1:]))], bool(predicate)


# ---- single instructions: (kind, space, vector, bytes, words) or None ----------------------------------------------------

def number(text, constants):
    """Of an operand; None if it is not known here."""
    return int(text) if text.isdigit() else constants.get(text)


def plain_access(words):
    kind = {"ld": "load", "ldu": "load", "st": "store", "atom": "atomic", "red": "atomic"}.get(words[0])
    if not kind or {"param", "local", "shared", "const"} & {w.split("::")[0] for w in words}:
        return None
    vector = next((int(w[1]) for w in words if VECTOR.fullmatch(w)), 1)
    bits = next(BITS[w] for w in reversed(words) if w in BITS)
    rest = tuple(w for w in words[1:] if w not in BITS and w != "global" and not VECTOR.fullmatch(w))
    return kind, "global" if "global" in words else "generic", vector, bits // 8, rest


def async_copy(words, operands, constants):
    """cp.async with what it reads (its fourth operand can say less than it copies), and bulk copies."""
    if words[0] != "cp" or "async" not in words or "global" not in words or {"tensor", "prefetch"} & set(words):
        return None
    if "bulk" not in words:
        return "load", "global", 1, number(operands[3 if len(operands) > 3 else 2], constants), ("cp", "async")
    kind = "load" if words.index("global") > next(i for i, w in enumerate(words) if w.startswith("shared")) else "store"
    return "atomic" if words[1] == "reduce" else kind, "global", 1, number(operands[2], constants), ("cp", "async", "bulk")


def matrix(words):
    """A lane's part of a matrix of a warp."""
    if words[0] != "wmma" or words[1] not in ("load", "store") or "shared" in words:
        return None
    m, n, k = map(int, next(filter(None, (re.fullmatch(r"m(\d+)n(\d+)k(\d+)", w) for w in words))).groups())
    elements = {"a": m * k, "b": k * n, "c": m * n, "d": m * n}[words[2]]
    bits = next(BITS[w] for w in reversed(words) if w in BITS)
    return words[1], "global" if "global" in words else "generic", 1, elements * bits // 8 // 32, tuple(words)


# ---- functions -----------------------------------------------------------------------------------------------------------

class Function:
    """sums: Counter of fma, mul, add and sub of the types of floating point. made: Counter of Access, without those of the stack, of shared and of constant memory by a generic address, as far as one
    can know that. plain: without those where registers alone show it; the others have records, which ask at run time. told:
    Counter of (kind, bytes) of the record calls, bytes None where they are an argument. calls: Counter of (function, numbers of
    the arguments that are such addresses). gives: such an address is its result."""

    def __init__(self, name, text, others, elsewhere):
        self.name, self.others = name, others
        self.parameters = elsewhere  # numbers of the parameters that are addresses of the stack and so on
        self.stack = {"%SP": 0, "%SPL": 0}  # registers that point into the stack, with their offsets
        self.slots = {}  # what lies in the stack at a known offset: (is such an address, its offset)
        self.elsewhere, self.surely = {"%SP", "%SPL"}, {"%SP", "%SPL"}  # registers with such addresses; without memory's help
        self.others_too = set(), set()  # registers that get other addresses, too
        self.constants, self.arguments, self.result = {}, {}, False
        for _ in range(2):  # a block may stand before the one that makes its addresses
            self.made, self.plain, self.told, self.calls, self.gives = Counter(), Counter(), Counter(), Counter(), False
            self.sums = Counter()
            for operation, operands, conditional in statements(text):
                self.step(operation.split("."), operands, conditional)
                self.sums.update("".join(filter(None, m.groups())) for m in (SUM.match(operation),) if m)
        self.made, self.plain = +self.made, +self.plain

    def step(self, words, operands, conditional):
        if words[0] == "call":
            self.call([o for o in operands if not o.startswith("(")], operands[0])
        elif words[:2] == ["st", "param"]:
            slot = re.fullmatch(r"\[(param(\d+)|func_retval0)(?:\+0)?\]", operands[0])
            if slot and slot.group(2):
                self.arguments[int(slot.group(2))] = operands[1]
            elif slot:
                self.gives |= operands[1] in self.elsewhere
        elif words[:2] == ["ld", "param"]:
            source = re.fullmatch(r"\[" + re.escape(self.name) + r"_param_(\d+)\]|\[(retval0)\+0\]", operands[1])
            if source and (int(source.group(1)) in self.parameters if source.group(1) else self.result):
                self.elsewhere.add(operands[0])
        else:
            self.compute(words, operands)
            found = plain_access(words) or matrix(words) or async_copy(words, operands, self.constants)
            if found:
                register = self.follow_stack(words, operands)
                self.made[Access(*found, conditional)] += register not in self.elsewhere
                self.plain[Access(*found, conditional)] += register not in self.surely

    def call(self, operands, first):
        name, record = operands[0], RECORD.fullmatch(operands[0])
        if not record:
            taken = frozenset(i for i, a in self.arguments.items() if a in self.elsewhere)
            self.calls[name, taken] += 1
            callee = self.others(name, taken) if first.startswith("(") else None
            self.result = callee is not None and callee.gives
        elif record.group(2):
            self.told[KINDS[number(self.arguments[2], self.constants)], None] += 1
        else:
            meta = number(self.arguments[1], self.constants)
            self.told[KINDS[meta >> 28 & 15], meta & 0xfffffff] += 1
        self.arguments = {}

    def compute(self, words, operands):
        """Follows addresses through registers."""
        if words[0] not in ("add", "mov", "or", "cvta", "selp"):
            return
        sources = [o for o in operands[1:] if o.startswith("%") and not re.match(r"%p\d", o)]
        for registers, others in ((self.elsewhere, self.others_too[0]), (self.surely, self.others_too[1])):
            known = [o in registers for o in sources]
            if known and (all(known) if words[0] == "selp" else any(known)) or words[1] in ("shared", "const", "local"):
                if operands[0] not in others:
                    registers.add(operands[0])
            else:  # where branches meet a register is one of several
                others.add(operands[0])
                registers.discard(operands[0])
        if words[0] == "mov" and operands[1].isdigit():
            self.constants[operands[0]] = int(operands[1])
        offset = operands[2] if len(operands) > 2 else "0"
        if words[0] != "selp" and operands[1] in self.stack and offset.isdigit():
            self.stack[operands[0]] = self.stack[operands[1]] + int(offset)

    def follow_stack(self, words, operands):
        """The register that an access takes its address from; addresses that it puts into the stack or takes out go on."""
        address = re.search(r"\[(%\w+)(?:\+(-?\d+))?\]", " ".join(operands))
        if not address:
            return None
        register, offset = address.groups()
        slot = self.stack.get(register, 0) + int(offset or 0)
        if register in self.stack and words[0] == "st":
            self.slots[slot] = operands[1] in self.elsewhere, self.stack.get(operands[1])
        elif register in self.stack and words[0] == "ld":
            taken, at = self.slots.get(slot, (False, None))
            if taken:
                self.elsewhere.add(operands[0])
            if at is not None:
                self.stack[operands[0]] = at
        return register


class File:
    """The functions of a PTX file."""

    def __init__(self, text):
        self.texts = {name: body for name, body in bodies(text).items() if not name.startswith("__mt_")}
        self.known = {}

    def __iter__(self):
        return iter(self.texts)

    def __contains__(self, name):
        return name in self.texts

    def function(self, name, elsewhere=frozenset()):
        """None: it is not in this file, or (recursion) not known yet."""
        if name in self.texts and (name, elsewhere) not in self.known:
            self.known[name, elsewhere] = None
            self.known[name, elsewhere] = Function(name, self.texts[name], self.function, elsewhere)
        return self.known.get((name, elsewhere))

    def with_inlined(self, name, calls):
        """(made, plain, sums) of a function with what functions make that it calls more often than `calls` (by their names) says."""
        made, plain, sums, spare = Counter(), Counter(), Counter(), Counter(calls)
        rest, first = Counter({(name, frozenset()): 1}), True
        while rest:
            (callee, elsewhere), times = rest.popitem()
            taken_in = times if first else max(0, times - spare[callee])
            spare[callee] -= times - taken_in
            function = self.function(callee, elsewhere) if taken_in else None
            first = False
            if function:
                for total, part in ((made, function.made), (plain, function.plain), (sums, function.sums), (rest, function.calls)):
                    total.update({key: count * taken_in for key, count in part.items()})
        return made, plain, sums


def untold(function):
    """(accesses that no record call is for, record calls without an access), as Counters of (kind, bytes). A call with a
    length of its own stands for an access that does not always happen or whose bytes a register says."""
    made, told, unsure = Counter(), Counter(function.told), Counter()
    for access, count in function.plain.items():
        key = access.kind, access.bytes and access.vector * access.bytes
        (unsure if access.conditional or access.bytes is None else made)[key] += count
    both = made & told
    made, told = made - both, told - both
    for (kind, size), count in unsure.items():
        for key in ((kind, size), (kind, None)):
            met = min(count, told[key])
            told[key] -= met
            count -= met
        made[kind, size] += count
    return Counter({key: n for key, n in made.items() if n and key[1] != 0}), +told
