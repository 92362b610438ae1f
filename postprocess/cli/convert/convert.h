/* Parts of memtrace convert: a container as text, or as another container. */
#ifndef MT_CLI_CONVERT_H
#define MT_CLI_CONVERT_H

#include <stdio.h>
#include "cli/base/cli.h"
#include "memtrace/host.h"

/* Gets the next item; says what is damaged and goes on after it. 1: *item; 0: the end; -1: an error that
 * ends all (said). *code becomes the exit code that damage asks for. */
int mt_convert_next(struct mt_host_reader *r, struct mt_host_item *item, int *code);

/* Each writes all of the reader's items to `f`. 0 or an exit code, words said. */
int mt_convert_atomic(struct mt_host_reader *r, FILE *f);

int mt_convert_mat(struct mt_host_reader *r, FILE *f, int all);
int mt_convert_insn(struct mt_host_reader *r, FILE *f);
struct mt_window; /* reader/container/container.h */

/* Which launches of a container. */
struct mt_convert_choice {
    const struct mt_filter *filter;
    int has_stream, no_beside; /* no_beside: the companion beside the container is not looked at */
    uint32_t stream;
};

#endif
