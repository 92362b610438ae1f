/* Lines of copies and fills of several planes: one for each plane, as docs/trace-format.md has them.
 * Addresses and strides are in bytes, `slice` being from one plane to the next. */
#ifndef MT_TRACE_PLANES_H
#define MT_TRACE_PLANES_H
#include <stdint.h>
#include "site.h"

struct mt_planes {
    uint64_t at, pitch, slice;
    int device; /* as of mt_event_alloc */
    int held;   /* of a destination: it holds already what is copied to it */
};
/* What of each side is copied or filled: `width` bytes of each of `height` rows of each of `depth` planes. */
struct mt_planes_size {
    uint64_t width, height, depth;
};
/* `kind`: "h2h", "h2d", "d2h", "d2d"; `stream`: number of the stream's trace, or -1; `site` may be NULL. */
void mt_planes_copied(struct mt_planes dst, struct mt_planes src, struct mt_planes_size size,
                      const char *kind, int64_t stream, const struct mt_host_site *site);
/* `value`: of a byte, or of an element. */
void mt_planes_filled(struct mt_planes dst, struct mt_planes_size size, uint64_t value, int64_t stream,
                      const struct mt_host_site *site);
#endif
