/* An ELF file's functions and source lines, by libelf and libdw. Addresses are the file's own (p_vaddr).
 * Not thread-safe: modules.c locks. */
#ifndef MT_HOST_MACHINE_ELFFILE_H
#define MT_HOST_MACHINE_ELFFILE_H
#include <stdint.h>

struct mt_elf;

/* NULL if the file cannot be read or is not an ELF file. */
struct mt_elf *mt_elf_open(const char *path);
/* What to add to the file's addresses when file offset `offset` is mapped at `start`. 0, or -1: no segment
 * covers it. */
int mt_elf_bias(struct mt_elf *e, uint64_t start, uint64_t offset, uint64_t *bias);
/* Name of the function around an address as the file spells it, NULL if there is none. */
const char *mt_elf_function(struct mt_elf *e, uint64_t address);
/* A source place. `file` is relative to `folder` unless that is "". The strings are the ELF file's. */
struct mt_elf_location {
    const char *folder, *file;
    uint32_t line, column;
};
/* 0 and the place, or -1: no line table covers it. */
int mt_elf_line(struct mt_elf *e, uint64_t address, struct mt_elf_location *place);
/* The same of the call of the inlined function number `level` around the address (0: the innermost one), and
 * the function's name, or NULL. -1, too: there are not so many. */
int mt_elf_inlined(struct mt_elf *e, uint64_t address, unsigned level, struct mt_elf_location *place,
                   const char **function);
/* Calls f for each function. */
void mt_elf_functions(struct mt_elf *e, void (*f)(void *arg, const char *name, uint64_t address), void *arg);
/* Address of a data symbol, 0 if there is none. */
uint64_t mt_elf_data(struct mt_elf *e, const char *name);

/* "ns::f" of a mangled name: demangled, without parameters and result; other names unchanged. Returns `room`
 * or `name`. */
const char *mt_undecorate(const char *name, char *room, unsigned size);
/* A variable's name, which may have parameters in it: "f(int)::count". For mt_core_engine.plain. */
const char *mt_elf_variable(const char *symbol, char *room, unsigned size);
#endif
