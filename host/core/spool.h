/* Entries kept in an unlinked scratch file until the end, then read sorted by rank of their instruction,
 * then by time, with operands in order of insertion. Memory stays below about 140 MiB for any number of
 * entries. */
#ifndef MT_HOST_SPOOL_H
#define MT_HOST_SPOOL_H
#include "memtrace/container.h"
#include "output.h"

struct mt_spool {
    struct mt_core_output file;
    uint64_t entries;
};

/* Opens a spool. Returns 0, or an errno value with *why set. */
int mt_spool_open(struct mt_spool *s, char *why, unsigned size);
/* Appends entries. Returns 0, or an errno value, and then none of them is in. The caller locks. */
int mt_spool_add(struct mt_spool *s, const struct mt_host_timed_entry *e, uint64_t count);

struct mt_spool_reader {
    const uint32_t *rank; /* rank per instruction (site / 4), 0 .. ranks - 1 */
    uint32_t ranks;
    uint64_t memory; /* bytes for sorting; 0: 64 MiB */
    void (*entry)(void *arg, const struct mt_host_timed_entry *e, uint32_t rank);
    void *arg;
};
/* Reads all entries in order and closes the spool. Returns 0, or an errno value if some are missing. */
int mt_spool_read(struct mt_spool *s, const struct mt_spool_reader *r);
#endif
