"""Kernels by chance, the same for a seed: text(seed, count). What clang makes of copies, fields, repeated and overwritten values, in
blocks and loops, is found by trying; nobody would think of it."""
import random

SCALARS = ("char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long long", "float", "double")
VECTORS = {"uchar4": 4, "short2": 2, "ushort4": 4, "int2": 2, "float2": 2, "float3": 3, "float4": 4, "int4": 4, "longlong2": 2, "double2": 2}


class Kernel:
    def __init__(self, chance, name):
        self.chance, self.name, self.types, self.lines, self.words, self.fresh = chance, name, [], [], ["n"], 0
        self.buffers = [(f"b{i}", *self.buffer_type(i)) for i in range(chance.randint(2, 3))]
        for _ in range(chance.randint(3, 7)):
            self.statement(1)
        parameters = ", ".join(f"{type} *{chance.choice(('', '__restrict__ '))}{name}" for name, type, _ in self.buffers)
        self.text = "".join(self.types) + f"__global__ void {name}({parameters}, unsigned n)\n{{\n    unsigned i = threadIdx.x;\n" \
            + "".join(self.lines) + "}\n"

    # ---- types: (name, its members as [(suffix, )])

    def simple(self):
        if self.chance.random() < 0.6:
            return self.chance.choice(SCALARS), [""]
        name = self.chance.choice(sorted(VECTORS))
        return name, ["." + "xyzw"[k] for k in range(VECTORS[name])]

    def buffer_type(self, number):
        if self.chance.random() < 0.4:
            return self.simple()
        name, members, leaves = f"T_{self.name}_{number}", "", []
        packed = self.chance.random() < 0.15
        for k in range(self.chance.randint(1, 5)):
            form = self.chance.random()
            type, inner = self.simple()
            if form < 0.25:
                members += f" unsigned m{k} : {self.chance.randint(1, 31)};"
                leaves.append(f".m{k}")
            elif form < 0.5 and not packed:
                length = self.chance.randint(2, 4)
                members += f" {type} m{k}[{length}];"
                leaves += [f".m{k}[{at}]{leaf}" for at in range(length) for leaf in inner]
            else:
                type, inner = (self.chance.choice(SCALARS), [""]) if packed else (type, inner)
                members += f" {type} m{k};"
                leaves += [f".m{k}{leaf}" for leaf in inner]
        how = "__attribute__((packed)) " if packed else self.chance.choice(("", "", "alignas(16) "))
        self.types.append(f"struct {how}{name} {{{members} }};\n")
        return name, leaves

    # ---- expressions

    def new(self):
        self.fresh += 1
        return f"v{self.fresh}"

    def place(self):
        name, _, leaves = self.chance.choice(self.buffers)
        return f"{name}[{self.index()}]{self.chance.choice(leaves)}"

    def index(self):
        return self.chance.choice(("i", "4 * i", "4 * i + 1", "4 * i + 2", "n", "i + 7"))

    def value(self):
        a, b = self.chance.choice(self.words), self.chance.choice(self.words)
        return self.chance.choice((a, f"({a} + {b})", f"({a} & 0xff)", f"({a} ^ {b})", f"({a} >> 5)", f"(unsigned)(({a}) * 1.5f)",
                                   str(self.chance.randint(0, 900))))

    # ---- statements

    def line(self, depth, text):
        self.lines.append("    " * depth + text + "\n")

    def block(self, depth, head):
        seen = list(self.words)
        self.line(depth, head + " {")
        for _ in range(self.chance.randint(1, 3)):
            self.statement(depth + 1)
        self.line(depth, "}")
        self.words = seen

    def copy(self, depth):
        name, type, leaves = self.chance.choice(self.buffers)
        if self.chance.random() < 0.5:
            self.line(depth, f"{name}[{self.index()}] = {name}[{self.index()}];")
            return
        local = self.new()
        self.line(depth, f"{type} {local} = {name}[{self.index()}];")
        self.line(depth, f"{local}{self.chance.choice(leaves)} += 1;")
        self.line(depth, f"{name}[{self.index()}] = {local};")

    def bytes(self, depth):
        to, from_ = (self.chance.choice(self.buffers) for _ in range(2))
        size = self.chance.choice((1, 2, 4, 7, 8, 12, 16, 24))
        if to is from_ or self.chance.random() < 0.4:
            self.line(depth, f"memset((void *)&{to[0]}[{self.index()}], {self.chance.randint(0, 9)}, {size});")
        else:
            self.line(depth, f"memcpy((void *)&{to[0]}[{self.index()}], (void *)&{from_[0]}[{self.index()}], {size});")

    def statement(self, depth):
        form = self.chance.random()
        if form < 0.3:
            word = self.new()
            self.line(depth, f"unsigned {word} = (unsigned){self.place()};")
            self.words.append(word)
        elif form < 0.55:
            self.line(depth, f"{self.place()} = {self.value()};")
        elif form < 0.7:
            self.copy(depth)
        elif form < 0.8:
            self.bytes(depth)
        elif form < 0.9 and depth < 3:
            self.block(depth, f"if ({self.value()} & {self.chance.choice((1, 4))})")
        elif depth < 3:
            counter = self.new()
            self.block(depth, f"for (unsigned {counter} = 0; {counter} < {self.chance.choice(('n', '3'))}; {counter}++)")
        else:
            self.line(depth, f"{self.place()} += {self.value()};")


def text(seed, count):
    chance = random.Random(seed)
    return "".join(Kernel(chance, f"kernel{k}").text for k in range(count))
