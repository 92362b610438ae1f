/* The communication analysis: data volumes, communication volumes and transfers of a stream of launches.
 * Definitions: docs/definitions.md. Knows no file format and no output; fed in launch order by its user:
 *   for each launch: mt_comm_launch, mt_comm_records any number of times; between launches: mt_comm_copy and,
 *   with a host trace, mt_comm_host.
 * Volumes are kept per actor, an actor being (superstep, CTA, SM): a CTA instance has one as a rule, and
 * outputs add up the others. Not thread-safe. Functions return 0,
 * or -1 without memory or past a limit (mt_comm_why). */
#ifndef MT_ANALYSIS_COMM_H
#define MT_ANALYSIS_COMM_H

#include "shadow.h"
#include "memtrace/hash.h"
#include "memtrace/host.h"
#include "memtrace/trace.h"
#include "analysis/base/keyset.h"
#include "analysis/base/locations.h"
#include <stddef.h>
#include <stdint.h>

struct mt_comm_options {
    int local;     /* a CTA id is one CTA in all supersteps */
    int strict;    /* what is read in the superstep of its writing does not count */
    int transfers; /* keep them */
    int readers;   /* with transfers: keep who read which bytes, too */
    int addresses; /* collect mt_comm.keys */
    int volumes;   /* data volumes are all that is asked for; with none of the others, and one shard */
    int host;      /* host accesses are known: all copies carry writers along, host readers are reported */
    int threads;   /* the launches are host programs: host accesses only count for HDV, by place */
    uint64_t host_first, host_end; /* supersteps of which the host's part is to be reported: [first, end) */
};

/* Whose bytes a CTA loads that another CTA instance wrote: the three parts of its communication. */
enum mt_sender {
    MT_FROM_SAME_LAUNCH,    /* another CTA of the same launch */
    MT_FROM_EARLIER_LAUNCH, /* another CTA of an earlier launch */
    MT_FROM_SAME_CTA,       /* the CTA with the same number of an earlier launch, of whichever kernel */
    MT_SENDER_KINDS
};

struct mt_actor {
    uint64_t cta; /* word 2 of its records */
    uint32_t smid, launch;
    uint32_t instance; /* the first actor of its CTA instance (itself as a rule) */
    uint64_t load, store, comm_store, from[MT_SENDER_KINDS]; /* bytes; from: loaded as communication */
};

/* The sum of the three: KCV Load. */
static inline uint64_t mt_actor_comm_load(const struct mt_actor *a)
{
    return a->from[MT_FROM_SAME_LAUNCH] + a->from[MT_FROM_EARLIER_LAUNCH] + a->from[MT_FROM_SAME_CTA];
}

struct mt_comm_launch {
    const char *kernel;  /* the caller's, kept */
    uint32_t first, end; /* its actors: [first, end) */
    int selected;        /* to be reported */
};

/* What the host did at one place between two launches: copied (place 0) or,
 * as a host trace says, accessed. */
struct mt_host_actor {
    uint32_t superstep;                          /* launches before it */
    uint32_t place;                              /* index into mt_comm.places.names */
    uint64_t load, store, comm_load, comm_store; /* bytes; comm_: of or for a CTA */
};

/* Bytes that instance `dst` loaded of those that instance `src` wrote; one of the two may be a host actor
 * (MT_ENTRY_HOST | i). */
struct mt_transfer {
    uint32_t src, dst;
    uint64_t size, count;
    uint64_t last; /* number of the record (or host access) counted last */
};

/* Where the transfer from src to dst is; dst 0: nowhere. */
enum { MT_RECENT_TRANSFERS = 64 };

struct mt_recent_transfer {
    uint32_t src, dst;
    size_t at;
};

/* A hash index whose entries vanish when `epoch` moves on. */
struct mt_actor_index {
    struct {
        uint32_t epoch, value;
    } *slot;
    unsigned bits;
    uint32_t used, epoch;
};

/* An access with parts in several shards took bytes of instance (or host actor) src. */
struct mt_crossing {
    uint64_t record;
    uint32_t src, dst;
};

struct mt_shadow;

struct mt_comm {
    struct mt_comm_options options;
    /* results */
    struct mt_comm_launch *launches; /* index = superstep */
    size_t nlaunches;
    struct mt_actor *actors; /* from 1; of a launch together, in order of appearance */
    size_t nactors;
    struct mt_transfer *transfers; /* into selected launches, by launch */
    size_t ntransfers;
    struct mt_host_actor *hosts;
    size_t nhosts;
    struct mt_host_locations places; /* of host code; 0: not known */
    uint64_t records, unknown;
    uint64_t reported;         /* records of the launches that are reported; set by the caller */
    uint64_t host_accesses;    /* that read or write */
    struct mt_keyset keys;     /* addresses involved in communication into selected launches */
    struct mt_readers readers; /* CTA instances, of the bytes that the transfers between them count */
    /* state */
    struct mt_shadow *shadow;
    struct mt_actor_index actor_index, instance_index, transfer_index;
    struct mt_recent_transfer recent_transfers[MT_RECENT_TRANSFERS]; /* by both ends */
    size_t launch_room, actor_room, transfer_room, host_room, first_transfer;
    struct mt_host_recent *host_recent;
    struct mt_pairmap host_index; /* (place, superstep) -> index into hosts, + 1 */
    unsigned shard, shards;       /* of how many; 0 or 1: it has all memory */
    struct mt_crossing *crossings;
    size_t ncrossings, crossing_room;
    struct mt_transfer *crossed; /* counts of accesses that cross shards */
    size_t ncrossed, crossed_room, crossed_low;
    uint32_t last_actor;
    int partial;     /* there was a launch that is not reported */
    const char *why; /* of a failure */
};

int mt_comm_init(struct mt_comm *c, const struct mt_comm_options *options);
void mt_comm_free(struct mt_comm *c);

/* Gives the memory of the shadow back; nothing may be fed any more, the results stay. */
void mt_comm_forget(struct mt_comm *c);

/* A launch begins. `kernel` must live as long as `c`. */
int mt_comm_launch(struct mt_comm *c, const char *kernel, int selected);

/* Records of the launch under way, in file order. */
int mt_comm_records(struct mt_comm *c, const struct mt_raw_record *records, size_t count);

/* The same as runs. */
int mt_comm_runs(struct mt_comm *c, const struct mt_access_run *runs, size_t count);

/* A host copy or fill, after the launches so far. */
int mt_comm_copy(struct mt_comm *c, const struct mt_copy_event *copy);

/* Accesses of host code after the launches so far, in their order (options.host). The sites must live as long
 * as `c`; a place may have several. */
int mt_comm_host(struct mt_comm *c, const struct mt_host_access *accesses, size_t count);

/* Shards. Analyses that are all fed the same, in the same order, can divide the memory among them: each knows
 * the writers of its part only, and counts what was loaded and stored there. Their actors, launches and host
 * actors have the same numbers. Merged, their results are those of one analysis. A shard may be spared
 * records that touch none of its regions, provided that it is told
 * their actors (mt_comm_meet) and numbers. */

/* Before anything is fed. */
void mt_comm_shard(struct mt_comm *c, unsigned shard, unsigned shards);

/* There is a record of this CTA and SM. 0, or -1. */
int mt_comm_meet(struct mt_comm *c, uint64_t cta, uint32_t smid);

/* A copy that moves writers from shard to shard: to be done by mt_comm_move with all shards at rest, after
 * each was given it with mt_comm_copy. */
int mt_comm_moves(const struct mt_comm *c, const struct mt_copy_event *copy);

int mt_comm_move(struct mt_comm *const *shards, unsigned n, const struct mt_copy_event *copy);

/* Sorts the notes on accesses that cross shards and adds them up; now and then, so that they stay few. 0 or
 * -1. All of one access must be among those of `shards`. */
int mt_comm_add_crossings(struct mt_comm *const *shards, unsigned n);

/* Adds the results of shard `from` to `into`,
 * whose transfers are in disorder and doubled until mt_comm_merged. */
int mt_comm_merge(struct mt_comm *into, const struct mt_comm *from);

int mt_comm_merged(struct mt_comm *into);

static inline size_t mt_comm_reported_launches(const struct mt_comm *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->nlaunches; i++)
        n += c->launches[i].selected != 0;
    return n;
}

/* Is this host actor to be reported? */
static inline int mt_comm_host_selected(const struct mt_comm *c, const struct mt_host_actor *h)
{
    return h->superstep >= c->options.host_first && h->superstep < c->options.host_end;
}

/* ---- Shared by the files of the communication analysis ---- */

/* Shards own memory by regions of this many bytes (a power of two), in no order that a program could have. */
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

/* An access with parts in several shards took bytes of src (record: its number). */
void mt_comm_cross(struct mt_comm *c, uint64_t record, uint32_t src, uint32_t dst);

/* The entry of bytes of which a copy knows no writer. 0, or -1. */
int mt_comm_nobody(struct mt_comm *c, const struct mt_copy_event *e, uint32_t *nobody);

#endif
