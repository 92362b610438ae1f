#include "path.h"
#include "host_warp.h"
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void __mt_gpu_access_global(const void *p, uint32_t meta, uint32_t site, struct mt_gpu_context *c);
void __mt_gpu_access_global_n(const void *p, uint64_t bytes, uint32_t type, uint32_t site,
                              struct mt_gpu_context *c);
void __mt_gpu_untraced(uint32_t note, struct mt_gpu_context *c);
struct mt_gpu_context *__mt_gpu_begin(struct mt_gpu_context *parameter);

_Thread_local struct host_thread host_thread;

/* ---- kernels: what lane `lane` of CTA `cta` does as its i-th access ----------------------------- */

static const uint32_t lane_numbers[LANES] = {0, 1, 5, 6, 7, 8};
#define OTHER 0x7000000000u /* addresses from here to 0x7fffffffff are not global */

struct access access_of(const struct kernel *k, unsigned cta, unsigned lane, unsigned i)
{
    unsigned h = (k->seed + cta * 31 + i * 7) * 2654435761u >> 8, mine = (h + lane * 40503u) >> 3;
    struct access a = {(int)(h % 5), h >> 4 & 3, 1u << (h >> 6 & 3), 0, 0, h >> 9 & 1};
    if ((h >> 13 & 3) == 0) { /* lanes of different accesses, which a GPU may run together */
        a.type = mine % 3;
        a.size = 1u << (mine >> 3 & 3);
    }
    a.type = a.type == 3 ? 0 : a.type;
    a.address = 0x100000ull * (cta + 1) + i * 4096;
    if (h >> 10 & 1)
        a.address += lane * a.size; /* regular */
    else
        a.address += mine % 512 * 8; /* anywhere */
    if (a.kind % 2 == 0 && (h >> 11 & 3) == 0)
        a.address += (uint64_t)(mine % 5) << 44; /* far apart: no differences of 31 bits */
    if (a.kind % 2 && mine % 3 == 0)
        a.address = OTHER + lane; /* some lanes' generic pointers are local */
    a.bytes = mine % 4 ? mine % 1000 : mine % 3 * (1ull << 28);
    return a;
}

/* As the pass has it: of some pointers nobody knows where they lead before the program runs. */
static uint32_t path_site(uint32_t number, const struct access *a)
{
    int other = a->kind % 2 && a->address >= OTHER;
    return number | host_thread.left_out | (other ? MT_SITE_LEFT_OUT : 0);
}

static void do_access(const struct access *a)
{
    const void *p = (const void *)(uintptr_t)a->address;
    struct mt_gpu_context *c = (struct mt_gpu_context *)(uintptr_t)host_thread.context;
    switch (a->kind) {
    case 0:
    case 1:
        __mt_gpu_access_global(p, a->type << 28 | a->size, path_site(11 + a->kind, a), c);
        break;
    case 2:
    case 3:
        __mt_gpu_access_global_n(p, a->bytes, a->type, path_site(11 + a->kind, a), c);
        break;
    default:
        __mt_gpu_untraced(path_site(15, a), c);
    }
}

/* Does this access of this lane make records? Then the lane is in the group. */
int recorded(const struct access *a, unsigned lane)
{
    if (a->odd_only && lane % 2 == 0)
        return 0;
    if (a->kind == 4)
        return 1;
    if (a->kind % 2 && a->address >= OTHER)
        return 0;
    return a->kind < 2 || a->bytes;
}

/* ---- running a kernel: a thread per lane, one warp per CTA -------------------------------------- */

struct lane {
    const struct kernel *k;
    unsigned cta, index;
    struct host_warp *groups; /* one per set of lanes */
};

static unsigned set_of(const struct kernel *k, unsigned cta, unsigned i)
{
    unsigned set = 0;
    for (unsigned lane = 0; lane < LANES; lane++) {
        struct access a = access_of(k, cta, lane, i);
        set |= (unsigned)recorded(&a, lane) << lane;
    }
    return set;
}

static void *run_lane(void *data)
{
    struct lane *l = data;
    host_thread = (struct host_thread){.lane = lane_numbers[l->index],
                                       .sm = 3 + l->cta % 5,
                                       .cta = {l->cta % 3, l->cta / 3 % 2, l->cta / 6},
                                       .grid = {3, 2}};
    struct mt_gpu_context *context = __mt_gpu_begin(l->k->context);
    for (unsigned i = 0; i < l->k->accesses; i++) {
        /* Half of them are the kernel's own, half those of functions that it calls. */
        int own = i % 2;
        host_thread.context = (uint64_t)(uintptr_t)(own ? l->k->context : context);
        host_thread.left_out = own && !context ? MT_SITE_LEFT_OUT : 0;
        struct access a = access_of(l->k, l->cta, l->index, i);
        host_thread.warp = &l->groups[set_of(l->k, l->cta, i)];
        host_thread.stall = l->k->stall;
        host_thread.site_base = l->k->bases ? &l->k->bases[i % 2] : NULL;
        if (!(a.odd_only && l->index % 2 == 0))
            do_access(&a);
    }
    return NULL;
}

static void *run_cta(void *data)
{
    struct lane *first = data;
    struct host_warp *groups = calloc(1 << LANES, sizeof *groups);
    struct lane lanes[LANES];
    pthread_t threads[LANES];
    for (unsigned set = 1; set < 1 << LANES; set++) {
        for (unsigned i = 0; i < LANES; i++)
            groups[set].mask |= (set >> i & 1) << lane_numbers[i];
        pthread_mutex_init(&groups[set].lock, NULL);
        pthread_cond_init(&groups[set].all_here, NULL);
    }
    for (unsigned i = 0; i < LANES; i++) {
        lanes[i] = (struct lane){first->k, first->cta, i, groups};
        pthread_create(&threads[i], NULL, run_lane, &lanes[i]);
    }
    for (unsigned i = 0; i < LANES; i++)
        pthread_join(threads[i], NULL);
    for (unsigned set = 1; set < 1 << LANES; set++) {
        pthread_mutex_destroy(&groups[set].lock);
        pthread_cond_destroy(&groups[set].all_here);
    }
    free(groups);
    return NULL;
}

void run_kernel(void *data)
{
    struct kernel *k = data;
    struct lane *ctas = calloc(k->ctas, sizeof *ctas);
    pthread_t *threads = calloc(k->ctas, sizeof *threads);
    if (k->before)
        k->before(k);
    for (unsigned i = 0; i < k->ctas; i++) {
        ctas[i] = (struct lane){k, i, 0, NULL};
        pthread_create(&threads[i], NULL, run_cta, &ctas[i]);
    }
    for (unsigned i = 0; i < k->ctas; i++)
        pthread_join(threads[i], NULL);
    free(ctas);
    free(threads);
}

/* ---- launching and checking --------------------------------------------------------------------- */

void launch(struct kernel *k, struct fake_stream *s, struct mt_trace *t, cudaError_t status)
{
    struct mt_gpu_launch l = {.trace = t, .stream = (cudaStream_t)s, .line = {.kernel = k->name}};
    k->context = mt_gpu()->launch(&l);
    if (!status)
        fake_stream_run(s, run_kernel, k);
    mt_gpu()->issued(&l, status);
}

/* A wait of the program for a stream with this trace; s NULL: for its current device. */
void synced(struct fake_stream *s, const struct mt_trace *t, cudaError_t e)
{
    struct mt_gpu_point p = mt_gpu()->point(s ? (cudaStream_t)s : cudaStreamLegacy, t, !s);
    mt_gpu()->synced(&p, e);
}

void sync_stream(struct fake_stream *s, const struct mt_trace *t)
{
    struct mt_gpu_point p = mt_gpu()->point((cudaStream_t)s, t, 0);
    fake_stream_wait(s);
    mt_gpu()->synced(&p, cudaSuccess);
}

static uint64_t cta_word(unsigned cta)
{
    return (uint64_t)(cta % 3) << 32 | (uint64_t)(cta / 3 % 2) << 16 | cta / 6;
}

/* The records of one thread's access: each is found once, after those of the thread's earlier accesses. */
static void check_access(const struct kernel *k, const struct fake_launch *got, char *used, unsigned cta,
                         unsigned lane, unsigned i, size_t *at)
{
    struct access a = access_of(k, cta, lane, i);
    uint64_t most = (1u << 28) - 1, bytes = a.kind < 2 ? a.size : a.bytes;
    if (!recorded(&a, lane) || a.kind == 4)
        return;
    for (uint64_t done = 0; done < bytes; done += most) {
        uint64_t size = bytes - done < most ? bytes - done : most;
        struct mt_raw_record want = {
            {(uint64_t)(3 + cta % 5) << 32 | a.type << 28 | size, a.address + done, cta_word(cta)}};
        while (*at < got->count && (used[*at] || memcmp(&got->records[*at], &want, sizeof want)))
            (*at)++;
        if (*at == got->count)
            fail_msg("%s: CTA %u, lane %u: access %u (type %u, %lx bytes at %lx) is missing", k->name, cta,
                     lane, i, a.type, size, want.w[1]);
        used[(*at)++] = 1;
    }
}

void check(const struct kernel *k, const struct fake_launch *got)
{
    uint64_t untraced = 0, total = 0;
    char *used = calloc(got->count + 1, 1);
    assert_string_equal(got->kernel, k->name);
    for (unsigned cta = 0; cta < k->ctas; cta += fake_every)
        for (unsigned lane = 0; lane < LANES; lane++) {
            size_t at = 0;
            for (unsigned i = 0; i < k->accesses; i++) {
                struct access a = access_of(k, cta, lane, i);
                check_access(k, got, used, cta, lane, i, &at);
                untraced += a.kind == 4 && recorded(&a, lane);
            }
        }
    for (size_t i = 0; i < got->count; i++)
        total += (uint64_t)used[i];
    free(used);
    assert_int_equal(got->count, total);
    assert_int_equal(got->line.records, total);
    assert_int_equal(got->line.untraced, untraced);
    assert_int_equal(got->line.status, 0);
}

/* ---- work of streams ---- */

void hold_up(void *semaphore)
{
    sem_wait(semaphore);
}
void let_go(void *semaphore)
{
    sem_post(semaphore);
}
