"""Expressions made by chance, in C: integers of all widths and signs, casts, shifts, small vectors and floats, of numbers of threads, lanes, blocks
and loops. arithmetic_kernels.py makes kernels of them, arithmetic_ways.py runs these.

What an expression can be is followed as an interval, so nothing is undefined in C, and what cannot overflow is left as it is: there compilers
say `nsw`. What can is computed unsigned."""
import random

BITS = {"s8": (8, True), "u8": (8, False), "s16": (16, True), "u16": (16, False), "s32": (32, True), "u32": (32, False), "s64": (64, True),
        "u64": (64, False), "s128": (128, True), "u128": (128, False)}
KINDS = [k for k in BITS if k not in ("s128", "u128")] * 3 + ["s128", "u128"]  # to choose from
FLOATS = {"f32": 1e-6, "f64": 1e-14}  # what one operation may be off, with room
INPUTS = 1 << 15  # elements before the middle of the input, and from there on
VECTORS = {f"{name}{n}": (kind, n) for name, kind in (("char", "s8"), ("uchar", "u8"), ("short", "s16"), ("ushort", "u16"), ("int", "s32"), ("uint", "u32"))
           for n in (2, 4)}
MEMBERS = "xyzw"


def span(kind):
    bits, signed = BITS[kind]
    return (-1 << bits - 1, (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def inside(a, b):
    return b[0] <= a[0] and a[1] <= b[1]


def hull(numbers):
    numbers = list(numbers)
    return min(numbers), max(numbers)


def unsigned(kind):
    return "u" + kind[1:]


def promoted(kind):
    return "s32" if BITS[kind][0] < 32 else kind


def common(a, b):
    """Of C's usual conversions."""
    a, b = promoted(a), promoted(b)
    if BITS[a][0] != BITS[b][0]:
        return a if BITS[a][0] > BITS[b][0] else b
    return a if a[0] == "u" else b


class Node:
    """A piece of text made of strings and of other nodes. An expression has a type, and `math`: what it is but for multiples of two to the
    power of its bits. A statement's type is None."""

    def __init__(self, parts, kind=None, math=None, fixed=False):
        self.parts, self.kind, self.math, self.fixed = list(parts), kind, math, fixed

    def __str__(self):
        return "".join(map(str, self.parts))

    @property
    def range(self):
        if self.kind in FLOATS:
            return self.math
        return self.math if inside(self.math, span(self.kind)) else span(self.kind)


def as_kind(node, kind):
    """`math` of a node that is converted to another type."""
    return node.math if BITS[kind][0] <= BITS[node.kind][0] else node.range


def constant(n, kind):
    """Its text has this very type."""
    if BITS[kind][0] == 128:
        high, low = (n >> 64) & (1 << 64) - 1, n & (1 << 64) - 1
        text = f"({kind})((u128){high}ull << 64 | {low}ull)"
    elif kind in ("s32", "s64"):
        end = "ll" if kind == "s64" else ""
        text = f"({n + 1}{end} - 1)" if n == span(kind)[0] else f"{n}{end}" if n >= 0 else f"({n}{end})"
    elif kind in ("u32", "u64"):
        text = f"{n}u" + ("ll" if kind == "u64" else "")
    else:
        text = f"({kind})({n})"
    return Node([text], kind, (n, n), True)


class Expressions:
    """What is in scope, and expressions of it."""

    def __init__(self, seed, number):
        self.r = random.Random(seed * 1000003 + number)
        self.number, self.fresh = number, 0
        self.scope, self.arrays, self.functions, self.changed, self.loops, self.slots, self.regions = [], [], [], [], 0, 0, 0
        self.shared = self.vector = None
        self.ranges = {}

    def name(self, letter):
        self.fresh += 1
        return f"{letter}{self.fresh}"

    def chance(self, percent):
        return self.r.randrange(100) < percent

    # ---- leaves

    def constant(self, kind=None, small=False):
        r = self.r
        if small or self.chance(45):
            n = r.choice([1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 100])
        else:
            n = (1 << r.choice([7, 7, 8, 8, 15, 16, 24, 30, 31, 31, 32, 32, 40, 62, 63])) + r.choice([-2, -1, 0, 0, 1, 2, r.randrange(-40, 40)])
        if self.chance(30):
            n = -n
        n = n if -1 << 63 <= n < 1 << 64 else -1
        fits = [k for k in KINDS if inside((n, n), span(k))]
        if kind and kind not in fits:
            n = r.choice([0, 1, 2, 5, 100, span(kind)[1]])
        elif not kind:
            kind = r.choice([k for k in ("s32", "u32", "s64") if k in fits] or fits) if self.chance(70) else r.choice(fits)
        return constant(n, kind)

    def thread(self):
        """A number of the thread, or of its place."""
        name = self.r.choice(["TX"] * 6 + ["LANE"] * 4 + ["BX", "DX"] + (["MX", "TX >> 5"] if self.flat else ["TID", "TID", "TY", "TZ", "ME", "WARP"]))
        if name == "TX >> 5":
            return Node(["(TX >> 5)"], "u32", (0, 7))
        return Node([name], "u32", self.ranges[name], True)

    def known(self):
        """A variable or a parameter."""
        if not self.scope:
            return self.thread()
        name, kind, math = self.r.choice(self.scope[-4:] if self.chance(50) else self.scope)
        return Node([name], kind, math, True)

    def leaf(self):
        kind = self.r.randrange(16)
        return self.thread() if kind < 8 else self.known() if kind < 13 else self.load(0)

    # ---- expressions

    def cast(self, node, kind=None):
        kind = kind or self.r.choice(KINDS)
        return Node([f"({kind})(", node, ")"], kind, as_kind(node, kind))

    def expr(self, level):
        if level <= 0:
            return self.leaf()
        make = self.r.choice([self.sum] * 8 + [self.product] * 4 + [self.shift] * 5 + [self.narrow] * 6 + [self.bits] * 4 +
                             [self.divide] * 2 + [self.compare, self.choose, self.choose, self.negate, self.negate, self.field, self.function] +
                             [self.load, self.load, self.whole, self.member, self.called] + [self.chain] * 6)
        return make(level - 1)

    def chain(self, _level=0):
        """A number of the thread and a few steps with constants and with what all lanes have: what rows are made of."""
        e = self.thread() if self.chance(75) else self.known()
        for _ in range(self.r.choice([1, 1, 2, 2, 3, 4])):
            e = self.r.choice([self.sum, self.sum, self.product, self.shift, self.shift, self.narrow, self.narrow, self.negate, self.bits])(0, e)
        return e

    def narrow(self, level, a=None):
        return self.cast(a or self.expr(level))

    def operands(self, level, a=None):
        if a:
            return a, self.constant() if self.chance(65) else self.known() if self.chance(75) else self.thread()
        a = self.expr(level)
        b = self.constant() if self.chance(35) else self.expr(level if self.chance(40) else 0)
        return (b, a) if self.chance(20) else (a, b)

    def wrapped(self, sign, a, b, kind, exact, math):
        """a sign b: unsigned where it may overflow, which `exact` (of the values) says."""
        if kind[0] == "s" and not inside(exact, span(kind)):
            u = unsigned(kind)
            return Node([f"({kind})(({u})", a, f" {sign} ({u})", b, ")"], kind, math)
        return Node(["(", a, f" {sign} ", b, ")"], kind, exact if kind[0] == "s" else math)

    def sum(self, level, a=None):
        a, b = self.operands(level, a)
        kind, sign = common(a.kind, b.kind), self.r.choice("+-")
        intervals = []
        for x, y in ((a.range, b.range), (as_kind(a, kind), as_kind(b, kind))):
            intervals.append((x[0] + y[0], x[1] + y[1]) if sign == "+" else (x[0] - y[1], x[1] - y[0]))
        return self.wrapped(sign, a, b, kind, *intervals)

    def product(self, level, a=None):
        a, b = self.operands(level, a)
        if self.chance(40):
            b = self.constant(small=self.chance(70))
        kind = common(a.kind, b.kind)
        return self.wrapped("*", a, b, kind, *(hull(m * n for m in x for n in y) for x, y in ((a.range, b.range), (as_kind(a, kind), as_kind(b, kind)))))

    def amount(self, width):
        r = self.r
        if self.chance(70):
            return constant(r.choice([1, 2, 3, 3, 4, 5, 7, 8, 11, 15, 16, 24, 28, 31, r.randrange(width)]) % width, "s32")
        return Node(["(", self.leaf(), f" & {r.choice([3, 7, width - 1])})"], "s32", (0, width - 1)) if self.chance(50) else \
            Node(["((u32)", self.known(), f" & {width - 1}u)"], "u32", (0, width - 1))

    def shift(self, level, a=None):
        a = a or self.expr(level)
        kind = promoted(a.kind)
        n, x = self.amount(BITS[kind][0]), as_kind(a, kind)
        if self.chance(40):
            return Node(["(", a, " >> ", n, ")"], kind, hull(v >> i for v in a.range for i in n.range))
        exact, math = (hull(v << i for v in m for i in n.range) for m in (a.range, x))
        if kind[0] == "s" and (a.range[0] < 0 or not inside(exact, span(kind))):
            return Node([f"({kind})(({unsigned(kind)})", a, " << ", n, ")"], kind, math)
        return Node(["(", a, " << ", n, ")"], kind, math)

    def bits(self, level, a=None):
        a, b = self.operands(level, a)
        sign = self.r.choice("&&|^^")
        if self.chance(50):
            b = constant(self.r.choice([1, 3, 7, 15, 16, 31, 32, 64, 96, 127, 128, 255, 256, 480, 0x7fff, 0x8000, 0xffff, 0x7fffffff, -2, -4, -8, -16, -32, -33, -128]), "s32")
        kind = common(a.kind, b.kind)
        x, y = (m if inside(m, span(kind)) else span(kind) for m in (as_kind(a, kind), as_kind(b, kind)))
        math = span(kind)
        if sign == "&" and max(x[0], y[0]) >= 0:
            math = (0, min(m[1] for m in (x, y) if m[0] >= 0))
        elif min(x[0], y[0]) >= 0:
            math = (0, (1 << max(x[1], y[1]).bit_length()) - 1)
        return Node(["(", a, f" {sign} ", b, ")"], kind, math)

    def negate(self, level, a=None):
        a = a or self.expr(level)
        kind = promoted(a.kind)
        if self.chance(40):
            x = as_kind(a, kind)
            return Node(["(~", a, ")"], kind, (-1 - x[1], -1 - x[0]))
        zero = constant(0, self.r.choice(["s32", "u32", "s64"]))
        kind = common(a.kind, zero.kind)
        return self.wrapped("-", zero, a, kind, *((-x[1], -x[0]) for x in (a.range, as_kind(a, kind))))

    def divide(self, level):
        a, sign = self.expr(level), self.r.choice("/%")
        if self.chance(55):
            b = constant(self.r.choice([2, 3, 5, 7, 8, 10, 16, 32, 100, 127, 128, 256, 1000, 65536]) * self.r.choice([1, 1, 1, -1]), "s32")
        else:
            kind = self.r.choice(["s32", "u32", "u64"])
            b = Node([f"((({kind})", self.leaf(), f" & {self.r.choice([7, 31, 255])}) + 1)"], kind, (1, 256))
        kind = common(a.kind, b.kind)
        x, y = as_kind(a, kind), as_kind(b, kind)
        x, y = x if inside(x, span(kind)) else span(kind), y if inside(y, span(kind)) else tuple(n % (1 << BITS[kind][0]) for n in y)
        if sign == "/":
            math = hull((abs(m) // abs(n)) * (1 if (m < 0) == (n < 0) else -1) for m in (*x, *([0] if x[0] < 0 < x[1] else [])) for n in y)
        else:
            most = min(max(abs(y[0]), abs(y[1])) - 1, max(abs(x[0]), abs(x[1])))
            math = (-most if x[0] < 0 else 0, most if x[1] > 0 else 0)
        return Node(["(", a, f" {sign} ", b, ")"], kind, math)

    def compare(self, level):
        return Node([self.condition(level)], "s32", (0, 1), True)

    def condition(self, level=0):
        a, b = self.operands(level)
        r = self.r
        how = r.randrange(10)
        if how < 6:
            parts = ["(", a, f" {r.choice(['<', '<=', '>', '>=', '==', '!='])} ", b, ")"]
        elif how < 8:
            parts = ["((", a, f" & {r.choice([1, 2, 3, 4, 16, 24])}) != 0)"]
        else:
            parts = ["(", self.condition(0), r.choice([" && ", " || "]), self.condition(0), ")"]
        return Node(parts, "s32", (0, 1))

    def choose(self, level):
        a, b = self.operands(level)
        kind = common(a.kind, b.kind)
        return Node(["(", self.condition(), " ? ", a, " : ", b, ")"], kind, hull((*as_kind(a, kind), *as_kind(b, kind))))

    def field(self, level):
        """A bit-field's value: integers of odd widths."""
        a = self.expr(level)
        name, ends = self.r.choice([(f"{s}{n}", (-1 << n - 1, (1 << n - 1) - 1) if s == "s" else (0, (1 << n) - 1)) for n in (3, 5, 12, 24) for s in "su"])
        math = as_kind(a, "s32") if BITS[a.kind][0] >= 32 else a.range
        return Node([f"field_{name}((s32)(", a, "))"], "s32", math if inside(math, ends) else ends)

    def function(self, level):
        a = self.expr(level)
        kind = self.r.choice(["s32", "u32", "s64", "u64"])
        x = as_kind(a, kind)
        x = x if inside(x, span(kind)) else span(kind)
        how = self.r.randrange(8)
        if how < 5:
            b = self.expr(0)
            y = as_kind(b, kind)
            y = y if inside(y, span(kind)) else span(kind)
            name, of = ("min", min) if self.chance(50) else ("max", max)
            return Node([f"{name}_{kind}(({kind})(", a, f"), ({kind})(", b, "))"], kind, (of(x[0], y[0]), of(x[1], y[1])))
        if how < 6 and kind[0] == "s" and x[0] > span(kind)[0]:
            return Node([f"abs_{kind}(({kind})(", a, "))"], kind, (0, max(abs(x[0]), abs(x[1]))))
        if how < 7:
            return Node([f"{self.r.choice(['ones', 'zeros'])}((u32)(", a, "))"], "s32", (0, 32))
        kind = self.r.choice(["s32", "u32"])
        return Node([f"mulhi_{kind}(({kind})(", a, f"), ({kind})(", self.leaf(), "))"], kind, span(kind))

    # ---- memory

    def index(self, level, first, last):
        """An expression from `first` to `last`, two numbers around 0, or from 0 to one less than a power of two."""
        a = self.chain() if self.chance(40) else self.expr(level)
        if inside(a.range, (first, last)) and BITS[a.kind][0] < 128:
            return a
        if BITS[a.kind][0] == 128:
            a = self.cast(a, "s64")
        forms = [k for k in ("s8", "u8", "s16", "u16") if inside(span(k), (first, last))]
        if forms and self.chance(60):
            return self.cast(a, self.r.choice(forms))
        mask = constant(self.r.choice([m for m in (1, 3, 7, 8, 31, 63, 127, 255, 511, 1023) if m <= last]), "s32")
        if mask.range[1] >= -first or self.chance(60):
            return Node(["(", a, " & ", mask, ")"], common(a.kind, "s32"), mask.range)
        return Node(["((s32)(", a, f") % {min(-first, last) + 1})"], "s32", (-min(-first, last), min(-first, last)))

    def load(self, level):
        if self.arrays and self.chance(40):
            name, kind, first, last = self.r.choice(self.arrays)
            return Node([f"{name}[", self.index(level, first, last), "]"], kind, span(kind))
        kind = self.r.choice([k for k in KINDS if BITS[k][0] < 128])
        shift = self.r.choice([0, 0, 0, 1, -1, 100, -200])
        at = self.index(level, max(-INPUTS, -INPUTS - shift), min(INPUTS - 1, INPUTS - 1 - shift))
        if shift:
            return Node([f"(in_{kind} {'+-'[shift < 0]} {abs(shift)})[", at, "]"], kind, span(kind))
        return Node([f"in_{kind}[", at, "]"], kind, span(kind))

    def member(self, level):
        """Of a vector that is loaded or made."""
        vector = self.r.choice(list(VECTORS))
        kind, n = VECTORS[vector]
        if self.vector and self.chance(30):
            kind, values = VECTORS[self.vector[0]][0], self.vector[1]
            which = self.r.randrange(len(values))
            return Node([f"pv.{MEMBERS[which]}"], kind, (values[which],) * 2, True)
        if self.chance(50):
            at = self.index(level, -INPUTS // 4, INPUTS // 4 - 1)
            return Node([f"((const {vector} *)in_{kind})[", at, f"].{self.r.choice(MEMBERS[:n])}"], kind, span(kind))
        which = self.r.randrange(n)
        kids = [self.expr(level if i == which else 0) for i in range(n)]
        parts = [f"make_{vector}("]
        for kid in kids:
            parts += [f"({kind})(", kid, "), "]
        parts[-1] = f")).{MEMBERS[which]}"
        return Node(parts, kind, as_kind(kids[which], kind))

    def called(self, level):
        """A call of a function that is not inlined."""
        if not self.functions:
            return self.expr(level)
        name, kind, takes = self.r.choice(self.functions)
        parts = [f"{name}("]
        for i, k in enumerate(takes):
            parts += [", " * (i > 0) + f"({k})(", self.expr(level if not i else 0), ")"]
        return Node([*parts, ")"], kind, span(kind))

    # ---- floats

    def whole(self, level):
        """An integer made of a float."""
        f = self.real(level)
        fits = [k for k in KINDS if BITS[k][0] < 128 and inside(f.range, (span(k)[0] * 0.999999 - 0.5, span(k)[1] * 0.999999))]
        if not fits:
            return Node([f"bits_{f.kind}(", f, ")"], "u" + f.kind[1:], span("u" + f.kind[1:]))
        kind = self.r.choice(fits)
        return Node([f"({kind})(", f, ")"], kind, (int(f.range[0]) - 1 if kind[0] == "s" else 0, int(f.range[1]) + 1))

    def float(self, parts, kind, math):
        room = max(abs(math[0]), abs(math[1])) * FLOATS[kind] + 1e-30
        return Node(parts, kind, (math[0] - room, math[1] + room))

    def real(self, level):
        kind = self.r.choice(["f32", "f32", "f64"])
        a = self.expr(level)
        if BITS[a.kind][0] == 128:
            a = self.cast(a, "s64")
        x = self.float([f"({kind})(", a, ")"], kind, tuple(map(float, a.range)))
        for _ in range(self.r.choice([0, 0, 1, 1, 2])):
            how = self.r.randrange(7)
            if how < 3:
                n, sign = self.r.choice([0.5, 0.25, 0.37, 3.0, 1000.0, -1.0, -7.5, 1e-3]), self.r.choice("+-*")
                ends = {"+": [v + n for v in x.range], "-": [v - n for v in x.range], "*": [v * n for v in x.range]}[sign]
                x = self.float(["(", x, f" {sign} ({kind}){n})"], kind, hull(ends))
            elif how == 3:
                b = self.float([f"({kind})(", self.cast(self.leaf(), self.r.choice(["s8", "u8", "s16"])), ")"], kind, (-32768.0, 32767.0))
                x = self.float(["(", x, " + ", b, ")"], kind, (x.range[0] + b.range[0], x.range[1] + b.range[1]))
            elif how == 4 and inside(x.range, (-60000, 60000)):
                x = Node([f"({kind})half((f32)(", x, "))"], kind, tuple(v * 1.001 + s for v, s in zip(x.range, (-1, 1))))
            elif how == 5:
                name = self.r.choice(["trunc", "floor", "fabs"])
                ends = hull((0.0, *map(abs, x.range))) if name == "fabs" else (x.range[0] - 1, x.range[1] + 1)
                x = self.float([f"{name}_{kind}(", x, ")"], kind, ends)
            else:
                other = "f64" if kind == "f32" else "f32"
                x, kind = self.float([f"({other})(", x, ")"], other, x.range), other
        return x
