/* Sequences of nodes of a memory graph, and measures of their similarity. */
#define _GNU_SOURCE

#include "sequence.h"
#include "memtrace/order.h"
#include "memtrace/grow.h"
#include "graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- similarity of two sequences ---- */

/* ---- edit distance ----
 * Bit-parallel (Myers 1999, in the block form of Hyyrö 2003): 64 rows of the distance table at a time, for
 * all columns, as differences between neighbours; `across` passes the differences between columns to the next
 * 64 rows. Time na * nb / 64, memory na + nb. */

struct block {
    uint64_t up, down; /* rows whose value is one more, one less than the row above */
};

/* Advances a block by one column. `equal`: rows whose element equals the column's; `in`: difference across
 * the row above the block; `last`: bit of the last row. Returns the difference across the last row. */
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
    if ((double)count >= c->least)
        c->out[c->n++] = (struct mt_gram_share){(uint32_t)gram, count};
}

MT_ORDER_FUNCTION(sequence_most_first, struct mt_gram_share,
                  MT_ORDER_DIFFER(y, x, count) MT_ORDER_DIFFER(x, y, gram))

/* Returns the n-grams whose share is at least `threshold` (0..1), most frequent first; *n is their number;
 * the caller frees them. NULL without memory. */
static struct mt_gram_share *sequence_frequent(const struct mt_sequence *s, double threshold, size_t *n)
{
    struct collect c = {malloc((s->grams.count + 1) * sizeof *c.out), 0, threshold * (double)s->all_grams};
    if (!c.out)
        return NULL;
    mt_pairmap_each(&s->grams, collect_gram, &c);
    qsort(c.out, c.n, sizeof *c.out, sequence_most_first);
    *n = c.n;
    return c.out;
}

/* Returns the similarity of two such lists, 0..1: the sum over all n-grams of the smaller of the two shares;
 * a share is the count divided by the sum of the counts of its list. Two empty lists are equal. -1 without
 * memory. */
static double sequence_similarity(const struct mt_gram_share *a, size_t na, const struct mt_gram_share *b,
                                  size_t nb)
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

struct mt_actor_state {
    uint32_t rank, last;           /* the actor's number; its last token */
    uint64_t run;                  /* index + 1 of its last run, 0: not stored */
    uint32_t window[MT_NGRAM_MAX]; /* the actor's last tokens */
    unsigned filled;
};

/* ---- the alphabet ---- */

void mt_alphabet_init(struct mt_alphabet *a, unsigned n)
{
    memset(a, 0, sizeof *a);
    a->n = n;
    a->ngrams = 1;
}

void mt_alphabet_free(struct mt_alphabet *a)
{
    free(a->tokens);
    free(a->grams);
    mt_pairmap_free(&a->token_index);
    mt_pairmap_free(&a->gram_index);
}

uint32_t mt_token_of(struct mt_alphabet *a, uint64_t buffer, int64_t stride, uint32_t type)
{
    uint64_t *known = mt_pairmap_get(&a->token_index, buffer << 2 | type, (uint64_t)stride, 0);
    if (!known)
        return UINT32_MAX;
    if (*known)
        return (uint32_t)(*known - 1);
    if (a->ntokens == UINT32_MAX - 1 ||
        mt_grow(&a->tokens, &a->token_room, a->ntokens + 1, sizeof *a->tokens) != 0)
        return UINT32_MAX;
    a->tokens[a->ntokens] = (struct mt_token){buffer, stride, type};
    *known = ++a->ntokens;
    return (uint32_t)(a->ntokens - 1);
}

uint32_t mt_gram_of(struct mt_alphabet *a, uint32_t prefix, uint32_t token)
{
    uint64_t *known = mt_pairmap_get(&a->gram_index, prefix, token, 0);
    if (!known)
        return 0;
    if (*known)
        return (uint32_t)*known;
    if (a->ngrams == UINT32_MAX || mt_grow(&a->grams, &a->gram_room, a->ngrams + 1, sizeof *a->grams) != 0)
        return 0;
    a->grams[a->ngrams].token = token;
    a->grams[a->ngrams].prefix = prefix;
    *known = a->ngrams++;
    return (uint32_t)*known;
}

/* ---- one sequence ---- */

void mt_sequence_init(struct mt_sequence *s, struct mt_alphabet *a, size_t cap)
{
    memset(s, 0, sizeof *s);
    s->alphabet = a;
    s->cap = cap;
    s->has_order = s->has_grams = 1;
}

void mt_sequence_free(struct mt_sequence *s)
{
    free(s->counts);
    free(s->runs);
    free(s->actors);
    mt_pairmap_free(&s->grams);
    mt_pairmap_free(&s->actor_index);
    mt_pairmap_free(&s->buffers);
}

void mt_sequence_launch(struct mt_sequence *s)
{
    mt_pairmap_clear(&s->actor_index);
    s->nactors = 0;
}

/* Returns NULL without memory. */
static struct mt_actor_state *actor_of(struct mt_sequence *s, uint64_t actor)
{
    uint64_t *known = mt_pairmap_get(&s->actor_index, actor, 0, 0);
    if (!known)
        return NULL;
    if (!*known) {
        if (mt_grow(&s->actors, &s->actor_room, s->nactors + 1, sizeof *s->actors) != 0)
            return NULL;
        s->actors[s->nactors] = (struct mt_actor_state){.rank = s->next_actor++, .last = UINT32_MAX};
        *known = ++s->nactors;
    }
    return &s->actors[*known - 1];
}

int mt_sequence_gram(struct mt_sequence *s, uint32_t gram, uint64_t count)
{
    uint64_t *n = gram ? mt_pairmap_get(&s->grams, gram, 0, 0) : NULL;
    if (!n)
        return -1;
    *n += count;
    s->all_grams += count;
    return 0;
}

int mt_sequence_count(struct mt_sequence *s, uint32_t token, uint64_t count)
{
    if (token >= s->ncounts) {
        if (mt_grow(&s->counts, &s->count_room, (size_t)token + 1, sizeof *s->counts) != 0)
            return -1;
        memset(s->counts + s->ncounts, 0, (token + 1 - s->ncounts) * sizeof *s->counts);
        s->ncounts = (size_t)token + 1;
    }
    s->counts[token] += count;
    s->elements += count;
    return 0;
}

/* Adds the n-gram that ends with this element. */
static int add_gram(struct mt_sequence *s, struct mt_actor_state *a, uint32_t token, uint64_t count)
{
    unsigned n = s->alphabet->n;
    if (a->filled == n)
        memmove(a->window, a->window + 1, (n - 1) * sizeof *a->window);
    else
        a->filled++;
    a->window[a->filled - 1] = token;
    if (a->filled < n)
        return 0;
    uint32_t gram = 0;
    for (unsigned i = 0; i < n; i++)
        if ((gram = mt_gram_of(s->alphabet, gram, a->window[i])) == 0)
            return -1;
    return mt_sequence_gram(s, gram, count);
}

int mt_sequence_run(struct mt_sequence *s, uint64_t actor, uint32_t token, uint64_t count)
{
    struct mt_actor_state *a = actor_of(s, actor);
    if (!a || mt_sequence_count(s, token, count) != 0)
        return -1;
    if (a->last != token) {
        a->last = token;
        a->run = 0;
        s->all_runs++;
        if (s->nruns < s->cap) {
            if (mt_grow(&s->runs, &s->run_room, s->nruns + 1, sizeof *s->runs) != 0)
                return -1;
            s->runs[s->nruns] = (struct mt_node_run){a->rank, token, 0};
            a->run = ++s->nruns;
        }
    }
    if (a->run)
        s->runs[a->run - 1].count += count;
    for (unsigned i = 1; i < s->alphabet->n && count > 1;
         i++, count--) /* afterwards the window is filled with the token */
        if (add_gram(s, a, token, 1) != 0)
            return -1;
    return add_gram(s, a, token, count);
}

int mt_sequence_buffer(struct mt_sequence *s, uint64_t buffer, uint64_t *name)
{
    *name = buffer;
    if (buffer == MT_BUFFER_NONE)
        return 0;
    size_t before = s->buffers.count;
    uint64_t *known = mt_pairmap_get(&s->buffers, buffer, 0, before);
    if (!known)
        return -1;
    *name = *known;
    return 0;
}

int mt_sequence_add(struct mt_sequence *s, uint64_t actor, uint64_t buffer, int64_t stride, uint32_t type)
{
    uint64_t name;
    if (mt_sequence_buffer(s, buffer, &name) != 0)
        return -1;
    uint32_t token = mt_token_of(s->alphabet, name, stride, type);
    return token == UINT32_MAX ? -1 : mt_sequence_run(s, actor, token, 1);
}

int mt_sequence_runs(const struct mt_sequence *s, struct mt_node_run *out)
{
    size_t *place = calloc((size_t)s->next_actor + 2, sizeof *place);
    if (!place)
        return -1;
    for (size_t i = 0; i < s->nruns; i++)
        place[s->runs[i].actor + 1]++;
    for (size_t i = 1; i <= s->next_actor; i++)
        place[i] += place[i - 1];
    for (size_t i = 0; i < s->nruns; i++)
        out[place[s->runs[i].actor]++] = s->runs[i];
    free(place);
    return 0;
}

/* Returns the *n elements in order (`each_run`: one per run), for the caller to free. NULL without memory. */
static uint32_t *sequence_elements(const struct mt_sequence *s, int each_run, size_t *n)
{
    struct mt_node_run *runs = malloc((s->nruns + 1) * sizeof *runs);
    uint32_t *out = NULL;
    size_t all = 0;
    if (!runs || mt_sequence_runs(s, runs) != 0)
        goto out;
    for (size_t i = 0; i < s->nruns; i++)
        all += each_run ? 1 : runs[i].count;
    out = malloc((all + 1) * sizeof *out);
    *n = 0;
    for (size_t i = 0; out && i < s->nruns; i++)
        for (uint64_t k = each_run ? 1 : runs[i].count; k > 0; k--)
            out[(*n)++] = runs[i].token;
out:
    free(runs);
    return out;
}

/* ---- matrices of similarities ---- */

static void sequence_decide(struct mt_compare *c)
{
    c->how = MT_COMPARED_NODES;
    for (size_t i = 0; i < c->n; i++)
        if (c->rows[i].sequence.has_order && c->rows[i].sequence.elements > c->cap)
            c->how = MT_COMPARED_RUNS;
    for (size_t i = 0; i < c->n && c->how != MT_COMPARED_NODES; i++)
        if (c->rows[i].sequence.has_order && c->rows[i].sequence.all_runs > c->cap)
            c->how = MT_COMPARED_FIRST_RUNS;
}

static int sequence_edits(struct mt_compare *c)
{
    int rc = -1;
    uint32_t **e = calloc(c->n, sizeof *e);
    for (size_t i = 0; e && i < c->n; i++)
        if (c->rows[i].sequence.has_order &&
            !(e[i] =
                  sequence_elements(&c->rows[i].sequence, c->how != MT_COMPARED_NODES, &c->rows[i].compared)))
            goto out;
    for (size_t i = 0; e && i < c->n; i++)
        for (size_t k = i; k < c->n; k++) {
            size_t a = c->rows[i].compared, b = c->rows[k].compared, longer = a > b ? a : b;
            double same = NAN;
            if (e[i] && e[k]) {
                int64_t d = i == k ? 0 : mt_levenshtein(e[i], a, e[k], b);
                if (d < 0)
                    goto out;
                same = longer ? 1 - (double)d / (double)longer : 1;
            }
            c->edit[i * c->n + k] = c->edit[k * c->n + i] = same;
        }
    rc = e ? 0 : -1;
out:
    for (size_t i = 0; e && i < c->n; i++)
        free(e[i]);
    free(e);
    return rc;
}

static int sequence_grams(struct mt_compare *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (!(c->rows[i].grams = sequence_frequent(&c->rows[i].sequence, c->threshold, &c->rows[i].ngrams)))
            return -1;
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = i; k < c->n; k++) {
            const struct mt_compare_row *a = &c->rows[i], *b = &c->rows[k];
            double same = NAN;
            if (a->sequence.has_grams && b->sequence.has_grams)
                same = i == k ? 1 : sequence_similarity(a->grams, a->ngrams, b->grams, b->ngrams);
            if (same < 0)
                return -1;
            c->gram[i * c->n + k] = c->gram[k * c->n + i] = same;
        }
    return 0;
}

int mt_compare_all(struct mt_compare *c)
{
    sequence_decide(c);
    return sequence_edits(c) == 0 && sequence_grams(c) == 0 ? 0 : -1;
}
