/* Entries that go round and round, as a loop's do. */
#ifndef MT_CONTAINER_REPEATS_H
#define MT_CONTAINER_REPEATS_H
#include <stddef.h>
#include "memtrace/container.h"

enum { MT_PERIOD_MAX = 15 };

/* How many entries before `e` the same site was last; 0: not within a period that `first` leaves room for
 * twice. */
size_t mt_repeats_period(const struct mt_host_entry *first, const struct mt_host_entry *e);
/* How many of the `left` entries after `e` are as far from the entry one period before as that is from the
 * one two periods before, with the same site and size if the two periods up to `e` have the same ones. */
size_t mt_repeats_length(const struct mt_host_entry *e, size_t left, size_t period);
#endif
