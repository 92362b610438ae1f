/* The core of host tracing: what the three engines (compile-time, qemu, Pin) share. C11 without engine,
 * without pthread, without <stdatomic.h>: builds with glibc and with PinCRT. It lives in other people's
 * processes: never aborts, exits or waits without end; what it cannot trace is counted.
 *
 *   engine: mt_core_start, then for each thread mt_core_thread_start … mt_core_thread_end, then mt_core_stop
 *
 * One trace per process. Functions that take a `struct mt_core_thread *` are called by that thread only,
 * except where said. Rules on locks (order: address locks by index, threads lock, thread locks by number,
 * file lock) are in docs/design/host.md. */
#ifndef MT_HOST_CORE_H
#define MT_HOST_CORE_H
#include "format/host_module.h"
#include <stdint.h>
#include "memtrace/container.h"
#include "base/host_options.h"

/* ---- what an engine gives ---- */

struct mt_core_location {
    uint32_t line, column;
    char file[512], function[256], module[512]; /* "" when not known */
};

struct mt_core_engine {
    const char *name;    /* "llvm", "qemu", "pin" */
    const char *program; /* path of the traced program; NULL: /proc/self/exe is it */
    const char *called;  /* the path that it was called by, which may be a link's; NULL: not known */
    /* Source place of an instruction; 0 if at least the module is known. May be NULL. Called once per new
     * site or call site, under no lock of the core. */
    int (*locate)(uint64_t ip, struct mt_core_location *place);
    /* A variable's name as its source spells it, of the one in the symbol table: `room` or `symbol`. NULL:
     * names stay as they are. */
    const char *(*plain)(const char *symbol, char *room, unsigned size);
    /* The process-wide sequence number that orders host accesses with CUDA calls: the engine returns the
     * CUDA runtime's when it is there. `next` 1: takes a new one; 0: the number given last. NULL: the core
     * counts its own. */
    uint64_t (*sequence)(int next);
    void (*yield)(void); /* gives the processor away; NULL: sched_yield */
    /* A thread of the engine's own for compression and writing. 0 or an errno value; NULL: threads of the
     * program do it themselves. join waits for its end. */
    int (*spawn)(void (*run)(void *), void *arg, void **handle);
    void (*join)(void *handle);
    void (*idle)(void);               /* that thread has nothing to write: called now and then. May be NULL */
    void (*report)(const char *line); /* one line for the user, without LF; NULL: stderr with "memtrace: " */
    /* Addresses of an access are known only after it: atomic mode then uses one lock for all (says so). */
    int addresses_late;
    /* Only one thread at a time runs in insn mode, too: its entries may be appended as in mat mode, in a turn
     * (mt_core_turn_begin); the instruction itself is operand 0 and comes first. */
    int insn_turns;
    /* It sets `open` of struct mt_core_thread around what it appends in atomic mode: a thread that is the
     * only one may then append, as in mat mode, accesses of instructions with one operand (alone.c). */
    int marks;
    /* Traced calls that allocate say their place: what the C library allocates without one was asked for by
     * code that is not the program's. */
    int places;
};

/* Opens the output and starts. 0, or -1: *why is a sentence for the user; everything below then does nothing.
 * `options` and `engine` are kept. */
int mt_core_start(const struct mt_core_options *options, const struct mt_core_engine *engine, char *why,
                  unsigned size);
/* Writes everything out (other threads may still run: what they do from here on is not in the trace), ends
 * the file; `killed`: by a signal or a fault, the trace says so. Idempotent, callable from a signal handler's
 * thread as long as that thread is not inside the core (then it gives up with the file readable). */
void mt_core_stop(int killed);
/* The thread that `spawn` made ends: the program's threads write from now on. For a process that would go on
 * for ever with that thread alone. */
void mt_core_worker_end(void);
/* The trace will lack something, for this reason; the user is told, a stop must follow. */
void mt_core_incomplete(const char *why);
/* The program is about to close the descriptors first..last (dup2 does, too): ours step aside. Then it has;
 * called by the same thread, soon, for a range of more than one at least. */
void mt_core_descriptors_closing(uint32_t first, uint32_t last);
void mt_core_descriptors_closed(void);
/* Our lowest descriptor among them; -1: none. */
int mt_core_descriptor(uint32_t first, uint32_t last);
/* In the child of a fork: forgets files and locks; nothing is traced any more. exec needs no call. */
void mt_core_forked(void);
/* In the parent: the program has begun a process, which nothing traces. */
void mt_core_child(void);
/* 1 between start and stop. */
int mt_core_on(void);
const struct mt_core_options *mt_core_options(void);

/* ---- threads ---- */

/* NULL without memory or after 65535 threads (counted, reported once):
 * the engine then traces nothing there. */
struct mt_core_thread *mt_core_thread_start(uint64_t native_id);
/* May be called by another thread when the thread is dead already. */
void mt_core_thread_end(struct mt_core_thread *t);
/* The slow half of mt_core_access: hands over a full buffer, takes note of what happened elsewhere, and
 * records this access (text output and --threshold look each access up here, while it is true). */
void mt_core_record(struct mt_core_thread *t, uint32_t site, uint64_t address, uint32_t size);
/* Mat mode: makes room for more entries if they are wanted: 1: cur < limit holds, until others want the
 * thread's attention. */
int mt_core_room(struct mt_core_thread *t);
/* A copy of so many bytes by this site, a store, is about to be made; same: its destination holds them
 * already. By any thread, without a lock. */
void mt_core_copied(uint32_t site, uint64_t bytes, int same);
/* So many accesses of this thread have no record. */
void mt_core_lost(struct mt_core_thread *t, uint64_t count);
/* The sequence number has moved (a CUDA call of this thread has been made): this thread logs it now, the
 * others at their next access. */
void mt_core_moved(struct mt_core_thread *t);

/* ---- sites ---- */

struct mt_core_site {
    uint64_t ip;
    enum mt_host_op op;
    uint32_t size;         /* 0: says each access */
    int runtime;           /* code of the C library that is there for --library=data */
    int strong;            /* threads may order by it: a LOCKed instruction, an atomic of the source */
    uint32_t line, column; /* 0: ask locate */
    const char *file, *function, *module, *variable; /* NULL or "": ask locate */
    const char *text, *reads, *writes;               /* insn mode: see memtrace/host.h */
};
/* Registers the operands (1..4) of one instruction; returns the site of operand 0; operand i has site + i.
 * 0 without memory. Thread-safe. The strings are copied. */
uint32_t mt_core_sites(const struct mt_core_site *operands, unsigned count);
/* A site of one operand, the same one for the same key (not 0). 0 without memory. */
uint32_t mt_core_site_of(uint64_t key, const struct mt_core_site *s);
/* Room for `instructions` instructions at once (compile-time engine: a module's table):
 * the first one's site. */
uint32_t mt_core_sites_reserve(uint32_t instructions);
void mt_core_site_define(uint32_t site, const struct mt_core_site *s);

/* ---- accesses: mat and insn mode ---- */

/* The quick half of mt_core_access and mt_core_atomic_alone_one. 0: there is no room, or more to do. */
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
/* One access, before it is made. Engines may inline this, with these two branches and this order of stores:
 * others read `cur` and what lies before it. Not to be interrupted by another append of the same thread:
 * where signal handlers can come between, the engine keeps their entries apart. */
static inline void mt_core_access(struct mt_core_thread *t, uint32_t site, uint64_t address, uint32_t size)
{
    if (!mt_core_append(t, site, address, size))
        mt_core_record(t, site, address, size);
}
/* Insn mode: before an instruction executes; operands follow by mt_core_insn_operand as they are known. Takes
 * the next order index. Order is over all threads; one lock-free counter. Operand 0 of its sites is the
 * instruction itself (op EXEC; text, reads, writes), its memory operands are sites + 1 to + 3; an operand may
 * come several times in one execution (gather). */
void mt_core_insn(struct mt_core_thread *t, uint32_t site);
void mt_core_insn_operand(struct mt_core_thread *t, uint32_t site, uint64_t address, uint32_t size);

/* ---- accesses: atomic mode ---- */

/* Most that one instruction has (a gather's elements); the core leaves out what goes beyond. */
#define MT_CORE_OPERANDS 64u

struct mt_core_operand {
    uint64_t address;
    uint32_t site, size; /* site: with its operand number; its op says what is done */
};
/* Before the instruction: takes the address locks of all operands (count <= MT_CORE_OPERANDS; 0: all
 * locks, the addresses are not known yet), after releasing what the thread still holds. Does nothing for a
 * thread or a time that is not traced. The caller must end soon: no system call, no wait in between. */
void mt_core_atomic_begin(struct mt_core_thread *t, const struct mt_core_operand *operands, unsigned count);
/* The same for one operand; quicker, as its words need not go through memory. */
void mt_core_atomic_begin_one(struct mt_core_thread *t, uint64_t address, uint32_t site, uint32_t size);
/* After it (or at the next thing that the engine sees of this thread): gives the time, logs, releases. With
 * operands (count > 0) they replace those of begin (addresses learnt late). failed: it was a compare-and-swap
 * that did not write. Without a begin: nothing. */
void mt_core_atomic_end(struct mt_core_thread *t, const struct mt_core_operand *operands, unsigned count,
                        int failed);
/* Begin and end in one, after the access, for an engine that lets only one thread run at a time
 * (addresses_late is set; that also covers all other calls into the core in this mode): no locks. */
void mt_core_atomic_alone(struct mt_core_thread *t, const struct mt_core_operand *operands, unsigned count,
                          int failed);
/* Such an engine says when a thread's turn begins and ends. Between the two, while the thread is traced and
 * the output is a container, cur < limit holds and accesses of instructions with one operand may be appended
 * as in mat mode (mt_core_append): they get their times from their order. */
void mt_core_turn_begin(struct mt_core_thread *t);
/* Opens at once what the first access of a turn opens otherwise. */
void mt_core_turn_open(struct mt_core_thread *t);
void mt_core_turn_end(struct mt_core_thread *t);
/* Another thread takes the turn from t, which sleeps outside of the core: to be called by that other one. */
void mt_core_turn_stolen(struct mt_core_thread *t);
/* mt_core_atomic_alone for one operand, of no compare-and-swap that failed. */
void mt_core_atomic_alone_one(struct mt_core_thread *t, uint64_t address, uint32_t site, uint32_t size);
/* Releases without logging: the instruction did not execute (fault, signal before it). With one operand: 1
 * and *what, to begin again if it is executed after all; else 0. what may be NULL. */
int mt_core_atomic_drop(struct mt_core_thread *t, struct mt_core_operand *what);
/* The next access of this thread may not be atomic with its record. */
void mt_core_context_change(struct mt_core_thread *t);

/* ---- functions and annotations ---- */

/* Number of a function that -f names, 0 if it is not one to trace. `name` undecorated ("ns::f", without
 * parameters). The three of the annotation library are known without -f and give MT_CORE_FN_*. --routine
 * names too. Thread-safe. */
#define MT_CORE_FN_REGISTER 1u
#define MT_CORE_FN_START_ROI 2u
#define MT_CORE_FN_END_ROI 3u
uint32_t mt_core_function(const char *name);
/* 1 for a symbol that compilers give to a part of a function (f.cold, f.part.0):
 * what jumps there calls nothing. */
int mt_core_symbol_is_part(const char *symbol);
/* Entry and return of a function with such a number. For the annotation functions: registers the thread under
 * a[0], starts or ends the region. t may be NULL (a thread that is not known): logged with thread -1. */
void mt_core_call(struct mt_core_thread *t, uint32_t function, uint64_t sp, const uint64_t a[3]);
void mt_core_return(struct mt_core_thread *t, uint32_t function, uint64_t sp, uint64_t value);

/* ---- allocations: all modes keep them, mat uses them ---- */

enum mt_core_alloc_kind {
    MT_CORE_MALLOC,
    MT_CORE_CALLOC,
    MT_CORE_REALLOC,
    MT_CORE_MEMALIGN,
    MT_CORE_MMAP,
    MT_CORE_BRK,
    MT_CORE_NEW,
    MT_CORE_GLOBAL, /* a variable of the program's symbol table */
    MT_CORE_SECTION /* what holds them */
};
/* The program's file and what to add to its addresses: its variables (symbols of data, with their names) and
 * its sections .data, .bss and .rodata, which hold the rest, are buffers from here on. Before the program's
 * first access. */
void mt_core_globals(const char *path, uint64_t bias);
/* base 0 or bytes 0: nothing happened. A range that overlaps known ones of the same layer replaces them there
 * (their owner freed them without our seeing it). mmap and brk ranges lie below the others: an access counts
 * for the innermost. `ip`: call site. */
void mt_core_alloc(struct mt_core_thread *t, enum mt_core_alloc_kind kind, uint64_t base, uint64_t bytes,
                   uint64_t ip);
/* Before the memory is given back. */
void mt_core_free(struct mt_core_thread *t, uint64_t base);
/* Before a realloc of `old`, where the engine can: another thread may be given the old memory before
 * mt_core_realloc says that it is free; then the old buffer is the one that was there now. */
void mt_core_realloc_begin(struct mt_core_thread *t, uint64_t old);
/* After a successful realloc (base != 0): the old buffer ends, a new one begins, also in place. */
void mt_core_realloc(struct mt_core_thread *t, uint64_t old, uint64_t base, uint64_t bytes, uint64_t ip);
/* munmap, mremap and the program break, as the system call reported success. */
void mt_core_unmap(struct mt_core_thread *t, uint64_t base, uint64_t bytes);
void mt_core_remap(struct mt_core_thread *t, uint64_t old, uint64_t old_bytes, uint64_t base, uint64_t bytes,
                   uint64_t ip);
void mt_core_brk(struct mt_core_thread *t, uint64_t old_break, uint64_t new_break, uint64_t ip);

/* ---- code of libraries (--library) ---- */

/* How much of the code of this file ("": of no file) is recorded. program: it is the program's own. */
enum mt_core_code mt_core_code(const char *path, int program);
/* Says which of --library's names were no file's. */
void mt_core_library_unmet(void);
/* 1 if what this function of this file allocates is the C runtime's own (buffers of FILE, not strdup's). */
int mt_core_code_keeps(const char *path, const char *function);
/* The block at base is such a one: it does not count as the program's data. */
void mt_core_alloc_keep(uint64_t base);
/* The file's sections .data, .bss and .rodata are data of the program for MT_CODE_DATA, until unmapped. */
void mt_core_data(const char *path, uint64_t bias);
/* The thread enters (1) or leaves (-1) an allocator: what happens in there is not the program's. */
void mt_core_allocator(struct mt_core_thread *t, int step);
/* 1 if an access of such code is recorded; 0: it is not, and has been counted. Not for MT_CODE_HIDDEN. */
int mt_core_wants(struct mt_core_thread *t, enum mt_core_code code, uint64_t address);
/* So many accesses were left out; they do not count while nothing is recorded (--roi, --routine …). */
void mt_core_left_out(struct mt_core_thread *t, uint64_t count);
/* 1: something is recorded all the time, so that an engine may count in the number of mt_core_left itself:
 * the thread's, by that thread only, or (NULL) one for all. It stays where it is. */
int mt_core_always(void);
uint64_t *mt_core_left(struct mt_core_thread *t);

/* ---- on and off ---- */

/* From a signal handler (async-signal safe): all threads notice at their next access. */
void mt_core_switch(int on);
/* Inside --routine: depth counts per thread. */
void mt_core_routine_enter(struct mt_core_thread *t);
void mt_core_routine_leave(struct mt_core_thread *t);
#endif
