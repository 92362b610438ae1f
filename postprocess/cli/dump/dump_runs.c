/* Runs as text: what a warp did at once, or neighbouring records that are evenly spaced. */
#define _GNU_SOURCE
#include "dump.h"
#include <inttypes.h>

void mt_dump_run(FILE *f, const struct mt_access_run *r, const struct mt_companion *c)
{
    static const char *const types[] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = text,
#define MT_ACCESS_SYNC(name, code, text) [code] = text,
#include "memtrace/record.def"
    };
    static const char *const spaces[] = {
#define MT_ACCESS_SPACE(name, code, text) [code] = text " ",
#include "memtrace/record.def"
        ""};
    uint32_t type = r->meta >> 28, space = mt_rec_space(type);
    const struct mt_site_event *s = r->site ? mt_companion_site(c, r->site) : NULL;
    fprintf(f, "%s%s %u x %" PRIu32 " 0x%" PRIx64, space ? spaces[space] : "",
            types[space <= MT_IN_LOCAL ? type & 3 : type], r->meta & ((1u << 28) - 1), r->count, r->base);
    if (r->addresses)
        for (uint32_t i = 1; i < r->count; i++)
            fprintf(f, ",0x%" PRIx64, r->addresses[i]);
    else if (r->count > 1)
        fprintf(f, " %+" PRId64, r->stride);
    fprintf(f, " cta %u,%u,%u sm %" PRIu32, (unsigned)(r->cta >> 32), (unsigned)(r->cta >> 16 & 0xffff),
            (unsigned)(r->cta & 0xffff), r->smid);
    if (r->warp != MT_RUN_NO_WARP)
        fprintf(f, " warp %" PRIu32, r->warp);
    if (r->mask)
        fprintf(f, " mask 0x%08" PRIx32, r->mask);
    if (r->site)
        fprintf(f, " site %" PRIu32, r->site);
    if (s && *s->var)
        fprintf(f, " of %s", s->var);
    if (s && *s->file)
        fprintf(f, " at %s:%" PRIu64, s->file, s->line);
    else if (s && *s->at)
        fprintf(f, " at %s", s->at);
    fputc('\n', f);
}
