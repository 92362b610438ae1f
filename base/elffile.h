/* Functions and source lines of an ELF file, read with libelf and libdw. Addresses are the file's own
 * (p_vaddr). Not thread-safe: callers hold a lock. */
#ifndef MT_HOST_MACHINE_ELFFILE_H
#define MT_HOST_MACHINE_ELFFILE_H
#include <stdint.h>

struct mt_elf;

/* Opens an ELF file; returns NULL if it cannot be read or is not one. */
struct mt_elf *mt_elf_open(const char *path);
/* Computes what to add to the file's addresses when file offset `offset` is mapped at `start`. Returns 0, or
 * -1 if no segment covers the offset. */
int mt_elf_bias(struct mt_elf *e, uint64_t start, uint64_t offset, uint64_t *bias);
/* Returns the symbol of the function around an address, or NULL. */
const char *mt_elf_function(struct mt_elf *e, uint64_t address);
/* A source place. `file` is relative to `folder` unless that is "". The struct mt_elf owns the strings. */
struct mt_elf_location {
    const char *folder, *file;
    uint32_t line, column;
};
/* Finds the source place of an address. Returns 0, or -1 if no line table covers it. */
int mt_elf_line(struct mt_elf *e, uint64_t address, struct mt_elf_location *place);
/* Finds the place that called the inlined function number `level` around the address (0: innermost), and that
 * function's symbol, its name if it has none, or NULL. Returns 0, or -1 if there are fewer levels. */
int mt_elf_inlined(struct mt_elf *e, uint64_t address, unsigned level, struct mt_elf_location *place,
                   const char **function);
/* How to find a function's caller from an address in it (.eh_frame), for the common form: the caller's stack
 * pointer is a register plus `offset`, the return address lies below it, and rbp is kept or saved there. */
struct mt_elf_frame {
    int64_t offset,
        saved;  /* saved: distance of the saved rbp from the caller's stack pointer; 0: rbp is kept */
    int by_rbp; /* 1: the register is rbp, 0: rsp */
};
/* Returns 0, or -1 if it is unknown, of another form, or there is no caller (_start). */
int mt_elf_frame(struct mt_elf *e, uint64_t address, struct mt_elf_frame *f);
/* Calls f for each function. */
void mt_elf_functions(struct mt_elf *e, void (*f)(void *arg, const char *name, uint64_t address), void *arg);
/* Returns the address of a data symbol, or 0. */
uint64_t mt_elf_data(struct mt_elf *e, const char *name);

/* Shortens a mangled name to "ns::f": demangled, without parameters and result. Other names are unchanged.
 * Returns `room` or `name`. */
const char *mt_undecorate(const char *name, char *room, unsigned size);
/* Returns a variable's source name, which may contain parameters: "f(int)::count". For mt_core_engine.plain.
 */
const char *mt_elf_variable(const char *symbol, char *room, unsigned size);
#endif
