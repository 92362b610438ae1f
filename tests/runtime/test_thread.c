/* Threads of ours: which signals they let through, and that who started them has its own mask afterwards. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <semaphore.h>
#include "base/thread.h"

static sem_t ended;
static sigset_t inside;
static int detached;

static void *thread_look(void *arg)
{
    pthread_attr_t a;
    pthread_sigmask(SIG_SETMASK, NULL, &inside);
    if (pthread_getattr_np(pthread_self(), &a) == 0) {
        pthread_attr_getdetachstate(&a, &detached);
        pthread_attr_destroy(&a);
    }
    sem_post(&ended);
    return arg;
}

static int thread_blocked(int signo)
{
    return sigismember(&inside, signo);
}

static void thread_masks(void **state)
{
    sigset_t mine, after;
    (void)state;
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &mine, NULL), 0);
    for (int faults = 0; faults < 2; faults++) {
        assert_int_equal(mt_base_thread_start(NULL, faults, thread_look, NULL), 0);
        while (sem_wait(&ended) != 0)
            assert_int_equal(errno, EINTR);
        assert_int_equal(detached, PTHREAD_CREATE_DETACHED);
        for (int signo = SIGHUP; signo <= SIGUSR2; signo++) {
            int open =
                signo == SIGKILL ||
                (faults && (signo == SIGSEGV || signo == SIGBUS || signo == SIGFPE || signo == SIGILL));
            assert_int_equal(thread_blocked(signo), !open);
        }
        assert_int_equal(thread_blocked(SIGTERM), 1);
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        for (int signo = SIGHUP; signo <= SIGTERM; signo++)
            assert_int_equal(sigismember(&after, signo), signo == SIGUSR2);
    }
}

static void thread_joined(void **state)
{
    pthread_t thread;
    void *result;
    int mark;
    (void)state;
    assert_int_equal(mt_base_thread_start(&thread, 0, thread_look, &mark), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &mark);
    assert_int_equal(detached, PTHREAD_CREATE_JOINABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(thread_masks), cmocka_unit_test(thread_joined)};
    sem_init(&ended, 0, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
