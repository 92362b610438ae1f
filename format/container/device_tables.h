/* Tables of the encoder of device chunks: contexts (warps) and slots (accesses of the code). */
#ifndef MT_CONTAINER_DEVICE_TABLES_H
#define MT_CONTAINER_DEVICE_TABLES_H
#include "memtrace/container.h"
#include "memtrace/device.h"

#define MT_NONE UINT32_MAX
#define MT_VISITS 8192u

struct mt_context { /* warp of a CTA on an SM, or the CTA if warps are unknown */
    uint64_t cta;   /* cta, smid and warp as in struct mt_access_run */
    uint32_t smid, warp;
    uint64_t address;   /* address of the context's last run */
    uint32_t slot;      /* slot of the context's last run, 0: none yet */
    uint32_t successor; /* context that followed this one last, MT_NONE: none yet */
};

struct mt_shape { /* arrangement of the lanes of a run */
    uint64_t stride, apart;
    uint32_t mask, count;
    uint32_t irregular; /* 1: `delta` applies instead of `stride` */
    uint32_t row;       /* accesses of a row; not 0: `delta` equals stride, apart and row */
    uint64_t delta[MT_MTC_MAX_LANES];
};

/* Half of a run, as words that are compared at once. */
typedef uint64_t mt_half_run __attribute__((vector_size(32), may_alias, aligned(8)));

struct mt_table_slot { /* site with a type and a size; compared fields share a cache line */
    /* Previous run, at the address predicted by its stride: base is last + stride; cta, smid and warp are 0.
     * The high half of the last word is 0, or 1 if no run can equal it. */
    mt_half_run like[2];
    uint64_t last, stride, difference, step, own_difference, offset;
    uint32_t visited;      /* context of the previous run, MT_NONE: none yet */
    uint32_t next, second; /* the two latest different successors, latest first; MT_NONE: none */
    uint32_t seen, now;
    uint32_t site, meta;
    uint32_t others; /* for runs without site: next slot with the same meta, or MT_NONE */
    uint64_t low;
    struct mt_shape shape[2]; /* shape[now] is the current one */
} __attribute__((aligned(64)));

/* Hash table. A cell holds index + 1 and the number of the chunk that filled it. */
struct mt_index {
    uint64_t *cells;
    uint32_t mask, used;
};

struct mt_own {
    uint64_t who; /* key: epoch, context, slot */
    uint64_t address;
};
/* Pending write to the table of struct mt_own. The first run of a slot in a new context does not search that
 * table, and most entries are never searched. */
struct mt_visit {
    uint32_t context, slot;
    uint64_t address;
};

/* Chunk under construction: positions in its columns. */
struct mt_device_work {
    struct mt_mtc_device_encoder *e;
    unsigned char *tokens, *contexts, *shapes, *bases, *lanes;
    uint32_t context; /* context of the previous run */
    uint32_t fresh;   /* context of the previous run if it is new and has had all runs since, else MT_NONE */
    uint32_t newest_site; /* site of the newest slot */
    unsigned token;       /* bits of the next run's token that are known already */
};
/* Returns 1 if the run can be encoded. */
int mt_device_good(const struct mt_access_run *r);
extern const char mt_device_bad[], mt_device_no_memory[]; /* reasons for failure */
/* Appends runs to the columns, which have room. Returns NULL, or a reason for failure. */
const char *mt_device_encode(struct mt_device_work *w, const struct mt_access_run *runs, size_t count);

struct mt_mtc_device_encoder {
    struct mt_device_work begin, at; /* columns: their beginnings and the current positions */
    uint64_t pieces, accesses, room; /* room: maximum number of pieces; also of gathers by default */
    uint32_t epoch;                  /* number of the chunk */
    struct mt_context *contexts;
    struct mt_table_slot *slots; /* [0] stands for "before the first run" */
    uint32_t ncontexts, nslots;
    size_t context_room, slot_room;
    struct mt_index context_index, slot_index; /* a search adds contexts beyond the first `used` */
    uint64_t top;                              /* greatest CTA so far, in launch order */
    uint32_t top_warp;                         /* greatest warp of the greatest CTA */
    struct mt_own *own;                        /* MT_MTC_OWN_PLACES entries, without the pending `visits` */
    struct mt_visit *visits;
    uint32_t nvisits;
    unsigned char *out;
    size_t out_room;
};

/* Clears the tables for a new chunk. Returns 0, or -1 without memory. */
int mt_tables_begin(struct mt_mtc_device_encoder *e);
void mt_tables_free(struct mt_mtc_device_encoder *e);
/* Returns the number of the run's context, or MT_NONE without memory. *is_new is set if it was created; the
 * tables may then have moved. */
uint32_t mt_context_of(struct mt_mtc_device_encoder *e, const struct mt_access_run *r, int *is_new);
/* Returns a CTA's position in launch order, for comparison. */
static inline uint64_t mt_context_order(uint64_t cta)
{
    return (cta & 0xffff) << 48 | (cta >> 16 & 0xffff) << 32 | cta >> 32;
}
/* Returns 1 if a warp of a CTA follows all known ones in launch order. It is then new and must be added. */
static inline int mt_context_ahead(struct mt_mtc_device_encoder *e, uint64_t at, uint32_t warp)
{
    uint64_t cta = mt_context_order(at);
    if (e->ncontexts && (cta < e->top || (cta == e->top && warp <= e->top_warp)))
        return 0;
    e->top = cta;
    e->top_warp = warp;
    return 1;
}
/* Returns the first slot of this site and meta, or MT_NONE. */
uint32_t mt_slot_find(const struct mt_mtc_device_encoder *e, uint32_t site, uint32_t meta);
uint32_t mt_slot_add(struct mt_mtc_device_encoder *e, uint32_t site, uint32_t meta);

/* Writes the pending visits to the table. */
void mt_own_write(struct mt_mtc_device_encoder *e);
/* Returns the entry for the last address of slot s in context c; it is valid if its `who` equals *who. Visits
 * must have been written. */
static inline struct mt_own *mt_own_place(const struct mt_mtc_device_encoder *e, uint32_t c, uint32_t s,
                                          uint64_t *who)
{
    *who = (uint64_t)e->epoch << 42 | (uint64_t)c << 21 | s;
    return &e->own[MT_MTC_OWN_PLACE(c, s)];
}
#endif
