/* Copies and fills as operations of the CPU device, and their lines in companion files. */
#ifndef MT_API_COPY_H
#define MT_API_COPY_H
#include "api/memory/memory.h"
#include "api/streams/stream.h"
#include "trace/site.h"
#include <stdint.h>

struct mt_copy_op {
    struct mt_op op;
    struct mt_box box;
    struct mt_box moved; /* box to copy; its source may be staged */
    void *staged;        /* staging memory, or NULL */
    const char *kind;    /* kind as in companion files */
    int64_t stream;      /* number of the stream's trace */
};
/* Checks a copy and makes its operation. skip: bit 0: destination, bit 1: source already checked by the maker
 * of the box (arrays, symbols). */
cudaError_t mt_copy_op(struct mt_op **out, const struct mt_box *b, int skip, const struct mt_host_site *site);

/* Returns "h2h", "h2d", "d2h" or "d2d". */
const char *mt_copy_kind(const struct mt_box *b);

/* A fill of `depth` planes of `height` rows of `width` bytes, and its operation. */
struct mt_fill {
    char *p;
    size_t pitch, slice, width, height, depth;
    int value;
    unsigned element; /* size of the value: 1, 2 or 4 bytes; `width` is a multiple of it */
};
struct mt_fill_op {
    struct mt_op op;
    struct mt_fill fill;
    int64_t stream;
};
cudaError_t mt_fill_op(struct mt_op **out, const struct mt_fill *f, const struct mt_host_site *site);
/* Fills at once, or queues the fill. sync: the form that is not Async; it waits for memory that the host can
 * read. An error becomes the thread's last error. */
cudaError_t mt_fill_start(struct mt_fill f, cudaStream_t stream, int sync);
/* Logs the line of a fill that happens now. */
void mt_fill_note(const struct mt_fill *f, int64_t stream, const struct mt_host_site *site);
#endif
