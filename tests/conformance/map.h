// Rows of pure functions: a kernel applies an expression to arrays, one element per thread, and the host
// computes the same in another way. Each thread loads its operands once and stores its result once.
//
//   MAP1(R, A, expression of a, reference)                 results equal bit for bit (a NaN equals a NaN)
//   MAP2(R, A, B, expression of a and b, reference), MAP3 with c
//   ULP1(R, A, inputs, bound, expression, reference), ULP2, ULP3
//                 reference: long double; |result - rounded reference| at most `bound` units in the last
//                 place, an expression that may use the operands and `ref`; inputs: conf::in(lo, hi) or
//                 conf::all()
// The row's name is the expression's text; MAP1_NAMED and so on take one.
#ifndef CONF_MAP_H
#define CONF_MAP_H
#include "conf.h"
#include <float.h>
#include <limits>
#include <type_traits>

namespace conf
{
constexpr int INPUTS = 512;

// A generator of inputs that is the same everywhere.
struct lcg {
    uint64_t state;
    explicit lcg(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15ull + 1)
    {
        next();
    }
    uint64_t next()
    {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        uint64_t x = state ^ state >> 29;
        x *= 0xbf58476d1ce4e5b9ull;
        return x ^ x >> 32;
    }
    double unit()
    {
        return (next() >> 11) * 0x1p-53;
    }
};

// Range of floating-point inputs: half of them evenly spread, half over the exponents; `special`: also zeros,
// infinities, NaN, subnormal and largest numbers.
struct range {
    double lo, hi;
    bool special;
};
inline range in(double lo, double hi)
{
    return {lo, hi, false};
}
inline range all()
{
    return {0, 0, true};
}

template <class T> T float_input(long i, int operand, range d)
{
    typedef std::numeric_limits<T> L;
    static const T special[] = {
        0,        -(T)0,     1,        -1,        (T)0.5,  2,      L::infinity(),   -L::infinity(),
        L::max(), -L::max(), L::min(), -L::min(), (T)-2.5, (T)1.5, L::denorm_min(), L::quiet_NaN()};
    lcg g(i * 4 + operand + 1);
    if (d.special) {
        if (i < 256)
            return special[operand == 0 ? i & 15 : operand == 1 ? i >> 4 & 15 : (i * 7 + i / 16) & 15];
        T x = (T)ldexp(1 + g.unit(), (int)(g.next() % 60) - 30);
        return g.next() & 1 ? x : -x;
    }
    if (i == 0 && d.lo == (T)d.lo)
        return (T)d.lo;
    if (i == 1 && d.hi == (T)d.hi)
        return (T)d.hi;
    T x = (T)(d.lo + (d.hi - d.lo) * g.unit());
    if (i & 1) { // spread over the exponents below the larger end
        double far = fmax(fabs(d.lo), fabs(d.hi)),
               y = ldexp(far * (0.5 + g.unit() / 2), -(int)(g.next() % 20));
        y = d.lo >= 0 || (g.next() & 1 && d.hi > 0) ? y : -y;
        if ((T)y >= d.lo && (T)y <= d.hi)
            x = (T)y;
    }
    return x >= d.lo && x <= d.hi ? x : (T)d.hi;
}

template <class T> T int_input(long i, int operand)
{
    static const uint64_t special[] = {0,
                                       1,
                                       2,
                                       3,
                                       0x7f,
                                       0x80,
                                       0xff,
                                       0x7fff,
                                       0x8000,
                                       0xffff,
                                       0x7fffffff,
                                       0x80000000,
                                       0xffffffff,
                                       0x7fffffffffffffff,
                                       0x8000000000000000,
                                       0xffffffffffffffff};
    if (i < 256)
        return (T)special[operand == 0 ? i & 15 : operand == 1 ? i >> 4 & 15 : (i * 7 + i / 16) & 15];
    lcg g(i * 4 + operand + 1);
    uint64_t x = g.next();
    return (T)(i & 1 ? x : x >> (g.next() & 63));
}

template <class T> T input(long i, int operand, range d)
{
    if constexpr (std::is_floating_point<T>::value)
        return float_input<T>(i, operand, d);
    else
        return int_input<T>(i, operand);
}

// One unit in the last place of a value rounded to T.
template <class T> long double ulp_of(long double x)
{
    typedef std::numeric_limits<T> L;
    int e;
    x = fabsl(x);
    if (x > L::max())
        x = L::max();
    frexpl(x, &e);
    int low = L::min_exponent - L::digits;
    return ldexpl(1, (e - L::digits > low ? e - L::digits : low));
}
// An absolute error as units in the last place of `ref`.
template <class T> long double absolute(long double error, long double ref)
{
    return error / ulp_of<T>((T)ref);
}

template <class R> void show(char *to, size_t size, R x)
{
    if constexpr (std::is_floating_point<R>::value)
        snprintf(to, size, "%.17g (%a)", (double)x, (double)x);
    else
        snprintf(to, size, "%#llx", (unsigned long long)x);
}

// Compares one result: `exact` bit for bit, else against a long double with a bound. False when it differs.
template <class R, class W> bool matches(R got, W want, long double bound, bool exact, long double *worst)
{
    if constexpr (!std::is_floating_point<R>::value) {
        return !memcmp(&got, &want, sizeof got);
    } else {
        if (want != want || got != got)
            return want != want && got != got;
        if (exact)
            return !memcmp(&got, &want, sizeof got);
        R rounded = (R)want;
        if (got == rounded)
            return true;
        if (isinf(got) || isinf(rounded)) // the largest number is one unit away from infinity
            return bound >= 1 &&
                   (isinf(got) ? isinf((R)(rounded * (R)(1 + 4 * std::numeric_limits<R>::epsilon())))
                               : fabs(got) == std::numeric_limits<R>::max());
        long double error = fabsl((long double)got - (long double)rounded) / ulp_of<R>(rounded);
        if (error > *worst)
            *worst = error;
        return error <= bound;
    }
}

// A row of a pure function, without its types: everything that does not depend on them is compiled once.
struct map_row : row {
    int arity, size[3], result;                             // operands, their sizes, the result's
    void (*input[3])(void *to, long i, int operand, range); // makes operand i
    range inputs;
    void (*launch)(void *out, void *const in[3]);
    bool (*judge)(long i, const void *out, void *const in[3], char *text, size_t length, long double *worst);
    bool exact;
    int table = 0, entry = 8; // see TABLE

    map_row(const char *name_, const char *what_, bool exact_) : row(name_, what_, run_map), exact(exact_)
    {
    }

    static void run_map(row &r)
    {
        static_cast<map_row &>(r).compare();
    }
    void compare()
    {
        void *dev[4] = {}, *host[4] = {};
        size_t bytes[4] = {};
        for (int k = 0; k <= arity; k++) {
            bytes[k] = (size_t)INPUTS * (k < arity ? size[k] : result);
            host[k] = malloc(bytes[k]);
            CONF_CALL(*this, cudaMalloc(&dev[k], bytes[k]));
            if (k == arity)
                break;
            for (long i = 0; i < INPUTS; i++)
                input[k]((char *)host[k] + i * size[k], i, k, inputs);
            CONF_CALL(*this, cudaMemcpy(dev[k], host[k], bytes[k], cudaMemcpyHostToDevice));
            loads(INPUTS, size[k]);
        }
        stores(INPUTS, result);
        if (table > 0)
            loads((long)INPUTS * table, entry);
        else if (table < 0)
            at_least(LOAD, 0, entry);
        CONF_CALL(*this, cudaMemset(dev[arity], 0xa5, bytes[arity]));
        launch(dev[arity], dev);
        CONF_CALL(*this, cudaGetLastError());
        CONF_CALL(*this, cudaMemcpy(host[arity], dev[arity], bytes[arity], cudaMemcpyDeviceToHost));
        long double worst = 0;
        char difference[300];
        for (long i = 0; i < INPUTS && !failed; i++)
            if (!judge(i, host[arity], host, difference, sizeof difference, &worst))
                check(false, "%s", difference);
        if (!exact)
            snprintf(note, sizeof note, "largest error %.2Lg ULP", worst);
        for (int k = 0; k <= arity; k++) {
            cudaFree(dev[k]);
            free(host[k]);
        }
    }
};

// Functions of the device library that read a table in global memory.
struct table_of {
    table_of(const char *name, int n, int size)
    {
        for (row *r = first(); r; r = r->next)
            if (!strcmp(r->name, name))
                ((map_row *)r)->table = n, ((map_row *)r)->entry = size;
    }
};

template <class T> void put_input(void *to, long i, int operand, range d)
{
    *(T *)to = input<T>(i, operand, d);
}
template <class T> char *show_one(const char *before, T x, char *text, size_t length)
{
    size_t at = strlen(text);
    at += snprintf(text + at, length - at, "%s", before);
    show(text + at, length - at, x);
    return text;
}
} // namespace conf

#define CONF_TEXT2(x) #x
#define CONF_TEXT(x) CONF_TEXT2(x)
// The parts that depend on the number of operands.
#define CONF_PARAMETERS1(A) const volatile A *x
#define CONF_PARAMETERS2(A, B) const volatile A *x, const volatile B *y
#define CONF_PARAMETERS3(A, B, C) const volatile A *x, const volatile B *y, const volatile C *z
#define CONF_OPERANDS1(A) A a = x[i];
#define CONF_OPERANDS2(A, B) CONF_OPERANDS1(A) B b = y[i];
#define CONF_OPERANDS3(A, B, C) CONF_OPERANDS2(A, B) C c = z[i];
#define CONF_POINTERS1(A) const A *x = (const A *)in[0];
#define CONF_POINTERS2(A, B) CONF_POINTERS1(A) const B *y = (const B *)in[1];
#define CONF_POINTERS3(A, B, C) CONF_POINTERS2(A, B) const C *z = (const C *)in[2];
#define CONF_NAMES1 x
#define CONF_NAMES2 x, y
#define CONF_NAMES3 x, y, z
#define CONF_USE1 (void)a;
#define CONF_USE2 CONF_USE1(void) b;
#define CONF_USE3 CONF_USE2(void) c;
#define CONF_SHOW1 conf::show_one("a ", a, text, length);
#define CONF_SHOW2 CONF_SHOW1 conf::show_one(", b ", b, text, length);
#define CONF_SHOW3 CONF_SHOW2 conf::show_one(", c ", c, text, length);
#define CONF_SETUP1(A)                                                                                       \
    size[0] = sizeof(A);                                                                                     \
    input[0] = conf::put_input<A>;
#define CONF_SETUP2(A, B)                                                                                    \
    CONF_SETUP1(A)                                                                                           \
    size[1] = sizeof(B);                                                                                     \
    input[1] = conf::put_input<B>;
#define CONF_SETUP3(A, B, C)                                                                                 \
    CONF_SETUP2(A, B)                                                                                        \
    size[2] = sizeof(C);                                                                                     \
    input[2] = conf::put_input<C>;

// n: number of operands; W: the reference's type; types: parenthesised list of the operands' types.
#define CONF_MAP(id, n, name, what, R, W, types, domain, is_exact, bound, expr, want)                        \
    static __global__ void CONF_JOIN(map_, id)(R * out, CONF_PARAMETERS##n types)                            \
    {                                                                                                        \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                                       \
        CONF_OPERANDS##n types CONF_USE##n out[i] = (expr);                                                  \
    }                                                                                                        \
    namespace                                                                                                \
    {                                                                                                        \
    struct CONF_JOIN(map_row_, id) : conf::map_row {                                                         \
        CONF_JOIN(map_row_, id)() : map_row(name, what, is_exact)                                            \
        {                                                                                                    \
            arity = n;                                                                                       \
            result = sizeof(R);                                                                              \
            inputs = domain;                                                                                 \
            CONF_SETUP##n types launch = go;                                                                 \
            judge = look;                                                                                    \
        }                                                                                                    \
        static void go(void *out, void *const in[3])                                                         \
        {                                                                                                    \
            CONF_POINTERS##n types CONF_JOIN(map_, id)<<<conf::INPUTS / 128, 128>>>((R *)out,                \
                                                                                    CONF_NAMES##n);          \
        }                                                                                                    \
        static bool look(long i, const void *out, void *const in[3], char *text, size_t length,              \
                         long double *worst)                                                                 \
        {                                                                                                    \
            CONF_POINTERS##n types CONF_OPERANDS##n types CONF_USE##n W ref = (want);                        \
            R got = ((const R *)out)[i];                                                                     \
            if (conf::matches<R, W>(got, ref, (bound), is_exact, worst))                                     \
                return true;                                                                                 \
            *text = 0;                                                                                       \
            CONF_SHOW##n conf::show_one(": got ", got, text, length);                                        \
            conf::show_one(", expected ", ref, text, length);                                                \
            return false;                                                                                    \
        }                                                                                                    \
    } CONF_JOIN(map_row_instance_, id);                                                                      \
    }

// The row reads `n` entries of `size` bytes of a table of the device library per thread; -1: as many as its
// path takes.
#define TABLE(name, n, size) static conf::table_of CONF_JOIN(table_, __COUNTER__)(name, n, size);

#define CONF_EXACT "512 inputs, bit for bit"
#define MAP1_NAMED(name, R, A, expr, want)                                                                   \
    CONF_MAP(__COUNTER__, 1, name, CONF_EXACT, R, R, (A), conf::all(), true, 0, expr, want)
#define MAP2_NAMED(name, R, A, B, expr, want)                                                                \
    CONF_MAP(__COUNTER__, 2, name, CONF_EXACT, R, R, (A, B), conf::all(), true, 0, expr, want)
#define MAP3_NAMED(name, R, A, B, C, expr, want)                                                             \
    CONF_MAP(__COUNTER__, 3, name, CONF_EXACT, R, R, (A, B, C), conf::all(), true, 0, expr, want)
#define MAP1(R, A, expr, want) MAP1_NAMED(#expr, R, A, expr, want)
#define MAP2(R, A, B, expr, want) MAP2_NAMED(#expr, R, A, B, expr, want)
#define MAP3(R, A, B, C, expr, want) MAP3_NAMED(#expr, R, A, B, C, expr, want)

#define CONF_ULP(bound, domain) "512 inputs of " #domain ", at most " #bound " ULP"
#define ULP1_NAMED(name, R, A, domain, bound, expr, want)                                                    \
    CONF_MAP(__COUNTER__, 1, name, CONF_ULP(bound, domain), R, long double, (A), conf::domain, false, bound, \
             expr, want)
#define ULP2_NAMED(name, R, A, B, domain, bound, expr, want)                                                 \
    CONF_MAP(__COUNTER__, 2, name, CONF_ULP(bound, domain), R, long double, (A, B), conf::domain, false,     \
             bound, expr, want)
#define ULP3_NAMED(name, R, A, B, C, domain, bound, expr, want)                                              \
    CONF_MAP(__COUNTER__, 3, name, CONF_ULP(bound, domain), R, long double, (A, B, C), conf::domain, false,  \
             bound, expr, want)
#define ULP1(R, A, domain, bound, expr, want) ULP1_NAMED(#expr, R, A, domain, bound, expr, want)
#define ULP2(R, A, B, domain, bound, expr, want) ULP2_NAMED(#expr, R, A, B, domain, bound, expr, want)
#define ULP3(R, A, B, C, domain, bound, expr, want) ULP3_NAMED(#expr, R, A, B, C, domain, bound, expr, want)
#endif
