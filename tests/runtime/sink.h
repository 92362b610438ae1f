/* For tests of what goes through a sink. */
#ifndef TEST_RUNTIME_SINK_H
#define TEST_RUNTIME_SINK_H
#include "trace/trace.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static inline struct mt_sink *open_ok(const char *path)
{
    char why[512] = "";
    struct mt_sink *s = mt_sink_open(path, why, sizeof why);
    if (!s)
        fail_msg("%s", why);
    return s;
}

static inline int sink_begin(struct mt_sink *s, const char *kernel)
{
    struct mt_launch_line l = {.kernel = kernel};
    return mt_sink_ops.begin(s, &l);
}

/* Records of the launch that are in the file. */
static inline uint64_t sink_end(struct mt_sink *s)
{
    uint64_t bytes, n = mt_sink_ops.end(s, &bytes);
    assert_int_equal(bytes, 24 * n);
    return n;
}
#endif
