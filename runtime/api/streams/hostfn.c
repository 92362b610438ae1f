/* Host functions and callbacks of the program. They may wait for whatever the program likes, so they do not
 * run on the CPU device's workers: a thread is made when none is free, and some stay for the next ones. */
#include "queue.h"
#include "base/thread.h"
#include "api/tables/error.h"
#include "trace/last.h"
#include <stdlib.h>

#define KEPT 2 /* threads that stay when there is nothing to do */

struct host_op {
    struct mt_op op;
    cudaHostFn_t fn; /* or */
    cudaStreamCallback_t callback;
    cudaStream_t handle;
    void *data;
    struct host_op *behind; /* in the queue here; op.next belongs to the stream */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct host_op *first, **last = &first;
static unsigned idle, queued, threads;
static _Thread_local int inside;

int mt_in_host_function(void)
{
    return inside;
}

static void hostfn_call(const struct host_op *h)
{
    cudaError_t e = mt_fail_of(h->op.stream->device);
    inside++;
    if (h->callback)
        h->callback(h->handle, e, h->data);
    else if (!e)
        h->fn(h->data);
    inside--;
}

static void *hostfn_helper(void *arg)
{
    mt_last_ours();
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!first && idle < KEPT) {
            idle++;
            pthread_cond_wait(&work, &lock);
            idle--;
        }
        struct host_op *h = first;
        if (!h)
            break;
        first = h->behind;
        if (!first)
            last = &first;
        queued--;
        pthread_mutex_unlock(&lock);
        hostfn_call(h);
        mt_op_finish(&h->op);
        pthread_mutex_lock(&lock);
    }
    threads--;
    pthread_mutex_unlock(&lock);
    mt_last_ours_end();
    return NULL;
}

static int hostfn_run(struct mt_op *op)
{
    struct host_op *h = (struct host_op *)op;
    pthread_mutex_lock(&lock);
    if (queued >= idle) {
        threads += !mt_base_thread_start(NULL, 1, hostfn_helper, NULL);
        if (!threads) { /* no thread at all: here and now */
            pthread_mutex_unlock(&lock);
            hostfn_call(h);
            return MT_OP_DONE;
        }
    }
    h->behind = NULL;
    *last = h;
    last = &h->behind;
    queued++;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&lock);
    return MT_OP_PENDING;
}

struct mt_op *mt_host_op(cudaHostFn_t fn, cudaStreamCallback_t callback, cudaStream_t handle, void *data)
{
    struct host_op *h = mt_op_new(sizeof *h, MT_OP_HOST, hostfn_run);
    if (!h)
        return NULL;
    h->op.always = callback != NULL; /* callbacks are told of errors, functions are not called */
    h->fn = fn;
    h->callback = callback;
    h->handle = handle;
    h->data = data;
    return &h->op;
}

void mt_host_parts(const struct mt_op *op, cudaHostFn_t *fn, void **data)
{
    const struct host_op *h = (const struct host_op *)op;
    *fn = h->fn;
    *data = h->data;
}

void mt_hostfn_forked(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&work, NULL);
    first = NULL;
    last = &first;
    idle = queued = threads = 0;
    inside = 0;
}
