/* What is mapped where in the guest: files, their functions of interest, source places. Thread-safe. */
#ifndef MT_HOST_MACHINE_MODULES_H
#define MT_HOST_MACHINE_MODULES_H
#include <stdint.h>
#include "../core/core.h"

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
    MT_FN_READ,    /* what a copy of the CUDA runtime reads of the program's memory: (address, bytes) */
    MT_FN_RUNTIME, /* any function of the CUDA runtime: what it does by itself or in libraries is not the
                      program's */
    MT_FN_MAP,     /* mmap, munmap, mremap, brk, sbrk: for call sites; events come from the system calls */
};

/* A function whose calls matter. */
struct mt_watch {
    uint64_t address;
    uint32_t function; /* number of mt_core_function, 0: none */
    uint8_t alloc;     /* enum mt_alloc_function */
    uint8_t routine;   /* --routine names it */
};

/* `program`: path of the main executable; allocations: whether allocators matter. `found` (may be NULL) hears
 * of each function of interest once its module is known, under the lock of this file. */
void mt_modules_start(const char *program, const struct mt_core_options *o, int allocations,
                      void (*found)(const struct mt_watch *));
/* Looks at what is mapped at ip, if that has not been done. */
void mt_modules_look(uint64_t ip);
/* The function of interest that begins at ip, NULL if none does. Stays valid. */
const struct mt_watch *mt_modules_watch(uint64_t ip);
/* What is recorded of the code at ip: nothing of the CUDA runtime of memtrace and its kernels, nor, in insn
 * mode, of libraries. */
enum mt_core_code mt_modules_code(uint64_t ip);
/* 1 if what the code at ip allocates is the C runtime's own. */
int mt_modules_keeps(uint64_t ip);
/* For mt_core_engine.locate. */
int mt_modules_locate(uint64_t ip, struct mt_core_location *place);
/* The program is in memory: its variables become buffers. */
void mt_modules_globals(void);
/* A range was mapped or unmapped. */
void mt_modules_changed(uint64_t base, uint64_t bytes);
/* Guest address of the CUDA runtime's sequence number, 0 while there is none. */
uint64_t mt_modules_sequence(void);
#endif
