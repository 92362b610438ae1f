/* Reads ahead: a ring of slots, each an item with room for its records. */
#define _GNU_SOURCE
#include "reader/base/processes.h"
#include "reader/base/pool.h"

enum { SLOTS = 16, SLOT_RECORDS = 1 << 14, HELD = 2, LARGE = 1 << 10 };

struct slot {
    struct mt_item item;
    struct mt_raw_record *room;
    struct mt_access_run *runs; /* SLOT_RECORDS of them, or NULL: not asked for */
    struct mt_run_block *block; /* of a container, which its item shows */
    int rc;                     /* of mt_merge_next */
};

struct mt_ahead {
    struct mt_source_merge *merge;
    struct mt_pool *pool;
    struct mt_work work;
    size_t head, tail; /* slots filled and slots given back so far */
    size_t held;       /* slots that the consumer may use, from `tail` on; the last one is its newest */
    int over;          /* the newest is an end or an error */
    int merges;        /* records become runs */
    struct mt_error error;
    struct slot slots[SLOTS];
    struct mt_raw_record *rooms;
    struct mt_access_run *run_rooms;
};

/* Runs of a container stay where they were decoded until the consumer is done with them. */
static void readahead_keep(const struct mt_source_merge *m, struct slot *s)
{
    struct mt_host_reader *r =
        s->rc > 0 && s->item.kind == MT_ITEM_RUNS ? mt_input_container(&m->inputs[s->item.input]) : NULL;
    s->block = r ? mt_device_keep(r) : NULL;
}

/* A batch of records becomes one of runs. */
static void put_together(struct slot *s)
{
    size_t taken;
    if (s->rc <= 0 || s->item.kind != MT_ITEM_BATCH)
        return;
    s->item.count = mt_runs_from_records(s->item.records, s->item.count, s->runs, SLOT_RECORDS, &taken);
    s->item.kind = MT_ITEM_RUNS;
    s->item.runs = s->runs;
    s->item.records = NULL;
}

static void ahead_fill(struct mt_ahead *a, struct slot *s)
{
    s->rc = mt_merge_next(a->merge, s->room, s->runs, SLOT_RECORDS, &s->item, &a->error);
    readahead_keep(a->merge, s);
    if (s->rc > 0)
        mt_process_item(a->merge->inputs[s->item.input].process, &s->item);
    if (a->merges)
        put_together(s);
}

/* Small items (between allocations of a host program) are not worth a switch each: several are a piece. */
static int ahead_piece(void *self)
{
    struct mt_ahead *a = self;
    if (a->over || a->head - a->tail == SLOTS)
        return 0;
    do {
        struct slot *s = &a->slots[a->head % SLOTS];
        pthread_mutex_unlock(&a->pool->lock);
        ahead_fill(a, s);
        pthread_mutex_lock(&a->pool->lock);
        a->over = s->rc <= 0;
    } while (++a->head - a->tail <= SLOTS / 2 && !a->over &&
             a->slots[(a->head - 1) % SLOTS].item.count < LARGE);
    return 1;
}

static void ahead_free(struct mt_ahead *a)
{
    if (!a)
        return;
    free(a->rooms);
    free(a->run_rooms);
    free(a);
}

struct mt_ahead *mt_ahead_start(struct mt_source_merge *m, unsigned flags, struct mt_error *err)
{
    int runs = m->threads || (flags & (MT_SOURCE_RUNS | MT_SOURCE_OWN_RUNS)) != 0;
    struct mt_ahead *a = calloc(1, sizeof *a);
    if (a)
        a->rooms = malloc(sizeof *a->rooms * SLOTS * SLOT_RECORDS);
    if (a && runs)
        a->run_rooms = malloc(sizeof *a->run_rooms * SLOTS * SLOT_RECORDS);
    if (!a || !a->rooms || (runs && !a->run_rooms)) {
        ahead_free(a);
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, "reader", "no memory for reading ahead");
        return NULL;
    }
    a->merge = m;
    a->merges = (flags & MT_SOURCE_RUNS) != 0;
    for (size_t i = 0; i < SLOTS; i++) {
        a->slots[i].room = a->rooms + i * SLOT_RECORDS;
        a->slots[i].runs = runs ? a->run_rooms + i * SLOT_RECORDS : NULL;
    }
    a->pool = m->pool;
    a->work = (struct mt_work){.piece = ahead_piece, .self = a, .alone = 1};
    mt_pool_add(a->pool, &a->work);
    pthread_mutex_lock(&a->pool->lock);
    mt_pool_wake(a->pool, 1);
    pthread_mutex_unlock(&a->pool->lock);
    return a;
}

int mt_ahead_next(struct mt_ahead *a, struct mt_item *item, struct mt_error *err)
{
    const int back = a->held == HELD;
    if (back)
        mt_block_put(a->slots[a->tail % SLOTS].block);
    pthread_mutex_lock(&a->pool->lock);
    if (back) {
        a->tail++;
        a->held--;
        if (a->head - a->tail <= SLOTS / 2) /* else it would be woken for every slot */
            mt_pool_wake(a->pool, 1);
    }
    while (a->head == a->tail + a->held)
        mt_pool_help(a->pool, &a->work);
    struct slot *s = &a->slots[(a->tail + a->held) % SLOTS];
    pthread_mutex_unlock(&a->pool->lock);
    if (s->rc > 0) {
        a->held++;
        *item = s->item;
    } else if (s->rc < 0) {
        *err = a->error;
    }
    return s->rc; /* an end or error is never given back: it is met again */
}

void mt_ahead_stop(struct mt_ahead *a)
{
    if (!a)
        return;
    mt_pool_remove(a->pool, &a->work);
    for (; a->tail < a->head; a->tail++)
        mt_block_put(a->slots[a->tail % SLOTS].block);
    ahead_free(a);
}
