/* What the analyses hold, in the order of the output (docs/comm.schema.json). */
#ifndef MT_OUTPUT_SORTED_H
#define MT_OUTPUT_SORTED_H

#include "analysis/comm/comm.h"
#include "analysis/locality/locality.h"
#include "analysis/locality/placement.h"
#include "memtrace/order.h"
#include "analysis/base/order.h"
#include "analysis/base/sites.h"
#include "analysis/comm/shadow.h"

/* The words of the results, and keys made of numbers: the same in JSON, text and tables. */

enum mt_section {
    MT_KCV,
    MT_KDV,
    MT_CCV,
    MT_CDV,
    MT_SCV,
    MT_SDV,
    MT_HCV, /* the host's, by place: only with a host trace */
    MT_HDV,
    MT_TRANSFERS,
    MT_SENDERS, /* of whom KCV Load is */
    MT_ADDRESSES,
    MT_SECTIONS
};
extern const char *const mt_section_names[MT_SECTIONS];       /* in the order of the output */
extern const char *const mt_sender_names[MT_SENDER_KINDS];    /* in JSON and tables */
extern const char *const mt_sender_words[MT_SENDER_KINDS][2]; /* in sentences: of kernels, of host programs */

#define MT_HOST_NAME "<host>" /* where a kernel's name is */

/* Their names, in text, JSON and tables. */
extern const char *const mt_access_types[4];
extern const char *const mt_reuse_levels[MT_REUSE_LEVELS];
extern const char *const mt_sharing_kinds[MT_SHARING_KINDS];
extern const char *const mt_placement_policies[MT_PLACE_POLICIES];

/* How many, and their list: two arguments. */
#define MT_NUMBERS(...)                                                                                      \
    sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (const uint64_t[])                                 \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

/* The digits of a number end before `end`, which has room for 20; where they begin. */
char *mt_digits(char *end, uint64_t value);
/* Keys from numbers; `out` has room for 64. Each returns out. */
const char *mt_key_u64(char *out, uint64_t value);
const char *mt_key_hex(char *out, uint64_t value);
const char *mt_key_cta(char *out, uint64_t x, uint64_t y, uint64_t z); /* "x,y,z" */

/* The key of a CTA from that number; `out` has room for 64. */
const char *mt_cta_key(char *out, uint64_t order);
/* "file:line" of host code; what is not known is "?", or "0,0,0" when no host trace was read. */
const char *mt_comm_location_name(const struct mt_comm *c, uint32_t place);

/* "#ID NAME" of an allocation, "?" for an index beyond; `out` has room for MT_ALLOC_LABEL. Returns out. */
enum { MT_ALLOC_LABEL = 300 };
const char *mt_alloc_label(char *out, const struct mt_locality *m, uint64_t alloc);
/* Of a host program's call: of all that it allocated. */
static inline uint64_t mt_alloc_bytes(const struct mt_alloc_event *a)
{
    return a->like > 1 ? a->total : a->bytes;
}
const char *mt_alloc_event_label(char *out, const struct mt_alloc_event *alloc);
/* Is any access of the trace known by its site, has any a lane mask? */
int mt_locality_has_sites(const struct mt_locality *m, enum mt_lines_by by);
int mt_locality_has_masks(const struct mt_locality *m);

int mt_locality_compare_text(const char *a, const char *b);

/* What actors of a launch moved. */
struct mt_volume {
    uint64_t key, load, store, comm_load, comm_store, from[MT_SENDER_KINDS];
};
enum mt_volume_by { MT_VOLUME_LAUNCH, MT_VOLUME_CTA, MT_VOLUME_SM };
/* Of its CTAs (key: mt_cta_order) or SMs, by ascending key, or of the launch as a whole (key 0, also if it
 * touched nothing). `rows` has room for mt_volumes_room; how many. */
size_t mt_volumes_of(const struct mt_comm *c, size_t launch, enum mt_volume_by by, struct mt_volume *rows);
size_t mt_volumes_room(const struct mt_comm *c); /* enough for any launch */
struct mt_volume mt_volume_of_launch(const struct mt_comm *c, size_t launch);
void mt_volume_add(struct mt_volume *to, const struct mt_volume *v);

/* An order for these: of x and y, which point to a `type`; arg is theirs. Members of y and x, in turn,
 * descend. */
#define MT_ORDER_BY(name, type, body)                                                                        \
    static int name(const void *a, const void *b, void *arg)                                                 \
    {                                                                                                        \
        const type *x = (const type *)a;                                                                     \
        const type *y = (const type *)b;                                                                     \
        (void)arg;                                                                                           \
        body return 0;                                                                                       \
    }
#define MT_ORDER_TEXT(p, q)                                                                                  \
    {                                                                                                        \
        const int d = mt_locality_compare_text(p, q);                                                        \
        if (d)                                                                                               \
            return d;                                                                                        \
    }
/* A copy in order, and 0 … n - 1 in order; malloc'ed, NULL without memory. */
void *mt_sorted_copy(const void *from, size_t n, size_t size,
                     int (*order)(const void *, const void *, void *), void *arg);
size_t *mt_sorted_numbers(size_t n, int (*order)(const void *, const void *, void *), void *arg);
/* Numbers of all launches by kernel, then superstep; malloc'ed, NULL without memory. */
size_t *mt_launches_sorted(const struct mt_comm *c);
/* Indices of the transfers by reader (launch, CTA), then by writer; malloc'ed, NULL without memory. */
size_t *mt_transfers_sort(const struct mt_comm *c);
/* Of each launch the place of its kernel's name among all of them; malloc'ed, NULL without memory. */
uint32_t *mt_kernel_ranks(const struct mt_comm *c);
/* Kernels of selected launches whose accesses are not grouped as on a GPU (`parted`, `ungrouped`), by name:
 * *n; malloc'ed, NULL without memory. */
const char **mt_kernels_apart(const struct mt_comm *c, const struct mt_launch_event *const *events,
                              size_t *n);
/* Transfers put together by the groups of writer and reader, in that order. */
#define MT_SENT_HOST UINT64_MAX
struct mt_sent {
    uint64_t src, dst, bytes, accesses, transfers;
    uint64_t reader; /* the first launch that reads */
};
/* `group`: the number of each launch; NULL: the launch itself. malloc'ed, NULL without memory. */
struct mt_sent *mt_sent_of(const struct mt_comm *c, const uint32_t *group, size_t *n);
/* Writer and reader are CTAs of one launch, which nothing orders. */
static inline int mt_transfer_unordered(const struct mt_comm *c, const struct mt_transfer *t)
{
    return !((t->src | t->dst) & MT_ENTRY_HOST) && c->actors[t->src].launch == c->actors[t->dst].launch;
}

#endif
