/* Machine code of the modules that a GPU has loaded: from a program counter to a site of the companions, that
 * is function, offset, file and line. Cubins are somebody else's data: what is damaged in them costs lines
 * and names, nothing else. All functions may be called from several threads at once; only the thread that
 * unloads a code may use it at that time. */
#ifndef MT_INJECT_CODE_H
#define MT_INJECT_CODE_H
#include <stddef.h>
#include <stdint.h>

struct mt_gpu_code;

/* Keeps what it needs of the cubin (an ELF file in memory). NULL: there is no memory, or it is no cubin. */
struct mt_gpu_code *mt_code_new(const void *cubin, size_t bytes);
/* Asks for each function of the cubin, by its symbol, where it lies on the GPU: `where` sets both and returns
 * 0, or returns something else where it does not know. A size of 0 stands for the symbol's. */
void mt_code_place(struct mt_gpu_code *c,
                   int (*where)(void *data, const char *function, uint64_t *pc, uint64_t *size), void *data);
/* Calls `f` for each kernel, until it returns something other than 0, which is then the result; else 0. The
 * names stay as long as the code. */
int mt_code_each_kernel(const struct mt_gpu_code *c, int (*f)(void *data, const char *mangled), void *data);
/* The module is gone: its program counters may be another's from now on. Its sites stay. Frees `c`; NULL is
 * nothing. */
void mt_code_unload(struct mt_gpu_code *c);
/* The id of the `site` line of the instruction at `pc` that makes accesses of this type and size
 * (mt_rec_meta). The line is written when both are seen for the first time. 0: nobody knows the place. Fast,
 * and without a lock, where it was asked before. */
uint32_t mt_code_site(uint64_t pc, uint32_t meta);

/* The ELF file of a module: its code sections, functions, and what line programs need. Copies what it keeps.
 * Every number of the file is doubted: what leads out of it is left out. */
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

/* Source lines of a cubin's code: .debug_line, as `nvcc -lineinfo`, NVRTC, Triton and Numba have it. Not
 * thread-safe.
 *
 * Why no library for DWARF: these files have line programs without a unit of .debug_info, and functions in
 * sections of their own that all begin at 0, told apart by relocations of NVIDIA's that libraries do not
 * know; and what was inlined is said in the line program, by an opcode of NVIDIA's (lines.c). */
struct mt_code_lines;

/* Reads where line programs are. NULL: there are none, or no memory. The cubin has to stay. */
struct mt_code_lines *mt_code_lines_open(const struct mt_cubin *cubin);
void mt_code_lines_close(struct mt_code_lines *l);

struct mt_code_frame {
    const char *folder, *file; /* "" or a folder that a relative name is relative to */
    uint32_t line;
    const char *function; /* symbol of what was inlined here; "": its name is not known; NULL: nothing was
                             inlined, the place is in the function that the symbols name */
};
/* The frames of an instruction, the innermost first. Returns how many there are, `room` at most; 0: not
 * known. The texts stay as long as `l`. */
unsigned mt_code_lines_at(struct mt_code_lines *l, uint32_t section, uint64_t offset,
                          struct mt_code_frame *out, unsigned room);
#endif
