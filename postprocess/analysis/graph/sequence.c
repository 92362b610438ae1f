/* The nodes of a memory graph in the order in which they came, made comparable between traces: buffers are
 * named by the order of their first use, and one alphabet of tokens (buffer, stride, type)
 * serves all sequences. */
#define _GNU_SOURCE
#include "sequence.h"
#include "memtrace/grow.h"
#include "graph.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mt_actor_state {
    uint32_t rank, last;           /* its number; its last token */
    uint64_t run;                  /* index + 1 of its last run, 0: not kept */
    uint32_t window[MT_NGRAM_MAX]; /* its last tokens */
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

void mt_gram_tokens(const struct mt_alphabet *a, uint32_t gram, uint32_t *tokens)
{
    for (unsigned k = a->n; k-- > 0; gram = a->grams[gram].prefix)
        tokens[k] = a->grams[gram].token;
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

/* NULL without memory. */
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

/* The n-gram that ends with this element. */
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
         i++, count--) /* then the window is full of the token */
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

uint32_t *mt_sequence_elements(const struct mt_sequence *s, int each_run, size_t *n)
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
