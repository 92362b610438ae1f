/* Decodes the payload of a host chunk to records and events: docs/trace-format.md, "Host chunk". Uses no
 * files. */
#ifndef MT_HOST_DECODE_H
#define MT_HOST_DECODE_H
#include "memtrace/hash.h"
#include "memtrace/host.h"

struct mt_decode_site {
    uint64_t last, stride, difference, offset;
    uint32_t next, second; /* indices into the array of sites; 0: none */
    uint32_t site, size;   /* size: as in the payload; 0: size of the site table */
    uint32_t table;        /* size according to the site table */
    uint32_t relative;
};
struct mt_decoder {
    const unsigned char *begin, *at, *end;
    int timed;
    struct mt_decode_site *sites; /* states of sites; sites[0] is "before the first access" */
    uint32_t nsites;
    size_t room;
    struct mt_hash numbers; /* map from site number to index */
    uint32_t previous;      /* index of the previous access's site */
    unsigned run;           /* accesses left of a run token */
    uint64_t address, time, seq, items;
    int failed;
    const char *why; /* error message after -1 */
    uint32_t (*size_of)(void *arg, uint32_t site);
    void *arg;
};
/* Starts decoding; `payload` must stay valid. Returns 0, or -1 without memory. */
int mt_decode_start(struct mt_decoder *d, const void *payload, size_t bytes, int timed, uint64_t seq);
/* Decodes the next records (at most `capacity`, into `room`; *count is their number) or the next event
 * (*count is 0; fills event, time, seq, nargs, args of *event). Returns 1, 0 at the end, or -1 on damage,
 * with d->why and the position d->at set (`why` NULL: no memory). Records before the damage are returned
 * first. */
int mt_decode_next(struct mt_decoder *d, struct mt_host_record *room, size_t capacity, size_t *count,
                   struct mt_host_item *event);
void mt_decode_free(struct mt_decoder *d);
#endif
