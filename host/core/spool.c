/* Entries kept in an unlinked scratch file until the end, then read sorted: see spool.h. */
#include "spool.h"
#include "output.h"
#include "platform.h"
#include <errno.h>
#include <string.h>

#define MEMORY (64u << 20)
#define WAYS 64u    /* number of files into which one is split */
#define PIECE 2048u /* entries read or written at once */
#define ENTRY sizeof(struct mt_host_timed_entry)

int mt_spool_open(struct mt_spool *s, char *why, unsigned size)
{
    s->entries = 0;
    s->file.fd = -1;
    return mt_core_output_scratch(&s->file, why, size);
}

static void spool_close(struct mt_spool *s)
{
    mt_core_output_close(&s->file);
}

int mt_spool_add(struct mt_spool *s, const struct mt_host_timed_entry *e, uint64_t count)
{
    int rc = mt_core_output_pwrite(&s->file, e, count * ENTRY, s->entries * ENTRY);
    if (!rc)
        s->entries += count;
    return rc;
}

/* ---- sorting in memory ---- */

static uint32_t rank_of(const struct mt_spool_reader *r, const struct mt_host_timed_entry *e)
{
    return r->rank[e->site >> 2];
}

/* Stable merge sort by time of runs that are mostly in order already. The result is in e. */
static void sort_times(struct mt_host_timed_entry *e, struct mt_host_timed_entry *other, uint64_t n)
{
    uint64_t i = 1;
    while (i < n && e[i - 1].time <= e[i].time)
        i++;
    if (i >= n)
        return;
    sort_times(e, other, n / 2);
    sort_times(e + n / 2, other, n - n / 2);
    memcpy(other, e, n / 2 * ENTRY);
    uint64_t a = 0, b = n / 2, k = 0;
    while (a < n / 2)
        e[k++] = b < n && e[b].time < other[a].time ? e[b++] : other[a++];
}

/* Sorts `e` into `out` by rank, stable, by counting; then each rank by time. */
static int spool_sort(const struct mt_spool_reader *r, struct mt_host_timed_entry *e,
                      struct mt_host_timed_entry *out, uint64_t n, uint32_t low, uint32_t high)
{
    uint64_t bytes = ((uint64_t)high - low + 2) * sizeof(uint64_t);
    uint64_t *at = mt_plat_map(bytes);
    if (!at)
        return ENOMEM;
    for (uint64_t i = 0; i < n; i++)
        at[rank_of(r, &e[i]) - low + 1]++;
    for (uint32_t k = 0; k <= high - low; k++)
        at[k + 1] += at[k];
    for (uint64_t i = 0; i < n; i++)
        out[at[rank_of(r, &e[i]) - low]++] = e[i]; /* at[k] ends as the end of rank k */
    for (uint32_t k = 0; k <= high - low; k++) {
        uint64_t start = k ? at[k - 1] : 0;
        sort_times(out + start, e, at[k] - start);
    }
    mt_plat_unmap(at, bytes);
    return 0;
}

static int in_memory(const struct mt_spool_reader *r, struct mt_spool *s, uint32_t low, uint32_t high)
{
    uint64_t bytes = s->entries * ENTRY;
    struct mt_host_timed_entry *e = mt_plat_map(bytes), *out = mt_plat_map(bytes);
    int rc = e && out ? mt_core_output_pread(&s->file, e, bytes, 0) : ENOMEM;
    if (!rc)
        rc = spool_sort(r, e, out, s->entries, low, high);
    for (uint64_t i = 0; !rc && i < s->entries; i++)
        r->entry(r->arg, &out[i], rank_of(r, &out[i]));
    mt_plat_unmap(e, bytes);
    mt_plat_unmap(out, bytes);
    return rc;
}

/* ---- splitting larger spools ---- */

/* A split by ranks low..high, or by times if there is only one rank: way k takes [bound[k], bound[k + 1]). */
struct split {
    const struct mt_spool_reader *r;
    int by_time;
    uint64_t bound[WAYS + 1];
    struct mt_spool part[WAYS];
    struct mt_host_timed_entry *waiting[WAYS];
    uint32_t count[WAYS];
    uint64_t low, high; /* range of keys seen */
};

static uint64_t spool_key(const struct split *p, const struct mt_host_timed_entry *e)
{
    return p->by_time ? e->time : rank_of(p->r, e);
}

static int spool_each(struct mt_spool *s, int (*visit)(struct split *, const struct mt_host_timed_entry *),
                      struct split *p)
{
    struct mt_host_timed_entry *e = mt_plat_map(PIECE * ENTRY);
    int rc = e ? 0 : ENOMEM;
    for (uint64_t i = 0; !rc && i < s->entries; i += PIECE) {
        uint64_t n = s->entries - i < PIECE ? s->entries - i : PIECE;
        rc = mt_core_output_pread(&s->file, e, n * ENTRY, i * ENTRY);
        for (uint64_t k = 0; !rc && k < n; k++)
            rc = visit(p, &e[k]);
    }
    mt_plat_unmap(e, PIECE * ENTRY);
    return rc;
}

static int find_range(struct split *p, const struct mt_host_timed_entry *e)
{
    uint64_t k = spool_key(p, e);
    p->low = k < p->low ? k : p->low;
    p->high = k > p->high ? k : p->high;
    return 0;
}

static int spool_push(struct split *p, unsigned w)
{
    int rc = mt_spool_add(&p->part[w], p->waiting[w], p->count[w]);
    p->count[w] = 0;
    return rc;
}

static int spool_deal(struct split *p, const struct mt_host_timed_entry *e)
{
    uint64_t k = spool_key(p, e);
    unsigned w = 0;
    for (unsigned half = WAYS / 2; half; half /= 2)
        if (p->bound[w + half] <= k)
            w += half;
    p->waiting[w][p->count[w]++] = *e;
    return p->count[w] == PIECE ? spool_push(p, w) : 0;
}

static int split_open(struct split *p)
{
    char why[512];
    for (unsigned w = 0; w < WAYS; w++) {
        int rc = mt_spool_open(&p->part[w], why, sizeof why);
        if (rc)
            return rc;
        if (!(p->waiting[w] = mt_plat_map(PIECE * ENTRY)))
            return ENOMEM;
    }
    return 0;
}

static void split_close(struct split *p)
{
    for (unsigned w = 0; w < WAYS; w++) {
        spool_close(&p->part[w]);
        mt_plat_unmap(p->waiting[w], PIECE * ENTRY);
    }
    mt_plat_unmap(p, sizeof *p);
}

/* Emits entries of one key, which need no sorting. */
static int spool_emit(struct split *p, const struct mt_host_timed_entry *e)
{
    p->r->entry(p->r->arg, e, rank_of(p->r, e));
    return 0;
}

/* Splits the range into equal parts: recursion evens out crowded ones. */
static int split_fill(struct split *p, struct mt_spool *s)
{
    p->low = UINT64_MAX;
    int rc = spool_each(s, find_range, p);
    if (!rc && p->low == p->high && !p->by_time) {
        p->by_time = 1;
        p->low = UINT64_MAX;
        p->high = 0;
        rc = spool_each(s, find_range, p);
    }
    if (!rc && p->low == p->high)
        return spool_each(s, spool_emit, p); /* one execution with very many operands */
    uint64_t span = p->high - p->low, step = span / WAYS + 1;
    for (unsigned w = 0; w <= WAYS; w++)
        p->bound[w] = w && step > (UINT64_MAX - p->low) / w ? UINT64_MAX : p->low + w * step;
    if (!rc)
        rc = split_open(p);
    if (!rc)
        rc = spool_each(s, spool_deal, p);
    for (unsigned w = 0; !rc && w < WAYS; w++) {
        rc = spool_push(p, w);
        mt_plat_unmap(p->waiting[w], PIECE * ENTRY);
        p->waiting[w] = NULL;
    }
    return rc;
}

static int read_part(const struct mt_spool_reader *r, struct mt_spool *s, uint32_t low, uint32_t high);

static int in_parts(const struct mt_spool_reader *r, struct mt_spool *s)
{
    struct split *p = mt_plat_map(sizeof *p);
    if (!p)
        return ENOMEM;
    p->r = r;
    for (unsigned w = 0; w < WAYS; w++)
        p->part[w].file.fd = -1;
    int rc = split_fill(p, s);
    spool_close(s); /* frees its disk space for the parts of the parts */
    for (unsigned w = 0; !rc && w < WAYS; w++)
        rc = p->part[w].entries ? read_part(r, &p->part[w], 0, r->ranks - 1) : 0;
    split_close(p);
    return rc;
}

static int read_part(const struct mt_spool_reader *r, struct mt_spool *s, uint32_t low, uint32_t high)
{
    uint64_t memory = r->memory ? r->memory : MEMORY;
    int rc = s->entries * ENTRY <= memory ? in_memory(r, s, low, high) : in_parts(r, s);
    spool_close(s);
    return rc;
}

int mt_spool_read(struct mt_spool *s, const struct mt_spool_reader *r)
{
    if (!s->entries || !r->ranks) {
        spool_close(s);
        return 0;
    }
    return read_part(r, s, 0, r->ranks - 1);
}
