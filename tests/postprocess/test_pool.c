/* What a pool is given is done once, whoever does it: with no thread, with one, with several. An end before
 * all is done leaves nothing behind. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/comm/team.h"
#include "reader/base/pool.h"

enum { PIECES = 5000, THREADS = 5 };

struct count {
    struct mt_pool *pool;
    struct mt_work work;
    int waits;                           /* a piece needs another one's */
    unsigned begun, ended, inside, most; /* most: at once */
    unsigned char times[PIECES];
};

static int count_piece(void *self)
{
    struct count *c = self;
    if (c->begun == PIECES)
        return 0;
    const unsigned i = c->begun++;
    c->most = ++c->inside > c->most ? c->inside : c->most;
    if (c->waits)
        mt_pool_help(c->pool, &c->work);
    pthread_mutex_unlock(&c->pool->lock);
    c->times[i]++;
    pthread_mutex_lock(&c->pool->lock);
    c->inside--;
    c->ended++;
    return 1;
}

static void count_begin(struct count *c, struct mt_pool *pool, int alone)
{
    memset(c, 0, sizeof *c);
    c->pool = pool;
    c->work = (struct mt_work){.piece = count_piece, .self = c, .alone = alone};
    mt_pool_add(pool, &c->work);
    pthread_mutex_lock(&pool->lock);
    mt_pool_wake(pool, PIECES);
    pthread_mutex_unlock(&pool->lock);
}

static void pool_all(void **state)
{
    static struct count c[2]; /* the second: one piece at a time */
    (void)state;
    for (unsigned threads = 0; threads < THREADS; threads++) {
        struct mt_pool *pool = mt_pool_new(threads);
        assert_non_null(pool);
        for (int k = 0; k < 2; k++)
            count_begin(&c[k], pool, k);
        for (int k = 0; k < 2; k++) {
            pthread_mutex_lock(&pool->lock);
            while (c[k].ended < PIECES)
                mt_pool_help(pool, &c[k].work);
            pthread_mutex_unlock(&pool->lock);
            mt_pool_remove(pool, &c[k].work);
            for (unsigned i = 0; i < PIECES; i++)
                assert_int_equal(c[k].times[i], 1);
            assert_in_range(c[k].most, 1, k ? 1 : threads + 1);
        }
        mt_pool_free(pool);
    }
}

/* Who waits within a piece does others; it begins its own again unless that has to be alone. */
static void pool_alone(void **state)
{
    static struct count c, other;
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        struct mt_pool *pool = mt_pool_new(0);
        count_begin(&c, pool, alone);
        count_begin(&other, pool, 0);
        c.begun = PIECES - 3;
        c.waits = 1;
        pthread_mutex_lock(&pool->lock);
        mt_pool_help(pool, &c.work);
        pthread_mutex_unlock(&pool->lock);
        assert_int_equal(c.most, alone ? 1 : 3);
        assert_int_equal(c.ended, alone ? 1 : 3);
        assert_int_equal(other.ended, 1);
        mt_pool_remove(pool, &c.work);
        mt_pool_remove(pool, &other.work);
        mt_pool_free(pool);
    }
}

/* No piece runs, or begins, once it is removed. */
static void pool_removed(void **state)
{
    static struct count c;
    (void)state;
    for (unsigned threads = 0; threads < THREADS; threads++) {
        struct mt_pool *pool = mt_pool_new(threads);
        count_begin(&c, pool, 0);
        mt_pool_remove(pool, &c.work);
        unsigned ended = c.ended;
        assert_int_equal(c.inside, 0);
        mt_pool_free(pool);
        assert_int_equal(c.ended, ended);
    }
}

/* A team whose shards have not come to the end. */
static void pool_team_left(void **state)
{
    static struct mt_raw_record r[1000];
    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        r[i] = (struct mt_raw_record){{4, (uint64_t)i << 12, 0}};
    for (unsigned threads = 0; threads < THREADS; threads++) {
        struct mt_pool *pool = mt_pool_new(threads);
        struct mt_team *t = mt_team_of_threads(&(struct mt_comm_options){0}, pool, 3);
        assert_non_null(t);
        assert_int_equal(t->kind->fed.launch(t, &(struct mt_run_launch){.kernel = "k", .selected = 1}), 0);
        for (unsigned i = 0; i < 100; i++) /* more than its ring has */
            assert_int_equal(t->kind->fed.records(t, r, 1000), 0);
        assert_int_equal(mt_team_count(t), 100 * 1000);
        t->kind->fed.free(t);
        mt_pool_free(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_all),
        cmocka_unit_test(pool_alone),
        cmocka_unit_test(pool_removed),
        cmocka_unit_test(pool_team_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
