/* What the files of the core share. One trace per process, so its state is one object, mt_g. */
#ifndef MT_HOST_STATE_H
#define MT_HOST_STATE_H
#include <stddef.h>
#include "format/container/writer.h"
#include "core.h"
#include "index.h"
#include "platform.h"
#include "sink.h"

#define MT_THREADS 65535u
#define MT_NAMELESS (-1) /* a thread that is not registered */
#define MT_CACHE 4
#define MT_HELD_MAX 64u /* address locks; an instruction that covers more takes all */

/* Where an engine's appended accesses go. */
enum mt_core_window {
    MT_DISCARD, /* over and over into the free rest of the buffer: tracing is off here and now */
    MT_APPEND,  /* into the buffer */
    MT_EACH,    /* through mt_core_record, one by one */
};

/* What one address means, with the range for which that holds as long as mt_g.changes == changes. */
struct mt_meaning {
    uint64_t base, end;
    uint64_t id; /* 0: outside of all allocations, or in one that is too small */
    uint64_t start, bytes;
    uint64_t changes;
    int data; /* the program's, for the C runtime's code (MT_CODE_DATA) */
};

struct mt_core_thread_state {
    struct mt_core_thread pub;
    uint32_t slot;
    uint64_t number, native;
    int live;
    unsigned busy;       /* inside the core: a signal handler's accesses are counted, not recorded */
    struct mt_spin lock; /* buffer, time: others may flush this thread */
    struct mt_buffer *buffer;
    uint64_t lost;       /* accesses that could not be recorded */
    uint64_t left;       /* left out by --library */
    unsigned allocators; /* it is inside of so many */

    /* mat */
    enum mt_core_window window;
    int parked;                   /* tracing has ended; buffer->count says what is in it */
    struct mt_host_entry *kept;   /* MT_DISCARD: end of what belongs to the trace */
    struct mt_host_entry *looked; /* up to there it was looked for repeats */
    struct mt_mtc_repeats repeats;
    uint64_t seq;          /* logged last */
    uint64_t bell;         /* mt_g.bell when it last looked around */
    uint64_t depth, outer; /* inside --routine: depth, stack pointer of the outermost (0: not known) */
    uint64_t outside;      /* accesses left out: in no allocation */
    uint64_t realloc_base, realloc_id;
    struct mt_meaning cache[MT_CACHE];
    unsigned next_cache, last_cache; /* to be replaced; that answered last */

    /* insn */
    uint64_t order;

    /* atomic */
    int64_t name; /* as in the trace; MT_NAMELESS */
    uint64_t time, written /* newest time in the file */;
    struct mt_host_entry *mark; /* counted buffers: up to there `running` is the time of what is in it; */
    uint64_t running;           /* each entry after is one access and one later */
    int turn;                   /* between mt_core_turn_begin and _end; or it is alone (alone.c) */
    unsigned accesses;          /* since it last looked how far others lag, by whomever written */
    char *text;                 /* a piece of it, while it is printed */
    int pending;                /* between begin and end; alone.c waits for its end */
    unsigned count;             /* operands of begin */
    struct mt_core_operand operand[MT_CORE_OPERANDS];
    unsigned held; /* address locks in lock_at; UINT32_MAX: all */
    uint32_t lock_at[MT_HELD_MAX + 1];
};

/* `lost` and `outside`: only the thread writes them, and whoever stops the trace reads them meanwhile. */
static inline void mt_count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

struct mt_core_global {
    const struct mt_core_options *o;
    const struct mt_core_engine *e;
    uint32_t on, stopping, forked, incomplete;
    uint64_t children; /* processes that the program began */

    /* what makes threads look around */
    uint64_t bell;
    uint32_t switched, in_roi;

    /* threads: a slot is a live thread's */
    struct mt_spin threads_lock;
    struct mt_core_thread_state **slot;
    uint32_t slots;   /* in use, dead ones included */
    uint32_t lives;   /* threads that live */
    uint64_t numbers; /* threads so far */
    uint64_t refused;
    uint64_t latest; /* newest time at which all threads were synchronised */

    /* allocations */
    struct mt_spin index_lock;
    struct mt_index_tree blocks, maps, data; /* data: variables of all modules but the C runtime */
    uint64_t changes;                        /* of the trees */
    uint64_t allocations, own_seq;

    uint64_t order;               /* insn */
    uint64_t lost, outside, left; /* of threads that have ended */
};
extern struct mt_core_global mt_g;

static inline int mt_on(void)
{
    return __atomic_load_n(&mt_g.on, __ATOMIC_RELAXED);
}

/* The number in force; a new one. */
uint64_t mt_seq_now(void);
uint64_t mt_seq_next(void);

/* Something is wrong with the trace: said once, tracing is off, the trace is incomplete. */
void mt_core_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* thread.c: every live thread looks around at its next access. Async-signal safe. */
void mt_core_ring(void);
/* A buffer is full and there is no memory for another one: what is in it is lost. Said once. */
void mt_thread_lost(struct mt_core_thread_state *t, uint64_t count);
/* What all threads together, ended ones too, have lost and left out. */
struct mt_sums {
    uint64_t lost, outside, left;
};
struct mt_sums mt_threads_sum(void);

/* mat.c: the thread's window for the state that holds now; caller holds t's lock. */
void mt_mat_start(struct mt_core_thread_state *t);
void mt_mat_look(struct mt_core_thread_state *t);
void mt_mat_roi(struct mt_core_thread_state *t, int on);
int mt_mat_active(const struct mt_core_thread_state *t); /* accesses are recorded now */
void mt_mat_end(struct mt_core_thread_state *t);
void mt_mat_stop(struct mt_core_thread_state *t);

/* alloc.c. What an address means now; valid until the next call for this thread. */
const struct mt_meaning *mt_alloc_meaning(struct mt_core_thread_state *t, uint64_t address);

/* [base, base + bytes) is data of the program. */
void mt_alloc_data(uint64_t base, uint64_t bytes);

/* A buffer that no call of the program made; others are reported by mt_core_moved. */
void mt_alloc_static(enum mt_core_alloc_kind kind, uint64_t base, uint64_t bytes, const char *name);

/* order.c, atomic.c: see order.h, atomic.h for the rest */
int mt_order_start(char *why, unsigned size);
int mt_atomic_open(char *why, unsigned size);
void mt_atomic_start(struct mt_core_thread_state *t);
void mt_atomic_end(struct mt_core_thread_state *t);
void mt_atomic_stop(struct mt_core_thread_state *t); /* its lock is held */
void mt_atomic_close(int killed);

/* insn.c */
int mt_insn_start(char *why, unsigned size);
void mt_insn_thread(struct mt_core_thread_state *t);
void mt_insn_end(struct mt_core_thread_state *t);
void mt_insn_flush(struct mt_core_thread_state *t); /* its lock is held */
void mt_insn_stop(void);

/* functions.c */
int mt_functions_start(char *why, unsigned size);
void mt_functions_unseen(void); /* says which names no function had */
void mt_functions_lines(void);  /* into the container */
const char *mt_function_name(uint64_t id);

/* sourcelines.c: the second file of --mat-files. Its name is made at the start, the file at the end. */
void mt_sourcelines_start(void);
void mt_sourcelines_write(void);

/* sites.c */
struct mt_core_kept_site {
    uint64_t ip;
    const char *file, *function, *module, *text, *reads, *writes; /* never NULL when defined */
    uint32_t line, column;
    uint32_t twin; /* the same with CAS_FAILED for CAS; 0: not yet asked for */
    uint32_t defined, shown;
    uint32_t size[4];
    uint8_t op[4], operands, strong, runtime; /* strong: a bit for each operand */
};
/* NULL: there is none. */
struct mt_core_kept_site *mt_site_of(uint32_t site);
uint32_t mt_site_instructions(void); /* numbers below this one exist */
uint32_t mt_site_twin(uint32_t site);
/* Place of an address in code, by the engine; strings live as long as the trace.
 * Takes no lock while it asks. */
struct mt_code_location {
    uint64_t ip;
    const char *file, *function, *module;
    uint32_t line, column;
};
void mt_site_locate(uint64_t ip, struct mt_code_location *p);
#endif
