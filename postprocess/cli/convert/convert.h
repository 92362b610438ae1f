/* Parts of memtrace convert: a container as text, or as another container. */
#ifndef MT_CLI_CONVERT_H
#define MT_CLI_CONVERT_H
#include <stdio.h>
#include "cli/base/cli.h"
#include "memtrace/host.h"

/* Gets the next item; says what is damaged and goes on after it. 1: *item; 0: the end; -1: an error that
 * ends all (said). *code becomes the exit code that damage asks for. */
int mt_convert_next(struct mt_host_reader *r, struct mt_host_item *item, int *code);

/* The same, but a trace without such lines (`c` NULL or empty) says nothing of itself: 0. */
int mt_convert_complete_if_known(const char *path, const struct mt_companion *c);

/* The same of a container's `own` lines and, with `look_beside`, of the companion that the program wrote
 * beside it: where a disk was full, that knows more. One of another run says nothing. */
int mt_convert_container_complete(const char *path, const struct mt_companion *own, int look_beside);

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
/* Chunk by chunk, from the file itself. */
int mt_convert_repack(struct mt_window *in, FILE *f, int level, const struct mt_convert_choice *want);
/* A raw trace with its companion (NULL: none; `optional`: it need not be there) becomes a container. */
int mt_convert_from_raw(struct mt_window *in, const char *companion, int optional, FILE *f, int level);
/* Does the file begin like a raw trace? 0 for what cannot be read twice (a FIFO, -). */
int mt_convert_is_raw(const char *path);
int mt_convert_window_is_raw(struct mt_window *in);
/* And back; the companion's lines go to the file `meta` (NULL: nowhere), if there are some. It is made, or is
 * a regular file, if the user has not `named` it. */
int mt_convert_to_raw(const char *path, FILE *f, const char *meta, int named,
                      const struct mt_convert_choice *want);
#endif
