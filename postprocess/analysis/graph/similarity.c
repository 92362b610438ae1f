/* Measures of how alike two sequences are. */
#include "sequence.h"
#include <stdlib.h>
#include <string.h>

/* ---- edit distance ----
 * Bit-parallel (Myers 1999, in the block form of Hyyrö 2003): 64 rows of the table of distances at a time,
 * for all columns, as differences between neighbours; `across` hands the differences between columns down to
 * the next 64 rows. Time na * nb / 64, memory na + nb. */

struct block {
    uint64_t up, down; /* rows whose value is one more, one less than that above */
};

/* One column of a block. `equal`: rows whose element is the column's; `in`: difference across the row above
 * the block; `last`: bit of the last row. Returns the difference across the last row. */
static int similarity_advance(struct block *b, uint64_t equal, int in, uint64_t last)
{
    uint64_t vertical = equal | b->down;
    equal |= in < 0;
    uint64_t diagonal = (((equal & b->up) + b->up) ^ b->up) | equal;
    uint64_t plus = b->down | ~(diagonal | b->up), minus = b->up & diagonal;
    int out = (plus & last ? 1 : 0) - (minus & last ? 1 : 0);
    plus = plus << 1 | (in > 0);
    minus = minus << 1 | (in < 0);
    b->up = minus | ~(vertical | plus);
    b->down = plus & vertical;
    return out;
}

int64_t mt_levenshtein(const uint32_t *a, size_t na, const uint32_t *b, size_t nb)
{
    uint32_t most = 0;
    for (size_t i = 0; i < na; i++)
        most = a[i] > most ? a[i] : most;
    for (size_t i = 0; i < nb; i++)
        most = b[i] > most ? b[i] : most;
    uint64_t *equal = calloc((size_t)most + 1, sizeof *equal);
    signed char *across = malloc(nb + 1);
    int64_t distance = (int64_t)na;
    if (!equal || !across) {
        free(equal);
        free(across);
        return -1;
    }
    memset(across, 1, nb + 1);
    for (size_t from = 0; from < na; from += 64) {
        unsigned rows = na - from < 64 ? (unsigned)(na - from) : 64;
        struct block block = {~0ull, 0};
        for (unsigned i = 0; i < rows; i++)
            equal[a[from + i]] |= 1ull << i;
        for (size_t j = 0; j < nb; j++)
            across[j] = (signed char)similarity_advance(&block, equal[b[j]], across[j], 1ull << (rows - 1));
        for (unsigned i = 0; i < rows; i++)
            equal[a[from + i]] = 0;
    }
    for (size_t j = 0; j < nb; j++)
        distance += across[j];
    free(equal);
    free(across);
    return distance;
}

/* ---- n-grams ---- */

struct collect {
    struct mt_gram_share *out;
    size_t n;
    double least;
};

static void collect_gram(void *arg, uint64_t gram, uint64_t unused, uint64_t count)
{
    struct collect *c = arg;
    (void)unused;
    if ((double)count >= c->least)
        c->out[c->n++] = (struct mt_gram_share){(uint32_t)gram, count};
}

static int most_first(const void *a, const void *b)
{
    const struct mt_gram_share *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->gram < y->gram ? -1 : x->gram > y->gram;
}

struct mt_gram_share *mt_frequent_grams(const struct mt_sequence *s, double threshold, size_t *n)
{
    struct collect c = {malloc((s->grams.count + 1) * sizeof *c.out), 0, threshold * (double)s->all_grams};
    if (!c.out)
        return NULL;
    mt_pairmap_each(&s->grams, collect_gram, &c);
    qsort(c.out, c.n, sizeof *c.out, most_first);
    *n = c.n;
    return c.out;
}

double mt_gram_similarity(const struct mt_gram_share *a, size_t na, const struct mt_gram_share *b, size_t nb)
{
    uint64_t all_a = 0, all_b = 0;
    double common = 0;
    for (size_t i = 0; i < na; i++)
        all_a += a[i].count;
    for (size_t i = 0; i < nb; i++)
        all_b += b[i].count;
    if (all_a == 0 || all_b == 0)
        return all_a == all_b;
    struct mt_pairmap in_a = {0};
    for (size_t i = 0; i < na && common >= 0; i++) {
        uint64_t *count = mt_pairmap_get(&in_a, a[i].gram, 0, a[i].count);
        common = count ? 0 : -1;
    }
    for (size_t i = 0; i < nb && common >= 0; i++) {
        uint64_t *count = mt_pairmap_get(&in_a, b[i].gram, 0, 0);
        double x = count ? (double)*count / (double)all_a : 0, y = (double)b[i].count / (double)all_b;
        common = count ? common + (x < y ? x : y) : -1;
    }
    mt_pairmap_free(&in_a);
    return common < 1 ? common : 1;
}
