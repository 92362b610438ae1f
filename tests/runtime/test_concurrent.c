/* Streams that run at the same time, and what orders them. No test looks at the clock: kernels and the host
 * wait for each other, so a stream that does not run beside another one shows as a test that does not end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include "child.h"

static const dim3 one = {1, 1, 1};

static void concurrent_meet(volatile unsigned *p, unsigned set, unsigned wait, unsigned ctas, cudaStream_t s)
{
    void *args[] = {&p, &set, &wait};
    OK(cudaLaunchKernel(stub_meet, (dim3){ctas, 1, 1}, one, args, 0, s));
}

static void concurrent_step(unsigned *p, unsigned expected, cudaStream_t s)
{
    void *args[] = {&p, &expected};
    OK(cudaLaunchKernel(stub_step, one, one, args, 0, s));
    p = NULL; /* the values were taken */
    expected = 0;
}

/* Pinned words, all 0: host and kernels see the same ones. */
static unsigned *concurrent_words(unsigned n)
{
    void *p;
    OK(cudaMallocHost(&p, n * sizeof(unsigned)));
    memset(p, 0, n * sizeof(unsigned));
    return p;
}

static cudaStream_t concurrent_stream(unsigned flags)
{
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, flags));
    return s;
}

static cudaEvent_t concurrent_event(void)
{
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    return e;
}

static void concurrent_until(volatile unsigned *p, unsigned value)
{
    while (*p != value)
        sched_yield();
}

TEST(kernels_wait_for_each_other)
{
    unsigned *p = concurrent_words(4);
    cudaStream_t a = concurrent_stream(cudaStreamNonBlocking), b = concurrent_stream(cudaStreamNonBlocking);
    concurrent_meet(p, 0, 1, 1, a);
    concurrent_meet(p, 1, 0, 1, b);
    OK(cudaDeviceSynchronize());
    WANT(p[0] == 1 && p[1] == 1);
    /* more CTAs that wait than workers */
    concurrent_meet(p, 2, 3, 40, a);
    concurrent_meet(p, 3, 2, 40, b);
    OK(cudaStreamSynchronize(a));
    OK(cudaStreamSynchronize(b));
    WANT(p[2] == 40 && p[3] == 40);
    /* blocking streams run beside each other, too, and so does a thread's own */
    cudaStream_t c = concurrent_stream(0);
    memset(p, 0, 16);
    concurrent_meet(p, 0, 1, 1, c);
    concurrent_meet(p, 1, 0, 1, cudaStreamPerThread);
    OK(cudaDeviceSynchronize());
}

TEST(host_and_kernel)
{
    unsigned *p = concurrent_words(8), *d, h = 7;
    float ms;
    cudaStream_t s = concurrent_stream(cudaStreamNonBlocking);
    cudaEvent_t before = concurrent_event(), after = concurrent_event();
    OK(cudaMalloc((void **)&d, 4));
    OK(cudaEventRecord(before, s));
    concurrent_meet(p, 0, 1, 1, s);
    OK(cudaEventRecord(after, s));
    concurrent_until(p, 1); /* it runs */
    EXPECT(cudaErrorNotReady, cudaStreamQuery(s));
    EXPECT(cudaErrorNotReady, cudaEventQuery(after));
    EXPECT(cudaErrorNotReady, cudaEventElapsedTime(&ms, before, after));
    OK(cudaEventQuery(before));
    /* other streams go on: the legacy one does not wait for a stream that does not block */
    OK(cudaStreamQuery(0));
    OK(cudaMemcpy(d, &h, 4, cudaMemcpyHostToDevice));
    OK(cudaMemset(d, 0, 4));
    concurrent_step(p + 2, 0, 0);
    OK(cudaStreamSynchronize(0));
    WANT(p[2] == 1 && p[3] == 0);
    EXPECT(cudaErrorNotReady, cudaStreamQuery(s));
    p[1] = 1;
    OK(cudaEventSynchronize(after));
    OK(cudaStreamQuery(s));
    OK(cudaEventElapsedTime(&ms, before, after));
    WANT(ms > 0);
}

static void *concurrent_release(void *p)
{
    concurrent_until((unsigned *)p + 4, 1);
    ((volatile unsigned *)p)[1] = 1;
    return NULL;
}

/* The legacy stream waits for blocking streams, and they wait for it. */
TEST(legacy_stream)
{
    unsigned *p = concurrent_words(8), *d, h = 9;
    cudaStream_t s = concurrent_stream(0), t = concurrent_stream(0);
    pthread_t thread;
    OK(cudaMalloc((void **)&d, 4));
    concurrent_meet(p, 0, 1, 1, s);
    concurrent_step(p + 2, 0, 0); /* after s */
    concurrent_step(p + 2, 1, t); /* after the legacy stream */
    OK(cudaMemsetAsync(d, 1, 4, 0));
    concurrent_until(p, 1);
    EXPECT(cudaErrorNotReady, cudaStreamQuery(0));
    EXPECT(cudaErrorNotReady, cudaStreamQuery(t));
    WANT(((volatile unsigned *)p)[2] == 0);
    pthread_create(&thread, NULL, concurrent_release, p);
    p[4] = 1;
    OK(cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost)); /* waits for all of it */
    WANT(h == 0x01010101);
    OK(cudaStreamSynchronize(t));
    WANT(p[1] == 1 && p[2] == 2 && p[3] == 0);
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < 400; i++)
        concurrent_step(p + 2, i + 2, i % 2 ? 0 : i % 4 ? s : t);
    OK(cudaDeviceSynchronize());
    WANT(p[2] == 402 && p[3] == 0);
}

TEST(order_by_stream_and_events)
{
    unsigned *p = concurrent_words(8);
    cudaStream_t s[3] = {concurrent_stream(cudaStreamNonBlocking), concurrent_stream(cudaStreamNonBlocking),
                         concurrent_stream(0)};
    cudaEvent_t e = concurrent_event(), never = concurrent_event();
    for (unsigned i = 0; i < 1000; i++)
        concurrent_step(p, i, s[0]);
    OK(cudaStreamSynchronize(s[0]));
    WANT(p[0] == 1000 && p[1] == 0);
    /* one event, recorded again and again: each wait means the record before it */
    for (unsigned i = 0; i < 300; i++) {
        concurrent_step(p, 1000 + i, s[i % 3]);
        OK(cudaEventRecord(e, s[i % 3]));
        OK(cudaStreamWaitEvent(s[(i + 1) % 3], e, 0));
    }
    OK(cudaEventSynchronize(e));
    WANT(p[0] == 1300 && p[1] == 0);
    OK(cudaStreamWaitEvent(s[0], never, 0)); /* not recorded: nothing to wait for */
    OK(cudaStreamSynchronize(s[0]));
    /* a wait keeps its meaning when the event is recorded anew or destroyed */
    concurrent_meet(p, 4, 5, 1, s[0]);
    OK(cudaEventRecord(e, s[0]));
    OK(cudaStreamWaitEvent(s[1], e, 0));
    OK(cudaEventRecord(e, s[2]));
    OK(cudaEventSynchronize(e));
    OK(cudaEventDestroy(e));
    concurrent_step(p, 1300, s[1]);
    concurrent_until(p + 4, 1);
    EXPECT(cudaErrorNotReady, cudaStreamQuery(s[1]));
    WANT(((volatile unsigned *)p)[0] == 1300);
    p[5] = 1;
    OK(cudaDeviceSynchronize());
    WANT(p[0] == 1301 && p[1] == 0);
}

/* ---- host functions ---- */

struct seen {
    unsigned *p, value[4], n;
    cudaError_t inside, status;
};

static void concurrent_look(void *data)
{
    struct seen *s = data;
    s->value[s->n++] = s->p[0];
    s->inside = cudaStreamSynchronize(0);
}

static void wait_for_host(void *data)
{
    concurrent_until((unsigned *)data, 1);
}

static void concurrent_told(cudaStream_t s, cudaError_t e, void *data)
{
    ((struct seen *)data)->status = e;
    ((struct seen *)data)->n++;
}

TEST(host_functions)
{
    unsigned *p = concurrent_words(8);
    cudaStream_t s = concurrent_stream(0), t = concurrent_stream(cudaStreamNonBlocking);
    struct seen seen = {.p = p};
    concurrent_step(p, 0, s);
    OK(cudaLaunchHostFunc(s, concurrent_look, &seen));
    concurrent_step(p, 1, s);
    concurrent_step(p, 2, s);
    OK(cudaLaunchHostFunc(s, concurrent_look, &seen));
    OK(cudaStreamAddCallback(s, concurrent_told, &seen, 0));
    OK(cudaStreamSynchronize(s));
    WANT(seen.n == 3 && seen.value[0] == 1 && seen.value[1] == 3 && seen.status == cudaSuccess);
    WANT(seen.inside == cudaErrorNotPermitted); /* a host function must not call CUDA */
    /* one that waits does not hold up kernels, nor one of another stream */
    OK(cudaLaunchHostFunc(s, wait_for_host, p + 4));
    OK(cudaLaunchHostFunc(t, concurrent_look, &seen));
    concurrent_step(p, 3, t);
    OK(cudaStreamSynchronize(t));
    EXPECT(cudaErrorNotReady, cudaStreamQuery(s));
    p[4] = 1;
    OK(cudaStreamSynchronize(s));
    WANT(p[0] == 4 && p[1] == 0);
}

/* ---- errors ---- */

TEST(errors_come_later)
{
    unsigned *p = concurrent_words(8);
    cudaStream_t s = concurrent_stream(0), t = concurrent_stream(cudaStreamNonBlocking);
    struct seen seen = {.p = p}, not_called = {.p = p};
    concurrent_meet(p, 4, 5, 1, s);
    OK(cudaLaunchKernel(stub_trap, one, one, NULL, 0, s));
    OK(cudaStreamAddCallback(s, concurrent_told, &seen, 0));
    OK(cudaLaunchHostFunc(s, concurrent_look, &not_called));
    concurrent_step(p, 0, s);
    OK(cudaStreamSynchronize(t)); /* nothing has failed yet */
    p[5] = 1;
    EXPECT(cudaErrorLaunchFailure, cudaStreamSynchronize(s));
    WANT(seen.n == 1 && seen.status == cudaErrorLaunchFailure);
    WANT(not_called.n == 0 && p[0] == 0);
    EXPECT(cudaErrorLaunchFailure, cudaStreamSynchronize(t)); /* the device is dead */
    EXPECT(cudaErrorLaunchFailure, cudaMalloc((void **)&p, 4));
}

/* ---- many ---- */

enum { THREADS = 8, ROUNDS = 60 };
static unsigned *shared_words;

static void *one_thread(void *arg)
{
    unsigned *p = shared_words + 2 * (intptr_t)arg;
    cudaStream_t s = concurrent_stream(cudaStreamNonBlocking);
    for (unsigned i = 0; i < ROUNDS; i++) {
        concurrent_step(p, i, s);
        if (i % 16 == 15)
            OK(cudaStreamSynchronize(s));
    }
    OK(cudaStreamDestroy(s)); /* with work in it */
    return NULL;
}

static int eight_threads_child(void *arg)
{
    pthread_t thread[THREADS];
    program_register();
    shared_words = concurrent_words(2 * THREADS);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, one_thread, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < THREADS; i++)
        WANT(shared_words[2 * i] == ROUNDS && shared_words[2 * i + 1] == 0);
    return 0;
}

static void eight_threads(void **state)
{
    dir = fresh_dir();
    assert_int_equal(in_child(eight_threads_child, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        char name[64];
        struct raw r;
        snprintf(name, sizeof name, "MemTrace-pipe-%d", i);
        assert_int_equal(raw_read(in_dir(dir, name), &r), 0);
        assert_true(r.whole == r.bytes && r.launches == ROUNDS);
        for (int k = 0; k < ROUNDS; k++)
            assert_true(r.launch[k].ended && r.launch[k].records == 2);
        snprintf(name, sizeof name, "MemTrace-pipe-%d.meta", i);
        char *text = slurp(in_dir(dir, name), NULL);
        assert_int_equal(count_lines(text, "\"ev\":\"launch\"", NULL), ROUNDS);
        assert_true(count_lines(text, "\"ev\":\"end\"", "\"complete\":true", NULL) >= 1);
        assert_int_equal(count_lines(text, "\"ev\":\"end\"", "\"complete\":false", NULL), 0);
        free(text);
    }
}

/* ---- sequence numbers ---- */

/* `seq` of the n-th line with both pieces. */
static long seq_of(const char *text, const char *a, const char *b, int n)
{
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        char copy[4096];
        size_t length = (size_t)(strchr(line, '\n') - line);
        WANT(length < sizeof copy);
        memcpy(copy, line, length);
        copy[length] = 0;
        if (strstr(copy, a) && strstr(copy, b) && n-- == 0)
            return strtol(strstr(copy, "\"seq\":") + 6, NULL, 10);
    }
    fail_msg("no line with %s and %s", a, b);
}

/* What streams and events order has ascending numbers, whenever the program asked for it. */
static void numbers_follow_the_order(void)
{
    unsigned *p = concurrent_words(8), *d, *h = concurrent_words(4);
    cudaStream_t a = concurrent_stream(cudaStreamNonBlocking), b = concurrent_stream(cudaStreamNonBlocking);
    cudaEvent_t e = concurrent_event();
    OK(cudaMalloc((void **)&d, 16));
    concurrent_meet(p, 4, 5, 1, a);
    OK(cudaMemsetAsync(d, 1, 16, a));
    OK(cudaMemcpyAsync(h, d, 16, cudaMemcpyDeviceToHost, a));
    OK(cudaEventRecord(e, a));
    OK(cudaStreamWaitEvent(b, e, 0));
    concurrent_step(h, 0x01010101, b); /* reads what the copy wrote */
    concurrent_until(p + 4, 1);
    OK(cudaMemcpy(d, d + 2, 8, cudaMemcpyDeviceToDevice)); /* ordered with nothing: now */
    p[5] = 1;
    OK(cudaStreamSynchronize(b));
    WANT(h[0] == 0x01010102 && h[1] == 0x01010101);
}

static int concurrent_numbers(void *arg)
{
    program_register();
    numbers_follow_the_order();
    return 0;
}

static void numbers_in_files(void **state)
{
    dir = fresh_dir();
    assert_int_equal(in_child(concurrent_numbers, NULL), 0); /* the companions are whole when it has ended */
    char *text = slurp(in_dir(dir, "MemTrace-pipe-0.meta"), NULL);
    char *other = slurp(in_dir(dir, "MemTrace-pipe-1.meta"), NULL);
    long meeting = seq_of(text, "\"ev\":\"launch\"", "meet<int>", 0);
    long between = seq_of(text, "\"ev\":\"memcpy\"", "\"d2d\"", 0);
    long set = seq_of(text, "\"ev\":\"memset\"", "", 0);
    long copy = seq_of(text, "\"ev\":\"memcpy\"", "\"d2h\"", 0);
    long record = seq_of(text, "\"ev\":\"event\"", "\"record\"", 0);
    long wait = seq_of(text, "\"ev\":\"event\"", "\"wait\"", 0);
    long read = seq_of(other, "\"ev\":\"launch\"", "step<int>", 0);
    long sync = seq_of(text, "\"ev\":\"sync\"", "\"stream\"", 0);
    assert_true(meeting < between && between < set && set < copy && copy < record && record < wait &&
                wait < read && read < sync);
    free(text);
    free(other);
}

/* ---- how the process ends ---- */

static int leaves_work(void *how)
{
    program_register();
    unsigned *p = concurrent_words(8);
    cudaStream_t s = concurrent_stream(0);
    for (unsigned i = 0; i < 50; i++)
        concurrent_step(p, i, s);
    if (*(const char *)how == 's') { /* stuck */
        concurrent_meet(p, 4, 5, 1, s);
        concurrent_step(p, 50, s);
        concurrent_step(p, 51, s);
    }
    return 0;
}

static void exit_with_work(void **state)
{
    struct raw r;
    dir = fresh_dir();
    assert_int_equal(in_child(leaves_work, "all"), 0);
    assert_int_equal(raw_read(in_dir(dir, "MemTrace-pipe-0"), &r), 0);
    assert_true(r.launches == 50 && r.whole == r.bytes);
    char *text = slurp(in_dir(dir, "MemTrace-pipe-0.meta"), NULL);
    assert_int_equal(count_lines(text, "\"ev\":\"end\"", "\"complete\":true", NULL), 1);
    free(text);
    /* what can never end does not keep the process */
    dir = fresh_dir();
    assert_int_equal(in_child(leaves_work, "stuck"), 0);
    text = slurp(in_dir(dir, "MemTrace-pipe-0.meta"), NULL);
    assert_int_equal(count_lines(text, "\"ev\":\"launch\"", "step<int>", NULL), 50);
    assert_int_equal(count_lines(text, "\"ev\":\"end\"", "\"complete\":false", NULL), 1);
    assert_int_equal(count_lines(text, "\"ev\":\"lost\"", "3 launches", NULL), 1);
    free(text);
}

/* A child of a process with work in its streams has none of it, and can work itself. */
TEST(fork_with_work)
{
    unsigned *p = concurrent_words(8);
    cudaStream_t s = concurrent_stream(cudaStreamNonBlocking);
    int status;
    concurrent_meet(p, 4, 5, 1, s);
    concurrent_step(p, 0, s);
    concurrent_until(p + 4, 1);
    pid_t pid = fork();
    if (pid == 0) {
        unsigned *q = concurrent_words(2);
        OK(cudaStreamQuery(s));
        concurrent_step(q, 0, s);
        OK(cudaDeviceSynchronize());
        _exit(q[0] == 1 ? 0 : 4);
    }
    WANT(waitpid(pid, &status, 0) == pid && status == 0);
    p[5] = 1;
    OK(cudaStreamSynchronize(s));
    WANT(p[0] == 1 && p[1] == 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_wait_for_each_other),
        cmocka_unit_test(host_and_kernel),
        cmocka_unit_test(legacy_stream),
        cmocka_unit_test(order_by_stream_and_events),
        cmocka_unit_test(host_functions),
        cmocka_unit_test(errors_come_later),
        cmocka_unit_test(eight_threads),
        cmocka_unit_test(numbers_in_files),
        cmocka_unit_test(exit_with_work),
        cmocka_unit_test(fork_with_work),
    };
    program_streams = 1;
    if (argc > 1)
        setenv("MEMTRACE_CPU_THREADS", argv[1], 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
