/* Chunks of device runs: checks runs, makes room for the columns, and joins the columns to a payload. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "device_tables.h"
#include "pages.h"
#include "writer.h"
#include <string.h>

enum {                     /* maximum bytes that one run adds to a column */
       CONTEXT_BYTES = 40, /* a new context: flags 1, CTA 3 * 10, warp 5, SM 5; or a number 5; and a slot 5 */
       SHAPE_BYTES = 36,   /* a new slot: 5 + 5; a shape: 1 + 4 + 5 + 10 */
       BASE_BYTES = 10,
       LANE_BYTES = 280, /* 2 + 4 + 5 + 32 * 8, and 8 bytes written beyond the end */
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

/* Returns the number of accesses if each run is one piece, or 0. The encoder finds invalid runs later. */
static uint64_t device_chunk_accesses(const struct mt_access_run *runs, size_t count)
{
    uint64_t sum = 0;
    uint32_t odd = 0;
    for (size_t i = 0; i < count; i++) {
        sum += runs[i].count;
        odd |= (runs[i].count - 1) / MT_MTC_MAX_LANES;
    }
    return odd ? 0 : sum;
}

/* Computes the room that the runs need at most. Returns 0, or the reason why they cannot be encoded. */
static const char *device_chunk_measure(const struct mt_access_run *runs, size_t count, uint64_t *pieces,
                                        uint64_t *gathers, uint64_t *accesses)
{
    uint64_t more = 0, apart = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        const struct mt_access_run *r = &runs[i];
        if (!mt_device_good(r))
            return mt_device_bad;
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

const char mt_device_no_memory[] = "no memory for encoding a chunk";

/* Makes room for the columns, one after the other. */
static const char *device_chunk_begin(struct mt_mtc_device_encoder *e, uint64_t pieces, uint64_t gathers)
{
    size_t want = sizeof(struct mt_mtc_columns) + pieces * (1 + CONTEXT_BYTES + SHAPE_BYTES + BASE_BYTES) +
                  gathers * LANE_BYTES + 64;
    if (want > e->out_room) {
        mt_pages_free(e->out, e->out_room);
        e->out_room = 0;
        if (!(e->out = mt_pages(want)))
            return mt_device_no_memory;
        e->out_room = want;
    }
    if (mt_tables_begin(e) != 0)
        return mt_device_no_memory;
    struct mt_device_work *w = &e->at;
    *w = (struct mt_device_work){.e = e, .context = MT_NONE, .fresh = MT_NONE};
    w->tokens = e->out + sizeof(struct mt_mtc_columns);
    w->contexts = w->tokens + pieces;
    w->shapes = w->contexts + pieces * CONTEXT_BYTES;
    w->bases = w->shapes + pieces * SHAPE_BYTES;
    w->lanes = w->bases + pieces * BASE_BYTES;
    e->begin = *w;
    e->pieces = e->accesses = 0;
    e->room = pieces;
    return NULL;
}

const char *mt_mtc_device_begin(struct mt_mtc_device_encoder *e, size_t runs)
{
    return device_chunk_begin(e, runs, runs);
}

/* Encodes runs for which there is room. Returns 0, or the reason why they cannot be encoded. */
static const char *device_chunk_add(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs,
                                    size_t count, uint64_t pieces, uint64_t accesses)
{
    struct mt_device_work w = e->at; /* local copy, so that it can stay in registers */
    const char *why = mt_device_encode(&w, runs, count);
    if (why)
        return why;
    e->at = w;
    e->pieces += pieces;
    e->accesses += accesses;
    return NULL;
}

int mt_mtc_device_add(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs, size_t count,
                      const char **why)
{
    uint64_t pieces = count, gathers,
             accesses = device_chunk_accesses(runs, count); /* 0: unknown, and measured below */
    *why = accesses ? NULL : device_chunk_measure(runs, count, &pieces, &gathers, &accesses);
    if (*why)
        return -1;
    if (e->pieces + pieces > e->room || e->pieces + pieces > MT_MTC_MAX_RUNS ||
        e->accesses + accesses > MT_MTC_MAX_ACCESSES)
        return 0;
    *why = device_chunk_add(e, runs, count, pieces, accesses);
    return *why ? -1 : 1;
}

/* Moves the column from `from` to `end` down to `to`. Returns its bytes. */
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
    if (!*why)
        *why = device_chunk_add(e, runs, count, pieces, *accesses);
    if (*why)
        return 0;
    return mt_mtc_device_end(e, accesses, payload);
}
