/* Tests that run in a process of their own: streams are numbered from 0 there, errors stay there.
 * Include it last. */
#ifndef TEST_RUNTIME_CHILD_H
#define TEST_RUNTIME_CHILD_H
#include "api.h"
#include "program.h"
#include "util.h"
#include <unistd.h>

static const char *dir;
#define TEST(name)                                                                                           \
    static void name##_body(void);                                                                           \
    static int name##_child(void *arg)                                                                       \
    {                                                                                                        \
        program_register();                                                                                  \
        name##_body();                                                                                       \
        return 0;                                                                                            \
    }                                                                                                        \
    static void name(void **state)                                                                           \
    {                                                                                                        \
        dir = fresh_dir();                                                                                   \
        assert_int_equal(in_child(name##_child, NULL), 0);                                                   \
    }                                                                                                        \
    static void name##_body(void)

/* cmocka's failures cannot leave the child: end it. */
#undef fail_msg
#define fail_msg(...) (fprintf(stderr, __VA_ARGS__), fputs("\n", stderr), _exit(3))
#define WANT(x) ((x) ? (void)0 : fail_msg("%s:%d: %s", __FILE__, __LINE__, #x))
#undef EXPECT
#define EXPECT(code, call)                                                                                   \
    do {                                                                                                     \
        cudaError_t got_ = (call), want_ = (code);                                                           \
        if (got_ != want_)                                                                                   \
            fail_msg("%s:%d: %s: %s instead of %s", __FILE__, __LINE__, #call, cudaGetErrorName(got_),       \
                     cudaGetErrorName(want_));                                                               \
        if (want_ && want_ != cudaErrorNotReady)                                                             \
            WANT(cudaGetLastError() == want_);                                                               \
    } while (0)
#endif
