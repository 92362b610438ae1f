/* The nodes of a memory graph in the order in which they came, made comparable between traces: buffers are
 * named by the order of their first use, and one alphabet of tokens (buffer, stride, type) serves all
 * sequences. Actors (CTA instances, threads) are one after the other, in the order of their first node.
 *
 * Kept are runs of equal tokens, up to a cap, and the counts of all tokens and n-grams (n consecutive tokens
 * of one actor). Functions return 0, or -1 without memory. */
#ifndef MT_ANALYSIS_SEQUENCE_H
#define MT_ANALYSIS_SEQUENCE_H
#include <stddef.h>
#include <stdint.h>
#include "analysis/base/pairmap.h"

enum { MT_NGRAM_MAX = 8 };

struct mt_token {
    uint64_t buffer; /* order of first use, or MT_BUFFER_NONE */
    int64_t stride;
    uint32_t type; /* enum mt_access_type */
};

/* Shared by the sequences that are to be compared. */
struct mt_alphabet {
    unsigned n; /* of the n-grams, 1 .. MT_NGRAM_MAX */
    struct mt_token *tokens;
    size_t ntokens, token_room;
    struct {
        uint32_t token, prefix; /* the last token, and the number of what precedes it */
    } *grams;                   /* n-grams and their beginnings, from 1 */
    size_t ngrams, gram_room;
    struct mt_pairmap token_index, gram_index;
};

struct mt_node_run {
    uint32_t actor, token;
    uint64_t count;
};

struct mt_sequence {
    struct mt_alphabet *alphabet;
    uint64_t elements, all_runs; /* also those not kept */
    struct mt_node_run *runs;
    size_t nruns, run_room, cap;
    uint64_t *counts; /* of each token */
    size_t ncounts, count_room;
    int has_order;           /* 0: only n-grams are known (a saved graph) */
    int has_grams;           /* n-grams of the alphabet's n are known */
    struct mt_pairmap grams; /* number -> count */
    uint64_t all_grams;
    /* state */
    struct mt_actor_state *actors;
    size_t nactors, actor_room;
    uint32_t next_actor;
    struct mt_pairmap actor_index, buffers;
};

void mt_alphabet_init(struct mt_alphabet *a, unsigned n);
void mt_alphabet_free(struct mt_alphabet *a);
/* Number of a token, UINT32_MAX without memory. */
uint32_t mt_token_of(struct mt_alphabet *a, uint64_t buffer, int64_t stride, uint32_t type);
/* Number of the gram that is `prefix` (0: nothing) and then `token`; 0 without memory. */
uint32_t mt_gram_of(struct mt_alphabet *a, uint32_t prefix, uint32_t token);

/* The tokens of an n-gram: alphabet->n of them. */
void mt_gram_tokens(const struct mt_alphabet *a, uint32_t gram, uint32_t *tokens);

/* cap: runs kept. */
void mt_sequence_init(struct mt_sequence *s, struct mt_alphabet *a, size_t cap);
void mt_sequence_free(struct mt_sequence *s);
/* Actors that come are new ones (a launch begins). */
void mt_sequence_launch(struct mt_sequence *s);
/* `buffer` is the trace's own number. */
int mt_sequence_add(struct mt_sequence *s, uint64_t actor, uint64_t buffer, int64_t stride, uint32_t type);
/* `count` equal elements of a known token; for saved sequences. */
int mt_sequence_run(struct mt_sequence *s, uint64_t actor, uint32_t token, uint64_t count);
/* The token's buffer in order of first use. */
int mt_sequence_buffer(struct mt_sequence *s, uint64_t buffer, uint64_t *name);
int mt_sequence_gram(struct mt_sequence *s, uint32_t gram, uint64_t count);
/* `count` elements of a token whose order is not known. */
int mt_sequence_count(struct mt_sequence *s, uint32_t token, uint64_t count);
/* The kept runs with the actors one after the other: `out` has room for nruns. 0, or -1 without memory. */
int mt_sequence_runs(const struct mt_sequence *s, struct mt_node_run *out);
/* The elements in order, *n of them, the caller frees: `each_run` 1: one per run. NULL without memory. */
uint32_t *mt_sequence_elements(const struct mt_sequence *s, int each_run, size_t *n);

/* ---- measures ---- */

/* Edit distance of two sequences: the least number of elements put in, left out or exchanged.
 * -1 without memory. */
int64_t mt_levenshtein(const uint32_t *a, size_t na, const uint32_t *b, size_t nb);

struct mt_gram_share {
    uint32_t gram;
    uint64_t count;
};
/* N-grams that make up at least `threshold` (0..1) of all, most frequent first; *n of them; the caller frees.
 * NULL without memory. */
struct mt_gram_share *mt_frequent_grams(const struct mt_sequence *s, double threshold, size_t *n);
/* What two lists of these have in common, 0..1: sum over all n-grams of the smaller of both shares, a share
 * being count over the sum of the counts in its list. Two empty lists are equal. -1 without memory. */
double mt_gram_similarity(const struct mt_gram_share *a, size_t na, const struct mt_gram_share *b, size_t nb);
#endif
