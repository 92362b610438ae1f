/* System services for device code: printf, malloc and free, timers. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "check.h"
#include "scheduler.h"

/* ---- printf
 * --------------------------------------------------------------------------------------------------------
 * `args` is CUDA's argument block: values after C's default promotions, each at its natural alignment. */

struct text {
    char *p;
    size_t n, capacity;
    char small[512];
};

static int device_grow(struct text *t, size_t more)
{
    if (t->n + more <= t->capacity)
        return 0;
    size_t want = (t->n + more) * 2;
    char *p = t->p == t->small ? malloc(want) : realloc(t->p, want);
    if (!p)
        return -1;
    if (t->p == t->small)
        memcpy(p, t->small, t->n);
    t->p = p;
    t->capacity = want;
    return 0;
}

static void printf_put(struct text *t, const char *s, size_t n)
{
    if (device_grow(t, n))
        return;
    memcpy(t->p + t->n, s, n);
    t->n += n;
}

struct block {
    const char *p;
    size_t at;
    int count;
};

static uint64_t device_take(struct block *b, size_t size)
{
    uint64_t v = 0;
    b->at = (b->at + size - 1) & ~(size - 1);
    memcpy(&v, b->p + b->at, size);
    b->at += size;
    b->count++;
    return v;
}

/* One conversion, formatted by the C library with the same flags. `spec` is "%…" without length modifiers,
 * with room for two more characters before the final NUL. */
static void device_convert(struct text *t, char *spec, size_t n, char c, int longs, struct block *b)
{
    char out[512], *big = NULL;
    int len;
    double d;
    uint64_t v;
    if (strchr("fFeEgGaA", c)) {
        v = device_take(b, 8);
        memcpy(&d, &v, 8);
        spec[n++] = c;
        spec[n] = 0;
        len = snprintf(out, sizeof out, spec, d);
        if (len >= (int)sizeof out && (big = malloc((size_t)len + 1)))
            snprintf(big, (size_t)len + 1, spec, d);
    } else if (c == 's') {
        const char *s = (const char *)(uintptr_t)device_take(b, 8);
        spec[n++] = 's';
        spec[n] = 0;
        s = s ? s : "(null)";
        len = snprintf(out, sizeof out, spec, s);
        if (len >= (int)sizeof out && (big = malloc((size_t)len + 1)))
            snprintf(big, (size_t)len + 1, spec, s);
    } else if (c == 'c') {
        spec[n++] = 'c';
        spec[n] = 0;
        len = snprintf(out, sizeof out, spec, (int)device_take(b, 4));
    } else if (c == 'p') {
        spec[n++] = 'p';
        spec[n] = 0;
        len = snprintf(out, sizeof out, spec, (void *)(uintptr_t)device_take(b, 8));
    } else {
        v = device_take(b, longs ? 8 : 4);
        if (!longs && (c == 'd' || c == 'i'))
            v = (uint64_t)(int64_t)(int32_t)v;
        spec[n++] = 'l';
        spec[n++] = c;
        spec[n] = 0;
        len = snprintf(out, sizeof out, spec, (unsigned long)v);
        if (len >= (int)sizeof out && (big = malloc((size_t)len + 1)))
            snprintf(big, (size_t)len + 1, spec, (unsigned long)v);
    }
    if (len > 0)
        printf_put(t, big ? big : out, big || len < (int)sizeof out ? (size_t)len : sizeof out - 1);
    free(big);
}

/* Counts the memory that a GPU keeps per call until the launch ends: at least the format's address and the
 * arguments. A GPU then overwrites the oldest output. */
static void device_printed(size_t bytes, const void *code)
{
    struct mt_pool_launch *run = mt_worker_self ? mt_cta_current()->run : NULL;
    uint64_t room = run ? run->launch->printf_bytes : 0, more = 8 + ((bytes + 7) & ~7ull);
    if (!room)
        return;
    uint64_t before = atomic_fetch_add_explicit(&run->printed, more, memory_order_relaxed);
    if (before <= room && before + more > room)
        mt_check_tell_here(MT_FINDING_OF_HEAP, (struct mt_check_place){code, mt_cpu_tls.place},
                           "prints more than the %" PRIu64 " bytes that a GPU's printf keeps of a launch: "
                           "what came first is lost there (cudaLimitPrintfFifoSize)",
                           room);
}

int mt_cpu_vprintf(const char *format, const void *args)
{
    struct text t = {.p = t.small, .capacity = sizeof t.small};
    struct block b = {.p = args};
    if (!format)
        return -1;
    for (const char *f = format; *f;) {
        char spec[96];
        size_t n = 0;
        int longs = 0;
        if (*f != '%') {
            size_t run = strcspn(f, "%");
            printf_put(&t, f, run);
            f += run;
            continue;
        }
        if (f[1] == '%') {
            printf_put(&t, "%", 1);
            f += 2;
            continue;
        }
        const char *start = f;
        spec[n++] = *f++;
        while (*f && strchr("-+ #0123456789.*hlLjztq", *f) && n < 64) {
            if (*f == '*') {
                n += (size_t)snprintf(spec + n, 16, "%d", (int)device_take(&b, 4));
                b.count--;
            } else if (strchr("ljztqL", *f)) {
                longs++;
            } else if (*f != 'h') {
                spec[n++] = *f;
            }
            f++;
        }
        if (!*f || !strchr("diouxXcspfFeEgGaA", *f)) { /* not a conversion: copied */
            printf_put(&t, start, (size_t)(f - start));
            continue;
        }
        device_convert(&t, spec, n, *f++, longs, &b);
    }
    fwrite(t.p, 1, t.n, stdout); /* one call: whole lines, in order with the program's own output */
    if (t.p != t.small)
        free(t.p);
    if (MT_UNLIKELY(mt_check_all))
        device_printed(b.at, __builtin_return_address(0));
    return b.count;
}

/* ---- heap ----------------------------------------------------------------------------------------- */

/* A fault inside the C library's heap is fatal: its lock would stay taken. */
static int leave_device(int now)
{
    int was = mt_worker_self ? mt_worker_self->in_device : 0;
    if (mt_worker_self)
        mt_worker_self->in_device = now;
    return was;
}

void *mt_cpu_malloc(uint64_t bytes)
{
    void *(*get)(uint64_t) = mt_cpu_settings.heap_get;
    int was = leave_device(0);
    void *p = !bytes ? NULL : get ? get(bytes) : malloc(bytes);
    leave_device(was);
    if (MT_UNLIKELY(!p && bytes && mt_worker_self))
        mt_check_tell_here(MT_FINDING_OF_HEAP,
                           (struct mt_check_place){__builtin_return_address(0), mt_cpu_tls.place},
                           "malloc of %" PRIu64 " bytes gives NULL: the heap of kernels is full "
                           "(cudaLimitMallocHeapSize)",
                           bytes);
    return p;
}

void mt_cpu_free(void *p)
{
    int (*put)(void *) = mt_cpu_settings.heap_put;
    int was = leave_device(0), rc = p && put ? put(p) : 0;
    if (!put)
        free(p);
    leave_device(was);
    if (rc)
        mt_fault_fail(MT_ERR_LAUNCH, "free of %p, which is no block that a kernel's malloc gave", p);
}

/* ---- time ----------------------------------------------------------------------------------------- */

uint64_t mt_cpu_globaltimer(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
