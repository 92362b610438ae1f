/* Allocations as known to the trace, on both devices: an id per allocation, found by address. */
#define _GNU_SOURCE
#include "objects.h"
#include "trace/events.h"
#include "site.h"
#include "trace/ranges.h"
#include "base/fork.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mt_object {
    uint64_t id, base, bytes;
    const char *kind;
    int device; /* device as for mt_event_alloc */
    char *rest; /* rest of its name, from malloc; NULL: no name */
};
static struct mt_ranges objects = MT_RANGES_INIT;
MT_FORK_TABLE(objects);
static pthread_mutex_t naming =
    PTHREAD_MUTEX_INITIALIZER; /* protects names, and named objects from being freed */
MT_FORK_LOCK(naming, MT_FORK_LEAVES);

int64_t mt_object_add_from(const void *p, uint64_t bytes, const char *kind, int device,
                           const struct mt_host_site *site, int64_t from)
{
    if (!p || !mt_tracing())
        return -1;
    uint64_t id = mt_event_alloc((uint64_t)(uintptr_t)p, bytes, kind, NULL, device, site, from);
    mt_python_array(id, site);
    struct mt_object *o = malloc(sizeof *o);
    if (!o)
        return (int64_t)id; /* its free will not be logged */
    *o = (struct mt_object){id, (uint64_t)(uintptr_t)p, bytes, kind, device, NULL};
    if (mt_ranges_add(&objects, o->base, bytes, o))
        free(o);
    return (int64_t)id;
}

int64_t mt_object_add(const void *p, uint64_t bytes, const char *kind, int device,
                      const struct mt_host_site *site)
{
    return mt_object_add_from(p, bytes, kind, device, site, -1);
}

int64_t mt_object_id(const void *p)
{
    struct mt_range r;
    pthread_mutex_lock(&naming); /* keeps it from being freed meanwhile */
    int found = mt_ranges_find(&objects, (uint64_t)(uintptr_t)p, &r);
    int64_t id = found ? (int64_t)((struct mt_object *)r.data)->id : -1;
    pthread_mutex_unlock(&naming);
    return id;
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
    if (!freed && !mt_ranges_add(&objects, o->base, o->bytes, o))
        return;
    pthread_mutex_lock(&naming);
    free(o->rest);
    free(o);
    pthread_mutex_unlock(&naming);
}

int64_t mt_object_split(const void *p, uint64_t bytes, const struct mt_host_site *site, const char **kind,
                        int *device)
{
    uint64_t base = (uint64_t)(uintptr_t)p, end = base + bytes;
    struct mt_range r;
    if (!mt_ranges_find(&objects, base, &r) || bytes > r.base + r.bytes - base ||
        !mt_ranges_take(&objects, r.base, &r))
        return -1;
    struct mt_object *o = r.data;
    int64_t id = (int64_t)o->id;
    *kind = o->kind;
    *device = o->device;
    mt_object_done(o, 1);
    if (base > r.base)
        mt_object_add_from((const void *)(uintptr_t)r.base, base - r.base, *kind, *device, site, id);
    if (end < r.base + r.bytes)
        mt_object_add_from((const void *)(uintptr_t)end, r.base + r.bytes - end, *kind, *device, site, id);
    return id;
}

void mt_objects_end(const void *p, uint64_t bytes)
{
    uint64_t base = (uint64_t)(uintptr_t)p;
    struct mt_range below, r;
    mt_object_done(mt_object_take(p), 1);
    while (mt_ranges_around(&objects, base, &below, &r), r.bytes && r.base - base < bytes)
        mt_object_done(mt_object_take((const void *)(uintptr_t)r.base), 1);
}

/* Called with the lock held. */
static void object_rename(struct mt_object *o, const struct mt_object_name *n)
{
    const char *kept = n->record && o->rest ? o->rest : "";
    char *rest = NULL, *name = NULL;
    int arrow = n->record == MT_NAME_POINTED && *kept == '.';
    if (asprintf(&rest, "%s%s", n->rest, kept) < 0 ||
        asprintf(&name, "%s%s%s", n->name, arrow ? "->" : "", kept + arrow) < 0) {
        free(rest); /* out of memory: keeps its name */
        return;
    }
    mt_event_name(o->id, name);
    free(name);
    free(o->rest);
    o->rest = rest;
}

void mt_object_name(uint64_t base, uint64_t since, const struct mt_object_name *n)
{
    struct mt_range r;
    pthread_mutex_lock(&naming);
    if (base && mt_ranges_find(&objects, base, &r)) {
        struct mt_object *o = r.data;
        if (o->base == base && o->id >= since)
            object_rename(o, n);
    }
    pthread_mutex_unlock(&naming);
}

void mt_object_name_whole(const void *p, const char *name)
{
    struct mt_range r;
    uint64_t id = 0;
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        pthread_mutex_lock(&naming);
        int found = mt_ranges_find(&objects, (uint64_t)(uintptr_t)p, &r);
        if (found && !forgotten)
            id = ((struct mt_object *)r.data)->id;
        if (found && forgotten)
            object_rename(r.data, &(struct mt_object_name){name, "", 0});
        pthread_mutex_unlock(&naming);
        if (found && !forgotten)
            mt_python_forget(id); /* takes a lock that comes before this one */
    }
}

int mt_object_is_device(const void *p)
{
    struct mt_range r;
    return mt_ranges_find(&objects, (uint64_t)(uintptr_t)p, &r) &&
           strcmp(((struct mt_object *)r.data)->kind, "host");
}

int mt_object_device(const void *p)
{
    struct mt_range r;
    pthread_mutex_lock(&naming); /* keeps it from being freed meanwhile */
    int found = mt_ranges_find(&objects, (uint64_t)(uintptr_t)p, &r);
    int device = found ? ((struct mt_object *)r.data)->device : -1;
    pthread_mutex_unlock(&naming);
    return device;
}

void mt_objects_reset(int (*gone)(uint64_t base))
{
    struct mt_range r;
    struct mt_ranges stay = MT_RANGES_INIT;
    while (mt_ranges_pop(&objects, &r)) {
        if (!gone || gone(r.base))
            mt_object_done(r.data, 1);
        else
            mt_ranges_add(&stay, r.base, r.bytes, r.data);
    }
    while (mt_ranges_pop(&stay, &r))
        mt_ranges_add(&objects, r.base, r.bytes, r.data);
}
