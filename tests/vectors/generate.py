"""Kernels made by chance, for a program that is run in several ways: nested branches, loops with break and continue, early
returns, calls, local arrays, barriers, warp collectives, atomics. Unsigned arithmetic and masked shifts and indices leave
nothing undefined; what several threads write is either added atomically, or a barrier stands between."""
import random
import re

DIMENSIONS = [(32, 1, 1), (64, 1, 1), (128, 1, 1), (32, 4, 1), (64, 2, 1), (16, 2, 1), (16, 16, 1), (16, 4, 2), (48, 2, 1),
              (96, 1, 1), (8, 8, 1), (33, 1, 1), (100, 1, 1), (256, 1, 1)]
HEAD = """// Made by tests/vectors/generate.py.
#include <cstdio>
#include <cstdlib>
typedef unsigned u;
#define N 1024
__device__ __forceinline__ u tid() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
__device__ __forceinline__ u lane() { return tid() & 31; }
__device__ __forceinline__ u mix(u x) { x ^= x >> 15; x *= 0x2c1b3c6du; x ^= x >> 12; return x; }
"""


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.lines = []
        self.depth = 0
        self.fresh = 0

    def out(self, text):
        self.lines.append("    " * (self.depth + 1) + text)

    def name(self):
        self.fresh += 1
        return f"t{self.fresh}"

    def value(self, level=2):
        r = self.r
        kind = r.randrange(14 if level else 6)
        if kind < 3:
            return r.choice(["a", "b", "c", "d"])
        if kind == 3:
            return f"{r.choice([0, 1, 2, 3, 5, 7, 16, 31, 32, 255, 4096, 0x80000001, r.randrange(1 << 32)])}u"
        if kind == 4:
            return r.choice(["tid()", "threadIdx.x", "threadIdx.y", "threadIdx.z", "blockIdx.x", "lane()", "tid() / 32", "blockDim.x", "n"])
        if kind == 5:
            return f"in[{r.choice(['tid()', 'threadIdx.x', 'threadIdx.x * 2', 'threadIdx.x + 1', 'n', 'tid() * n'])} & (N - 1)]"
        x, y = self.value(level - 1), self.value(level - 1)
        if kind == 13:
            return f"({self.condition(level - 1)} ? {x} : {y})"
        return {6: f"({x} + {y})", 7: f"({x} - {y})", 8: f"({x} * {y})", 9: f"({x} ^ {y})", 10: f"({x} >> ({y} & 31))",
                11: f"({x} {r.choice('/%')} ({y} | 1))", 12: f"in[{x} & (N - 1)]"}[kind]

    def condition(self, level=1):
        r = self.r
        x, y = self.value(level), self.value(level)
        return r.choice([f"({x} {r.choice(['<', '>', '==', '!=', '>='])} {y})", f"({x} & {r.choice([1, 3, 4, 16])})",
                         f"(threadIdx.x < {r.choice([1, 7, 16, 20, 40])})", "(n & 1)", f"((int){x} < (int){y})",
                         f"((float)({x} & 1023) * 0.37f < (float)({y} & 511))"])

    def assign(self):
        r = self.r
        target = r.choice(["a", "b", "c", "d"])
        kind = r.randrange(8)
        if kind < 4:
            self.out(f"{target} {r.choice(['=', '+=', '^='])} {self.value()};")
        elif kind == 4:
            self.out(f"own[{self.value(1)} & 3] = {self.value(1)};")
        elif kind == 5:
            self.out(f"{target} += own[{self.value(1)} & 3];")
        elif kind == 6:
            self.out(f"f = f * 0.5f + (float)({self.value(1)} & 255); {target} ^= (u)(int)f;")
        else:
            self.out(f"atomicAdd(&sums[{self.value(1)} & 15], {self.value(1)});")

    def block(self, budget, loops):
        for _ in range(self.r.randrange(1, 4)):
            self.statement(budget, loops)

    def statement(self, budget, loops):
        r = self.r
        kind = r.randrange(14) if budget > 0 else 0
        if kind < 4:
            self.assign()
        elif kind < 7:
            self.out(f"if {self.condition()} {{")
            self.depth += 1
            self.block(budget - 1, loops)
            self.depth -= 1
            if r.randrange(2):
                self.out("} else {")
                self.depth += 1
                self.block(budget - 1, loops)
                self.depth -= 1
            self.out("}")
        elif kind < 9:
            i = self.name()
            limit = r.choice([f"({self.value(1)} & {r.choice([3, 7])})", str(r.randrange(1, 5)), "(n & 7)"])
            self.out(f"for (u {i} = {r.choice(['0', '0', 'lane() & 1'])}; {i} < {limit}; {i}++) {{")
            self.depth += 1
            self.block(budget - 1, loops + 1)
            self.out(f"a += {i};")
            self.depth -= 1
            self.out("}")
        elif kind in (12, 13):  # ends when the fuel does, in whichever loop that is
            self.out(f"while {self.condition()} {{" if kind == 12 else "do {")
            self.depth += 1
            self.out("if (!fuel--) { fuel = 0; break; }")
            self.block(budget - 1, loops + 1)
            self.depth -= 1
            self.out("}" if kind == 12 else f"}} while {self.condition()};")
        elif kind == 9 and loops:
            self.out(f"if {self.condition()} {r.choice(['break', 'continue'])};")
        elif kind == 10:
            self.out(f"switch ({self.value(1)} & 3) {{")
            for case in range(r.randrange(1, 4)):
                self.out(f"case {case}:")
                self.depth += 1
                self.assign()
                self.depth -= 1
                if r.randrange(3):
                    self.out("    break;")
            self.out("}")
        else:
            self.out(f"{r.choice(['a', 'b', 'c'])} = helper{r.randrange(2)}(in, {self.value(1)}, {self.value(1)});")

    def together(self):
        """What all threads of the CTA, or of a warp, come to."""
        r = self.r
        kind = r.randrange(8)
        x = r.choice(["a", "b", "c", "d"])
        full = "0xffffffffu"
        if kind < 2:
            self.out(f"shared[tid()] = {self.value(1)}; __syncthreads();")
            self.out(f"{x} ^= shared[{r.choice(['(tid() + 1) % threads', 'threads - 1 - tid()', 'tid() ^ 1', f'{self.value(1)} % threads'])} % threads]; __syncthreads();")
        elif kind == 2:
            self.out(f"{x} = __syncthreads_{r.choice(['count', 'and', 'or'])}({self.condition()}) + {x};")
        elif whole_warps(self.dim):
            if kind == 3:
                how = r.choice([f"__shfl_sync({full}, {x}, {self.value(1)})", f"__shfl_xor_sync({full}, {x}, {r.choice([1, 2, 16])})",
                                f"__shfl_down_sync({full}, {x}, {r.choice([1, 8])}, {r.choice([8, 16, 32])})",
                                f"__shfl_up_sync({full}, {x}, {self.value(1)} & 31, {r.choice([4, 32])})"])
                self.out(f"{x} += {how};")
            elif kind == 4:
                self.out(f"{x} ^= __ballot_sync({full}, {self.condition()}) + __any_sync({full}, {self.condition()}) + __all_sync({full}, {self.condition()});")
            elif kind == 5:
                m = self.name()
                self.out(f"u {m} = __ballot_sync({full}, {self.condition()});")
                self.out(f"if ({m} >> lane() & 1) {{ {x} += __shfl_sync({m}, {x}, __ffs({m}) - 1) + __popc(__match_any_sync({m}, {x} & 3)); }}")
            elif kind == 6:
                self.out(f"{x} += __reduce_add_sync({full}, {self.value(1)}) ^ __reduce_max_sync({full}, {self.value(1)});")
            else:
                self.out(f"{x} ^= __match_any_sync({full}, {self.value(1)} & 7);")
        else:
            self.assign()

    def kernel(self, number):
        r = self.r
        self.dim = r.choice(DIMENSIONS)
        self.lines = [f"__global__ void k{number}(const u *in, u *out, u *sums, u n)", "{"]
        self.out("__shared__ u shared[256];")
        self.out("u threads = blockDim.x * blockDim.y * blockDim.z, me = blockIdx.x * threads + tid();")
        self.out("u a = in[tid() & (N - 1)], b = tid() * 7 + n, c = blockIdx.x, d = 1, fuel = n + 9, own[4] = {a, b, c, 3}; float f = (float)(a & 63);")
        self.out("shared[tid()] = a; __syncthreads();" if r.randrange(2) else "shared[0] = 0; __syncthreads();" if r.randrange(2) else "(void)shared;")
        early = r.randrange(4) == 0
        calm = r.randrange(3) == 0  # neither barriers nor collectives
        for _ in range(r.randrange(3, 7)):
            if not calm and r.randrange(3) == 0:
                if r.randrange(3) == 0:
                    i = self.name()
                    self.out(f"for (u {i} = 0; {i} < {r.choice(['2', '(n & 3)', 'blockIdx.x'])}; {i}++) {{")
                    self.depth += 1
                    self.together()
                    self.statement(2, 0)
                    self.together()
                    self.depth -= 1
                    self.out("}")
                else:
                    self.together()
            else:
                self.statement(3, 0)
        if early:
            self.out(f"if {self.condition()} {{ out[me] = a; return; }}")
            self.block(2, 0)
        self.out("out[me] = mix(a) ^ mix(b + 1) ^ mix(c + 2) ^ mix(d + 3) ^ own[a & 3] ^ own[1] ^ (u)(int)f ^ fuel;")
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"

    def helper(self, number):
        self.lines = [f"__device__ {self.r.choice(['', '__noinline__ '])}u helper{number}(const u *in, u a, u b)", "{"]
        self.out("u c = a ^ b, d = 3, n = 5, own[4] = {a, b, 1, 2}; float f = 1; u *sums = own;")
        self.dim = (1, 1, 1)
        for _ in range(3):
            kind = self.r.randrange(3)
            if kind == 0:
                self.out(f"if {self.condition()} return {self.value(1)};")
            elif kind == 1:
                self.out(f"for (u i = 0; i < (a & 7); i++) {{ if {self.condition()} return c + i; c = mix(c + i); }}")
            else:
                self.out(f"{self.r.choice(['c', 'd'])} += {self.value()};")
        self.out("return mix(c + d + n) + (u)(int)f + sums[c & 3];")
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"


def whole_warps(dim):
    return dim[0] * dim[1] * dim[2] % 32 == 0


def program(seed, kernels):
    text = [HEAD]
    launches = []
    maker = Maker(seed)
    text += [maker.helper(i).replace("sums[", "own[") for i in range(2)]
    for i in range(kernels):
        text.append(maker.kernel(i))
        x, y, z = maker.dim
        launches.append(f"    k{i}<<<3, dim3({x}, {y}, {z})>>>(in, out, sums, {maker.r.randrange(8)}); show({i});")
    text.append("""static u *in, *out, *sums;
static void show(int k)
{
    cudaError_t e = cudaDeviceSynchronize();
    u h = 0, s = 0;
    static u host[N], more[16];
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    cudaMemcpy(more, sums, sizeof more, cudaMemcpyDeviceToHost);
    for (u x : host)
        h = (h ^ x) * 0x01000193u;
    for (u x : more)
        s = (s ^ x) * 0x01000193u;
    printf("k%d %s %08x %08x\\n", k, cudaGetErrorString(e), h, s);
    if (e != cudaSuccess)
        exit(1);
}
int main()
{
    cudaMallocManaged(&in, N * 4);
    cudaMallocManaged(&out, N * 4);
    cudaMallocManaged(&sums, 64);
    for (u i = 0; i < N; i++)
        in[i] = i * 2654435761u ^ i >> 3;
    for (u i = 0; i < N; i++)
        out[i] = 0;
""" + "\n".join(launches) + "\n    return 0;\n}\n")
    return "".join(text)


class Regular(Maker):
    """Loops of one block and accesses in a row, at places that move by the same distance each time; and others between them."""

    def place(self, i, words):
        """An index below `words`, for i below 40 and threads below 256."""
        r = self.r
        x, y, k = r.choice([0, 1, 1, 1, 2, 3]), r.choice([0, 0, 40, 64]), r.choice([0, 1, 1, 2, 32, 300])
        parts = [f"threadIdx.x * {x}", f"threadIdx.y * {y}", f"blockIdx.x * {r.choice([0, 256, 1000])}", str(r.randrange(64))]
        parts = [p for p in parts if not re.search(r"\* 0$", p)]
        if i in self.strided:
            parts = [p for p in parts if "thread" not in p] + [f"{i} * {r.choice([1, 1, 1, 2, 8, 33])}"]
        elif i:
            parts.append(r.choice([f"{i} * {k}", f"{i} * {k}", f"{i} * (n + 1)", f"({i} << 2)", f"(n * 3 + {i}) * 4", f"(40 - {i}) * {k}"]))
        r.shuffle(parts)
        return f"({' + '.join(parts)})" if r.randrange(8) else f"(({' + '.join(parts)}) & {words - 1})"

    def access(self, i):
        r, kind = self.r, self.r.randrange(12)
        of = r.choice(["in", "in", "more"])
        if kind < 7:
            self.out(f"a {r.choice(['+=', '^='])} {of}[{self.place(i, 1 << 14)}];")
        elif kind < 9 and i not in self.strided:
            self.out(f"out[({i or r.randrange(40)}) * all + me] = a;" if r.randrange(2) else f"out[N + me * 48 + {i or r.randrange(40)}] = a + 1;")
        elif kind == 9:
            self.out(f"b += ((const uint2 *){of})[{self.place(i, 1 << 14)}].y;")
        elif kind == 10:
            self.out(f"b ^= ((const unsigned char *){of})[{self.place(i, 1 << 14)}];")
        else:
            self.out(r.choice([f"a ^= in[b & {(1 << 14) - 1}];", "atomicAdd(&sums[b & 15], 1u);", "b = mix(b);", "if (b & 1) a += more[b & 255];"]))

    def loop(self):
        r, i, kind = self.r, self.name(), self.r.randrange(10)
        t = r.choice(["int", "u", "long long", "unsigned long long", "int", "unsigned short"])
        s, e = r.randrange(3), r.choice(["n * 5", "n", str(r.randrange(40)), "39", "(lane() & 3) + 2", "n + blockIdx.x"])
        e = "(n & 3)" if self.inner else e
        step = r.choice([1, 1, 1, 2, 3])
        if kind < 5:
            head = f"for ({t} {i} = {s}; {i} < {e}; {i} += {step})"
        elif kind == 5:
            head = f"for ({t} {i} = {e}; {i}-- > 0;)"
        elif kind == 6:
            head = f"for (int {i} = (int)({e}) - 1; {i} >= {s}; {i} -= {step})"
        elif kind > 7 and not self.inner:  # each thread has its share
            self.strided.add(i)
            t = r.choice(["int", "u", "long long"])
            head = f"for ({t} {i} = threadIdx.x; {i} < {r.choice(['(int)(n * 20 + 100)', '256', '130', '(int)n * 40'])}; {i} += {r.choice(['blockDim.x', '32', '64'])})"
        else:
            p = self.name()
            first = self.place(None, 1 << 14)
            self.out(f"const u *{p} = in + {first if r.randrange(2) else f'(int)({first} * (n + 1) + threadIdx.x)'};")
            head = f"for ({t} {i} = 0; {i} < {e}; {i}++, {p} += {r.choice(['1', '32', '(n + 1)', '-1 + 2'])})"
        self.out(f"{r.choice(['', '', '', '#pragma unroll 1'])}\n    {head} {{" if r.randrange(2) else f"{head} {{")
        self.depth += 1
        if kind == 7:
            self.out(f"a += *{p};")
        for _ in range(r.choice([1, 1, 2, 3, 6])):
            self.access(i)
        if r.randrange(6) == 0 and not self.inner:
            self.inner = 1
            self.loop()
            self.inner = 0
        self.depth -= 1
        self.out("}")
        if kind == 7 and r.randrange(2):
            self.out(f"a += *{p};")

    def wraps(self):
        """A counter of 8 or 16 bits goes past its last number."""
        r, i, (t, first) = self.r, self.name(), self.r.choice([("unsigned char", 250), ("unsigned short", 65530), ("signed char", 120), ("short", 32760)])
        of = f"((const unsigned char *)in)[40000 + {i} + (int)threadIdx.x]"
        self.out(f"for ({t} {i} = {first}; {i} != ({t})({first} + n * 3); {i}++) {{ b += {of}; {r.choice(['', f'a ^= more[threadIdx.x];'])} }}")

    def part(self):
        kind = self.r.randrange(11)
        if kind < 5:
            self.loop()
        elif kind == 10:
            self.wraps()
        elif kind < 8:
            for _ in range(self.r.choice([2, 3, 5, 9, 40])):
                self.access(None)
        else:
            self.out(f"if {self.r.choice(['(me < all - 40)', '(threadIdx.x < blockDim.x)', '(threadIdx.x != 3)', '(n > 2)', '(b & 1)'])} {{")
            self.depth += 1
            self.part()
            self.depth -= 1
            self.out("}")

    def kernel(self, number):
        self.dim = self.r.choice([d for d in DIMENSIONS if d[0] * d[1] * d[2] <= 128])
        self.strided = set()  # loop variables that differ between threads
        self.inner = 0  # 1: in a loop within one
        self.lines = [f"__global__ void k{number}(const u *in, const u *more, u *out, u *sums, u n)", "{"]
        self.out("u threads = blockDim.x * blockDim.y * blockDim.z, all = threads * gridDim.x, me = blockIdx.x * threads + tid(), a = me, b = n;")
        for _ in range(self.r.randrange(2, 6)):
            self.part()
            if self.r.randrange(5) == 0:
                self.out("__syncthreads();")
        self.out("out[me] = mix(a) ^ mix(b + 1);")
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"


# Counters of 8 and 16 bits that go past their last number, and a loop of more laps than an entry has.
COUNTERS = """__global__ void counters(const u *in, const u *more, u *out, u *sums, u n)
{
    const unsigned char *at = (const unsigned char *)in + 40000;
    u b = 0;
#define COUNT(type, first)                                                                                   \\
    _Pragma("unroll 1") for (type i = first; i != (type)(first + n * 3); i++) b += at[i + (int)threadIdx.x];
    COUNT(unsigned short, 65530)
    COUNT(unsigned char, 250)
    COUNT(short, 32760)
    COUNT(signed char, 120)
    _Pragma("unroll 1") for (u i = 0; i < 4097 + n; i++) b += in[i + threadIdx.x];
    out[threadIdx.x] = b;
}
"""


def regular(seed, kernels):
    text, launches = [HEAD.replace("#define N 1024", "#define N (48 * 3 * 256)"), COUNTERS], ["    counters<<<1, 32>>>(in, more, out, sums, 7); show(-1);"]
    maker = Regular(seed)
    for i in range(kernels - 1):
        text.append(maker.kernel(i))
        x, y, z = maker.dim
        launches.append(f"    k{i}<<<3, dim3({x}, {y}, {z})>>>(in, more, out, sums, {maker.r.randrange(8)}); show({i});")
    text.append("""static u *in, *more, *out, *sums;
static void show(int k)
{
    cudaError_t e = cudaDeviceSynchronize();
    u h = 0;
    for (u i = 0; i < 2 * N; i++)
        h = (h ^ out[i]) * 0x01000193u;
    for (u i = 0; i < 16; i++)
        h = (h ^ sums[i]) * 0x01000193u;
    printf("k%d %s %08x\\n", k, cudaGetErrorString(e), h);
    if (e != cudaSuccess)
        exit(1);
}
int main()
{
    cudaMallocManaged(&in, 4 * N);
    cudaMallocManaged(&more, 4 * N);
    cudaMallocManaged(&out, 8 * N);
    cudaMallocManaged(&sums, 64);
    for (u i = 0; i < N; i++) {
        in[i] = i * 2654435761u ^ i >> 3;
        more[i] = in[i] * 17;
    }
""" + "\n".join(launches) + "\n    return 0;\n}\n")
    return "".join(text)
