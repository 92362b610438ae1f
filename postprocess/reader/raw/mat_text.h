/* Reader of MAT text traces (docs/trace-format.md): `ip address offset base type size allocsize` lines, type
 * 1 read and 2 (or 0, as MAT itself wrote it) write; `ip file:line` lines anywhere; last line `0 <end>:LOST`.
 * Internal to this project's programs. */
#ifndef MT_LIB_MAT_TEXT_H
#define MT_LIB_MAT_TEXT_H
#include "memtrace/trace.h"

struct mt_mat_record {
    uint64_t ip, address, offset, base, size, allocation;
    unsigned type; /* 1: read, 2: write */
};

struct mt_mat;

/* Opens a trace and reads all its `ip file:line` lines, and sourcelines.txt beside a file that MAT itself
 * wrote. An input that cannot be read twice is spooled to an unnamed file. Returns NULL with *err set on
 * failure. */
struct mt_mat *mt_mat_open(const char *path, const volatile sig_atomic_t *stop, struct mt_error *err);
/* Opens a pipe that is being written: takes over `fd`, waits for lines, knows the locations read so far. */
struct mt_mat *mt_mat_follow(int fd, const char *path, const volatile sig_atomic_t *stop,
                             struct mt_error *err);
/* Reads the next record. Returns 1, 0 at the end, or -1 with *err set: MT_E_CORRUPT (a line was skipped,
 * reading can go on), MT_E_TRUNCATED (the last line is incomplete), MT_E_STOPPED, MT_E_SYSTEM. */
int mt_mat_next(struct mt_mat *m, struct mt_mat_record *r, struct mt_error *err);
/* Returns, after the end, 1 if the trace is complete; 0 if not: *lost accesses are missing, or the end line
 * is (*lost 0); -1 if unknown, since MAT's own files have no end line. */
int mt_mat_whole(const struct mt_mat *m, uint64_t *lost);
/* Returns "file:line", or NULL. */
const char *mt_mat_location(const struct mt_mat *m, uint64_t ip);
void mt_mat_close(struct mt_mat *m);
#endif
