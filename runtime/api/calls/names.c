/* What allocations are called: by the variables of the caller that hold their addresses, and by
 * memtrace_name. */
#include "api/memory/array.h"
#include "trace/objects.h"
#include "memtrace/annotate.h"
#include "trace/events.h"
#include <stdio.h>
#include <string.h>

enum { NAME = 512 };

__attribute__((visibility("default"))) uint64_t __mt_host_allocations(void)
{
    return mt_event_allocations();
}

/* The name with the index that was used in its last "[]". */
static const char *names_indexed(char out[NAME], const char *name, uint64_t index)
{
    const char *at = NULL;
    for (const char *c = name; (c = strstr(c, "[]")); c++)
        at = c;
    if (!at || index == UINT64_MAX)
        return name;
    snprintf(out, NAME, "%.*s[%lld]%s", (int)(at - name), name, (long long)index, at + 2);
    return out;
}

/* An array's handle stands for its memory. */
static uint64_t names_base(uint64_t word)
{
    struct mt_array *array = word ? mt_array_get((cudaArray_const_t)(uintptr_t)word) : NULL;
    return array ? (uint64_t)(uintptr_t)array->data : word;
}

__attribute__((visibility("default"))) void __mt_host_named(const struct mt_host_name *what, uint64_t before,
                                                            const void *slot, uint64_t value, uint64_t index)
{
    char name[NAME], rest[NAME];
    if (mt_event_allocations() == before) /* nothing was allocated meanwhile: nearly always */
        return;
    struct mt_object_name n = {names_indexed(name, what->name, index), names_indexed(rest, what->rest, index),
                               what->record};
    if (!slot)
        mt_object_name(names_base(value), before, &n);
    for (uint32_t i = 0; slot && i + sizeof value <= what->bytes; i += sizeof value) {
        memcpy(&value, (const char *)slot + i, sizeof value);
        mt_object_name(names_base(value), before, &n);
    }
}

__attribute__((visibility("default"))) void memtrace_name(const void *p, const char *name)
{
    if (name && *name)
        mt_object_name_whole(p, name);
}
