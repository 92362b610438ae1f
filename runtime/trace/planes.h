/* Lines of copies and fills of several planes: one for each plane, as docs/trace-format.md has them.
 * Addresses and strides are in bytes, `slice` being from one plane to the next. */
#ifndef MT_TRACE_PLANES_H
#define MT_TRACE_PLANES_H
#include <stdint.h>
#include "site.h"

struct mt_planes {
    uint64_t at, pitch, slice;
    int device; /* as of mt_event_alloc */
};
/* What of each side is copied or filled: `width` bytes of each of `height` rows of each of `depth` planes. */
struct mt_planes_size {
    uint64_t width, height, depth;
};
/* `what`: all that the lines say beside these: `kind`, `stream` …; `site` may be NULL. */
struct mt_memcpy_line;
void mt_planes_copied(struct mt_planes dst, struct mt_planes src, struct mt_planes_size size,
                      const struct mt_memcpy_line *what, const struct mt_host_site *site);
/* `stream`: number of the stream's trace, or -1; `value`: of a byte, or of an element. */
void mt_planes_filled(struct mt_planes dst, struct mt_planes_size size, uint64_t value, int64_t stream,
                      const struct mt_host_site *site);
#endif
