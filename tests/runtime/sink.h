/* For tests of what goes through a sink. */
#ifndef TEST_RUNTIME_SINK_H
#define TEST_RUNTIME_SINK_H
#include "trace/sink.h"
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
#endif
