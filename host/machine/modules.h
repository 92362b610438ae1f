/* Mapped files of the guest: their functions of interest and source locations. Thread-safe. */
#ifndef MT_HOST_MACHINE_MODULES_H
#define MT_HOST_MACHINE_MODULES_H

#include "../core/core.h"
#include "decode.h"
#include <stddef.h>
#include <stdint.h>

/* A map from non-zero 64-bit numbers to numbers. It grows and never removes; all zero at first. One writer
 * at a time; readers need no lock: a table that became too small stays in place. */

struct mt_guest_map_table;

struct mt_guest_map {
    struct mt_guest_map_table *table;
    size_t count;
};

/* Returns the value, or 0 if absent. */
uint64_t mt_guest_map_get(const struct mt_guest_map *m, uint64_t key);

/* Returns 0, or -1 without memory. */
int mt_guest_map_put(struct mt_guest_map *m, uint64_t key, uint64_t value);

/* ---- Translated instructions with the sites of their operands ---- */
struct mt_insn;

struct mt_operand {
    struct mt_insn *insn;
    uint32_t site, size; /* size: as in mt_x86_operand */
    uint8_t parts, op;
    uint8_t last;  /* 1: the operand that qemu reports last */
    uint8_t spare; /* see struct mt_x86_operand */
};

struct mt_insn {
    struct mt_insn *older; /* other bytes at the same address (generated code) */
    struct mt_x86_insn x86;
    uint8_t bytes[15];
    uint8_t code;    /* enum mt_core_code */
    uint8_t runtime; /* code of the C library */
    uint32_t site;   /* site of operand 0; 0: none */
    uint32_t failed; /* site of operand 0 of a compare-and-swap that did not write */
    struct mt_operand operand[MT_X86_OPERANDS];
    struct mt_elements_form *elements; /* elements.h; made once, */
    int elements_known;                /* by engines that need it */
};

/* Returns the instruction with these bytes; a new one gets sites if such code is recorded. In insn mode
 * (`whole`) operand 0 is the instruction itself, followed by its memory operands. Returns NULL without
 * memory. One caller at a time. */
struct mt_insn *mt_insn_get(uint64_t ip, const uint8_t *bytes, unsigned size, int whole,
                            enum mt_core_code code);

/* Numbers that order host accesses with CUDA calls: those of the CUDA runtime in the guest's memory once
 * it is there, continuing ours. */

/* For mt_core_engine.sequence. */
uint64_t mt_sequence(int next);

extern uint64_t *mt_sequence_cuda; /* its next number; NULL: there is no CUDA runtime */
extern uint64_t mt_sequence_last;

/* Returns 1 if CUDA calls were made since mt_sequence_seen. */
static inline int mt_sequence_moved(void)
{
    uint64_t *next = mt_sequence_cuda;
    return __builtin_expect(next != 0, 0) && __atomic_load_n(next, __ATOMIC_RELAXED) != mt_sequence_last;
}

void mt_sequence_seen(void);

enum mt_alloc_function {
    MT_FN_NONE,
    MT_FN_MALLOC,
    MT_FN_CALLOC,
    MT_FN_REALLOC,
    MT_FN_REALLOCARRAY,
    MT_FN_MEMALIGN, /* also aligned_alloc: (alignment, bytes) */
    MT_FN_POSIX_MEMALIGN,
    MT_FN_VALLOC,
    MT_FN_PVALLOC,
    MT_FN_NEW,
    MT_FN_FREE,
    MT_FN_DELETE,
    MT_FN_READ,    /* data of the program that a copy of the CUDA runtime reads: (address, bytes) */
    MT_FN_RUNTIME, /* any function of the CUDA runtime, whose own accesses (and those of its libraries) are
                    * not the program's */
    MT_FN_MAP,     /* mmap, munmap, mremap, brk, sbrk: for call sites; the system calls give the events */
};

/* A function whose calls are watched. */
struct mt_watch {
    uint64_t address;
    uint32_t function; /* number by mt_core_function; 0: none */
    uint8_t alloc;     /* enum mt_alloc_function */
    uint8_t routine;   /* named by --routine */
};

/* Starts. `program`: path of the main executable; allocations: 1 if allocators are watched. `found` (may
 * be NULL) gets each function of interest once its module is known, under the lock of this file. */
void mt_modules_start(const char *program, const struct mt_core_options *o, int allocations,
                      void (*found)(const struct mt_watch *));

/* Examines the mapping at ip, if not yet done. */
void mt_modules_look(uint64_t ip);

/* Returns the function of interest that begins at ip, or NULL. Stays valid. */
const struct mt_watch *mt_modules_watch(uint64_t ip);

/* Returns how code at ip is recorded: not at all for memtrace's CUDA runtime and its kernels, nor in insn
 * mode for libraries. */
enum mt_core_code mt_modules_code(uint64_t ip);

/* Returns 1 if allocations by the code at ip belong to the C runtime itself. */
int mt_modules_keeps(uint64_t ip);

/* For mt_core_engine.locate. */
int mt_modules_locate(uint64_t ip, struct mt_core_location *place);

/* Collects the call at `ip`, inside the instruction, and those that led to it, innermost first, up to main;
 * sp, bp: the registers of its function. Returns their number, at least 1. *high caches the end of the stack
 * that `sp` is on (0 at first), *looked how often it was looked up. */
unsigned mt_modules_callers(uint64_t ip, uint64_t sp, uint64_t bp, uint64_t *out, unsigned room,
                            uint64_t *high, unsigned *looked);
/* For mt_core_engine.frame. */
int mt_modules_frame(uint64_t ip, unsigned level, struct mt_core_location *place);

/* Makes the variables of the program, now in memory, buffers. */
void mt_modules_globals(void);

/* Takes note that a range was mapped or unmapped. */
void mt_modules_changed(uint64_t base, uint64_t bytes);

#endif
