"""Random kernels of loops, branches, breaks, continues, jumps out of several loops, returns and calls as CUDA source, and a warp that runs them with a
mask of active lanes: lanes part at a condition and meet again where its statement ends, those that have left a loop after
it. Each access is one line of the source."""
import random

LANES, SLOTS = 32, 1 << 12
M32 = 0xffffffff


def mix(x):
    x = (x ^ x >> 15) * 0x2c1b3c6d & M32
    x = (x ^ x >> 12) * 0x297a2d39 & M32
    return x ^ x >> 15


HELPERS = """#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
__device__ __forceinline__ unsigned mix(unsigned x)
{
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x = (x ^ x >> 12) * 0x297a2d39u;
    return x ^ x >> 15;
}
#define TID (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z))
struct state { unsigned t, n, s; };
__device__ __forceinline__ unsigned ask(state &z, unsigned c) { z.n++; return mix(z.t * 977u + z.n * 7919u + c); }
#define HERE asm volatile("// %0" : "+r"(z.s));
// What the lanes that are here do together: a whole warp, or some of it.
#define MEET { unsigned m_ = __activemask(); z.s += __shfl_sync(m_, z.s, __ffs(m_) - 1) & 0; }
#define AT(i, c) z.n++; asm volatile("// %0" : "+r"(z.n)); z.s += a[(i) * 4096 + mix(z.t * 31u + z.n * 17u + (c)) % 4096]; HERE
"""


class Program:
    """Functions 0 (the kernel) and up; a function calls those of higher numbers, or itself with one level less."""

    def __init__(self, seed, meets=False, jumps=False):
        self.meets = random.Random(seed) if meets else None
        self.random, self.seed, self.accesses, self.jumps = random.Random(seed), seed, 0, jumps
        self.functions = []
        count = self.random.choice((1, 1, 2, 3))
        for number in range(count):
            self.number, self.count, self.recursive = number, count, number > 0 and self.random.random() < 0.4
            self.functions.append(self.block(3, 0))

    def constant(self):
        return self.random.randrange(1 << 20)

    def condition(self):
        m = self.random.choice((2, 3, 5))
        return (self.constant(), m, self.random.randrange(1, m))

    def access(self):
        self.accesses += 1
        return ("access", self.accesses - 1, self.constant())

    def block(self, depth, loops):
        r, out = self.random, []
        for _ in range(r.randrange(1, 4)):
            what = r.randrange(14)
            if self.jumps and loops > 1 and r.random() < 0.5:
                out.append(("jump", self.condition(), r.choice(("break", "continue")), r.randrange(2, loops + 1),
                            [self.access()] if r.random() < 0.6 else []))
            elif what < 4 or not depth:
                out.append(self.access())
            elif what < 7:
                other = self.block(depth - 1, loops) if r.random() < 0.5 else []
                out.append(("if", self.condition(), self.block(depth - 1, loops), other))
            elif what < 10 and loops < 3:
                kind = r.choice(("for", "while", "do"))
                out.append((kind, self.constant(), r.choice((3, 4, 6)), self.block(depth - 1, loops + 1)))
            elif what == 10 and loops:
                leave = r.choice(("break", "continue"))
                out.append(("leave", self.condition(), leave, [self.access()] if r.random() < 0.6 else []))
            elif what == 11 and self.number == 0 and r.random() < 0.5:
                out.append(("leave", self.condition(), "return", [self.access()] if r.random() < 0.6 else []))
            elif what == 12:
                cases = [self.block(depth - 1, loops) if r.random() < 0.8 else [] for _ in range(3)]
                if not any(self.has_break(c) for c in cases):
                    out.append(("switch", self.constant(), cases))
            elif self.number + 1 < self.count:
                out.append(("call", r.randrange(self.number + 1, self.count)))
            elif self.recursive:
                out.append(("again", self.condition()))
        return out

    def has_break(self, block):
        """One that would leave a switch around it."""
        return any((s[0] == "leave" and s[2] == "break") or (s[0] == "if" and (self.has_break(s[2]) or self.has_break(s[3])))
                   or (s[0] == "switch" and any(self.has_break(c) for c in s[2])) for s in block)

    # ---- as source ----

    def source(self):
        """Lines; self.line: {access: its line among these, from 0}."""
        self.line, self.text, self.names, self.around = {}, [], 0, []
        for f in range(len(self.functions) - 1, 0, -1):
            self.text.append(f"__device__ __noinline__ void f{self.seed}_{f}(const int *a, state &z, int depth)")
            self.put_function(f)
        self.text.append(f"__global__ void k{self.seed}(const int *a, int *o)")
        self.text.append("{ state z = {TID, 0, 0}; int depth = 2; (void)depth;")
        self.put(self.functions[0], 0)
        self.text.append("if (z.s == 0x12345678u) __trap(); }")
        return self.text

    def put_function(self, f):
        self.text.append("{")
        self.put(self.functions[f], f)
        self.text.append("}")

    def put(self, block, f):
        def test(c):
            return f"ask(z, {c[0]}u) % {c[1]}u < {c[2]}u"
        for s in block:
            if s[0] == "access":
                self.line[s[1]] = len(self.text)
                meet = " MEET" if self.meets and self.meets.random() < 0.4 else ""
                self.text.append(f"AT({s[1]}, {s[2]}u){meet}")
            elif s[0] == "if":
                self.text.append(f"if ({test(s[1])}) {{")
                self.put(s[2], f)
                if s[3]:
                    self.text.append("} else {")
                    self.put(s[3], f)
                self.text.append("}")
            elif s[0] in ("for", "while", "do"):
                self.put_loop(s, f)
            elif s[0] == "leave":
                self.text.append(f"if ({test(s[1])}) {{")
                self.put(s[3], f)
                self.text.append(f"{s[2]}; }}")
            elif s[0] == "jump":
                self.text.append(f"if ({test(s[1])}) {{")
                self.put(s[4], f)
                self.text.append(f"goto {s[2]}{self.around[-s[3]]}; }}")
            elif s[0] == "switch":
                self.text.append(f"switch (ask(z, {s[1]}u) % 4u) {{")
                for i, c in enumerate(s[2]):
                    self.text.append(f"case {i}: {{")
                    self.put(c, f)
                    self.text.append("} break;")
                self.text.append("}")
            elif s[0] == "call":
                self.text.append(f"f{self.seed}_{s[1]}(a, z, 2);")
            else:
                self.text.append(f"if (depth > 0 && {test(s[1])}) f{self.seed}_{f}(a, z, depth - 1);")

    def put_loop(self, s, f):
        self.names += 1
        i = f"i{self.names}"
        count = f"ask(z, {s[1]}u) % {s[2]}u"
        self.text.append("#pragma unroll 1")
        if s[0] == "for":
            self.text.append(f"for (unsigned {i} = 0, e = {count}; {i} < e; {i}++) {{")
        elif s[0] == "while":
            self.text.append(f"while ({count} != 0) {{")
        else:
            self.text.append("do {")
        self.text.append("HERE")  # else two loops that begin at one place would become one
        self.around.append(self.names)
        self.put(s[3], f)
        if self.jumps:
            self.text.append(f"continue{self.around[-1]}:;")
        self.text.append(f"}} while ({count} != 0);" if s[0] == "do" else "}")
        if self.jumps:
            self.text.append(f"break{self.around[-1]}:;")
        self.around.pop()
        self.text.append("HERE")

    # ---- as a warp runs it ----

    def requests(self, warp=0, threads=LANES):
        """[(access, mask, [element of a, by lane])] of a warp in its order; the CTA has so many threads."""
        self.n, self.out, self.first, self.jumped = [0] * LANES, [], warp * LANES, {}
        self.run(self.functions[0], (1 << min(LANES, threads - self.first)) - 1, 0, 2)
        return self.out

    def ask(self, t, c):
        self.n[t] += 1
        return mix((self.first + t) * 977 + self.n[t] * 7919 + c & M32)

    def those(self, mask, test):
        return sum(1 << t for t in range(LANES) if mask >> t & 1 and test(t))

    def run(self, block, mask, f, depth):
        """Returns the lanes that go on after it, and those that wait at the end of the loop, of its iteration; of a loop further
        out they wait in self.jumped[whether at its end, how far out it is]."""
        broken = continued = 0
        for s in block:
            if not mask:
                break
            if s[0] == "access":
                where = []
                for t in range(LANES):
                    if mask >> t & 1:
                        self.n[t] += 1
                        where.append(s[1] * SLOTS + mix((self.first + t) * 31 + self.n[t] * 17 + s[2] & M32) % SLOTS)
                self.out.append((s[1], mask, where))
            elif s[0] in ("if", "leave"):
                taken = self.those(mask, lambda t: self.ask(t, s[1][0]) % s[1][1] < s[1][2])
                if s[0] == "leave":
                    self.run(s[3], taken, f, depth)
                    mask &= ~taken
                    broken |= taken if s[2] == "break" else 0
                    continued |= taken if s[2] == "continue" else 0
                else:
                    ways = [self.run(s[2], taken, f, depth), self.run(s[3], mask & ~taken, f, depth)]
                    mask = ways[0][0] | ways[1][0]
                    broken |= ways[0][1] | ways[1][1]
                    continued |= ways[0][2] | ways[1][2]
            elif s[0] == "jump":
                taken = self.those(mask, lambda t: self.ask(t, s[1][0]) % s[1][1] < s[1][2])
                self.run(s[4], taken, f, depth)
                mask &= ~taken
                self.jumped[s[2], s[3]] = self.jumped.get((s[2], s[3]), 0) | taken
            elif s[0] in ("for", "while", "do"):
                mask = self.run_loop(s, mask, f, depth)
            elif s[0] == "switch":
                which = {t: self.ask(t, s[1]) % 4 for t in range(LANES) if mask >> t & 1}
                after = self.those(mask, lambda t: which[t] == 3)
                for i, c in enumerate(s[2]):
                    go, b, k = self.run(c, self.those(mask, lambda t: which[t] == i), f, depth)
                    after, broken, continued = after | go, broken | b, continued | k
                mask = after
            elif s[0] == "call":
                self.run(self.functions[s[1]], mask, s[1], 2)
            elif depth > 0:
                self.run(self.functions[f], self.those(mask, lambda t: self.ask(t, s[1][0]) % s[1][1] < s[1][2]), f, depth - 1)
        return mask, broken, continued

    def run_loop(self, s, mask, f, depth):
        done, left, out, self.jumped = 0, {}, self.jumped, {}
        if s[0] == "for":
            left = {t: self.ask(t, s[1]) % s[2] for t in range(LANES) if mask >> t & 1}
        first = True
        while mask:
            if s[0] == "for":
                go = self.those(mask, lambda t: left[t] > 0)
                left = {t: n - 1 for t, n in left.items()}
            else:
                go = mask if first and s[0] == "do" else self.those(mask, lambda t: self.ask(t, s[1]) % s[2] != 0)
            first = False
            done |= mask & ~go
            mask, broken, continued = self.run(s[3], go, f, depth)
            mask |= continued | self.jumped.pop(("continue", 1), 0)
            done |= broken | self.jumped.pop(("break", 1), 0)
            for (what, far), lanes in self.jumped.items():
                out[what, far - 1] = out.get((what, far - 1), 0) | lanes
            self.jumped = {}
        self.jumped = out
        return done


def write(path, programs_made):
    """One source file; the program's arguments are the CTA's shape (32 1 1). Returns [(Program, {line of the file: access})]."""
    programs, lines = [], HELPERS.splitlines()
    for p in programs_made:
        begin = len(lines) + 1
        lines += p.source()
        programs.append((p, {begin + at: access for access, at in p.line.items()}))
    most = max(p.accesses for p, _ in programs)
    lines += ["int main(int n, char **v)", "{", f"    unsigned x = n > 1 ? atoi(v[1]) : {LANES}, y = n > 2 ? atoi(v[2]) : 1, z = n > 3 ? atoi(v[3]) : 1;",
              f"    int *a, *o; cudaMalloc(&a, {most}ull * 4096 * 4); cudaMalloc(&o, 4096); "
              f"cudaMemset(a, 0, {most}ull * 4096 * 4);"]
    lines += [f"    k{p.seed}<<<1, dim3(x, y, z)>>>(a, o);" for p, _ in programs]
    lines += ['    int rc = cudaDeviceSynchronize(); printf("%d\\n", rc); return rc;', "}"]
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    return programs
