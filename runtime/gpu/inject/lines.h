/* Source lines of a cubin's code: .debug_line, as `nvcc -lineinfo`, NVRTC, Triton and Numba have it. Not
 * thread-safe.
 *
 * Why no library for DWARF: these files have line programs without a unit of .debug_info, and functions in
 * sections of their own that all begin at 0, told apart by relocations of NVIDIA's that libraries do not
 * know; and what was inlined is said in the line program, by an opcode of NVIDIA's (lines.c). */
#ifndef MT_INJECT_LINES_H
#define MT_INJECT_LINES_H
#include "cubin.h"

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
