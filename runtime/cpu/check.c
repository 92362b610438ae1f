/* Bad accesses (MEMTRACE_CHECK=1): outside of every allocation or of the variable meant, or misaligned. On a
 * GPU the launch may die; here the access is skipped and the launch continues, so that one run shows all
 * errors. Under MEMTRACE_CHECK=stop, and where code cannot skip the access, the thread (for vector code
 * the warp) ends before it, and the launch fails. A launch that then waits for work that was not done is
 * given up. */
#define _GNU_SOURCE
#include "check.h"
#include "scheduler.h"
#include "image.h"
#include "memtrace/record.h"
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

/* Failing device code: traps, assertions, unsupported instructions, and hardware faults (a bad address, a
 * division by zero, a stack overflow into the guard page). The launch fails with an error code and a
 * message, and the program goes on. Signals that device code did not cause go to their previous handler. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* "CTA (x,y,z), thread (x,y,z)" */
static void fault_where(char *text, size_t size)
{
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    snprintf(text, size, "CTA (%u,%u,%u), thread (%u,%u,%u)", t->ctaid[0], t->ctaid[1], t->ctaid[2],
             t->tid[0], t->tid[1], t->tid[2]);
}

/* Returns the hint, or "" if MEMTRACE_CHECK is on, which it recommends. */
static const char *fault_hint(const char *words)
{
    return mt_check_all ? "" : words;
}

/* Threads of a kernel without waits run in a loop, and only the loop knows the current one. */
static void fault_where_now(char *text, size_t size, const struct mt_pool_launch *run, int sig)
{
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    const uint32_t *block = run->launch->block;
    if ((run->loop || run->warps) && (uint64_t)block[0] * block[1] * block[2] > 1)
        snprintf(text, size, "CTA (%u,%u,%u), one of its threads%s", t->ctaid[0], t->ctaid[1], t->ctaid[2],
                 sig == SIGSEGV || sig == SIGBUS ? fault_hint(" (MEMTRACE_CHECK=1 says which)") : "");
    else
        fault_where(text, size);
}

void mt_fault_record(struct mt_pool_launch *run, int code, const char *text)
{
    pthread_mutex_lock(&lock);
    if (!run->launch->message[0])
        snprintf(run->launch->message, sizeof run->launch->message, "%s", text);
    atomic_compare_exchange_strong(&run->failed, &(int){0}, code);
    pthread_mutex_unlock(&lock);
}

/* Leaves the running fiber for good. */
static _Noreturn void fault_leave(void)
{
    struct mt_worker *w = mt_worker_self;
    void *dead;
    w->status = MT_CTA_FAILED;
    mt_fiber_switch(&dead, w->sched_sp, 0);
    __builtin_unreachable();
}

void mt_fault_fail(int code, const char *format, ...)
{
    struct mt_cta *cta = mt_cta_current();
    char where[256], what[256], text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    fault_where(where, sizeof where);
    snprintf(text, sizeof text, "%.250s: %.250s", where, what);
    mt_fault_record(cta->run, code, text);
    fault_leave();
}

void mt_cpu_trap(void)
{
    mt_fault_fail(MT_ERR_LAUNCH, "trap instruction");
}

void mt_cpu_unsupported(const char *what, const char *file, uint32_t line)
{
    mt_fault_fail(MT_ERR_UNSUPPORTED, "the CPU device cannot run %s (%s:%u)",
                  what ? what : "this instruction", file && *file ? file : "?", line);
}

void mt_cpu_fail(int code, const char *what)
{
    mt_fault_fail(code, "%s", what);
}

void mt_cpu_assertfail(const char *message, const char *file, uint32_t line, const char *function)
{
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    char text[512]; /* formatted before stderr is locked: the strings are the kernel's, and may be bad
                     * pointers */
    snprintf(text, sizeof text, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
             file, line, function, t->ctaid[0], t->ctaid[1], t->ctaid[2], t->tid[0], t->tid[1], t->tid[2],
             message);
    fflush(stdout);
    fputs(text, stderr);
    mt_fault_fail(MT_ERR_ASSERT, "assertion `%s` failed (%s:%u)", message, file, line);
}

/* ---- hardware faults
 * ----------------------------------------------------------------------------------------------- */

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
#define NSIGNALS (sizeof signals / sizeof signals[0])
static struct sigaction before[NSIGNALS];
/* Handlers set by the program since: they run first, and may call the previous handler, which is ours. */
static const struct sigaction *_Atomic since[NSIGNALS];
static _Thread_local struct {
    void *context;
    char *frame;
} handed; /* fault passed on to a handler of the program */

/* Returns 1 if the instruction at `p` is a vector move that needs an aligned address. Only then does a
 * general protection fault, which names no address, mean misalignment. */
static int wants_alignment(const uint8_t *p)
{
    int data16 = 0, simd = 0;
    for (;; p++) {
        if (*p == 0x66)
            data16 = 1;
        else if (*p == 0xf2 || *p == 0xf3)
            simd = *p;
        else if ((*p & 0xf0) != 0x40)
            break;
    }
    if (*p == 0xc5 || *p == 0xc4 || *p == 0x62) { /* VEX, EVEX: the prefix is in two bits of the last byte */
        unsigned length = *p == 0xc5 ? 2 : *p == 0xc4 ? 3 : 4, pp = p[*p == 0x62 ? 2 : length - 1] & 3;
        data16 = pp == 1;
        simd = pp > 1;
        p += length;
    } else if (*p++ != 0x0f) {
        return 0;
    }
    switch (*p) {
    case 0x28: /* movaps, movapd */
    case 0x29:
    case 0x2b: /* movntps */
    case 0xe7: /* movntdq */
        return !simd;
    case 0x6f: /* movdqa */
    case 0x7f:
        return data16;
    default:
        return 0;
    }
}

/* Returns 1 if the address is in the hole to which mapa leads for a missing CTA of the cluster. */
static int fault_in_hole(const struct mt_cta *cta, uint64_t address)
{
    const char *shared = cta->cluster ? cta->cluster->shared : cta->shared;
    return (uint64_t)(uintptr_t)shared - 1 - address < MT_SHARED_HOLE;
}

/* Returns 1 if the address is below the fiber's stack. */
static int fault_of_stack(const struct mt_fiber *f, uint64_t address)
{
    uint64_t low = f && f->stack ? (uint64_t)(uintptr_t)f->stack->low : 0;
    return low && address < low && address >= low - 4096;
}

/* Returns the error code for a signal, with a text. */
static int fault_describe(char *text, size_t size, int sig, const siginfo_t *info, const void *instruction)
{
    const struct mt_worker *w = mt_worker_self;
    const struct mt_cta *cta = mt_cta_current();
    const struct mt_fiber *f = w && cta ? cta->current : NULL;
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    if (sig == SIGFPE)
        snprintf(text, size, "integer division by zero or overflow");
    else if (sig == SIGILL)
        snprintf(text, size, "invalid instruction (a trap, or code the compiler held for unreachable)");
    else if (fault_of_stack(f, address))
        snprintf(text, size, "stack overflow of a device thread (MEMTRACE_CPU_STACK sets more)");
    else if (sig == SIGSEGV && info->si_code == SI_KERNEL && wants_alignment(instruction)) {
        snprintf(text, size, "misaligned address of a vector access%s",
                 fault_hint(" (MEMTRACE_CHECK=1 says where)"));
        return MT_ERR_MISALIGNED;
    } else if (sig == SIGSEGV && info->si_code == SI_KERNEL)
        snprintf(text, size, "illegal address beyond any address space%s",
                 fault_hint(" (MEMTRACE_CHECK=1 says where)"));
    else if (cta && fault_in_hole(cta, address))
        snprintf(text, size, "shared memory of a CTA that the cluster does not have (mapa)");
    else {
        int n = snprintf(text, size, "illegal address 0x%llx", (unsigned long long)address);
        if (mt_cpu_settings.describe && n > 0 && (size_t)n + 3 < size) {
            memcpy(text + n, ": ", 3);
            mt_cpu_settings.describe(address, text + n + 2, size - (size_t)n - 2);
        }
    }
    return sig == SIGFPE || sig == SIGILL ? MT_ERR_LAUNCH : MT_ERR_ADDRESS;
}

/* Passes on a fault or signal that is the program's. */
static void fault_hand_on(size_t i, siginfo_t *info, void *context)
{
    int sig = signals[i];
    char *frame = __builtin_frame_address(0);
    const struct sigaction *to = atomic_load(&since[i]);
    if (!to || (context == handed.context && frame < handed.frame)) /* called by a handler in `since` */
        to = &before[i];
    __typeof__(handed) outer = handed;
    handed.context = context;
    handed.frame = frame;
    if (to->sa_flags & SA_SIGINFO) {
        to->sa_sigaction(sig, info, context);
    } else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN) {
        to->sa_handler(sig);
    } else if (to->sa_handler == SIG_DFL || info->si_code > 0) {
        /* the fault repeats with the default action; an ignored signal that was sent does not */
        sigaction(sig, to, NULL);
        if (info->si_code <= 0)
            raise(sig);
    }
    handed = outer;
}

static void fault_on_signal(int sig, siginfo_t *info, void *context)
{
    struct mt_worker *w = mt_worker_self;
    struct mt_cta *cta = w ? mt_cta_current() : NULL;
    if (w && w->in_device && cta && info->si_code > 0) {
        ucontext_t *uc = context;
        char where[128], what[320], text[512];
        fault_where_now(where, sizeof where, cta->run, sig);
        int code = fault_describe(what, sizeof what, sig, info,
                                  (const void *)(uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);
        snprintf(text, sizeof text, "%.120s: %s", where, what);
        if (sig == SIGSEGV && fault_of_stack(cta->current, (uint64_t)(uintptr_t)info->si_addr))
            mt_check_stack(cta->run);
        mt_fault_record(cta->run, code, text);
        /* Continues after the handler in leave(), on a stack of its own, since the fiber's may be used up. */
        uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)fault_leave;
        uc->uc_mcontext.gregs[REG_RSP] =
            (greg_t)(((uintptr_t)w->fault_stack + 4 * MT_FAULT_STACK) & ~(uintptr_t)63) - 8;
        return;
    }
    for (size_t i = 0; i < NSIGNALS; i++)
        if (signals[i] == sig)
            fault_hand_on(i, info, context);
}

static void fault_put(size_t i, struct sigaction *old)
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_sigaction = fault_on_signal;
    sa.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(signals[i], &sa, old);
}

void mt_fault_install(void)
{
    for (size_t i = 0; i < NSIGNALS; i++)
        fault_put(i, &before[i]);
}

void mt_fault_take_back(void)
{
    for (size_t i = 0; i < NSIGNALS; i++) {
        struct sigaction now, *kept;
        if (sigaction(signals[i], NULL, &now) ||
            (now.sa_flags & SA_SIGINFO && now.sa_sigaction == fault_on_signal) ||
            !(kept = malloc(sizeof *kept)))
            continue;
        *kept = now;
        atomic_store(&since[i], kept); /* kept: another thread may be about to call it */
        fault_put(i, NULL);
    }
}

#define CACHED 4
/* Number of accesses of all threads after a bad one before a launch is given up: if a thread has ended, or
 * not. */
#define AFTER_END (1u << 26)
#define AFTER_SKIP (1u << 30)
#define ROW_WIDE ((int64_t)1 << 40) /* bytes between lanes of a row whose addresses do not wrap round */
#define SPINS (1u << 26)            /* number of yields of its threads with the same effect */

int mt_check_on, mt_check_all;

/* Last entry of the table found by this worker. */
struct known {
    struct mt_cpu_memory m;
    uint64_t generation;
    int device; /* device that it is for */
};
static _Thread_local struct known known[CACHED] __attribute__((tls_model("initial-exec")));
static _Thread_local unsigned next_known;

/* Returns whether the launch may touch the bytes, which are part of the memory. */
static int check_inside(const struct mt_cpu_launch *launch, uint64_t address, uint64_t bytes,
                        const struct mt_cpu_memory *m)
{
    return address - m->base < m->bytes && bytes <= m->bytes - (address - m->base) &&
           (MT_LIKELY(!m->path) || (launch->after && launch->after[m->path - 1] < m->n));
}

/* Returns whether they are part of memory that this worker has found before. */
static int check_is_known(const struct mt_cpu_launch *launch, uint64_t address, uint64_t bytes)
{
    uint64_t generation = atomic_load_explicit(mt_cpu_settings.check.generation, memory_order_acquire);
    for (int i = 0; i < CACHED; i++)
        if (known[i].generation == generation && known[i].device == launch->device &&
            check_inside(launch, address, bytes, &known[i].m))
            return 1;
    return 0;
}

static int is_allocated(const struct mt_cpu_launch *launch, uint64_t address, uint64_t bytes, uint32_t type)
{
    uint64_t generation = atomic_load_explicit(mt_cpu_settings.check.generation, memory_order_acquire);
    struct known k = {.generation = generation, .device = launch->device};
    if (check_is_known(launch, address, bytes))
        return 1;
    if (!mt_cpu_settings.check.find(launch->device, address, &k.m) &&
        !(type == MT_LOAD && mt_image_literal(address, &k.m.base, &k.m.bytes)))
        return 0;
    known[next_known++ % CACHED] = k;
    return check_inside(launch, address, bytes, &k.m);
}

static void bad_tell(struct mt_cpu_bad *bad)
{
    struct mt_worker *w = mt_worker_self;
    int in_device = w->in_device;
    w->in_device = 0; /* a fault inside is not the kernel's */
    mt_cpu_settings.check.report(bad);
    w->in_device = in_device;
}

/* Computes x, y and z of thread `number` of the CTA. */
static void check_thread(uint32_t number, uint32_t *tid)
{
    const uint32_t *block = mt_cpu_tls.ntid;
    tid[0] = number % block[0];
    tid[1] = number / block[0] % block[1];
    tid[2] = number / block[0] / block[1];
}

/* Finds the image of the code: a kernel's functions may be in several images (-fgpu-rdc). */
static const struct mt_image *image_of(const struct mt_pool_launch *run, const void *code)
{
    const struct mt_image *first = run->launch->image, *i = first;
    while (i && i->peer && !mt_image_owns(i, code))
        i = i->peer;
    return i;
}

/* ---- accesses outside of their variable ---- */

/* Returns where the variable begins: its address, or its offset as records have it. */
static uint64_t object_base(const struct mt_image *image, const struct mt_image_object *o)
{
    const struct mt_image_shared *own = image->head->shared;
    const struct mt_image_shared_place *place = o->place;
    if (o->space == MT_OBJECT_GLOBAL)
        return (uint64_t)(uintptr_t)o->address;
    if (o->space == MT_OBJECT_LOCAL)
        return o->offset;
    if (o->dynamic)
        return own ? own->dynamic : o->offset;
    return place ? place->offset + place->home->base : (own ? own->base : 0) + o->offset;
}

/* Returns whether the access is inside the variable; else the report says where it is. */
static int object_holds(const struct mt_image *image, const struct mt_image_object *o, struct mt_cpu_bad *bad)
{
    uint64_t bytes = o->dynamic ? mt_cpu_tls.dyn_shared : o->bytes;
    uint64_t at = bad->address - object_base(image, o);
    if (bad->bytes <= bytes && at <= bytes - bad->bytes)
        return 1;
    bad->object = o;
    bad->object_bytes = bytes;
    bad->object_at = (int64_t)at;
    return 0;
}

/* Returns the distance between the access and its variable. */
static uint64_t object_apart(const struct mt_cpu_bad *bad)
{
    int64_t at = bad->object_at;
    return at < 0                             ? 0 - (uint64_t)at
           : (uint64_t)at < bad->object_bytes ? 0
                                              : (uint64_t)at - bad->object_bytes;
}

/* For an access of shared memory by an unknown pointer: returns whether any variable of the kernel's images
 * holds it; else the report names the nearest. */
static int object_any_holds(const struct mt_image *image, struct mt_cpu_bad *bad)
{
    struct mt_cpu_bad nearest = *bad;
    for (; image; image = image->peer) {
        const struct mt_image_object *o = image->head->objects;
        for (uint32_t i = 0; i < image->head->nobjects; i++, o++) {
            struct mt_cpu_bad here = *bad;
            if (o->space != MT_OBJECT_SHARED)
                continue;
            if (object_holds(image, o, &here))
                return 1;
            if (!nearest.object || object_apart(&here) < object_apart(&nearest))
                nearest = here;
        }
    }
    *bad = nearest;
    return 0;
}

/* Returns whether the bytes are those of cooperative groups, after the launch's own. */
static int object_is_reserved(const struct mt_cpu_bad *bad)
{
    uint64_t first = mt_cpu_tls.shared_bytes - MT_SHARED_RESERVED;
    return bad->address - first < MT_SHARED_RESERVED;
}

/* Checks an access against the variable of its site. Returns whether it is inside. */
static int object_check(const struct mt_pool_launch *run, uint32_t number, struct mt_cpu_bad *bad)
{
    const struct mt_image_head *head = bad->image->head;
    const struct mt_image_object *o = number && number <= head->nobjects
                                          ? (const struct mt_image_object *)head->objects + number - 1
                                          : NULL;
    uint64_t address = bad->address;
    int good = 1;
    if (mt_rec_space(bad->type) == MT_IN_SHARED && address >> 32 && address >> 32 <= MT_SHARED_WINDOW)
        bad->address = (uint32_t)address; /* in another CTA of the cluster */
    if (o && (o->space != MT_OBJECT_GLOBAL || o->address))
        good = object_holds(bad->image, o, bad);
    else if (mt_rec_space(bad->type) == MT_IN_SHARED)
        good = object_is_reserved(bad) || object_any_holds(run->launch->image, bad);
    bad->address = address;
    return good;
}

/* Returns whether the access may happen although it is outside of its variable, as on a GPU: in the CTA's
 * shared memory, or a load of constants of the image. */
static int object_is_harmless(const struct mt_cpu_bad *bad)
{
    if (bad->type >= MT_CHECK_CONSTANT)
        return bad->kind == MT_FINDING_OF_BOUNDS && bad->address >= bad->image->base &&
               bad->address + bad->bytes <= bad->image->base + bad->image->bytes;
    uint64_t at = bad->address >> 32 <= MT_SHARED_WINDOW ? (uint32_t)bad->address : bad->address;
    return bad->kind == MT_FINDING_OF_BOUNDS && mt_rec_space(bad->type) == MT_IN_SHARED &&
           bad->bytes <= mt_cpu_tls.shared_bytes && at <= mt_cpu_tls.shared_bytes - bad->bytes;
}

/* Checks an access of the running thread. Returns 0 if it is good; else it was reported, and must not happen
 * if this is not -1. */
static int check_one(struct mt_pool_launch *run, const struct mt_image *image, uint64_t address,
                     uint32_t meta, uint32_t site)
{
    const struct mt_image_head *head = image->head;
    const struct mt_image_site *sites = head->sites;
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    site -= image->site_base;
    uint32_t align = site < head->nsites ? sites[site].align : 0, space = mt_rec_space(meta >> 28);
    struct mt_cpu_bad bad = {.launch = run->launch,
                             .address = address,
                             .bytes = meta & MT_RAW_MAX_SIZE,
                             .type = meta >> 28,
                             .image = image,
                             .site = site,
                             .align = align,
                             .kind = MT_FINDING_OF_BOUNDS};
    int code = 0;
    if (align && address % align) /* a GPU reports misalignment first */
        code = MT_ERR_MISALIGNED;
    else if (mt_check_all && !object_check(run, site < head->nsites ? sites[site].object : 0, &bad))
        code = MT_ERR_ADDRESS;
    else if (!space && !is_allocated(run->launch, address, bad.bytes, bad.type))
        code = MT_ERR_ADDRESS;
    if (MT_LIKELY(!code))
        return 0;
    if (code == MT_ERR_MISALIGNED)
        bad.kind = MT_FINDING_OF_MISALIGNED;
    memcpy(bad.cta, t->ctaid, sizeof bad.cta);
    memcpy(bad.thread, t->tid, sizeof bad.thread);
    bad_tell(&bad);
    atomic_fetch_add_explicit(&run->found, 1, memory_order_relaxed);
    atomic_compare_exchange_strong(&run->bad, &(int){0}, code);
    return object_is_harmless(&bad) ? -1 : code;
}

void mt_check_end(void)
{
    struct mt_pool_launch *run = mt_cta_current()->run;
    atomic_store(&run->ended, 1);
    mt_cpu_exit_thread();
    __builtin_unreachable();
}

static void check_go_on(struct mt_pool_launch *run, uint32_t accesses)
{
    if (MT_UNLIKELY(atomic_load_explicit(&run->bad, memory_order_relaxed)) &&
        atomic_fetch_add_explicit(&run->after_bad, accesses, memory_order_relaxed) >
            (run->ended ? AFTER_END : AFTER_SKIP))
        mt_fault_fail(run->bad, "the launch did not end by itself after a bad access");
}

void mt_check_spins(struct mt_pool_launch *run)
{
    if (run->bad && (run->ended || ++run->spins > SPINS))
        mt_fault_fail(run->bad, "gives up waiting: another thread had a bad access");
}

/* The last access that this worker checked. */
static _Thread_local struct {
    const struct mt_pool_launch *run;
    const struct mt_image *image;
    const void *code;
    uint32_t site;
} last __attribute__((tls_model("initial-exec")));

/* Addresses of a warp's access. */
struct check_span {
    uint64_t low, high, bits; /* the lowest and the highest one; bits that any of them has */
};

/* Returns whether all lanes' accesses are good, if that shows at once: they are aligned, and lie in one
 * variable or one allocation that is known already. */
static int check_whole(const struct mt_pool_launch *run, const struct mt_image *image,
                       const struct check_span *x, uint32_t meta, uint32_t site)
{
    const struct mt_image_site *s =
        site < image->head->nsites ? (const struct mt_image_site *)image->head->sites + site : NULL;
    const struct mt_image_object *o =
        mt_check_all && s && s->object && s->object <= image->head->nobjects
            ? (const struct mt_image_object *)image->head->objects + s->object - 1
            : NULL;
    uint64_t bytes = meta & MT_RAW_MAX_SIZE, begin, size;
    uint32_t align = s ? s->align : 0, space = mt_rec_space(meta >> 28);
    if ((align && (align & (align - 1) || x->bits & (align - 1))) || x->high > UINT64_MAX - bytes)
        return 0;
    if (!o || (o->space == MT_OBJECT_GLOBAL && !o->address))
        return meta >> 28 >= MT_CHECK_CONSTANT ||
               (!space && check_is_known(run->launch, x->low, x->high + bytes - x->low));
    begin = object_base(image, o);
    size = o->dynamic ? mt_cpu_tls.dyn_shared : o->bytes;
    return x->low >= begin && x->high - begin <= size && bytes <= size - (x->high - begin) &&
           (space || check_is_known(run->launch, x->low, x->high + bytes - x->low));
}

/* Notes an access. Returns whether all lanes' accesses are good, if that shows at once. */
static int check_quick(const struct check_span *x, uint32_t lanes, uint32_t meta, uint32_t site,
                       const void *caller)
{
    struct mt_pool_launch *run = mt_cta_current()->run;
    const struct mt_image *image = image_of(run, caller);
    last.run = run;
    last.image = image;
    last.code = caller;
    last.site = site - image->site_base;
    if (!lanes || !check_whole(run, image, x, meta, last.site))
        return 0;
    check_go_on(run, (uint32_t)__builtin_popcount(lanes));
    return 1;
}

/* Checks lane by lane the access that was noted. */
static uint32_t check_each(const uint64_t *address, uint32_t lanes, uint32_t meta, uint32_t site)
{
    struct mt_cta *cta = mt_cta_current();
    uint32_t bad = 0, told = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(m);
        check_thread(cta->current->warp * MT_WARP + i, mt_cpu_tls.tid); /* for the report */
        int code = check_one(cta->run, last.image, address[i], meta, site);
        told |= (uint32_t)(code != 0) << i;
        bad |= (uint32_t)(code > 0) << i;
    }
    if (told && mt_cpu_settings.check.stop)
        mt_check_end();
    check_go_on(cta->run, (uint32_t)__builtin_popcount(lanes));
    return bad;
}

uint32_t mt_check_warp(const uint64_t *address, uint32_t lanes, uint32_t meta, uint32_t site,
                       const void *caller)
{
    const uint64_t first = lanes ? address[__builtin_ctz(lanes)] : 0;
    struct check_span x = {first, first, first};
    for (uint32_t m = lanes; m; m &= m - 1) {
        const uint64_t a = address[__builtin_ctz(m)];
        x.low = a < x.low ? a : x.low;
        x.high = a > x.high ? a : x.high;
        x.bits |= a;
    }
    return check_quick(&x, lanes, meta, site, caller) ? 0 : check_each(address, lanes, meta, site);
}

uint32_t mt_check_row(uint64_t base, int64_t stride, uint32_t lanes, uint32_t meta, uint32_t site,
                      const void *caller)
{
    const uint64_t by = (uint64_t)stride, left = lanes ? (uint32_t)__builtin_ctz(lanes) : 0,
                   right = lanes ? 31 - (uint32_t)__builtin_clz(lanes) : 0;
    uint64_t list[MT_WARP], first = base + left * by, end = base + right * by;
    struct check_span x = {first, end, first | (left < right ? by : 0)};
    if (stride < 0)
        x = (struct check_span){end, first, x.bits};
    if (x.low <= x.high && stride >= -ROW_WIDE && stride <= ROW_WIDE &&
        check_quick(&x, lanes, meta, site, caller))
        return 0;
    for (uint32_t i = 0; i < MT_WARP; i++)
        list[i] = base + i * by;
    return mt_check_warp(list, lanes, meta, site, caller);
}

static void check_say(const struct mt_cta *cta, struct mt_cpu_bad *bad, struct mt_check_place place,
                      const char *format, va_list ap)
{
    char words[256];
    const struct mt_image *image = place.code ? image_of(cta->run, place.code) : NULL;
    vsnprintf(words, sizeof words, format, ap);
    bad->launch = cta->run->launch;
    bad->image = image ? image : bad->launch->image;
    bad->place = place.code;
    bad->note = image ? place.note : 0;
    bad->site = MT_BAD_NO_SITE;
    bad->words = words;
    memcpy(bad->cta, cta->ctaid, sizeof bad->cta);
    atomic_fetch_add_explicit(&cta->run->found, 1, memory_order_relaxed);
    bad_tell(bad);
}

void mt_check_tell(const struct mt_cta *cta, uint32_t thread, enum mt_finding_kind kind,
                   struct mt_check_place place, const char *format, ...)
{
    struct mt_cpu_bad bad = {.kind = kind};
    va_list ap;
    if (MT_LIKELY(!mt_check_all))
        return;
    check_thread(thread, bad.thread);
    va_start(ap, format);
    check_say(cta, &bad, place, format, ap);
    va_end(ap);
}

void mt_check_tell_here(enum mt_finding_kind kind, struct mt_check_place place, const char *format, ...)
{
    struct mt_cta *cta = mt_cta_current();
    struct mt_cpu_bad bad = {.kind = kind};
    va_list ap;
    if (MT_LIKELY(!mt_check_all))
        return;
    memcpy(bad.thread, mt_cpu_tls.tid, sizeof bad.thread);
    va_start(ap, format);
    check_say(cta, &bad, place, format, ap);
    va_end(ap);
}

void mt_check_stack(struct mt_pool_launch *run)
{
    int known = last.run == run && last.site < last.image->head->nsites;
    mt_check_tell_here(
        MT_FINDING_OF_STACK,
        (struct mt_check_place){known ? last.code : NULL, known ? MT_CHECK_SITE | last.site : 0},
        "uses more than its %zu bytes of stack (MEMTRACE_CPU_STACK sets more)", mt_cpu_settings.stack);
    run->told |= mt_check_all;
}

/* Returns the lanes of a warp that the CTA has. */
static uint32_t check_lanes(uint32_t warp)
{
    const uint32_t *block = mt_cpu_tls.ntid;
    uint32_t n = block[0] * block[1] * block[2] - warp * MT_WARP;
    return n < MT_WARP ? (1u << n) - 1 : ~0u;
}

void mt_cpu_warp_apart(uint32_t warp, uint32_t lanes, uint32_t others)
{
    uint32_t left = check_lanes(warp) & ~lanes;
    if (!others && left && mt_cpu_settings.check.strict)
        mt_check_tell(mt_cta_current(), warp * MT_WARP + (uint32_t)__builtin_ctz(lanes), MT_FINDING_OF_LEFT,
                      (struct mt_check_place){__builtin_return_address(0), mt_cpu_tls.place},
                      "comes to a barrier, and lanes 0x%08x of warp %u do not", left, warp);
    if (!others)
        return;
    mt_check_tell(mt_cta_current(), warp * MT_WARP + (uint32_t)__builtin_ctz(others), MT_FINDING_OF_BARRIER,
                  (struct mt_check_place){__builtin_return_address(0), mt_cpu_tls.place},
                  "is elsewhere, as are lanes 0x%08x, when lanes 0x%08x of warp %u come to a barrier", others,
                  lanes, warp);
}

uint32_t mt_cpu_check_constant(const uint64_t *lane, uint32_t mask, uint32_t meta, uint32_t site)
{
    return mt_check_all
               ? mt_check_warp(lane, mask, meta | MT_CHECK_CONSTANT << 28, site, __builtin_return_address(0))
               : 0;
}

void mt_cpu_same_word(void *const *at, uint32_t mask, const void *from, uint32_t size)
{
    const struct mt_cta *cta = mt_cta_current();
    const char *value = from;
    const struct mt_image_site *site = last.run == cta->run ? last.image->head->sites : NULL;
    if (!mt_check_all || !mt_cpu_settings.check.strict || !site || site[last.site].size != size ||
        (site[last.site].op & 3) != MT_STORE)
        return; /* not the store that was recorded last */
    for (uint32_t m = mask; m; m &= m - 1)
        for (uint32_t i = (uint32_t)__builtin_ctz(m), n = m & (m - 1); n; n &= n - 1) {
            uint32_t j = (uint32_t)__builtin_ctz(n);
            if (at[i] != at[j] || !memcmp(value + i * size, value + j * size, size))
                continue;
            mt_check_tell(cta, cta->current->warp * MT_WARP + j, MT_FINDING_OF_SAME_WORD,
                          (struct mt_check_place){last.code, MT_CHECK_SITE | last.site},
                          "lanes %u and %u write different values to one word in one instruction", i, j);
            return;
        }
}
