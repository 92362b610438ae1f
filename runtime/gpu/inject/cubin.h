/* The ELF file of a module: its code sections, functions, and what line programs need. Copies what it keeps.
 * Every number of the file is doubted: what leads out of it is left out. */
#ifndef MT_INJECT_CUBIN_H
#define MT_INJECT_CUBIN_H
#include <stddef.h>
#include <stdint.h>

struct mt_cubin_section { /* .text.NAME: a kernel, or a device function that is not part of one */
    uint32_t index;       /* among the file's sections */
    uint64_t offset;      /* in the file */
    uint64_t bytes;
    const char *name; /* NAME, a symbol */
};

struct mt_cubin_function {
    uint32_t section; /* number of its mt_cubin_section */
    int kernel;       /* 1: it can be launched */
    uint64_t offset;  /* in the section */
    uint64_t bytes;
    const char *name; /* the symbol */
};

/* A place in .debug_line that holds an address of a section. */
struct mt_cubin_address {
    uint64_t at; /* in .debug_line */
    uint32_t section;
    uint64_t offset; /* in the section */
};

struct mt_cubin_bytes {
    uint8_t *data;
    size_t bytes;
};

struct mt_cubin {
    struct mt_cubin_section *sections;   /* in the file's order */
    struct mt_cubin_function *functions; /* by section, then offset, the longer one first */
    struct mt_cubin_address *addresses;  /* by `at` */
    size_t nsections, nfunctions, naddresses;
    size_t sections_room, functions_room, addresses_room;
    struct mt_cubin_bytes line, str; /* .debug_line and .debug_str */
    struct mt_cubin_bytes names[2];  /* of sections, of symbols */
};

/* 0, or -1: no memory, or no cubin. */
int mt_cubin_read(struct mt_cubin *c, const void *file, size_t bytes);
void mt_cubin_drop(struct mt_cubin *c);
/* The innermost function around a place; NULL: none is. */
const struct mt_cubin_function *mt_cubin_around(const struct mt_cubin *c, uint32_t section, uint64_t offset);
/* What a symbol says of the source: "f" of "$kernel$f" (a function that a kernel has a copy of) and of "f$1".
 */
void mt_cubin_name(const char *symbol, const char **name, size_t *length);
#endif
