/* Streaming merge of lines from many threads, by (time, thread, order of arrival): what convert --order=time
 * does, without knowing about files. */
#include "merge_queue.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

#define BLOCK ((size_t)1 << 18)
#define SPARES 16

enum { FIRST, NEWEST };

struct mt_merge_thread {
    int64_t number;
    uint64_t newest;
    uint64_t key[2];            /* by which it is in heap FIRST, NEWEST */
    size_t place[2];            /* there, from 1; 0: not in it */
    struct mt_merge_line *ring; /* waiting lines, a ring */
    size_t head, count, room;   /* room: a power of two, or 0 */
    uint64_t begun;             /* tr minus tf; several threads may use one number */
};

void mt_merge_init(struct mt_merge *m)
{
    memset(m, 0, sizeof *m);
    m->first.which = FIRST;
    m->newest.which = NEWEST;
}

/* ---- blocks ---- */

struct mt_merge_block *mt_merge_block_new(struct mt_merge *m, size_t size)
{
    struct mt_merge_block *b = m->spare;
    if (b && size <= b->size) {
        m->spare = b->next;
        m->nspare--;
    } else {
        size = size < BLOCK ? BLOCK : size;
        b = malloc(sizeof *b + size);
        if (!b)
            return NULL;
        b->size = size;
    }
    b->next = NULL;
    b->lines = 1;
    return b;
}

void mt_merge_block_drop(struct mt_merge *m, struct mt_merge_block *b)
{
    if (--b->lines)
        return;
    if (b->size != BLOCK || m->nspare == SPARES) {
        free(b);
        return;
    }
    b->next = m->spare;
    m->spare = b;
    m->nspare++;
}

/* ---- heaps of threads, smallest (key, number) on top; a thread knows its places ---- */

static int merge_queue_before(const struct mt_merge_thread *a, const struct mt_merge_thread *b, size_t w)
{
    return a->key[w] != b->key[w] ? a->key[w] < b->key[w] : a->number < b->number;
}

static void merge_queue_put(struct mt_merge_heap *h, size_t i, struct mt_merge_thread *t)
{
    h->item[i - 1] = t;
    t->place[h->which] = i;
}

/* Moves the thread to where its key belongs. */
static void merge_queue_settle(struct mt_merge_heap *h, struct mt_merge_thread *t)
{
    size_t i = t->place[h->which], w = h->which;
    while (i > 1 && merge_queue_before(t, h->item[i / 2 - 1], w)) {
        merge_queue_put(h, i, h->item[i / 2 - 1]);
        i /= 2;
    }
    for (size_t child; (child = 2 * i) <= h->count; i = child) {
        child += child < h->count && merge_queue_before(h->item[child], h->item[child - 1], w);
        if (!merge_queue_before(h->item[child - 1], t, w))
            break;
        merge_queue_put(h, i, h->item[child - 1]);
    }
    merge_queue_put(h, i, t);
}

/* In the heap under this key. 0 or -1. */
static int heap_set(struct mt_merge_heap *h, struct mt_merge_thread *t, uint64_t key)
{
    if (!t->place[h->which]) {
        if (mt_grow(&h->item, &h->room, h->count + 1, sizeof *h->item) != 0)
            return -1;
        merge_queue_put(h, ++h->count, t);
    }
    t->key[h->which] = key;
    merge_queue_settle(h, t);
    return 0;
}

static void heap_remove(struct mt_merge_heap *h, struct mt_merge_thread *t)
{
    size_t i = t->place[h->which];
    struct mt_merge_thread *last;
    if (!i)
        return;
    t->place[h->which] = 0;
    last = h->item[--h->count];
    if (last == t)
        return;
    merge_queue_put(h, i, last);
    merge_queue_settle(h, last);
}

/* ---- threads by number ---- */

static struct mt_merge_thread *thread_of(struct mt_merge *m, int64_t number)
{
    uint64_t known = mt_hash_find(&m->threads, (uint64_t)number);
    struct mt_merge_thread *t = known ? (struct mt_merge_thread *)known : calloc(1, sizeof *t);
    if (known || !t)
        return t;
    t->number = number;
    if (mt_hash_put(&m->threads, (uint64_t)number, (uintptr_t)t) == 0)
        return t;
    free(t);
    return NULL;
}

void mt_merge_free(struct mt_merge *m)
{
    const struct mt_hash_slot *s;
    for (size_t i = 0; (s = mt_hash_next(&m->threads, &i));) {
        struct mt_merge_thread *t = (struct mt_merge_thread *)s->value;
        for (size_t k = 0; k < t->count; k++)
            mt_merge_block_drop(m, t->ring[(t->head + k) & (t->room - 1)].block);
        free(t->ring);
        free(t);
    }
    mt_hash_free(&m->threads);
    free(m->first.item);
    free(m->newest.item);
    for (struct mt_merge_block *b = m->spare, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    mt_merge_init(m);
}

/* ---- lines ---- */

static int ring_resize(struct mt_merge_thread *t, size_t room)
{
    struct mt_merge_line *ring = malloc(room * sizeof *ring);
    if (!ring)
        return -1;
    for (size_t k = 0; k < t->count; k++)
        ring[k] = t->ring[(t->head + k) & (t->room - 1)];
    free(t->ring);
    t->ring = ring;
    t->head = 0;
    t->room = room;
    return 0;
}

/* After all lines of the thread that are not newer: at the end, unless its times went back. */
static int ring_insert(struct mt_merge_thread *t, const struct mt_merge_line *line)
{
    size_t at = t->count;
    if (t->count == t->room && ring_resize(t, t->room ? 2 * t->room : 16) != 0)
        return -1;
    while (at > 0 && t->ring[(t->head + at - 1) & (t->room - 1)].time > line->time) {
        t->ring[(t->head + at) & (t->room - 1)] = t->ring[(t->head + at - 1) & (t->room - 1)];
        at--;
    }
    t->ring[(t->head + at) & (t->room - 1)] = *line;
    t->count++;
    line->block->lines++;
    return 0;
}

/* A thread without waiting lines: one that has ended leaves only its number. */
static void thread_idle(struct mt_merge *m, struct mt_merge_thread *t)
{
    heap_remove(&m->first, t);
    if (t->place[NEWEST])
        return;
    free(t->ring);
    t->ring = NULL;
    t->room = t->head = 0;
}

/* Lines up to and with (time, thread) of `newest` go out; all of them if there is no live thread. */
static int merge_queue_drain(struct mt_merge *m)
{
    while (m->first.count) {
        struct mt_merge_thread *t = m->first.item[0];
        const struct mt_merge_thread *limit = m->newest.count ? m->newest.item[0] : NULL;
        struct mt_merge_line line = t->ring[t->head];
        if (limit && (line.time > limit->newest || (line.time == limit->newest && t->number > limit->number)))
            return 0;
        m->out_time = line.time;
        m->out_thread = t->number;
        m->out_any = 1;
        int stop = m->write(m->self, line.block->data + line.at, line.bytes);
        mt_merge_block_drop(m, line.block);
        t->head = (t->head + 1) & (t->room - 1);
        if (--t->count)
            heap_set(&m->first, t, t->ring[t->head].time);
        else
            thread_idle(m, t);
        if (stop)
            return -2;
    }
    return 0;
}

/* What the line says about its thread: -1 belongs to no thread and promises nothing. */
static int merge_queue_show(struct mt_merge *m, struct mt_merge_thread *t, enum mt_merge_kind kind,
                            uint64_t time)
{
    if (t->number < 0)
        return 0;
    if (kind == MT_MERGE_BEGIN) {
        t->begun++;
        m->begun++;
    }
    if (kind == MT_MERGE_END && t->begun) {
        t->begun--;
        m->begun--;
    }
    if (kind == MT_MERGE_END && !t->begun) {
        heap_remove(&m->newest, t);
        return 0;
    }
    t->newest = t->place[NEWEST] && t->newest > time ? t->newest : time;
    return heap_set(&m->newest, t, t->newest);
}

int mt_merge_add(struct mt_merge *m, int64_t thread, enum mt_merge_kind kind,
                 const struct mt_merge_line *line)
{
    struct mt_merge_thread *t = thread_of(m, thread);
    int late = kind != MT_MERGE_SYNC && m->out_any &&
               (line->time < m->out_time || (line->time == m->out_time && thread < m->out_thread));
    if (!t || merge_queue_show(m, t, kind, line->time) != 0)
        return -1;
    if (kind != MT_MERGE_SYNC) {
        if (ring_insert(t, line) != 0)
            return -1;
        uint64_t first = t->ring[t->head].time;
        if ((!t->place[FIRST] || t->key[FIRST] != first) && heap_set(&m->first, t, first) != 0)
            return -1;
    }
    int e = merge_queue_drain(m);
    return e ? e : late;
}

int mt_merge_end(struct mt_merge *m)
{
    while (m->newest.count)
        heap_remove(&m->newest, m->newest.item[0]);
    return merge_queue_drain(m);
}
