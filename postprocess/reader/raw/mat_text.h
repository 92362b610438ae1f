/* Reading MAT text traces (docs/trace-format.md): `ip address offset base type size allocsize` lines, type 1
 * read and 2 (or 0, as MAT itself wrote it) write, and `ip file:line` lines, which may be anywhere; the last
 * line is `0 <end>:LOST`.
 * Private to this project's programs. */
#ifndef MT_LIB_MAT_TEXT_H
#define MT_LIB_MAT_TEXT_H
#include "memtrace/trace.h"

struct mt_mat_record {
    uint64_t ip, address, offset, base, size, allocation;
    unsigned type; /* 1 or 2 */
};

struct mt_mat;

/* Reads all `ip file:line` lines, those of sourcelines.txt beside a file of MAT itself, too; what cannot be
 * read twice goes through an unnamed file. NULL: *err. */
struct mt_mat *mt_mat_open(const char *path, const volatile sig_atomic_t *stop, struct mt_error *err);
/* The same of a pipe as it is written: takes `fd`, waits for lines,
 * and knows only the places that it has passed. */
struct mt_mat *mt_mat_follow(int fd, const char *path, const volatile sig_atomic_t *stop,
                             struct mt_error *err);
/* 1; 0 at the end; -1 with *err: MT_E_CORRUPT (a line is left out, calls may go on), MT_E_TRUNCATED (the last
 * line has no end), MT_E_STOPPED, MT_E_SYSTEM. */
int mt_mat_next(struct mt_mat *m, struct mt_mat_record *r, struct mt_error *err);
/* Of what was read, after its end: 1 whole; 0 not: *lost accesses are missing, or (0) there is no end line;
 * -1 not known, as in MAT's own files, which have none. */
int mt_mat_whole(const struct mt_mat *m, uint64_t *lost);
/* "file:line", or NULL. */
const char *mt_mat_location(const struct mt_mat *m, uint64_t ip);
void mt_mat_close(struct mt_mat *m);
#endif
