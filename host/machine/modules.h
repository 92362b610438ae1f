/* Mapped files of the guest: their functions of interest and source locations. Thread-safe. */
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
/* Makes the variables of the program, now in memory, buffers. */
void mt_modules_globals(void);
/* Takes note that a range was mapped or unmapped. */
void mt_modules_changed(uint64_t base, uint64_t bytes);
/* Returns the guest address of the CUDA runtime's sequence number, or 0 if there is none yet. */
uint64_t mt_modules_sequence(void);
#endif
