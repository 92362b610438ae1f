/* Sequences of nodes of a memory graph, made comparable between traces: buffers are named by the order of
 * their first use, and all sequences share an alphabet of tokens (buffer, stride, type). Actors (CTA
 * instances, threads) follow one another, in the order of their first node.
 *
 * Stored are runs of equal tokens, up to a cap, and the counts of all tokens and n-grams (n consecutive
 * tokens of one actor). Functions return 0, or -1 without memory. */
#ifndef MT_ANALYSIS_SEQUENCE_H
#define MT_ANALYSIS_SEQUENCE_H
#include <stddef.h>
#include <stdint.h>
#include "analysis/base/pairmap.h"

enum { MT_NGRAM_MAX = 8 };

struct mt_token {
    uint64_t buffer; /* rank by first use, or MT_BUFFER_NONE */
    int64_t stride;
    uint32_t type; /* enum mt_access_type */
};

/* Alphabet shared by the sequences to be compared. */
struct mt_alphabet {
    unsigned n; /* length of the n-grams, 1 .. MT_NGRAM_MAX */
    struct mt_token *tokens;
    size_t ntokens, token_room;
    struct {
        uint32_t token, prefix; /* last token, and number of the preceding part */
    } *grams;                   /* n-grams and their prefixes, from index 1 */
    size_t ngrams, gram_room;
    struct mt_pairmap token_index, gram_index;
};

struct mt_node_run {
    uint32_t actor, token;
    uint64_t count;
};

struct mt_sequence {
    struct mt_alphabet *alphabet;
    uint64_t elements, all_runs; /* total numbers, including elements not stored */
    struct mt_node_run *runs;
    size_t nruns, run_room, cap;
    uint64_t *counts; /* by token */
    size_t ncounts, count_room;
    int has_order;           /* 0: only n-grams are known (a saved graph) */
    int has_grams;           /* 1: n-grams of the alphabet's length are known */
    struct mt_pairmap grams; /* map from number of an n-gram to its count */
    uint64_t all_grams;
    /* state */
    struct mt_actor_state *actors;
    size_t nactors, actor_room;
    uint32_t next_actor;
    struct mt_pairmap actor_index, buffers;
};

void mt_alphabet_init(struct mt_alphabet *a, unsigned n);
void mt_alphabet_free(struct mt_alphabet *a);
/* Returns the number of a token, UINT32_MAX without memory. */
uint32_t mt_token_of(struct mt_alphabet *a, uint64_t buffer, int64_t stride, uint32_t type);
/* Returns the number of the gram `prefix` (0: empty) followed by `token`; 0 without memory. */
uint32_t mt_gram_of(struct mt_alphabet *a, uint32_t prefix, uint32_t token);

/* Initialises a sequence; cap: number of runs stored. */
void mt_sequence_init(struct mt_sequence *s, struct mt_alphabet *a, size_t cap);
void mt_sequence_free(struct mt_sequence *s);
/* Begins a launch: actors from now on are new ones. */
void mt_sequence_launch(struct mt_sequence *s);
/* Adds an element; `buffer` is the trace's own number. */
int mt_sequence_add(struct mt_sequence *s, uint64_t actor, uint64_t buffer, int64_t stride, uint32_t type);
/* Adds `count` equal elements of a known token; for saved sequences. */
int mt_sequence_run(struct mt_sequence *s, uint64_t actor, uint32_t token, uint64_t count);
/* Returns in *name the rank of a buffer by first use. */
int mt_sequence_buffer(struct mt_sequence *s, uint64_t buffer, uint64_t *name);
int mt_sequence_gram(struct mt_sequence *s, uint32_t gram, uint64_t count);
/* Adds `count` elements of a token whose order is not known. */
int mt_sequence_count(struct mt_sequence *s, uint32_t token, uint64_t count);
/* Writes the stored runs, by actor; `out` has room for nruns. Returns 0, or -1 without memory. */
int mt_sequence_runs(const struct mt_sequence *s, struct mt_node_run *out);

/* ---- measures ---- */

/* Returns the edit distance of two sequences: the minimum number of insertions, deletions and replacements.
 * -1 without memory. */
int64_t mt_levenshtein(const uint32_t *a, size_t na, const uint32_t *b, size_t nb);

struct mt_gram_share {
    uint32_t gram;
    uint64_t count;
};

enum mt_compared { MT_COMPARED_NODES, MT_COMPARED_RUNS, MT_COMPARED_FIRST_RUNS };

struct mt_compare_row {
    const char *path, *kind;
    const char *stride; /* sentence that defines a stride here; NULL: unknown */
    int complete;
    struct mt_sequence sequence;
    size_t compared; /* elements compared by edit distance */
    struct mt_gram_share *grams;
    size_t ngrams;
};

struct mt_compare {
    struct mt_alphabet alphabet;
    struct mt_compare_row *rows;
    size_t n;
    enum mt_compared how;
    size_t cap;
    char *note;          /* why the rows are of different kinds, or NULL; owned by the caller */
    double threshold;    /* smallest share of frequent n-grams, 0 to 1 */
    double *edit, *gram; /* [n * n] similarities, 0 to 1; NAN: unknown */
};

/* Fills in both matrices, [n * n] by the caller. Returns 0, or -1 without memory. */
int mt_compare_all(struct mt_compare *c);
#endif
