/* What MEMTRACE_SINK=extract sends, as items of a source (feed.c). */
#ifndef MT_LIB_FEED_H
#define MT_LIB_FEED_H
#include "reader/base/internal.h"

struct mt_feed;
struct mt_feed *mt_feed_new(int fd, struct mt_stop *stop); /* NULL: no memory */
void mt_feed_free(struct mt_feed *l);
/* As mt_merge_next, but for errors: they end it. Accesses are runs, whose addresses go into `room`. Makes the
 * inputs of the merge as streams appear. */
int mt_feed_next(struct mt_source_merge *m, struct mt_feed *l, struct mt_raw_record *room,
                 struct mt_access_run *runs, size_t capacity, struct mt_item *item);
/* The program said that this is all. */
int mt_feed_done(const struct mt_feed *l);
#endif
