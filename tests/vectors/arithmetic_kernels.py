"""Kernels made by chance of arithmetic.py's expressions, for what generate.py has little of: results that are made wider, indices of narrow types,
loops over narrow numbers, what only some lanes come to. Each text is for the device and, as plain C, for the host."""
from arithmetic import BITS, INPUTS, KINDS, VECTORS, Expressions, Node, common, constant, inside, hull, promoted, span, unsigned

SHAPES = [(32, 1, 1), (64, 1, 1), (33, 1, 1), (100, 1, 1), (256, 1, 1), (16, 4, 1), (8, 8, 1), (32, 4, 1), (16, 2, 4), (5, 7, 2)]
GRID = 2
SLOTS, REGIONS = 4, 2  # numbers of 64 bits for each thread; fields of a CTA where threads write to places of their own
THREADS = 256  # at most, of a CTA
BYTES = 8 * GRID * (SLOTS * THREADS + REGIONS * 2 * THREADS)  # that a launch leaves


class Maker(Expressions):
    """Makes one kernel."""

    def statement(self, depth):
        r = self.r
        kinds = [self.result] * 5 + [self.variable] * 5 + [self.assign] * 3 + [self.scatter]
        if depth:
            kinds += [self.branch] * 4 + [self.loop] * 4 + [self.turns, self.switch, self.array, self.pointer]
        return r.choice(kinds)(depth - 1)

    def level(self):
        return self.r.choice([1, 1, 2, 2, 2, 3, 3, 4, 6])

    def block(self, depth, extra=()):
        """Statements in braces; what they declare is theirs."""
        keep = len(self.scope), len(self.arrays)
        made = [self.statement(depth) for _ in range(self.r.choice([1, 1, 2, 3]))]
        del self.scope[keep[0]:], self.arrays[keep[1]:]
        return Node(["{\n", *made, *extra, "}\n"], fixed=True)

    def result(self, _depth):
        """A value in 64 bits, in a slot of the thread's own."""
        e = self.chain() if self.chance(55) else self.expr(self.level()) if self.chance(85) else self.whole(self.level() - 1)
        slot = self.slots % SLOTS
        sign = "=" if self.slots < SLOTS and not self.loops else self.r.choice(["+=", "^="])
        self.slots += 1
        if BITS[e.kind][0] == 128:
            e = Node([f"(u64)(({e.kind})(", e, ") >> ", str(self.r.choice([0, 1, 63, 64, 70])), ")"], "u64", span("u64"))
        return Node([f"out[{slot * GRID * THREADS} + {'MX' if self.flat else 'ME'}] {sign} (u64)(", e, ");\n"])

    def variable(self, _depth):
        e = self.expr(self.level())
        name, kind = self.name("v"), self.r.choice([e.kind, self.r.choice(KINDS)])
        fixed = self.chance(60)
        math = self.cast(e, kind).range if fixed else span(kind)
        self.scope.append((name, kind, math))
        if not fixed:
            self.changed.append(name)
        return Node([f"{kind} {name} = ({kind})(", e, ");\n"], fixed=True)

    def assign(self, depth):
        mutable = [(n, k) for n, k, _ in self.scope if n in self.changed]
        if not mutable:
            return self.variable(depth)
        name, kind = self.r.choice(mutable)
        old = Node([name], kind, span(kind), True)
        e = self.expr(self.level())
        if self.chance(60):
            wide = common(kind, e.kind)
            e = self.wrapped(self.r.choice("+-"), old, e, wide, (-1 << 200, 1 << 200), span(wide))
        return Node([f"{name} = ({kind})(", e, ");\n"])

    def place(self):
        """A number of the thread that no other one of its CTA has, from -256 to 255."""
        r, name = self.r, "TX" if self.flat else "TID"
        c, odd = r.randrange(256), r.choice([1, 3, 5, 7, 31, 127, 255])
        return r.choice([name, f"-(s32){name}", f"((s32){name} - {r.choice([1, 16, 128, 255])})", f"(255 - {name})", f"(u8)({name} * {odd} + {c})",
                         f"(s8)({name} * {odd} + {c})", f"(s16)({name} ^ {c})", f"(s8)~{name}", f"(u8)({c} - {name})", f"((s8)({name} * {odd}) - 100)",
                         f"(s32)({name} - {c}u)", f"(s64)(s16)({name} - {c})", f"(s8)({name} * {odd} - {c})"])

    def scatter(self, depth):
        """A value of any type at a place of the thread's own."""
        if self.regions == REGIONS or self.loops:
            return self.result(depth)
        vectors = [v for v, (k, n) in VECTORS.items() if BITS[k][0] * n <= 64]
        kind = self.r.choice([*(k for k in KINDS if BITS[k][0] < 128), *vectors])
        start, self.regions = self.regions * 2 * THREADS + THREADS, self.regions + 1
        parts = [f"(({kind} *)(area + BX * {REGIONS * 2 * THREADS} + {start}))[{self.place()}] = "]
        if kind in VECTORS:
            member, n = VECTORS[kind]
            parts += [f"make_{kind}("]
            for i in range(n):
                parts += [f"({member})(", self.expr(self.level() - 1), "), " if i < n - 1 else "))"]
        else:
            parts += [f"({kind})", self.expr(self.level())]
        return Node([*parts, ";\n"])

    def guard(self):
        """A condition, and what is known where it holds of a thread's number or of a variable that keeps its value: (name, interval)."""
        if self.chance(40):
            return self.condition(self.r.randrange(2)), None
        known = [(n, k, m) for n, k, m in self.scope if n[0] == "v" and n not in self.changed and m[0] < m[1] and BITS[k][0] < 128]
        if known and self.chance(50):
            name, kind, (first, last) = self.r.choice(known)
            n = self.r.choice([n for n in (-100, -1, 0, 1, 5, 20, 31, 100, 127, 128, 32767, 1 << 20, 1 << 26) if first < n <= last] or [last])
            low, number = self.chance(50), constant(n, kind)
            return Node([f"({name} {'<' if low else '>='} {number})"], "s32", (0, 1), True), (name, (first, n - 1) if low else (n, last))
        name = self.r.choice(["TX", "TX", "LANE", *([] if self.flat else ["TID", "TY"])])
        first, last = self.ranges[name]
        if first == last:
            return self.condition(), None
        n = self.r.choice([k for k in (1, 3, 5, 16, 20, 31, 32, 33, 64, 100) if first < k <= last] or [last])
        if self.chance(50):
            return Node([f"({name} < {n}u)"], "s32", (0, 1), True), (name, (first, n - 1))
        return Node([f"({name} >= {n}u)"], "s32", (0, 1), True), (name, (n, last))

    def branch(self, depth):
        if self.chance(12) and self.last:
            return Node(["if ", self.condition(), "\nreturn;\n"])
        condition, known = self.guard()
        ranges, scope = self.ranges, self.scope
        if known:
            self.ranges = {**ranges, known[0]: known[1]}
            self.scope = [(n, k, known[1] if n == known[0] else m) for n, k, m in scope]
        parts = ["if ", condition, " ", self.block(depth)]
        self.ranges, self.scope = ranges, scope
        if self.chance(35):
            parts += ["else ", self.block(depth)]
        return Node(parts)

    def switch(self, depth):
        parts = ["switch ((s32)(", self.expr(1), f" & {self.r.choice([3, 7])})) {{\n"]
        for n in self.r.sample(range(4), self.r.randrange(1, 4)):
            parts += [f"case {n}: ", self.block(depth), "break;\n" if self.chance(75) else "/* on */\n"]
        return Node([*parts, "default:;\n}\n"])

    def array(self, depth):
        name, kind = self.name("own"), self.r.choice(KINDS)
        first = [self.leaf() for _ in range(4)]
        parts = [f"{kind} {name}[8] = {{"]
        for e in first:
            parts += [f"({kind})", e, ", "]
        self.arrays.append((name, kind, 0, 7))
        more = Node([f"{name}[", self.index(1, 0, 7), f"] = ({kind})", self.expr(2), ";\n"])
        return Node([*parts[:-1], "};\n", more], fixed=True)

    def pointer(self, _depth, moves=0):
        """A pointer into the input, which may rise by up to so many elements, up or down."""
        name, kind = self.name("q"), self.r.choice([k for k in KINDS if BITS[k][0] < 128])
        at = self.index(1, -INPUTS // 2, INPUTS // 2 - 1)
        self.arrays.append((name, kind, -INPUTS - at.range[0] + moves, INPUTS - 1 - at.range[1] - moves))
        return Node([f"const {kind} *{name} = in_{kind} + ", at, ";\n"], fixed=True)

    def bounds(self, kind, count):
        """Head of a loop over constants, and what its variable is in the loop: around a border of the type, up or down, or right round."""
        r, (low, high), i = self.r, span(kind), self.name("i")
        step = r.choice([1, 1, 1, 2, 3, 7, 16])
        start = r.choice([0, 0, 0, low, -5, 100, 120, 250, 32760, 65530, high - 40, (1 << 31) - 9, (1 << 32) - 9])
        down = self.chance(40)
        path = [start + n * (-step if down else step) for n in range(count + 1)]
        if not inside(hull(path), (low, high)):
            if BITS[kind][0] >= 32 and kind[0] == "s" or not inside((start, start), (low, high)):
                return self.bounds(kind, count)
            path = [(n - low) % (high - low + 1) + low for n in path]  # right round
        elif self.chance(60):
            text = f"for ({kind} {i} = {constant(start, kind)}; {i} {'>' if down else '<'} {constant(path[-1], kind)}; {i} {'-' if down else '+'}= {step}) "
            return i, [text], hull(path[:-1])
        return i, [f"for ({kind} {i} = {constant(start, kind)}; {i} != {constant(path[-1], kind)}; {i} {'-' if down else '+'}= {step}) "], hull(path[:-1])

    def apart(self, kind, count):
        """The same of a loop that lanes begin or leave at different times."""
        i, few = self.name("i"), self.r.choice([constant(n, "s32") for n in (3, 7) if n <= count] + [constant(count - 1, "s32")])
        some = Node(["((", self.expr(self.r.randrange(2)), ") & ", few, ")"], "s32", few.range)
        base, step = self.r.choice([0, 0, -3, -count, 100, 10]) if kind[0] == "s" else self.r.choice([0, 1, 100]), self.r.choice([1, 1, 2, 3])
        first, last = base, base + few.range[1]
        if self.chance(35):
            return i, [f"for ({kind} {i} = ({kind})({base} + ({kind})", some, f"); {i} <= {last}; {i} += {step}) "], (first, last)
        if self.chance(50):
            return i, [f"for ({kind} {i} = {first}; {i} < ({kind})({base} + ({kind})", some, f"); {i} += {step}) "], (first, max(first, last - 1))
        return i, [f"for ({kind} {i} = {last}; {i} > ({kind})({base} + ({kind})", some, f"); {i}--) "], (min(first + 1, last), last)

    def loop(self, depth):
        kind = self.r.choice([k for k in KINDS if BITS[k][0] < 128])
        count = self.r.randrange(2, 6 if self.loops else 20)
        arrays = len(self.arrays)
        i, head, math = (self.bounds if self.chance(50) else self.apart)(kind, count)
        before, extra = [], []
        if self.chance(30):
            name, wide = self.name("w"), self.r.choice(KINDS)
            start, step = self.leaf(), self.constant()
            u = unsigned(promoted(wide))
            before.append(Node([f"{wide} {name} = ({wide})", start, ";\n"], fixed=True))
            extra.append(Node([f"{name} = ({wide})(({u}){name} {self.r.choice('+-')} ({u})", step, ");\n"]))
            self.scope.append((name, wide, span(wide)))
        if self.chance(30):
            step = self.r.choice([1, 1, 2, 5, 32, -1, -3])
            before.append(self.pointer(0, abs(step) * 20))
            extra.append(Node([f"{self.arrays[-1][0]} += {step};\n"], fixed=True))
        self.loops += 1
        self.scope.append((i, kind, math))
        if self.chance(30):
            extra.insert(0, Node(["if ", self.condition(), "\n", self.r.choice(["break", "break", "continue"]) + ";\n"]))
        body = self.block(depth, extra)
        self.scope.pop()
        del self.arrays[arrays:]
        self.loops -= 1
        return Node([*before, *head, body])

    def turns(self, depth):
        """A loop that ends when its condition or its fuel does."""
        fuel = self.name("fuel")
        self.loops += 1
        body = self.block(depth)
        self.loops -= 1
        return Node([f"u32 {fuel} = {self.r.randrange(1, 9)};\nwhile (", self.condition(), f" && {fuel}--) ", body])

    # ---- kernels

    def parameters(self):
        self.values = []
        for i in range(4):
            kind = self.r.choice([k for k in KINDS if BITS[k][0] < 128])
            low, high = span(kind)
            n = self.r.choice([self.r.randrange(low, high + 1), self.r.choice([5, 13, 17, 30, 100]), low, high, high - 3])
            self.values.append((kind, n))
            self.scope.append((f"p{i}", kind, (n, n)))
        if self.chance(30):
            name = self.r.choice(list(VECTORS))
            kind, n = VECTORS[name]
            self.vector = name, [self.r.choice([*span(kind), 5, self.r.randrange(span(kind)[0], span(kind)[1] + 1)]) for _ in range(n)]

    def phase(self, last):
        self.last, self.changed = last, []
        keep = len(self.scope), len(self.arrays)
        made = [self.statement(2) for _ in range(self.r.choice([1, 1, 2, 2, 3]))] + [self.result(0) for _ in range(2 * last)]
        del self.scope[keep[0]:], self.arrays[keep[1]:]
        return made

    def make_function(self, number):
        takes = [self.r.choice(KINDS) for _ in range(2)]
        name, keep = f"f{self.number}_{number}", self.scope
        self.scope = [(f"a{i}", k, span(k)) for i, k in enumerate(takes)] * 3
        load, thread = self.load, self.thread
        self.load, self.thread = lambda level: self.expr(level), self.known  # it knows no thread, and no memory
        self.member = lambda level: self.expr(level)
        e = self.expr(self.level())
        self.load, self.thread = load, thread
        del self.member
        self.scope = keep
        kind = self.r.choice([e.kind, self.r.choice(KINDS)])
        self.functions.append((name, kind, takes))
        return Node([f"FUNCTION {kind} {name}(", ", ".join(f"{k} a{i}" for i, k in enumerate(takes)), f")\n{{\nreturn ({kind})(", e, ");\n}\n"], fixed=True)

    def kernel(self):
        flat = [s for s in SHAPES if s[1] == s[2] == 1]
        self.flat = self.chance(65)  # it knows one dimension only
        shapes = [self.r.choice([s for s in (flat if self.flat else SHAPES) if s[0] * s[1] * s[2] % 32 == 0])]
        shapes += self.r.sample(flat if self.flat else SHAPES, 2)
        most = [max(s[i] for s in shapes) - 1 for i in range(3)]
        least = min(s[0] * s[1] * s[2] for s in shapes)
        size = max(s[0] * s[1] * s[2] for s in shapes)
        self.ranges = {"TX": (0, most[0]), "TY": (0, most[1]), "TZ": (0, most[2]), "TID": (0, size - 1), "LANE": (0, 31), "BX": (0, GRID - 1),
                       "DX": (min(s[0] for s in shapes), most[0] + 1), "ME": (0, GRID * size - 1), "MX": (0, GRID * size - 1),
                       "WARP": (0, (size - 1) // 32)}
        assert least >= 32 and size <= THREADS
        functions = [self.make_function(i) for i in range(self.r.choice([0, 0, 1, 2]))]
        self.parameters()
        if self.chance(30):
            kind, name = self.r.choice([k for k in KINDS if BITS[k][0] < 128]), f"shared{self.number}"
            self.shared = kind, name
            fill = Node([f"for (u32 i = {'TX; i < 512; i += DX' if self.flat else 'TID; i < 512; i += DX * DY * DZ'})\n{name}[i] = ({kind})(i * {self.r.choice([1, 3, 40503])});\n"], fixed=True)
            guard = Node(["if ", self.guard()[0], "\n"], fixed=True) if self.chance(40) else ""
            write = Node([guard, f"({name} + 256)[{self.place()}] = ({kind})", self.expr(self.level()), ";\n"])
            phases = [[fill], [write]]
            self.arrays.append((f"({name} + 256)", kind, -256, 255))
            phases.append(self.phase(True))
        else:
            phases = [self.phase(True)]
        return Kernel(self.number, shapes, self.values, self.vector, self.shared, functions, phases)


class Kernel:
    """shapes: of the CTAs of its launches; values: (type, value) of its parameters; vector: (type, values) of one more, or None; shared: (type, name) of an array, or None; phases: lists of
    statements, between which threads of a CTA meet."""

    def __init__(self, number, shapes, values, vector, shared, functions, phases):
        self.number, self.shapes, self.values, self.vector = number, shapes, values, vector
        self.shared, self.functions, self.phases = shared, functions, phases

    def text(self, phase):
        return indented("".join(map(str, self.phases[phase])))

    def parameters(self):
        return "PARAMETERS" + "".join(f", {kind} p{i}" for i, (kind, _) in enumerate(self.values)) + (f", {self.vector[0]} pv" if self.vector else "")

    def arguments(self):
        text = "".join(f", {constant(n, kind)}" for kind, n in self.values)
        if self.vector:
            text += f", make_{self.vector[0]}({', '.join(str(constant(n, VECTORS[self.vector[0]][0])) for n in self.vector[1])})"
        return text

    def device(self):
        text = "".join(indented(str(f), 0) for f in self.functions)
        if self.shared:
            text += f"__shared__ {self.shared[0]} {self.shared[1]}[512];\n"
        body = "    __syncthreads();\n".join("    {\n" + self.text(i) + "    }\n" for i in range(len(self.phases)))
        return f"{text}__global__ void k{self.number}({self.parameters()})\n{{\n{body}}}\n"

    def host(self):
        text = "".join(indented(str(f), 0) for f in self.functions)
        if self.shared:
            text += f"static {self.shared[0]} {self.shared[1]}[512];\n"
        for i in range(len(self.phases)):
            text += f"static void k{self.number}_{i}(const struct thread *t, {self.parameters()})\n{{\n{self.text(i)}}}\n"
        return text


def indented(text, depth=1):
    lines = []
    for line in text.splitlines():
        depth -= line.startswith("}")
        lines.append("    " * depth + line + "\n")
        depth += line.endswith("{")
    return "".join(lines)


def kernels(seed, count, first=0):
    return [Maker(seed, i).kernel() for i in range(first, first + count)]
