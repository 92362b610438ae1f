/* mt-compare --volumes: what two runs moved, side by side. */
#ifndef MT_CLI_VOLUMES_H
#define MT_CLI_VOLUMES_H
#include "cli/base/cli.h"

struct mt_volumes {
    const struct mt_inputs *inputs; /* two paths; with companions of their own */
    const struct mt_filter *filter;
    struct mt_output *out;
    int json;
};
/* An exit code. */
int mt_volumes_run(const struct mt_volumes *v);
#endif
