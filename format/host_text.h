/* The three host texts, for the core and for whoever turns a container into text. No state, no allocation;
 * every function writes whole lines, at most `room` bytes, and returns their number (0: nothing to say, or no
 * room). Lines end with LF; numbers are decimal unless shown otherwise.
 *
 * Atomic text, TAB between fields, every line begins with time and thread (-1: not registered):
 *   T t m[ r ADDR SIZE][ r2 ADDR][ w ADDR SIZE]   one instruction; r2 has the size of r
 *   T t tr | tf | start_roi | end_roi | ctxt_change | thread_sync
 *   T t fc NAME SP A1 A2 A3 | fr NAME SP VALUE
 *
 * Mat text, blank between fields:
 *   IP ADDRESS OFFSET BASE TYPE SIZE ALLOCSIZE    type 1 read, 2 write (--mat-files: 0); an atomic is both
 *   IP FILE:LINE                                  before the first access of IP, when known
 *   0 <end>:LOST                                  last, if the program came to its end; not with --mat-files
 *   IP is the site's number where the engine knows no address. Outside of all allocations (--all) OFFSET,
 * BASE and ALLOCSIZE are 0.
 *
 * Instruction text, TAB between fields; one head line for each instruction that was executed, ascending by
 * address, and after it one line for each of its executions, in order of execution:
 *   0xADDRESS INSTRUCTION R:REGISTERS W:REGISTERS   registers separated by blanks, "*" after floating-point
 *                                                   and vector ones
 *   <empty> ORDER[ R 0xADDRESS SIZE| W 0xADDRESS SIZE]…   ORDER counts executions over all threads from 0 */
#ifndef MT_HOST_TEXT_H
#define MT_HOST_TEXT_H
#include <stddef.h>
#include "memtrace/container.h"

#define MT_TEXT_LINE 1024u /* room for any line without names */

/* One m line while it is put together. Start with {0}. */
struct mt_text_access {
    uint64_t r, r2, w;
    uint32_t r_size, w_size;
    unsigned has; /* 1 r, 2 r2, 4 w */
};
/* 1: the operand is in; 0: it does not fit into this line (third read, second write, sizes that differ). */
int mt_text_access_add(struct mt_text_access *a, enum mt_host_op op, uint64_t address, uint32_t size);
size_t mt_text_access(char *out, size_t room, uint64_t time, int64_t thread, const struct mt_text_access *a);
/* Events without text (SEQ, CLOCK, LOST) give 0. `name`: of the function in CALL and RETURN. */
size_t mt_text_event(char *out, size_t room, uint64_t time, int64_t thread, enum mt_host_event event,
                     const uint64_t *args, unsigned n, const char *name);

struct mt_text_mat {
    uint64_t ip, address, offset, base, allocation;
    uint32_t size;
    enum mt_host_op op;
    int mat_files; /* as MAT wrote them */
};
size_t mt_text_mat_access(char *out, size_t room, const struct mt_text_mat *a);
/* Without a file: ":0". */
size_t mt_text_mat_location(char *out, size_t room, uint64_t ip, const char *file, uint32_t line);
/* The last line. For readers that do not know it, it is the place of no instruction. */
#define MT_TEXT_MAT_END "<end>"
size_t mt_text_mat_end(char *out, size_t room, uint64_t lost);

size_t mt_text_insn_head(char *out, size_t room, uint64_t ip, const char *text, const char *reads,
                         const char *writes);
/* An execution is its beginning, its operands and its end. */
size_t mt_text_insn_begin(char *out, size_t room, uint64_t order);
size_t mt_text_insn_operand(char *out, size_t room, enum mt_host_op op, uint64_t address, uint32_t size);
size_t mt_text_insn_end(char *out, size_t room);
#endif
