/* Bad accesses to global memory (MEMTRACE_CHECK=1): outside every allocation, or at an address that the
 * access cannot have. On a GPU the launch would die; here the thread that does it ends before the access
 * happens (of warps as vectors, the warp), the others go on, so that one run shows more than one mistake. A
 * launch that waits in vain for what the ended thread would have done is given up. */
#include "check.h"
#include <stdio.h>
#include <string.h>
#include "image.h"
#include "memtrace/record.h"
#include "scheduler.h"

#define CACHED 4
#define ACCESSES_AFTER (1u << 26) /* of all threads: a launch that failed goes on for so long at most */

int mt_check_on;
static struct mt_cpu_checker checker;

/* What this worker found in the table last. */
struct known {
    uint64_t base, bytes, generation;
};
static _Thread_local struct known known[CACHED];
static _Thread_local unsigned next_known;

void mt_cpu_set_checker(const struct mt_cpu_checker *c)
{
    checker = *c;
    mt_check_on = 1;
}

static int check_inside(uint64_t address, uint64_t bytes, const struct known *k)
{
    return address - k->base < k->bytes && bytes <= k->bytes - (address - k->base);
}

static int is_allocated(uint64_t address, uint64_t bytes, uint32_t type)
{
    uint64_t generation = atomic_load_explicit(checker.generation, memory_order_acquire);
    struct known k = {.generation = generation};
    for (int i = 0; i < CACHED; i++)
        if (known[i].generation == generation && check_inside(address, bytes, &known[i]))
            return 1;
    if (!checker.find(address, &k.base, &k.bytes) &&
        !(type == MT_LOAD && mt_image_literal(address, &k.base, &k.bytes)))
        return 0;
    known[next_known++ % CACHED] = k;
    return check_inside(address, bytes, &k);
}

static void check_tell(struct mt_pool_launch *run, const struct mt_image *image, uint64_t address,
                       uint32_t meta, uint32_t site, uint32_t align, int code)
{
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    struct mt_cpu_bad bad = {.launch = run->launch,
                             .address = address,
                             .bytes = meta & MT_RAW_MAX_SIZE,
                             .type = meta >> 28,
                             .image = image,
                             .site = site,
                             .align = align,
                             .code = code};
    memcpy(bad.cta, t->ctaid, sizeof bad.cta);
    memcpy(bad.thread, t->tid, sizeof bad.thread);
    mt_worker_self->in_device = 0; /* a fault in there is not the kernel's */
    checker.report(&bad);
    mt_worker_self->in_device = 1;
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
    site -= head->site_base ? image->site_base : 0;
    uint32_t align = site < head->nsites ? sites[site].align : 0;
    int code = 0;
    if (!is_allocated(address, meta & MT_RAW_MAX_SIZE, meta >> 28))
        code = MT_ERR_ADDRESS;
    else if (align && address % align)
        code = MT_ERR_MISALIGNED;
    if (MT_UNLIKELY(code)) {
        check_tell(run, image, address, meta, site, align, code);
        atomic_compare_exchange_strong(&run->bad, &(int){0}, code);
    }
    return code;
}

static void check_go_on(struct mt_pool_launch *run, uint32_t accesses)
{
    if (MT_UNLIKELY(atomic_load_explicit(&run->bad, memory_order_relaxed)) &&
        atomic_fetch_add_explicit(&run->after_bad, accesses, memory_order_relaxed) > ACCESSES_AFTER)
        mt_fault_fail(run->bad, "the launch did not end by itself after a bad access");
}

void mt_check_access(uint64_t address, uint32_t meta, uint32_t site, const void *caller)
{
    struct mt_pool_launch *run = mt_cta_current()->run;
    if (check_one(run, image_of(run, caller), address, meta, site))
        mt_cpu_exit_thread();
    check_go_on(run, 1);
}

void mt_check_warp(const uint64_t *address, uint32_t lanes, uint32_t meta, uint32_t site, const void *caller)
{
    struct mt_cta *cta = mt_cta_current();
    struct mt_pool_launch *run = cta->run;
    const struct mt_image *image = image_of(run, caller);
    struct mt_cpu_tls *t = &mt_cpu_tls;
    int bad = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(m), thread = cta->current->warp * MT_WARP + i;
        t->tid[0] = thread % t->ntid[0]; /* for what is reported */
        t->tid[1] = thread / t->ntid[0] % t->ntid[1];
        t->tid[2] = thread / t->ntid[0] / t->ntid[1];
        bad |= check_one(run, image, address[i], meta, site);
    }
    if (bad)
        mt_cpu_exit_thread();
    check_go_on(run, (uint32_t)__builtin_popcount(lanes));
}

int mt_check_result(struct mt_pool_launch *run)
{
    if (MT_LIKELY(!run->bad))
        return run->failed;
    struct mt_cpu_launch *l = run->launch;
    uint64_t n = checker.end(l);
    snprintf(l->message, sizeof l->message, "%llu bad access%s to global memory, reported above",
             (unsigned long long)n, n == 1 ? "" : "es");
    return run->bad;
}
