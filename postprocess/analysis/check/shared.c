/* See shared.h. */
#include "shared.h"
#include "analysis/base/runs.h"
#include "memtrace/record.h"
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20, WARPS = 32, MOST_SIZE = 16, MOST_SHARE = 32 }; /* BYTES: more than GPUs have */

void mt_check_shared_launch(struct mt_check_shared *x, int blind)
{
    for (uint64_t i = 0; x->written && i < x->count && i < MT_SHARED_CTAS; i++)
        mt_written_free(&x->written[i]);
    mt_pairmap_clear(&x->numbers);
    x->count = 0;
    x->members = (struct mt_members){0};
    x->blind = blind;
}

void mt_check_shared_free(struct mt_check_shared *x)
{
    mt_check_shared_launch(x, 0);
    mt_pairmap_free(&x->numbers);
    free(x->written);
    memset(x, 0, sizeof *x);
}

/* What a CTA has written, or *w NULL: it has been forgotten. 0, or -1 without memory. */
static int shared_cta(struct mt_check_shared *x, uint64_t cta, struct mt_written **w, uint64_t *number)
{
    const uint64_t *at = mt_pairmap_get(&x->numbers, cta, 0, x->count);
    if (!at || (!x->written && !(x->written = calloc(MT_SHARED_CTAS, sizeof *x->written))))
        return -1;
    *number = *at;
    *w = *at + MT_SHARED_CTAS < x->count ? NULL : &x->written[*at % MT_SHARED_CTAS];
    if (*at != x->count)
        return 0;
    x->count++;
    mt_written_free(*w);
    return mt_written_init(*w, BYTES);
}

/* A lane's read. */
static int shared_read(const struct mt_check_shared *x, const struct mt_written *w,
                       const struct mt_access_run *r, uint32_t access, uint64_t memory, int whole,
                       struct mt_unwritten *u)
{
    const uint64_t size = mt_run_size(r), address = mt_run_address(r, access);
    for (uint64_t i = 0, n; i < size; i += n) {
        int set;
        n = mt_written_run(w, address + i, size - i, &set);
        uint64_t padding =
            set ? n : mt_padding_read(w, NULL, &x->members, address + i, n, (uint32_t)size, whole);
        if (padding)
            n = padding;
        else if (mt_unwritten_add(u, r, access, address, address + i, n, memory, NULL) != 0)
            return -1;
    }
    return 0;
}

/* Accesses that follow each other, `first` and on. */
static int shared_piece(const struct mt_check_shared *x, const struct mt_written *w,
                        const struct mt_access_run *r, const struct mt_piece *p, uint32_t first,
                        uint64_t memory, int whole, struct mt_unwritten *u)
{
    int set, rc = 0;
    if (mt_written_run(w, p->address, p->bytes, &set) == p->bytes && set)
        return 0;
    for (uint32_t i = 0; i < p->accesses && rc == 0; i++)
        rc = shared_read(x, w, r, first + i, memory, whole, u);
    return rc;
}

int mt_check_shared_run(struct mt_check_shared *x, const struct mt_access_run *r, int whole,
                        struct mt_unwritten *u)
{
    const uint32_t type = mt_run_type(r), way = type & 3, size = mt_run_size(r);
    const int loads = way != MT_STORE && size <= (r->mask == UINT32_MAX ? MOST_SHARE : MOST_SIZE);
    struct mt_written *w;
    struct mt_piece p;
    uint64_t number;
    uint32_t at = 0, first = 0;
    if (type >= MT_SYNC_BARRIER || mt_rec_space(type) != MT_IN_SHARED || x->blind || !r->count)
        return 0;
    if (r->warp >= WARPS || !r->mask) {
        x->blind = 1;
        return 0;
    }
    if (shared_cta(x, r->cta, &w, &number) != 0)
        return -1;
    if (w && way != MT_LOAD)
        mt_members_store(&x->members, r, mt_run_address(r, 0), whole);
    for (; w && mt_run_piece(r, &at, &p); first = at)
        if (p.address > BYTES || p.bytes > BYTES - p.address) /* another CTA's of the cluster */
            x->blind |= way != MT_LOAD;
        else if ((loads && shared_piece(x, w, r, &p, first, 1 + number, whole, u) != 0) ||
                 (way != MT_LOAD && mt_written_set(w, p.address, p.bytes) != 0))
            return -1;
    return 0;
}
