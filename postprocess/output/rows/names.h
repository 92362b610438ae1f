/* The words of the results, and keys made of numbers: the same in JSON, text and tables. */
#ifndef MT_OUTPUT_NAMES_H
#define MT_OUTPUT_NAMES_H
#include "analysis/comm/comm.h"
#include "analysis/locality/locality.h"
#include "analysis/locality/placement.h"

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
#endif
