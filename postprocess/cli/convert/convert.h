/* Parts of memtrace convert: a compact trace as text, or as another compact trace. */
#ifndef MT_CLI_CONVERT_H
#define MT_CLI_CONVERT_H

#include <stdio.h>
#include "cli/base/cli.h"
#include "memtrace/host.h"

/* Reads the next item; reports damage and continues after it. Returns 1 with *item, 0 at the end, or -1 for a
 * fatal error (reported). *code becomes the exit code for damage. */
int mt_convert_next(struct mt_host_reader *r, struct mt_host_item *item, int *code);

/* Write all of the reader's items to `f`. Return 0, or an exit code after a message. */
int mt_convert_atomic(struct mt_host_reader *r, FILE *f);

int mt_convert_mat(struct mt_host_reader *r, FILE *f, int all);
int mt_convert_insn(struct mt_host_reader *r, FILE *f);
struct mt_window; /* reader/container/container.h */

/* Choice of launches in a compact trace. */
struct mt_convert_choice {
    const struct mt_filter *filter;
    int has_stream, no_beside; /* no_beside 1: ignores the companion beside the compact trace */
    uint32_t stream;
};

#endif
