// Frame of the conformance programs: rows, buffers, checks. README.md says how to write a row.
//
// A row is a name, what it checks, a body that launches kernels and compares what they computed, and the
// accesses that the body's kernels make in global memory. The program runs the rows in order and writes one
// line per row to the file named by --out; rows.py compares the accesses with the trace. Nothing here knows
// which device runs.
#ifndef CONF_H
#define CONF_H
#include <cuda_runtime.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace conf
{
enum kind { LOAD, STORE, ATOMIC };

// One row. The body gets it to say what it expects and what it found.
struct row {
    const char *name, *what;
    void (*body)(row &);
    bool alone;       // runs in a process of its own
    bool skipped;     // cannot be tried here; `text` says why
    bool failed;      // `text` says what differed first
    bool inexact;     // sizes of accesses are the compiler's choice: only bytes count
    bool failing;     // the body leaves a launch error after
    char text[400];   // first difference
    char note[120];   // a figure for the table
    char counts[400]; // " load:4=32 store:8=1"; "load:4>=1" means at least
    long untraced_;   // accesses without a record
    long bytes[3];    // expected bytes per kind
    row *next;

    row(const char *name_, const char *what_, void (*body_)(row &), bool alone_ = false);

    // Expected accesses of all of the row's launches together, counted per thread:
    // `n` accesses of `size` bytes.
    void expect(kind k, long n, int size)
    {
        static const char *const names[] = {"load", "store", "atomic"};
        size_t at = strlen(counts);
        snprintf(counts + at, sizeof counts - at, " %s:%d=%ld", names[k], size, n);
    }
    void loads(long n, int size)
    {
        expect(LOAD, n, size);
    }
    void stores(long n, int size)
    {
        expect(STORE, n, size);
    }
    void atomics(long n, int size)
    {
        expect(ATOMIC, n, size);
    }
    // At least `n` accesses: loops that wait for others.
    void at_least(kind k, long n, int size)
    {
        expect(k, n, size);
        char *sign = strrchr(counts, '=');
        if (strlen(counts) + 2 < sizeof counts) {
            memmove(sign + 1, sign, strlen(sign) + 1);
            *sign = '>';
        }
    }
    void untraced(long n)
    {
        untraced_ += n;
    }
    // The compiler may join or split these accesses: compare bytes per kind, not counts per size.
    void only_bytes()
    {
        inexact = true;
    }
    // The row's launches end with an error that the body has looked at.
    void launch_fails()
    {
        failing = true;
    }

    // Takes the first failure's words; later ones are not kept.
    __attribute__((format(printf, 3, 4))) bool check(bool holds, const char *format, ...)
    {
        if (holds || failed)
            return holds;
        failed = true;
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        return false;
    }
    bool call(cudaError_t error, const char *what_was_called)
    {
        return check(error == cudaSuccess, "%s: %s", what_was_called, cudaGetErrorName(error));
    }
    __attribute__((format(printf, 2, 3))) void skip(const char *format, ...)
    {
        skipped = true;
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
    }
    bool same(long i, long long got, long long want)
    {
        return check(got == want, "[%ld]: got %lld (%#llx), expected %lld (%#llx)", i, got,
                     (unsigned long long)got, want, (unsigned long long)want);
    }
};

inline row *&first()
{
    static row *head = nullptr;
    return head;
}

inline row::row(const char *name_, const char *what_, void (*body_)(row &), bool alone_)
    : name(name_), what(what_), body(body_), alone(alone_), skipped(false), failed(false), inexact(false),
      failing(false), text(), note(), counts(), untraced_(0), bytes(), next(nullptr)
{
    row **at = &first();
    while (*at)
        at = &(*at)->next;
    *at = this;
}

#define CONF_CALL(r, call_) (r).call((call_), #call_)

// Device memory with a host copy. `n` elements; from() fills them, get() brings them back (and waits).
template <class T> struct buffer {
    row &r;
    T *d, *h;
    long n;
    buffer(row &r_, long n_) : r(r_), d(nullptr), h((T *)calloc(n_, sizeof(T))), n(n_)
    {
        CONF_CALL(r, cudaMalloc((void **)&d, n * sizeof(T)));
        CONF_CALL(r, cudaMemset(d, 0xa5, n * sizeof(T))); // what nobody writes is not zero
    }
    template <class F> buffer(row &r_, long n_, F from) : buffer(r_, n_)
    {
        for (long i = 0; i < n; i++)
            h[i] = from(i);
        put();
    }
    buffer(const buffer &) = delete;
    ~buffer()
    {
        cudaFree(d);
        free(h);
    }
    void put()
    {
        CONF_CALL(r, cudaMemcpy(d, h, n * sizeof(T), cudaMemcpyHostToDevice));
    }
    T *get()
    {
        CONF_CALL(r, cudaDeviceSynchronize());
        CONF_CALL(r, cudaMemcpy(h, d, n * sizeof(T), cudaMemcpyDeviceToHost));
        return h;
    }
    operator T *() const
    {
        return d;
    }
    // Fetches and compares integers with a formula.
    template <class F> void is(F want)
    {
        get();
        for (long i = 0; i < n; i++)
            if (!r.same(i, (long long)h[i], (long long)(T)want(i)))
                return;
    }
};

#define CONF_JOIN2(a, b) a##b
#define CONF_JOIN(a, b) CONF_JOIN2(a, b)
// ROW("name", "what it checks") { body; `r` is the row }
#define ROW_(name_, what_, alone_, id)                                                                       \
    static void CONF_JOIN(body_, id)(conf::row & r);                                                         \
    static conf::row CONF_JOIN(row_, id)(name_, what_, CONF_JOIN(body_, id), alone_);                        \
    static void CONF_JOIN(body_, id)(conf::row & r)
#define ROW(name_, what_) ROW_(name_, what_, false, __COUNTER__)
#define ROW_OF(name_, what_, ...)                                                                            \
    ROW(name_, what_)                                                                                        \
    {                                                                                                        \
        __VA_ARGS__;                                                                                         \
    }
// What a kernel stores at `out`, n elements: element i is `want`.
#define ROW_OUT(name_, what_, T, n, launch, want)                                                            \
    ROW(name_, what_)                                                                                        \
    {                                                                                                        \
        conf::buffer<T> out(r, n);                                                                           \
        launch;                                                                                              \
        out.is([](long i) {                                                                                  \
            (void)i;                                                                                         \
            return want;                                                                                     \
        });                                                                                                  \
        r.stores(n, sizeof(T));                                                                              \
    }
// A row in a process of its own: rows that leave an error behind, set variables, or take over stdout.
#define ROW_ALONE(name_, what_) ROW_(name_, what_, true, __COUNTER__)

static __global__ void conf_mark() // is in the trace before each row
{
}

inline void run(row &r, FILE *out)
{
    conf_mark<<<1, 1>>>();
    CONF_CALL(r, cudaDeviceSynchronize());
    r.body(r);
    cudaError_t late = cudaDeviceSynchronize(), last = cudaGetLastError();
    if (!r.failing) {
        r.call(late, "cudaDeviceSynchronize after the row");
        r.call(last, "cudaGetLastError after the row");
    }
    fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%ld\t%s\n", r.name, r.what,
            r.failed    ? "FAILED"
            : r.skipped ? "skipped"
                        : "ok",
            r.text, r.note, *r.counts ? r.counts + 1 : "", r.untraced_, r.inexact ? "bytes" : "exact");
    fflush(out);
}

// [--list] [--out FILE] [ROW...]: without rows, all that need no process of their own.
inline int main(int argc, char **argv)
{
    FILE *out = stdout;
    int at = 1, found = 0;
    if (at < argc && !strcmp(argv[at], "--list")) {
        for (row *r = first(); r; r = r->next)
            printf("%s\t%s\n", r->alone ? "alone" : "row", r->name);
        return 0;
    }
    if (at + 1 < argc && !strcmp(argv[at], "--out")) {
        if (!(out = fopen(argv[at + 1], "w"))) {
            perror(argv[at + 1]);
            return 2;
        }
        at += 2;
    }
    for (row *r = first(); r; r = r->next) {
        bool wanted = at == argc && !r->alone;
        for (int i = at; i < argc; i++)
            wanted |= !strcmp(argv[i], r->name);
        if (wanted) {
            run(*r, out);
            found++;
        }
    }
    return found ? 0 : 2;
}
} // namespace conf

#define CONF_MAIN                                                                                            \
    int main(int argc, char **argv)                                                                          \
    {                                                                                                        \
        return conf::main(argc, argv);                                                                       \
    }
#endif
