/* Launches in the companion files of a source. */
#include "launches.h"
#include <stdlib.h>
#include <string.h>

static int launches_order(const void *a, const void *b)
{
    const struct mt_launch_event *x = *(const struct mt_launch_event *const *)a,
                                 *y = *(const struct mt_launch_event *const *)b;
    int d = strcmp(x->kernel, y->kernel);
    return d ? d : x->seq < y->seq ? -1 : x->seq > y->seq;
}

const struct mt_launch_event **mt_launches_by_kernel(const struct mt_source *s, size_t ninputs,
                                                     int (*keep)(const struct mt_launch_event *), size_t *n)
{
    size_t room = 1, all = 0;
    *n = 0;
    for (size_t i = 0; i < ninputs; i++)
        room += mt_source_companion(s, i) ? mt_source_companion(s, i)->nlaunches : 0;
    const struct mt_launch_event **list = malloc(room * sizeof *list);
    for (size_t i = 0; list && i < ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(s, i);
        for (size_t k = 0; c && k < c->nlaunches; k++)
            if (!keep || keep(&c->launches[k]))
                list[all++] = &c->launches[k];
    }
    if (all)
        qsort(list, all, sizeof *list, launches_order);
    for (size_t i = 0; i < all; i++)
        if (i == 0 || launches_order(&list[i - 1], &list[i]) != 0)
            list[(*n)++] = list[i];
    return list;
}
