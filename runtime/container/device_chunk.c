/* Chunks of device runs: checks what is to go in, makes room for the columns, closes them up to a payload. */
#define _GNU_SOURCE
#include "container/device_tables.h"
#include "container/pages.h"
#include "container/writer.h"
#include "memtrace/record.h"
#include <string.h>

enum {                     /* most bytes that one run puts into a column */
       CONTEXT_BYTES = 40, /* a new context: flags 1, CTA 3 * 10, warp 5, SM 5; or a number 5; and a slot 5 */
       SHAPE_BYTES = 36,   /* a new slot: 5 + 5; a shape: 1 + 4 + 5 + 10 */
       BASE_BYTES = 10,
       LANE_BYTES = 280, /* 2 + 4 + 5 + 32 * 8, and 8 that are written and not meant */
};

struct mt_mtc_device_encoder *mt_mtc_device_encoder_new(void)
{
    return mt_pages(sizeof(struct mt_mtc_device_encoder));
}

void mt_mtc_device_encoder_free(struct mt_mtc_device_encoder *e)
{
    if (!e)
        return;
    mt_tables_free(e);
    mt_pages_free(e->out, e->out_room);
    mt_pages_free(e, sizeof *e);
}

/* Has the mask, which is not 0, as many lanes? */
static int device_chunk_counts(const struct mt_access_run *r)
{
    uint32_t m = r->mask;
    m -= m >> 1 & 0x55555555; /* not every x86-64 counts bits in one instruction */
    m = (m & 0x33333333) + (m >> 2 & 0x33333333);
    return ((m + (m >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24 == r->count;
}

/* Can the run be encoded? */
static inline int device_chunk_good(const struct mt_access_run *r)
{
    if (!(r->meta & ((1u << 28) - 1)) || !mt_rec_known(r->meta >> 28))
        return 0;
    if (__builtin_expect(r->mask == UINT32_MAX, 1))
        return r->count == MT_MTC_MAX_LANES;
    return r->count && (!r->mask || device_chunk_counts(r)) && (!r->row || r->count <= MT_RUN_ROWS);
}

/* What the runs need at most. 0, or why they cannot be encoded. */
static const char *device_chunk_measure(const struct mt_access_run *runs, size_t count, uint64_t *pieces,
                                        uint64_t *gathers, uint64_t *accesses)
{
    uint64_t more = 0, apart = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        const struct mt_access_run *r = &runs[i];
        if (!device_chunk_good(r))
            return "a run without accesses, or with another number of lanes than its mask, or of no known "
                   "type";
        sum += r->count;
        if (r->row || r->addresses) {
            uint64_t n = (r->count + (uint64_t)MT_MTC_MAX_LANES - 1) / MT_MTC_MAX_LANES;
            apart += n;
            more += n - 1;
        }
    }
    *pieces = count + more;
    *gathers = apart;
    *accesses = sum;
    return NULL;
}

static const char no_memory[] = "no memory for encoding a chunk";

/* Room for the columns, one after the other. */
static const char *device_chunk_begin(struct mt_mtc_device_encoder *e, uint64_t pieces, uint64_t gathers)
{
    size_t want = sizeof(struct mt_mtc_columns) + pieces * (1 + CONTEXT_BYTES + SHAPE_BYTES + BASE_BYTES) +
                  gathers * LANE_BYTES + 64;
    if (want > e->out_room) {
        mt_pages_free(e->out, e->out_room);
        e->out_room = 0;
        if (!(e->out = mt_pages(want)))
            return no_memory;
        e->out_room = want;
    }
    if (mt_tables_begin(e) != 0)
        return no_memory;
    struct mt_device_work *w = &e->at;
    *w = (struct mt_device_work){.e = e, .context = MT_NONE, .fresh = MT_NONE};
    w->tokens = e->out + sizeof(struct mt_mtc_columns);
    w->contexts = w->tokens + pieces;
    w->shapes = w->contexts + pieces * CONTEXT_BYTES;
    w->bases = w->shapes + pieces * SHAPE_BYTES;
    w->lanes = w->bases + pieces * BASE_BYTES;
    e->begin = *w;
    e->pieces = e->gathers = e->accesses = 0;
    e->room_pieces = pieces;
    e->room_gathers = gathers;
    return NULL;
}

const char *mt_mtc_device_begin(struct mt_mtc_device_encoder *e, size_t runs)
{
    return device_chunk_begin(e, runs, runs);
}

int mt_mtc_device_add(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs, size_t count,
                      const char **why)
{
    uint64_t pieces, gathers, accesses;
    *why = device_chunk_measure(runs, count, &pieces, &gathers, &accesses);
    if (*why)
        return -1;
    if (e->pieces + pieces > e->room_pieces || e->gathers + gathers > e->room_gathers ||
        e->pieces + pieces > MT_MTC_MAX_RUNS || e->accesses + accesses > MT_MTC_MAX_ACCESSES)
        return 0;
    struct mt_device_work w = e->at; /* nobody else sees it */
    if (mt_device_encode(&w, runs, count) != 0) {
        *why = no_memory;
        return -1;
    }
    e->at = w;
    e->pieces += pieces;
    e->gathers += gathers;
    e->accesses += accesses;
    return 1;
}

/* Moves the column that began at `from` and ends at `end` down to `to`; returns its bytes. */
static uint32_t device_chunk_close(unsigned char **to, const unsigned char *from, const unsigned char *end)
{
    size_t bytes = (size_t)(end - from);
    memmove(*to, from, bytes);
    *to += bytes;
    return (uint32_t)bytes;
}

size_t mt_mtc_device_end(struct mt_mtc_device_encoder *e, uint64_t *accesses, const void **payload)
{
    const struct mt_device_work *at = &e->begin, *w = &e->at;
    struct mt_mtc_columns columns = {.runs = (uint32_t)e->pieces};
    unsigned char *to = w->tokens;
    columns.contexts = device_chunk_close(&to, at->contexts, w->contexts);
    columns.shapes = device_chunk_close(&to, at->shapes, w->shapes);
    columns.bases = device_chunk_close(&to, at->bases, w->bases);
    columns.lanes = device_chunk_close(&to, at->lanes, w->lanes);
    memcpy(e->out, &columns, sizeof columns);
    *payload = e->out;
    *accesses = e->accesses;
    return (size_t)(to - e->out);
}

size_t mt_mtc_encode_device(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs, size_t count,
                            uint64_t *accesses, const void **payload, const char **why)
{
    uint64_t pieces, gathers;
    *why = device_chunk_measure(runs, count, &pieces, &gathers, accesses);
    if (!*why && (count > MT_MTC_MAX_RUNS || pieces > MT_MTC_MAX_RUNS || *accesses > MT_MTC_MAX_ACCESSES))
        *why = "too many runs or accesses for one chunk";
    if (!*why)
        *why = device_chunk_begin(e, pieces, gathers);
    if (*why || mt_mtc_device_add(e, runs, count, why) < 0)
        return 0;
    return mt_mtc_device_end(e, accesses, payload);
}
