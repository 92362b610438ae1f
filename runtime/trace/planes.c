/* Lines of copies and fills of several planes. */
#include "planes.h"
#include "events.h"

/* Rows that follow each other without a gap are one block. */
static int planes_have_gaps(const struct mt_planes *p, const struct mt_planes_size *size)
{
    return size->height > 1 && p->pitch != size->width;
}

static int planes_are_empty(const struct mt_planes_size *size)
{
    return !mt_tracing() || !size->width || !size->height;
}

void mt_planes_copied(struct mt_planes dst, struct mt_planes src, struct mt_planes_size size,
                      const struct mt_memcpy_line *what, const struct mt_host_site *site)
{
    struct mt_memcpy_line c = *what;
    c.bytes = size.width * size.height;
    c.dst_device = dst.device;
    c.src_device = src.device;
    if (planes_are_empty(&size))
        return;
    if (planes_have_gaps(&dst, &size) || planes_have_gaps(&src, &size)) {
        c.width = size.width;
        c.height = size.height;
        c.dpitch = dst.pitch;
        c.spitch = src.pitch;
    }
    for (uint64_t z = 0; z < size.depth; z++) {
        c.dst = dst.at + z * dst.slice;
        c.src = src.at + z * src.slice;
        mt_event_memcpy(&c, site);
    }
}

void mt_planes_filled(struct mt_planes dst, struct mt_planes_size size, uint64_t value, int64_t stream,
                      const struct mt_host_site *site)
{
    struct mt_memset_line f = {.value = value, .bytes = size.width * size.height, .stream = stream};
    if (planes_are_empty(&size))
        return;
    if (planes_have_gaps(&dst, &size)) {
        f.width = size.width;
        f.height = size.height;
        f.pitch = dst.pitch;
    }
    for (uint64_t z = 0; z < size.depth; z++) {
        f.dst = dst.at + z * dst.slice;
        mt_event_memset(&f, site);
    }
}
