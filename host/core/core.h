/* The core of host tracing, shared by all engines (compile-time, qemu, Pin, DynamoRIO). C11 without
 * engine, pthread or <stdatomic.h>: builds with glibc and with PinCRT. It runs in other people's
 * processes: it never aborts, exits or waits without end, and counts whatever it cannot trace. An engine
 * calls mt_core_start, then for each thread mt_core_thread_start … mt_core_thread_end, then mt_core_stop.
 * One trace per process. Functions with a `struct mt_core_thread *` are called by that thread only, unless
 * stated. docs/design/host.md has the rules on locks (order: address locks by index, threads lock, thread
 * locks by number, file lock). */
#ifndef MT_HOST_CORE_H
#define MT_HOST_CORE_H
#include "format/host_module.h"
#include <stdint.h>
#include "memtrace/container.h"
#include "base/host_options.h"

/* ---- functions of an engine ---- */

struct mt_core_location {
    uint32_t line, column;
    char file[512], function[256], module[512]; /* "" if unknown */
};

struct mt_core_engine {
    const char *name;    /* "llvm", "qemu", "pin" or "dynamorio" */
    const char *program; /* path of the traced program; NULL: /proc/self/exe */
    const char *called;  /* path by which it was started, perhaps a link's; NULL: unknown */
    /* Finds the source location of an instruction. Returns 0 if at least the module is known. May be NULL.
     * Called once per new site or call site, under no lock of the core. */
    int (*locate)(uint64_t ip, struct mt_core_location *place);
    /* Finds the place in a call stack that the address stands for: level 0 is its line, the next ones are
     * where the inlined functions around it were called. Returns 0, or -1 if there is no such level. NULL:
     * callers are not known. As locate otherwise. */
    int (*frame)(uint64_t ip, unsigned level, struct mt_core_location *place);
    /* Returns the source spelling of a symbol table name: `room` or `symbol`. NULL: names stay as they
     * are. */
    const char *(*plain)(const char *symbol, char *room, unsigned size);
    /* Returns the process-wide sequence number that orders host accesses with CUDA calls; the CUDA
     * runtime's if present. `next` 1: a new number; 0: the last one. NULL: the core counts by itself. */
    uint64_t (*sequence)(int next);
    void (*yield)(void); /* yields the processor; NULL: sched_yield */
    /* Starts a thread of the engine's own for compression and writing. Returns 0 or an errno value. NULL:
     * the program's threads do that work. join waits for its end. */
    int (*spawn)(void (*run)(void *), void *arg, void **handle);
    void (*join)(void *handle);
    void (*idle)(void);               /* called now and then when that thread has nothing to write; may be
                                       * NULL */
    void (*report)(const char *line); /* reports one line to the user, without LF; NULL: stderr with
                                       * "memtrace: " */
    /* 1: addresses of an access are known only after it; atomic mode then uses one lock for all, and says
     * so. */
    int addresses_late;
    /* 1: only one thread at a time runs in insn mode, too. Entries may be appended in a turn as in mat
     * mode (mt_core_turn_begin); the instruction itself is operand 0 and comes first. */
    int insn_turns;
    /* 1: the engine sets `open` of struct mt_core_thread around each append in atomic mode. A thread that is
     * alone may then append accesses of instructions with one operand, as in mat mode. */
    int marks;
    /* 1: traced calls that allocate state their location. An allocation of the C library without one was
     * requested by code outside of the program. */
    int places;
};

/* Opens the output and starts. Returns 0, or -1 with *why set to a sentence for the user; all calls below
 * then do nothing. `options` and `engine` must stay valid. */
int mt_core_start(const struct mt_core_options *options, const struct mt_core_engine *engine, char *why,
                  unsigned size);
/* Writes everything out and ends the file; later accesses of threads that still run are not in the trace.
 * killed: by a signal or a fault, as the trace will state. Idempotent. May be called from a signal handler
 * if its thread is not inside the core (else it gives up, with a readable file). */
void mt_core_stop(int killed);
/* Ends the thread made by `spawn`; the program's threads write from now on. For a process that would
 * otherwise live for ever with that thread alone. */
void mt_core_worker_end(void);
/* Marks the trace as incomplete for this reason and tells the user; a stop must follow. */
void mt_core_incomplete(const char *why);
/* closing: the program is about to close the descriptors first..last (also by dup2), and ours move away.
 * closed: it has; called soon by the same thread, at least for a range of more than one. */
void mt_core_descriptors_closing(uint32_t first, uint32_t last);
void mt_core_descriptors_closed(void);
/* Returns our lowest descriptor in the range, or -1. */
int mt_core_descriptor(uint32_t first, uint32_t last);
/* Drops files and locks in the child of a fork, which is no longer traced. exec needs no call. */
void mt_core_forked(void);
/* Takes note in the parent that the program has started a process, which is not traced. */
void mt_core_child(void);
/* Returns 1 between start and stop. */
int mt_core_on(void);
const struct mt_core_options *mt_core_options(void);

/* ---- threads ---- */

/* Starts a thread. Returns NULL without memory or after 65535 threads (counted, reported once): the engine
 * then traces nothing there. */
struct mt_core_thread *mt_core_thread_start(uint64_t native_id);
/* Ends a thread; another thread may call it once the thread is dead. */
void mt_core_thread_end(struct mt_core_thread *t);
/* The slow half of mt_core_access: hands over a full buffer, notices changes made elsewhere, and records
 * this access (text output and --threshold look up each access here, while its allocation is live). */
void mt_core_record(struct mt_core_thread *t, uint32_t site, uint64_t address, uint32_t size);
/* Makes room for more entries in mat mode. Returns 1 if entries are wanted: cur < limit holds until others
 * need the thread's attention. */
int mt_core_room(struct mt_core_thread *t);
/* Counts a copy of `bytes` bytes by this site, a store, before it is made; same: its destination already
 * holds these bytes. Callable by any thread without a lock. */
void mt_core_copied(uint32_t site, uint64_t bytes, int same);
/* Counts `count` accesses of this thread that have no record. */
void mt_core_lost(struct mt_core_thread *t, uint64_t count);
/* Logs a new sequence number after a CUDA call of this thread: this thread at once, the others at their
 * next access. */
void mt_core_moved(struct mt_core_thread *t);

/* ---- sites ---- */

struct mt_core_site {
    uint64_t ip;
    enum mt_host_op op;
    uint32_t size;         /* 0: stated for each access */
    int runtime;           /* code of the C library, recorded because of --library=data */
    int strong;            /* threads may synchronise by it: a LOCKed instruction or an atomic of the
                            * source */
    uint32_t line, column; /* 0: ask locate */
    const char *file, *function, *module, *variable; /* NULL or "": ask locate */
    const char *text, *reads, *writes;               /* insn mode, see memtrace/host.h */
};
/* Registers the operands (1..4) of one instruction. Returns the site of operand 0; operand i has site + i.
 * Returns 0 without memory. Thread-safe. Strings are copied. */
uint32_t mt_core_sites(const struct mt_core_site *operands, unsigned count);
/* Returns a site of one operand, the same one for the same non-zero key, or 0 without memory. */
uint32_t mt_core_site_of(uint64_t key, const struct mt_core_site *s);
/* Reserves sites for a number of instructions at once (a module's table in the compile-time engine).
 * Returns the first site. */
uint32_t mt_core_sites_reserve(uint32_t instructions);
void mt_core_site_define(uint32_t site, const struct mt_core_site *s);

/* ---- accesses: mat and insn mode ---- */

/* The quick half of mt_core_access and mt_core_atomic_alone_one. Returns 0 if there is no room, or more to
 * do. */
static inline int mt_core_append(struct mt_core_thread *t, uint32_t site, uint64_t address, uint32_t size)
{
    struct mt_host_entry *e = t->cur;
    if (__builtin_expect(e >= __atomic_load_n(&t->limit, __ATOMIC_RELAXED), 0))
        return 0;
    e->address = address;
    e->site = site;
    e->size = size;
    __atomic_store_n(&t->cur, e + 1, __ATOMIC_RELEASE); /* a plain store on x86 */
    return 1;
}
/* Records one access before it is made. An engine may inline this with these two branches and this order
 * of stores, since others read `cur` and the entries before it. No other append of the same thread may
 * interrupt it: an engine with signal handlers keeps their entries apart. */
static inline void mt_core_access(struct mt_core_thread *t, uint32_t site, uint64_t address, uint32_t size)
{
    if (!mt_core_append(t, site, address, size))
        mt_core_record(t, site, address, size);
}
/* Starts an instruction in insn mode before it executes; mt_core_insn_operand follows for each operand
 * once known. Takes the next order index from one lock-free counter of all threads. Operand 0 of its sites
 * is the instruction itself (op EXEC; text, reads, writes), its memory operands are sites + 1 to + 3. An
 * operand may occur several times in one execution (gather). */
void mt_core_insn(struct mt_core_thread *t, uint32_t site);
void mt_core_insn_operand(struct mt_core_thread *t, uint32_t site, uint64_t address, uint32_t size);

/* ---- accesses: atomic mode ---- */

/* Maximum operands of one instruction (a gather's elements); the core drops the rest. */
#define MT_CORE_OPERANDS 64u

struct mt_core_operand {
    uint64_t address;
    uint32_t site, size; /* site: with its operand number; its op is the operation */
};
/* Begins an instruction: releases the address locks that the thread still holds, then takes those of all
 * operands (count <= MT_CORE_OPERANDS; 0: all locks, addresses are not yet known). Does nothing for an
 * untraced thread or time. The caller must end soon, without a system call or wait in between. */
void mt_core_atomic_begin(struct mt_core_thread *t, const struct mt_core_operand *operands, unsigned count);
/* Begins an instruction with one operand; faster, as its words need no memory. */
void mt_core_atomic_begin_one(struct mt_core_thread *t, uint64_t address, uint32_t site, uint32_t size);
/* Ends an instruction (or the engine's next event in this thread does): assigns the time, logs, releases.
 * Operands given here (count > 0) replace those of begin, for addresses learnt late. failed: a
 * compare-and-swap that did not write. Does nothing without a begin. */
void mt_core_atomic_end(struct mt_core_thread *t, const struct mt_core_operand *operands, unsigned count,
                        int failed);
/* Begins and ends in one call, after the access and without locks, for an engine that lets only one thread
 * run at a time (addresses_late is set; this also covers all other calls into the core in this mode). */
void mt_core_atomic_alone(struct mt_core_thread *t, const struct mt_core_operand *operands, unsigned count,
                          int failed);
/* Begins or ends a thread's turn under such an engine. Within a turn, if the thread is traced into a
 * compact trace, cur < limit holds, and accesses of instructions with one operand may be appended as in
 * mat mode (mt_core_append): their times follow from their order. */
void mt_core_turn_begin(struct mt_core_thread *t);
/* Opens now the buffer that the first access of a turn would open. */
void mt_core_turn_open(struct mt_core_thread *t);
void mt_core_turn_end(struct mt_core_thread *t);
/* Takes the turn from t, which sleeps outside of the core; called by the thread that takes it. */
void mt_core_turn_stolen(struct mt_core_thread *t);
/* mt_core_atomic_alone for one operand that is not a failed compare-and-swap. */
void mt_core_atomic_alone_one(struct mt_core_thread *t, uint64_t address, uint32_t site, uint32_t size);
/* Releases without logging: the instruction did not execute (fault, or a signal before it). Returns 1 with
 * *what set if it had one operand, to begin again if it executes after all; else 0. what may be NULL. */
int mt_core_atomic_drop(struct mt_core_thread *t, struct mt_core_operand *what);
/* Warns that the next access of this thread may not be atomic with its record. */
void mt_core_context_change(struct mt_core_thread *t);

/* ---- functions and annotations ---- */

/* Returns the number of a function named by -f or --routine, or 0 if it is not to be traced. `name` is
 * undecorated ("ns::f", without parameters). The three functions of the annotation library are known
 * without -f and give MT_CORE_FN_*. Thread-safe. */
#define MT_CORE_FN_REGISTER 1u
#define MT_CORE_FN_START_ROI 2u
#define MT_CORE_FN_END_ROI 3u
uint32_t mt_core_function(const char *name);
/* Returns 1 for a compiler-made symbol of a part of a function (f.cold, f.part.0): a jump to it is no
 * call. */
int mt_core_symbol_is_part(const char *symbol);
/* Entry and return of a function with such a number. An annotation function registers the thread under
 * a[0], or starts or ends the region. t may be NULL (an unknown thread): logged with thread -1. */
void mt_core_call(struct mt_core_thread *t, uint32_t function, uint64_t sp, const uint64_t a[3]);
void mt_core_return(struct mt_core_thread *t, uint32_t function, uint64_t sp, uint64_t value);

/* ---- allocations: kept by all modes, used by mat ---- */

enum mt_core_alloc_kind {
    MT_CORE_MALLOC,
    MT_CORE_CALLOC,
    MT_CORE_REALLOC,
    MT_CORE_MEMALIGN,
    MT_CORE_MMAP,
    MT_CORE_BRK,
    MT_CORE_NEW,
    MT_CORE_GLOBAL, /* a variable of the program's symbol table */
    MT_CORE_SECTION /* the section around them */
};
/* Makes the program's variables (data symbols with their names) and the rest of its sections .data, .bss
 * and .rodata buffers. `bias` is added to the file's addresses. Called before the program's first access. */
void mt_core_globals(const char *path, uint64_t bias);
/* Returns in `room` the name of the function of this file around an address of the file, or "". Reads the
 * symbol table without the C library, and keeps that of one file. */
const char *mt_core_symbol(const char *path, uint64_t address, char *room, unsigned size);
/* Adds an allocation; base 0 or bytes 0: does nothing. A range that overlaps known ones of the same layer
 * replaces them (an unseen free). mmap and brk ranges lie below the others; an access counts for the
 * innermost one. `ip`: call site. */
void mt_core_alloc(struct mt_core_thread *t, enum mt_core_alloc_kind kind, uint64_t base, uint64_t bytes,
                   uint64_t ip);
/* Returns 1 if the callers of allocations are recorded. */
int mt_core_wants_callers(void);
/* States who makes the thread's next allocation: addresses inside the call instructions, innermost (the
 * allocating one) first. At most MT_CORE_CALLERS. */
#define MT_CORE_CALLERS 8u
void mt_core_callers(struct mt_core_thread *t, const uint64_t *ip, unsigned n);
/* Removes an allocation before its memory is released. */
void mt_core_free(struct mt_core_thread *t, uint64_t base);
/* Announces a realloc of `old`, if the engine can: another thread may get the old memory before
 * mt_core_realloc reports it free. `old` then means the buffer that is there now. */
void mt_core_realloc_begin(struct mt_core_thread *t, uint64_t old);
/* Ends the old buffer and begins a new one after a successful realloc (base != 0), even in place. */
void mt_core_realloc(struct mt_core_thread *t, uint64_t old, uint64_t base, uint64_t bytes, uint64_t ip);
/* Handle munmap, mremap and a new program break, after the system call succeeded. */
void mt_core_unmap(struct mt_core_thread *t, uint64_t base, uint64_t bytes);
void mt_core_remap(struct mt_core_thread *t, uint64_t old, uint64_t old_bytes, uint64_t base, uint64_t bytes,
                   uint64_t ip);
void mt_core_brk(struct mt_core_thread *t, uint64_t old_break, uint64_t new_break, uint64_t ip);

/* ---- code of libraries (--library) ---- */

/* Returns which code of this file ("": no file) is recorded. program: 1 for the program's own file. */
enum mt_core_code mt_core_code(const char *path, int program);
/* Reports the names of --library that no file had. */
void mt_core_library_unmet(void);
/* Returns 1 if allocations by this function of this file belong to the C runtime itself (buffers of FILE,
 * but not strdup's). */
int mt_core_code_keeps(const char *path, const char *function);
/* Marks the block at base as such: it does not count as data of the program. */
void mt_core_alloc_keep(uint64_t base);
/* Counts the file's sections .data, .bss and .rodata as data of the program for MT_CODE_DATA, until
 * unmapped. */
void mt_core_data(const char *path, uint64_t bias);
/* Enters (1) or leaves (-1) an allocator, whose accesses are not the program's. */
void mt_core_allocator(struct mt_core_thread *t, int step);
/* Returns 1 if an access of such code is recorded; else counts it and returns 0. Not for MT_CODE_HIDDEN. */
int mt_core_wants(struct mt_core_thread *t, enum mt_core_code code, uint64_t address);
/* Counts accesses that were left out, unless nothing is recorded now (--roi, --routine …). */
void mt_core_left_out(struct mt_core_thread *t, uint64_t count);
/* always: 1 if something is recorded all the time, so that an engine may count into mt_core_left itself.
 * left: this thread's counter, for that thread only, or (NULL) one for all threads; its address is fixed. */
int mt_core_always(void);
uint64_t *mt_core_left(struct mt_core_thread *t);

/* ---- on and off ---- */

/* Switches tracing in a signal handler (async-signal safe): all threads notice at their next access. */
void mt_core_switch(int on);
/* Enters and leaves --routine functions; depth counts per thread. */
void mt_core_routine_enter(struct mt_core_thread *t);
void mt_core_routine_leave(struct mt_core_thread *t);
#endif
