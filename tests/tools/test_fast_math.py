"""How exactly device code computes: nvcc's -use_fast_math, -ftz, -prec-div and -prec-sqrt. The PTX is compared with that of
the toolkit's own nvcc, where it has one; results of the CPU device with a model of their meaning in Python."""
import collections
from fractions import Fraction
import math
import os
import re
import struct

import world
from world import Case, overlay

MIN = 2.0 ** -126  # the smallest number that is not a denormal
def nearest(exact):
    """A fraction to float, rounded once."""
    near = f32(float(exact))
    bits = struct.unpack("i", struct.pack("f", near))[0]
    around = [struct.unpack("f", struct.pack("i", b))[0] for b in (bits, bits + 1, bits - 1) if b & 0x7FFFFFFF < 0x7F800000]
    return min(around, key=lambda x: (abs(Fraction(x) - exact), struct.unpack("i", struct.pack("f", x))[0] & 1))


NUMBERS = [0.0, -0.0, 1.0, -3.0, MIN, -MIN, MIN / 2, -MIN / 4, 2.0 ** -149, -1.5e-40, MIN * 1.5, 2.0 ** 126, 1.5 * 2.0 ** 126,
          -2.0 ** 127, 3.0e38, 1e-20, -2e-20, 7.25, math.inf, -math.inf, math.nan]


def f32(x):
    """To float, as a processor rounds."""
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


FLOATS = [f32(x) for x in NUMBERS]


def flush(x):
    return math.copysign(0.0, x) if abs(x) < MIN else x


def divide(a, b):
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, math.copysign(1, a) * math.copysign(1, b))
    return math.nan if math.isinf(a) and math.isinf(b) else a / b


def times(a, b):
    return a * b


def floor(a):
    return a if a != a or math.isinf(a) else math.copysign(math.floor(a), a) if math.floor(a) == 0 else float(math.floor(a))


def smaller(a, b):
    if a != a or b != b:
        return b if a != a else a
    return min(a, b) if a != b else math.copysign(0.0, -1) if a == 0 and -1 in (math.copysign(1, a), math.copysign(1, b)) else a


# Expression, its model, and whether numbers go through arithmetic: what only moves them flushes nothing (None: the model says).
OPERATIONS = [
    ("a + b", lambda a, b: f32(a + b), True),
    ("a - b", lambda a, b: f32(a - b), True),
    ("a * b", lambda a, b: f32(times(a, b)), True),
    ("a / b", lambda a, b: f32(divide(a, b)), True),
    ("fmaf(a, b, 0x1p-127f)", None, True),
    ("sqrtf(a)", lambda a, b: f32(math.sqrt(a)) if a >= 0 else math.nan, True),
    ("-a", lambda a, b: -a, True),
    ("fabsf(a)", lambda a, b: abs(a), True),
    ("floorf(a)", lambda a, b: floor(a), True),
    ("fminf(a, b)", smaller, True),
    ("a < b ? 1.f : 2.f", lambda a, b: 1.0 if a < b else 2.0, True),
    ("a < b ? a : b", lambda a, b: a if flush(a) < flush(b) else b, None),
    ("a == b ? 1.f : 2.f", lambda a, b: 1.0 if a == b else 2.0, True),
    ("(float)((double)a * 0x1p149)", lambda a, b: f32(a * 2.0 ** 149), True),
    ("(float)((double)a * (double)b)", lambda a, b: f32(times(a, b)), True),
    ("a", lambda a, b: a, False),
    ("__int_as_float(__float_as_int(b))", lambda a, b: b, False),
]
TABLE = """
#include <cstdio>
#include <cstring>
__global__ void k(const float *x, float *o, double *d, int n)
{
    int i = blockIdx.x, j = threadIdx.x;
    float a = x[i], b = x[j], *p = o + (i * n + j) * %(count)d;
%(barrier)s
%(body)s
%(doubles)s
}
__global__ void after(const float *x, double *d) { *d = (double)*x * 0x1p-1030; /* denormal for double: stays */ }
int main()
{
    static const unsigned bits[] = {%(bits)s};
    int n = %(n)d;
    float *x, *o;
    double *d;
    cudaMallocManaged(&x, sizeof bits);
    cudaMallocManaged(&o, 4 * n * n * %(count)d);
    cudaMallocManaged(&d, 8 * n * n);
    memcpy(x, bits, sizeof bits);
    k<<<n, n>>>(x, o, d, n);
    after<<<1, 1>>>(x + n, d);
    int failed = cudaDeviceSynchronize();
    for (int i = 0; i < n * n * %(count)d; i++) {
        unsigned u;
        memcpy(&u, o + i, 4);
        printf("%%x\\n", u);
    }
    fprintf(stderr, "%%a\\n", d[0]);
    return failed;
}
"""
MEANING = """
#include <cmath>
#include <cstdio>
__global__ void classes(const float *x, int *o)
{
    int i = threadIdx.x;
    float v = x[i], sum = v - v;
    o[i] = isnan(v) + 2 * isinf(v) + 4 * (v == INFINITY) + 8 * (v != v) + 16 * !isfinite(v) + 32 * isnan(sum);
}
__global__ void functions(const float *x, float *o)
{
    float v = x[threadIdx.x], most = -INFINITY;
    for (int j = 0; j < 8; j++)
        most = fmaxf(most, x[j] < 1e30f ? x[j] : -INFINITY);
    o[threadIdx.x] = v / (1.0f + expf(-v));
    o[threadIdx.x + 8] = 1.0f / (1.0f + expf(-v));
    o[threadIdx.x + 16] = v == -INFINITY ? 0.0f : expf(v - most);
}
int main()
{
    static const float values[] = {-100, -1, 0, 1, 100, INFINITY, -INFINITY, NAN};
    float *x, *o;
    int *c;
    cudaMallocManaged(&x, 32);
    cudaMallocManaged(&o, 96);
    cudaMallocManaged(&c, 32);
    for (int i = 0; i < 8; i++) x[i] = values[i];
    classes<<<1, 8>>>(x, c);
    functions<<<1, 8>>>(x, o);
    int failed = cudaDeviceSynchronize();
    for (int i = 0; i < 8; i++) printf("%d ", c[i]);
    for (int i = 0; i < 24; i++) printf("%g ", o[i]);
    return failed;
}
"""
FUNCTIONS = ["sinf(a)", "cosf(a)", "tanf(a)", "expf(a)", "exp10f(a)", "exp2f(a)", "logf(a)", "log2f(a)", "log10f(a)", "powf(a, b)",
             "tanhf(a)", "a / b", "1.0f / a", "sqrtf(a)", "rsqrtf(a)", "__fdiv_rn(a, b)", "__fsqrt_rn(a)", "a + b", "a * b",
             "a * b + c[3]", "fdividef(a, b)", "__fdividef(a, b)", "fabsf(a)", "fminf(a, b)", "floorf(a)", "std::sin(a)",
             "std::sqrt(a)", "(float)(d / 3.1)", "(float)sqrt(d)", "a < b ? c[4] : c[5]", "__saturatef(a)"]


class FastMath(Case):
    headers_once = True

    def setUp(self):
        super().setUp()
        world.need_runtime(self)

    def mt_cc(self, *words):
        done = self.run_(os.path.join(world.build, "bin", "mt-cc"), *words)
        self.assertNotIn("warning", done.stderr)

    def opcodes(self, *command):
        """Floating-point instructions of the PTX that a compiler makes: how many of each, for each function of the list."""
        self.run_(*command, "-O3", "-ptx", "-arch=sm_80", "f.cu", "-o", "f.ptx")
        found, kernel = {}, None
        for line in self.read("f.ptx").decode().splitlines():
            start = re.search(r"\.entry \w*?k(\d+)", line)
            if start:
                kernel = found.setdefault(FUNCTIONS[int(start[1])], collections.Counter())
            word = re.match(r"\s+(?:@!?%p\d+ )?((?:div|rcp|sqrt|rsqrt|sin|cos|tanh|ex2|lg2|fma|add|sub|mul|min|abs|cvt|setp)"
                            r"\.[\w.]*f(?:32|64)[\w.]*)", line)
            if word and "(" not in line:
                kernel[word[1]] += 1
        return found

    def test_ptx_is_nvccs(self):
        nvcc = os.path.join(os.path.realpath(overlay("include/mt-toolkit")), "..", "bin", "nvcc")
        if not os.path.exists(nvcc):
            nvcc = os.path.join(os.path.dirname(os.path.realpath(overlay("bin/real/ptxas"))), "nvcc")
        if not os.path.exists(nvcc):
            self.skipTest("the toolkit has no nvcc")
        kernels = "".join(f"__global__ void k{i}(const float *c, float *o, double d) {{ float a = c[0], b = c[1]; o[0] = {text}; }}\n"
                          for i, text in enumerate(FUNCTIONS))
        self.write("f.cu", "#include <cmath>\n" + kernels)
        compared = 0
        for flags in ([], ["-use_fast_math"], ["-ftz=true"], ["-prec-div=false"], ["-prec-sqrt=false"], ["-fmad=false"],
                      ["-prec-div=false", "-prec-sqrt=false", "-ftz=true"], ["-use_fast_math", "-ftz=false", "-prec-sqrt=true"],
                      ["--use_fast_math", "-prec-div=true", "-fmad=false"]):
            ours = self.opcodes(os.path.join(world.build, "bin", "mt-cc"), "--plain", *flags)
            theirs = self.opcodes(nvcc, *flags)
            slow = [] if "-use_fast_math" in flags or "--use_fast_math" in flags else [
                f for f in FUNCTIONS if re.match(r"(std::)?(sin|cos|tan|exp|log|pow|tanh)", f)]  # two libraries of the same age
            for text in FUNCTIONS:
                if text not in slow:
                    self.assertEqual(ours[text], theirs[text], (text, flags))
                    compared += 1
        self.assertGreater(compared, 150)

    def table(self, *flags, doubles=True, barrier=False):
        """[((expression, a, b), result)] of the CPU device. Kernels without double are run in another way than those with."""
        operations = [text for text, _, _ in OPERATIONS if doubles or "double" not in text]
        body = "".join(f"    p[{i}] = {text};\n" for i, text in enumerate(operations))
        bits = ", ".join(str(struct.unpack("I", struct.pack("f", x))[0]) for x in FLOATS + [1.0])
        self.write("t.cu", TABLE % {"count": len(operations), "body": body, "bits": bits, "n": len(FLOATS),
                                 "barrier": "    __syncthreads();" if barrier else "",
                                 "doubles": "    d[i * n + j] = (double)a * (double)b + 1;" if doubles else ""})
        self.mt_cc("-O2", *flags, "t.cu", "-o", "t")
        done = self.run_("./t", MEMTRACE_DEVICE="cpu")
        self.assertEqual(float.fromhex(done.stderr), 2.0 ** -1030)
        words = [struct.unpack("f", struct.pack("I", int(w, 16)))[0] for w in done.stdout.split()]
        keys = [(text, a, b) for a in FLOATS for b in FLOATS for text in operations]
        self.assertEqual(len(words), len(keys))
        return list(zip(keys, words))

    def same(self, got, want, what):
        if want != want:
            self.assertTrue(got != got, what)
        else:
            self.assertEqual((got, math.copysign(1, got)), (want, math.copysign(1, want)), what)

    def check(self, table, flushes, division):
        models = {text: (model, arithmetic) for text, model, arithmetic in OPERATIONS}
        for (text, a, b), got in table:
            model, arithmetic = models[text]
            if arithmetic is None and not flushes:
                continue
            z = flush if flushes and arithmetic else lambda x: x
            x, y = (z(a), z(b)) if arithmetic else (a, b)
            if text.startswith("fmaf"):
                if not (math.isfinite(x) and math.isfinite(y)) or abs(x * y) > 1e38:
                    continue
                want = z(nearest(Fraction(x) * Fraction(y) + Fraction(z(2.0 ** -127))))
                if want == 0:
                    self.assertEqual(got, 0, (text, a, b))
                    continue
            elif text == "a / b" and division is not None:
                want = division(x, y)
            else:
                want = z(model(x, y))
            if text.startswith("fminf") and want == 0:
                got = abs(got) * math.copysign(1, want)  # which of two zeros: C leaves it open
            self.same(got, want, (text, a, b, flushes))

    def test_results(self):
        self.check(self.table(), False, None)
        self.check(self.table("-prec-sqrt=true", "-prec-div=true", "-ftz=false"), False, None)

    def test_flushed_results(self):
        self.check(self.table("-ftz=true"), True, None)
        self.check(self.table("-ftz=true", "-O0"), True, None)
        self.check(self.table("-ftz=true", doubles=False), True, None)
        self.check(self.table("-ftz=true", doubles=False, barrier=True), True, None)
        self.check(self.table("-ftz=true", "-O0", doubles=False), True, None)

    def test_fast_results(self):
        """PTX's div.approx: a times the reciprocal of b, which is zero above 2^126."""
        def approximate(a, b):
            if 2.0 ** 126 < abs(b) < math.inf:
                return flush(f32(times(a, math.copysign(0, b)))) if not math.isinf(a) else math.nan
            return flush(f32(divide(a, b)))
        self.check(self.table("-use_fast_math"), True, approximate)
        self.check(self.table("-use_fast_math", doubles=False), True, approximate)

    def test_nan_and_infinity_keep_their_meaning(self):
        self.write("m.cu", MEANING)
        want = [0, 0, 0, 0, 0, 2 + 4 + 16 + 32, 2 + 16 + 32, 1 + 8 + 16 + 32]
        e = math.exp
        silu = [0.0, -1 / (1 + e(1)), 0.0, 1 / (1 + e(-1)), 100.0, math.inf, math.nan, math.nan]
        sigmoid = [0.0, 1 / (1 + e(1)), 0.5, 1 / (1 + e(-1)), 1.0, 1.0, 0.0, math.nan]
        masked = [0.0, e(-101), e(-100), e(-99), 1.0, math.inf, 0.0, math.nan]
        masked = [0.0 if 0 < x < MIN else x for x in masked]
        for flags in (["-use_fast_math"], ["-use_fast_math", "-O0"], ["-O3", "--use_fast_math", "-arch=sm_75"]):
            self.mt_cc(*flags, "m.cu", "-o", "m")
            words = self.run_("./m", MEMTRACE_DEVICE="cpu").stdout.split()
            self.assertEqual([int(w) for w in words[:8]], want, flags)
            for got, wanted in zip(words[8:], silu + sigmoid + masked):
                if wanted != wanted:
                    self.assertIn("nan", got, flags)
                else:
                    self.assertTrue(float(got) == wanted or math.isclose(float(got), wanted, rel_tol=1e-5), (got, wanted, flags))
