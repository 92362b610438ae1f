/* malloc and its family: wrappers around the C library's (or the next allocator's) that report to the
 * core. */
#include "entry.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unwind.h>

/* Memory for dlsym, which may itself allocate; never freed. */
static _Alignas(16) char arena[1 << 16];
static size_t arena_used;
/* volatile: dlsym is declared to call nothing of ours. */
static __thread volatile int resolving;

static int in_arena(const void *p)
{
    return (const char *)p >= arena && (const char *)p < arena + sizeof arena;
}

static void *from_arena(size_t bytes, size_t align)
{
    size_t want = bytes + align + 16;
    size_t at = __atomic_fetch_add(&arena_used, (want + 15) & ~(size_t)15, __ATOMIC_RELAXED);
    if (at + want > sizeof arena) {
        errno = ENOMEM;
        return NULL;
    }
    uintptr_t p = ((uintptr_t)arena + at + 16 + align - 1) & ~(uintptr_t)(align - 1);
    ((size_t *)p)[-1] = bytes;
    return (void *)p;
}

void *mt_next(const char *name)
{
    resolving++;
    void *f = dlsym(RTLD_NEXT, name);
    resolving--;
    return f;
}

/* The next function of that name, looked up at the first call. */
#define REAL(type, name, args)                                                                               \
    static type(*real_##name) args;                                                                          \
    if (!__atomic_load_n(&real_##name, __ATOMIC_ACQUIRE) && !resolving)                                      \
    __atomic_store_n(&real_##name, (type(*) args)mt_next(#name), __ATOMIC_RELEASE)
#define CALLER ((uint64_t)(uintptr_t)__builtin_return_address(0))

/* Takes the pending location, which belongs to this call. */
static void llvm_take_place(struct mt_self *s)
{
    s->place = __mt_host_place;
    __mt_host_place = NULL;
}

/* ---- callers, by the tables that exceptions use ---- */

struct callers {
    uint64_t from, ip[MT_CORE_CALLERS]; /* from: return address of the call */
    unsigned n, passed;
};

static _Unwind_Reason_Code alloc_caller(struct _Unwind_Context *c, void *arg)
{
    struct callers *x = arg;
    const uint64_t ip = _Unwind_GetIP(c);
    if (x->n || ip == x->from)
        x->ip[x->n++] = ip - 1;
    return !ip || x->n == MT_CORE_CALLERS || ++x->passed == 2 * MT_CORE_CALLERS ? _URC_END_OF_STACK
                                                                                : _URC_NO_REASON;
}

/* Says who made the call that returns to `ip`. */
static void alloc_callers(struct mt_core_thread *t, uint64_t ip)
{
    struct callers x = {.from = ip};
    if (!mt_core_wants_callers())
        return;
    _Unwind_Backtrace(alloc_caller, &x);
    if (x.n)
        mt_core_callers(t, x.ip, x.n);
}

static void told_alloc(enum mt_core_alloc_kind kind, void *p, size_t bytes, uint64_t ip)
{
    struct mt_self *s = &mt_self;
    if (s->new) { /* malloc of operator new: its caller counts */
        kind = MT_CORE_NEW;
        ip = s->new_ip;
        s->new = 0;
    }
    if (!p || s->ours || s->busy || mt_phase != MT_PHASE_ON || mt_not_for_us(ip))
        return;
    mt_enter();
    struct mt_core_thread *t = mt_llvm_thread();
    if (t) {
        s->busy++;
        alloc_callers(t, ip);
        llvm_take_place(s);
        mt_core_alloc(t, kind, (uint64_t)(uintptr_t)p, bytes, ip);
        s->busy--;
        s->place = NULL;
    } else {
        s->lost++;
    }
    mt_leave();
}

static void alloc_told_free(void *p)
{
    struct mt_self *s = &mt_self;
    if (!p || s->ours || s->busy || mt_phase != MT_PHASE_ON)
        return;
    mt_enter();
    struct mt_core_thread *t = mt_llvm_thread();
    s->busy++;
    if (t)
        mt_core_free(t, (uint64_t)(uintptr_t)p);
    s->busy--;
    mt_leave();
}

MT_ENTRY void *malloc(size_t bytes)
{
    REAL(void *, malloc, (size_t));
    if (!real_malloc)
        return from_arena(bytes, 16);
    void *p = real_malloc(bytes);
    told_alloc(MT_CORE_MALLOC, p, bytes, CALLER);
    return p;
}

MT_ENTRY void *calloc(size_t n, size_t size)
{
    REAL(void *, calloc, (size_t, size_t));
    if (!real_calloc)
        return from_arena(n * size, 16); /* static memory is zero */
    void *p = real_calloc(n, size);
    told_alloc(MT_CORE_CALLOC, p, n * size, CALLER);
    return p;
}

MT_ENTRY void free(void *p)
{
    REAL(void, free, (void *));
    int saved = errno;
    if (in_arena(p) || !real_free)
        return;
    alloc_told_free(p);
    errno = saved;
    real_free(p);
}

static void *out_of_arena(void *old, size_t bytes)
{
    void *p = malloc(bytes);
    size_t had = ((size_t *)old)[-1];
    if (p)
        memcpy(p, old, had < bytes ? had : bytes);
    return p;
}

static void *alloc_told(struct mt_core_thread *t, void *(*real)(void *, size_t), void *old, size_t bytes,
                        uint64_t ip)
{
    struct mt_self *s = &mt_self;
    s->busy++;
    alloc_callers(t, ip);
    llvm_take_place(s);
    mt_core_realloc_begin(t, (uint64_t)(uintptr_t)old);
    if (!bytes) /* glibc frees in this case */
        mt_core_free(t, (uint64_t)(uintptr_t)old);
    void *p = real(old, bytes);
    if (p)
        mt_core_realloc(t, (uint64_t)(uintptr_t)old, (uint64_t)(uintptr_t)p, bytes, ip);
    s->busy--;
    s->place = NULL;
    return p;
}

static void *alloc_change(void *(*real)(void *, size_t), void *old, size_t bytes, uint64_t ip)
{
    const struct mt_self *s = &mt_self;
    if (s->ours || s->busy || mt_phase != MT_PHASE_ON || mt_not_for_us(ip))
        return real(old, bytes);
    mt_enter();
    struct mt_core_thread *t = mt_llvm_thread();
    void *p = t ? alloc_told(t, real, old, bytes, ip) : real(old, bytes);
    mt_leave();
    return p;
}

static void *alloc_resize(void *old, size_t bytes, uint64_t ip)
{
    REAL(void *, realloc, (void *, size_t));
    if (in_arena(old))
        return out_of_arena(old, bytes);
    if (!real_realloc)
        return old ? NULL : from_arena(bytes, 16);
    if (old)
        return alloc_change(real_realloc, old, bytes, ip);
    void *p = real_realloc(NULL, bytes);
    told_alloc(MT_CORE_REALLOC, p, bytes, ip);
    return p;
}

MT_ENTRY void *realloc(void *old, size_t bytes)
{
    return alloc_resize(old, bytes, CALLER);
}

MT_ENTRY void *reallocarray(void *old, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return alloc_resize(old, bytes, CALLER);
}

MT_ENTRY void *memalign(size_t align, size_t bytes)
{
    REAL(void *, memalign, (size_t, size_t));
    if (!real_memalign)
        return from_arena(bytes, align < 16 ? 16 : align);
    void *p = real_memalign(align, bytes);
    told_alloc(MT_CORE_MEMALIGN, p, bytes, CALLER);
    return p;
}

MT_ENTRY void *aligned_alloc(size_t align, size_t bytes)
{
    REAL(void *, aligned_alloc, (size_t, size_t));
    if (!real_aligned_alloc)
        return from_arena(bytes, align < 16 ? 16 : align);
    void *p = real_aligned_alloc(align, bytes);
    told_alloc(MT_CORE_MEMALIGN, p, bytes, CALLER);
    return p;
}

MT_ENTRY int posix_memalign(void **out, size_t align, size_t bytes)
{
    REAL(int, posix_memalign, (void **, size_t, size_t));
    if (!real_posix_memalign)
        return ENOMEM;
    int rc = real_posix_memalign(out, align, bytes);
    if (!rc)
        told_alloc(MT_CORE_MEMALIGN, *out, bytes, CALLER);
    return rc;
}

MT_ENTRY void *valloc(size_t bytes)
{
    REAL(void *, valloc, (size_t));
    void *p = real_valloc ? real_valloc(bytes) : NULL;
    told_alloc(MT_CORE_MEMALIGN, p, bytes, CALLER);
    return p;
}

MT_ENTRY void *pvalloc(size_t bytes)
{
    REAL(void *, pvalloc, (size_t));
    void *p = real_pvalloc ? real_pvalloc(bytes) : NULL;
    told_alloc(MT_CORE_MEMALIGN, p, (bytes + 4095) & ~(size_t)4095, CALLER);
    return p;
}

/* operator new. The C++ library's calls malloc, which reports it; an allocator with its own is reported
 * here. Exceptions pass through. (operator delete calls free, or the memory is handed out again by its
 * owner.) */

static void *new_finish(void *p, size_t bytes, uint64_t ip)
{
    if (mt_self.new) /* malloc was not called */
        told_alloc(MT_CORE_NEW, p, bytes, ip);
    mt_self.new = 0;
    return p;
}

#define OPERATOR(symbol, params, types, ...)                                                                 \
    MT_ENTRY void *symbol params;                                                                            \
    MT_ENTRY void *symbol params                                                                             \
    {                                                                                                        \
        static void *(*real)types;                                                                           \
        uint64_t ip = (uint64_t)(uintptr_t)__builtin_return_address(0);                                      \
        if (!__atomic_load_n(&real, __ATOMIC_ACQUIRE))                                                       \
            __atomic_store_n(&real, (void *(*)types)mt_next(#symbol), __ATOMIC_RELEASE);                     \
        mt_self.new = 1;                                                                                     \
        mt_self.new_ip = ip;                                                                                 \
        return new_finish(real(__VA_ARGS__), bytes, ip);                                                     \
    }

OPERATOR(_Znwm, (size_t bytes), (size_t), bytes)
OPERATOR(_Znam, (size_t bytes), (size_t), bytes)
OPERATOR(_ZnwmRKSt9nothrow_t, (size_t bytes, const void *tag), (size_t, const void *), bytes, tag)
OPERATOR(_ZnamRKSt9nothrow_t, (size_t bytes, const void *tag), (size_t, const void *), bytes, tag)
OPERATOR(_ZnwmSt11align_val_t, (size_t bytes, size_t align), (size_t, size_t), bytes, align)
OPERATOR(_ZnamSt11align_val_t, (size_t bytes, size_t align), (size_t, size_t), bytes, align)
OPERATOR(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t align, const void *tag),
         (size_t, size_t, const void *), bytes, align, tag)
OPERATOR(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t align, const void *tag),
         (size_t, size_t, const void *), bytes, align, tag)
