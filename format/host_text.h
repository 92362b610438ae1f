/* Writers of the three host texts, for the core and for converters of compact traces. No state, no
 * allocation. Every function writes whole lines, at most `room` bytes, and returns the number of bytes (0:
 * nothing to write, or no room). Lines end with LF; numbers are decimal unless shown otherwise.
 *
 * Atomic text, TAB between fields, every line begins with time and thread (-1: not registered):
 *   T t m[ r ADDR SIZE][ r2 ADDR][ w ADDR SIZE]   one instruction; r2 has the size of r
 *   T t tr | tf | start_roi | end_roi | ctxt_change | thread_sync
 *   T t fc NAME SP A1 A2 A3 | fr NAME SP VALUE
 *
 * Mat text, blank between fields:
 *   IP ADDRESS OFFSET BASE TYPE SIZE ALLOCSIZE    type 1 read, 2 write (--mat-files: 0); an atomic is both
 *   IP FILE:LINE                                  before the first access of IP, if known
 *   0 <end>:LOST                                  last line, if the program ended; not with --mat-files
 * IP is the site's number if the engine knows no address. Outside of all allocations (--all) OFFSET, BASE and
 * ALLOCSIZE are 0.
 *
 * Instruction text, TAB between fields; a head line for each executed instruction, ascending by address,
 * followed by a line for each of its executions, in order of execution:
 *   0xADDRESS INSTRUCTION R:REGISTERS W:REGISTERS registers separated by blanks, "*" after floating-point
 *                                                 and vector ones
 *   <empty> ORDER[ R 0xADDRESS SIZE| W 0xADDRESS SIZE]…  ORDER counts executions over all threads from 0 */
#ifndef MT_HOST_TEXT_H
#define MT_HOST_TEXT_H
#include <stddef.h>
#include "memtrace/container.h"

#define MT_TEXT_LINE 1024u /* bytes that hold any line without names */

/* Operands of one m line of atomic text. Initialise with {0}. */
struct mt_text_access {
    uint64_t r, r2, w;
    uint32_t r_size, w_size;
    unsigned has; /* 1 r, 2 r2, 4 w */
};
/* Adds an operand. Returns 1, or 0 if the line is full (third read, second write, different sizes). */
int mt_text_access_add(struct mt_text_access *a, enum mt_host_op op, uint64_t address, uint32_t size);
size_t mt_text_access(char *out, size_t room, uint64_t time, int64_t thread, const struct mt_text_access *a);
/* Writes an event; returns 0 if it has no text (SEQ, CLOCK, LOST). `name`: function of CALL and RETURN. */
size_t mt_text_event(char *out, size_t room, uint64_t time, int64_t thread, enum mt_host_event event,
                     const uint64_t *args, unsigned n, const char *name);

struct mt_text_mat {
    uint64_t ip, address, offset, base, allocation;
    uint32_t size;
    enum mt_host_op op;
    int mat_files; /* 1: in the form that MAT writes */
};
size_t mt_text_mat_access(char *out, size_t room, const struct mt_text_mat *a);
/* Writes the location of an instruction; without a file it is ":0". */
size_t mt_text_mat_location(char *out, size_t room, uint64_t ip, const char *file, uint32_t line);
/* Location in the last line. Readers that do not know it see a location that no instruction has. */
#define MT_TEXT_MAT_END "<end>"
size_t mt_text_mat_end(char *out, size_t room, uint64_t lost);

size_t mt_text_insn_head(char *out, size_t room, uint64_t ip, const char *text, const char *reads,
                         const char *writes);
/* Parts of an execution: beginning, operands, end. */
size_t mt_text_insn_begin(char *out, size_t room, uint64_t order);
size_t mt_text_insn_operand(char *out, size_t room, enum mt_host_op op, uint64_t address, uint32_t size);
size_t mt_text_insn_end(char *out, size_t room);
#endif
