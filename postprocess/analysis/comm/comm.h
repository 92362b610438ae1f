/* The communication analysis: data volumes, communication volumes and transfers of a sequence of launches.
 * Definitions: docs/definitions.md. Independent of file formats and output. Fed in launch order:
 * mt_comm_launch and any number of mt_comm_records for each launch; between launches mt_comm_copy and, with a
 * host trace, mt_comm_host.
 * Volumes are kept per actor, which is (launch, CTA, SM): a CTA instance usually has one, and outputs add up
 * the others. Not thread-safe. Functions return 0, or -1 without memory or past a limit (`why`). */
#ifndef MT_ANALYSIS_COMM_H
#define MT_ANALYSIS_COMM_H

#include "analysis/base/pairmap.h"
#include "shadow.h"
#include "memtrace/hash.h"
#include "memtrace/host.h"
#include "memtrace/trace.h"
#include "analysis/base/keyset.h"
#include "analysis/base/locations.h"
#include <stddef.h>
#include <stdint.h>

struct mt_comm_options {
    int local;     /* a CTA id is the same CTA in all launches */
    int strict;    /* reads in the launch that wrote the bytes do not count */
    int transfers; /* collect transfers */
    int readers;   /* with transfers: collect the readers of the bytes as well */
    int addresses; /* collect mt_comm.keys */
    int volumes;   /* only data volumes are needed; excludes the other options and requires one shard */
    int host;      /* host accesses are known: all copies propagate writers, host readers are reported */
    int threads;   /* the launches are host programs: host accesses count only for HDV, by location */
    uint64_t host_first, host_end; /* supersteps whose host part is reported: [first, end) */
};

/* Writers of bytes that a CTA loads as communication. */
enum mt_sender {
    MT_FROM_SAME_LAUNCH,    /* another CTA of the same launch */
    MT_FROM_EARLIER_LAUNCH, /* another CTA of an earlier launch */
    MT_FROM_SAME_CTA,       /* the CTA with the same number in an earlier launch, of any kernel */
    MT_SENDER_KINDS
};

struct mt_actor {
    uint64_t cta; /* CTA, as in word 2 of its records */
    uint32_t smid, launch;
    uint32_t instance; /* first actor of its CTA instance (usually itself) */
    uint64_t load, store, comm_store, from[MT_SENDER_KINDS]; /* bytes; from: communicated, by sender */
};

/* Returns the sum over all senders: KCV Load. */
static inline uint64_t mt_actor_comm_load(const struct mt_actor *a)
{
    return a->from[MT_FROM_SAME_LAUNCH] + a->from[MT_FROM_EARLIER_LAUNCH] + a->from[MT_FROM_SAME_CTA];
}

struct mt_comm_launch {
    const char *kernel;  /* name owned by the caller, kept */
    uint32_t first, end; /* actors of the launch: [first, end) */
    int selected;        /* 1: the launch is to be reported */
};

/* Activity of the host at one location between two launches: copies (location 0) or traced accesses. */
struct mt_host_actor {
    uint32_t superstep;                          /* number of launches before the activity */
    uint32_t place;                              /* location: index into mt_comm.places */
    uint64_t load, store, comm_load, comm_store; /* bytes; comm_: written by a CTA, or loaded by one */
};

/* Bytes that instance `dst` loaded and instance `src` wrote; one of the two may be a host actor
 * (MT_ENTRY_HOST | i). */
struct mt_transfer {
    uint32_t src, dst;
    uint64_t size, count;
    uint64_t last; /* number of the record (or host access) that was counted last */
};

/* Cache of indices of transfers; dst 0: empty. */
enum { MT_RECENT_TRANSFERS = 64 };

struct mt_recent_transfer {
    uint32_t src, dst;
    size_t at;
};

/* Note that an access that spans several shards loaded bytes of instance (or host actor) src. */
struct mt_crossing {
    uint64_t record;
    uint32_t src, dst;
};

struct mt_shadow;

struct mt_comm {
    struct mt_comm_options options;
    /* results */
    struct mt_comm_launch *launches; /* by superstep */
    size_t nlaunches;
    struct mt_actor *actors; /* from index 1; grouped by launch, in order of appearance */
    size_t nactors;
    struct mt_transfer *transfers; /* transfers to selected launches, by launch */
    size_t ntransfers;
    struct mt_host_actor *hosts;
    size_t nhosts;
    struct mt_host_locations places; /* locations of host code; 0: not known */
    uint64_t records, unknown;
    uint64_t reported;         /* number of records in reported launches; set by the caller */
    uint64_t host_accesses;    /* number of host accesses that read or write */
    struct mt_keyset keys;     /* addresses involved in communication into selected launches */
    struct mt_readers readers; /* reading CTA instances of the bytes in transfers between CTAs */
    /* state */
    struct mt_shadow *shadow;
    struct mt_pairmap actor_index, instance_index, transfer_index;
    struct mt_recent_transfer recent_transfers[MT_RECENT_TRANSFERS]; /* indexed by a hash of both ends */
    size_t launch_room, actor_room, transfer_room, host_room;
    struct mt_host_recent *host_recent;
    struct mt_pairmap host_index; /* map from (location, superstep) to index into hosts, + 1 */
    unsigned shard, shards;       /* number of shards; 0 or 1: all memory */
    struct mt_crossing *crossings;
    size_t ncrossings, crossing_room;
    struct mt_transfer *crossed; /* counts of accesses that span shards */
    size_t ncrossed, crossed_room, crossed_low;
    uint32_t last_actor;
    int partial;     /* 1: a launch is not reported */
    const char *why; /* reason of a failure */
};

int mt_comm_init(struct mt_comm *c, const struct mt_comm_options *options);
void mt_comm_free(struct mt_comm *c);

/* Frees the shadow; nothing may be fed afterwards, the results remain. */
void mt_comm_forget(struct mt_comm *c);

/* Begins a launch. `kernel` must live as long as `c`. */
int mt_comm_launch(struct mt_comm *c, const char *kernel, int selected);

/* Adds records of the current launch, in file order. */
int mt_comm_records(struct mt_comm *c, const struct mt_raw_record *records, size_t count);

/* Adds runs of the current launch. */
int mt_comm_runs(struct mt_comm *c, const struct mt_access_run *runs, size_t count);

/* Adds a host copy or fill after the launches so far. */
int mt_comm_copy(struct mt_comm *c, const struct mt_copy_event *copy);

/* Adds accesses of host code after the launches so far, in their order (options.host). The sites must live as
 * long as `c`; a location may have several. */
int mt_comm_host(struct mt_comm *c, const struct mt_host_access *accesses, size_t count);

/* Shards. Analyses that are fed the same items in the same order can divide the memory: each tracks the
 * writers of its part only and counts loads and stores there. Actors, launches and host actors have the same
 * numbers in all. The merged results equal those of a single analysis. A shard may be spared records outside
 * its regions, if it gets their actors (mt_comm_meet) and record numbers. */

/* Sets the shard, before anything is fed. */
void mt_comm_shard(struct mt_comm *c, unsigned shard, unsigned shards);

/* Announces a record of this CTA and SM. Returns 0 or -1. */
int mt_comm_meet(struct mt_comm *c, uint64_t cta, uint32_t smid);

/* Tells whether a copy moves writers between shards. Such a copy must be completed by mt_comm_move while all
 * shards are idle, after each got it by mt_comm_copy. */
int mt_comm_moves(const struct mt_comm *c, const struct mt_copy_event *copy);

int mt_comm_move(struct mt_comm *const *shards, unsigned n, const struct mt_copy_event *copy);

/* Sorts and adds up the notes on accesses that span shards; call it from time to time to keep them few. All
 * notes on an access must be in `shards`. Returns 0 or -1. */
int mt_comm_add_crossings(struct mt_comm *const *shards, unsigned n);

/* Adds the results of shard `from` to `into`. Transfers are unsorted, with duplicates, until
 * mt_comm_merged. */
int mt_comm_merge(struct mt_comm *into, const struct mt_comm *from);

int mt_comm_merged(struct mt_comm *into);

static inline size_t mt_comm_reported_launches(const struct mt_comm *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->nlaunches; i++)
        n += c->launches[i].selected != 0;
    return n;
}

/* Returns 1 if this host actor is to be reported. */
static inline int mt_comm_host_selected(const struct mt_comm *c, const struct mt_host_actor *h)
{
    return h->superstep >= c->options.host_first && h->superstep < c->options.host_end;
}

/* ---- internal interface of the communication analysis ---- */

/* Size of the regions that shards own, as a power of two; their distribution is hashed, so it matches no
 * program's pattern. */
enum { MT_REGION_BITS = 16 };

static inline unsigned mt_comm_owner(uint64_t address, unsigned shards)
{
    uint64_t hash = mt_hash_number(address >> MT_REGION_BITS) >> 32;
    return (unsigned)(hash * shards >> 32);
}

static inline int mt_comm_owns(const struct mt_comm *c, uint64_t address)
{
    return mt_comm_owner(address, c->shards) == c->shard;
}

/* Notes that an access that spans several shards loaded bytes of src (record: its number). */
void mt_comm_cross(struct mt_comm *c, uint64_t record, uint32_t src, uint32_t dst);

/* Returns in *nobody the entry for bytes whose writer a copy does not know. Returns 0 or -1. */
int mt_comm_nobody(struct mt_comm *c, const struct mt_copy_event *e, uint32_t *nobody);

#endif
