/* What a Python program calls its allocations. Each place that allocates is asked for once; then its name is
 * known here. */
#include "python.h"
#include "base/fork.h"
#include "base/report.h"
#include "events.h"
#include "memtrace/hash.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 12, CALLS = 1 << 14 };

struct waiting { /* for its name */
    struct waiting *next;
    uint64_t id;
};
struct call {                  /* an expression and those that led to it */
    struct call *next, *later; /* in its bucket, to be asked for */
    struct mt_python_asked asked;
    char *name; /* NULL: not known yet; "": it has none */
    struct waiting *waiting;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_TABLES); /* names are logged meanwhile */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct call *buckets[BUCKETS], *calls[CALLS], *first, **last = &first;
static uint64_t ncalls;
static int closed;

static unsigned names_bucket(const struct mt_python_asked *a)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < a->places; i++) {
        const struct mt_python_location *p = &a->place[i];
        h = mt_hash_number(h ^ (uintptr_t)p->file ^ (uint64_t)(uint32_t)p->line << 32 ^
                           (uint32_t)(p->column << 16) ^ (uint32_t)p->end_column);
    }
    return (unsigned)(h >> 52);
}

static int names_same(const struct mt_python_asked *a, const struct mt_python_asked *b)
{
    if (a->places != b->places)
        return 0;
    for (uint32_t i = 0; i < a->places; i++) {
        const struct mt_python_location *p = &a->place[i], *q = &b->place[i];
        if (strcmp(p->file, q->file) || p->line != q->line || p->column != q->column ||
            p->end_line != q->end_line || p->end_column != q->end_column)
            return 0;
    }
    return 1;
}

static void names_full(void)
{
    static int said;
    if (!said++)
        mt_say("more than %d places of the Python program make arrays: those of further places have no name",
               CALLS);
}

/* With the lock held. NULL: there are too many, or no memory; such allocations have no name. */
static struct call *names_find(struct mt_python_asked *a)
{
    struct call **bucket = &buckets[names_bucket(a)], *c = *bucket;
    while (c && !names_same(&c->asked, a))
        c = c->next;
    if (!c && ncalls == CALLS)
        names_full();
    if (c || ncalls == CALLS || !(c = calloc(1, sizeof *c)))
        return c;
    c->asked = *a;
    c->asked.number = ncalls;
    c->next = *bucket;
    *bucket = calls[ncalls++] = c;
    *last = c;
    last = &c->later;
    pthread_cond_signal(&changed);
    return c;
}

void mt_python_array(uint64_t id, const struct mt_host_site *site)
{
    struct mt_python_asked a = {0};
    if (!mt_python_is(site))
        return;
    a.places = mt_python_locations(a.place, MT_PYTHON_DEPTH);
    if (!a.places)
        return;
    pthread_mutex_lock(&lock);
    struct call *c = names_find(&a);
    struct waiting *w = c && !c->name ? malloc(sizeof *w) : NULL;
    if (w) {
        *w = (struct waiting){c->waiting, id};
        c->waiting = w;
    }
    if (c && c->name && *c->name)
        mt_event_name(id, c->name);
    pthread_mutex_unlock(&lock);
}

void mt_python_forget(uint64_t id)
{
    pthread_mutex_lock(&lock);
    for (uint64_t i = 0; i < ncalls; i++)
        for (struct waiting **at = &calls[i]->waiting, *w; (w = *at);) {
            if (w->id != id) {
                at = &w->next;
                continue;
            }
            *at = w->next;
            free(w);
        }
    pthread_mutex_unlock(&lock);
}

/* ---- for the hook ---- */

__attribute__((visibility("default"))) int __mt_python_ask(struct mt_python_asked *out)
{
    pthread_mutex_lock(&lock);
    while (!first && !closed)
        pthread_cond_wait(&changed, &lock);
    struct call *c = first;
    if (c) {
        *out = c->asked;
        if (!(first = c->later))
            last = &first;
    }
    pthread_mutex_unlock(&lock);
    return c != NULL;
}

__attribute__((visibility("default"))) void __mt_python_answer(uint64_t number, const char *name)
{
    pthread_mutex_lock(&lock);
    struct call *c = number < ncalls ? calls[number] : NULL;
    if (c && !c->name && (c->name = strdup(name ? name : ""))) {
        for (struct waiting *w; (w = c->waiting);) {
            c->waiting = w->next;
            if (*c->name)
                mt_event_name(w->id, c->name);
            free(w);
        }
    }
    pthread_mutex_unlock(&lock);
}

__attribute__((visibility("default"))) void __mt_python_close(void)
{
    pthread_mutex_lock(&lock);
    closed = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
