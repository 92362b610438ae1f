/* What the encoder of device chunks remembers of a chunk: warps (contexts) and access places (slots). */
#ifndef MT_CONTAINER_DEVICE_TABLES_H
#define MT_CONTAINER_DEVICE_TABLES_H
#include "memtrace/container.h"
#include "memtrace/device.h"

#define MT_NONE UINT32_MAX
#define MT_VISITS 8192u

struct mt_context { /* a warp of a CTA on an SM; without warps the CTA */
    uint64_t cta;   /* this and the next two as in struct mt_access_run */
    uint32_t smid, warp;
    uint64_t address;   /* of its last run */
    uint32_t slot;      /* of its last run, 0: none yet */
    uint32_t successor; /* the context that came after it, MT_NONE: none yet */
};

struct mt_shape { /* lanes of a run */
    uint64_t stride, apart;
    uint32_t mask, count;
    uint32_t irregular; /* `delta` counts, not `stride`, */
    uint32_t row;       /* and with rows it says the same as stride, apart and row */
    uint64_t delta[MT_MTC_MAX_LANES];
};

/* A run as words: two halves that are compared at once. */
typedef uint64_t mt_half_run __attribute__((vector_size(32), may_alias, aligned(8)));

struct mt_table_slot { /* a site with a type and a size; what is compared lies in one line of the cache */
    /* The run before, at the address that its stride foresees: base is last + stride; cta, smid and warp are
     * 0. The last word's high half is 0, or 1: no run is like it. */
    mt_half_run like[2];
    uint64_t last, stride, difference, step, own_difference, offset;
    uint32_t visited;      /* context of the run before, MT_NONE: none yet */
    uint32_t next, second; /* the two last different successors, latest first; MT_NONE: none */
    uint32_t seen, now;
    uint32_t site, meta;
    uint32_t others; /* runs without site: a further slot of the same meta, or MT_NONE */
    uint64_t low;
    struct mt_shape shape[2]; /* [now]: the current one */
} __attribute__((aligned(64)));

/* Cells of a hash table: index + 1 and the number of the chunk that filled it. */
struct mt_index {
    uint64_t *cells;
    uint32_t mask, used;
};

struct mt_own {
    uint64_t who; /* epoch, context, slot */
    uint64_t address;
};
/* What is still to be written to the table of struct mt_own: the first run of a slot in a context that is new
 * looks for nothing there, and most are never looked for. */
struct mt_visit {
    uint32_t context, slot;
    uint64_t address;
};

/* A chunk in the making: places in its columns. */
struct mt_device_work {
    struct mt_mtc_device_encoder *e;
    unsigned char *tokens, *contexts, *shapes, *bases, *lanes;
    uint32_t context;     /* of the run before */
    uint32_t fresh;       /* that context when it has had all runs since it was made, or MT_NONE */
    uint32_t newest_site; /* of the slot made last */
    unsigned token;       /* what is known of the next run's */
};
/* Can the run be encoded? */
int mt_device_good(const struct mt_access_run *r);
extern const char mt_device_bad[], mt_device_no_memory[]; /* why not */
/* Puts the runs into the columns, which have room. NULL, or one of these. */
const char *mt_device_encode(struct mt_device_work *w, const struct mt_access_run *runs, size_t count);

struct mt_mtc_device_encoder {
    struct mt_device_work begin, at; /* the columns: where they begin, how far they are */
    uint64_t pieces, accesses, room; /* room: pieces that there is room for, as many gathers unless said */
    uint32_t epoch;                  /* number of the chunk */
    struct mt_context *contexts;
    struct mt_table_slot *slots; /* [0] stands for "before the first run" */
    uint32_t ncontexts, nslots;
    size_t context_room, slot_room;
    struct mt_index context_index, slot_index; /* contexts: the first `used` ones; the others when one is
                                                  looked for */
    uint64_t top;                              /* greatest CTA in the order of launches, */
    uint32_t top_warp;                         /* and its greatest warp */
    struct mt_own *own;                        /* MT_MTC_OWN_PLACES, but for `visits` */
    struct mt_visit *visits;
    uint32_t nvisits;
    unsigned char *out;
    size_t out_room;
};

/* Forgets the chunk before. 0, or -1 without memory. */
int mt_tables_begin(struct mt_mtc_device_encoder *e);
void mt_tables_free(struct mt_mtc_device_encoder *e);
/* The number of the run's context; *is_new is set when there was none, and the tables may have moved then.
 * MT_NONE: no memory for it. */
uint32_t mt_context_of(struct mt_mtc_device_encoder *e, const struct mt_access_run *r, int *is_new);
/* A CTA's place in the order of launches. */
static inline uint64_t mt_context_order(uint64_t cta)
{
    return (cta & 0xffff) << 48 | (cta >> 16 & 0xffff) << 32 | cta >> 32;
}
/* Is a warp of a CTA after all that there are, as launches run them? Then it is new, and has to be added. */
static inline int mt_context_ahead(struct mt_mtc_device_encoder *e, uint64_t at, uint32_t warp)
{
    uint64_t cta = mt_context_order(at);
    if (e->ncontexts && (cta < e->top || (cta == e->top && warp <= e->top_warp)))
        return 0;
    e->top = cta;
    e->top_warp = warp;
    return 1;
}
/* The first slot of this site and meta, or MT_NONE. */
uint32_t mt_slot_find(const struct mt_mtc_device_encoder *e, uint32_t site, uint32_t meta);
uint32_t mt_slot_add(struct mt_mtc_device_encoder *e, uint32_t site, uint32_t meta);

/* Writes the visits to their places. */
void mt_own_write(struct mt_mtc_device_encoder *e);
/* Where the last address of slot s in context c is, when `who` is this. Visits are written. */
static inline struct mt_own *mt_own_place(const struct mt_mtc_device_encoder *e, uint32_t c, uint32_t s,
                                          uint64_t *who)
{
    *who = (uint64_t)e->epoch << 42 | (uint64_t)c << 21 | s;
    return &e->own[MT_MTC_OWN_PLACE(c, s)];
}
#endif
