/* What the writers of containers in memtrace convert share. */
#ifndef MT_CLI_CONVERT_WRITE_H
#define MT_CLI_CONVERT_WRITE_H
#include <stdio.h>
#include "format/container/writer.h"
#include "memtrace/host.h"

/* mt_mtc_file.write to a FILE. */
int mt_convert_write(void *file, const void *data, size_t bytes);

/* Lines that become meta chunks. Zero-initialised but for `w`; `text` is to be freed. */
struct mt_convert_lines {
    struct mt_mtc_writer *w;
    char *text;
    size_t bytes, room;
    uint64_t count;
};
/* A line, with or without its LF. 0 or an errno value. */
int mt_convert_line_add(struct mt_convert_lines *l, const char *line, size_t n);
/* Writes what is there as a chunk. */
int mt_convert_lines_end(struct mt_convert_lines *l);
/* {"ev": "kernel", …} with LF, to be freed; NULL: no memory. */
char *mt_convert_kernel_line(uint32_t id, const char *name);
#define MT_CONVERT_UNREAD "memtrace convert could not read all of"
/* Lines with LF that a copy of `path` ends with for the reason `what`, to be freed; NULL: no memory. `c`:
 * what the original says of itself; a copy has no end where a kill took that of the original. */
char *mt_convert_partial_lines(const char *what, const char *path, const struct mt_companion *c);
/* The same into a container. An exit code, not 0. */
int mt_convert_partial(struct mt_mtc_writer *w, const char *what, const char *path,
                       const struct mt_companion *c);
/* Is it such a line? */
int mt_convert_is_kernel(const char *line, size_t n);

/* Launches that were chosen, by ascending seq. Nothing is left out when `all`. */
struct mt_convert_chosen {
    int all;
    uint64_t *seq;
    size_t count;
    uint64_t accesses, others; /* to global memory; other ones, and barriers */
};
struct mt_convert_choice;
/* What of the file at `path` is wanted; c->seq is to be freed. 0, or an exit code. */
int mt_convert_choose(const char *path, const struct mt_convert_choice *want, struct mt_convert_chosen *c);
int mt_convert_is_chosen(const struct mt_convert_chosen *c, uint64_t seq);
/* What becomes of a line of a companion or meta chunk (n bytes, without LF): *out, to be freed, or NULL: it
 * stays as it is. 0, or -1 without memory. Launches that were not chosen become untraced ones, sums are made
 * anew; `raw`: the header says so. */
int mt_convert_line(const struct mt_convert_chosen *c, int raw, const char *line, size_t n, char **out);
#endif
