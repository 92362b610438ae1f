/* Machine code of the modules loaded on a GPU: maps a program counter to a site in companion files (function,
 * offset, file and line). Cubins are untrusted: damage in them costs lines and names, nothing else. All
 * functions are thread-safe, except that a code must not be used while it is unloaded. */
#ifndef MT_INJECT_CODE_H
#define MT_INJECT_CODE_H
#include <stddef.h>
#include <stdint.h>

struct mt_gpu_code;

/* Reads a cubin (an ELF file in memory) and copies what it needs. Returns NULL if out of memory, or if it is
 * not a cubin. */
struct mt_gpu_code *mt_code_new(const void *cubin, size_t bytes);
/* Asks `where` for the address and size of each function of the cubin on the GPU, by symbol. It sets both and
 * returns 0, or returns nonzero if unknown. A size of 0 means the symbol's. */
void mt_code_place(struct mt_gpu_code *c,
                   int (*where)(void *data, const char *function, uint64_t *pc, uint64_t *size), void *data);
/* Calls `f` for each kernel until it returns nonzero. Returns that value, or 0. Names live as long as the
 * code. */
int mt_code_each_kernel(const struct mt_gpu_code *c, int (*f)(void *data, const char *mangled), void *data);
/* Returns the facts about a kernel's machine code and that of functions it may call (sass.h); 0: not known.
 */
uint32_t mt_code_facts(const struct mt_gpu_code *c, const char *mangled);
/* Frees `c` when its module is unloaded: its program counters may be reused. Its sites stay. NULL is allowed.
 */
void mt_code_unload(struct mt_gpu_code *c);
/* Returns the id of the `site` line for accesses of this type and size (mt_rec_meta) by the instruction at
 * `pc`, or 0 if unknown. The first such call writes the line. Repeated calls are fast and take no lock. */
uint32_t mt_code_site(uint64_t pc, uint32_t meta);

/* ELF file of a module: code sections, functions, and data for line programs. Copies what it keeps. Every
 * number of the file is checked: entries that point outside are skipped. */
struct mt_cubin_section { /* .text.NAME: a kernel, or a device function outside of kernels */
    uint32_t index;       /* index among the file's sections */
    uint64_t offset;      /* offset in the file */
    uint64_t bytes;
    const char *name; /* NAME, a symbol */
};

struct mt_cubin_function {
    uint32_t section; /* index of its mt_cubin_section */
    int kernel;       /* 1: can be launched */
    uint64_t offset;  /* offset in the section */
    uint64_t bytes;
    const char *name; /* symbol */
    uint32_t facts;   /* of its machine code (sass.h); set by mt_code_new */
};

/* A place in .debug_line with the address of a section. */
struct mt_cubin_address {
    uint64_t at; /* in .debug_line */
    uint32_t section;
    uint64_t offset; /* offset in the section */
};

struct mt_cubin_bytes {
    uint8_t *data;
    size_t bytes;
};

struct mt_cubin {
    struct mt_cubin_section *sections;   /* in file order */
    struct mt_cubin_function *functions; /* by section, then offset, longer ones first */
    struct mt_cubin_address *addresses;  /* sorted by `at` */
    size_t nsections, nfunctions, naddresses;
    size_t sections_room, functions_room, addresses_room;
    struct mt_cubin_bytes line, str; /* .debug_line and .debug_str */
    struct mt_cubin_bytes names[2];  /* names of sections, of symbols */
};

/* Returns 0, or -1 if out of memory, or if it is not a cubin. */
int mt_cubin_read(struct mt_cubin *c, const void *file, size_t bytes);
void mt_cubin_drop(struct mt_cubin *c);
/* Returns the innermost function around a place, or NULL. */
const struct mt_cubin_function *mt_cubin_around(const struct mt_cubin *c, uint32_t section, uint64_t offset);
/* Extracts the source's name from a symbol: "f" from "$kernel$f" (a function copied into a kernel) and from
 * "f$1". */
void mt_cubin_name(const char *symbol, const char **name, size_t *length);

/* Source lines of a cubin's code: .debug_line, as written by `nvcc -lineinfo`, NVRTC, Triton and Numba. Not
 * thread-safe.
 *
 * No DWARF library is used: these files have line programs without a unit of .debug_info, and functions in
 * sections of their own that all begin at 0, told apart by relocations of NVIDIA's that libraries do not
 * know; and inlining is encoded in the line program, by an opcode of NVIDIA's (code.c). */
struct mt_code_lines;

/* Finds the line programs. Returns NULL if there are none or out of memory. The cubin must outlive the
 * result. */
struct mt_code_lines *mt_code_lines_open(const struct mt_cubin *cubin);
void mt_code_lines_close(struct mt_code_lines *l);

struct mt_code_frame {
    const char *folder, *file; /* folder that a relative name is relative to, or "" */
    uint32_t line;
    const char *function; /* symbol of the function inlined here; "": name unknown; NULL: not inlined, the
                             place is in the function of the symbol table */
};
/* Returns the number of frames of an instruction, `room` at most, innermost first; 0: unknown. The texts live
 * as long as `l`. */
unsigned mt_code_lines_at(struct mt_code_lines *l, uint32_t section, uint64_t offset,
                          struct mt_code_frame *out, unsigned room);
#endif
