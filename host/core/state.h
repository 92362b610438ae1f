/* State shared by the files of the core. There is one trace per process, so the state is one object, mt_g. */
#ifndef MT_HOST_STATE_H
#define MT_HOST_STATE_H
#include <stddef.h>
#include "format/container/writer.h"
#include "core.h"
#include "alloc.h"
#include "platform.h"
#include "sink.h"

#define MT_THREADS 65535u
#define MT_NAMELESS (-1) /* a thread that is not registered */
#define MT_CACHE 4
#define MT_HELD_MAX 64u /* maximum number of address locks; an instruction that covers more takes all */

/* Destination of an engine's appended accesses. */
enum mt_core_window {
    MT_DISCARD, /* the free rest of the buffer, over and over: tracing is off for this thread */
    MT_APPEND,  /* the buffer */
    MT_EACH,    /* mt_core_record, one by one */
};

/* The meaning of an address, with the range for which it holds while mt_g.changes == changes. */
struct mt_meaning {
    uint64_t base, end;
    uint64_t id; /* allocation; 0: in none, or in one that is too small */
    uint64_t start, bytes;
    uint64_t changes;
    int data; /* data of the program, for the C runtime's code (MT_CODE_DATA) */
};

struct mt_core_thread_state {
    struct mt_core_thread pub;
    uint32_t slot;
    uint64_t number, native;
    int live;
    unsigned busy;       /* inside the core: accesses of a signal handler are counted, not recorded */
    struct mt_spin lock; /* protects buffer and time: others may flush this thread */
    struct mt_buffer *buffer;
    uint64_t lost;       /* number of accesses that could not be recorded */
    uint64_t left;       /* number left out by --library */
    unsigned allocators; /* depth of nested allocators */

    /* mat */
    enum mt_core_window window;
    int parked;                   /* tracing has ended; buffer->count is the number of entries */
    struct mt_host_entry *kept;   /* MT_DISCARD: end of the entries that belong to the trace */
    struct mt_host_entry *looked; /* end of the entries already searched for repeats */
    struct mt_mtc_repeats repeats;
    uint64_t seq;          /* last number logged */
    uint64_t bell;         /* value of mt_g.bell at the last check */
    uint64_t depth, outer; /* inside --routine: depth, and stack pointer of the outermost call (0: unknown) */
    uint64_t outside;      /* number of accesses left out as in no allocation */
    uint64_t realloc_base, realloc_id;
    uint64_t stack; /* callers of the next allocation: id of their line; 0: unknown */
    struct mt_meaning cache[MT_CACHE];
    unsigned next_cache, last_cache; /* cache entry to replace next, and the last hit */

    /* insn */
    uint64_t order;

    /* atomic */
    int64_t name; /* as in the trace; MT_NAMELESS */
    uint64_t time, written /* newest time in the file */;
    struct mt_host_entry *mark; /* counted buffers: `running` is the time of the entries before it; */
    uint64_t running;           /* each later entry is one access with the next time */
    int turn;                   /* 1: between mt_core_turn_begin and _end, or alone */
    unsigned accesses;          /* accesses since its last check of the lag of others */
    char *text;                 /* text piece while it is printed */
    int pending;                /* 1: between begin and end; alone_wait waits for the end */
    unsigned count;             /* number of operands of begin */
    struct mt_core_operand operand[MT_CORE_OPERANDS];
    unsigned held; /* number of address locks in lock_at; UINT32_MAX: all */
    uint32_t lock_at[MT_HELD_MAX + 1];
};

/* Adds to `lost` or `outside`: only the thread writes them, while the thread that stops the trace reads
 * them. */
static inline void mt_core_count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

struct mt_core_global {
    const struct mt_core_options *o;
    const struct mt_core_engine *e;
    uint32_t on, stopping, forked, incomplete;
    uint64_t children; /* number of processes that the program started */

    /* counters that make threads check their state */
    uint64_t bell;
    uint32_t switched, in_roi;

    /* threads: one slot for each live thread */
    struct mt_spin threads_lock;
    struct mt_core_thread_state **slot;
    uint32_t slots;   /* slots in use, including those of dead threads */
    uint32_t lives;   /* number of live threads */
    uint64_t numbers; /* number of threads so far */
    uint64_t refused;
    uint64_t latest; /* newest time to which all threads were moved */

    /* allocations */
    struct mt_spin index_lock;
    struct mt_index_tree blocks, maps, data; /* data: variables of all modules but the C runtime */
    uint64_t changes;                        /* counts changes of the trees */
    uint64_t allocations, own_seq;

    uint64_t order;               /* insn */
    uint64_t lost, outside, left; /* sums over ended threads */
};
extern struct mt_core_global mt_g;

static inline int mt_on(void)
{
    return __atomic_load_n(&mt_g.on, __ATOMIC_RELAXED);
}

/* Return the present sequence number, and a new one. */
uint64_t mt_seq_next(void);

/* Reports an error of the trace once, turns tracing off and marks the trace as incomplete. */
void mt_core_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sums over all threads, ended ones too: accesses lost and left out. */
struct mt_sums {
    uint64_t lost, outside, left;
};
struct mt_sums mt_threads_sum(void);

/* Takes note of an allocation or free by this thread: in a compact trace of atomic mode its later accesses
 * get a higher number. */
void mt_atomic_moved(struct mt_core_thread_state *t);
/* Returns 1 if this thread's accesses are part of the trace now (atomic mode). */
int mt_atomic_traced(const struct mt_core_thread_state *t);

int mt_mat_active(const struct mt_core_thread_state *t); /* 1: accesses are recorded now */

/* alloc.c. Returns the meaning of an address; valid until the next call for this thread. */
const struct mt_meaning *mt_alloc_meaning(struct mt_core_thread_state *t, uint64_t address);

/* sites.c */
struct mt_core_kept_site {
    uint64_t ip;
    const char *file, *function, *module, *text, *reads, *writes; /* never NULL when defined */
    uint32_t line, column;
    uint32_t twin; /* site of the same with CAS_FAILED for CAS; 0: not yet requested */
    uint32_t defined, shown;
    uint32_t size[4];
    uint8_t op[4], operands, strong, runtime; /* strong: one bit per operand */
};
/* Returns the site, or NULL. */
struct mt_core_kept_site *mt_site_of(uint32_t site);
uint32_t mt_site_instructions(void); /* numbers below this one exist */
uint32_t mt_site_twin(uint32_t site);
/* Source location of a code address, found by the engine; strings live as long as the trace. Takes no lock
 * meanwhile. */
struct mt_code_location {
    uint64_t ip;
    const char *file, *function, *module;
    uint32_t line, column;
    uint64_t stack; /* of an allocation, as in mt_core_thread_state */
};
void mt_site_locate(uint64_t ip, struct mt_code_location *p);
#endif
