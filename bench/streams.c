#include "streams.h"
#include <stdlib.h>
#include <string.h>

#define A UINT64_C(0x7f1000000000)
#define B UINT64_C(0x7f1400000000)
#define C UINT64_C(0x7f1800000000)
enum { LOAD4 = 0 << 28 | 4, STORE4 = 1 << 28 | 4, ATOMIC4 = 2 << 28 | 4 };
enum { SMS = 132, RESIDENT = 2048, SIDE = 1024 };

const char *const stream_names[] = {"vector add",    "tiled matmul", "stencil", "random gather",
                                    "random lookup", "histogram",    NULL};

struct warp {
    uint32_t cta, warp, smid, step;
};

static uint32_t random_of(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}
static uint32_t streams_hash(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

static void streams_full(struct mt_access_run *r, uint32_t site, uint32_t meta, uint64_t base)
{
    r->site = site;
    r->meta = meta;
    r->base = base;
    r->stride = 4;
    r->mask = UINT32_MAX;
    r->count = 32;
}
static void streams_own(struct mt_access_run *r, const uint64_t *lanes)
{
    r->addresses = lanes;
    r->base = lanes[0];
}

/* The functions below compute step `w->step` of the warp; they return 0 at its end. */
static int vector_add(const struct warp *w, struct mt_access_run *r, uint64_t *lanes)
{
    static const uint64_t base[] = {A, B, C};
    (void)lanes;
    if (w->step == 3)
        return 0;
    streams_full(r, 4 + w->step, w->step == 2 ? STORE4 : LOAD4,
                 base[w->step] + 4 * (w->cta * 256ull + w->warp * 32ull));
    return 1;
}

/* Adds the two rows of a warp in a block of 16 x 16. */
static void two_rows(struct mt_access_run *r, uint64_t *lanes, uint64_t base, uint64_t row, uint64_t column)
{
    for (unsigned i = 0; i < 32; i++)
        lanes[i] = base + 4 * ((row + i / 16) * SIDE + column + i % 16);
    streams_own(r, lanes);
}
static int streams_matmul(const struct warp *w, struct mt_access_run *r, uint64_t *lanes)
{
    uint32_t by = w->cta / (SIDE / 16), bx = w->cta % (SIDE / 16), k = w->step / 2 * 16;
    if (w->step > SIDE / 16 * 2)
        return 0;
    streams_full(r, 4 + (k == SIDE ? 2 : w->step % 2), k == SIDE ? STORE4 : LOAD4, 0);
    if (k == SIDE)
        two_rows(r, lanes, C, by * 16 + w->warp * 2, bx * 16);
    else if (w->step % 2 == 0)
        two_rows(r, lanes, A, by * 16 + w->warp * 2, k);
    else
        two_rows(r, lanes, B, k + w->warp * 2, bx * 16);
    r->cta = (uint64_t)bx << 32 | by << 16;
    return 1;
}

/* Five-point stencil, blocks of 32 x 8, without borders. */
static int streams_stencil(const struct warp *w, struct mt_access_run *r, uint64_t *lanes)
{
    static const int64_t off[] = {0, -4, 4, -4 * (int64_t)SIDE, 4 * (int64_t)SIDE, 0};
    uint32_t by = w->cta / (SIDE / 32), bx = w->cta % (SIDE / 32), y = by * 8 + w->warp;
    (void)lanes;
    if (w->step == 6 || y % SIDE == 0 || y % SIDE == SIDE - 1)
        return 0;
    uint64_t first = (w->step == 5 ? C : A) + 4 * ((uint64_t)y * SIDE + bx * 32);
    streams_full(r, 4 + w->step, w->step == 5 ? STORE4 : LOAD4, first + (uint64_t)off[w->step]);
    if (bx == 0) {
        r->mask = 0xfffffffe;
        r->base += 4;
    } else if (bx == SIDE / 32 - 1) {
        r->mask = 0x7fffffff;
    }
    r->count = (uint32_t)__builtin_popcount(r->mask);
    r->cta = (uint64_t)bx << 32 | (by & 0xffff) << 16;
    return 1;
}

/* All accesses of a kernel, at random places in 64 MiB. */
static int streams_gather(const struct warp *w, struct mt_access_run *r, uint64_t *lanes)
{
    if (w->step == 4)
        return 0;
    streams_full(r, 4 + w->step, LOAD4, 0);
    for (unsigned i = 0; i < 32; i++)
        lanes[i] = A + 4 * (uint64_t)(streams_hash((w->cta * 8 + w->warp) * 128 + w->step * 32 + i) >> 8);
    streams_own(r, lanes);
    return 1;
}

/* c[i] = a[b[i]] in 64 MiB. */
static int streams_lookup(const struct warp *w, struct mt_access_run *r, uint64_t *lanes)
{
    struct warp first = *w;
    if (w->step == 1) {
        first.step = 0;
        return streams_gather(&first, r, lanes);
    }
    return vector_add(w, r, lanes);
}

/* A histogram of 256 bins. */
static int streams_histogram(const struct warp *w, struct mt_access_run *r, uint64_t *lanes)
{
    if (w->step == 0)
        return vector_add(w, r, lanes);
    if (w->step == 2)
        return 0;
    streams_full(r, 5, ATOMIC4, 0);
    for (unsigned i = 0; i < 32; i++)
        lanes[i] = C + 4 * (streams_hash(w->cta * 256 + w->warp * 32 + i) & 255);
    streams_own(r, lanes);
    return 1;
}

static int (*const kernels[])(const struct warp *w, struct mt_access_run *r, uint64_t *lanes) = {
    vector_add, streams_matmul, streams_stencil, streams_gather, streams_lookup, streams_histogram};

static void streams_start(struct warp *w, uint64_t number)
{
    *w = (struct warp){.cta = (uint32_t)(number / 8), .warp = (uint32_t)(number % 8)};
    w->smid = w->cta % SMS;
}

int stream_make(struct stream *s, unsigned which, enum stream_order order, size_t most)
{
    uint64_t state = 1, started = 0;
    uint32_t resident = order == STREAM_MIXED ? RESIDENT : 1, at = 0;
    struct warp *warps = calloc(resident, sizeof *warps);
    memset(s, 0, sizeof *s);
    s->runs = malloc(most * sizeof *s->runs);
    s->lanes = malloc(most * 32 * sizeof *s->lanes);
    if (!warps || !s->runs || !s->lanes) {
        free(warps);
        stream_free(s);
        return -1;
    }
    for (uint32_t i = 0; i < resident; i++)
        streams_start(&warps[i], started++);
    while (s->count < most) {
        struct warp *w = &warps[at];
        struct mt_access_run *r = &s->runs[s->count];
        memset(r, 0, sizeof *r);
        r->cta = (uint64_t)w->cta << 32;
        if (kernels[which](w, r, s->lanes + s->count * 32)) {
            r->smid = w->smid;
            r->warp = w->warp;
            s->accesses += r->count;
            s->count++;
            w->step++;
        } else {
            streams_start(w, started++);
        }
        at = (at + 1 + (order == STREAM_MIXED && random_of(&state) % 8 == 0)) % resident;
    }
    free(warps);
    return 0;
}

void stream_free(struct stream *s)
{
    free(s->runs);
    free(s->lanes);
    memset(s, 0, sizeof *s);
}
