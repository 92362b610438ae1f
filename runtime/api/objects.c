/* Allocations as the trace knows them, on both devices: an id per allocation, found by address. */
#include "objects.h"
#include "trace/events.h"
#include "trace/ranges.h"
#include "base/fork.h"
#include <stdlib.h>
#include <string.h>

struct mt_object {
    uint64_t id, base, bytes;
    const char *kind;
};
static struct mt_ranges objects = MT_RANGES_INIT;
MT_FORK_TABLE(objects);

void mt_object_add(const void *p, uint64_t bytes, const char *kind, const struct mt_host_site *site)
{
    if (!p || !mt_tracing())
        return;
    uint64_t id = mt_event_alloc((uint64_t)(uintptr_t)p, bytes, kind, NULL, site);
    struct mt_object *o = malloc(sizeof *o);
    if (!o)
        return; /* its free will not be logged */
    *o = (struct mt_object){id, (uint64_t)(uintptr_t)p, bytes, kind};
    if (mt_ranges_add(&objects, o->base, bytes, o))
        free(o);
}

struct mt_object *mt_object_take(const void *p)
{
    struct mt_range r;
    return p && mt_ranges_take(&objects, (uint64_t)(uintptr_t)p, &r) ? r.data : NULL;
}

void mt_object_done(struct mt_object *o, int freed)
{
    if (!o)
        return;
    if (freed)
        mt_event_free(o->id, o->base);
    if (freed || mt_ranges_add(&objects, o->base, o->bytes, o))
        free(o);
}

int mt_object_is_device(const void *p)
{
    struct mt_range r;
    return mt_ranges_find(&objects, (uint64_t)(uintptr_t)p, &r) &&
           strcmp(((struct mt_object *)r.data)->kind, "host");
}

void mt_objects_reset(void)
{
    struct mt_range r;
    while (mt_ranges_pop(&objects, &r))
        mt_object_done(r.data, 1);
}
