/* Cases of test_path: contexts and devices that cannot be traced, errors that a device has for good. */
#include "path.h"
#include "gpu/cuda.h"
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

/* Kernels in a context of cuCtxCreate would write to rings that are not in it: they run without, said and
 * counted. What runs in the primary context before and after is traced. */
void other_context(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k[4];
    size_t n;
    unsigned missed = fake_missed(t);
    mt_cuda()->SetDevice(16);
    for (unsigned i = 0; i < 4; i++) {
        k[i] = (struct kernel){.name = "k", .ctas = 2, .accesses = 9, .seed = 80 + i};
        fake_context = i % 2 ? &k[i] : fake_primary;
        fake_primary_active = i < 3; /* a program that has no other than its own */
        launch(&k[i], s, t, cudaSuccess);
        assert_int_equal(k[i].context != NULL, i % 2 == 0);
    }
    assert_non_null(strstr(fake_report, "cuCtxCreate"));
    assert_null(mt_gpu()->node_new());
    fake_context = NULL;
    fake_primary_active = 1;
    sync_stream(s, t);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 2);
    check(&k[0], &got[0]);
    check(&k[2], &got[1]);
    assert_int_equal(fake_missed(t), missed + 2);
    assert_int_equal(fake_retained, 0); /* what is asked for is given back */
    mt_cuda()->SetDevice(0);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* A device that had no memory for rings is tried again when it was reset. */
void not_set_up(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "k", .ctas = 1, .accesses = 9, .seed = 90};
    size_t n;
    mt_cuda()->SetDevice(17);
    fake_no_memory = 1;
    launch(&k, s, t, cudaSuccess);
    assert_null(k.context);
    assert_non_null(strstr(fake_report, "GPU 17 cannot be traced"));
    fake_no_memory = 0;
    launch(&k, s, t, cudaSuccess);
    assert_null(k.context);
    fake_stream_wait(s);
    mt_gpu()->reset();
    launch(&k, s, t, cudaSuccess);
    assert_non_null(k.context);
    sync_stream(s, t);
    check(&k, fake_trace_launches(t, &n));
    assert_int_equal(n, 1);
    assert_int_equal(fake_missed(t), 2);
    mt_cuda()->SetDevice(0);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* Does a launch end when a wait returns this error? */
static int errors_ends(cudaError_t e)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "held", .ctas = 1, .accesses = 3, .seed = 5};
    sem_t hold;
    size_t n;
    sem_init(&hold, 0, 0);
    fake_stream_run(s, hold_up, &hold);
    launch(&k, s, t, cudaSuccess);
    synced(s, t, e);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    int ended = n == 1 && got->line.status == (int)e;
    sem_post(&hold);
    fake_stream_wait(s);
    sync_stream(s, t);
    fake_stream_free(s);
    fake_trace_free(t);
    return ended;
}

/* codes: those that are final by CUDA's header, "of", all. */
int check_errors(char **codes)
{
    char **of = codes;
    int bad = 0;
    while (*of && strcmp(*of, "of"))
        of++;
    for (char **all = *of ? of + 1 : of; *all; all++) {
        int e = atoi(*all), final = e == cudaErrorECCUncorrectable || e == cudaErrorNvlinkUncorrectable;
        for (char **c = codes; c < of; c++)
            final |= atoi(*c) == e;
        if (errors_ends((cudaError_t)e) != final) {
            print_message("error %d: %s\n", e,
                          final ? "what is under way waits on" : "the launch was given up");
            bad = 1;
        }
    }
    return bad || of == codes || !*of;
}
