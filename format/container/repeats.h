/* Detection of repeating entries, such as those of a loop. */
#ifndef MT_CONTAINER_REPEATS_H
#define MT_CONTAINER_REPEATS_H
#include <stddef.h>
#include "memtrace/container.h"

enum { MT_PERIOD_MAX = 15 };

/* Returns how many entries before `e` its site occurred last, or 0 unless `first` leaves two such periods. */
size_t mt_repeats_period(const struct mt_host_entry *first, const struct mt_host_entry *e);
/* Returns how many of the `left` entries after `e` continue the pattern of the two periods up to `e`. Such an
 * entry differs from the one a period before in the same way as that differs from the one two periods
 * before. */
size_t mt_repeats_length(const struct mt_host_entry *e, size_t left, size_t period);
#endif
