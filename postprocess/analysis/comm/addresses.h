/* All operations on given addresses, grouped by address: a second pass over the records, after the pass that
 * found the addresses (keys). Operations are in chains in memory, equal neighbours as one with a count; when
 * memory is full they go to an unnamed file, sorted by key. Memory is bounded by the budget and the keys,
 * disk by the operations. Not thread-safe. */
#ifndef MT_ANALYSIS_ADDRESSES_H
#define MT_ANALYSIS_ADDRESSES_H
#include <stddef.h>
#include <stdint.h>
#include "analysis/base/keyset.h"
#include "memtrace/device.h"
#include "memtrace/record.h"
#include "analysis/base/pairmap.h"

/* Originator of operations: a CTA on an SM in a launch. */
struct mt_operator {
    uint64_t cta, superstep;
    uint32_t smid;
};

/* Kind of an operation on a key; the access began `before` bytes before the key. */
struct mt_operation_kind {
    uint32_t before, meta;
};

/* `count` equal consecutive operations; who and what are indices into mt_addresses.who and .what. */
struct mt_operation {
    uint32_t who, what, count;
};

struct mt_chain;
struct mt_addresses_segment;

struct mt_addresses {
    struct mt_keyset *keys; /* set of keys, indexed; owned by the caller */
    struct mt_operator *who;
    struct mt_operation_kind *what;
    size_t nwho, nwhat;
    uint64_t records;    /* number of records processed */
    uint64_t operations; /* number of operations on keys, each counted */
    /* state */
    size_t who_room, what_room;
    struct mt_pairmap who_index, what_index;
    uint64_t superstep; /* superstep of the entries in who_index */
    uint32_t last_who;
    struct mt_chain *chain; /* by rank of the key */
    struct mt_operation *pool;
    uint64_t used, budget; /* number of operations in the pool, used and maximum */
    struct mt_addresses_segment *segment;
    size_t nsegments, segment_room;
    int fd;
    uint64_t file_end;
    const char *why; /* reason of a failure */
    int sys;         /* errno of a failure, or 0 */
};

/* Returns 0, or -1 with a->why set. `budget`: bytes of operations held in memory. */
int mt_addresses_init(struct mt_addresses *a, struct mt_keyset *keys, uint64_t budget);
void mt_addresses_free(struct mt_addresses *a);
/* Adds operations in the order of the trace. Returns 0, or -1 with a->why set (from then on at every
 * call). */
int mt_addresses_records(struct mt_addresses *a, const struct mt_raw_record *records, size_t n,
                         uint64_t superstep);
int mt_addresses_runs(struct mt_addresses *a, const struct mt_access_run *runs, size_t n, uint64_t superstep);

/* Visits the results, once, at the end: calls key() for each key in ascending order, followed by operations()
 * for its operations, in order and in one or more pieces. Stops at a function that returns non-zero and
 * returns that value; returns -1 with a->why set if the file cannot be read. */
struct mt_addresses_visitor {
    int (*key)(void *arg, uint64_t key);
    int (*operations)(void *arg, uint64_t key, const struct mt_operation *operations, size_t n);
};
int mt_addresses_visit(struct mt_addresses *a, const struct mt_addresses_visitor *v, void *arg);
#endif
