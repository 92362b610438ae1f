/* Bad accesses to global memory (MEMTRACE_CHECK=1): outside every allocation, or at an address that the
 * access cannot have. On a GPU the launch would die; here the access is skipped and all goes on, so that one
 * run shows all mistakes. Under MEMTRACE_CHECK=stop, and where code cannot skip it, the thread ends before
 * the access happens (of warps as vectors, the warp), and the launch fails. A launch that waits in vain for
 * what was not done is given up. */
#include "check.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "image.h"
#include "memtrace/record.h"
#include "scheduler.h"

#define CACHED 4
/* So many accesses of all threads after a bad one, a launch is given up: where a thread has ended, or not. */
#define AFTER_END (1u << 26)
#define AFTER_SKIP (1u << 30)
#define SPINS (1u << 26) /* or when its threads have given way to others so often */

int mt_check_on, mt_check_all;
static struct mt_cpu_checker checker;

/* What this worker found in the table last. */
struct known {
    uint64_t base, bytes, generation;
    int device; /* for which */
};
static _Thread_local struct known known[CACHED];
static _Thread_local unsigned next_known;

void mt_cpu_set_checker(const struct mt_cpu_checker *c)
{
    checker = *c;
    mt_check_on = 1;
    mt_check_all = !c->accesses_only;
}

static int check_inside(uint64_t address, uint64_t bytes, const struct known *k)
{
    return address - k->base < k->bytes && bytes <= k->bytes - (address - k->base);
}

static int is_allocated(int device, uint64_t address, uint64_t bytes, uint32_t type)
{
    uint64_t generation = atomic_load_explicit(checker.generation, memory_order_acquire);
    struct known k = {.generation = generation, .device = device};
    for (int i = 0; i < CACHED; i++)
        if (known[i].generation == generation && known[i].device == device &&
            check_inside(address, bytes, &known[i]))
            return 1;
    if (!checker.find(device, address, &k.base, &k.bytes) &&
        !(type == MT_LOAD && mt_image_literal(address, &k.base, &k.bytes)))
        return 0;
    known[next_known++ % CACHED] = k;
    return check_inside(address, bytes, &k);
}

static void check_tell(struct mt_cpu_bad *bad)
{
    struct mt_worker *w = mt_worker_self;
    int in_device = w->in_device;
    w->in_device = 0; /* a fault in there is not the kernel's */
    checker.report(bad);
    w->in_device = in_device;
}

/* x, y and z of the CTA's thread of this number. */
static void check_thread(uint32_t number, uint32_t *tid)
{
    const uint32_t *block = mt_cpu_tls.ntid;
    tid[0] = number % block[0];
    tid[1] = number / block[0] % block[1];
    tid[2] = number / block[0] / block[1];
}

/* A kernel's functions may be of several images: -fgpu-rdc. */
static const struct mt_image *image_of(const struct mt_pool_launch *run, const void *code)
{
    const struct mt_image *first = run->launch->image, *i = first;
    while (i && i->peer && !mt_image_owns(i, code))
        i = i->peer;
    return i;
}

/* Of the running thread. 0: it is fine; else it was reported. */
static int check_one(struct mt_pool_launch *run, const struct mt_image *image, uint64_t address,
                     uint32_t meta, uint32_t site)
{
    const struct mt_image_head *head = image->head;
    const struct mt_image_site *sites = head->sites;
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    site -= head->site_base ? image->site_base : 0;
    uint32_t align = site < head->nsites ? sites[site].align : 0;
    int code = 0;
    if (align && address % align) /* a GPU says so first */
        code = MT_ERR_MISALIGNED;
    else if (!is_allocated(run->launch->device, address, meta & MT_RAW_MAX_SIZE, meta >> 28))
        code = MT_ERR_ADDRESS;
    if (MT_LIKELY(!code))
        return 0;
    struct mt_cpu_bad bad = {.launch = run->launch,
                             .address = address,
                             .bytes = meta & MT_RAW_MAX_SIZE,
                             .type = meta >> 28,
                             .image = image,
                             .site = site,
                             .align = align,
                             .kind =
                                 code == MT_ERR_ADDRESS ? MT_FINDING_OF_BOUNDS : MT_FINDING_OF_MISALIGNED};
    memcpy(bad.cta, t->ctaid, sizeof bad.cta);
    memcpy(bad.thread, t->tid, sizeof bad.thread);
    check_tell(&bad);
    atomic_fetch_add_explicit(&run->found, 1, memory_order_relaxed);
    atomic_compare_exchange_strong(&run->bad, &(int){0}, code);
    return code;
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

int mt_check_access(uint64_t address, uint32_t meta, uint32_t site, const void *caller)
{
    struct mt_pool_launch *run = mt_cta_current()->run;
    int bad = check_one(run, image_of(run, caller), address, meta, site);
    if (bad && checker.stop)
        mt_check_end();
    check_go_on(run, 1);
    return bad;
}

uint32_t mt_check_warp(const uint64_t *address, uint32_t lanes, uint32_t meta, uint32_t site,
                       const void *caller)
{
    struct mt_cta *cta = mt_cta_current();
    struct mt_pool_launch *run = cta->run;
    const struct mt_image *image = image_of(run, caller);
    uint32_t bad = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(m);
        check_thread(cta->current->warp * MT_WARP + i, mt_cpu_tls.tid); /* for what is reported */
        bad |= (uint32_t)(check_one(run, image, address[i], meta, site) != 0) << i;
    }
    if (bad && checker.stop)
        mt_check_end();
    check_go_on(run, (uint32_t)__builtin_popcount(lanes));
    return bad;
}

static void check_say(const struct mt_cta *cta, struct mt_cpu_bad *bad, const char *format, va_list ap)
{
    char words[256];
    vsnprintf(words, sizeof words, format, ap);
    bad->launch = cta->run->launch;
    bad->image = bad->launch->image;
    bad->site = MT_BAD_NO_SITE;
    bad->words = words;
    memcpy(bad->cta, cta->ctaid, sizeof bad->cta);
    atomic_fetch_add_explicit(&cta->run->found, 1, memory_order_relaxed);
    check_tell(bad);
}

void mt_check_tell(const struct mt_cta *cta, uint32_t thread, enum mt_finding_kind kind, const void *place,
                   const char *format, ...)
{
    struct mt_cpu_bad bad = {.kind = kind, .place = place};
    va_list ap;
    if (MT_LIKELY(!mt_check_all))
        return;
    check_thread(thread, bad.thread);
    va_start(ap, format);
    check_say(cta, &bad, format, ap);
    va_end(ap);
}

void mt_check_tell_here(enum mt_finding_kind kind, const void *place, const char *format, ...)
{
    struct mt_cta *cta = mt_cta_current();
    struct mt_cpu_bad bad = {.kind = kind, .place = place};
    va_list ap;
    if (MT_LIKELY(!mt_check_all))
        return;
    memcpy(bad.thread, mt_cpu_tls.tid, sizeof bad.thread);
    va_start(ap, format);
    check_say(cta, &bad, format, ap);
    va_end(ap);
}

void mt_check_stack(struct mt_pool_launch *run)
{
    mt_check_tell_here(MT_FINDING_OF_STACK, NULL,
                       "uses more than its %zu bytes of stack (MEMTRACE_CPU_STACK sets more)",
                       mt_stack_bytes());
    run->told |= mt_check_all;
}

int mt_check_result(struct mt_pool_launch *run)
{
    struct mt_cpu_launch *l = run->launch;
    if (MT_LIKELY(!run->found))
        return run->failed;
    uint64_t n = checker.end(l);
    l->told = run->ended || run->told;
    if (!run->ended)
        return run->failed;
    snprintf(l->message, sizeof l->message, "%llu bad access%s to global memory, reported above",
             (unsigned long long)n, n == 1 ? "" : "es");
    return run->bad;
}
