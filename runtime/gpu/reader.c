/* The thread that looks at rings. */
#include "reader.h"
#include "base/thread.h"
#include "trace/events.h"
#include "trace/last.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static int running;
static const struct mt_reader_ops *reader_ops;
static unsigned under_way;                /* launches; under `lock` */
static _Atomic uint64_t progress, rounds; /* packets and launches done; turns of the reader */

static void reader_left(struct mt_flight *f)
{
    reader_ops->left(f);
    pthread_mutex_lock(&lock);
    under_way--;
    pthread_mutex_unlock(&lock);
}

/* Longer and longer, as long as nothing comes. */
static void reader_rest(unsigned idle)
{
    struct timespec t = {0, idle < 2000 ? 20000 : 200000};
    if (idle < 200)
        sched_yield();
    else
        nanosleep(&t, NULL);
}

static void reader_await(void)
{
    pthread_mutex_lock(&lock);
    while (!under_way)
        pthread_cond_wait(&work, &lock);
    pthread_mutex_unlock(&lock);
}

/* 1: something came, or left. *last: when packets came last. */
static int reader_turn(uint64_t *last)
{
    unsigned moved = reader_ops->poll();
    uint64_t now = mt_now_ns();
    *last = moved ? now : *last;
    unsigned left = mt_flight_retire(reader_left, now, *last);
    if (left && reader_ops->retired)
        reader_ops->retired();
    progress += moved + left;
    rounds++;
    return moved + left != 0;
}

static void *reader_main(void *unused)
{
    unsigned idle = 0;
    uint64_t last = 0;
    mt_last_ours();
    for (;;) {
        reader_await();
        idle = reader_turn(&last) ? 0 : idle + 1;
        if (idle)
            reader_rest(idle);
    }
    return unused;
}

int mt_reader_wake(const struct mt_reader_ops *ops)
{
    pthread_mutex_lock(&lock);
    reader_ops = ops;
    if (!running)
        running = !mt_base_thread_start(NULL, 0, reader_main, NULL);
    int ok = running;
    under_way += (unsigned)ok;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&lock);
    return ok ? 0 : -1;
}

struct mt_patience mt_reader_patience(void)
{
    return (struct mt_patience){progress, rounds, 0};
}

int mt_reader_quiet(struct mt_patience *p, unsigned most)
{
    uint64_t now = progress, turns = rounds;
    pthread_mutex_lock(&lock);
    int asleep = !under_way;
    pthread_mutex_unlock(&lock);
    p->quiet = now != p->seen ? 0 : turns > p->turn + 1 || asleep ? p->quiet + 1 : p->quiet;
    p->seen = now;
    p->turn = turns;
    return p->quiet >= most;
}
