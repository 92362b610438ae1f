/* All operations on given addresses, by address: a second pass over the records after the one that found the
 * keys. Operations are in chains in memory, equal neighbours as one with a count; what has no room goes to
 * an unnamed file, sorted by key, as often as needed. Memory is bounded by the budget and the keys, however
 * many operations there are; disk by the operations. Not thread-safe. */
#ifndef MT_ANALYSIS_ADDRESSES_H
#define MT_ANALYSIS_ADDRESSES_H
#include <stddef.h>
#include <stdint.h>
#include "analysis/base/keyset.h"
#include "memtrace/device.h"
#include "memtrace/record.h"
#include "analysis/base/pairmap.h"

/* Who makes operations: a CTA on an SM in a launch. */
struct mt_operator {
    uint64_t cta, superstep;
    uint32_t smid;
};

/* What an operation on a key is: it began `before` bytes before the key. */
struct mt_operation_kind {
    uint32_t before, meta;
};

/* `count` equal operations in a row; who and what are indices into mt_addresses.who and .what. */
struct mt_operation {
    uint32_t who, what, count;
};

struct mt_chain;
struct mt_addresses_segment;

struct mt_addresses {
    struct mt_keyset *keys; /* indexed; the caller's */
    struct mt_operator *who;
    struct mt_operation_kind *what;
    size_t nwho, nwhat;
    uint64_t records;    /* seen */
    uint64_t operations; /* on keys; equal ones count one by one */
    /* state */
    size_t who_room, what_room;
    struct mt_pairmap who_index, what_index;
    uint64_t superstep; /* of the index */
    uint32_t last_who;
    struct mt_chain *chain; /* by rank of the key */
    struct mt_operation *pool;
    uint64_t used, budget; /* operations of the pool */
    struct mt_addresses_segment *segment;
    size_t nsegments, segment_room;
    int fd;
    uint64_t file_end;
    const char *why; /* of a failure */
    int sys;         /* errno of it, or 0 */
};

/* `budget`: bytes of operations held in memory. 0, or -1 with a->why. */
int mt_addresses_init(struct mt_addresses *a, struct mt_keyset *keys, uint64_t budget);
void mt_addresses_free(struct mt_addresses *a);
/* Operations in the order of the trace. 0, or -1 with a->why (then and later). */
int mt_addresses_records(struct mt_addresses *a, const struct mt_raw_record *records, size_t n,
                         uint64_t superstep);
int mt_addresses_runs(struct mt_addresses *a, const struct mt_access_run *runs, size_t n, uint64_t superstep);

/* Afterwards, once: calls key() for each key in ascending order and after it operations() for the operations
 * on it, in order, as often as they come in pieces. Stops when a function returns other than 0 and returns
 * that; -1 with a->why if the file cannot be read. */
struct mt_addresses_visitor {
    int (*key)(void *arg, uint64_t key);
    int (*operations)(void *arg, uint64_t key, const struct mt_operation *operations, size_t n);
};
int mt_addresses_visit(struct mt_addresses *a, const struct mt_addresses_visitor *v, void *arg);
#endif
