/* mt-shared: what it found, and how that comes out. */
#ifndef MT_CLI_SHARED_H
#define MT_CLI_SHARED_H
#include "analysis/onchip/onchip.h"
#include "cli/base/cli.h"

struct mt_json;

struct mt_shared {
    struct mt_inputs inputs;
    struct mt_filter filter;
    struct mt_source *source;
    struct mt_onchip found;
    uint64_t top; /* rows of a table */
    int complete; /* as of mt_inputs_finish */
};

/* 0, or -1 without memory. */
int mt_shared_text(FILE *f, const struct mt_shared *x);
/* 0, or -1 with j->error. */
int mt_shared_json(struct mt_json *j, const struct mt_shared *x);
#endif
