/* The thread of a rank: it does the rank's calls in their order, each when its stream has come to it. */
#include "library.h"
#include "base/thread.h"
#include "nccl.h"
#include <stdlib.h>
#include <string.h>

struct mt_nccl_job *mt_nccl_job_new(unsigned n)
{
    struct mt_nccl_job *j = calloc(1, sizeof *j + n * sizeof *j->parts);
    if (!j)
        return NULL;
    j->n = n;
    j->refs = (int)n + 1; /* its parts, and the queue */
    return j;
}

/* All with the lock. */
static void work_release(struct mt_nccl_job *j)
{
    if (--j->refs == 0)
        free(j);
}

static void work_append(struct mt_nccl_comm *c, struct mt_nccl_job *j)
{
    j->next = NULL;
    *(c->first ? &c->last->next : &c->first) = j;
    c->last = j;
}

static int work_perform(struct mt_nccl_comm *c, const struct mt_nccl_job *j)
{
    const struct mt_nccl_do *d = &j->parts[0].what;
    if (c->broken || c->aborted)
        return c->broken ? c->broken : MT_NCCL_USAGE;
    return d->what >= MT_NCCL_SEND ? mt_nccl_messages(c, j) : mt_nccl_collective(c, d);
}

/* Its streams go on. Takes the lock away for that. */
static void work_end(struct mt_nccl_comm *c, struct mt_nccl_job *j, int status)
{
    j->how = status ? MT_LIBRARY_GIVEN_UP : MT_LIBRARY_DONE;
    j->done = 1;
    c->first = j->next;
    for (unsigned i = 0; i < j->n; i++) {
        struct mt_library_call *call = j->parts[i].begun;
        if (!call)
            continue;
        pthread_mutex_unlock(&c->lock);
        __mt_library_end(call, j->how);
        pthread_mutex_lock(&c->lock);
    }
    work_release(j);
    pthread_cond_broadcast(&c->moved);
}

static void *work_thread(void *arg)
{
    struct mt_nccl_comm *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->quit || (c->first && c->aborted)) {
        struct mt_nccl_job *j = c->first;
        if (!j || !(j->begun == j->streams || j->dead || c->aborted)) {
            pthread_cond_wait(&c->moved, &c->lock);
            continue;
        }
        if (j->dead && !c->broken) {
            c->broken = MT_NCCL_CUDA;
            mt_nccl_leave(c, MT_NCCL_ABORTED);
        }
        pthread_mutex_unlock(&c->lock);
        int status = work_perform(c, j);
        pthread_mutex_lock(&c->lock);
        if (status && !c->broken) {
            c->broken = status;
            mt_nccl_leave(c, MT_NCCL_ABORTED); /* the rings are no more in step */
        }
        work_end(c, j, status);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* With the lock. 0, or -1. */
static int work_begin(struct mt_nccl_comm *c)
{
    if (!c->started && mt_base_thread_start(&c->thread, 0, work_thread, c))
        return -1;
    c->started = 1;
    return 0;
}

void mt_nccl_job_queue(struct mt_nccl_comm *c, struct mt_nccl_job *j)
{
    pthread_mutex_lock(&c->lock);
    work_append(c, j);
    pthread_mutex_unlock(&c->lock);
}

/* Of what was captured: the copy of this launch of the graph. */
static struct mt_nccl_job *work_copy(struct mt_nccl_comm *c, struct mt_nccl_job *j)
{
    struct mt_nccl_job *now = j->now;
    if (now)
        return now;
    now = mt_nccl_job_new(j->n);
    if (!now)
        return NULL;
    now->streams = j->streams;
    memcpy(now->parts, j->parts, j->n * sizeof *j->parts);
    work_append(c, now);
    return j->now = now;
}

int mt_nccl_part_run(struct mt_nccl_comm *c, struct mt_nccl_job *j, unsigned part,
                     struct mt_library_call *call)
{
    int how = MT_LIBRARY_FAILED;
    pthread_mutex_lock(&c->lock);
    struct mt_nccl_job *now = !j->captured ? j : mt_nccl_is_comm(c) ? work_copy(c, j) : NULL;
    if (now && now->done) {
        how = now->how;
    } else if (!mt_nccl_is_comm(c)) {
        mt_lib_say("%s: its communicator was destroyed before", call->name);
    } else if (!now || work_begin(c)) {
        mt_lib_say("%s: no memory, or no thread", call->name);
    } else {
        how = MT_LIBRARY_LATER;
        now->parts[part].begun = call;
        now->begun += now->parts[part].first;
        pthread_cond_broadcast(&c->moved);
    }
    if (now && j->captured) {
        j->now = ++now->met < now->n ? now : NULL;
        work_release(now);
    }
    pthread_mutex_unlock(&c->lock);
    return how;
}

void mt_nccl_part_drop(struct mt_nccl_comm *c, struct mt_nccl_job *j, unsigned part)
{
    if (j->captured)
        return;
    pthread_mutex_lock(&c->lock);
    if (!j->parts[part].begun && !j->done) { /* its stream will not come to it */
        j->dead = 1;
        work_begin(c);
        pthread_cond_broadcast(&c->moved);
    }
    work_release(j);
    pthread_mutex_unlock(&c->lock);
}

void mt_nccl_drain(struct mt_nccl_comm *c)
{
    pthread_mutex_lock(&c->lock);
    while (c->first)
        pthread_cond_wait(&c->moved, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

void mt_nccl_stop(struct mt_nccl_comm *c)
{
    pthread_mutex_lock(&c->lock);
    c->quit = 1;
    int started = c->started;
    while (!started && c->first)
        work_end(c, c->first, MT_NCCL_USAGE);
    pthread_cond_broadcast(&c->moved);
    if (c->segment)
        mt_nccl_wake(c);
    pthread_mutex_unlock(&c->lock);
    if (started)
        pthread_join(c->thread, NULL);
}
