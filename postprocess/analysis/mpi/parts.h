/* Parts of traces, read where they are: by ranks that share the reading (split.c, rounds.c,
 * share.c). Inputs are opened when they are asked for first, and stay open. */
#ifndef MT_MPI_PARTS_H
#define MT_MPI_PARTS_H
#include <stddef.h>
#include "memtrace/host.h"
#include "analysis/comm/session.h"

struct mt_part_input {
    const char *path; /* the caller's: one pointer per input */
    int fd;           /* of a raw trace, or -1 */
    struct mt_device_parts *chunks;
};

/* Zero-initialised is empty. */
struct mt_parts {
    struct mt_part_input *inputs;
    size_t count, room, last;
};
void mt_parts_free(struct mt_parts *p);
/* n records at byte `offset` of a raw trace. 0, or -1: they cannot be read. */
int mt_parts_records(struct mt_parts *p, const char *path, uint64_t offset, struct mt_raw_record *out,
                     size_t n);
/* The container; NULL if it cannot be read. */
struct mt_device_parts *mt_parts_chunks(struct mt_parts *p, const char *path);

/* What reading and analysing costs, in records: a compact access is a part of a run. */
enum { MT_PART_LANES = 32 };
static inline uint64_t mt_part_cost(uint64_t accesses)
{
    return accesses < MT_PART_LANES ? 1 : accesses / MT_PART_LANES;
}
#endif
