/* Payload of a host chunk -> records and events: docs/trace-format.md, "Host chunk". Knows no files. */
#ifndef MT_HOST_DECODE_H
#define MT_HOST_DECODE_H
#include "memtrace/hash.h"
#include "memtrace/host.h"

struct mt_decode_site {
    uint64_t last, stride, difference, offset;
    uint32_t next, second; /* positions in the array of these; 0: none */
    uint32_t site, size;   /* size: as in the payload, 0 = what the site table says */
    uint32_t table;        /* that size */
    uint32_t relative;
};
struct mt_decoder {
    const unsigned char *begin, *at, *end;
    int timed;
    struct mt_decode_site *sites; /* [0] stands for "before the first access" */
    uint32_t nsites;
    size_t room;
    struct mt_hash numbers; /* site -> position */
    uint32_t previous;      /* position */
    unsigned run;           /* accesses left of a run token */
    uint64_t address, time, seq, items;
    int failed;
    const char *why; /* after -1 */
    uint32_t (*size_of)(void *arg, uint32_t site);
    void *arg;
};
/* `payload` must stay. 0, or -1 without memory. */
int mt_decode_start(struct mt_decoder *d, const void *payload, size_t bytes, int timed, uint64_t seq);
/* The next records (at most `capacity`, into `room`; *count says how many) or event (*count is 0 and *event
 * is filled: event, time, seq, nargs, args). 1; 0 at the end; -1: damage, d->why says what and d->at where
 * (`why` NULL: no memory); records before it come first. */
int mt_decode_next(struct mt_decoder *d, struct mt_host_record *room, size_t capacity, size_t *count,
                   struct mt_host_item *event);
void mt_decode_free(struct mt_decoder *d);
#endif
