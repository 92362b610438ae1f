/* A source, read to its end by analyses (analysis/base/runs.h) side by side: the one loop over
 * mt_source_next. An item goes to one row after the other. A row that works on threads of its own has until
 * the next item. */
#ifndef MT_CLI_FEED_H
#define MT_CLI_FEED_H
#include "cli.h"
#include "analysis/base/runs.h"

enum { MT_FEED_ROWS = 8 };
enum { MT_FEED_FAILED = -1 /* a row did: `why` */, MT_FEED_UNREADABLE = -2 /* the source did: `err` */ };

struct mt_feed {
    struct mt_source *source;
    const struct mt_filter *filter; /* NULL: all launches are selected */
    struct mt_progress *progress;   /* NULL: none is shown */
    int again;                      /* the source was read before */
    struct {
        const struct mt_analysis *of;
        void *self;
        const char *why; /* what there was no memory for */
    } rows[MT_FEED_ROWS];
    size_t nrows;
    unsigned needs, lacks; /* of all rows together */
    int makes;             /* a row takes runs alone: of records they are made */
    /* what came */
    uint64_t launches, chosen;   /* of these, selected ones */
    uint64_t accesses, reported; /* of kernels and host code; of selected launches */
    uint64_t unread;             /* accesses of launches that were passed over */
    const char *why;             /* of the row that failed; NULL: it has none */
    int failed;                  /* one did when it was added */
    struct mt_error err;
    /* state */
    struct mt_run_launch launch; /* under way */
    struct mt_access_run *made;  /* an item's runs as they are not in the source */
    size_t room;
};

/* Its init comes at once, with the feed's source. `why` NULL: the caller knows. */
void mt_feed_add(struct mt_feed *f, const struct mt_analysis *of, void *self, const char *why);
/* 0: to its end, or until a row had enough; or enum above. All rows are finished, unless one failed. */
int mt_feed_read(struct mt_feed *f);
/* Says what that means; returns an exit code. */
int mt_feed_failed(const struct mt_feed *f, int rc);
/* Frees what the rows have. */
void mt_feed_free(struct mt_feed *f);
#endif
