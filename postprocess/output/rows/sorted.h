/* Results of the analyses in output order (docs/comm.schema.json). */
#ifndef MT_OUTPUT_SORTED_H
#define MT_OUTPUT_SORTED_H

#include "analysis/comm/comm.h"
#include "analysis/locality/locality.h"
#include "analysis/locality/placement.h"
#include "memtrace/order.h"
#include "analysis/base/order.h"
#include "analysis/base/sites.h"
#include "analysis/comm/shadow.h"

/* Sections of the results. Their names and keys are the same in JSON, text and tables. */

enum mt_section {
    MT_KCV,
    MT_KDV,
    MT_CCV,
    MT_CDV,
    MT_SCV,
    MT_SDV,
    MT_HCV, /* host volumes by place; only with a host trace */
    MT_HDV,
    MT_TRANSFERS,
    MT_SENDERS, /* source of KCV Load */
    MT_ADDRESSES,
    MT_SECTIONS
};
extern const char *const mt_section_names[MT_SECTIONS];    /* section names, in output order */
extern const char *const mt_sender_names[MT_SENDER_KINDS]; /* names in JSON and tables */
extern const char
    *const mt_sender_words[MT_SENDER_KINDS][2]; /* words in sentences, for kernels and for host programs */

#define MT_HOST_NAME "<host>" /* kernel name of host entries */

/* Names of access types in text, JSON and tables. */
extern const char *const mt_access_types[4];
extern const char *const mt_reuse_levels[MT_REUSE_LEVELS];
extern const char *const mt_sharing_kinds[MT_SHARING_KINDS];
extern const char *const mt_placement_policies[MT_PLACE_POLICIES];

/* Number of the arguments and an array of them: two arguments. */
#define MT_NUMBERS(...)                                                                                      \
    sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (const uint64_t[])                                 \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

/* Writes the digits of a number so that they end before `end`, which has room for 20. Returns where they
 * begin. */
char *mt_digits(char *end, uint64_t value);
/* Write keys made from numbers to `out`, which has room for 64. Each returns out. */
const char *mt_key_u64(char *out, uint64_t value);
const char *mt_key_hex(char *out, uint64_t value);
const char *mt_key_cta(char *out, uint64_t x, uint64_t y, uint64_t z); /* key of a CTA, "x,y,z" */

/* Writes the key of a CTA from its number in the order of CTAs; `out` has room for 64. */
const char *mt_cta_key(char *out, uint64_t order);
/* Returns "file:line" of host code; an unknown place is "?", or "0,0,0" if no host trace was read. */
const char *mt_comm_location_name(const struct mt_comm *c, uint32_t place);

/* Writes "#ID NAME" of an allocation, or "?" for an invalid index; `out` has room for MT_ALLOC_LABEL. Returns
 * out. */
enum { MT_ALLOC_LABEL = 300 };
const char *mt_alloc_label(char *out, const struct mt_locality *m, uint64_t alloc);
/* Returns the size of an allocation; for a place in a host program, the sum of all that it allocated. */
static inline uint64_t mt_alloc_bytes(const struct mt_alloc_event *a)
{
    return a->like > 1 ? a->total : a->bytes;
}
const char *mt_alloc_event_label(char *out, const struct mt_alloc_event *alloc);
/* Return 1 if any access of the trace has a site, or a lane mask. */
int mt_locality_has_sites(const struct mt_locality *m, enum mt_lines_by by);
int mt_locality_has_masks(const struct mt_locality *m);

/* Bytes that actors of a launch moved. */
struct mt_volume {
    uint64_t key, load, store, comm_load, comm_store, from[MT_SENDER_KINDS];
};
enum mt_volume_by { MT_VOLUME_LAUNCH, MT_VOLUME_CTA, MT_VOLUME_SM };
/* Computes the volumes of a launch: of its CTAs (key: mt_cta_order) or SMs, by ascending key, or of the whole
 * launch (key 0, even if it touched nothing). `rows` has room for mt_volumes_room. Returns the number of
 * rows. */
size_t mt_volumes_of(const struct mt_comm *c, size_t launch, enum mt_volume_by by, struct mt_volume *rows);
size_t mt_volumes_room(const struct mt_comm *c); /* number of rows that suffices for any launch */
struct mt_volume mt_volume_of_launch(const struct mt_comm *c, size_t launch);
void mt_volume_add(struct mt_volume *to, const struct mt_volume *v);

/* Defines a comparison function for qsort_r: `body` compares x and y, pointers to `type`, and may use arg.
 * MT_ORDER_DIFFER(y, x, member) sorts in descending order. */
#define MT_ORDER_BY(name, type, body)                                                                        \
    static int name(const void *a, const void *b, void *arg)                                                 \
    {                                                                                                        \
        const type *x = (const type *)a;                                                                     \
        const type *y = (const type *)b;                                                                     \
        (void)arg;                                                                                           \
        body return 0;                                                                                       \
    }
/* Return a sorted copy, or the numbers 0 … n - 1 in sorted order; malloc'ed, NULL: no memory. */
void *mt_sorted_copy(const void *from, size_t n, size_t size,
                     int (*order)(const void *, const void *, void *), void *arg);
size_t *mt_sorted_numbers(size_t n, int (*order)(const void *, const void *, void *), void *arg);
/* Returns the numbers of all launches by kernel, then number; malloc'ed, NULL: no memory. */
size_t *mt_launches_sorted(const struct mt_comm *c);
/* Returns indices of the transfers by reader (launch, CTA), then by writer; malloc'ed, NULL: no memory. */
size_t *mt_transfers_sort(const struct mt_comm *c);
/* Transfers summed by the groups of writer and reader, in that order. */
#define MT_SENT_HOST UINT64_MAX
struct mt_sent {
    uint64_t src, dst, bytes, accesses, transfers;
    uint64_t reader; /* first launch that reads */
};
/* Sums the transfers. `group`: group of each launch; NULL: each launch is a group. malloc'ed, NULL: no
 * memory. */
struct mt_sent *mt_sent_of(const struct mt_comm *c, const uint32_t *group, size_t *n);
/* Returns 1 if writer and reader are CTAs of the same launch, which no event orders. */
static inline int mt_transfer_unordered(const struct mt_comm *c, const struct mt_transfer *t)
{
    return !((t->src | t->dst) & MT_ENTRY_HOST) && c->actors[t->src].launch == c->actors[t->dst].launch;
}

#endif
