/* Copies and fills as operations of the CPU device, and their lines in companions. */
#ifndef MT_API_COPY_H
#define MT_API_COPY_H
#include "api/memory/memory.h"
#include "api/streams/stream.h"
#include "trace/site.h"
#include <stdint.h>

struct mt_op;
/* Checks a copy and makes its operation. skip: bit 0 the destination, bit 1 the source was checked by whoever
 * made the box (arrays, symbols). */
cudaError_t mt_copy_op(struct mt_op **out, const struct mt_box *b, int skip, const struct mt_host_site *site);
/* Before it is queued in `s`. */
void mt_copy_bind(struct mt_op *op, const struct mt_stream *s);
const struct mt_box *mt_copy_box(const struct mt_op *op);

/* "h2h", "h2d", "d2h", "d2d"; and the lines of a copy, which begins now. `what`: as of
 * mt_planes_copied. */
const char *mt_copy_kind(const struct mt_box *b);
struct mt_memcpy_line;

/* The same for a fill of `depth` planes of `height` rows of `width` bytes. */
struct mt_fill {
    char *p;
    size_t pitch, slice, width, height, depth;
    int value;
    unsigned element; /* bytes of the value: 1, 2 or 4; `width` is a multiple of it */
};
cudaError_t mt_fill_op(struct mt_op **out, const struct mt_fill *f, const struct mt_host_site *site);
/* Fills at once or queues it. sync: not the Async form, which waits when the memory is the host's too. The
 * error is the thread's last one. */
cudaError_t mt_fill_start(struct mt_fill f, cudaStream_t stream, int sync);
void mt_fill_bind(struct mt_op *op, const struct mt_stream *s);
const struct mt_fill *mt_fill_of(const struct mt_op *op);
/* The line of a fill, which happens now. */
void mt_fill_note(const struct mt_fill *f, int64_t stream, const struct mt_host_site *site);
#endif
