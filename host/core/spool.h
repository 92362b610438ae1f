/* Entries that wait in an unlinked scratch file until the end, and then come out sorted: by rank of their
 * instruction, then by time, operands in the order in which they were put in. Memory stays below about 140
 * MiB whatever their number. */
#ifndef MT_HOST_SPOOL_H
#define MT_HOST_SPOOL_H
#include "memtrace/container.h"
#include "output.h"

struct mt_spool {
    struct mt_core_output file;
    uint64_t entries;
};

/* 0, or an errno value with *why. */
int mt_spool_open(struct mt_spool *s, char *why, unsigned size);
/* Appends; 0 or an errno value: nothing of these is in then. The caller locks. */
int mt_spool_add(struct mt_spool *s, const struct mt_host_timed_entry *e, uint64_t count);

struct mt_spool_reader {
    const uint32_t *rank; /* of an instruction (site / 4); 0 .. ranks - 1 */
    uint32_t ranks;
    uint64_t memory; /* bytes to sort in; 0: 64 MiB */
    void (*entry)(void *arg, const struct mt_host_timed_entry *e, uint32_t rank);
    void *arg;
};
/* All entries in order. Closes the spool. 0 or an errno value: some are missing then. */
int mt_spool_read(struct mt_spool *s, const struct mt_spool_reader *r);
#endif
