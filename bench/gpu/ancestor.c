#include "ancestor.h"
#include "warp.h"

#define NOINLINE __attribute__((noinline))

/* Defined and filled by bench/gpu/bench.cu. */
extern __attribute__((address_space(1))) struct ancestor_slot mt_ancestor[ANCESTOR_SLOTS];

struct mt_gpu_context *__mt_gpu_begin(struct mt_gpu_context *parameter)
{
    return parameter;
}

static inline void ancestor_commit(uint64_t *p, uint64_t n)
{
    __asm__ volatile("fence.acq_rel.sys;\n\tred.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(p), "l"(n)
                     : "memory");
}

/* Runs in one lane of the first warp that finds no room, at `at`: asks the host to empty the slot, and waits.
 */
static void have_it_emptied(struct ancestor_slot *s, uint64_t at)
{
    uint64_t before = mt_load_acquire_system((uint64_t *)s->emptied);
    mt_store((uint64_t *)s->full, at);
    while (mt_load_acquire_system((uint64_t *)s->emptied) == before)
        mt_sleep(200);
    __asm__ volatile("st.relaxed.sys.global.u64 [%0], 0;" ::"l"(s->commit) : "memory");
    __asm__ volatile("st.relaxed.gpu.global.u64 [%0], 0;\n\tfence.acq_rel.gpu;" ::"l"(&s->alloc) : "memory");
    mt_count(&s->epoch, 1);
}

/* Runs in one lane: reserves room for n records. A failed attempt takes no room, since what is beyond the end
 * does not count. */
static uint64_t ancestor_reserve(struct ancestor_slot *s, uint32_t n)
{
    for (;;) {
        uint64_t epoch = mt_load(&s->epoch), at = mt_atomic_add(&s->alloc, n);
        if (at + n <= s->size)
            return at;
        if (at <= s->size) {
            have_it_emptied(s, at);
            continue;
        }
        while (mt_load(&s->epoch) == epoch)
            mt_sleep(200);
    }
}

static NOINLINE void ancestor_record(uint64_t address, uint32_t meta)
{
    uint32_t mask = mt_active(), lane = mt_lane(), leader = (uint32_t)__builtin_ctz(mask), sm = mt_sm();
    uint32_t n = (uint32_t)__builtin_popcount(mask);
    uint32_t rank = (uint32_t)__builtin_popcount(mask & ((1u << lane) - 1));
    struct ancestor_slot *s = (struct ancestor_slot *)&mt_ancestor[sm % ANCESTOR_SLOTS];
    uint64_t at = lane == leader ? ancestor_reserve(s, n) : 0;
    at = mt_shuffle(mask, at, leader) + rank;
    uint64_t *to = (uint64_t *)s->records + 3 * at;
    uint64_t cta = (uint64_t)mt_cta_x() << 32 | (uint64_t)(mt_cta_y() & 0xffff) << 16 | (mt_cta_z() & 0xffff);
    mt_store(to, (uint64_t)sm << 32 | meta);
    mt_store(to + 1, address);
    mt_store(to + 2, cta);
    __asm__ volatile("bar.warp.sync %0;" ::"r"(mask) : "memory");
    if (lane == leader)
        ancestor_commit((uint64_t *)s->commit, n);
}

void __mt_gpu_access_global(const void *address, uint32_t meta, uint32_t site, struct mt_gpu_context *c)
{
    (void)c;
    if (!(site & MT_SITE_LEFT_OUT))
        ancestor_record((uint64_t)address, meta);
}

void __mt_gpu_access_global_n(const void *address, uint64_t bytes, uint32_t type, uint32_t site,
                              struct mt_gpu_context *c)
{
    (void)c;
    if (bytes && !(site & MT_SITE_LEFT_OUT))
        ancestor_record((uint64_t)address, type << 28 | (uint32_t)bytes);
}

void __mt_gpu_untraced(uint32_t note, struct mt_gpu_context *c)
{
    (void)note, (void)c;
}
