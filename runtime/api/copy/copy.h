/* Copies and fills as operations of the CPU device, and their lines in companion files. */
#ifndef MT_API_COPY_H
#define MT_API_COPY_H
#include "api/memory/memory.h"
#include "api/streams/stream.h"
#include "trace/site.h"
#include <stdint.h>

struct mt_op;
/* Checks a copy and makes its operation. skip: bit 0: destination, bit 1: source already checked by the maker
 * of the box (arrays, symbols). */
cudaError_t mt_copy_op(struct mt_op **out, const struct mt_box *b, int skip, const struct mt_host_site *site);
/* Prepares the operation before it is queued in `s`. */
void mt_copy_bind(struct mt_op *op, const struct mt_stream *s);
const struct mt_box *mt_copy_box(const struct mt_op *op);

/* Returns "h2h", "h2d", "d2h" or "d2d". The second logs the lines of a copy that begins now; `what` as for
 * mt_planes_copied. */
const char *mt_copy_kind(const struct mt_box *b);
struct mt_memcpy_line;

/* A fill of `depth` planes of `height` rows of `width` bytes, and its operation. */
struct mt_fill {
    char *p;
    size_t pitch, slice, width, height, depth;
    int value;
    unsigned element; /* size of the value: 1, 2 or 4 bytes; `width` is a multiple of it */
};
cudaError_t mt_fill_op(struct mt_op **out, const struct mt_fill *f, const struct mt_host_site *site);
/* Fills at once, or queues the fill. sync: the form that is not Async; it waits for memory that the host can
 * read. An error becomes the thread's last error. */
cudaError_t mt_fill_start(struct mt_fill f, cudaStream_t stream, int sync);
void mt_fill_bind(struct mt_op *op, const struct mt_stream *s);
const struct mt_fill *mt_fill_of(const struct mt_op *op);
/* Logs the line of a fill that happens now. */
void mt_fill_note(const struct mt_fill *f, int64_t stream, const struct mt_host_site *site);
#endif
